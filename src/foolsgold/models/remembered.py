"""Vectors of texts that are asked for again within a run, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from foolsgold.records import FloatArray, text_key

_MEGABYTES = 256


class Remembered:
    """Encodes each distinct text once, until `megabytes` of vectors are held; then the longest unused go first.

    encode: texts to one array per text, of any shape.
    """

    def __init__(self, encode: Callable[[list[str]], Sequence[FloatArray]], megabytes: int = _MEGABYTES) -> None:
        self._encode = encode
        self._limit = megabytes * 2**20
        self._held: OrderedDict[bytes, FloatArray] = OrderedDict()
        self._bytes = 0

    def __call__(self, texts: Sequence[str]) -> list[FloatArray]:
        """One array a text, in order; equal texts share theirs."""
        keys = [text_key(text) for text in texts]
        wanted = dict(zip(keys, texts, strict=True))
        answers: dict[bytes, FloatArray] = {}
        for key in wanted:
            if key in self._held:
                self._held.move_to_end(key)
                answers[key] = self._held[key]
        missing = [key for key in wanted if key not in answers]
        if missing:
            for key, vectors in zip(missing, self._encode([wanted[key] for key in missing]), strict=True):
                answers[key] = self._held[key] = vectors
                self._bytes += vectors.nbytes
        self._forget()
        return [answers[key] for key in keys]

    def _forget(self) -> None:
        while self._bytes > self._limit and self._held:
            _, vectors = self._held.popitem(last=False)
            self._bytes -= vectors.nbytes
