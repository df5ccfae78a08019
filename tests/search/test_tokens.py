"""How texts become tokens, against bm25s where it does the same."""

from __future__ import annotations

import bm25s
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.search.tokens import LANGUAGES, Tokens, bigrams


@given(st.lists(st.text(max_size=60), max_size=8))
def test_a_text_has_the_tokens_that_bm25s_gives_it(texts: list[str]) -> None:
    tokens = Tokens("english", "word")
    numbers, lengths = tokens.learn(texts, 0)
    expected = bm25s.tokenize(
        texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), return_ids=False, show_progress=False
    )
    stems = list(tokens._numbers.stems)
    assert lengths.tolist() == [len(words) for words in expected]
    assert [stems[number] for number in numbers.tolist()] == [word for words in expected for word in words]


def test_a_closed_vocabulary_leaves_unknown_words_out() -> None:
    tokens = Tokens("english", "word")
    tokens.learn(["cats purr"], 0)
    tokens.close()
    numbers, lengths = tokens.look_up(["the cat barks", "zebra", ""])
    assert (numbers.tolist(), lengths.tolist()) == ([0], [1, 0, 0])
    assert len(tokens) == 2


@pytest.mark.parametrize("language", [*LANGUAGES, "none"])
def test_every_language_indexes_a_text(language: str) -> None:
    numbers, lengths = Tokens(language, "word").learn(["zorbulax quux"], 0)
    assert (len(numbers), lengths.tolist()) == (2, [2])


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("北京大学", ["北京", "京大", "大学"]),
        ("猫", ["猫"]),
        ("ラーメンを食べる", ["ラー", "ーメ", "メン", "ンを", "を食", "食べ", "べる"]),
        ("python3で検索", ["python3", "で検", "検索"]),
        ("学习 machine-learning a", ["学习", "machine", "learning"]),
        ("人々", ["人々"]),
        ("한국어 검색", ["한국어", "검색"]),
        ("", []),
        ("。、!", []),
    ],
)
def test_bigrams_of_unspaced_scripts_and_words_of_the_others(text: str, tokens: list[str]) -> None:
    assert bigrams(text) == tokens
