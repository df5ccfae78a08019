"""Fits the probability that a candidate is relevant to labels, so that thresholds rest on evidence.

What applies it in a run is in `foolsgold.teachers.calibrated`.
"""

from foolsgold.teachers.calibrated import Calibration, Model, load

__all__ = ["Calibration", "Model", "load"]
