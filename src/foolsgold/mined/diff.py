"""What changed from one mined set to another: the negatives, the zones, and the recipe and models behind them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from foolsgold.errors import MinedSetError
from foolsgold.mined.folder import MinedFolder
from foolsgold.recipe import flat
from foolsgold.records import Zone

if TYPE_CHECKING:
    from foolsgold.collection import Texts

_log = logging.getLogger(__name__)

_KEYS = ["query_id", "positive_id", "doc_id"]
_SAID = ["verdict", "reason", "selected", "source", "teacher_score"]
_JUDGED = [zone.label for zone in (Zone.NEGATIVE, Zone.AMBIGUOUS, Zone.FALSE_NEGATIVE)]
_BEHIND = ("collection", "sources", "teacher", "llm", "libraries")  # of a manifest: what a set came from

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Diff:
    """From one mined set to another.

    pairs: every candidate that one of the two selected, by ids: query_id, positive_id ("" but with
        `positive_reference: each`), doc_id, change (added, removed, kept), and what each ledger says of it, null where
        it is no candidate: verdict, reason, selected, source, teacher_score, each with _before and _after.
    flips: the same columns but `change`, of every candidate that both judged, and otherwise.
    by_text: "queries", "documents": of which the two sets share no id, so that equal texts are taken for the same (an
        imported file's ids are made of its texts); ids above are then the first set's where it has the text.
    recipe, models: what is not the same, by dotted name: before and after. models: the collection's contents, the
        fingerprints of sources and teacher, the versions of libraries.
    """

    before: str
    after: str
    pairs: pa.Table
    flips: pa.Table
    by_text: tuple[str, ...]
    recipe: dict[str, tuple[Any, Any]]
    models: dict[str, tuple[Any, Any]]

    @classmethod
    def between(cls, before: MinedFolder, after: MinedFolder) -> Diff:
        """Compare two sets; their ledgers' judgements are held in memory."""
        old, new = _ledger(before, "before"), _ledger(after, "after")
        new, by_text = _in_ids_of(before, after, old, new)
        both = old.join(new, _KEYS, join_type="full outer")
        was, now = (both[f"selected_{when}"].fill_null(False) for when in ("before", "after"))
        change = pc.if_else(pc.and_(was, now), "kept", pc.if_else(now, "added", "removed"))
        order = [(name, "ascending") for name in _KEYS]
        judged = [pc.is_in(both[f"verdict_{when}"], pa.array(_JUDGED)) for when in ("before", "after")]
        flipped = pc.and_(pc.and_(*judged), pc.not_equal(both["verdict_before"], both["verdict_after"]))
        return cls(
            before=before.version,
            after=after.version,
            pairs=both.add_column(len(_KEYS), "change", change).filter(pc.or_(was, now)).sort_by(order),
            flips=both.filter(flipped.fill_null(False)).sort_by(order),
            by_text=by_text,
            recipe=_changes(*(mined.manifest.recipe_values for mined in (before, after))),
            models=_changes(*({name: mined.manifest.get(name) for name in _BEHIND} for mined in (before, after))),
        )

    @property
    def added(self) -> Pairs:
        """(query id, document id) of the negatives that only the second set has."""
        return self._with("added")

    @property
    def removed(self) -> Pairs:
        """Of those that only the first has."""
        return self._with("removed")

    @property
    def kept(self) -> Pairs:
        """Of those that both have."""
        return self._with("kept")

    def _with(self, change: str) -> Pairs:
        found = self.pairs.filter(pc.equal(self.pairs["change"], change))
        return sorted(set(zip(found["query_id"].to_pylist(), found["doc_id"].to_pylist(), strict=True)))

    @property
    def by_source(self) -> dict[str, dict[str, int]]:
        """How many negatives of each source were added, removed and kept; a kept one is its later source's."""
        source = pc.coalesce(self.pairs["source_after"], self.pairs["source_before"])
        counts = Counter(zip(source.to_pylist(), self.pairs["change"].to_pylist(), strict=True))
        return {
            name: {change: counts[name, change] for change in ("added", "removed", "kept")}
            for name in sorted({name for name, _ in counts})
        }

    @property
    def added_were(self) -> dict[str, int]:
        """What the first set says of those that were added: not a candidate, over budget, or a reason; most first."""
        return self._elsewhere("added", "before")

    @property
    def removed_are(self) -> dict[str, int]:
        """What the second set says of those that were removed."""
        return self._elsewhere("removed", "after")

    def _elsewhere(self, change: str, when: str) -> dict[str, int]:
        rows = self.pairs.filter(pc.equal(self.pairs["change"], change))
        return dict(Counter(map(_state, *(rows[f"{name}_{when}"].to_pylist() for name in _SAID[:2]))).most_common())

    @property
    def flipped(self) -> dict[tuple[str, str], int]:
        """How many candidates went from one zone to another, most first."""
        zones = (self.flips[f"verdict_{when}"].to_pylist() for when in ("before", "after"))
        return dict(Counter(zip(*zones, strict=True)).most_common())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "before": self.before,
            "after": self.after,
            "counts": {name: len(getattr(self, name)) for name in ("added", "removed", "kept")},
            **{name: getattr(self, name) for name in ("added", "removed", "kept", "by_source", "added_were")},
            "removed_are": self.removed_are,
            "flips": self.flips.to_pylist(),
            "by_text": list(self.by_text),
            "recipe": self.recipe,
            "models": self.models,
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.by_text:
            yield f"the two share no ids of {' and '.join(self.by_text)}, which are matched by text"
        yield f"{len(self.added):,} added, {len(self.removed):,} removed, {len(self.kept):,} kept"
        for source, counts in self.by_source.items():
            yield f"  {source}: {', '.join(f'{count:,} {change}' for change, count in counts.items())}"
        for title, states in (("added, were", self.added_were), ("removed, now", self.removed_are)):
            if states:
                yield f"{title}: {', '.join(f'{_words(state)} {count:,}' for state, count in states.items())}"
        for (old, new), count in self.flipped.items():
            yield f"{count:,} candidates went from {_words(old)} to {_words(new)}"
        for name, (old, new) in (self.recipe | self.models).items():
            yield f"{name}: {old} -> {new}"


def _ledger(mined: MinedFolder, when: str) -> pa.Table:
    """What a ledger says of its candidates, the columns named for `when`."""
    table = pa.Table.from_batches(mined.ledger_batches([*_KEYS, *_SAID]))
    plain = {
        name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    plain["positive_id"] = plain["positive_id"].fill_null("")  # nulls would join nothing
    return pa.table({name if name in _KEYS else f"{name}_{when}": column for name, column in plain.items()})


def _in_ids_of(
    before: MinedFolder, after: MinedFolder, old: pa.Table, new: pa.Table
) -> tuple[pa.Table, tuple[str, ...]]:
    """The second ledger with the first one's ids for equal texts, of queries or documents of which no id is in both."""
    by_text = []
    for kind, columns in (("queries", ["query_id"]), ("documents", ["doc_id", "positive_id"])):
        ids = [_ids(table, columns) for table in (old, new)]
        if not all(ids) or not ids[0].isdisjoint(ids[1]):
            continue
        try:
            texts = [getattr(mined.collection, kind) for mined in (before, after)]
        except MinedSetError as error:
            _log.warning("the two sets share no ids of %s, and their texts cannot be compared: %s", kind, error)
            continue
        same = _same_texts(*texts, *ids)
        for name in columns:
            own = new[name].combine_chunks().dictionary_encode()
            names = pa.array([same.get(own_id, own_id) for own_id in own.dictionary.to_pylist()], own.dictionary.type)
            new = new.set_column(new.column_names.index(name), name, names.take(own.indices))
        by_text.append(kind)
    return new, tuple(by_text)


def _ids(table: pa.Table, columns: list[str]) -> set[str]:
    return {own_id for name in columns for own_id in pc.unique(table[name]).to_pylist()} - {""}


def _same_texts(old: Texts, new: Texts, old_ids: set[str], new_ids: set[str]) -> dict[str, str]:
    """For an id of the second, the id that has its normalised text in the first; each id once, the first row first."""
    found: list[dict[bytes, str]] = []
    for texts, ids in ((old, old_ids), (new, new_ids)):
        part = texts.subset(np.sort(np.array(list(texts.find(ids).values()), dtype=np.int64)))
        found.append({})
        for key, own_id in zip(part.keys, part.ids.to_pylist(), strict=True):
            found[-1].setdefault(key.tobytes(), own_id)
    return {own_id: found[0][key] for key, own_id in found[1].items() if key in found[0]}


def _state(verdict: str | None, reason: str | None) -> str:
    """Of a candidate that was not selected."""
    if verdict is None or reason is None:
        return "not_a_candidate"
    return "over_budget" if verdict == Zone.NEGATIVE.label else reason


def _words(name: str) -> str:
    return name.replace("_", " ")


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    old, new = flat(before), flat(after)
    return {
        name: (old.get(name), new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }
