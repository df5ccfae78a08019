"""The rate against rank, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from foolsgold.errors import FoolsgoldError
from foolsgold.risk.measure import Curve, Risk, Row
from foolsgold.risk.tally import FEW, Band

_COLOURS = {"bm25": "#0072b2", "dense": "#d55e00", "self": "#009e73", "random": "#777777"}  # Okabe and Ito 2008
_TITLES = {
    "hidden": "hidden positives among the negatives",
    "judged": "relevant among the judged negatives",
    "estimated": "estimated relevance of the negatives",
}


def save_plots(risk: Risk, folder: Path) -> tuple[Path, Path]:
    """Write risk.svg and risk.png: one panel per way, one line per method. Dashed: filtered; bars: 95 % intervals.

    Raises:
        FoolsgoldError: the folder cannot be written to.
    """
    paths = folder / "risk.svg", folder / "risk.png"
    # the same measurements give the same bytes: no random ids, no date
    with matplotlib.rc_context({"svg.hashsalt": "foolsgold", "svg.fonttype": "none"}):
        figure = _figure(risk)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(paths[0], metadata={"Date": None})
            figure.savefig(paths[1], dpi=150)
        except OSError as error:
            raise FoolsgoldError(f"{folder}: cannot write the plots here ({error}); name another --out") from None
    return paths


def _figure(risk: Risk) -> Figure:
    figure = Figure(figsize=(6.2 * len(risk.ways), 4.4), layout="constrained")
    panels = figure.subplots(1, len(risk.ways), squeeze=False, sharey=True)[0]
    for panel, way in zip(panels, risk.ways, strict=True):
        curves = [curve for curve in risk.curves if curve.way == way and curve.bands]
        for number, curve in enumerate(curves):
            _draw(panel, curve, aside=1.03 ** (number - len(curves) / 2))
        _draw_random(panel, [row for row in risk.rows if row.way == way])
        _label(panel, curves, _TITLES[way])
    figure.suptitle(f"{risk.collection}, {risk.split}", fontsize=10)
    panels[0].set_ylabel("share that is relevant, %")
    return figure


def _draw(panel: Axes, curve: Curve, aside: float) -> None:
    """One line; `aside` moves it so that intervals do not overlap. Where few are known it is faint."""
    name = curve.method.name + (", filtered" if curve.filtered else "")
    enough = [band for band in curve.bands if not band.rate.is_few]
    few = [band for band in curve.bands if band.rate.is_few]
    for bands, faint in ((enough, False), (few, True)):
        values = [100 * (band.rate.value or 0.0) for band in bands]
        ends = [band.rate.interval for band in bands]
        panel.errorbar(
            [_middle(band) * aside for band in bands],
            values,
            yerr=(
                [value - 100 * low for value, (low, _) in zip(values, ends, strict=True)],
                [100 * high - value for value, (_, high) in zip(values, ends, strict=True)],
            ),
            color=_COLOURS[curve.method.name],
            alpha=0.3 if faint else 1.0,
            linestyle="none" if faint else "--" if curve.filtered else "-",
            marker="o",
            markersize=3.5,
            markerfacecolor="white" if curve.filtered else None,
            linewidth=1.4,
            elinewidth=0.8,
            label=None if faint else name,
        )


def _draw_random(panel: Axes, rows: Sequence[Row]) -> None:
    """A random draw has no ranks: a level line."""
    for row in rows:
        if row.method.name == "random" and not row.filtered and row.tally and not row.tally.rate.is_few:
            rate = row.tally.rate.value or 0.0
            panel.axhline(100 * rate, color=_COLOURS["random"], linestyle=":", label="random")


def _label(panel: Axes, curves: Sequence[Curve], title: str) -> None:
    bands = {band.first: band for curve in curves for band in curve.bands}
    panel.set_xscale("log")
    panel.set_xticks(
        [_middle(band) for _, band in sorted(bands.items())],
        [
            str(band.first) if band.first == band.last else f"{band.first}-{band.last}"
            for _, band in sorted(bands.items())
        ],
        fontsize=8,
    )
    panel.minorticks_off()
    panel.set_xlabel("rank among the candidates that are left after exclusion")
    panel.set_title(title, fontsize=10)
    panel.set_ylim(bottom=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, fontsize=8, title=f"faint: fewer than {FEW} known", title_fontsize=7)


def _middle(band: Band) -> float:
    """Where a band stands on a logarithmic axis."""
    return sqrt(band.first * band.last)
