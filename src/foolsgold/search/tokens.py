"""Texts to token numbers for BM25: lower case, split, drop stop words, stem.

Words are what bm25s takes for words, stop words are its own, stems are PyStemmer's. The loop is ours, because each
distinct word needs all that only once, after which a text costs one dictionary lookup a word. Many texts are joined and
split in one call.
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
_BETWEEN = "\0"  # stands between two joined texts, and is then a word of its own
_WORD = re.compile(rf"{_BETWEEN}|\w\w+")
_RUN_OR_WORD = re.compile(rf"{_BETWEEN}|[{_UNSPACED}]+|[^\W{_UNSPACED}]{{2,}}")
_IS_RUN = re.compile(rf"[{_UNSPACED}]").match

# In ASCII, blanks for all that is in no word leave words to str.split, which is three times as fast as the patterns.
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789_"
_BLANKED = bytes(i if chr(i) in _LETTERS + _BETWEEN else ord(" ") for i in range(256))
_JOINED = 32  # texts; few enough that one with other letters slows down few others

_STEMMED = frozenset(Stemmer.algorithms()) - {"porter"}
_WITH_STOP_WORDS = frozenset(
    name.removeprefix("STOPWORDS_").lower() for name in vars(stopwords) if name.startswith("STOPWORDS_")
) - {"en", "en_plus"} | {"english"}
LANGUAGES = sorted(_STEMMED | _WITH_STOP_WORDS)


class Tokens:
    """A vocabulary that grows with every text of the corpus and is then closed."""

    def __init__(self, language: str, tokenizer: TokenizerName) -> None:
        self._split = _splitter(tokenizer)
        self._numbers = _Numbers(_stemmer(language), _stop_words(language))

    def __len__(self) -> int:
        return len(self._numbers.stems)

    def learn(self, texts: list[str], first_row: int) -> tuple[IntArray, LongArray]:
        """Token numbers of documents, int32, text after text, and how many each text has, int64 (n)."""
        return self._read(texts, "document", first_row)

    def close(self) -> None:
        """From now on words with an unknown stem have no number."""
        self._numbers.open = False

    def look_up(self, texts: list[str], first_row: int = 0) -> tuple[IntArray, LongArray]:
        """The same for queries: words whose stem the corpus does not have are left out."""
        return self._read(texts, "query", first_row)

    def _read(self, texts: list[str], what: str, first_row: int) -> tuple[IntArray, LongArray]:
        found: list[int] = []
        for start in range(0, len(texts), _JOINED):
            words = self._words(texts[start : start + _JOINED], what, first_row + start)
            found += map(self._numbers.__getitem__, words)
            found.append(_END)
        numbers = np.array(found, dtype=np.int32)
        known = numbers >= 0
        return numbers[known], np.diff(np.cumsum(known)[numbers == _END], prepend=0)

    def _words(self, texts: list[str], what: str, first_row: int) -> list[str]:
        """The words of all texts, `_BETWEEN` between two texts."""
        try:
            joined = f" {_BETWEEN} ".join(texts).lower()
        except TypeError:
            row = next(row for row, text in enumerate(texts) if not isinstance(text, str))
            raise SourceError(f"{what} {first_row + row} is {texts[row]!r}, which is not a text") from None
        if joined.count(_BETWEEN) >= len(texts):
            return self._words([text.replace(_BETWEEN, " ") for text in texts], what, first_row)
        if joined.isascii():
            return joined.encode().translate(_BLANKED).decode().split()
        return self._split(joined)


_NONE, _END = -1, -2


class _Numbers(dict[str, int]):
    """The number of each word's stem, `_NONE` for stop words; a word seen for the first time is stemmed.

    A single letter is no word, and `_BETWEEN` has the number `_END`.
    """

    def __init__(self, stem: Callable[[str], str], stop_words: Iterable[str]) -> None:
        super().__init__(dict.fromkeys([*_LETTERS, *stop_words], _NONE))
        self[_BETWEEN] = _END
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


def _splitter(tokenizer: str) -> Callable[[str], list[str]]:
    known: dict[str, Callable[[str], list[str]]] = {"word": _WORD.findall, "bigram": bigrams}
    if tokenizer not in known:
        raise SourceError(f"unknown tokenizer {tokenizer!r}; known: {', '.join(known)}")
    return known[tokenizer]


def _stop_words(language: str) -> Iterable[str]:
    if language != "none" and language not in LANGUAGES:
        near = difflib.get_close_matches(language, LANGUAGES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? Known" if near else "known"
        raise SourceError(f"unknown language {language!r}; {hint}: {', '.join(LANGUAGES)}, or none for neither")
    if language not in _WITH_STOP_WORDS:
        return []
    words: Iterable[str] = BM25sTokenizer(stopwords=language, stemmer=None).stopwords
    return words


def _stemmer(language: str) -> Callable[[str], str]:
    if language not in _STEMMED:
        return str
    # PyStemmer's own cache would only hold what `_Numbers` holds anyway.
    stem: Callable[[str], str] = Stemmer.Stemmer(language, 0).stemWord
    return stem
