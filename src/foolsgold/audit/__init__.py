"""How good a mined set is, in numbers with limits."""

from foolsgold.audit.metrics import Audit, Gate, audit

__all__ = ["Audit", "Gate", "audit"]
