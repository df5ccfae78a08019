"""How candidates are excluded, told apart and chosen: the sections exclude, decide and select."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from foolsgold.recipe.stage import Fraction, Stage

HARD_CAP = 8  # negatives per query; with more, training gains nothing and the share of false negatives grows


class ExcludeSpec(Stage):
    """Which candidates are dropped before the teacher scores them, besides known positives and their duplicates."""

    near_duplicate: Fraction | None = Field(
        0.95,
        description="drop candidates whose character 5-shingles are this similar (Jaccard) to a positive's; null: off",
    )
    near_duplicate_cosine: Fraction | None = Field(
        0.98,
        description="drop candidates whose vectors of the dense source have this cosine to a positive's; null: off",
    )


class DecideSpec(Stage):
    """Which scores make a negative, and which a false negative. Thresholds are on the teacher's scale."""

    negative_below: float | None = Field(0.3, description="below: negative")
    positive_above: float | None = Field(0.7, description="above: false negative; between the two: ambiguous")
    ambiguous: Literal["skip", "weight"] = Field(
        "skip", description="weight: may be selected, with a weight from 1 at negative_below to 0 at positive_above"
    )
    relative_margin: Fraction | None = Field(
        None, description="0.95 keeps candidates up to 95 % of the positive's score (sign-safe)"
    )
    absolute_margin: float | None = Field(
        None, ge=0.0, description="0.1 keeps candidates 0.1 below the positive's score"
    )
    positive_percentile: Annotated[float, Field(ge=0.0, le=100.0)] | None = Field(
        None, description="5 keeps candidates below the 5th percentile of all positives' scores"
    )
    positive_reference: Literal["min", "max", "mean", "each"] = Field(
        "min", description="which positive a margin is measured from; each: every positive gets its own negatives"
    )
    calibration: str | None = Field(
        None,
        description="calibration.json, or default: thresholds are on the calibrated probability of relevance",
    )
    max_false_negative_rate: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.02, description="with a calibration, in place of negative_below: largest share of false negatives"
    )

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Self:
        low, high = self.negative_below, self.positive_above
        if self.calibration is None and low is not None and high is not None and low > high:
            raise ValueError(f"negative_below ({low}) must not be above positive_above ({high})")
        if self.ambiguous == "weight" and (low is None or high is None):
            raise ValueError("ambiguous: weight needs both negative_below and positive_above")
        default = DecideSpec.model_fields["negative_below"].default
        if self.calibration is not None and low not in (None, default):
            raise ValueError(
                f"negative_below is {low}, but a calibration sets that threshold itself, by max_false_negative_rate; "
                "leave one of the two out"
            )
        return self

    @property
    def compares(self) -> bool:
        """Whether any rule compares a candidate with positives, its query's or a percentile of all."""
        rules = (self.relative_margin, self.absolute_margin, self.positive_percentile)
        return any(rule is not None for rule in rules)


class SelectSpec(Stage):
    """Which of a query's negatives are selected, and how many."""

    strategy: Literal["top", "random", "simans", "log_random", "stratified"] = Field(
        "random", description="random keeps out-of-domain quality where top loses it"
    )
    per_query: int = Field(7, ge=1, description="negatives per query")
    cap: int = Field(HARD_CAP, ge=1, description="per_query may not be above this; raise both if you mean it")
    backfill: bool = Field(True, description="other sources fill up what one source cannot give")
    simans_a: float = Field(0.5, ge=0.0, description="p ~ exp(-a (s - s_positive - b)^2); SimANS's published code: 0.5")
    simans_b: float = Field(0.0, description="the same; SimANS's published code: 0")
    strata: int = Field(
        4, ge=1, description="bands of the retriever's score that strategy stratified draws from in turn"
    )

    @model_validator(mode="after")
    def _under_the_cap(self) -> Self:
        if self.per_query > self.cap:
            raise ValueError(
                f"per_query is {self.per_query} but the cap is {self.cap}; set cap: {self.per_query} if you mean it"
            )
        return self
