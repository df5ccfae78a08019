"""The gates of the audit."""

from __future__ import annotations

from pydantic import Field

from foolsgold.recipe.stage import Fraction, Stage


class AuditSpec(Stage):
    """Limits on the mined set; null: that gate is off. The first three fail a set, the others warn.

    The margins are those of the design; where the other limits come from is in docs/audit.md.
    """

    min_mean_margin: float | None = Field(
        2.0, description="mean of the positive's teacher score minus the negative's, in logits"
    )
    max_inverted: Fraction | None = Field(
        0.05, description="share of negatives that the teacher scores above their positive"
    )
    max_leaked: Fraction | None = Field(
        0.0, description="share of negatives that another split judges a positive of the same query"
    )
    min_lower_mode: float | None = Field(1.0, description="the margin, in logits, that one in ten negatives is below")
    min_fill: Fraction | None = Field(0.8, description="share of queries that have as many negatives as asked for")
    max_low_positives: Fraction | None = Field(
        0.1, description="share of queries whose positive the teacher itself would call a negative"
    )
    max_hubs: Fraction | None = Field(
        0.05, description="share of negatives that are hubs: one document for very many queries"
    )
    max_near_duplicates: Fraction | None = Field(
        0.05, description="share of negatives that nearly repeat another negative of their query"
    )
