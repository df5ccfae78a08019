"""What a block's candidates are compared by, under the names of the ledger's columns."""

from __future__ import annotations

import numpy as np

from foolsgold.mining.run import Run
from foolsgold.mining.units import Units
from foolsgold.records import Column, IntArray, Pool


def comparisons(run: Run, pool: Pool, unit: IntArray, units: Units, cosine: Column) -> dict[str, Column]:
    """All that is known of candidates before a teacher reads them; each float32 or int32 (n).

    Args:
        pool: the n candidates; unit: int32 (n), which of `units` each is one for.
        cosine: float32 (n), with the nearest known positive.
    """
    columns = {f"{name}_rank": rank for name, rank in pool.ranks.items()}
    columns |= {f"{name}_score": score for name, score in pool.scores.items()}
    columns["positive_score"] = units.score.take(unit)
    for name, score in pool.scores.items():
        positive = units.by_source[name].take(unit)
        columns[f"{name}_gap"] = Column(score.values - positive.values, score.valid & positive.valid)
    columns["positive_similarity"] = _above_chance(run, cosine)
    return columns


def _above_chance(run: Run, cosine: Column) -> Column:
    """Cosines so that 1 is the same passage and 0 any other: as they are, no two models' can be compared."""
    if run.dense is None:
        return cosine
    share = (cosine.values - run.unrelated) / max(1 - run.unrelated, 1e-6)
    return Column(share.astype(np.float32), cosine.valid)
