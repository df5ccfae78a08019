"""The model that is trained: a SentenceTransformer, as it is, with adapters, or as a table of token embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from foolsgold.errors import ModelError, RecipeError
from foolsgold.models.encoders import load_encoder
from foolsgold.models.names import Located, fetched, locate
from foolsgold.models.torch_encoder import load_embedding_model
from foolsgold.models.torch_model import load_model
from foolsgold.recipe import ModelSpec, Recipe
from foolsgold.records import FloatArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_SHORTEST = 1e-6  # of a token's vector; padding and the like have none


def student_spec(recipe: Recipe) -> ModelSpec:
    """What the student is as an embedding model: the retriever's settings, except those that the student has.

    Raises:
        RecipeError: neither the student nor the retriever names a model.
    """
    student, retriever = recipe.student, recipe.retriever
    model = student.model or (retriever.model if retriever else None)
    if model is None:
        raise RecipeError("student.model: name the model that training starts from; this recipe has no retriever")
    same = retriever is not None and retriever.model == model
    values = retriever.model_dump() if retriever is not None and same else {"model": model}
    own = {
        name: value
        for name in ("query_prompt", "document_prompt", "max_length", "device")
        if (value := getattr(student, name)) is not None
    }
    own |= {name: value for name in ("similarity", "pooling") if (value := getattr(student, name)) != "auto"}
    return ModelSpec.model_validate(
        {**values, **own, "dtype": "float32", "trust_remote_code": student.trust_remote_code}
    )


def load_student(recipe: Recipe) -> SentenceTransformer:
    """The model to train, in float32, with its prompts in its configuration, so that they are saved with it.

    Raises:
        ModelError: it cannot be loaded or trained. MissingExtra: torch or peft is not installed.
    """
    spec = student_spec(recipe)
    located = fetched(locate(spec.model), with_code=spec.trust_remote_code)
    model: SentenceTransformer
    if recipe.student.static:
        model = _static(located, spec)
    elif located.is_onnx:
        raise ModelError(
            f"{spec.model}: an ONNX model cannot be trained; name the model it was exported from, or set "
            "student.static: true to train its token embeddings"
        )
    else:
        assert located.folder is not None
        model, _ = load_embedding_model(located.folder, spec)
    for role, prompt in (("query", spec.query_prompt), ("document", spec.document_prompt)):
        if prompt is not None:
            model.prompts[role] = prompt
    if spec.similarity != "auto":
        model.similarity_fn_name = spec.similarity
    if recipe.student.lora is not None:
        from foolsgold.training.adapters import add_adapters

        add_adapters(model, recipe.student.lora)
    return model


def _static(located: Located, spec: ModelSpec) -> Any:
    """A model whose vector of a text is the mean of its tokens' vectors, which are the input embeddings of another.

    An ONNX model does not show those; there a token's vector is what the model makes of it as a text (Tulkens, van
    Dongen, Model2Vec, 2024).
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    assert located.folder is not None
    vectors: FloatArray
    if located.is_onnx:
        tokenizer = Tokenizer.from_file(str(located.folder / "tokenizer.json"))
        words = [str(tokenizer.id_to_token(i)).removeprefix("##") for i in range(tokenizer.get_vocab_size())]
        vectors = load_encoder(spec).encode(words, "document", lambda _: None)
    else:
        model, _ = load_model("SentenceTransformer", located.folder, spec)
        if model.transformers_model is None:
            return model  # a static model already
        tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
        vectors = model.transformers_model.get_input_embeddings().weight.detach().cpu().numpy()
    tokenizer.no_padding()
    if spec.max_length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(spec.max_length)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.maximum(np.median(lengths), _SHORTEST)  # so that one learning rate fits all
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=vectors)], device=spec.device)
