"""What takes long to make, and is kept in a folder of the cache for every later run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

from foolsgold.collection.texts import Texts
from foolsgold.files import written_once
from foolsgold.models.protocol import Role
from foolsgold.models.vectors import NotFinite
from foolsgold.progress import Advance, Progress

PLURAL: dict[Role, str] = {"query": "queries", "document": "documents"}
_TEXTS_AT_ONCE = 1024
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Model(Protocol):
    """What encodes texts, into anything."""

    fingerprint: str

    def encode(self, texts: Sequence[str], role: Role, advance: Advance) -> Any:
        """Something for all of `texts`, in order."""
        ...


def kept(
    folder: Path, what: str, write: Callable[[Path], None], read: Callable[[Path], _T], make: Callable[[], _T]
) -> _T:
    """What `read` finds in a folder that `write` filled once; where it cannot be written, what `make` makes in memory.

    A folder that has changed since, after a power cut or on a bad disk, is written again. what: for the warning.
    """
    try:
        return read(written_once(folder, write, checked=True))
    except OSError as error:
        _log.warning("%s cannot be written (%s); %s kept in memory and lost at the end", folder.parent, error, what)
    return make()


def folder_of(cache: Path, kind: str, model: Model, role: Role, texts: Texts) -> Path:
    """Where what a model makes of these texts is kept."""
    key = sha256(f"{model.fingerprint}\0{role}\0{texts.digest}".encode()).hexdigest()[:32]
    return cache / kind / key


def encoded_parts(model: Model, texts: Texts, role: Role, progress: Progress) -> Iterator[Any]:
    """What the model gives for some texts after the other.

    Raises:
        NotFinite: naming the text one of whose numbers is NaN or infinity.
    """
    start = 0
    with progress.stage(f"encode {PLURAL[role]}", len(texts)) as advance:
        for batch in texts.batches(_TEXTS_AT_ONCE):
            try:
                yield model.encode(batch, role, advance)
            except NotFinite as error:
                raise named(error, texts, role, start + error.position) from None
            start += len(batch)


def named(error: NotFinite, texts: Texts, role: Role, row: int) -> NotFinite:
    """The same error, which says which text of a collection it is about."""
    return NotFinite(error.model, f"{role} {texts.take_ids([row])[0]!r} (row {row})", row)
