"""The page of performance: what benchmarks printed, as tables with their commands, and the plot of scaling.

A file of lines is what a terminal showed: `$ python benchmarks/NAME.py ...` and after it the line of JSON it printed.

    for command in "python benchmarks/search_dense.py" "python benchmarks/search_bm25.py"; do
        echo "$ $command"; $command
    done > others.txt
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PANELS = {"seconds": "wall time, seconds", "peak_mb": "peak memory, MB"}
_SPREAD = {"median", "min", "max"}


@dataclass(frozen=True)
class Run:
    """One command and what it printed."""

    command: str
    result: dict[str, Any]


def read_lines(files: Sequence[Path], *more: dict[str, Any]) -> list[Run]:
    """The results in the files and `more`; other lines, such as progress, are passed over."""
    runs = [Run(result["command"], result) for result in more]
    for file in files:
        if not file.is_file():
            sys.exit(f"{file}: no such file; --lines names files with the lines that benchmarks printed")
        command = None
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("$ "):
                command = line.removeprefix("$ ").strip()
            elif line.startswith('{"benchmark"'):
                result = json.loads(line)
                name = result["benchmark"]
                runs.append(Run(result.get("command") or command or f"python benchmarks/{name}.py", result))
                command = None
    return runs


def write_page(page: Path, runs: Sequence[Run]) -> None:
    """Write the page, and beside it scaling.svg."""
    scaling = next(run for run in runs if run.result["benchmark"] == "scaling")
    plot = page.with_name("scaling.svg")
    draw(scaling.result["points"], plot)
    parts = [
        "# Performance",
        "Every figure here was printed by the command above it, and this page was written from what they printed by "
        "`python benchmarks/scaling.py --out docs/performance.md --lines FILE...`.",
        f"Machine: {_settings(scaling.result['machine'])}.",
        "## Against the size of the corpus",
        _fenced(scaling.command),
        f"![Wall time and peak memory against the number of documents]({plot.name})",
        "Each row is a process of its own, whose peak memory has all its libraries in it and the parts of mapped files "
        "that are in memory. Documents are new texts, each the begin of one real document and the end of another: they "
        "have the words of the real ones and, unlike a real corpus of that size, no others. Vectors are clustered, "
        f"float32, {scaling.result['dim']} dimensions, mapped from a file; k is {scaling.result['k']}. Mining is all "
        "of it, from files to files, with embeddings given and a teacher that costs nothing: what models cost is "
        "measured apart.",
    ]
    titles = {"bm25": "BM25", "dense": "Dense search", "mine": "Mining from end to end"}
    for name, points in scaling.result["points"].items():
        parts += [f"### {titles[name]}", _table(list(points[0]), [list(point.values()) for point in points])]
    for run in runs:
        if run is not scaling:
            parts += [f"## {run.result['benchmark'].replace('_', ' ')}", _fenced(run.command), *_rendered(run.result)]
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def draw(points: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Wall time and peak memory, both axes logarithmic, each line with its name at its end."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "scaling", "svg.fonttype": "none", "font.size": 9}
    )  # the same file from the same figures
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, (key, title) in zip(axes, _PANELS.items(), strict=True):
        for label, style, sizes, values in _series(points, key):
            axis.plot(sizes, values, style, marker="o", markersize=3)
            axis.annotate(
                label, (sizes[-1], values[-1]), xytext=(5, 0), textcoords="offset points", va="center", color=style[:2]
            )
        axis.set(xscale="log", yscale="log", xlabel="documents", title=title)
        axis.margins(x=0.1)
        axis.set_xlim(right=axis.get_xlim()[1] * 3)  # room for the names
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _series(points: dict[str, list[dict[str, Any]]], key: str) -> Iterator[tuple[str, str, list[int], list[float]]]:
    """Name, colour and dash, documents, values. BM25 has two times, of building and of searching."""
    for number, (name, measured) in enumerate(points.items()):
        fields = [field for field in measured[0] if field.endswith(key)]
        for field, dash in zip(fields, ("-", "--"), strict=False):
            label = f"{name} {field.removesuffix(key).strip('_')}".strip()
            yield label, f"C{number}{dash}", [p["documents"] for p in measured], [p[field] for p in measured]


def _rendered(result: dict[str, Any]) -> list[str]:
    """A result as Markdown: what is one value in a line; what is a value for each contestant in one table."""
    plain = {key: value for key, value in result.items() if key not in ("benchmark", "command") and _is_value(value)}
    by_name = {key: value for key, value in result.items() if isinstance(value, dict) and not _is_value(value)}
    lists = {key: value for key, value in result.items() if isinstance(value, list) and not _is_value(value)}
    parts = [f"{_settings(plain)}."] if plain else []
    columns = {key: value for key, value in by_name.items() if all(map(_is_value, value.values()))}
    if columns:
        names = list(dict.fromkeys(name for column in columns.values() for name in column))
        parts.append(_table(["", *columns], [[name, *(c.get(name) for c in columns.values())] for name in names]))
    for key, value in by_name.items():
        if key not in columns:
            parts += [f"**{_words(key)}**", *_rendered(value)]
    for key, rows in lists.items():
        parts += [f"**{_words(key)}**", _table(list(rows[0]), [list(row.values()) for row in rows])]
    return parts


def _is_value(value: Any) -> bool:
    """Whether it fits a cell: a number, a word, a list of those, or a median with its range."""
    if isinstance(value, dict):
        return set(value) == _SPREAD
    return not isinstance(value, list) or not any(isinstance(item, dict | list) for item in value)


def _settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{_words(key)} {_cell(value)}" for key, value in values.items() if value is not None)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [[_words(title) for title in head], ["---"] * len(head), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        middle = _cell(value["median"])
        return middle if value["min"] == value["max"] else f"{middle} ({_cell(value['min'])} to {_cell(value['max'])})"
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _words(key: str) -> str:
    return key.replace("_mb", " (MB)").replace("_gb", " (GB)").replace("_", " ")


def _fenced(command: str) -> str:
    return f"```\n{command}\n```"
