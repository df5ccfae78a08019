"""START HERE: mine(collection, recipe) -> MinedSet. The one file that knows the order of the stages.

    load -> retrieve (each source) -> pool -> exclude -> score lazily -> decide -> select -> write

Queries go through all stages in blocks, so that memory does not grow with their number. A *unit* is what negatives are
mined for: a query, or with `positive_reference: each` a query with one of its positives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from foolsgold import decide, exclude, select
from foolsgold.cache import cache_folder
from foolsgold.collection import Collection, load_collection
from foolsgold.errors import CollectionError, RecipeError
from foolsgold.funnel import Funnel
from foolsgold.mined_set import MinedSet, SetWriter, newest
from foolsgold.pool import pool
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import Recipe
from foolsgold.records import (
    REASONS,
    BoolArray,
    Column,
    FloatArray,
    IntArray,
    LongArray,
    Pool,
    Verdicts,
    Zone,
    ledger_schema,
    negatives_schema,
    positives_schema,
    queries_schema,
)
from foolsgold.search.shingles import jaccard_at_least
from foolsgold.signal import NoSignal, Signal, build_signal
from foolsgold.sources.build import build_sources
from foolsgold.sources.protocol import HasVectors, Source
from foolsgold.teachers.protocol import Teacher

log = logging.getLogger(__name__)

_RECIPES_OWN: Any = object()  # tells "no teacher" (None) from "the teacher the recipe names"
BLOCK = 4096  # queries mined at once: enough to keep matrix products and teacher batches full
LIBRARIES = ("foolsgold", "numpy", "pyarrow", "bm25s", "onnxruntime", "tokenizers")


def mine(
    collection: Any = None,
    recipe: Recipe | None = None,
    *,
    out: str | Path = "mined",
    teacher: Teacher | str | Mapping[str, Any] | None = _RECIPES_OWN,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
    **sections: Any,
) -> MinedSet:
    """Mine hard negatives and write them as a versioned set.

    Args:
        collection: a Collection, a `datasets.Dataset` of pairs, or a name that `load_collection` knows; None for the
            recipe's own.
        recipe: how to mine; the default recipe if None.
        out: the folder that the set's own folder `<version>` is made in.
        teacher: in place of the recipe's: a model's name, its settings, any object with `score(pairs)`, `scale` and
            `fingerprint`, or None for no teacher.
        progress: where long stages report to; `foolsgold.progress.Bars()` shows bars.
        cache: the folder of the stores of embeddings and teacher scores; `cache_folder()` if None.
        sections: recipe sections to replace: `retriever="org/model"`, `select={"per_query": 5}`.

    Raises:
        FoolsgoldError: bad input, one sentence (see `foolsgold.errors`).
    """
    started = time.perf_counter()
    own_teacher = None
    if teacher is not _RECIPES_OWN:
        if teacher is not None and not isinstance(teacher, str | Mapping):
            own_teacher = teacher
            sections["teacher"] = {"model": type(teacher).__name__, "scale": teacher.scale}
        else:
            sections["teacher"] = teacher
    recipe = with_sections(recipe or Recipe(), sections)
    if collection is None:
        if recipe.collection is None:
            raise CollectionError("no collection: give one, or a recipe with a `collection` section")
        collection = recipe.collection
    loaded = load_collection(collection, progress=progress)
    recipe = recipe.with_values({"collection": loaded.spec})
    notes = [f"{loaded.name}: {note}" for note in loaded.notes]
    for note in notes:
        log.info("%s", note)
    store = Path(cache) if cache is not None else cache_folder()
    # opened first: a folder that cannot be written to must not cost hours of scoring
    with SetWriter(Path(out), list(recipe.sources)) as writer:
        sources = build_sources(recipe, loaded, store)
        signal = build_signal(recipe, loaded, sources, own_teacher, store, progress)
        for name, source in sources.items():
            for note in getattr(source, "notes", ()):
                log.info("%s: %s", name, note)
                notes.append(f"{name}: {note}")
        warnings = _warnings(recipe, signal)
        for warning in warnings:
            log.warning("%s", warning)
        run = _Run(recipe, loaded, sources, signal, progress)
        funnel = Funnel(list(sources))
        for first in range(0, len(loaded.queries), BLOCK):
            block = run.mine_block(np.arange(first, min(first + BLOCK, len(loaded.queries)), dtype=np.int32))
            writer.add(**block)
            funnel.add(**block)
        for warning in funnel.warnings():
            log.warning("%s", warning)
            warnings.append(warning)
        parent = newest(Path(out))
        folder = writer.finish(
            {
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - started, 2),
                "parent": parent.name if parent else None,
                "collection": {
                    "name": loaded.name,
                    "split": loaded.split,
                    "digest": loaded.digest,
                    "documents": len(loaded.documents),
                    "queries": len(loaded.queries),
                    "positives": len(loaded.positive_rows),
                },
                "seed": recipe.seed,
                "sources": {name: source.describe() for name, source in sources.items()},
                "teacher": signal.describe(),
                "counts": funnel.counts(),
                "calls": signal.calls(),
                "warnings": warnings,
                "notes": notes,
                "libraries": {name: version(name) for name in LIBRARIES},
                "recipe": recipe.model_dump(mode="json"),
            }
        )
    return MinedSet(folder, loaded)


def with_sections(recipe: Recipe, sections: Mapping[str, Any]) -> Recipe:
    """A recipe with sections updated.

    Fields that are not named stay, but `sources` is replaced whole, and so are `retriever` and `teacher` by a model's
    name: another model has another prompt, length and scale.
    """
    values = recipe.model_dump()
    for name, value in sections.items():
        current = values.get(name)
        if isinstance(value, str) and name in ("retriever", "teacher"):
            values[name] = {"model": value}
        elif name != "sources" and isinstance(value, Mapping) and isinstance(current, Mapping):
            values[name] = {**current, **value}
        else:
            values[name] = value
    return Recipe.build(values) if sections else recipe


def _warnings(recipe: Recipe, signal: Signal) -> list[str]:
    near = [name for name in recipe.sources if recipe.kind_of(name) not in ("random", "bm25")]
    if near and isinstance(signal, NoSignal):
        return [
            f"{', '.join(near)} without a teacher or a margin: of a query's nearest passages a third to two thirds "
            "are unlabelled positives, and they are mined as negatives here; set `teacher`"
        ]
    return []


@dataclass(frozen=True)
class _Units:
    """What negatives are mined for, in one block.

    query: int32 (n_units), the unit's query; positive: int32, the document row of its positive, known only with `each`;
    score: float32, the score of the positive that margins are measured from.
    """

    query: IntArray
    positive: Column
    score: Column

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True)
class _Candidates:
    """The candidates of a block, by unit; with `each` a query's candidates stand once for each of its positives."""

    unit: IntArray
    pool: Pool
    excluded: Column
    windows: Mapping[str, BoolArray]

    def __len__(self) -> int:
        return len(self.unit)


