"""BM25 over a corpus: bm25s's weights, and a search of our own.

bm25s scores all documents of the corpus for each query. Here scores are summed for a window of documents that stays in
cache, and only documents with a word of the query are looked at (see `postings`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from bm25s import scoring

from foolsgold.collection import Texts
from foolsgold.errors import SourceError
from foolsgold.progress import SILENT, Progress
from foolsgold.records import FloatArray, IntArray, LongArray
from foolsgold.search import postings
from foolsgold.search.threads import Threads
from foolsgold.search.tokens import TokenizerName, Tokens

Method = Literal["lucene", "robertson", "atire", "bm25l", "bm25+"]
METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")

_BATCH = 65_536
_PIECE = 64  # queries a thread takes at a time
_DELTA = 0.5  # bm25s's default; only bm25l and bm25+ have it
_MAX_K1 = 1000  # scores shrink as 1 / k1, and `postings` rounds them to 2**-24; far beyond, all would be 0
_MIN_K1_OF_BM25L = 1e-6  # below, float32 cannot tell a document with the word from one without


class BM25:
    """An index of a corpus, ready to be searched.

    corpus_texts: texts in row order, or a `Texts`. language: stemmer and stop words, "none" for neither.
    tokenizer: "word", or "bigram" for Chinese and Japanese. method: the variants of Kamphuis et al., Which BM25 Do
    You Mean? (ECIR 2020), as bm25s computes them; k1 and b are bm25s's defaults.

    Raises:
        SourceError: an empty corpus, something that is not a text, an unknown language, tokenizer or method,
            k1 or b out of range (for bm25l, k1 of 0 too, which scores all documents alike).
    """

    def __init__(
        self,
        corpus_texts: Iterable[str] | Texts,
        *,
        language: str = "english",
        tokenizer: TokenizerName = "word",
        method: Method = "lucene",
        k1: float = 1.5,
        b: float = 0.75,
        progress: Progress = SILENT,
    ) -> None:
        if method not in METHODS:
            raise SourceError(f"unknown BM25 method {method!r}; known: {', '.join(METHODS)}")
        if not (_is_within(k1, _MAX_K1) and _is_within(b, 1)):
            raise SourceError(f"k1 is {k1!r} and b is {b!r}; BM25 needs k1 from 0 to {_MAX_K1:,} and b from 0 to 1")
        if method == "bm25l" and k1 < _MIN_K1_OF_BM25L:
            raise SourceError(f"bm25l with k1 of {k1} scores all documents alike; take a larger k1, or another method")
        if not isinstance(language, str):
            raise SourceError(f"language is {language!r}; name one, or 'none' for neither stemmer nor stop words")
        if not isinstance(tokenizer, str):
            raise SourceError(f"tokenizer is {tokenizer!r}; name word or bigram")
        self._tokens = Tokens(language, tokenizer)
        tokens, lengths = _read(self._tokens, corpus_texts, progress)
        self.n_documents = len(lengths)
        if self.n_documents == 0:
            raise SourceError("the corpus is empty; there is nothing to search")
        starts = np.zeros(len(self._tokens) + 1, dtype=np.int64)
        docs = np.empty(len(tokens), dtype=np.int32)
        counts = np.empty(len(tokens), dtype=np.int32)
        n_postings = postings.sort_postings(tokens, _offsets(lengths), starts, docs, counts)
        del tokens
        docs, counts = docs[:n_postings].copy(), counts[:n_postings]
        weights, self._floors = _weights(starts, docs, counts, lengths, method=method, k1=k1, b=b)
        self._postings = postings.arrange(starts, docs, weights)

    def top_k(self, query_texts: Iterable[str], k: int, *, progress: Progress = SILENT) -> tuple[FloatArray, IntArray]:
        """The k documents with the highest score for each query.

        Documents that share no token with the query score the query's floor (`floors`) and follow the others in row
        order, so that there are always min(k, n_documents) of them.

        Returns:
            scores: float32 (q, min(k, n)), descending. rows: int32 (q, min(k, n)); equal scores in ascending row order.
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise SourceError(f"k is {k!r}; ask for a whole number of documents a query, at least 1")
        queries = _listed(query_texts)
        shape = (len(queries), min(k, self.n_documents))
        scores, rows = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.int32)

        def search(part: slice) -> None:
            # Reading needs the GIL and searching does not, so one thread reads while others search.
            self._search(*self._read_queries(queries[part], part.start), scores[part], rows[part])

        with progress.stage("search bm25", len(queries)) as advance, Threads() as threads:
            threads.spread(search, len(queries), _PIECE, advance)
        return scores, rows

    def _search(
        self, tokens: IntArray, offsets: LongArray, floors: FloatArray, scores: FloatArray, rows: IntArray
    ) -> None:
        window = min(postings.WINDOW, self.n_documents)
        postings.search_postings(self._postings, self.n_documents, window, tokens, offsets, floors, scores, rows)

    def scores(self, query_texts: Iterable[str], queries: npt.NDArray[Any], rows: npt.NDArray[Any]) -> FloatArray:
        """float32 (n): the score of each pair (query_texts[queries[i]], document rows[i]), as `top_k` gives it.

        Raises:
            SourceError: a pair that names no query or no document.
        """
        texts = _listed(query_texts)
        queries, rows = np.asarray(queries, dtype=np.int64), np.asarray(rows, dtype=np.int64)
        if queries.shape != rows.shape or queries.ndim != 1:
            raise SourceError(f"queries has shape {queries.shape} and rows {rows.shape}; pairs are two lists as long")
        for name, numbers, size in (("query", queries, len(texts)), ("row", rows, self.n_documents)):
            outside = np.flatnonzero((numbers < 0) | (numbers >= size))
            if len(outside):
                raise SourceError(f"pair {outside[0]} names {name} {numbers[outside[0]]}, and there are {size}")
        tokens, offsets, floors = self._read_queries(texts)
        out = np.empty(len(queries), dtype=np.float32)

        def score(part: slice) -> None:
            postings.score_pairs(self._postings, tokens, offsets, floors, queries[part], rows[part], out[part])

        with Threads() as threads:
            threads.spread(score, len(out), 16_384, lambda _: None)
        return out

    def floors(self, query_texts: Iterable[str]) -> FloatArray:
        """float32 (q): the score of a document without any of the query's tokens. 0 but for bm25l and bm25+."""
        return self._read_queries(_listed(query_texts))[2]

    def _read_queries(self, query_texts: list[str], first_row: int = 0) -> tuple[IntArray, LongArray, FloatArray]:
        tokens, lengths = self._tokens.look_up(query_texts, first_row)
        offsets = _offsets(lengths)
        if self._floors is None:
            return tokens, offsets, np.zeros(len(lengths), dtype=np.float32)
        sums = np.concatenate([[0.0], np.cumsum(self._floors[tokens], dtype=np.float64)])
        return tokens, offsets, np.diff(sums[offsets]).astype(np.float32)


