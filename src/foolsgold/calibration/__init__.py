"""How probable it is that a candidate is relevant, learnt from labels: thresholds that are set on evidence."""

from foolsgold.calibration.judge import Calibration, Judge, Model, load

__all__ = ["Calibration", "Judge", "Model", "load"]
