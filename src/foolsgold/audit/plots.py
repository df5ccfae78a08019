"""The plots of the report, as SVG to stand in a page and as PNG. The same data give the same bytes."""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

from foolsgold.audit.margins import Scores
from foolsgold.records import FloatArray, IntArray, Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#1b1c1e"  # in a page it becomes the colour of the text around
_COLOURS = ("#3f88c5", "#e08a2c", "#44a26f", "#b06ac4", "#d45d79", "#8c7a3f")  # told apart on white and on black
_SIZE = (6.8, 3.1)  # inches
_BINS = 40
_DOTS = 400  # of each source
_RANK_ENDS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 75, 100, 150, 250, 500, 1000)


def margins_by_source(scores: Scores, sources: list[str], limit: float | None) -> Figure:
    """A histogram of the margins, stacked by source, with zero and the least mean that the gate asks for."""
    figure, axes = _axes()
    edges = np.histogram_bin_edges(scores.margin, _BINS)
    axes.hist(
        [scores.margin[scores.source == source] for source in sources],
        bins=list(edges),
        stacked=True,
        histtype="stepfilled",
        label=sources,
        color=[_COLOURS[place % len(_COLOURS)] for place in range(len(sources))],
    )
    axes.axvline(0, color=_INK, linewidth=1)
    axes.axvline(float(scores.margin.mean()), color=_INK, linewidth=1, linestyle="--", label="mean")
    if limit is not None and scores.scale == "logit":
        axes.axvline(limit, color="#d1495b", linewidth=1, linestyle=":", label=f"gate on the mean: {limit:g}")
    axes.set_xlabel(f"positive minus negative teacher score ({scores.scale}s); left of 0 the negative scores higher")
    axes.set_ylabel("negatives")
    _legend(axes)
    return figure


def scores_by_rank(ranks: dict[str, tuple[IntArray, FloatArray]], unit: Scale, thresholds: dict[str, float]) -> Figure:
    """Teacher's scores over a source's ranks: the median, the middle 80 %, and some candidates as dots."""
    figure, axes = _axes()
    for place, (source, (rank, score)) in enumerate(ranks.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        step = max(1, len(rank) // _DOTS)
        axes.scatter(rank[::step], score[::step], s=4, color=colour, alpha=0.35, linewidths=0)
        band = np.searchsorted(_RANK_ENDS, rank)
        centres: list[float] = []
        lows: list[float] = []
        middles: list[float] = []
        highs: list[float] = []
        for number in np.unique(band).tolist():
            within = band == number
            low, middle, high = np.quantile(score[within], (0.1, 0.5, 0.9))
            centres.append(float(np.exp(np.log(rank[within]).mean())))
            for side, value in ((lows, low), (middles, middle), (highs, high)):
                side.append(float(value))
        axes.fill_between(centres, lows, highs, color=colour, alpha=0.18, linewidth=0)
        axes.plot(centres, middles, color=colour, linewidth=1.8, marker="o", markersize=3, label=f"{source}, median")
    for name, value in thresholds.items():
        axes.axhline(value, color=_INK, linewidth=0.8, linestyle="--")
        axes.annotate(
            name, (1, value), xycoords=("axes fraction", "data"), xytext=(-3, 2), textcoords="offset points",
            ha="right", va="bottom", fontsize=8, color=_INK,
        )  # fmt: skip
    axes.set_xscale("log")
    ticks = [end for end in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if end <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("rank in the source")
    axes.set_ylabel(f"teacher score ({unit}s)")
    _legend(axes)
    return figure


def as_svg(figure: Figure, name: str) -> str:
    """An <svg> for a page: text stays text, ink follows the page, and every id begins with the plot's name."""
    from matplotlib import rc_context

    buffer = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "foolsgold"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue().decode("utf-8")
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    return svg.replace(_INK, "currentColor")


def as_png(figure: Figure) -> bytes:
    """A picture on white."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _axes() -> tuple[Figure, Axes]:
    """An empty plot. Without pyplot, which would choose a screen and remember every figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE)
    figure.subplots_adjust(left=0.09, right=0.99, bottom=0.15, top=0.97)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.tick_params(colors=_INK, labelsize=8)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(_INK)
        label.set_fontsize(9)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=_INK, alpha=0.12, linewidth=0.8)
    return figure, axes


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, fontsize=8, labelcolor=_INK)
