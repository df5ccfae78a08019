"""How good a mined set is: numbers with limits, and a page to read."""

from foolsgold.auditing.measure import audit
from foolsgold.auditing.metrics import Audit, Gate
from foolsgold.auditing.report import write_report

__all__ = ["Audit", "Gate", "audit", "write_report"]
