"""Sets that somebody else mined: how bad they are, and how they become mined sets."""

from foolsgold.importing.found import FileAudit, Finding, audit_file
from foolsgold.importing.importing import import_set

__all__ = ["FileAudit", "Finding", "audit_file", "import_set"]