def _is_within(value: object, most: float) -> bool:
    """Whether it is a number from 0 to `most`; a truth value is none, nor is NaN."""
    return not isinstance(value, bool) and isinstance(value, Real) and 0 <= float(value) <= most


def _listed(query_texts: Iterable[str]) -> list[str]:
    if isinstance(query_texts, str):
        raise SourceError("the queries are one string; put it in a list")
    if not isinstance(query_texts, Iterable):
        raise SourceError(f"the queries are {query_texts!r}; a list of texts is needed")
    return list(query_texts)


def _read(tokens: Tokens, corpus_texts: Iterable[str] | Texts, progress: Progress) -> tuple[IntArray, LongArray]:
    """All token numbers of the corpus, int32, document after document, and how many each document has, int64 (n)."""
    if isinstance(corpus_texts, str):
        raise SourceError("the corpus is one string; put the texts in a list")
    if not isinstance(corpus_texts, Iterable | Texts):
        raise SourceError(f"the corpus is {corpus_texts!r}; a list of texts is needed")
    total = len(corpus_texts) if isinstance(corpus_texts, Sequence | Texts) else 0
    numbers, lengths = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.int64)]
    row = 0
    with progress.stage("index bm25", total) as advance:
        for batch in corpus_texts.batches() if isinstance(corpus_texts, Texts) else _batches(corpus_texts):
            batch_numbers, batch_lengths = tokens.learn(batch, row)
            numbers.append(batch_numbers)
            lengths.append(batch_lengths)
            row += len(batch)
            advance(len(batch))
    tokens.close()
    return np.concatenate(numbers), np.concatenate(lengths)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    iterator = iter(texts)
    while batch := list(islice(iterator, _BATCH)):
        yield batch


def _offsets(lengths: LongArray) -> LongArray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _weights(
    starts: LongArray, docs: IntArray, counts: IntArray, lengths: LongArray, *, method: Method, k1: float, b: float
) -> tuple[FloatArray, FloatArray | None]:
    """What each posting adds to its document's score, float32 (n_postings), and the floors, float32 (n_vocabulary).

    The floor of a token is its score in documents without it, which its postings add to; None for the methods where it
    is 0. These are bm25s's own formulas, called on a million postings at a time instead of on each document.
    """
    n_documents = len(lengths)
    frequencies = np.diff(starts)
    idf_of, tfc_of = scoring._select_idf_scorer(method), scoring._select_tfc_scorer(method)
    distinct, place = np.unique(frequencies, return_inverse=True)
    idf = np.array([idf_of(df, N=n_documents) for df in distinct.tolist()])[place]
    average = lengths.mean() or 1.0  # 0 only where no document has a token, and then nothing is divided by it
    settings = {"l_avg": average, "k1": k1, "b": b, "delta": _DELTA}
    floors = None
    if method in ("bm25l", "bm25+"):
        # bm25+ adds delta to what is 0 without the word; for k1 = 0 bm25s divides that 0 by 0.
        absent = _DELTA if method == "bm25+" else tfc_of(tf_array=0, l_d=average, **settings)
        floors = (idf * absent).astype(np.float32)
    weights = np.empty(len(docs), dtype=np.float32)
    for start in range(0, len(docs), 1 << 20):
        part = slice(start, min(start + (1 << 20), len(docs)))
        token = np.searchsorted(starts, np.arange(part.start, part.stop), side="right") - 1
        tfc = tfc_of(tf_array=counts[part].astype(np.float32), l_d=lengths[docs[part]], **settings)
        weight = idf[token].astype(np.float32) * tfc
        if floors is not None:
            weight -= floors[token]
        # A term in a very long document may come out a rounding error below 0; the search relies on sums that grow.
        weights[part] = np.maximum(weight, 0)
    return weights, floors
