"""From the recipe's teacher section to a teacher. The kinds are one literal dict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foolsgold.errors import ModelError
from foolsgold.models.configs import read_json
from foolsgold.models.names import Located, fetched, locate
from foolsgold.models.onnx import OnnxModel
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import Scale
from foolsgold.teachers.protocol import Teacher
from foolsgold.teachers.scale import check_scale


def load_teacher(spec: TeacherSpec, retriever: ModelSpec | None = None) -> Teacher:
    """The teacher that a recipe names. What its `score` returns is on its own scale; `to_scale` converts.

    retriever: the recipe's; a bi-encoder teacher that is the same model takes its prompts and pooling.

    Raises:
        ModelError: the model cannot be found or loaded, or is not of the kind that the recipe says.
        RecipeError: the scale that the recipe wants cannot be had from a teacher of this kind.
        MissingExtra: the kind needs torch, or ray_workers ray.
    """
    if spec.ray_workers is not None:
        from foolsgold.teachers.on_ray import RayTeacher

        return RayTeacher(spec, retriever)
    if _is_function(spec):
        from foolsgold.teachers.callable import CallableTeacher

        return CallableTeacher(spec)
    located = locate(spec.model)
    name = _kind(located) if spec.kind == "auto" else spec.kind
    kind = _KINDS[name]
    check_scale(kind.scale, spec.scale, f"{spec.model} ({name})")
    return kind.load(located, spec, retriever)


def find_teacher(spec: TeacherSpec) -> None:
    """See that a teacher is there, its function or the files of its model, without loading it.

    Raises:
        ModelError, RecipeError, MissingExtra: as `load_teacher`.
    """
    if _is_function(spec):
        from foolsgold.teachers.callable import CallableTeacher

        CallableTeacher(spec)
    else:
        fetched(locate(spec.model), with_code=spec.trust_remote_code)


def _is_function(spec: TeacherSpec) -> bool:
    if spec.kind != "auto":
        return spec.kind == "callable"
    module, _, function = spec.model.partition(":")
    return module != "package" and all(part.isidentifier() for part in (*module.split("."), *function.split(".")))


def _kind(located: Located) -> str:
    """What a model is, from what its folder says; a Hub id is taken for a cross-encoder, which its loading checks."""
    if located.folder is None:
        return "cross_encoder"
    if located.is_onnx:
        from foolsgold.teachers.onnx import logit_output

        return "bi_encoder" if logit_output(OnnxModel(located.folder)) is None else "onnx"
    if not (located.folder / "modules.json").is_file():
        return "cross_encoder"
    # Folders saved before sentence-transformers 5 do not say, and then only embedding models had a modules.json.
    says = read_json(located.folder / "config_sentence_transformers.json").get("model_type", "SentenceTransformer")
    kinds = {"SentenceTransformer": "bi_encoder", "CrossEncoder": "cross_encoder", "MultiVectorEncoder": "multivector"}
    if says not in kinds:
        raise ModelError(f"{located.name}: is a {says}, which cannot be a teacher; name a cross-encoder")
    return kinds[says]


def _onnx(located: Located, spec: TeacherSpec, retriever: ModelSpec | None) -> Teacher:
    del retriever
    from foolsgold.teachers.onnx import OnnxTeacher

    return OnnxTeacher(located, spec)


def _cross_encoder(located: Located, spec: TeacherSpec, retriever: ModelSpec | None) -> Teacher:
    del retriever
    from foolsgold.teachers.cross_encoder import CrossEncoderTeacher

    return CrossEncoderTeacher(located, spec)


def _bi_encoder(located: Located, spec: TeacherSpec, retriever: ModelSpec | None) -> Teacher:
    del located
    from foolsgold.teachers.bi_encoder import BiEncoderTeacher

    return BiEncoderTeacher(spec, retriever)


def _multivector(located: Located, spec: TeacherSpec, retriever: ModelSpec | None) -> Teacher:
    del located, retriever
    from foolsgold.teachers.multivector import MultiVectorTeacher

    return MultiVectorTeacher(spec)


@dataclass(frozen=True)
class _Kind:
    scale: Scale
    load: Callable[[Located, TeacherSpec, ModelSpec | None], Teacher]


_KINDS: dict[str, _Kind] = {
    "onnx": _Kind("logit", _onnx),
    "cross_encoder": _Kind("logit", _cross_encoder),
    "bi_encoder": _Kind("cosine", _bi_encoder),
    "multivector": _Kind("cosine", _multivector),
}
