"""A TREC run: query id, Q0, document id, rank, score, tag. Only written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from foolsgold.errors import MinedSetError
from foolsgold.exchange.formats.writing import Exported, Options, Writer, scaled_examples, scores_of
from foolsgold.exchange.rows import rows_of
from foolsgold.mined.mined_set import MinedSet
from foolsgold.sources.run import write_run


def _write(mined: MinedSet, out: Path, options: Options) -> Exported:
    """A TREC run of the negatives, by the teacher's logit, or without a teacher by the order of selection."""
    scored = mined.manifest.teacher is not None

    def lists() -> Iterator[tuple[str, list[tuple[str, float]]]]:
        found = scaled_examples(mined)
        for row in rows_of(found.keep(found.first), mined.collection, negatives=options.negatives, one_positive=True):
            scores = scores_of(row.negatives) if scored else [float(-place) for place in range(len(row.negatives))]
            yield row.query_id, [(passage.doc_id, score) for passage, score in zip(row.negatives, scores, strict=True)]

    if mined.manifest.recipe.decide.positive_reference == "each":
        raise MinedSetError(f"{mined.path}: mined for each positive apart, but a run has one list per query")
    return Exported(out, write_run(out, lists()), ())


WRITER = Writer(_write, ".trec", "anything that reads TREC runs", ("scores",))
