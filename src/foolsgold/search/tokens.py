"""Texts to token numbers for BM25: lower case, split, drop stop words, stem.

Splitting and stop words are bm25s's, stems are PyStemmer's. The loop is our own, because each distinct word needs all
that only once, after which a text costs one dictionary lookup a word.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import Stemmer
from bm25s import stopwords
from bm25s.tokenization import Tokenizer as BM25sTokenizer

from foolsgold.errors import SourceError
from foolsgold.records import IntArray, LongArray

TokenizerName = Literal["word", "bigram"]

# Chinese characters, kana and their iteration marks: scripts without spaces between words. Hangul has them.
_UNSPACED = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_RUN_OR_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]{{2,}}")
_IS_RUN = re.compile(rf"[{_UNSPACED}]").match

_STEMMED = frozenset(Stemmer.algorithms()) - {"porter"}
_WITH_STOP_WORDS = frozenset(
    name.removeprefix("STOPWORDS_").lower() for name in vars(stopwords) if name.startswith("STOPWORDS_")
) - {"en", "en_plus"} | {"english"}
LANGUAGES = sorted(_STEMMED | _WITH_STOP_WORDS)


class Tokens:
    """A vocabulary that grows with every text of the corpus and is then closed."""

    def __init__(self, language: str, tokenizer: TokenizerName) -> None:
        configured = BM25sTokenizer(
            lower=True,
            splitter=_splitter(tokenizer),
            stopwords=_stop_words(language),
            stemmer=None,
        )
        self._split: Callable[[str], list[str]] = configured.splitter
        self._numbers = _Numbers(_stemmer(language), configured.stopwords)

    def __len__(self) -> int:
        return len(self._numbers.stems)

    def learn(self, texts: list[str], first_row: int) -> tuple[IntArray, LongArray]:
        """Token numbers of documents, int32, text after text, and how many each text has, int64 (n)."""
        return self._read(texts, "document", first_row)

    def close(self) -> None:
        """From now on words with an unknown stem have no number."""
        self._numbers.open = False

    def look_up(self, texts: list[str]) -> tuple[IntArray, LongArray]:
        """The same for queries: words whose stem the corpus does not have are left out."""
        return self._read(texts, "query", 0)

    def _read(self, texts: Iterable[str], what: str, first_row: int) -> tuple[IntArray, LongArray]:
        split, number = self._split, self._numbers.__getitem__
        numbers: list[int] = []
        ends: list[int] = []
        try:
            for text in texts:
                numbers += map(number, split(text.lower()))
                ends.append(len(numbers))
        except AttributeError:
            raise SourceError(f"{what} {first_row + len(ends)} is {text!r}, which is not a text") from None
        flat = np.array(numbers, dtype=np.int32)
        known = flat != _NONE
        before = np.concatenate([[0], np.cumsum(known)])
        return flat[known], np.diff(before[ends], prepend=0)


_NONE = -1


class _Numbers(dict[str, int]):
    """The number of each word's stem, `_NONE` for stop words; a word seen for the first time is stemmed."""

    def __init__(self, stem: Callable[[str], str], stop_words: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(stop_words, _NONE))
        self.stems: dict[str, int] = {}
        self.open = True
        self._stem = stem

    def __missing__(self, word: str) -> int:
        stem = self._stem(word)
        if not self.open:
            return self.stems.get(stem, _NONE)
        number = self[word] = self.stems.setdefault(stem, len(self.stems))
        return number


def bigrams(text: str) -> list[str]:
    """Every two neighbours in a run of Chinese or Japanese characters, a lone character itself, other words whole.

    Needs no dictionary; the usual baseline for these scripts (Lucene's CJKAnalyzer does the same).
    """
    tokens = []
    for part in _RUN_OR_WORD.findall(text):
        if len(part) > 1 and _IS_RUN(part):
            tokens += [part[i : i + 2] for i in range(len(part) - 1)]
        else:
            tokens.append(part)
    return tokens


def _splitter(tokenizer: str) -> str | Callable[[str], list[str]]:
    known: dict[str, str | Callable[[str], list[str]]] = {"word": r"(?u)\b\w\w+\b", "bigram": bigrams}
    if tokenizer not in known:
        raise SourceError(f"unknown tokenizer {tokenizer!r}; known: {', '.join(known)}")
    return known[tokenizer]


def _stop_words(language: str) -> str | None:
    if language != "none" and language not in LANGUAGES:
        near = difflib.get_close_matches(language, LANGUAGES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? Known" if near else "known"
        raise SourceError(f"unknown language {language!r}; {hint}: {', '.join(LANGUAGES)}, or none for neither")
    return language if language in _WITH_STOP_WORDS else None


def _stemmer(language: str) -> Callable[[str], str]:
    if language not in _STEMMED:
        return str
    # PyStemmer's own cache would only hold what `_Numbers` holds anyway.
    stem: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord
    return stem
