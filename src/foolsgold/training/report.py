"""A run of training as one page: its rounds, its curves, and the sets of the best model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from markupsafe import Markup

from foolsgold.auditing.figures import COLOURS, INK, add_legend, as_svg, new_axes
from foolsgold.auditing.page import environment
from foolsgold.errors import TrainingError
from foolsgold.training.run import UNDONE, RunState

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(state: RunState, path: Path) -> None:
    """Write report.html.

    Raises:
        TrainingError: the file cannot be written.
    """
    decisive = state.facts["recipe"]["evaluation"]["decisive"]
    figures = {"measures": _measures(state, decisive)}
    if state.curve:
        figures["loss"] = _loss(state)
    page = (
        environment(Path(__file__).parent)
        .get_template("report.html.jinja")
        .render(
            state=state,
            decisive=decisive,
            # matplotlib escapes what it writes into an SVG
            plots={name: Markup(as_svg(figure, name)) for name, figure in figures.items()},
            recipe=yaml.safe_dump(
                {name: value for name, value in state.facts["recipe"].items() if name != "collection"},
                sort_keys=False,
                allow_unicode=True,
            ),
        )
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise TrainingError(f"{path}: the report cannot be written here ({error})") from None


def _measures(state: RunState, decisive: str) -> Figure:
    """Each measure after each round; a round that was undone is a hollow dot, and a regime a stretch of the axis."""
    figure, axes = new_axes()
    kept = [one for one in state.rounds if one.outcome not in UNDONE]
    undone = [one for one in state.rounds if one.outcome in UNDONE]
    for place, name in enumerate(state.rounds[0].measures):
        colour = COLOURS[place % len(COLOURS)]
        width = 2.0 if name == decisive else 1.0
        values = [one.measures[name] for one in kept]
        axes.plot(
            [one.stop for one in kept], values, color=colour, linewidth=width, marker="o", markersize=4, label=name
        )
        axes.plot(
            [one.stop for one in undone], [one.measures[name] for one in undone], color=colour, marker="o",
            markerfacecolor="none", linestyle="none",
        )  # fmt: skip
    for before, one in zip(state.rounds[1:], state.rounds[2:], strict=False):
        if before.regime != one.regime:
            axes.axvline(one.start, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xlabel("steps")
    axes.set_ylabel("mean over the held-out queries")
    add_legend(axes)
    return figure


def _loss(state: RunState) -> Figure:
    figure, axes = new_axes((6.8, 2.2))
    axes.plot([step for step, _ in state.curve], [loss for _, loss in state.curve], color=COLOURS[0], linewidth=1.2)
    axes.set_xlabel("steps")
    axes.set_ylabel("training loss")
    figure.subplots_adjust(bottom=0.21)
    return figure
