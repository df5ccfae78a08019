"""The card of a mined set on the hub, written from its manifest and its audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from foolsgold.exchange.formats import WRITERS
from foolsgold.exchange.formats.writing import Exported
from foolsgold.mined.mined_set import MinedSet

_SIZES = (  # the hub's names of numbers of rows
    (1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"), (100_000_000, "10M<n<100M"),
)  # fmt: skip


def card(mined: MinedSet, to: str, written: Exported, licence: str | None) -> str:
    """README.md with its YAML header (https://huggingface.co/docs/hub/datasets-cards).

    Without a licence the header has a comment in its place, which tells the owner what to do.
    """
    files = sorted(path.name for path in written.path.iterdir()) if written.path.is_dir() else [written.path.name]
    header: dict[str, Any] = {
        "pretty_name": f"Hard negatives mined from {mined.manifest.collection.name}",
        "task_categories": ["text-retrieval", "sentence-similarity"],
        "tags": ["hard-negatives", "foolsgold", *(["sentence-transformers"] if to == "sentence-transformers" else [])],
        "size_categories": [next((name for most, name in _SIZES if written.rows < most), "n>100M")],
    }
    if licence is not None:
        header["license"] = licence
    if to != "beir-run":
        header["configs"] = [
            {"config_name": Path(file).stem, "data_files": f"data/{file}"}
            | ({"default": True} if "train" in file else {})
            for file in files
        ]
    template = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False,  # Markdown, whose cells `cell` makes safe
    )  # fmt: skip
    template.filters["cell"] = _cell
    return template.get_template("card.md.jinja").render(
        header=yaml.safe_dump(header, sort_keys=False, allow_unicode=True),
        licence=licence,
        manifest=mined.manifest,
        recipe=mined.manifest.recipe,
        audit=mined.audit(),
        written=written,
        to=to,
        loaded_by=WRITERS[to].loaded_by,
    )


def without_place(value: Any) -> Any:
    """A value; of an absolute path only the last part, since the rest is about the machine that mined."""
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _cell(value: Any) -> str:
    """A value in a cell of a Markdown table, on one line; absolute paths are cut to their last part."""
    value = f"{value:.3g}" if isinstance(value, float) else without_place(value)
    return " ".join(str(value).replace("|", "\\|").replace("<", "&lt;").split())
