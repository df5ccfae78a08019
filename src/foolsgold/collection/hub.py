"""Rows of Hugging Face datasets: on the hub, saved in a folder, or already loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foolsgold.collection.rows import Rows, is_dataset_dict, rows_of_dataset
from foolsgold.errors import CollectionError
from foolsgold.progress import SILENT, Progress

OTHER_FORMS = "what works without the hub: beir:FOLDER, pairs:FILE, demo"


def rows_of_hub(name: str, split: str, progress: Progress = SILENT) -> Rows:
    """The rows of one split of a dataset on the hub. name: NAME, or NAME:CONFIG for one of several configurations.

    Raises:
        CollectionError: no such dataset, configuration or split, or no connection.
    """
    import datasets

    path, _, config = name.partition(":")
    try:
        dataset = datasets.load_dataset(path, config or None, split=split)
    except Exception as problem:  # whatever the hub, the network or the dataset's own files can raise
        reason = " ".join(str(problem).split())[:300]
        raise CollectionError(
            f"hf:{name}, split {split!r}: cannot be had ({type(problem).__name__}: {reason}). Check the name, the "
            f"configuration (hf:NAME:CONFIG), the split and the connection; {OTHER_FORMS}"
        ) from problem
    return rows_of_dataset(dataset, f"hf:{name}", progress)


def rows_of_folder(folder: Path, split: str | None, progress: Progress = SILENT) -> tuple[Rows, str]:
    """The rows of a folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote, and the split they are.

    Raises:
        CollectionError: no such folder, no such split.
    """
    import datasets

    try:
        loaded = datasets.load_from_disk(str(folder))
    except (ValueError, OSError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise CollectionError(
            f"{folder}: a folder, but not one that Dataset.save_to_disk wrote ({reason}). "
            "For a BEIR folder say beir:FOLDER; for a file of pairs name the file"
        ) from None
    return rows_of_loaded(loaded, str(folder), split, progress)


def rows_of_loaded(loaded: Any, name: str, split: str | None, progress: Progress = SILENT) -> tuple[Rows, str]:
    """The rows of a `Dataset`, or of one split of a `DatasetDict`, and the split they are."""
    if not is_dataset_dict(loaded):
        return rows_of_dataset(loaded, name, progress), the_only_split(name, split)
    chosen = split or "train"
    if chosen not in loaded:
        raise CollectionError(f"{name}: no split {chosen!r}; it has {', '.join(loaded)}. Name one with split")
    return rows_of_dataset(loaded[chosen], name, progress), chosen


def the_only_split(name: str, split: str | None) -> str:
    """`train`, the one split of what has no splits.

    Raises:
        CollectionError: another was asked for.
    """
    if split not in (None, "train"):
        raise CollectionError(
            f"{name}: it has no splits, so split {split!r} cannot be chosen; name what holds only those rows"
        )
    return "train"
