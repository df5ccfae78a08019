"""What a model's folder says about itself, read once: files of sentence-transformers, PyLate, ColBERT, tokenizers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from foolsgold.errors import ModelError
from foolsgold.models.protocol import Role, Similarity

Pooling = Literal["cls", "mean"]

# Tried in this order, as sentence-transformers' encode_query and encode_document do.
_PROMPT_NAMES: dict[Role, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
_POOLINGS: dict[str, Pooling] = {"cls": "cls", "cls_token": "cls", "mean": "mean", "mean_tokens": "mean"}


@dataclass(frozen=True)
class ModelFolder:
    """The configuration files of one model; each is empty where the folder has no such file.

    name: as the recipe names the model. base: where its first module lies, which has the tokeniser: the folder or one
    inside it. modules: modules.json. config: config.json. settings: config_sentence_transformers.json. colbert:
    ColBERT's artifact.metadata. pooling_config: 1_Pooling/config.json.
    """

    name: str
    folder: Path
    base: Path
    modules: Sequence[Mapping[str, Any]]
    config: Mapping[str, Any]
    settings: Mapping[str, Any]
    colbert: Mapping[str, Any]
    tokenizer_config: Mapping[str, Any]
    sentence_bert_config: Mapping[str, Any]
    pooling_config: Mapping[str, Any]

    @property
    def is_onnx(self) -> bool:
        """Whether onnxruntime runs it."""
        return is_onnx_folder(self.folder)

    @property
    def kind(self) -> str | None:
        """The class that sentence-transformers saved it as; None where no file says so."""
        said: str | None = self.settings.get("model_type")
        return said

    @property
    def what(self) -> str:
        """What it is, for the sentence that says what it is not: `a CrossEncoder`, or its architectures."""
        return f"a {self.kind}" if self.kind else " and ".join(self._architectures or ["no architecture"])

    @property
    def is_cross_encoder(self) -> bool:
        """Whether it has a trained head that scores pairs."""
        plain = self.kind is None and not self.modules
        return self.kind == "CrossEncoder" or (plain and self.has_architecture("ForSequenceClassification"))

    @property
    def is_sparse(self) -> bool:
        """Whether it gives a weight for each term; SPLADE models may have no modules.json."""
        plain = self.kind is None and not self.modules
        return self.kind == "SparseEncoder" or (plain and self.has_architecture("ForMaskedLM"))

    @property
    def is_late_interaction(self) -> bool:
        """Whether it has a trained projection of each token's vector."""
        return self.kind in ("MultiVectorEncoder", "ColBERT") or self.has_architecture("HF_ColBERT", "ForRetrieval")

    def has_architecture(self, *endings: str) -> bool:
        """Whether config.json names an architecture that ends so."""
        return any(each.endswith(endings) for each in self._architectures)

    @property
    def prompts(self) -> Mapping[str, str | None]:
        """The model's own prompts by name."""
        return self.settings.get("prompts") or {}

    @property
    def positions(self) -> int | None:
        """The most tokens that the model has positions for."""
        positions: int | None = self.config.get("max_position_embeddings")
        if positions and self.config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
            return positions - 2  # their positions start after the padding id
        return positions

    @property
    def max_length(self) -> int | None:
        """Tokens that sentence-transformers lets the model read; None where the folder does not say."""
        own: int | None = self.sentence_bert_config.get("max_seq_length")
        if own is not None or self.positions is None:
            return own
        return min(self.positions, self.tokenizer_config.get("model_max_length") or self.positions)

    @property
    def pad_token(self) -> str | None:
        """The token that batches are filled up with."""
        token = self.tokenizer_config.get("pad_token")
        return token.get("content") if isinstance(token, Mapping) else token

    @property
    def has_dense_layer(self) -> bool:
        """Whether a layer follows the pooling, which an ONNX graph of the transformer does not have."""
        return any(module.get("type", "").endswith(".Dense") for module in self.modules)

    def pooling(self) -> Pooling | None:
        """How the vectors of a text's tokens become one, in the old form of the file or the new; None if not said.

        Raises:
            ModelError: a way of pooling other than cls and mean.
        """
        said = self.pooling_config
        if not said:
            return None
        modes = said.get("pooling_mode")
        if modes is None:
            modes = [
                key.removeprefix("pooling_mode_") for key, on in said.items() if key.startswith("pooling_mode_") and on
            ]
        modes = [modes] if isinstance(modes, str) else list(modes)
        if len(modes) != 1 or modes[0] not in _POOLINGS:
            raise ModelError(
                f"{self.name}: pools by {' and '.join(modes) or 'nothing'}; an ONNX folder can pool by cls or mean"
            )
        return _POOLINGS[modes[0]]

    @property
    def _architectures(self) -> list[str]:
        return self.config.get("architectures") or []


def describe(folder: Path, name: str | None = None) -> ModelFolder:
    """Read the configuration files of a model's folder. name: for errors; the folder's path if not given.

    Raises:
        ModelError: one of the files cannot be read.
    """
    modules = _read_json(folder / "modules.json", list)
    first = modules[0].get("path", "") if modules and isinstance(modules[0], dict) else ""
    base = folder / first if (folder / first).is_dir() else folder
    return ModelFolder(
        name=str(folder) if name is None else name,
        folder=folder,
        base=base,
        modules=modules,
        config=_read_json(base / "config.json") or _read_json(folder / "config.json"),
        settings=_read_json(folder / "config_sentence_transformers.json"),
        colbert=_read_json(folder / "artifact.metadata"),
        tokenizer_config=_read_json(base / "tokenizer_config.json"),
        sentence_bert_config=_read_json(base / "sentence_bert_config.json"),
        pooling_config=_read_json(folder / "1_Pooling" / "config.json"),
    )


def is_onnx_folder(folder: Path) -> bool:
    """Whether a folder has both files that onnxruntime needs."""
    return (folder / "model.onnx").is_file() and (folder / "tokenizer.json").is_file()


def own_prompt(prompts: Mapping[str, str | None], role: Role) -> str:
    """The first prompt that the model has for a role, '' if none."""
    return next((text for name in _PROMPT_NAMES[role] if (text := prompts.get(name))), "")


def prompts_in_use(
    own: Mapping[str, str | None], query_prompt: str | None, document_prompt: str | None
) -> dict[Role, str]:
    """The prompt of each role: the given one, or where that is None the model's own, '' if it has none."""
    return {
        "query": own_prompt(own, "query") if query_prompt is None else query_prompt,
        "document": own_prompt(own, "document") if document_prompt is None else document_prompt,
    }


def own_similarity(named: str | None, model: str) -> Similarity:
    """The similarity that a model names; cosine where it names none, as in sentence-transformers.

    Raises:
        ModelError: one that mining cannot search by.
    """
    if named not in (None, "cosine", "dot"):
        raise ModelError(
            f"{model}: compares its vectors by {named} distance; set similarity: cosine or dot to mine with it"
        )
    return cast(Similarity, named or "cosine")


def _read_json(path: Path, kind: type = dict) -> Any:
    """A configuration file's content, which must be of this kind; an empty one where there is no such file."""
    if not path.is_file():
        return kind()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(content, kind):
        raise ModelError(
            f"{path}: has a JSON {type(content).__name__}, where a model's configuration has a {kind.__name__}"
        )
    return content
