"""check(recipe, set, run or model) -> Findings: every rule, on every part of what is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foolsgold.errors import FoolsgoldError, nearest
from foolsgold.findings.finding import Finding, Findings, Unchecked
from foolsgold.findings.rules import RULES, Rule
from foolsgold.findings.subject import open_subject
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
        select, ignore: codes, or what several begin with (FG01). Empty: all, and none.
        measure: run teacher and student on up to 100 held-out queries, which FG005 needs.
        values: fields of the recipe to replace, by their paths, as in `Recipe.with_values`: what a set is to train is
            {"student.model": ...}.
        progress: where reading and running models report to.
        cache: the folder of the stores of embeddings and teacher scores.

    Raises:
        FoolsgoldError: nothing to check is there, or it cannot be read; an unknown code.
    """
    rules = _chosen(tuple(select), tuple(ignore))
    main = open_subject(thing, values, measure=measure, progress=progress, cache=cache)
    said = [
        one
        for rule in rules
        for subject in ((main, *main.sets) if rule.reads_sets else (main,))
        for one in rule.check(subject)
    ]
    once = list(dict.fromkeys(said))
    return Findings(
        [one for one in once if isinstance(one, Finding)], [one for one in once if isinstance(one, Unchecked)]
    )


def rule_of(code: str) -> Rule:
    """The rule of a code, in any case.

    Raises:
        FoolsgoldError: there is no such rule.
    """
    known = {rule.code: rule for rule in RULES}
    if code.upper() not in known:
        near = nearest(code.upper(), known)
        hint = f"did you mean {near}?" if near else f"they are {RULES[0].code} to {RULES[-1].code}"
        raise FoolsgoldError(f"{code}: no rule has this code; {hint}")
    return known[code.upper()]


def _chosen(select: tuple[str, ...], ignore: tuple[str, ...]) -> list[Rule]:
    """The rules whose codes begin with one of `select` (all where that is empty), except those of `ignore`."""
    for code in (*select, *ignore):
        if not any(rule.code.startswith(code.upper()) for rule in RULES):
            rule_of(code)
    wanted, unwanted = (tuple(code.upper() for code in codes) for codes in (select or ("FG",), ignore))
    return [rule for rule in RULES if rule.code.startswith(wanted) and not rule.code.startswith(unwanted)]
