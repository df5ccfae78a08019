"""Rules on what models are given: FG012, FG018. They read a model's files, and load no weights but an ONNX graph's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from foolsgold.collection import Collection
from foolsgold.errors import ModelError
from foolsgold.findings.rule import Fault, Unknown
from foolsgold.findings.subject import Subject
from foolsgold.models.describe import describe, own_prompt, prompts_in_use
from foolsgold.models.names import locate
from foolsgold.models.protocol import Role
from foolsgold.recipe import ModelSpec, TeacherSpec

MOST_CUT = 0.1  # of the documents
_SAMPLE = 1000  # documents looked at, spread evenly: a share of 10 % is then known to about 2 %

_READ_BY = {"model", "max_length", "query_prompt", "document_prompt"}  # what rules here look at
_ROLES: tuple[Role, ...] = ("query", "document")


def missing_prompts(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG012: a model's configuration has prompts, and texts are encoded without them."""
    for at, spec in _encoders(subject):
        folder = local_folder(spec.model)
        if isinstance(folder, str):
            yield Unknown(folder)
            continue
        prompts = describe(folder, spec.model).prompts
        own = {role: own_prompt(prompts, role) for role in _ROLES}
        used = prompts_in_use(prompts, spec.query_prompt, spec.document_prompt)
        for role in _ROLES:
            if own[role] and not used[role]:
                yield Fault(
                    f"{at}.{role}_prompt", f"{spec.model} has the {role} prompt {own[role]!r}, and none is used"
                )
        others = [name for name, text in prompts.items() if text]
        if others and not any(own.values()) and not any(used.values()):
            names = ", ".join(others)
            yield Fault(
                f"{at}.query_prompt",
                f"{spec.model} has prompts named {names}; none of them is called query or document, and none is used",
            )


def truncation(subject: Subject) -> Iterator[Fault | Unknown]:
    """FG018: more than a tenth of the documents are longer than what a model reads."""
    recipe, collection = subject.recipe, subject.collection
    if isinstance(collection, str):
        yield Unknown(collection)
        return
    readers: list[tuple[str, ModelSpec | TeacherSpec]] = [*_encoders(subject)]
    if recipe.teacher is not None and not _is_function(recipe.teacher):
        readers.append(("teacher", recipe.teacher))
    for at, spec in readers:
        cut = _cut(spec)
        if isinstance(cut, str):
            yield Unknown(cut)
            continue
        share, seen = cut.share(collection, spec)
        if share > MOST_CUT:
            what = "pairs of query and document" if cut.pairs else "documents"
            yield Fault(
                f"{at}.max_length",
                f"{spec.model} reads {cut.max_length} tokens, and {share:.0%} of the {what} are longer (of {seen:,})",
            )


def local_folder(name: str) -> Path | str:
    """Where a model's files are on this machine, or a sentence on why they are not. Nothing is downloaded."""
    try:
        folder = locate(name).folder
    except ModelError as error:
        return str(error)
    if folder is not None:
        return folder
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except (ImportError, OSError):
        return f"{name}: is not on this machine, and a check downloads nothing"


def same_model(one: str, other: str) -> bool:
    """Whether two names mean the same files."""
    if one == other:
        return True
    folders = [local_folder(name) for name in (one, other)]
    return not isinstance(folders[0], str) and folders[0] == folders[1]


def _encoders(subject: Subject) -> Iterator[tuple[str, ModelSpec]]:
    """The embedding models and where the recipe names them, each once; of a set, as they were when it was mined."""
    seen: set[ModelSpec] = set()
    named: list[tuple[str, ModelSpec | None]] = []
    recipe = subject.recipe
    if subject.mined is not None:
        for name, about in subject.mined.manifest["sources"].items():
            if about.get("kind") == "dense":
                prompts = {f"{role}_prompt": about.get(f"{role}_prompt") for role in _ROLES}
                spec = recipe.model_of(name) or ModelSpec(model=about["model"])
                named.append((f"sources.{name}", spec.model_copy(update=prompts)))
    else:
        dense = {name: spec for name, spec in recipe.sources.items() if spec.kind == "dense"}
        if any(spec.model is None for spec in dense.values()):
            named.append(("retriever", recipe.retriever))
        named += [(f"sources.{name}.model", spec.model) for name, spec in dense.items()]
        if subject.trains and not recipe.student.static:
            named.append(("student", subject.student))
    for at, one in named:
        if one is None:
            continue
        read_by = ModelSpec.model_validate(one.model_dump(include=_READ_BY))
        if read_by not in seen:
            seen.add(read_by)
            yield at, one


@dataclass(frozen=True)
class _Cut:
    """How a model's texts are cut: its tokeniser, which does not cut itself, and after how many tokens.

    pairs: whether query and document are one input.
    """

    tokenizer: Any
    max_length: int
    pairs: bool

    def share(self, collection: Collection, spec: ModelSpec | TeacherSpec) -> tuple[float, int]:
        """The share of documents that are cut, and how many were looked at."""
        documents, queries = collection.documents, collection.queries
        rows = np.unique(np.linspace(0, len(documents) - 1, min(len(documents), _SAMPLE)).astype(np.int64))
        texts = documents.take(rows)
        inputs: list[Any] = texts
        if self.pairs:
            asked = queries.take(np.arange(len(texts)) % len(queries))
            prompt = getattr(spec, "prompt", None) or ""
            inputs = [(prompt + query, text) for query, text in zip(asked, texts, strict=True)]
        lengths = np.array([len(encoding.ids) for encoding in self.tokenizer.encode_batch_fast(inputs)])
        return float(np.mean(lengths > self.max_length)), len(texts)


def _cut(spec: ModelSpec | TeacherSpec) -> _Cut | str:
    """How a model cuts its texts, from its files; or a sentence on why that cannot be told."""
    folder = local_folder(spec.model)
    if isinstance(folder, str):
        return folder
    from tokenizers import Tokenizer

    try:
        about = describe(folder, spec.model)
        if about.is_onnx:
            from foolsgold.models.onnx import OnnxModel
            from foolsgold.teachers.onnx import logit_output

            graph = OnnxModel(folder, max_length=spec.max_length)
            graph.tokenizer.no_truncation()
            return _Cut(graph.tokenizer, graph.max_length, pairs=logit_output(graph) is not None)
    except ModelError as error:
        return str(error)
    file = about.base / "tokenizer.json"
    if not file.is_file():
        return f"{spec.model}: has no tokenizer.json to count tokens with"
    limits = [limit for limit in (spec.max_length, about.max_length) if limit is not None]
    if not limits:
        return f"{spec.model}: does not say how many tokens it reads"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pairs = isinstance(spec, TeacherSpec) and (
        spec.kind == "cross_encoder"
        or (spec.kind == "auto" and (about.kind == "CrossEncoder" or not (about.kind or about.modules)))
    )
    return _Cut(tokenizer, min(limits), pairs=pairs)


def _is_function(spec: TeacherSpec) -> bool:
    """A function of the user's own: what it reads, only its author knows."""
    return spec.kind == "callable" or (":" in spec.model and not spec.model.startswith("package:"))
