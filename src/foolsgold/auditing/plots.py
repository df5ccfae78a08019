"""The plots of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foolsgold.auditing.figures import COLOURS, INK, add_legend, new_axes
from foolsgold.auditing.margins import Scores
from foolsgold.records import FloatArray, IntArray, Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 40
_DOTS = 400  # of each source
_RANK_ENDS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 75, 100, 150, 250, 500, 1000)


def margins_by_source(scores: Scores, sources: list[str], limit: float | None) -> Figure:
    """A histogram of the margins, stacked by source, with zero and the least mean that the gate asks for."""
    figure, axes = new_axes()
    edges = np.histogram_bin_edges(scores.margin, _BINS)
    axes.hist(
        [scores.margin[scores.source == source] for source in sources],
        bins=list(edges),
        stacked=True,
        histtype="stepfilled",
        label=sources,
        color=[COLOURS[place % len(COLOURS)] for place in range(len(sources))],
    )
    axes.axvline(0, color=INK, linewidth=1)
    axes.axvline(float(scores.margin.mean()), color=INK, linewidth=1, linestyle="--", label="mean")
    if limit is not None and scores.scale == "logit":
        axes.axvline(limit, color="#d1495b", linewidth=1, linestyle=":", label=f"gate on the mean: {limit:g}")
    axes.set_xlabel(f"positive minus negative teacher score ({scores.scale}s); left of 0 the negative scores higher")
    axes.set_ylabel("negatives")
    add_legend(axes)
    return figure


def scores_by_rank(ranks: dict[str, tuple[IntArray, FloatArray]], unit: Scale, thresholds: dict[str, float]) -> Figure:
    """Teacher's scores over a source's ranks: the median, the middle 80 %, and some candidates as dots."""
    figure, axes = new_axes()
    for place, (source, (rank, score)) in enumerate(ranks.items()):
        colour = COLOURS[place % len(COLOURS)]
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
        axes.axhline(value, color=INK, linewidth=0.8, linestyle="--")
        axes.annotate(
            name, (1, value), xycoords=("axes fraction", "data"), xytext=(-3, 2), textcoords="offset points",
            ha="right", va="bottom", fontsize=8, color=INK,
        )  # fmt: skip
    axes.set_xscale("log")
    ticks = [end for end in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if end <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("rank in the source")
    axes.set_ylabel(f"teacher score ({unit}s)")
    add_legend(axes)
    return figure
