"""`audit`: measure a mined set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.auditing.composition import by_source, hubs_of, overlap
from foolsgold.auditing.gates import gates
from foolsgold.auditing.leakage import Leakage, leakage_of
from foolsgold.auditing.margins import Margins, Scores, in_unit
from foolsgold.auditing.metrics import Audit
from foolsgold.auditing.subject import Subject
from foolsgold.auditing.texts import lengths_of, near_duplicate_share
from foolsgold.collection import Collection
from foolsgold.errors import FoolsgoldError, MinedSetError
from foolsgold.recipe import ExcludeSpec
from foolsgold.records import Scale

LOW = 0.1  # the share of negatives below `Audit.low_margin`


def audit(mined: Subject) -> Audit:
    """Measure a set.

    Raises:
        MinedSetError: its tables cannot be read, or do not belong together.
    """
    negatives, queries, manifest = mined.negatives, mined.queries, mined.manifest
    sources = list(manifest.sources)
    counts = queries["selected"].to_numpy()
    if counts.sum() != len(negatives):
        raise MinedSetError(
            f"{mined.path}: queries.parquet counts {counts.sum():,} negatives, negatives.parquet has "
            f"{len(negatives):,}; mine the set again"
        )
    scale = manifest.teacher.scale if manifest.teacher else None
    scores = Scores.of(negatives, scale) if scale is not None else None
    margins = Margins.of(scores) if scores else None
    shortfall = queries["shortfall"].to_numpy()
    ranks = mined.ledger_batches([f"{source}_rank" for source in sources])
    measured = Audit(
        negatives=len(negatives),
        queries=len(queries),
        fill_rate=float(np.mean(shortfall == 0)) if len(shortfall) else 0.0,
        mean_margin=margins.mean if margins and scale != "cosine" else None,
        low_margin=float(np.quantile(scores.margin, LOW)) if scores and scale != "cosine" else None,
        inverted_share=margins.inverted_share if margins else None,
        short=int(np.count_nonzero(shortfall)),
        missing=int(shortfall.sum()),
        empty=int(np.count_nonzero(counts == 0)),
        per_query=tuple(np.bincount(counts).tolist()),
        score_unit=scores.scale if scores else None,
        margins=margins,
        sources=by_source(negatives, sources, scores),
        overlap=overlap(ranks, sources),
        hubs=hubs_of(negatives),
        **_of_positives(queries, scale, mined.limits.on_teacher.get("negative_below")),
        **_of_texts(mined, counts, scale),
    )
    return replace(measured, gates=gates(measured, manifest.recipe.audit))


def _of_positives(queries: pa.Table, scale: Scale | None, threshold: float | None) -> dict[str, Any]:
    """The teacher's scores of the positives that margins are measured from; threshold: negative_below, if on them."""
    scores = pc.drop_null(queries["positive_score"]).to_numpy()
    if scale is None or not len(scores):
        return {"median_positive": None, "low_positive_share": None}
    positive = in_unit(scores, scale)
    low = scores < threshold if threshold is not None else positive < 0 if scale != "cosine" else None
    return {
        "median_positive": float(np.median(positive)),
        "low_positive_share": None if low is None else float(np.mean(low)),
    }


def _of_texts(mined: Subject, counts: Any, scale: Scale | None) -> dict[str, Any]:
    """What needs the collection, and notes on what could not be had."""
    notes = []
    if scale is None:
        notes.append("no teacher scored this set: its margins are not known")
    elif scale == "probability":
        notes.append("margins are in logits, converted from the teacher's probabilities")
    elif scale == "cosine":
        notes.append("the teacher gives cosines: margins are differences of cosines, and have no gate")
    unknown = {"lengths": None, "near_duplicate_share": None, "leakage": None}
    try:
        collection = mined.collection
    except FoolsgoldError as error:
        notes.append(f"lengths, near-duplicates and leakage are not known: {error}")
        return unknown | {"notes": tuple(notes)}
    documents = collection.documents
    rows = documents.rows_of(mined.negatives["doc_id"])
    threshold = mined.manifest.recipe.exclude.near_duplicate or ExcludeSpec.model_fields["near_duplicate"].default
    leakage, note = _leakage(mined, collection)
    return {
        "lengths": lengths_of(documents, rows, documents.rows_of(mined.positives["doc_id"])),
        "near_duplicate_share": near_duplicate_share(documents, rows, counts, threshold),
        "leakage": leakage,
        "notes": (*notes, *note),
    }


def _leakage(mined: Subject, collection: Collection) -> tuple[Leakage | None, list[str]]:
    """Other splits are looked at in passing: a broken one must not cost the set that was mined."""
    try:
        leakage = leakage_of(mined.negatives, collection, mined.manifest.recipe.collection)
    except (FoolsgoldError, OSError) as error:
        return None, [f"leakage is not known: {error}"]
    return leakage, [] if leakage else ["leakage is not known: there are no other splits with qrels to look into"]
