"""The parts of a recipe that say how a student is trained on what is mined."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from foolsgold.recipe.losses import LOSSES, LossName
from foolsgold.recipe.stage import Fraction, Stage

MODE = re.compile(
    r"in_batch|(?P<sources>(random|bm25|dense|self)(\+(random|bm25|dense|self))*)(_ce_(?P<below>0?\.\d+))?"
)
MOST_NEGATIVES = 64  # per row; prompts have to be named for as many columns
_EVERY = re.compile(r"(?P<count>\d*\.?\d+) *(?P<unit>epoch|step)s?")


def _with_unit(every: str) -> str:
    found = _EVERY.fullmatch(every)
    if not found or float(found["count"]) <= 0:
        raise ValueError(f"{every!r} does not say how often; write 1 epoch or 500 steps")
    return every


Every = Annotated[str, AfterValidator(_with_unit)]


def steps_in(every: str, steps_per_epoch: int) -> int:
    """How many steps an `Every` is, at least 1."""
    found = _EVERY.fullmatch(every)
    assert found is not None
    return max(1, round(float(found["count"]) * (steps_per_epoch if found["unit"] == "epoch" else 1)))


class LoraSpec(Stage):
    """Low-rank adapters in place of all weights (Hu et al., LoRA, ICLR 2022), through peft."""

    r: int = Field(16, ge=1, description="rank")
    alpha: int = Field(32, ge=1, description="scale of the adapters, divided by r")
    dropout: Fraction = 0.05
    target_modules: list[str] | str | None = Field(None, description="layers with an adapter; null: peft's choice")


class StudentSpec(Stage):
    """The model that is trained, and how. What is not set here is taken from the retriever."""

    model: str | None = Field(None, description="where training starts from; null: the retriever")
    static: bool = Field(
        False, description="start from the token embeddings of the model alone: trains in a minute on a CPU"
    )
    loss: LossName = "mnr"
    temperature: Annotated[float, Field(gt=0.0)] | None = Field(
        None, description="of similarities, in every loss; null: 0.05 for cosines, 1 for dot products"
    )
    teacher_temperature: Annotated[float, Field(gt=0.0)] = Field(1.0, description="of the teacher's logits in kl")
    contrastive_weight: Annotated[float, Field(ge=0.0)] | None = Field(
        None, description="of mnr's loss over the batch, added to margin_mse or kl; null: 1000 and 10; 0: not added"
    )
    similarity: Literal["auto", "cosine", "dot"] = Field("auto", description="auto: the retriever's")
    pooling: Literal["auto", "cls", "mean"] = Field(
        "auto", description="auto: the model's own; only for models that do not say, and then the retriever's"
    )
    epochs: Annotated[float, Field(gt=0.0)] | None = Field(None, description="null: to the end of the schedule, else 1")
    negatives: int = Field(5, ge=0, le=MOST_NEGATIVES, description="per row and epoch, unless a regime has its own n")
    batch_size: int = Field(64, ge=2, description="rows; the other rows' documents are negatives too")
    mini_batch_size: int = Field(32, ge=1, description="texts that cached_mnr encodes at once")
    gradient_accumulation: int = Field(1, ge=1, description="batches per step; negatives are not shared between them")
    learning_rate: Annotated[float, Field(gt=0.0)] | None = Field(
        None, description="null: 2e-5 for a transformer, 2e-4 with lora, 3e-3 for token embeddings"
    )
    warmup: Fraction = Field(0.1, description="share of the steps in which the learning rate rises; then it falls to 0")
    weight_decay: float = Field(0.0, ge=0.0, description="of AdamW")
    batches: Literal["no_duplicates", "topics", "random"] = Field(
        "no_duplicates", description="topics: queries of one topic in a batch (TAS-B)"
    )
    topics: int | None = Field(None, ge=1, description="clusters of queries; null: min(2000, queries / batch_size)")
    topics_per_batch: int = Field(1, ge=1, description="topics in one batch")
    draw: Literal["uniform", "balanced"] = Field(
        "uniform", description="balanced: negatives of any margin alike (TAS-B); needs teacher scores"
    )
    masks: bool = Field(True, description="known positives and false negatives never count as in-batch negatives")
    guide: str | None = Field(None, description="a model that masks in-batch negatives too (GISTEmbed)")
    bank_size: int = Field(16_384, ge=1, description="documents that memory_bank remembers")
    momentum: Fraction = Field(0.999, description="of the encoder behind the memory bank")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: bfloat16 on a GPU that has it, else float32"
    )
    gradient_checkpointing: bool = Field(False, description="less memory, a third more time")
    lora: LoraSpec | None = Field(None, description="train low-rank adapters: true, or {r, alpha, dropout}")
    max_length: int | None = Field(None, ge=1, description="tokens a text is cut to; null: the retriever's")
    query_prompt: str | None = Field(None, description="null: the retriever's, if both are the same model")
    document_prompt: str | None = Field(None, description="as query_prompt")
    checkpoint_every: int | None = Field(None, ge=1, description="steps; null: only where something changes")
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="of training only; another one trains on the same sets; null: the recipe's"
    )
    device: str | None = None
    trust_remote_code: bool = False

    @field_validator("lora", mode="before", json_schema_input_type=bool | LoraSpec | None)
    @classmethod
    def _true_means_defaults(cls, lora: Any) -> Any:
        return {True: {}, False: None}.get(lora, lora) if isinstance(lora, bool) else lora

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.static and self.lora is not None:
            raise ValueError("lora is for transformers; a static student has only its embeddings to train")
        if self.guide is not None and not self.ranks:
            raise ValueError(
                f"guide masks in-batch negatives; loss {self.loss} with contrastive_weight 0 has none; leave out one"
            )
        if self.distils and self.negatives == 0:
            raise ValueError(f"loss {self.loss} compares a positive with negatives; negatives must be at least 1")
        return self

    @property
    def distils(self) -> bool:
        """Whether its loss learns the teacher's scores."""
        return LOSSES[self.loss].distils

    @property
    def ranks(self) -> bool:
        """Whether its loss, or the one added to it, ranks a positive before the documents of the other rows."""
        return not self.distils or self.contrastive_weight != 0


