"""Approximate search: what is found has its exact score and place, and how much is found is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foolsgold.errors import MissingExtra, SourceError
from foolsgold.records import Hits
from foolsgold.search import top_k
from foolsgold.search.ann import AnnIndex, Effort, check_factory, check_size

faiss = pytest.importorskip("faiss", reason="approximate search needs faiss")

N, DIM = 3000, 16


def vectors(seed: int, n: int) -> np.ndarray:
    """Unit vectors around forty centres."""
    centres = np.random.default_rng(99).standard_normal((40, DIM))
    rng = np.random.default_rng(seed)
    found = centres[rng.integers(0, 40, n)] + 0.7 * rng.standard_normal((n, DIM))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


CORPUS, QUERIES = vectors(0, N), vectors(1, 60)


def build(factory: str, corpus: np.ndarray = CORPUS, seed: int = 13) -> AnnIndex:
    return AnnIndex.build(corpus, factory, seed=seed)


def of_query(hits: Hits, query: int) -> tuple[list[int], list[float]]:
    part = slice(hits.offsets[query], hits.offsets[query + 1])
    return hits.rows[part].tolist(), hits.scores[part].tolist()


def share_found(hits: Hits, k: int) -> float:
    _, rows = top_k(QUERIES, CORPUS, k)
    return float(np.mean([len(set(of_query(hits, query)[0]) & set(rows[query])) / k for query in range(len(QUERIES))]))


@pytest.mark.parametrize("factory", ["Flat", "IVF32,Flat", "RR16,IVF8,Flat", "IVF16_HNSW8,Flat"])
def test_an_index_that_rounds_nothing_and_searches_all_finds_what_exact_search_finds(factory: str) -> None:
    hits = build(factory).top_k(QUERIES, 20, Effort(n_probe=32 if factory != "Flat" else None, fetch=2, recall=1.0))
    scores, rows = top_k(QUERIES, CORPUS, 20)
    assert np.array_equal(hits.rows.reshape(-1, 20), rows)
    assert np.array_equal(hits.scores.reshape(-1, 20), scores)
    assert (hits.rows.dtype, hits.scores.dtype, hits.offsets.dtype) == (np.int32, np.float32, np.int64)


def test_what_a_coarse_index_finds_has_exact_scores_in_exact_order() -> None:
    hits = build("IVF32,PQ4x4fs").top_k(QUERIES, 20, Effort(n_probe=4, fetch=2, recall=0.0))
    all_scores, all_rows = top_k(QUERIES, CORPUS, N)
    assert share_found(hits, 20) < 0.95  # otherwise this test sees nothing
    for query in range(len(QUERIES)):
        rows, scores = of_query(hits, query)
        exact = [(row, score) for row, score in zip(all_rows[query], all_scores[query], strict=True) if row in rows]
        assert exact == list(zip(rows, scores, strict=True))


def test_copies_of_a_document_tie_and_come_in_row_order() -> None:
    corpus = CORPUS.copy()
    corpus[[5, 700, 1999, 2500]] = QUERIES[0]
    rows, scores = of_query(build("IVF16,SQ8", corpus).top_k(QUERIES[:1], 4, Effort(16, 4, 1.0)), 0)
    assert rows == [5, 700, 1999, 2500]
    assert len(set(scores)) == 1


def test_a_query_whose_lists_hold_too_few_has_fewer_hits_and_no_place_holders() -> None:
    hits = build("IVF64,Flat").top_k(QUERIES, 500, Effort(n_probe=1, fetch=1, recall=0.0))
    counts = np.diff(hits.offsets)
    assert counts.min() > 0
    assert counts.max() < 500
    assert len(set(counts.tolist())) > 1
    assert hits.rows.min() >= 0
    assert np.isfinite(hits.scores).all()
    for query in range(len(QUERIES)):
        rows, _ = of_query(hits, query)
        assert len(set(rows)) == len(rows)


def test_no_queries_have_no_hits() -> None:
    hits = build("IVF8,Flat").top_k(QUERIES[:0], 5, Effort(1, 1, 1.0))
    assert (hits.offsets.tolist(), len(hits.rows)) == ([0], 0)


def test_k_above_the_corpus_finds_every_document_once() -> None:
    corpus = CORPUS[:700]
    index = build("IVF8,Flat", corpus)
    hits = index.top_k(QUERIES[:2], 5000, index.effort_for(1.0, QUERIES, 5000))
    assert [sorted(of_query(hits, query)[0]) for query in (0, 1)] == [list(range(700))] * 2


@pytest.mark.parametrize("factory", ["IVF64,PQ8x4fsr", "IVF64,SQ8", "HNSW16", "SQ4"])
def test_the_effort_reaches_the_recall_asked_for_and_says_what_it_found(factory: str) -> None:
    index = build(factory)
    effort = index.effort_for(0.9, QUERIES, 20)
    assert effort.recall >= 0.9
    assert share_found(index.top_k(QUERIES, 20, effort), 20) == pytest.approx(effort.recall)


def test_no_less_effort_is_enough() -> None:
    index = build("IVF64,PQ8x4fsr")
    effort = index.effort_for(0.9, QUERIES, 20)
    assert effort.n_probe is not None
    assert effort.n_probe > 1
    most = Effort(effort.n_probe // 2, 32, 0.0)
    assert share_found(index.top_k(QUERIES, 20, most), 20) < 0.9
    if effort.fetch > 1:
        assert share_found(index.top_k(QUERIES, 20, Effort(effort.n_probe, effort.fetch // 2, 0.0)), 20) < 0.9


def test_an_index_that_cannot_reach_the_recall_is_searched_as_well_as_it_can_be() -> None:
    effort = build("PQ2x4fs").effort_for(1.0, QUERIES, 10)
    assert effort.n_probe is None
    assert effort.fetch == 32
    assert 0.5 < effort.recall < 1.0


def test_documents_that_tie_for_the_last_place_are_as_good_as_one_another() -> None:
    corpus = np.repeat(CORPUS[:60], 50, axis=0)
    effort = build("IVF16,Flat", corpus).effort_for(1.0, CORPUS[:60], 10)  # any 10 of the 50 copies of each
    assert (effort.recall, effort.n_probe, effort.fetch) == (1.0, 1, 1)


def test_the_same_seed_gives_the_same_hits_on_any_number_of_threads() -> None:
    usual = faiss.omp_get_max_threads()
    answers = []
    try:
        for threads in (1, 2, 1):
            faiss.omp_set_num_threads(threads)
            index = build("IVF64,PQ8x4fsr")
            answers.append((index.effort_for(0.9, QUERIES, 20), index.top_k(QUERIES, 20, Effort(8, 2, 0.0))))
    finally:
        faiss.omp_set_num_threads(usual)
    for effort, hits in answers[1:]:
        assert effort == answers[0][0]
        assert np.array_equal(hits.rows, answers[0][1].rows)
        assert np.array_equal(hits.offsets, answers[0][1].offsets)


def test_a_large_corpus_is_learnt_from_a_sample_that_the_seed_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foolsgold.search.ann._MIN_TRAINED_ON", 500)
    few = Effort(n_probe=2, fetch=1, recall=0.0)
    first, again, other = (build("IVF8,Flat", seed=seed).top_k(QUERIES, 20, few).rows for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_saved_index_answers_as_before(tmp_path: Path) -> None:
    index = build("IVF32,SQ8")
    index.save(tmp_path / "index.faiss")
    np.save(tmp_path / "corpus.npy", CORPUS)
    mapped = np.load(tmp_path / "corpus.npy", mmap_mode="r")
    effort = Effort(4, 2, 0.0)
    before = index.top_k(QUERIES, 10, effort)
    after = AnnIndex.load(tmp_path / "index.faiss", mapped).top_k(QUERIES, 10, effort)
    assert np.array_equal(after.rows, before.rows)
    assert np.array_equal(after.scores, before.scores)


def test_a_file_that_is_not_the_index_of_these_documents_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "index.faiss"
    build("Flat").save(path)
    with pytest.raises(SourceError, match="is the index of other vectors; delete its folder"):
        AnnIndex.load(path, CORPUS[:10])
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(SourceError, match=r"index\.faiss: cannot be read"):
        AnnIndex.load(path, CORPUS)
    with pytest.raises(OSError, match="nowhere"):
        build("Flat").save(tmp_path / "nowhere" / "index.faiss")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("IVF4096,PQ50x4fsr", "IVF4096,PQ50x4fsr: .* 384 dimensions .*multiple of the number of subquantizers"),
        ("IVFF,Flat", "could not parse index string"),
        ("LSH", "METRIC_L2"),
        ("", "a common one is IVF4096,PQ48x4fsr"),
    ],
)
def test_a_factory_string_that_faiss_cannot_build_is_refused_with_its_reason(factory: str, said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        check_factory(factory, 384)
    assert ".cpp" not in str(caught.value)


@pytest.mark.parametrize(
    ("factory", "documents", "said"),
    [
        (
            "IVF4096,PQ48x4fsr",
            64_458,
            r"4,096 lists, .* at least 159,744 documents, .* 64,458; take IVF1024, or no index",
        ),
        ("OPQ48,IVF2k,Flat", 50_000, "2,048 lists, .* take IVF1024"),
        ("IVF65536_HNSW32,SQ8", 600, "65,536 lists, .* and there are 600; take no index"),
    ],
)
def test_more_lists_than_the_documents_can_fill_are_refused(factory: str, documents: int, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        check_size(factory, documents)


def test_as_many_lists_as_the_documents_can_fill_are_taken() -> None:
    check_size("IVF1024,SQ8", 39 * 1024)
    check_size("HNSW32", 1)


def test_too_few_documents_to_learn_codes_from_are_refused() -> None:
    with pytest.raises(SourceError, match=r"PQ8: .*[Nn]umber of training points .*; take a smaller index, or none"):
        build("PQ8", CORPUS[:100])


def test_without_faiss_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"pip install 'foolsgold\[faiss\]'"):
        check_size("IVF16,Flat", 10_000)
