"""`check`: a linter of recipes, mined sets and runs of training; and the checklist before production."""

from foolsgold.findings.checklist import Answer, checklist
from foolsgold.findings.linter import check
from foolsgold.findings.rule import Finding, Findings, Unchecked
from foolsgold.findings.rules import RULES

__all__ = ["RULES", "Answer", "Finding", "Findings", "Unchecked", "check", "checklist"]
