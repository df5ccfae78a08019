"""How good a mined set is: numbers with limits, and a page to read."""

from foolsgold.audit.gates import Gate
from foolsgold.audit.metrics import Audit, audit
from foolsgold.audit.report import write_report

__all__ = ["Audit", "Gate", "audit", "write_report"]
