"""check(recipe, set, run or model) -> Findings: every rule, on every part of what is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foolsgold.findings.rule import Fault, Finding, Findings, Unchecked
from foolsgold.findings.rules import chosen
from foolsgold.findings.subject import open_subjects
from foolsgold.progress import SILENT, Progress


def check(
    thing: Any,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    measure: bool = False,
    values: Mapping[str, Any] | None = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
) -> Findings:
    """Look for what makes mining and training worse than they could be.

    Nothing is written and no model is downloaded. A rule that cannot be decided from what is there is in `unchecked`,
    with the reason, and never guessed.

    Args:
        thing: a recipe (a Recipe, its plain values, or a YAML file), a mined set (a MinedSet or its folder), or a run
            of training or its model (a Trained or a folder); of a folder of sets or runs, the newest.
        select, ignore: codes, or what several begin with (FG01); null: all, and none.
        measure: run teacher and student on up to 100 held-out queries, which FG005 needs.
        values: fields of the recipe to replace, by their paths, as in `Recipe.with_values`: what a set is to train is
            {"student.model": ...}.
        progress: where reading and running models report to.
        cache: the folder of the stores of embeddings and teacher scores.

    Raises:
        FoolsgoldError: nothing to check is there, or it cannot be read; an unknown code.
    """
    rules = chosen(tuple(select), tuple(ignore))
    subjects = open_subjects(
        thing, values or {}, measure=measure, progress=progress, cache=None if cache is None else Path(cache)
    )
    found: dict[Finding, None] = {}
    unchecked: dict[Unchecked, None] = {}
    for rule in rules:
        for subject in subjects if rule.reads_sets else subjects[:1]:
            for said in rule.look(subject):
                if isinstance(said, Fault):
                    found[Finding(rule.code, rule.level, f"{subject.place}: {said.at}", said.said, rule.fix)] = None
                else:
                    unchecked[Unchecked(rule.code, subject.place, said.why)] = None
    return Findings(found, unchecked)