class ShortMode(NamedTuple):
    """Kinds of sources, in order, and the probability that the teacher must stay below; None without a teacher."""

    sources: list[str]
    below: float | None


def _checked(mode: Mapping[str, Any]) -> dict[str, Any]:
    """A mode as a mapping, of which the rest is known when its recipe is made."""
    known = ("sources", "teacher", "decide", "select", "exclude")
    if others := [str(name) for name in mode if name not in known]:
        raise ValueError(f"{', '.join(others)}: a mode has only {', '.join(sorted(known))}")
    sources = mode.get("sources", {})
    if not isinstance(sources, Mapping) or not all(
        spec is None or isinstance(spec, Mapping) for spec in sources.values()
    ):
        raise ValueError(f"sources is {sources!r}; write each with its settings, as {{bm25: {{depth: 50}}}}")
    if given := {"model", "kind"} & set(sources.get("self") or {}):
        raise ValueError(f"sources.self.{min(given)}: self is the student in training; leave it out")
    return dict(mode)


class RegimeSpec(Stage):
    """One way of mining, over some epochs of training."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    name: str = Field(min_length=1)
    from_: Annotated[float, Field(ge=0.0)] = Field(alias="from", description="epoch it starts at, fractions allowed")
    to: Annotated[float, Field(gt=0.0)]
    mode: str | dict[str, Any] = Field(
        description="sources joined by +, and a probability that negatives must be below: bm25+dense_ce_0.3; or a "
        "mapping with the recipe's own sources, teacher, exclude, decide, select"
    )
    n: int | None = Field(None, ge=0, le=MOST_NEGATIVES, description="negatives per row; null: student.negatives")

    @field_validator("mode", mode="before", json_schema_input_type=str | dict[str, Any])
    @classmethod
    def _mode_is_known(cls, mode: Any) -> Any:
        if isinstance(mode, Mapping):
            return _checked(mode)
        if not isinstance(mode, str) or not (found := MODE.fullmatch(mode)) or float(found["below"] or 1) == 0:
            said = (
                f"unknown mode {mode!r}; write in_batch, or random, bm25, dense, self joined by +; with _ce_0.3 at the "
                "end the teacher keeps only candidates with a lower probability"
            )
            raise ValueError(said)
        return mode

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.from_ < self.to:
            raise ValueError(f"from ({self.from_}) must be before to ({self.to})")
        return self

    @property
    def short_mode(self) -> ShortMode:
        """What a mode that is not a mapping says."""
        found = MODE.fullmatch(str(self.mode))
        assert found is not None
        sources = found["sources"].split("+") if found["sources"] else []
        return ShortMode(sources, float(found["below"]) if found["below"] else None)

    @property
    def mines_with_student(self) -> bool:
        """Whether the model in training is one of its sources."""
        sources = self.short_mode.sources if isinstance(self.mode, str) else self.mode.get("sources") or {}
        return "self" in sources


class RemineSpec(Stage):
    """Mining again during a regime, with the student as it is then (Xiong et al., ANCE, ICLR 2021)."""

    every: Every = Field("1 epoch", description="such as 1 epoch, 0.5 epochs, 500 steps")
    overlap: Fraction = Field(0.5, description="share of a query's negatives that are kept from the previous set")


class EvaluationSpec(Stage):
    """What decides whether a round of training is kept: judged queries that the student is not trained on."""

    split: str | None = Field(
        None, description="a split of the collection, such as dev; null: some train queries are held out"
    )
    held_out: Fraction = Field(0.1, description="share of the train queries, where no split is named")
    limit: int | None = Field(1000, ge=1, description="queries at most; null: all")
    every: Every | None = Field(
        None, description="such as 1 epoch or 500 steps; null: after each regime and each mining only"
    )
    measures: tuple[str, ...] = ("nDCG@10", "MRR@10", "recall@100")
    decisive: str = Field("nDCG@10", description="the measure that decides")
    significance: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.05, description="a paired test's p-value below this makes a drop count"
    )
    on_regression: Literal["stop", "rollback", "continue"] = Field(
        "rollback",
        description="after a significant drop; rollback: to the best model, with its negatives until the regime ends",
    )

    @model_validator(mode="after")
    def _decisive_is_measured(self) -> Self:
        if self.decisive not in self.measures:
            raise ValueError(f"decisive is {self.decisive}, which is not among the measures {list(self.measures)}")
        return self
