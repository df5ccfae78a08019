"""Which words are marked: those with a stem of the query's."""

from __future__ import annotations

import pytest

from foolsgold.label.words import marked


def _marks(query: str, text: str, language: str = "english", tokenizer: str = "word") -> str:
    pieces = marked(query, text, language, tokenizer)  # type: ignore[arg-type]
    assert "".join(piece for piece, _ in pieces) == text
    return "".join(f"[{piece}]" if mark else piece for piece, mark in pieces)


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("flying geese", "Geese FLY, a goose is flying; flyers", "[Geese] [FLY], a goose is [flying]; flyers"),
        ("the lake of swans", "The swan of the lakes", "The [swan] of the [lakes]"),  # stop words are not marked
        ("a b", "a b c", "a b c"),  # single letters are no words
        ("caf\u00e9", "Caf\u00e9s & caf\u00e9", "[Caf\u00e9s] & [caf\u00e9]"),
        ("x-ray dose", "the dose", "the [dose]"),
        ("dose", "", ""),
        ("", "some text", "some text"),
    ],
)
def test_words_are_marked_by_stem(query: str, text: str, expected: str) -> None:
    assert _marks(query, text) == expected


def test_another_language_has_other_stems() -> None:
    assert _marks("H\u00e4user am See", "ein Haus, zwei H\u00e4user", "german").endswith("zwei [H\u00e4user]")


def test_bigrams_mark_the_characters_that_two_neighbours_share() -> None:
    assert _marks("\u6771\u4eac\u90fd", "\u79c1\u306f\u6771\u4eac\u306b\u3044\u308b", "none", "bigram") == (
        "\u79c1\u306f[\u6771\u4eac]\u306b\u3044\u308b"
    )
    assert _marks("\u6771\u4eac\u90fd", "\u6771\u4eac\u90fd", "none", "bigram") == "[\u6771\u4eac][\u90fd]"


def test_a_word_inside_another_word_is_not_mistaken_for_it() -> None:
    assert _marks("on", "nonon on", "none", "bigram") == "nonon [on]"
