"""The models that a recipe names: retriever, teacher, judge."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from foolsgold.recipe.stage import BatchSize, Stage
from foolsgold.records import Scale


class ModelSpec(Stage):
    """An embedding model: a hub id, a local folder, or package:NAME/SUBPATH."""

    model: str
    query_prompt: str | None = Field(
        None, description="text put before each query; null: the model's own, if it has one"
    )
    document_prompt: str | None = Field(None, description="text put before each document; null: the model's own")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_length: int | None = Field(None, ge=1, description="tokens a text is cut to; null: the model's own limit")
    pooling: Literal["auto", "cls", "mean"] = Field(
        "auto", description="how token vectors become one; only for models that do not say"
    )
    similarity: Literal["auto", "cosine", "dot"] = Field("auto", description="auto: the model's own, else cosine")
    batch_size: BatchSize = Field(None, description="texts or pairs run together; null or auto: as many as fit")
    device: str | None = Field(None, description="torch device; null: the best one here")
    trust_remote_code: bool = Field(False, description="run Python code that a hub model brings with it")


NamedModel = Annotated[
    ModelSpec,
    BeforeValidator(
        lambda model: {"model": model} if isinstance(model, str) else model, json_schema_input_type=str | ModelSpec
    ),
]


class TeacherSpec(Stage):
    """The model that scores (query, document) pairs, to tell negatives from false negatives."""

    model: str = Field(
        "cross-encoder/ms-marco-MiniLM-L-12-v2",
        description="a hub id, a folder, package:NAME/SUBPATH, or module:function for kind callable",
    )
    kind: Literal["auto", "cross_encoder", "onnx", "bi_encoder", "multivector", "callable"] = "auto"
    scale: Scale = Field("probability", description="the scale that scores and thresholds are in")
    max_length: int = Field(512, ge=1, description="tokens a pair is cut to")
    prompt: str | None = Field(None, description="text put before each query")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_size: BatchSize = Field(None, description="texts or pairs run together; null or auto: as many as fit")
    device: str | None = None
    trust_remote_code: bool = False
    ray_workers: int | None = Field(
        None, ge=1, description="number of Ray actors that score; null: this process scores"
    )
    exhaustive: bool = Field(False, description="score every candidate, not only those that can change the result")

    @property
    def is_function(self) -> bool:
        """Whether it is a function of the user's own, as module:function."""
        if self.kind != "auto":
            return self.kind == "callable"
        module, _, function = self.model.partition(":")
        return module != "package" and all(part.isidentifier() for part in (*module.split("."), *function.split(".")))


class JudgeSpec(Stage):
    """A language model that is asked about ambiguous candidates: any endpoint with OpenAI's chat completions."""

    kind: Literal["llm"] = "llm"
    endpoint: str = Field(description="base address, such as http://127.0.0.1:8000/v1")
    model: str = Field(description="the endpoint's name of it, with a version: answers are stored by it")
    budget: int = Field(1000, ge=0, description="candidates that a run may ask about; stored answers count too")
    api_key_env: str | None = Field(None, description="the environment variable that holds the endpoint's key")
    temperature: float | None = Field(0.0, ge=0.0, description="null: not sent, for models that refuse it")

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_an_address(cls, endpoint: str) -> str:
        if not endpoint.startswith(("http://", "https://")):
            raise ValueError(f"{endpoint!r} is not an address; it starts with https:// or http://")
        if "@" in endpoint.split("/")[2]:
            raise ValueError("a name and a password in an address end up in every manifest; use judge.api_key_env")
        return endpoint
