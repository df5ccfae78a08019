"""A calibration, drawn: what each threshold would do, on the teacher's score and on the calibrated probability."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from foolsgold.errors import FoolsgoldError
from foolsgold.rules.bounds import wilson_upper
from foolsgold.teachers.calibrated import Calibration

_COLOURS = {"precision": "#0072b2", "recall": "#009e73", "false_negative_rate": "#d55e00"}  # Okabe and Ito 2008
_NAMES = {
    "precision": "precision (relevant from the threshold on)",
    "recall": "recall",
    "false_negative_rate": "false negatives below the threshold",
}


def save_plot(calibration: Calibration, path: Path) -> Path:
    """Write an SVG or PNG, by the path's suffix. The same calibration gives the same bytes.

    Raises:
        FoolsgoldError: the file cannot be written.
    """
    with matplotlib.rc_context({"svg.hashsalt": "foolsgold", "svg.fonttype": "none"}):
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        _teacher(left, calibration)
        _combined(right, calibration)
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        except OSError as error:
            raise FoolsgoldError(f"{path}: cannot write the plot here ({error}); name another --out") from None
    return path


def _teacher(axes: Axes, calibration: Calibration) -> None:
    curve = calibration.teacher_curve
    for name, colour in _COLOURS.items():
        rates = getattr(curve, name)
        axes.plot(curve.thresholds, rates[:, 0], color=colour, label=_NAMES[name])
        axes.fill_between(curve.thresholds, rates[:, 1], rates[:, 2], color=colour, alpha=0.15, linewidth=0)
    if calibration.scale == "probability":
        axes.set_xscale("logit")  # most scores are close to 0 or to 1
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"threshold on the teacher's score ({calibration.scale})")
    axes.set_title(f"the teacher alone, AUC {calibration.teacher_auc:.2f}; bands: 95 %, by query", fontsize=10)
    _finish(axes, calibration.target)


def _combined(axes: Axes, calibration: Calibration) -> None:
    model = calibration.models[0]
    curve, choice = model.curve, calibration.choice
    thresholds = np.arange(1, len(curve.labels) + 1) / len(curve.labels)
    some = curve.labels > 0
    rate = curve.relevant[some] / curve.labels[some]
    upper = [wilson_upper(int(k), int(n)) for k, n in zip(curve.relevant[some], curve.labels[some], strict=True)]
    colour = _COLOURS["false_negative_rate"]
    axes.plot(thresholds[some], rate, color=colour, label=_NAMES["false_negative_rate"])
    axes.plot(thresholds[some], upper, color=colour, linestyle=":", label="its upper bound (Wilson, 95 %)")
    axes.plot(thresholds, curve.labels / curve.labels[-1], color="#777777", label="labelled pairs below the threshold")
    if choice.threshold is not None:
        axes.axvline(choice.threshold, color="#000000", linewidth=1, label=f"chosen: {choice.threshold:.3f}")
    axes.set_xlabel("threshold on the calibrated probability of relevance (out of fold)")
    axes.set_title(f"{', '.join(model.signals)}: AUC {model.auc:.2f}", fontsize=10)
    _finish(axes, calibration.target)


def _finish(axes: Axes, target: float) -> None:
    axes.axhline(target, color="#000000", linewidth=0.8, linestyle="--", label=f"target: {target:.1%}")
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8, loc="best")
