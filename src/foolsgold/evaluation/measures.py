"""Measures of rankings, by ir-measures (MacAvaney, Macdonald, Ounis, ECIR 2022), under the names that people write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from foolsgold.collection.collection import Collection
from foolsgold.errors import EvaluationError, nearest
from foolsgold.records import DoubleArray, Hits

MEASURES = ("nDCG@10", "MRR@10", "recall@10", "recall@100", "MAP")

_WHOLE_RANKING = 1000  # documents per query, for a measure without a cutoff: as many as TREC's runs have
_QUERIES_AT_ONCE = 256  # ir-measures takes Python dicts, with up to a thousand entries per query


class Measures:
    """Some measures, each known by the name it was asked for.

    asked: names such as nDCG@10 or recall@100, in any case, or ir_measures' own objects.
    relevant_from: the grade from which on a document is relevant, for measures that know no grades.

    Raises:
        EvaluationError: no such measure, no cutoff where one is needed, or one that cannot be computed here.
    """

    def __init__(self, asked: Iterable[Any], relevant_from: int) -> None:
        if relevant_from < 1:
            raise EvaluationError(
                f"relevant_from is {relevant_from}, and a document of grade 0 or less is relevant to no measure; load "
                "the collection with relevant_from of at least 1"
            )
        self._measures = {str(one): _measure(one, relevant_from) for one in asked}
        if not self._measures:
            raise EvaluationError(f"measures: no name given; write some of {', '.join(MEASURES)}")

    @property
    def depth(self) -> int:
        """How many documents of each query they look at, at most."""
        return max(int(measure.params.get("cutoff", _WHOLE_RANKING)) for measure in self._measures.values())

    def score(self, hits: Hits, collection: Collection) -> dict[str, DoubleArray]:
        """What each query scored, float64 (n_queries), by name.

        hits: of every query of the collection, the best first; equal scores count in the order they are in.
        """
        import ir_measures  # loads a C extension

        distinct = set(self._measures.values())
        values = {measure: np.zeros(len(collection.queries)) for measure in distinct}
        for start in range(0, len(collection.queries), _QUERIES_AT_ONCE):
            queries = range(start, min(start + _QUERIES_AT_ONCE, len(collection.queries)))
            judged = _judged(collection, queries)
            for one in ir_measures.iter_calc(distinct, judged, _ranked(hits, queries)):
                values[one.measure][int(one.query_id)] = one.value
        return {name: values[measure] for name, measure in self._measures.items()}


def _measure(asked: Any, relevant_from: int) -> Any:
    """The ir_measures.Measure that is meant."""
    import ir_measures

    measure = asked if isinstance(asked, ir_measures.Measure) else _named(str(asked))
    if "rel" in measure.SUPPORTED_PARAMS and "rel" not in measure.params:
        measure = measure(rel=relevant_from)
    providers: Any = ir_measures.DefaultPipeline  # has no types
    try:
        can = providers.supports(measure)
    except AssertionError as problem:  # how ir_measures refuses a parameter
        raise EvaluationError(f"measures: {asked}: {problem}") from None
    if not can:
        raise EvaluationError(f"measures: {asked}: no package that computes it is installed here; see ir-measur.es")
    return measure


def _named(text: str) -> Any:
    """From NAME or NAME@CUTOFF. ir_measures' own parser does not run on Python 3.14."""
    from ir_measures.measures import registry

    known = {name.casefold(): measure for name, measure in registry.items()}
    name, at, cutoff = text.strip().partition("@")
    measure = known.get(name.casefold())
    if measure is None:
        near = nearest(name.casefold(), known)
        hint = f"did you mean {near}?" if near else f"write some of {', '.join(MEASURES)}"
        raise EvaluationError(f"measures: {text!r} is not a measure of ir-measures; {hint}")
    if not at:
        if any(param.required for param in measure.SUPPORTED_PARAMS.values()):
            raise EvaluationError(f"measures: {text} needs a cutoff, as in {text}@10")
        return measure
    if not (cutoff.isascii() and cutoff.isdigit() and 0 < int(cutoff) < 2**31):
        raise EvaluationError(f"measures: {text!r}: the cutoff is a whole number of documents, as in {name}@10")
    return measure @ int(cutoff)


def _judged(collection: Collection, queries: range) -> dict[str, dict[str, int]]:
    """The grades of some queries. Those below 0 count as 0: trec_eval knows no others."""
    first, last = np.searchsorted(collection.judged_query, [queries.start, queries.stop])
    part = slice(first, last)
    judged: dict[str, dict[str, int]] = {str(query): {} for query in queries}
    for query, doc, grade in zip(
        collection.judged_query[part].tolist(),
        collection.judged_doc[part].tolist(),
        collection.grade[part].tolist(),
        strict=True,
    ):
        judged[str(query)][str(doc)] = max(grade, 0)
    return judged


def _ranked(hits: Hits, queries: range) -> dict[str, dict[str, float]]:
    """The hits of some queries, scored by rank: trec_eval would put equal scores in an order of its own, by id."""
    run = {}
    for query in queries:
        rows = hits.rows[hits.offsets[query] : hits.offsets[query + 1]].tolist()
        run[str(query)] = {str(row): -float(rank) for rank, row in enumerate(rows)}
    return run
