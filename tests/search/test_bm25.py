"""BM25: bm25s is the oracle for scores; order, ties and the empty cases are ours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import bm25s
import numba
import numpy as np
import pytest
import Stemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from foolsgold.collection import Texts
from foolsgold.errors import SourceError
from foolsgold.progress import Advance
from foolsgold.search import BM25, postings
from foolsgold.search import bm25 as module
from foolsgold.search.bm25 import METHODS

CATS = [
    "a cat is a feline and likes to purr",
    "a dog is the human's best friend and loves to play",
    "a bird is a beautiful animal that can fly",
    "a fish is a creature that lives in water and swims",
    "the cat and the dog play; the cat purrs",
]


def made_up(seed: int, n: int, words: int = 300) -> list[str]:
    """Texts of 0 to 40 words, a few of them very frequent."""
    rng = np.random.default_rng(seed)
    return [
        " ".join(f"w{word}" for word in np.minimum(rng.zipf(1.3, rng.integers(0, 41)), words).tolist())
        for _ in range(n)
    ]


def oracle(corpus: list[str], queries: list[str], method: str, k1: float = 1.5, b: float = 0.75) -> np.ndarray:
    """Every score that bm25s gives, float32 (n_queries, n_documents)."""
    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25(method=method, k1=k1, b=b)
    index.index(bm25s.tokenize(corpus, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    asked = bm25s.tokenize(queries, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)
    return np.stack([index.get_scores_from_ids(index.get_tokens_ids(tokens)) for tokens in asked])


def ranked(scores: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def every_score(index: BM25, queries: list[str]) -> np.ndarray:
    query, row = np.divmod(np.arange(len(queries) * index.n_documents), index.n_documents)
    return index.scores(queries, query, row).reshape(len(queries), index.n_documents)


def test_a_score_worked_out_by_hand() -> None:
    # "cat" is in 2 of 3 documents of 2, 1 and 3 words. Lucene: idf = ln(1 + (3 - 2 + 0.5) / (2 + 0.5)).
    index = BM25(["cat dog", "cat", "dog bird fish"], language="none")
    scores, rows = index.top_k(["cat"], 3)
    idf = math.log(1 + 1.5 / 2.5)
    assert rows.tolist() == [[1, 0, 2]]
    assert scores[0] == pytest.approx(
        [idf / (1.5 * (0.25 + 0.75 * 1 / 2) + 1), idf / (1.5 * (0.25 + 0.75 * 2 / 2) + 1), 0], abs=1e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_bm25s(method: str) -> None:
    corpus, queries = CATS + made_up(0, 500), [*made_up(1, 40), "does the fish purr like a cat", "cat cat dogs"]
    expected = oracle(corpus, queries, method)
    index = BM25(corpus, method=method)
    scores, rows = index.top_k(queries, 60)
    assert np.abs(np.take_along_axis(expected, rows.astype(np.int64), axis=1) - scores).max() < 1e-4
    assert np.abs(np.sort(expected, axis=1)[:, ::-1][:, :60] - scores).max() < 1e-4
    assert np.abs(every_score(index, queries) - expected).max() < 1e-4


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (0.0, 0.75), (2.0, 0.0), (1.2, 1.0)])
def test_k1_and_b_are_those_of_bm25s(k1: float, b: float) -> None:
    corpus, queries = made_up(2, 200), made_up(3, 10)
    index = BM25(corpus, k1=k1, b=b)
    assert np.abs(every_score(index, queries) - oracle(corpus, queries, "lucene", k1, b)).max() < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_k1_goes_to_its_limits_as_bm25s_does(method: str) -> None:
    corpus, queries = CATS + made_up(2, 200), [*made_up(3, 10), "cat dog"]
    index = BM25(corpus, method=method, k1=1000)
    assert every_score(index, queries) == pytest.approx(oracle(corpus, queries, method, 1000), rel=1e-4, abs=1e-6)
    check_every_rank(index, queries, 50)
    if method == "bm25l":  # every document would score alike
        assert np.ptp(oracle(corpus, queries, method, 0.0), axis=1).max() < 1e-4
        with pytest.raises(SourceError, match=r"bm25l with k1 of 0\.0 scores all documents alike; take a larger k1"):
            BM25(corpus, method=method, k1=0.0)
        return
    # for bm25+ bm25s itself divides 0 by 0 at k1 = 0, so that it is asked beside it
    expected = oracle(corpus, queries, method, 1e-9 if method == "bm25+" else 0.0)
    index = BM25(corpus, method=method, k1=0.0)
    assert np.abs(every_score(index, queries) - expected).max() < 1e-4
    check_every_rank(index, queries, 50)


def test_bm25_plus_without_saturation_worked_out_by_hand() -> None:
    # "cat" is in 2 of 3 documents; k1 = 0 leaves idf * (1 + delta) with the word and idf * delta without it.
    index = BM25(["cat dog", "cat cat cat", "dog"], language="none", method="bm25+", k1=0)
    idf = math.log((3 + 1) / 2)
    assert index.floors(["cat"]) == pytest.approx([idf * 0.5])
    scores, rows = index.top_k(["cat"], 3)
    assert rows.tolist() == [[0, 1, 2]]
    assert scores[0] == pytest.approx([idf * 1.5, idf * 1.5, idf * 0.5])


def check_every_rank(index: BM25, queries: list[str], k: int) -> None:
    """`top_k` against the scores of all pairs, which are found without windows."""
    scores, rows = index.top_k(queries, k)
    pairs = every_score(index, queries)
    assert np.array_equal(rows, ranked(pairs, k))
    assert np.array_equal(scores, np.take_along_axis(pairs, rows.astype(np.int64), axis=1))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 300),
    words=st.integers(1, 40),
    k=st.integers(1, 320),
    method=st.sampled_from(METHODS),
)
def test_the_ranking_is_that_of_all_pair_scores_with_ties_by_row(
    seed: int, n: int, words: int, k: int, method: str
) -> None:
    check_every_rank(BM25(made_up(seed, n, words), language="none", method=method), made_up(seed + 1, 4, words), k)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.sampled_from([4095, 4096, 4097, 8192, 9000]),
    distinct=st.sampled_from([3, 200, 9000]),
    k=st.sampled_from([1, 7, 100, 1000, 5000]),
    one_window=st.booleans(),
    method=st.sampled_from(METHODS),
)
def test_windows_lose_no_document(seed: int, n: int, distinct: int, k: int, one_window: bool, method: str) -> None:
    # 1000 words, of which some are in half of the documents and most in a few; few distinct documents are many ties.
    rng = np.random.default_rng(seed)
    texts = made_up(seed, distinct, 1000)
    corpus = [texts[i] for i in rng.integers(0, distinct, n).tolist()]
    queries = [*made_up(seed + 1, 3, 1000), "w1 w1 w1 w2", "w999 w998", "w1", " ".join([*made_up(seed + 2, 8, 1000)])]
    usual = postings.WINDOW
    postings.WINDOW = usual if one_window else 4096
    try:
        check_every_rank(BM25(corpus, language="none", method=method), queries, k)
    finally:
        postings.WINDOW = usual


@pytest.mark.parametrize("seed", range(3))
def test_a_window_that_only_rare_words_matter_in_is_searched_in_full(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After the first of four windows "common" alone is not enough, but it decides among documents with a rare word.
    monkeypatch.setattr(postings, "WINDOW", 4096)
    rng = np.random.default_rng(seed)
    corpus = ["common filler" if row % 4 == 0 else "filler" for row in range(4 * 4096)]
    for row in rng.choice(len(corpus), 1600, replace=False).tolist():
        word, rare, common, filler = rng.integers([0, 1, 0, 1], [4, 9, 9, 40]).tolist()
        corpus[row] = f"rare{word} " * rare + "common " * common + "filler " * filler
    index = BM25(corpus, language="none")
    for k in (*range(1, 40), 50, 100, 200):
        check_every_rank(index, ["common rare0", "common rare1 rare2", "rare0 rare3", "rare2"], k)


def test_frequent_and_rare_words_are_found_alike() -> None:
    # From words in nearly every one of 20,000 documents to words in a few.
    corpus, queries = made_up(4, 20_000), [*made_up(5, 30), "w1", "w2 w3", "w299", "w299 w298 w297", "w1 w1 w1 w280"]
    index = BM25(corpus, language="none")
    for k in (1, 10, 100, 1000):
        check_every_rank(index, queries, k)


def test_a_query_as_long_as_a_document_is_answered() -> None:
    corpus = made_up(6, 6000, 3000)
    queries = [" ".join(corpus[i : i + 20]) for i in (0, 1000, 5000)]
    index = BM25(corpus, language="none")
    for k in (1, 100):
        check_every_rank(index, queries, k)


def test_a_query_of_rare_words_that_matches_every_document_of_a_window() -> None:
    corpus = [f"w{row % 83} w{row % 89}" for row in range(4096)]
    index = BM25(corpus, language="none")
    for k in (1, 50, 4096):
        check_every_rank(index, [" ".join(f"w{word}" for word in range(89))], k)


def test_copies_of_a_document_tie_and_come_in_row_order() -> None:
    corpus = ["nothing here", *["a cat and a dog"] * 700, "cat"]
    scores, rows = BM25(corpus).top_k(["cat"], 500)
    assert rows[0].tolist() == [701, *range(1, 500)]
    assert len(set(scores[0, 1:].tolist())) == 1


def test_an_equal_score_at_a_lower_row_is_not_lost_to_an_earlier_word() -> None:
    # Both words are in 30 documents of the same length; those of the query's first word come later in the corpus.
    corpus = [*["dog"] * 30, *["bird"] * 4000, *["cat"] * 30]
    for k in (1, 5, 40):
        assert BM25(corpus).top_k(["cat dog"], k)[1][0].tolist() == [*range(30), *range(4030, 4060)][:k]


@pytest.mark.parametrize("method", METHODS)
def test_documents_without_a_match_follow_at_the_floor_in_row_order(method: str) -> None:
    corpus = ["fish", "cat", "bird", "dog", "cat dog"]
    index = BM25(corpus, language="none", method=method)
    scores, rows = index.top_k(["cat"], 5)
    assert set(rows[0, :2].tolist()) == {1, 4}
    assert rows[0, 2:].tolist() == [0, 2, 3]
    floor = index.floors(["cat"])
    assert scores[0, 2:].tolist() == [floor[0]] * 3
    assert (floor[0] > 0) == (method in ("bm25l", "bm25+"))
    assert floor == pytest.approx(oracle(corpus, ["cat"], method)[0, :1], abs=1e-5)


def test_a_word_said_twice_in_a_query_counts_twice() -> None:
    index = BM25(CATS)
    once, twice = index.top_k(["cat"], 5)[0], index.top_k(["cat cat"], 5)[0]
    assert twice == pytest.approx(2 * once)


@pytest.mark.parametrize("query", ["", "   ", "the of and", "zebra", "!?"])
def test_a_query_that_matches_nothing_gets_the_first_rows_at_zero(query: str) -> None:
    scores, rows = BM25(CATS).top_k([query, "cat"], 3)
    assert rows[0].tolist() == [0, 1, 2]
    assert scores[0].tolist() == [0, 0, 0]
    assert scores[1, 0] > 0


@pytest.mark.parametrize("corpus", [["", ""], ["the", "and of"], ["?", "a"]])
@pytest.mark.parametrize("method", METHODS)
def test_a_corpus_without_tokens_matches_nothing(corpus: list[str], method: str) -> None:
    index = BM25(corpus, method=method)
    scores, rows = index.top_k(["cat"], 5)
    assert rows.tolist() == [[0, 1]]
    assert scores.tolist() == [[0, 0]]
    assert index.scores(["cat"], np.array([0]), np.array([1])).tolist() == [0]


def test_no_queries_give_no_rows() -> None:
    scores, rows = BM25(CATS).top_k([], 3)
    assert scores.shape == rows.shape == (0, 3)
    assert BM25(CATS).scores([], np.array([], int), np.array([], int)).shape == (0,)


def test_texts_a_list_and_a_generator_give_the_same_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 7)
    corpus, queries = made_up(6, 50), made_up(7, 5)
    expected = BM25(corpus).top_k(queries, 20)
    for texts in (Texts.from_lists([str(i) for i in range(50)], corpus), (text for text in corpus)):
        scores, rows = BM25(texts).top_k(queries, 20)
        assert np.array_equal(scores, expected[0])
        assert np.array_equal(rows, expected[1])


def test_the_thread_count_changes_nothing() -> None:
    index, queries = BM25(made_up(8, 3000)), made_up(9, 300)
    usual = numba.get_num_threads()
    answers = []
    try:
        for threads in range(1, min(numba.config.NUMBA_NUM_THREADS, 4) + 1):
            numba.set_num_threads(threads)
            answers.append(index.top_k(queries, 50))
    finally:
        numba.set_num_threads(usual)
    for scores, rows in answers[1:]:
        assert np.array_equal(scores, answers[0][0])
        assert np.array_equal(rows, answers[0][1])


def test_queries_may_be_any_iterable_of_texts() -> None:
    index = BM25(CATS)
    expected = index.top_k(["cat", "dog"], 3)
    for queries in (("cat", "dog"), np.array(["cat", "dog"]), {"cat": 1, "dog": 2}, iter(["cat", "dog"])):
        for got, wanted in zip(index.top_k(queries, 3), expected, strict=True):
            assert np.array_equal(got, wanted)
    assert index.floors(query for query in ["cat"]).tolist() == [0]


def test_words_are_stemmed_and_stop_words_dropped_in_the_named_language() -> None:
    german = BM25(["die Katzen schlafen", "der Hund"], language="german")
    assert german.top_k(["eine Katze"], 2)[0][0].tolist() == [pytest.approx(german.top_k(["katzen"], 1)[0][0, 0]), 0]
    plain = BM25(["the cats"], language="none")
    assert plain.top_k(["cat"], 1)[0][0, 0] == 0
    assert plain.top_k(["the"], 1)[0][0, 0] > 0


def test_a_query_word_the_corpus_has_only_in_another_form_is_found() -> None:
    assert BM25(["he was running"]).top_k(["runs"], 1)[0][0, 0] > 0


def test_bigrams_find_chinese_words_inside_a_sentence() -> None:
    corpus = ["我喜欢北京烤鸭", "上海的天气", "京都 is in Japan"]
    scores, rows = BM25(corpus, language="none", tokenizer="bigram").top_k(["北京", "kyoto in japan"], 3)
    assert rows[:, 0].tolist() == [0, 2]
    assert (scores > 0).sum(axis=1).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: BM25([]), "the corpus is empty"),
        (lambda: BM25("one text"), "the corpus is one string"),
        (lambda: BM25(["a", None]), "document 1 is None, which is not a text"),
        (lambda: BM25(CATS, language="germn"), "unknown language 'germn'; did you mean german"),
        (lambda: BM25(CATS, language="klingon"), "unknown language 'klingon'.*none for neither"),
        (lambda: BM25(CATS, tokenizer="trigram"), "unknown tokenizer 'trigram'; known: word, bigram"),
        (lambda: BM25(CATS, method="bm26"), "unknown BM25 method 'bm26'"),
        (lambda: BM25(CATS, k1=-1), "k1 is -1 and b is 0.75"),
        (lambda: BM25(CATS, b=1.5), "k1 is 1.5 and b is 1.5"),
        (lambda: BM25(CATS, k1=math.inf), "k1 is inf and b is 0.75; BM25 needs k1 from 0 to 1,000"),
        (lambda: BM25(CATS, k1=1e308), r"k1 is 1e\+308 and"),
        (lambda: BM25(CATS, k1=math.nan), "k1 is nan and"),
        (lambda: BM25(CATS, k1="1"), "k1 is '1' and"),
        (lambda: BM25(CATS, k1=True), "k1 is True and"),
        (lambda: BM25(CATS, b=None), "b is None; BM25 needs .* b from 0 to 1"),
        (lambda: BM25(CATS, k1=1e-12, method="bm25l"), "bm25l with k1 of 1e-12 scores all documents alike"),
        (lambda: BM25(CATS, language=None), "language is None; name one, or 'none'"),
        (lambda: BM25(CATS, tokenizer=["word"]), r"tokenizer is \['word'\]; name word or bigram"),
        (lambda: BM25(None), "the corpus is None; a list of texts is needed"),
        (lambda: BM25(CATS).top_k(None, 1), "the queries are None; a list of texts is needed"),
        (lambda: BM25(CATS).floors(3), "the queries are 3; a list of texts is needed"),
        (lambda: BM25(CATS).scores(["cat"], [0, 1], [0, 0]), "pair 1 names query 1, and there are 1"),
        (lambda: BM25(CATS).scores(["cat"], [0], [-1]), "pair 0 names row -1, and there are 5"),
        (lambda: BM25(CATS).scores(["cat"], [0], [0, 1]), r"queries has shape \(1,\) and rows \(2,\)"),
        (lambda: BM25(CATS).top_k("cat", 1), "the queries are one string"),
        (lambda: BM25(CATS).top_k(["cat", 3], 1), "query 1 is 3, which is not a text"),
        (lambda: BM25(CATS).top_k([*["cat"] * 200, None], 1), "query 200 is None, which is not a text"),
        (lambda: BM25(CATS).scores("cat", np.array([0]), np.array([0])), "the queries are one string"),
        (lambda: BM25(CATS).top_k(["cat"], 0), "k is 0"),
    ],
)
def test_what_cannot_be_indexed_or_searched_is_refused(make, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SourceError, match=said):
        make()


def test_progress_counts_documents_and_queries() -> None:
    told: dict[str, list[int]] = {}

    class Told:
        @contextmanager
        def stage(self, name: str, total: int) -> Iterator[Advance]:
            told[name] = [-total]
            yield told[name].append

    BM25(CATS, progress=Told()).top_k(["cat"] * 130, 2, progress=Told())
    assert {name: sum(steps) for name, steps in told.items()} == {"index bm25": 0, "search bm25": 0}
