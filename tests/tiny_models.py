"""Small models of every kind, made here with random or hand-set weights and saved the way real ones are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WORDS = (
    "the",
    "a",
    "of",
    "in",
    "bees",
    "make",
    "honey",
    "flowers",
    "paris",
    "is",
    "capital",
    "france",
    "river",
    "bread",
)
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", *WORDS, ".", ","]


def tokenizer() -> Any:
    """A word-level BERT tokeniser over `VOCABULARY`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: row for row, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=64, **special)


def bert(folder: Path, architecture: str, **config: Any) -> Path:
    """A random BERT of 2 layers with the head that its architecture has."""
    import torch
    import transformers

    torch.manual_seed(3)
    settings = transformers.BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        **config,
    )
    model = getattr(transformers, architecture)(settings)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(5)  # so that scores differ
        if hasattr(model, "classifier"):
            model.classifier.weight.mul_(15)  # and logits leave [0, 1]
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def cross_encoder(folder: Path, num_labels: int = 1) -> Path:
    """A cross-encoder whose own configuration asks for a sigmoid."""
    bert(folder, "BertForSequenceClassification", num_labels=num_labels)
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "4.0.0"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def static_sparse_encoder(folder: Path, weights: dict[str, float], similarity: str = "dot") -> Path:
    """Each word of a text counts its weight once; other words count nothing."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    table = torch.tensor([weights.get(word, 0.0) for word in VOCABULARY])
    model = SparseEncoder(
        modules=[SparseStaticEmbedding(tokenizer(), weight=table)], device="cpu", similarity_fn_name=similarity
    )
    model.save(str(folder))
    return folder


def splade(folder: Path) -> Path:
    """A random SPLADE model, as a bare masked language model."""
    return bert(folder, "BertForMaskedLM")


def multi_vector_encoder(folder: Path) -> Path:
    """A random ColBERT with markers, query expansion to 8 tokens and a skip list of punctuation."""
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    backbone = bert(folder / "backbone", "BertModel")
    torch.manual_seed(4)
    model = MultiVectorEncoder(
        modules=[
            Transformer(str(backbone), query_expansion={"strategy": "fixed", "attend": False, "length": 8}),
            Dense(32, 16, bias=False, activation_function=torch.nn.Identity(), module_input_name="token_embeddings"),
            MultiVectorMask(skiplist_words=[".", ","]),
            Normalize(module_input_name="token_embeddings"),
        ],
        device="cpu",
    )
    model.save(str(folder / "model"))
    return folder / "model"
