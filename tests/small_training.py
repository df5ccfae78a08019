"""A collection that a static student of a few words learns in seconds, and such a student."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import toy

from foolsgold.collection import Collection
from foolsgold.progress import Advance

TOPICS = 48


def collection(topics: int = TOPICS) -> Collection:
    """Each topic: two documents and two queries, which share no word with them but a common one."""
    documents = {
        f"d{topic}{part}": f"body{topic} {part} filler{(topic * 7 + len(part)) % 5}"
        for topic in range(topics)
        for part in ("one", "two")
    }
    queries = {f"q{topic}{part}": f"ask{topic} {part}" for topic in range(topics) for part in ("one", "two")}
    judged = {f"q{topic}{part}": {f"d{topic}{part}": 1} for topic in range(topics) for part in ("one", "two")}
    return toy.collection(documents, queries, judged)


def student(folder: Path, seed: int = 1, knows: bool = False) -> Path:
    """A table of word vectors: random, or such that each query finds its documents."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", "one", "two", *(f"filler{i}" for i in range(5))]
    words += [f"{kind}{topic}" for kind in ("body", "ask") for topic in range(TOPICS)]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    vectors = np.random.default_rng(seed).normal(size=(len(words), 16)).astype(np.float32)
    if knows:
        vectors[-TOPICS:] = vectors[-2 * TOPICS : -TOPICS]
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=vectors)], device="cpu")
    model.save(str(folder))
    return folder


def teacher_score(pairs: list[tuple[str, str]]) -> list[float]:
    """The probability of a function as teacher: high where query and document are of one topic and part."""
    return [
        0.9 if query.removeprefix("ask") == " ".join(doc.removeprefix("body").split()[:2]) else 0.1
        for query, doc in pairs
    ]


def recipe(folder: Path, **sections: Any) -> dict[str, Any]:
    """A recipe that trains that student on BM25 negatives of no teacher, in a second or two."""
    return {
        "retriever": {"model": str(folder), "device": "cpu"},
        "teacher": None,
        "sources": {"bm25": {"depth": 20}},
        "student": {
            "batch_size": 16,
            "negatives": 2,
            "learning_rate": 0.05,
            "device": "cpu",
            **sections.pop("student", {}),
        },
        "evaluation": {"held_out": 0.25, **sections.pop("evaluation", {})},
        **sections,
    }


class Killed:
    """A progress that ends the process, as far as the run can tell, after so many steps of training."""

    def __init__(self, after: int) -> None:
        self._left = after

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        def advance(steps: int) -> None:
            self._left -= steps if name == "train" else 0
            if self._left < 0:
                raise KeyboardInterrupt

        yield advance
