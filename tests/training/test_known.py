from __future__ import annotations

import numpy as np
import pytest
import torch
from toy import collection

from foolsgold.errors import TrainingError
from foolsgold.training.known import KnownPositives
from foolsgold.training.labels import NOBODYS

TOY = collection(
    {"a": "Bees make honey", "b": "Paris", "c": "bees  make HONEY", "d": "bread", "e": "river"},
    {"q1": "who makes honey", "q2": "capital of france", "q3": "Who makes  honey"},
    {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"d": 1}},
)


def known_pairs(known: KnownPositives, query: list[int], document: list[int]) -> list[list[bool]]:
    return known(torch.tensor(query), torch.tensor(document)).tolist()


def test_positives_are_known_by_the_text_of_the_document_and_of_the_query() -> None:
    # q1 and q3 are one query text: a, its copy c, and d are positives of both.
    assert known_pairs(KnownPositives(TOY), [0, 1, 2], [0, 1, 2, 3, 4]) == [
        [True, False, True, True, False],
        [False, True, False, False, False],
        [True, False, True, True, False],
    ]


def test_what_is_added_is_known_from_then_on_for_all_copies() -> None:
    known = KnownPositives(TOY)
    known.add(np.array([1]), np.array([2]))
    assert known_pairs(known, [1], [0, 1, 2, 3]) == [[True, True, True, False]]


def test_no_document_is_no_positive() -> None:
    known = KnownPositives(TOY)
    assert known_pairs(known, [0, 1], [NOBODYS, 1]) == [[False, False], [False, True]]
    assert known.passages(torch.tensor([NOBODYS, 0, 2])).tolist() == [NOBODYS, 0, 0]


def test_it_agrees_with_the_judgements_on_random_collections() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        texts = {f"d{i}": f"text {rng.integers(6)}" for i in range(12)}
        queries = {f"q{i}": f"query {rng.integers(5)}" for i in range(8)}
        judged = {query: {f"d{d}": 1 for d in rng.choice(12, 2, replace=False)} for query in queries}
        made = collection(texts, queries, judged)
        answers = {(queries[q], texts[d]) for q, docs in judged.items() for d in docs}
        wanted = [[(query, text) in answers for text in texts.values()] for query in queries.values()]
        assert known_pairs(KnownPositives(made), list(range(8)), list(range(12))) == wanted


def test_it_moves_with_its_loss_but_is_not_written_with_it() -> None:
    known = KnownPositives(TOY)
    assert {name for name, _ in known.named_buffers()} == {"keys", "text_of_query", "passage_of_document"}
    assert known.state_dict() == {}


def test_rows_of_another_collection_are_refused() -> None:
    with pytest.raises(TrainingError, match="make them and the rows of one collection"):
        known_pairs(KnownPositives(TOY), [99], [0])
