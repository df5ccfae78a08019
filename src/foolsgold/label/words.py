"""Which words of a text are words of the query, by stem, as BM25 would say; so that a reader sees them at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

from foolsgold.search.tokens import TokenizerName, Tokens, bigrams

Piece = tuple[str, bool]
"""Some of the text, and whether it is marked."""

_WORD = re.compile(r"\w+")


def marked(query: str, text: str, language: str, tokenizer: TokenizerName) -> list[Piece]:
    """The text in pieces, in order: marked ones have a stem of the query's, stop words are never marked.

    Joined, the pieces are the text. With tokenizer "bigram" that is asked of every two neighbouring characters.
    """
    tokens = Tokens(language, tokenizer)
    tokens.learn([query], 0)
    tokens.close()
    spans = list(_spans(text, tokenizer))
    _, counts = tokens.look_up([text[start:end] for start, end in spans])
    pieces: list[Piece] = []
    done = 0
    for (start, end), count in zip(spans, counts.tolist(), strict=True):
        if not count or end <= done:
            continue
        if start > done:
            pieces.append((text[done:start], False))
        pieces.append((text[max(start, done) : end], True))
        done = end
    if done < len(text):
        pieces.append((text[done:], False))
    return pieces


def _spans(text: str, tokenizer: TokenizerName) -> Iterator[tuple[int, int]]:
    """Where the words are, or the bigrams, each of which overlaps the next by a character."""
    if tokenizer == "word":
        yield from (word.span() for word in _WORD.finditer(text))
        return
    start = 0
    for token in bigrams(text):
        start = text.index(token, start)
        end = start + len(token)
        yield start, end
        start = max(start + 1, end - 1)
