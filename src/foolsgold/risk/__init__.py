"""How many of my negatives are positives? The false-negative rate of each way of mining, on one's own collection."""

from foolsgold.risk.measure import Curve, Risk, Row, measure
from foolsgold.risk.tally import Share, Tally, tally
from foolsgold.risk.truth import Probabilities, Truth, by_estimate, by_hiding, by_judgements

__all__ = [
    "Curve",
    "Probabilities",
    "Risk",
    "Row",
    "Share",
    "Tally",
    "Truth",
    "by_estimate",
    "by_hiding",
    "by_judgements",
    "measure",
    "tally",
]
