"""From the recipe's teacher section to a teacher."""

from __future__ import annotations

from foolsgold.errors import ModelError
from foolsgold.models.describe import describe
from foolsgold.models.names import Located, fetched, locate
from foolsgold.models.onnx import OnnxModel
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import Scale
from foolsgold.teachers.protocol import Teacher
from foolsgold.teachers.scale import check_scale

_SCALES: dict[str, Scale] = {
    "onnx": "logit", "cross_encoder": "logit", "bi_encoder": "cosine", "multivector": "cosine",
}  # fmt: skip


def load_teacher(spec: TeacherSpec, retriever: ModelSpec | None = None) -> Teacher:
    """The teacher that a recipe names. What its `score` returns is on its own scale; `to_scale` converts.

    retriever: the recipe's; a bi-encoder teacher that is the same model takes its prompts and pooling.

    Raises:
        ModelError: the model cannot be found or loaded, or is not of the kind that the recipe says.
        RecipeError: the scale that the recipe wants a teacher of this kind cannot give.
        MissingExtra: the kind needs torch, or ray_workers ray.
    """
    if spec.ray_workers is not None:
        from foolsgold.teachers.on_ray import RayTeacher

        return RayTeacher(spec, retriever, load_teacher)
    if spec.is_function:
        from foolsgold.teachers.callable import CallableTeacher

        return CallableTeacher(spec)
    located = locate(spec.model)
    kind = _kind(located) if spec.kind == "auto" else spec.kind
    check_scale(_SCALES[kind], spec.scale, f"{spec.model} ({kind})")
    match kind:  # imported where it is needed: an ONNX teacher loads no torch
        case "onnx":
            from foolsgold.teachers.onnx import OnnxTeacher

            return OnnxTeacher(located, spec)
        case "cross_encoder":
            from foolsgold.teachers.cross_encoder import CrossEncoderTeacher

            return CrossEncoderTeacher(located, spec)
        case "bi_encoder":
            from foolsgold.teachers.bi_encoder import BiEncoderTeacher

            return BiEncoderTeacher(spec, retriever)
        case _:
            from foolsgold.teachers.bi_encoder import MultiVectorTeacher

            return MultiVectorTeacher(spec)


def find_teacher(spec: TeacherSpec) -> None:
    """Check that a teacher is there, its function or the files of its model, without loading it.

    Raises:
        ModelError, RecipeError, MissingExtra: as `load_teacher`.
    """
    if spec.is_function:
        from foolsgold.teachers.callable import CallableTeacher

        CallableTeacher(spec)
    else:
        fetched(locate(spec.model), with_code=spec.trust_remote_code)


def _kind(located: Located) -> str:
    """What a model is, from what its folder says; a Hub id is taken for a cross-encoder until it is loaded."""
    if located.folder is None:
        return "cross_encoder"
    if located.is_onnx:
        from foolsgold.teachers.onnx import logit_output

        return "bi_encoder" if logit_output(OnnxModel(located.folder)) is None else "onnx"
    about = describe(located.folder, located.name)
    if not about.modules:
        return "cross_encoder"
    # Folders saved before sentence-transformers 5 do not say, and then only embedding models had a modules.json.
    kinds = {"SentenceTransformer": "bi_encoder", "CrossEncoder": "cross_encoder", "MultiVectorEncoder": "multivector"}
    kind = kinds.get(about.kind or "SentenceTransformer")
    if kind is None:
        raise ModelError(f"{located.name}: is {about.what}, which cannot be a teacher; name a cross-encoder")
    return kind