class _Run:
    """One recipe on one collection; `mine_block` takes some queries through all stages."""

    def __init__(
        self,
        recipe: Recipe,
        collection: Collection,
        sources: Mapping[str, Source],
        signal: Signal,
        progress: Progress,
    ) -> None:
        self._recipe = recipe
        self._collection = collection
        self._sources = sources
        self._signal = signal
        self._progress = progress
        kinds = [recipe.kind_of(name) for name in sources]
        budget = recipe.select.per_query
        self._quotas = select.Quotas(
            shares=select.shares([spec.quota for spec in recipe.sources.values()], budget),
            may_fill=tuple(recipe.select.backfill and kind != "random" for kind in kinds),
            budget=budget,
        )

    def mine_block(self, queries: IntArray) -> dict[str, pa.Table]:
        """The negatives, ledger, queries and positives of some queries (int32 rows, consecutive)."""
        found = self._retrieve(queries)
        units = self._units(queries)
        candidates = self._exclude(found, units)
        orders = self._orders(candidates, units)
        score, verdicts, taken = self._decide(candidates, units, orders)
        return self._tables(queries, units, candidates, score, verdicts, taken)

    def _retrieve(self, queries: IntArray) -> Pool:
        hits = {
            name: source.retrieve(queries, self._recipe.sources[name].depth, self._progress)
            for name, source in self._sources.items()
        }
        found = pool(queries, hits)
        for name, source in self._sources.items():
            column = found.scores[name]
            missing = np.flatnonzero(~column.valid)
            scores = source.score(found.query[missing], found.doc[missing])
            if scores is not None:
                column.values[missing] = scores
                column.valid[missing] = True
        return found

    def _units(self, queries: IntArray) -> _Units:
        collection, reference = self._collection, self._recipe.decide.positive_reference
        if reference == "each":
            mine = self._positives_of(queries)
            return _Units(
                query=collection.positive_query[mine],
                positive=Column.known(collection.positive_rows[mine]),
                score=self._signal.positives.take(mine),
            )
        return _Units(
            query=queries,
            positive=Column.unknown(len(queries), np.int32),
            score=self._reference(queries, self._signal.positives),
        )

    def _positives_of(self, queries: IntArray) -> slice:
        offsets = self._collection.positive_offsets
        return slice(int(offsets[queries[0]]), int(offsets[queries[-1] + 1]))

    def _reference(self, queries: IntArray, positives: Column) -> Column:
        """One score a query out of those of all positives, by `positive_reference` (min, max or mean)."""
        mine = self._positives_of(queries)
        values = positives.values[mine]
        begins = self._collection.positive_offsets[queries] - mine.start
        counts = np.diff(np.append(begins, len(values)))
        known = np.minimum.reduceat(positives.valid[mine], begins)
        match self._recipe.decide.positive_reference:
            case "max":
                reduced = np.maximum.reduceat(values, begins)
            case "mean":
                reduced = np.add.reduceat(values.astype(np.float64), begins) / counts
            case _:
                reduced = np.minimum.reduceat(values, begins)
        return Column(reduced.astype(np.float32), known)

    def _exclude(self, found: Pool, units: _Units) -> _Candidates:
        collection = self._collection
        documents, passage = collection.documents, collection.documents.passage
        masks = {
            "known_positive": exclude.is_pair(
                found.query, found.doc, collection.positive_query, collection.positive_rows
            ),
            "duplicate_of_positive": exclude.is_pair(
                found.query, passage[found.doc], collection.positive_query, passage[collection.positive_rows]
            ),
            "query_itself": (collection.queries.keys[found.query] == documents.keys[found.doc]).all(axis=1),
            "empty_text": documents.empty[found.doc],
        }

        def left() -> BoolArray:
            return np.asarray(~np.logical_or.reduce(list(masks.values())))

        masks["near_duplicate_of_positive"] = self._near_duplicates(found, left())
        masks["duplicate_of_candidate"] = exclude.repeats(found, passage, left())
        among = left()
        windows = {
            name: exclude.in_window(found, name, spec.window, among) for name, spec in self._recipe.sources.items()
        }
        masks["outside_window"] = ~np.logical_or.reduce(list(windows.values()))
        excluded = exclude.first_reason(masks)

        # candidates by unit: those of the unit's query
        begins = np.searchsorted(found.query, units.query)
        counts = np.searchsorted(found.query, units.query, side="right") - begins
        unit = np.repeat(np.arange(len(units), dtype=np.int32), counts)
        rows = np.arange(len(unit)) + np.repeat(begins - (np.cumsum(counts) - counts), counts)
        return _Candidates(
            unit=unit,
            pool=found.take(rows),
            excluded=excluded.take(rows),
            windows={name: inside[rows] for name, inside in windows.items()},
        )

    def _near_duplicates(self, found: Pool, among: BoolArray) -> BoolArray:
        """Candidates that are nearly the text, or nearly the vector, of a positive of their query."""
        spec, offsets = self._recipe.exclude, self._collection.positive_offsets
        near = np.zeros(len(found), dtype=np.bool_)
        rows = np.flatnonzero(among)
        query = found.query[rows]
        counts = (offsets[query + 1] - offsets[query]).astype(np.int64)
        candidate = np.repeat(rows, counts)
        within = np.arange(len(candidate)) - np.repeat(np.cumsum(counts) - counts, counts)
        docs = found.doc[candidate]
        positives = self._collection.positive_rows[np.repeat(offsets[query], counts) + within]
        if spec.near_duplicate is not None:
            near[candidate[jaccard_at_least(self._collection.documents, docs, positives, spec.near_duplicate)]] = True
        dense = next((source for source in self._sources.values() if isinstance(source, HasVectors)), None)
        if spec.near_duplicate_cosine is not None and dense is not None:
            near[candidate[dense.similarity(docs, positives) >= spec.near_duplicate_cosine]] = True
        return near

    def _orders(self, candidates: _Candidates, units: _Units) -> list[select.Order]:
        spec, seed = self._recipe.select, self._recipe.seed
        orders = []
        for name, source in self._sources.items():
            among = candidates.windows[name] & ~candidates.excluded.valid
            parts: list[int | IntArray] = [crc32(name.encode()), candidates.pool.query, candidates.pool.doc]
            if units.positive.valid.any():
                parts.append(units.positive.values[candidates.unit])
            random_source = self._recipe.kind_of(name) == "random"
            orders.append(
                select.order(
                    candidates.unit,
                    len(units),
                    among,
                    candidates.pool.ranks[name],
                    select.uniforms(seed, *parts),
                    strategy="random" if random_source else spec.strategy,
                    score=candidates.pool.scores[name].values,
                    positive=None
                    if random_source or spec.strategy != "simans"
                    else self._source_reference(source, units)[candidates.unit],
                    a=spec.simans_a,
                    b=spec.simans_b,
                    strata=spec.strata,
                )
            )
        return orders

    def _source_reference(self, source: Source, units: _Units) -> FloatArray:
        """float32 (n_units): a source's own score of the positive that SimANS measures from."""
        if units.positive.valid.any():
            scores = source.score(units.query, units.positive.values)
        else:
            mine = self._positives_of(units.query)
            scores = source.score(self._collection.positive_query[mine], self._collection.positive_rows[mine])
        if scores is None:
            raise RecipeError(
                f"select.strategy: simans needs the score of a query's positive, and source {source.name} cannot score "
                "a document it did not find; take another strategy"
            )
        if units.positive.valid.any():
            return scores
        everyone = Column.unknown(len(self._collection.positive_rows))
        everyone.values[mine] = scores
        return self._reference(units.query, everyone).values.astype(np.float32)

    def _decide(
        self, candidates: _Candidates, units: _Units, orders: Sequence[select.Order]
    ) -> tuple[Column, Verdicts, list[list[tuple[int, int]]]]:
        """Score, decide and select in waves until no unit takes a candidate that has no score.

        In a wave candidates without a score count as usable; those that are then taken are scored. When none of them
        is, the outcome is that of scoring everything (`select`). Units that are still short after two waves look twice
        as far ahead in each further one, so that a few queries without negatives do not cost a wave a candidate.
        """
        recipe, pairs = self._recipe, candidates.pool
        rules = self._signal.rules(recipe.decide)
        judgeable = ~candidates.excluded.valid
        positive = units.score.take(candidates.unit)
        score = Column.unknown(len(candidates))
        exhaustive = not self._signal.lazy or (recipe.teacher is not None and recipe.teacher.exhaustive)
        wanted: LongArray = np.flatnonzero(judgeable) if exhaustive else np.empty(0, dtype=np.int64)
        taken: list[list[tuple[int, int]]] = [[] for _ in range(len(units))]
        open_units: Sequence[int] = range(len(units))
        wave = 0
        while True:
            if len(wanted):
                wave += 1
                stage = "score candidates" if exhaustive else f"score wave {wave}"
                score.values[wanted] = self._signal.score(pairs.query[wanted], pairs.doc[wanted], stage)
                score.valid[wanted] = True
            verdicts = decide.decide(score, positive, **rules)
            unscored = verdicts.zone == Zone.UNSCORED
            usable = judgeable & (unscored | (verdicts.weight.valid & (verdicts.weight.values > 0)))
            still_open, asked = [], []
            for unit in open_units:
                taken[unit] = select.take(orders, unit, usable, self._quotas)
                if any(unscored[candidate] for candidate, _ in taken[unit]):
                    ahead = taken[unit]
                    if wave > 1:
                        ahead = select.take(orders, unit, usable, self._quotas.times(2 ** (wave - 1)))
                    still_open.append(unit)
                    asked += [candidate for candidate, _ in ahead if unscored[candidate]]
            if not asked:
                break
            open_units, wanted = still_open, np.array(asked, dtype=np.int64)
        zone = np.where(judgeable, verdicts.zone, Zone.EXCLUDED).astype(np.int8)
        reason = np.where(judgeable, verdicts.reason, candidates.excluded.values).astype(np.int16)
        weight = Column(verdicts.weight.values, verdicts.weight.valid & judgeable)
        return score, Verdicts(zone, reason, weight), taken

    def _tables(
        self,
        queries: IntArray,
        units: _Units,
        candidates: _Candidates,
        score: Column,
        verdicts: Verdicts,
        taken: Sequence[Sequence[tuple[int, int]]],
    ) -> dict[str, pa.Table]:
        names = list(self._sources)
        unit, pairs = candidates.unit, candidates.pool
        chosen = np.array([candidate for picks in taken for candidate, _ in picks], dtype=np.int64)
        selected = np.zeros(len(candidates), dtype=np.bool_)
        selected[chosen] = True
        giver = Column.unknown(len(candidates), np.int32)
        giver.values[chosen] = [source for picks in taken for _, source in picks]
        giver.valid[chosen] = True
        by_teacher = score if self._signal.describe() is not None else Column.unknown(len(candidates))
        ledger = pa.table(
            {
                "query_id": self._collection.queries.ids.take(pa.array(pairs.query)),
                "positive_id": self._ids(units.positive.take(unit)),
                "doc_id": self._collection.documents.ids.take(pa.array(pairs.doc)),
                **{f"{name}_rank": pairs.ranks[name].to_arrow() for name in names},
                **{f"{name}_score": pairs.scores[name].to_arrow() for name in names},
                "teacher_score": by_teacher.to_arrow(),
                "positive_score": units.score.take(unit).to_arrow(),
                "verdict": _words(Column.known(verdicts.zone), [zone.label for zone in Zone]),
                "reason": _words(Column.known(verdicts.reason), REASONS),
                "weight": verdicts.weight.to_arrow(),
                "source": _words(giver, names),
                "selected": pa.array(selected),
            }
        )
        columns = [field for field in ledger.column_names if field not in ("verdict", "reason", "selected")]
        eligible = verdicts.weight.valid & (verdicts.weight.values > 0)

        def count(mask: BoolArray) -> IntArray:
            return np.bincount(unit[mask], minlength=len(units)).astype(np.int32)

        inverted = selected & score.valid & units.score.valid[unit] & (score.values > units.score.values[unit])
        zones = {zone.label: count(verdicts.zone == zone) for zone in Zone}
        per_unit = pa.table(
            {
                "query_id": self._collection.queries.ids.take(pa.array(units.query)),
                "positive_id": self._ids(units.positive),
                "candidates": count(np.ones(len(candidates), dtype=np.bool_)),
                **zones,
                "eligible": count(eligible),
                "selected": count(selected),
                "over_budget": count(eligible & ~selected),
                "shortfall": self._quotas.budget - count(selected),
                "positive_score": units.score.to_arrow(),
                "positive_below_negative": pa.array(count(inverted) > 0),
            }
        )
        return {
            "ledger": _in_order(ledger, ledger_schema(names)),
            "negatives": _in_order(ledger.select(columns).take(pa.array(chosen)), negatives_schema(names)),
            "queries": _in_order(per_unit, queries_schema()),
            "positives": self._positives_table(queries),
        }

    def _positives_table(self, queries: IntArray) -> pa.Table:
        collection, names = self._collection, list(self._sources)
        mine = self._positives_of(queries)
        query, doc = collection.positive_query[mine], collection.positive_rows[mine]
        scores = {name: source.score(query, doc) for name, source in self._sources.items()}
        teacher = self._signal.positives if self._signal.describe() is not None else None
        table = {
            "query_id": collection.queries.ids.take(pa.array(query)),
            "doc_id": collection.documents.ids.take(pa.array(doc)),
            "grade": collection.positive_grade[mine],
            **{
                f"{name}_score": pa.nulls(len(query), pa.float32()) if score is None else pa.array(score)
                for name, score in scores.items()
            },
            "teacher_score": pa.nulls(len(query), pa.float32()) if teacher is None else teacher.take(mine).to_arrow(),
        }
        return _in_order(pa.table(table), positives_schema(names))

    def _ids(self, docs: Column) -> pa.Array:
        return self._collection.documents.ids.take(docs.to_arrow())


def _words(codes: Column, words: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(Column(codes.values.astype(np.int32), codes.valid).to_arrow(), list(words))


def _in_order(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)
