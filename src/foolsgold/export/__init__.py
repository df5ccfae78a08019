"""Mined sets for other trainers."""

from foolsgold.export.export import FORMS, Exported, Target, export

__all__ = ["FORMS", "Exported", "Target", "export"]
