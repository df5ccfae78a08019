"""Plots for a page, as SVG, and as PNG beside it. The same data give the same bytes."""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1b1c1e"  # in a page it becomes the colour of the text around
COLOURS = ("#3f88c5", "#e08a2c", "#44a26f", "#b06ac4", "#d45d79", "#8c7a3f")  # told apart on white and on black
_SIZE = (6.8, 3.1)  # inches


def new_axes(size: tuple[float, float] = _SIZE) -> tuple[Figure, Axes]:
    """An empty plot. Without pyplot, which would choose a screen and remember every figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size)
    figure.subplots_adjust(left=0.09, right=0.99, bottom=0.15, top=0.97)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(colors=INK, labelsize=8)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(INK)
        label.set_fontsize(9)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=INK, alpha=0.12, linewidth=0.8)
    return figure, axes


def add_legend(axes: Axes) -> None:
    """Name what is drawn, in the colour of the page."""
    axes.legend(frameon=False, fontsize=8, labelcolor=INK)


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
    return svg.replace(INK, "currentColor")


def as_png(figure: Figure) -> bytes:
    """A picture on white."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()
