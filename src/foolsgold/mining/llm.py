"""What a judge says of candidates that the teacher leaves ambiguous."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from foolsgold.errors import MissingExtra, RecipeError
from foolsgold.mining.exclusion import Candidates
from foolsgold.mining.run import Run
from foolsgold.mining.units import Units
from foolsgold.recipe import Recipe
from foolsgold.records import Column, LongArray
from foolsgold.stores.scores import ScoreStore

if TYPE_CHECKING:
    from foolsgold.teachers.llm import LlmJudge

_AT_A_TIME = 512  # triples whose texts are held at once


def build_judge(recipe: Recipe, cache: Path) -> LlmJudge | None:
    """The judge that a recipe names, if it names one.

    Raises:
        RecipeError: nothing can be ambiguous under this recipe, or the judge's key is not set.
        MissingExtra: the HTTP client is not installed.
    """
    if recipe.judge is None:
        return None
    if recipe.teacher is None or (recipe.decide.negative_below is None and recipe.decide.calibration is None):
        raise RecipeError(
            "judge: it is asked about candidates between decide.negative_below and positive_above, and without a "
            "teacher and negative_below there are none; set both, or leave the judge out"
        )
    try:
        from foolsgold.teachers.llm import LlmJudge
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise MissingExtra("llm", "a judge") from None
    return LlmJudge(recipe.judge, ScoreStore(cache / "teacher_scores.sqlite"))


def opinions(run: Run, judge: LlmJudge, candidates: Candidates, units: Units, rows: LongArray) -> Column:
    """float32 (n), above 0.5: relevant: the judge's opinion of some candidates, beside a positive of their unit.

    That is the unit's own with `positive_reference: each`, or else the query's best by the teacher.
    """
    collection, scores = run.collection, run.signal.positives.values
    positive = np.empty(len(rows), dtype=np.int32)
    for place, unit in enumerate(candidates.unit[rows].tolist()):
        first = int(collection.positive_offsets[units.query[unit]])
        last = int(collection.positive_offsets[units.query[unit] + 1])
        own = units.positive.valid[unit]
        positive[place] = (
            units.positive.values[unit] if own else collection.positive_rows[first + int(np.argmax(scores[first:last]))]
        )
    said = Column.unknown(len(rows))
    for start in range(0, len(rows), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        triples = zip(
            collection.queries.take(candidates.pool.query[rows[part]]),
            collection.documents.take(positive[part]),
            collection.documents.take(candidates.pool.doc[rows[part]]),
            strict=True,
        )
        answer = judge.judge(list(triples), run.progress)
        said.values[part], said.valid[part] = answer.values, answer.valid
    return said
