"""export: a mined set in the format that a trainer reads; each format is a file of `formats`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from foolsgold.errors import MinedSetError
from foolsgold.exchange.formats import WRITERS
from foolsgold.exchange.formats.writing import Exported, Options, Writer
from foolsgold.mined.formats import Format
from foolsgold.mined.mined_set import MinedSet

log = logging.getLogger(__name__)


Target = Literal[
    "sentence-transformers", "flagembedding", "tevatron", "pylate", "swift", "swift-reranker", "beir-run", "jsonl"
]


def export(
    mined: MinedSet | str | Path,
    to: Target,
    out: str | Path,
    *,
    scores: bool = False,
    negatives: int | None = None,
    shape: Format = "triplet",
    weights: bool = False,
    prompt: str | None = None,
) -> Exported:
    """Write a mined set for a trainer.

    Scores are the teacher's as logits (cosines of a teacher that gives cosines): every distillation loss named here
    takes a softmax of them, or their difference.

    Args:
        mined: the set, its folder, or a folder of sets (its newest).
        to: the format, one of `formats.WRITERS`; docs/formats.md shows a row of each.
        out: the file, or for `pylate` and for `sentence-transformers` without a suffix, the folder.
        scores, negatives, shape, weights, prompt: see `Options`.

    Raises:
        MinedSetError: an unknown format; an option that it does not have; scores of a set without a teacher; no row.
    """
    mined = mined if isinstance(mined, MinedSet) else MinedSet(mined)
    options = Options(scores, negatives, shape, weights, prompt)
    if to not in WRITERS:
        raise MinedSetError(f"unknown format {to!r}; one of {', '.join(WRITERS)}")
    writer = WRITERS[to]
    _check(mined, to, writer, options)
    target = Path(out)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        written = writer.write(mined, target, options)
    except OSError as error:
        raise MinedSetError(f"{target}: cannot be written ({error}); name another file") from None
    for note in written.notes:
        log.warning("%s: %s", to, note)
    return written


def _check(mined: MinedSet, to: str, writer: Writer, options: Options) -> None:
    defaults = Options()
    extra = [
        name
        for name in ("scores", "shape", "weights", "prompt")
        if getattr(options, name) != getattr(defaults, name) and name not in writer.has
    ]
    if extra:
        able = ", ".join(name for name, other in WRITERS.items() if extra[0] in other.has)
        raise MinedSetError(f"{to} has no {extra[0]}; {able} {'have' if ',' in able else 'has'}")
    if options.negatives is not None and (type(options.negatives) is not int or options.negatives < 1):
        raise MinedSetError(f"negatives={options.negatives!r}: a whole number, at least 1")
    if mined.manifest.teacher is None and (options.scores or to == "pylate"):
        why = "PyLate distils from scores" if to == "pylate" else "scores were asked for"
        raise MinedSetError(
            f"{mined.path}: {why}, but this set was mined without a teacher; mine it with one"
            + (", or train PyLate on --to sentence-transformers" if to == "pylate" else "")
        )
