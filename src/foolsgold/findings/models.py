"""Rules on models: FG005, FG012, FG018. The last two read a model's files, and no weights except an ONNX graph's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from foolsgold.collection import Collection
from foolsgold.errors import FoolsgoldError, ModelError
from foolsgold.findings.finding import Fault, Said, Unknown
from foolsgold.findings.subject import Subject
from foolsgold.models.describe import describe, own_prompt, prompts_in_use
from foolsgold.models.names import locate
from foolsgold.models.protocol import Role
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import LongArray

if TYPE_CHECKING:
    from foolsgold.findings.strength import Strength

MOST_CUT = 0.1  # of the documents
_SAMPLE = 1000  # documents looked at, spread evenly: a share of 10 % is then known to about 2 %

_READ_BY = {"model", "max_length", "query_prompt", "document_prompt"}  # what rules here look at
_ROLES: tuple[Role, ...] = ("query", "document")


def weak_teacher(subject: Subject) -> Said:
    """FG005: on held-out queries the teacher orders passages no better than the student."""
    found = measured_strength(subject)
    if found is not None and found.change.delta <= 0:
        yield Fault("teacher.model", str(found))


def measured_strength(subject: Subject) -> Strength | None:
    """The teacher compared with the student; None where there is no teacher.

    Raises:
        Unknown: there is nothing to measure it on, or it was not asked for.
    """
    recipe, student = subject.recipe, subject.student
    if recipe.teacher is None:
        return None
    if student is None:
        raise Unknown("the recipe names no student and no retriever to compare the teacher with")
    if not subject.measure:
        raise Unknown("both models have to be run on held-out queries; --measure does so")
    if recipe.collection is None:
        raise Unknown("the recipe names no collection with held-out queries")
    is_trained = subject.kind == "model" or (subject.run is not None and subject.run.state.is_finished)
    if recipe.student.static and not is_trained:
        raise Unknown("a static student is made when its training starts; check the run")
    from foolsgold.findings.strength import strength_of  # onnxruntime takes a while to import

    try:
        return strength_of(subject, student, recipe.teacher)
    except FoolsgoldError as error:
        raise Unknown(" ".join(str(error).split())) from None


def missing_prompts(subject: Subject) -> Said:
    """FG012: a model's configuration has prompts, and texts are encoded without them."""
    for at, spec in _encoders(subject):
        try:
            prompts = describe(local_folder(spec.model), spec.model).prompts
        except (Unknown, ModelError) as why:
            yield Unknown(str(why))
            continue
        own = {role: own_prompt(prompts, role) for role in _ROLES}
        used = prompts_in_use(prompts, spec.query_prompt, spec.document_prompt)
        for role in _ROLES:
            if own[role] and not used[role]:
                said = f"{spec.model} has the {role} prompt {own[role]!r}, and none is used"
                yield Fault(f"{at}.{role}_prompt", said)
        others = [name for name, text in prompts.items() if text]
        if others and not any(own.values()) and not any(used.values()):
            said = f"{spec.model} has prompts named {', '.join(others)}; none of them is called query or document, and "
            yield Fault(f"{at}.query_prompt", said + "none is used")


def truncation(subject: Subject) -> Said:
    """FG018: more than a tenth of the documents are longer than what a model reads."""
    teacher, collection = subject.recipe.teacher, subject.collection
    specs: list[tuple[str, ModelSpec | TeacherSpec]] = [*_encoders(subject)]
    if teacher is not None and not teacher.is_function:  # only its author knows what a function reads
        specs.append(("teacher", teacher))
    for at, spec in specs:
        try:
            reader = _reader(spec)
        except (Unknown, ModelError) as why:
            yield Unknown(str(why))
            continue
        lengths = _lengths(reader, collection, getattr(spec, "prompt", None) or "")
        share = np.mean(lengths > reader.max_length)
        if share > MOST_CUT:
            said = f"{spec.model} reads {reader.max_length} tokens, and {share:.0%} of the "
            said += "pairs of query and document" if reader.pairs else "documents"
            yield Fault(f"{at}.max_length", f"{said} are longer (of {len(lengths):,})")


def local_folder(name: str) -> Path:
    """Where a model's files are on this machine. Nothing is downloaded.

    Raises:
        Unknown: they are not here.
    """
    try:
        folder = locate(name).folder
    except ModelError as error:
        raise Unknown(str(error)) from None
    if folder is not None:
        return folder
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(name, local_files_only=True))
    except (ImportError, OSError):
        raise Unknown(f"{name}: is not on this machine, and a check downloads nothing") from None


def same_model(one: str, other: str) -> bool:
    """Whether two names mean the same files."""
    try:
        return one == other or local_folder(one) == local_folder(other)
    except Unknown:
        return False


def _encoders(subject: Subject) -> Iterator[tuple[str, ModelSpec]]:
    """The embedding models and where the recipe names them, each once; of a set, as they were when it was mined."""
    seen: set[ModelSpec] = set()
    named: list[tuple[str, ModelSpec | None]] = []
    recipe = subject.recipe
    if subject.mined is not None:
        for name, about in subject.mined.manifest.sources.items():
            if about.kind == "dense":
                prompts = {f"{role}_prompt": about.get(f"{role}_prompt") for role in _ROLES}
                spec = recipe.model_of(name) or ModelSpec(model=str(about.model))
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


class _Reader(NamedTuple):
    """What a model reads of a text: its tokeniser, which does not cut, and how many tokens.

    pairs: whether query and document are one input.
    """

    tokenizer: Any
    max_length: int
    pairs: bool


def _reader(spec: ModelSpec | TeacherSpec) -> _Reader:
    """From a model's files.

    Raises:
        Unknown: they do not say.
    """
    from tokenizers import Tokenizer

    folder = local_folder(spec.model)
    about = describe(folder, spec.model)
    if about.is_onnx:
        from foolsgold.models.onnx import OnnxModel
        from foolsgold.teachers.onnx import logit_output

        graph = OnnxModel(folder, max_length=spec.max_length)
        graph.tokenizer.no_truncation()
        return _Reader(graph.tokenizer, graph.max_length, pairs=logit_output(graph) is not None)
    file = about.base / "tokenizer.json"
    if not file.is_file():
        raise Unknown(f"{spec.model}: has no tokenizer.json to count tokens with")
    limits = [limit for limit in (spec.max_length, about.max_length) if limit is not None]
    if not limits:
        raise Unknown(f"{spec.model}: does not say how many tokens it reads")
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pairs = isinstance(spec, TeacherSpec) and (
        spec.kind == "cross_encoder"
        or (spec.kind == "auto" and (about.kind == "CrossEncoder" or not (about.kind or about.modules)))
    )
    return _Reader(tokenizer, min(limits), pairs=pairs)


def _lengths(reader: _Reader, collection: Collection, prompt: str) -> LongArray:
    """int64 (n): the tokens of documents spread evenly over the collection, with a query where it reads pairs."""
    documents, queries = collection.documents, collection.queries
    rows = np.unique(np.linspace(0, len(documents) - 1, min(len(documents), _SAMPLE)).astype(np.int64))
    inputs: list[Any] = documents.take(rows)
    if reader.pairs:
        asked = queries.take(np.arange(len(rows)) % len(queries))
        inputs = [(prompt + query, text) for query, text in zip(asked, inputs, strict=True)]
    return np.array([len(encoding.ids) for encoding in reader.tokenizer.encode_batch_fast(inputs)])
