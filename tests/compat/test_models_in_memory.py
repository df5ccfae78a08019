"""Models as objects: what is kept of them between runs, pools of processes, and anything with their methods."""

from __future__ import annotations

import logging
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from foolsgold.compat.models import fingerprint
from foolsgold.compat.sentence_transformers import mine_hard_negatives
from foolsgold.errors import SourceError, TeacherError


class Counting:
    """Passes everything on to a model, and counts the texts it encodes and the pairs it scores."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.texts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def encode_query(self, texts: list[str], **settings: Any) -> Any:
        self.texts += len(texts)
        return self._model.encode_query(texts, **settings)

    def encode_document(self, texts: list[str], **settings: Any) -> Any:
        self.texts += len(texts)
        return self._model.encode_document(texts, **settings)

    def predict(self, pairs: list[tuple[str, str]], **settings: Any) -> Any:
        self.texts += len(pairs)
        return self._model.predict(pairs, **settings)


def test_a_second_run_encodes_nothing(
    single: Any, retriever: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "new" / "cache"
    model = Counting(retriever)
    first = mine_hard_negatives(single, model, cache_folder=str(cache))
    files = sorted(path.name for path in cache.iterdir())
    assert [name.split("_embeddings_")[0] for name in files] == ["corpus", "query"]
    assert f"[Cache] Saved query embeddings to {cache / files[1]}" in capsys.readouterr().out
    encoded = model.texts
    again = mine_hard_negatives(single, model, cache_folder=str(cache))
    assert model.texts == encoded == 80
    assert again.to_list() == first.to_list()
    assert f"[Cache] Loaded corpus embeddings from {cache / files[0]} (shape=(40, 16))" in capsys.readouterr().out


def test_a_trained_model_does_not_get_the_vectors_of_the_untrained(single: Any, retriever: Any, tmp_path: Path) -> None:
    trained = deepcopy(retriever)
    with torch.no_grad():
        trained[0].embedding.weight[7] *= -1.0
    assert trained.model_card_data.base_model == retriever.model_card_data.base_model
    kept: dict[str, Any] = {"cache_folder": str(tmp_path), "output_scores": True, "verbose": False}
    before = mine_hard_negatives(single, retriever, **kept)
    after = mine_hard_negatives(single, trained, **kept)
    assert after.to_list() != before.to_list()
    assert after.to_list() == mine_hard_negatives(single, trained, output_scores=True, verbose=False).to_list()


def test_prompts_and_texts_have_files_of_their_own(single: Any, retriever: Any, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"cache_folder": str(tmp_path), "verbose": False}
    mine_hard_negatives(single, retriever, **kept)
    for changed, new in (
        ({"query_prompt": "bees "}, {"query": 1, "corpus": 0}),
        ({"corpus_prompt": "bees "}, {"query": 0, "corpus": 1}),
        ({"corpus": ["river bread"]}, {"query": 0, "corpus": 1}),
    ):
        before = list(tmp_path.iterdir())
        mine_hard_negatives(single, retriever, **kept, **changed)
        added = [path.name for path in tmp_path.iterdir() if path not in before]
        assert {kind: sum(name.startswith(kind) for name in added) for kind in new} == new


def test_a_damaged_file_is_written_again(single: Any, retriever: Any, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"cache_folder": str(tmp_path), "verbose": False}
    first = mine_hard_negatives(single, retriever, **kept)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:100])
    assert mine_hard_negatives(single, retriever, **kept).to_list() == first.to_list()
    assert all(len(np.load(path)) == 40 for path in tmp_path.iterdir())


def test_scores_of_a_cross_encoder_are_kept_too(
    single: Any, retriever: Any, cross_encoder: Any, tmp_path: Path
) -> None:
    class Listening(type(cross_encoder)):  # type: ignore[misc]
        asked = 0

        def predict(self, pairs: list[tuple[str, str]], **settings: Any) -> Any:
            Listening.asked += len(pairs)
            return super().predict(pairs, **settings)

    model = deepcopy(cross_encoder)
    model.__class__ = Listening
    kept: dict[str, Any] = {"cross_encoder": model, "cache_folder": str(tmp_path), "range_max": 8, "verbose": False}
    few = single.select(range(8))
    mine_hard_negatives(few, retriever, max_score=0.8, **kept)
    asked = Listening.asked
    assert asked == 8 * 8 - 8  # every document but the query's own positive
    mine_hard_negatives(few, retriever, max_score=0.3, **kept)
    assert Listening.asked == asked  # another threshold costs nothing
    with torch.no_grad():
        model.transformers_model.classifier.weight.mul_(0.5)
    mine_hard_negatives(few, retriever, max_score=0.3, **kept)
    assert Listening.asked == 2 * asked


def test_what_has_no_weights_is_not_kept(
    single: Any, retriever: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Opaque:
        device = torch.device("cpu")
        encode_query = staticmethod(retriever.encode_query)
        encode_document = staticmethod(retriever.encode_document)
        similarity = staticmethod(retriever.similarity)
        similarity_pairwise = staticmethod(retriever.similarity_pairwise)

    with caplog.at_level(logging.WARNING):
        found = mine_hard_negatives(single, Opaque(), cache_folder=str(tmp_path), verbose=False)
    assert "Opaque is not a torch module" in caplog.text
    assert not list(tmp_path.iterdir())
    assert found.to_list() == mine_hard_negatives(single, retriever, verbose=False).to_list()


def test_a_fingerprint_is_of_contents(retriever: Any, cross_encoder: Any) -> None:
    for model in (retriever, cross_encoder):
        own = fingerprint(model)
        assert own == fingerprint(deepcopy(model))
        changed = deepcopy(model)
        with torch.no_grad():
            next(changed.parameters()).view(-1)[0] += 1e-3
        assert fingerprint(changed) != own
        for name, value in (("prompts", {"query": "bees "}), ("truncate_dim", 8)):
            changed = deepcopy(model)
            if hasattr(changed, name):
                setattr(changed, name, value)
                assert fingerprint(changed) != own, name
    shorter = deepcopy(cross_encoder)
    shorter.max_seq_length = 9
    assert fingerprint(shorter) != fingerprint(cross_encoder)
    raw = deepcopy(cross_encoder)
    raw.activation_fn = torch.nn.Identity()
    assert fingerprint(raw) != fingerprint(cross_encoder)


def test_running_a_model_does_not_change_its_fingerprint(cross_encoder: Any) -> None:
    own = fingerprint(cross_encoder)
    cross_encoder.predict([("bees", "honey")])  # sets its tokeniser's padding
    assert fingerprint(cross_encoder) == own


def test_half_precision_is_searched_by_inner_product(several: Any) -> None:
    from table_student import static_student

    model = static_student().half()
    found = mine_hard_negatives(several, model, output_scores=True, verbose=False)
    assert len(found) == 111


def test_the_similarity_is_asked_once_a_block_and_for_few_documents(single: Any, retriever: Any, texts: Any) -> None:
    asked: list[tuple[int, int]] = []

    class Spied(Counting):
        def similarity(self, queries: Any, documents: Any) -> Any:
            asked.append((len(queries), len(documents)))
            return self._model.similarity(queries, documents)

    mine_hard_negatives(
        single, Spied(retriever), corpus=texts[40:], relative_margin=0.1, faiss_batch_size=15, verbose=False
    )
    assert asked == [(15, 16), (15, 16), (10, 16)]


def test_texts_and_prompts_are_encoded_as_queries_and_documents(single: Any, retriever: Any) -> None:
    model = deepcopy(retriever)
    plain, given = model.preprocess, []

    def preprocess(texts: Any, **settings: Any) -> Any:
        given.append(settings)
        return plain(texts, **settings)

    model.preprocess = preprocess
    mine_hard_negatives(single, model, query_prompt="bees ", batch_size=25, verbose=False)
    documents, queries = {"task": "document", "prompt": ""}, {"task": "query", "prompt": "bees "}
    assert given == [documents, documents, queries, queries]


def test_processes_encode_and_score_as_one_does(single: Any, retriever: Any, cross_encoder: Any) -> None:
    class Pooled(Counting):
        """Runs here what a pool would run elsewhere, and writes down what became of it."""

        def __init__(self, model: Any) -> None:
            super().__init__(model)
            self.pools: list[Any] = []

        def start_multi_process_pool(self, target_devices: Any = None) -> Any:
            self.pools.append(("started", target_devices))
            return self.pools

        def stop_multi_process_pool(self, pool: Any) -> None:
            assert pool is self.pools
            self.pools.append("stopped")

        def encode_query(self, texts: list[str], *, pool: Any, **settings: Any) -> Any:
            assert pool is self.pools
            return self._model.encode_query(texts, **settings)

        def encode_document(self, texts: list[str], *, pool: Any, **settings: Any) -> Any:
            assert pool is self.pools
            return self._model.encode_document(texts, **settings)

        def predict(self, pairs: Any, *, pool: Any, **settings: Any) -> Any:
            assert pool is self.pools
            return self._model.predict(pairs, **settings)

    few = single.select(range(8))
    kept: dict[str, Any] = {"relative_margin": 0.1, "verbose": False}
    expected = mine_hard_negatives(few, retriever, cross_encoder=cross_encoder, **kept).to_list()
    for devices, asked in ((True, None), (["cpu"], ["cpu"])):
        model, scorer = Pooled(retriever), Pooled(cross_encoder)
        found = mine_hard_negatives(few, model, cross_encoder=scorer, use_multi_process=devices, **kept)
        assert found.to_list() == expected
        assert model.pools == scorer.pools == [("started", asked), "stopped"]


def test_a_pool_is_stopped_when_encoding_fails(single: Any, retriever: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pools = []
    start = SentenceTransformer.start_multi_process_pool

    def started(self: Any, target_devices: Any = None) -> Any:
        pools.append(start(self, target_devices))
        return pools[-1]

    monkeypatch.setattr(SentenceTransformer, "start_multi_process_pool", started)
    model = deepcopy(retriever)
    object.__setattr__(model, "encode_document", _fail)
    with pytest.raises(RuntimeError, match="no vectors today"):
        mine_hard_negatives(single, model, use_multi_process=["cpu"], verbose=False)
    for process in pools[0]["processes"]:
        with pytest.raises(ValueError, match="closed"):  # or it would be alive
            process.is_alive()


def _fail(*arguments: Any, **settings: Any) -> Any:
    """Of the module, because a pool's processes are sent the model."""
    raise RuntimeError("no vectors today")


def test_what_is_no_number_is_refused(single: Any, retriever: Any, cross_encoder: Any) -> None:
    class Broken(Counting):
        def encode_query(self, texts: list[str], **settings: Any) -> Any:
            return np.full((len(texts), 16), np.nan, dtype=np.float32)

        def predict(self, pairs: Any, **settings: Any) -> Any:
            return torch.full((len(pairs),), torch.nan)

    with pytest.raises(SourceError, match="queries row 0 holds NaN"):
        mine_hard_negatives(single, Broken(retriever), verbose=False)
    with pytest.raises(TeacherError, match=r"the cross-encoder: .* scores are not a finite"):
        mine_hard_negatives(single, retriever, cross_encoder=Broken(cross_encoder), max_score=0.5, verbose=False)
