"""calibrate(labels, collection, recipe) -> Calibration: thresholds from labels.

labels -> score each labelled pair as mining would -> fit, cross-validated by query -> threshold -> calibration.json
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.calibration import Calibration
from foolsgold.calibration.fit import Labelled, fit
from foolsgold.calibration.labels import Label, read_labels
from foolsgold.collection import Collection, load_collection
from foolsgold.collection.lines import Problems
from foolsgold.errors import CollectionError, RecipeError
from foolsgold.files import cache_folder
from foolsgold.mining.comparisons import comparisons
from foolsgold.mining.exclusion import nearest_positive
from foolsgold.mining.mine import resolved
from foolsgold.mining.retrieve import retrieve
from foolsgold.mining.run import Run
from foolsgold.mining.signal import build_signal
from foolsgold.mining.units import units_of
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import Recipe
from foolsgold.records import BoolArray, Column, IntArray, Pool, pair_keys
from foolsgold.sources.build import build_sources
from foolsgold.teachers.calibrated import MadeBy
from foolsgold.teachers.plain import PlainTeacher
from foolsgold.teachers.protocol import Teacher
from foolsgold.teachers.signals import CandidateScores

log = logging.getLogger(__name__)

FEWEST = 10  # labels of each kind; with fewer a fit would follow single pairs
_HEEDED = ("collection", "retriever", "teacher", "sources", "seed")  # and decide.positive_reference


def calibrate(
    labels: str | Path | None = None,
    collection: Any = None,
    recipe: Recipe | Mapping[str, Any] | str | Path | None = None,
    *,
    out: str | Path | None = "calibration.json",
    max_false_negative_rate: float = 0.02,
    teacher: Any = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
    **sections: Any,
) -> Calibration:
    """Fit the probability that a candidate is relevant to labelled pairs, and choose the threshold.

    Args:
        labels: a file of query id, document id and label (`calibration.labels.read_labels`). None: the collection's own
            judgements, of which each query then keeps its best-graded passage as the one known positive.
        collection: as `mine` takes it; None for the recipe's own.
        recipe: what the pairs are scored with: its teacher and its sources. As `mine` takes it.
        out: where calibration.json is written; None for nowhere.
        max_false_negative_rate: the share of relevant pairs that negatives may have, above 0; the threshold keeps
            Wilson's upper bound (one-sided, 95 %) of it.
        teacher: in place of the recipe's: a model's name, its settings, or any object with `score(pairs)` and `scale`.
        progress, cache, sections: as `mine` takes them; of sections, those that scores depend on (`check_heeded`).

    Raises:
        CollectionError: labels that cannot be used, each with its line.
        FoolsgoldError: bad input, one sentence.
    """
    if not 0.0 < max_false_negative_rate < 1.0:
        raise RecipeError(f"max_false_negative_rate is {max_false_negative_rate}; it is a share above 0 and below 1")
    if out is not None and labels is not None and Path(out).resolve() == Path(labels).resolve():
        raise RecipeError(f"{out}: the calibration would be written over the labels; name another file")
    check_heeded(sections)
    own_teacher = None
    if isinstance(teacher, str | Mapping):
        sections["teacher"] = teacher
    elif teacher is not None:
        own_teacher = PlainTeacher(teacher)
        sections["teacher"] = {"model": own_teacher.name}
    recipe = resolved(Recipe() if recipe is None else recipe, sections)
    # what a recipe decides is not asked here, and a pair is compared with one positive
    reference = recipe.decide.positive_reference
    decide = {"positive_reference": "min" if reference == "each" else reference}
    recipe = recipe.with_values({"decide": decide, "relabel": False})
    if recipe.teacher is None:
        raise RecipeError("teacher: the recipe has none, and a teacher's scores are what is calibrated; name one")
    if collection is None and recipe.collection is None:
        raise CollectionError("no collection: give one, or a recipe with a `collection` section")
    loaded = load_collection(recipe.collection if collection is None else collection, progress=progress)
    store = cache_folder(cache)
    pairs = judged_pairs(loaded) if labels is None else _labelled_pairs(Path(labels), loaded)
    for note in pairs.notes:
        log.info("%s", note)
    pairs.check(str(labels) if labels is not None else f"{loaded.name}, split {loaded.split}")
    labelled = score_pairs(pairs, recipe, own_teacher, store, progress)
    found = fit(labelled, str(out or "calibration"), max_false_negative_rate, recipe.seed)
    if out is not None:
        found.save(Path(out))
    return found


def check_heeded(values: Mapping[str, Any]) -> None:
    """Refuse to change what a calibration does not depend on. values: of a recipe, by section or dotted field.

    Raises:
        RecipeError: one of them is what a recipe does with candidates once they are scored, or how it trains.
    """
    for field, value in values.items():
        section, _, rest = field.partition(".")
        fields = {rest} if rest else set(value) if isinstance(value, Mapping) else {""}
        if section not in _HEEDED and not (section == "decide" and fields <= {"positive_reference"}):
            raise RecipeError(
                f"{field}: a calibration does not depend on it; leave it out. What it can change is "
                f"{', '.join(_HEEDED)} and decide.positive_reference"
            )


@dataclass(frozen=True)
class Pairs:
    """n labelled pairs: query and document rows, int32 (n), by query; whether relevant, bool (n); notes.

    collection: has the queries of the pairs, and no others need be read for them.
    """

    collection: Collection
    query: IntArray
    doc: IntArray
    relevant: BoolArray
    notes: tuple[str, ...] = ()

    def check(self, where: str) -> None:
        """Refuse labels that are too few, before they are scored.

        Raises:
            CollectionError: one label only, or too few of one.
        """
        relevant, others = int(self.relevant.sum()), int((~self.relevant).sum())
        if min(relevant, others) < FEWEST:
            raise CollectionError(
                f"{where}: {relevant:,} relevant and {others:,} not relevant pairs to learn from (beside known "
                f"positives); at least {FEWEST} of each are needed, and 100 pairs are enough to start"
            )


def judged_pairs(collection: Collection) -> Pairs:
    """The judgements of a collection as labelled pairs; each query's best passage becomes its only known positive.

    Of equal grades the first in the corpus is the best. Neither it nor a copy of it is among the pairs: a pair that is
    compared with itself would always be relevant.

    Raises:
        CollectionError: nothing was judged not relevant.
    """
    query, doc, grade = collection.judged_query, collection.judged_doc, collection.grade
    relevant = np.asarray(grade >= collection.relevant_from)
    if relevant.all():
        raise CollectionError(
            f"{collection.name}, split {collection.split}: every judged document is relevant, and labels of both kinds "
            "are needed; name a file of labels, or set relevant_from higher"
        )
    order = np.lexsort((doc, -grade, query))
    _, first = np.unique(query[order], return_index=True)
    best = order[first]
    passage = collection.documents.passage[doc]
    other = passage != passage[best][query]
    kept = replace(collection, judged_query=query[best], judged_doc=doc[best], grade=grade[best], spec=None)
    return Pairs(kept, query[other], doc[other], relevant[other])


def _labelled_pairs(path: Path, collection: Collection) -> Pairs:
    """The pairs of a file of labels. Those that are known positives, or copies of them, are left out and counted."""
    labels, notes = read_labels(path, collection.relevant_from)
    queries = collection.queries.find(label.query_id for label in labels)
    documents = collection.documents.find(label.doc_id for label in labels)
    problems = Problems(path)
    for label in labels:
        if label.query_id not in queries:
            problems.add(
                label.line, f"query {label.query_id!r} is not one of {collection.name}, or has no positive there"
            )
        elif label.doc_id not in documents:
            problems.add(label.line, f"document {label.doc_id!r} is not in the corpus of {collection.name}")
    problems.check()
    asked = np.unique([queries[label.query_id] for label in labels])
    # only the labelled queries' positives are scored
    mine = np.flatnonzero(np.isin(collection.judged_query, asked))
    kept = replace(
        collection,
        queries=collection.queries.subset(asked),
        judged_query=np.searchsorted(asked, collection.judged_query[mine]).astype(np.int32),
        judged_doc=collection.judged_doc[mine],
        grade=collection.grade[mine],
        spec=None,
    )
    query, doc, relevant = _arrays(
        labels, {asked_id: int(np.searchsorted(asked, row)) for asked_id, row in queries.items()}, documents
    )
    passage = kept.documents.passage
    offsets, answers = kept.answers
    owner = np.repeat(np.arange(len(kept.queries), dtype=np.int32), np.diff(offsets))
    known = np.isin(pair_keys(query, passage[doc]), pair_keys(owner, passage[answers]))
    if known.any():
        notes.append(f"{path.name}: labelled pairs that are known positives: {int(known.sum()):,}, left out")
    return Pairs(kept, query[~known], doc[~known], relevant[~known], tuple(notes))


def _arrays(
    labels: Sequence[Label], queries: Mapping[str, int], documents: Mapping[str, int]
) -> tuple[IntArray, IntArray, BoolArray]:
    rows = sorted((queries[label.query_id], documents[label.doc_id], label.relevant) for label in labels)
    query, doc, relevant = zip(*rows, strict=True)
    return np.array(query, dtype=np.int32), np.array(doc, dtype=np.int32), np.array(relevant, dtype=np.bool_)


def score_pairs(
    pairs: Pairs, recipe: Recipe, own_teacher: Teacher | None, cache: Path, progress: Progress = SILENT
) -> Labelled:
    """What mining with a recipe that has a teacher would know of some pairs."""
    assert recipe.teacher is not None
    sources = build_sources(recipe, pairs.collection, cache)
    signal = build_signal(recipe, pairs.collection, sources, own_teacher, cache, progress)
    run = Run(recipe, pairs.collection, sources, signal, progress)
    first = {kind: next((n for n in sources if recipe.sources[n].kind == kind), None) for kind in ("dense", "bm25")}
    about, retriever = signal.describe(), first["dense"]
    assert about is not None

    def made_by(described: Mapping[str, str]) -> MadeBy:
        return {"model": described["model"], "fingerprint": described["fingerprint"]}

    return Labelled(
        CandidateScores(_columns(run, pairs.query, pairs.doc), retriever, first["bm25"], recipe.teacher.scale),
        pairs.relevant,
        pairs.query,
        made_by(about),
        None if retriever is None else made_by(sources[retriever].describe()),
        pairs.notes,
    )


def _columns(run: Run, query: IntArray, doc: IntArray) -> dict[str, Column]:
    """The ledger's columns of some pairs (rows): scores, gaps, likeness, and ranks where the sources found them."""
    queries = np.arange(len(run.collection.queries), dtype=np.int32)
    found = retrieve(run, queries)
    keys, place = pair_keys(found.query, found.doc), pair_keys(query, doc)
    at = np.minimum(np.searchsorted(keys, place), max(0, len(keys) - 1))
    there = keys[at] == place if len(keys) else np.zeros(len(place), dtype=np.bool_)
    scores = {name: source.score(query, doc) for name, source in run.sources.items()}
    pool = Pool(
        query=query,
        doc=doc,
        ranks={name: Column(rank.values[at], rank.valid[at] & there) for name, rank in found.ranks.items()},
        scores={
            name: Column.unknown(len(query)) if score is None else Column.known(score) for name, score in scores.items()
        },
    )
    columns = comparisons(run, pool, query, units_of(run, queries), nearest_positive(run, query, doc))
    columns["teacher_score"] = Column.known(run.signal.score(query, doc, "score labelled pairs"))
    return columns
