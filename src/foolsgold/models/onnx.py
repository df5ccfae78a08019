"""Running a folder with model.onnx and tokenizer.json: the one place where onnxruntime is used.

Encoders, cross-encoders and late-interaction models differ only in what they tokenise and which output they read:

    tokens = model.tokenize_pairs(pairs)
    for rows, outputs in model.run_all(tokens):
        scores[rows] = outputs["logits"][:, 0]

An input's output must not depend on what else is being run (design, rules 6 and 7). Most int8 models quantise their
activations over the whole batch, so theirs does: the same pair's logit moved by up to 1.1 with the company it was in
(ms-marco-MiniLM-L-12-v2, int8). `run_all` therefore runs such graphs one input at a time. That costs nothing for
passages (330 tokens: 3,300 tokens a second and core in batches of 1, 2,600 in batches of 8) and 40 % for short queries
(22 tokens: 3,400 and 5,700). A batch has one thread, and as many batches run at once as there are cores.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from foolsgold.errors import ModelError
from foolsgold.models.batches import length_batches, run_in_threads
from foolsgold.models.describe import ModelFolder, describe
from foolsgold.records import FloatArray, IntArray, LongArray

_BATCH = 8  # for graphs that do not quantise; on a CPU a larger one is not faster (22 tokens: 5,700/s, and 5,100 of 32)
_TOKENIZED_AT_ONCE = 512
_TOKEN_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tokens:
    """One text or one pair, tokenised and cut, without padding.

    ids: int32 (length). types: int32 (length), 0 for the first text and 1 for the second; None: all 0.
    attended: int32 (length), 0 where the model must not look (late interaction's query padding); None: all 1.
    """

    ids: IntArray
    types: IntArray | None = None
    attended: IntArray | None = None

    def __len__(self) -> int:
        return len(self.ids)


class OnnxModel:
    """An onnxruntime session and its tokeniser.

    about: the folder's configuration files.
    max_length: tokens a text or pair is cut to, never more than the model has positions for; None: the model's limit.
    threads: batches that `run_all` runs at once; None: one a core that this process may use.
    outputs: the names of what `run` returns, in the graph's order. tokenizer: a `tokenizers.Tokenizer` that cuts at
    `max_length` and does not pad.

    Raises:
        ModelError: no model.onnx or tokenizer.json, not an ONNX model, inputs that are not those of a text model.
    """

    def __init__(self, folder: Path, *, max_length: int | None = None, threads: int | None = None) -> None:
        self.folder = folder
        self.about = describe(folder)
        self._session = _session(folder / "model.onnx")
        self._threads = threads or _usable_cores()
        by_batch = _quantises_by_batch(folder / "model.onnx")
        self._batch = 1 if by_batch else _BATCH
        self.dtype = "int8" if by_batch else "float32"
        self._inputs = {node.name: _integer(node, folder) for node in self._session.get_inputs()}
        self.outputs: tuple[str, ...] = tuple(node.name for node in self._session.get_outputs())
        self.tokenizer = _tokenizer(folder / "tokenizer.json")
        self.max_length = _max_length(self.about, self.tokenizer, max_length)
        self.tokenizer.no_padding()  # some files pad every text to 512 tokens
        self.tokenizer.enable_truncation(self.max_length)
        self.pad_id = _pad_id(self.tokenizer, self.about)

    def output_shape(self, name: str) -> tuple[int | None, ...]:
        """The shape the graph declares for one output; None where it varies.

        Raises:
            ModelError: the graph has no such output.
        """
        for node in self._session.get_outputs():
            if node.name == name:
                return tuple(size if isinstance(size, int) else None for size in node.shape)
        raise ModelError(f"{self.folder}: model.onnx has no output {name!r} (it has: {', '.join(self.outputs)})")

    def tokenize(self, texts: Sequence[str]) -> list[Tokens]:
        """Each text, cut to `max_length` tokens, special tokens included."""
        return [Tokens(_ids(encoding.ids)) for encoding in self._encodings(texts)]

    def tokenize_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[Tokens]:
        """Each (first, second) pair as one sequence; where it is too long, the longer of the two is cut first."""
        return [Tokens(_ids(encoding.ids), _ids(encoding.type_ids)) for encoding in self._encodings(pairs)]

    def run(self, batch: Sequence[Tokens]) -> dict[str, FloatArray]:
        """Run one batch as it is; `run_all` is for any number of inputs.

        Every output by name, float32: (len(batch), ...); of tokens (len(batch), longest, ...), padded on the right.

        Raises:
            ModelError: onnxruntime refuses, or an output has not one row for each of the batch.
        """
        try:
            values = self._session.run(None, self._feed(batch))
        except Exception as error:  # onnxruntime's errors have no common base but Exception
            raise ModelError(f"{self.folder}: model.onnx cannot be run ({_first_line(error)})") from None
        outputs = {name: np.asarray(value, dtype=np.float32) for name, value in zip(self.outputs, values, strict=True)}
        for name, value in outputs.items():
            if value.shape[:1] != (len(batch),):
                raise ModelError(
                    f"{self.folder}: output {name!r} has shape {value.shape} for a batch of {len(batch)}; "
                    "export the model with a dynamic batch dimension"
                )
        return outputs

    def run_all(
        self, inputs: Sequence[Tokens], *, batch_size: int | None = None
    ) -> Iterator[tuple[LongArray, dict[str, FloatArray]]]:
        """Run every input, those of nearly one length together, the longest first.

        batch_size: None: what is best for the model (see the top of this file). Yields, batch by batch, the positions
        in `inputs` and what `run` gives for them. Only a few batches are held at a time.

        Raises:
            ModelError: as `run`.
        """
        size = self._batch if self._batch == 1 else batch_size or self._batch
        batches = length_batches([len(tokens) for tokens in inputs], size=size)
        yield from run_in_threads(lambda rows: self.run([inputs[row] for row in rows]), batches, threads=self._threads)

    def _encodings(self, inputs: Sequence[Any]) -> Iterator[Any]:
        # A tokeniser's encodings are many times larger than their ids, so only a few are held at a time.
        for start in range(0, len(inputs), _TOKENIZED_AT_ONCE):
            yield from self.tokenizer.encode_batch_fast(
                [_encodable(item) for item in inputs[start : start + _TOKENIZED_AT_ONCE]]
            )

    def _feed(self, batch: Sequence[Tokens]) -> dict[str, Any]:
        """The inputs that the graph has, and no others."""
        longest = max(len(tokens) for tokens in batch)
        padded = {
            "input_ids": np.full((len(batch), longest), self.pad_id, dtype=np.int64),
            "attention_mask": np.zeros((len(batch), longest), dtype=np.int64),
            "token_type_ids": np.zeros((len(batch), longest), dtype=np.int64),
            "position_ids": np.broadcast_to(np.arange(longest, dtype=np.int64), (len(batch), longest)),
        }
        for row, tokens in enumerate(batch):
            padded["input_ids"][row, : len(tokens)] = tokens.ids
            padded["attention_mask"][row, : len(tokens)] = 1 if tokens.attended is None else tokens.attended
            padded["token_type_ids"][row, : len(tokens)] = 0 if tokens.types is None else tokens.types
        return {name: padded[name].astype(dtype, copy=False) for name, dtype in self._inputs.items()}


def _session(path: Path) -> Any:
    if not path.is_file():
        raise ModelError(f"{path.parent}: has no model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base but Exception
        raise ModelError(f"{path}: not a model that onnxruntime can load ({_first_line(error)})") from None


def _quantises_by_batch(path: Path) -> bool:
    """Whether the graph has an operator that measures the range of its input, which is all of a batch, as it runs."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as graph:
        return graph.find(b"DynamicQuantize") >= 0


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _integer(node: Any, folder: Path) -> type[np.integer[Any]]:
    if node.name not in _TOKEN_INPUTS:
        raise ModelError(
            f"{folder}: model.onnx wants an input {node.name!r}; foolsgold runs text models, "
            f"which take only {', '.join(_TOKEN_INPUTS)}"
        )
    return np.int32 if node.type == "tensor(int32)" else np.int64


def _tokenizer(path: Path) -> Any:
    if not path.is_file():
        raise ModelError(f"{path.parent}: has no tokenizer.json, which model.onnx needs beside it")
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises a bare Exception
        raise ModelError(
            f"{path}: not a tokeniser that the tokenizers library can load ({_first_line(error)})"
        ) from None


def _pad_id(tokenizer: Any, about: ModelFolder) -> int:
    for token in (about.pad_token, "[PAD]", "<pad>"):
        if token is not None and (found := tokenizer.token_to_id(token)) is not None:
            return int(found)
    return 0  # a padded position is never attended to, so any id of the vocabulary does


def _max_length(about: ModelFolder, tokenizer: Any, wanted: int | None) -> int:
    """What the caller wants, at most what the model has positions for."""
    positions = about.positions or 10**6
    own = (
        about.positions,
        about.tokenizer_config.get("model_max_length"),
        about.sentence_bert_config.get("max_seq_length"),
        (tokenizer.truncation or {}).get("max_length"),
    )
    if wanted is None:
        return min((int(length) for length in own if length and length <= positions), default=512)
    if wanted > positions:
        _log.warning(
            "%s: max_length is %d but the model has %d positions; cutting there", about.folder, wanted, positions
        )
    return min(wanted, positions)


def _encodable(item: Any) -> Any:
    """A lone surrogate cannot be handed to the tokeniser; it becomes a replacement character."""
    if isinstance(item, str):
        return item if item.isascii() else item.encode("utf-8", "replace").decode("utf-8")
    return tuple(_encodable(part) for part in item)


def _ids(values: Iterable[int]) -> IntArray:
    return np.asarray(values, dtype=np.int32)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
