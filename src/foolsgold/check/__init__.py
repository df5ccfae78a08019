"""`check`: a linter of recipes, mined sets and runs of training; and the checklist before production."""

from foolsgold.check.checklist import Answer, checklist
from foolsgold.check.linter import check
from foolsgold.check.rule import Finding, Findings, Unchecked
from foolsgold.check.rules import RULES

__all__ = ["RULES", "Answer", "Finding", "Findings", "Unchecked", "check", "checklist"]
