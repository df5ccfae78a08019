"""What the negatives are made of: sources, ranks, and documents that come again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.auditing.margins import Margins, Scores

BAND_ENDS = (10, 20, 50, 100)  # ranks, counted from 1
BANDS = ("1-10", "11-20", "21-50", "51-100", "101+")

# Hubs of nearest-neighbour lists (Radovanovic, Nanopoulos and Ivanovic, Hubs in Space, JMLR 2010) are told by how far
# they are above the mean. That is at least 1 here, so that a hub has ten queries at least.
_HUB_TIMES_MEAN = 10
_HUBS_NAMED = 10


@dataclass(frozen=True)
class SourceShare:
    """The negatives that fill one source's quota.

    share: of all negatives; bands: share of this source's negatives by its rank, in `BANDS`; margins: None without a
    teacher.
    """

    negatives: int
    share: float
    bands: tuple[float, ...]
    margins: Margins | None


@dataclass(frozen=True)
class Hub:
    """A document that is a negative for many queries."""

    doc_id: str
    queries: int


@dataclass(frozen=True)
class Hubs:
    """Documents that are a negative for at least 10 times as many queries as the mean negative.

    share: of the negatives that are hubs; number: how many hubs there are; most: the documents that are a negative for
    the most queries, hubs or not.
    """

    share: float
    number: int
    most: tuple[Hub, ...]


def by_source(negatives: pa.Table, sources: list[str], scores: Scores | None) -> dict[str, SourceShare]:
    """Each source's part of the negatives."""
    giver = negatives["source"].cast(pa.string())
    shares = {}
    for source in sources:
        own = negatives.filter(pc.equal(giver, source))
        rank = own[f"{source}_rank"].to_numpy()
        counts = np.bincount(np.searchsorted(BAND_ENDS, rank, side="right"), minlength=len(BANDS))
        shares[source] = SourceShare(
            negatives=len(own),
            share=len(own) / len(negatives) if len(negatives) else 0.0,
            bands=tuple((counts / max(1, len(own))).tolist()),
            margins=None if scores is None else Margins.of(scores, scores.source == source),
        )
    return shares


def overlap(ranks: Iterable[pa.RecordBatch], sources: list[str]) -> dict[str, float]:
    """Of the candidates of either source, the share that both propose (Jaccard), for each two: "bm25 & dense".

    ranks: batches of the ledger with the columns {source}_rank.
    """
    pairs = list(combinations(sources, 2))
    both, either = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0)
    for batch in ranks if pairs else ():
        found = {source: np.asarray(batch[f"{source}_rank"].is_valid()) for source in sources}
        for a, b in pairs:
            both[a, b] += int(np.count_nonzero(found[a] & found[b]))
            either[a, b] += int(np.count_nonzero(found[a] | found[b]))
    return {f"{a} & {b}": both[a, b] / either[a, b] if either[a, b] else 0.0 for a, b in pairs}


def hubs_of(negatives: pa.Table) -> Hubs:
    """For how many queries the same documents are negatives."""
    pairs = negatives.select(["query_id", "doc_id"])
    if negatives["positive_id"].null_count < len(negatives):  # with `each`, a query is there once for each positive
        pairs = pairs.group_by(["query_id", "doc_id"], use_threads=False).aggregate([])
    counted = pc.value_counts(pairs["doc_id"])
    docs, queries = counted.field("values"), np.asarray(counted.field("counts"))
    if not len(queries):
        return Hubs(0.0, 0, ())
    hub = queries >= _HUB_TIMES_MEAN * queries.mean()
    order = pc.sort_indices(counted.flatten()[1], sort_keys=[("", "descending")])[:_HUBS_NAMED]
    most = sorted(
        (Hub(doc, count) for doc, count in zip(docs.take(order).to_pylist(), queries[order].tolist(), strict=True)),
        key=lambda hub: (-hub.queries, hub.doc_id),
    )
    return Hubs(float(queries[hub].sum() / queries.sum()), int(hub.sum()), tuple(most))
