"""Is the teacher stronger than the student? Both order the same passages of held-out queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foolsgold.collection import Collection, load_collection
from foolsgold.evaluation.measures import Measures
from foolsgold.evaluation.result import Change
from foolsgold.files import cache_folder
from foolsgold.findings.subject import Subject
from foolsgold.mining.signal import TeacherSignal
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import Hits
from foolsgold.sources.encoded import encode_collection
from foolsgold.stores.encoders import described_encoder
from foolsgold.teachers.load import load_teacher
from foolsgold.training.job import held_out_parts

MEASURE = "nDCG@10"
QUERIES = 100  # held-out queries at most, and
DEPTH = 20  # passages of each: 2,000 pairs, under a minute of a small cross-encoder on two cores


@dataclass(frozen=True)
class Strength:
    """nDCG@10 of the student's best passages, in the student's own order and in the teacher's."""

    teacher: str
    student: str
    queries: int
    change: Change

    def __str__(self) -> str:
        one = self.change
        return (
            f"{MEASURE} {one.after:.3f} for the teacher's order and {one.before:.3f} for the student's, of the "
            f"{DEPTH} passages that {self.student} finds ({self.queries:,} held-out queries, p = {one.p_value:.3f})"
        )


def strength_of(subject: Subject, student: ModelSpec, spec: TeacherSpec) -> Strength:
    """Run both models on held-out queries of the recipe's collection.

    Vectors and scores come from the stores where they are there. A judged passage that the student does not find
    counts for neither.

    Raises:
        FoolsgoldError: a model or the collection cannot be read.
    """
    recipe = subject.recipe
    cache = cache_folder(subject.cache)
    held_out = _held_out(subject)
    encoder = described_encoder(student, cache)
    encoded = encode_collection(encoder, held_out, cache, subject.progress, student.device)
    scores, rows = encoded.nearest(min(DEPTH, len(held_out.documents)), progress=subject.progress)
    own = Hits.from_top_k(scores, rows)
    teacher = TeacherSignal(
        load_teacher(spec, recipe.retriever), spec.scale, spec.model, held_out, cache, subject.progress,
    )  # fmt: skip
    query = np.repeat(np.arange(len(rows), dtype=np.int32), rows.shape[1])
    judged = teacher.score(query, own.rows, "score held-out pairs")
    order = np.lexsort((np.arange(len(query)), -judged, query))
    theirs = Hits(own.offsets, own.rows[order], judged[order])
    measures = Measures([MEASURE], held_out.relevant_from)
    before, after = (measures.score(hits, held_out)[MEASURE] for hits in (own, theirs))
    change = Change.of(before, after - before, recipe.seed)
    return Strength(spec.model, student.model, len(held_out.queries), change)


def _held_out(subject: Subject) -> Collection:
    """Some of the queries that a run of this recipe is evaluated on, spread evenly."""
    recipe = subject.recipe
    spec = recipe.collection
    if spec is not None and spec.part == "train" and recipe.evaluation.split is None:  # a run's own recipe
        held_out = load_collection(spec.model_copy(update={"part": "held_out"}), progress=subject.progress)
    else:
        _, held_out = held_out_parts(recipe, None, subject.progress)
    size = len(held_out.queries)
    return held_out.with_queries(np.unique(np.linspace(0, size - 1, min(size, QUERIES)).astype(np.int64)))
