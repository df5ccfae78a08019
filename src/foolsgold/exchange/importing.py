"""import_set: a file of negatives that somebody else mined -> MinedSet.

    detect the format -> read -> a collection of the file's own texts and a run of its negatives -> mine from that run

So exclusion, teacher, zones, ledger, audit and report are those of any other set.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.collection import load_collection
from foolsgold.collection.columns import CHOSEN
from foolsgold.collection.rows import rows_of
from foolsgold.errors import RecipeError, TeacherError
from foolsgold.exchange.detect import detect
from foolsgold.exchange.folder import RUN, write_collection
from foolsgold.exchange.listed import Listed, read_listed
from foolsgold.mined.mined_set import MinedSet
from foolsgold.mining.mine import mine, resolved
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import Recipe
from foolsgold.records import FloatArray, Scale

SOURCE = "imported"  # what the source of the set's negatives is called

log = logging.getLogger(__name__)


def import_set(
    file: Any,
    *,
    out: str | Path = "mined",
    teacher: Any = None,
    scores: Scale | None = None,
    anchor: str | None = None,
    positive: str | None = None,
    split: str | None = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
    recipe: Recipe | Mapping[str, Any] | str | Path | None = None,
    **sections: Any,
) -> MinedSet:
    """Make a mined set of negatives that somebody else mined.

    What the file's own texts show not to be a negative (a known positive, a copy of one, the query itself, ...) is
    excluded. With a teacher, false negatives and ambiguous ones are dropped too. Everything else is selected, and the
    ledger has the reason for each. The collection is written to `out/collections`.

    Args:
        file: json lines, json, parquet, csv, tsv (each may be .gz), a folder of `Dataset.save_to_disk`, `hf:NAME`, or a
            `datasets.Dataset`. Its format is recognised by its columns (`exchange.detect`).
        out: the folder that the set's own folder is made in.
        teacher: a model's name, its settings, or an object, as in `mine`; None for none.
        scores: the scale of the scores in the file, which then are used instead of a teacher's.
        anchor, positive: the columns of queries and positives, where their names are not the usual ones.
        split: of a folder or a dataset with several; None: train.
        progress, cache: as in `mine`.
        recipe, sections: as in `mine`; `exclude`, `decide` and `audit` are what matters here.

    Raises:
        FoolsgoldError: bad input, one sentence.
    """
    name, listed = read_file(file, anchor=anchor, positive=positive, split=split, progress=progress)
    return mine_listed(
        listed, name, collections=Path(out) / "collections", out=Path(out), teacher=teacher, scores=scores,
        progress=progress, cache=cache, recipe=recipe, sections=sections,
    )  # fmt: skip


def read_file(
    file: Any, *, anchor: str | None, positive: str | None, split: str | None, progress: Progress
) -> tuple[str, Listed]:
    """The name of a file and what it lists; its format is logged.

    Raises:
        CollectionError: it cannot be read, or has no known format.
    """
    rows, _, name = rows_of(file, split, progress)
    format = detect(rows, anchor, positive)
    log.info("%s: %s", rows.name, format.sentence)
    return name.replace("/", "-").replace(":", "-"), read_listed(rows, format)


def mine_listed(
    listed: Listed,
    name: str,
    *,
    collections: Path,
    out: Path,
    teacher: Any,
    scores: Scale | None,
    progress: Progress,
    cache: str | Path | None,
    recipe: Recipe | Mapping[str, Any] | str | Path | None,
    sections: Mapping[str, Any],
) -> MinedSet:
    """The set of what a file lists; `collections`: where its texts go; the rest as in `import_set`."""
    if scores is not None:
        if teacher is not None:
            raise RecipeError("teacher and scores: the file's own scores take a teacher's place; name one of the two")
        teacher = FileScores(listed, scores)
        if scores == "cosine":  # logits and probabilities are put on the recipe's scale, a cosine cannot be
            sections = {"teacher": {"scale": scores}, **sections}
    folder = write_collection(listed, collections.resolve(), name)
    loaded = load_collection(f"beir:{folder}", split="train", progress=progress)
    notes = (f"{CHOSEN}: {listed.format.sentence}", *listed.notes, *loaded.notes)
    if listed.repeated:
        notes += (f"negatives listed again for the same query and positives: {listed.repeated:,}, counted once",)
    chosen = _recipe(listed, folder / RUN, resolved(Recipe() if recipe is None else recipe, sections))
    return mine(replace(loaded, notes=notes), chosen, out=out, teacher=teacher, progress=progress, cache=cache)


def _recipe(listed: Listed, run: Path, recipe: Recipe) -> Recipe:
    """A recipe that selects all of a run that may be selected."""
    most = int(listed.per_query.max())
    values: dict[str, Any] = {
        "retriever": None,
        "sources": {SOURCE: {"kind": "run", "path": str(run), "depth": most}},
        "select.strategy": "top",
        "select.per_query": most,
        "select.cap": most,
    }
    if most != listed.asked:  # nobody asked for as many as the longest list has
        values["audit.min_fill"] = None
    return recipe.with_values(values)


class FileScores:
    """The scores that a file gives its own pairs, as a teacher."""

    def __init__(self, listed: Listed, scale: Scale) -> None:
        """Raise TeacherError if some of the pairs have no score."""
        self.scale = scale
        self._scores: dict[tuple[str, str], float] = {}
        without = 0
        for pairs in (listed.positives, listed.negatives):
            texts = zip(listed.queries.take(pairs.query), listed.documents.take(pairs.doc), strict=True)
            for text, score in zip(texts, pairs.score, strict=True):
                if score is None:
                    without += 1
                else:
                    self._scores.setdefault(text, score)
        if without:
            total = len(listed.positives) + len(listed.negatives)
            raise TeacherError(
                f"{without:,} of {total:,} pairs have no score in the file ({listed.format.sentence}); name a teacher "
                "that scores them, or leave the scores out"
            )
        digest = sha256(repr(sorted(self._scores.items())).encode("utf-8", "surrogatepass"))
        self.fingerprint = f"scores of the file, {digest.hexdigest()[:16]}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """float32 (n): what the file says of each pair of texts."""
        return np.array([self._scores[pair] for pair in pairs], dtype=np.float32)
