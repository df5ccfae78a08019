"""The distinct queries or documents among all their occurrences, each with an id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from foolsgold.collection.texts import Texts
from foolsgold.errors import CollectionError


class Entry(NamedTuple):
    """One occurrence of a text, with its own id if it has one, and in a file of negatives perhaps a score."""

    text: str
    id: str | None = None
    score: float | None = None


@dataclass
class Distinct:
    """Entries without repetition, in the order in which they first occur. row_of: the row of each entry."""

    texts: list[str] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)
    row_of: list[int] = field(default_factory=list)


def distinct(entries: list[Entry], column: str | None) -> tuple[Distinct, list[str]]:
    """Entries of one id are one; entries without an id are one by their exact text.

    If one id names two texts, the ids are not used, and a note names the first; `column` is where they came from.
    """
    text_of: dict[str, str] = {}
    for text, own_id, _ in entries:
        if own_id is not None and text_of.setdefault(own_id, text) != text:
            note = f"{own_id!r} in {column or 'the objects'!r} names two different texts; ids are made up instead"
            return _distinct([entry._replace(id=None) for entry in entries]), [note]
    return _distinct(entries), []


def made_ids(
    some: Distinct, prefix: str, start: int = 0, taken: Callable[[list[str]], bool] | None = None
) -> list[str]:
    """An id for each: its own, or else `prefix` and its row, counted from `start`.

    A made id is never one that another has: if it is, or `taken` says so, an underscore is added to the prefix.
    """
    given = {own_id for own_id in some.ids if own_id is not None}
    made = [f"{prefix}{row}" for row, own_id in enumerate(some.ids, start) if own_id is None]
    if not given.isdisjoint(made) or (taken is not None and taken(made)):
        return made_ids(some, f"{prefix}_", start, taken)
    following = iter(made)
    return [next(following) if own_id is None else own_id for own_id in some.ids]


def joined(corpus: Texts, has_ids: bool, documents: Distinct) -> tuple[Texts, list[int], list[str]]:
    """The corpus and after it the documents that it lacks; the row of each of `documents` in that; notes.

    A document is the corpus's by its id where it and the corpus have ids, and by its exact text where it has none.
    has_ids: whether the corpus's ids are its own, or made from its rows.

    Raises:
        CollectionError: a document's own id is one that was made for a document of the corpus.
    """
    by_id = corpus.find(own_id for own_id in documents.ids if own_id is not None)
    by_text = corpus.find_texts(
        text for text, own_id in zip(documents.texts, documents.ids, strict=True) if own_id is None
    )
    if by_id and not has_ids:
        raise CollectionError(
            f"corpus: it has no ids, so they were made, and {next(iter(by_id))!r} is also the id of another document "
            "in the pairs; give the corpus a column _id"
        )
    there = [
        by_text.get(text) if own_id is None else by_id.get(own_id)
        for text, own_id in zip(documents.texts, documents.ids, strict=True)
    ]
    lacking = Distinct()
    row_in = []
    for row, text, own_id in zip(there, documents.texts, documents.ids, strict=True):
        row_in.append(len(corpus) + len(lacking.texts) if row is None else row)
        if row is None:
            lacking.texts.append(text)
            lacking.ids.append(own_id)
    notes = [f"documents of the pairs that the corpus lacks: {len(lacking.texts):,} of {len(there):,}, added to it"]
    differing = _differing(corpus, there, documents)
    if differing:
        notes.append(
            f"documents with another text in the corpus than in the pairs: {differing:,}, the corpus's is used"
        )
    ids = made_ids(lacking, "d", len(corpus), lambda made: bool(corpus.find(made)))
    return corpus.followed_by(Texts.from_lists(ids, lacking.texts)), row_in, notes


def _distinct(entries: list[Entry]) -> Distinct:
    some = Distinct()
    by_id: dict[str, int] = {}
    by_text: dict[str, int] = {}
    for text, own_id, _ in entries:
        row = by_text.get(text) if own_id is None else by_id.get(own_id)
        if row is None:
            row = len(some.texts)
            some.texts.append(text)
            some.ids.append(own_id)
            by_text.setdefault(text, row)
            if own_id is not None:
                by_id[own_id] = row
        some.row_of.append(row)
    return some


def _differing(corpus: Texts, there: list[int | None], documents: Distinct) -> int:
    """How many documents have an id of the corpus but not its text."""
    pairs = [(row, text) for row, text in zip(there, documents.texts, strict=True) if row is not None]
    return sum(theirs != text for theirs, (_, text) in zip(corpus.take([row for row, _ in pairs]), pairs, strict=True))
