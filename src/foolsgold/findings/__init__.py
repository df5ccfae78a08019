"""Checks: rules on recipes, mined sets, runs of training and models; and the checklist before production."""

from foolsgold.findings.finding import Finding, Findings, Unchecked
from foolsgold.findings.linter import check
from foolsgold.findings.readiness import Answer, checklist
from foolsgold.findings.rules import RULES

__all__ = ["RULES", "Answer", "Finding", "Findings", "Unchecked", "check", "checklist"]
