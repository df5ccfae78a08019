from __future__ import annotations

import numpy as np
import pytest
from toy import collection

from foolsgold.collection import Collection, Texts
from foolsgold.errors import CollectionError

DOCUMENTS = {"a": "one", "b": "two", "c": "three"}
QUERIES = {"p": "first?", "q": "second?", "r": "third?"}


def test_positives_are_by_query_then_row_and_lower_grades_stay_judgements() -> None:
    some = Collection.from_judgements(
        name="toy",
        split="train",
        documents=Texts.from_lists(DOCUMENTS, DOCUMENTS.values()),
        queries=Texts.from_lists(QUERIES, QUERIES.values()),
        judgements={("r", "c"): 2, ("r", "a"): 3, ("q", "b"): 1, ("p", "b"): 2, ("p", "a"): 0},
        relevant_from=2,
    )
    assert some.queries.take_ids(range(2)) == ["p", "r"]  # q is judged, but has no positive
    assert some.positive_offsets.tolist() == [0, 1, 3]
    assert some.positive_rows.tolist() == [1, 0, 2]
    assert some.positive_query.tolist() == [0, 1, 1]
    assert some.positives(1).tolist() == [0, 2]
    assert list(zip(some.judged_query, some.judged_doc, some.grade, strict=True)) == [
        (0, 0, 0), (0, 1, 2), (1, 0, 3), (1, 2, 2),
    ]  # fmt: skip
    assert some.notes == ("judged queries without a positive: 1, left out",)


def test_the_limit_keeps_the_first_queries_that_have_a_positive() -> None:
    judgements = {("q", "a"): 1, ("r", "a"): 1, ("p", "a"): 0}
    some = Collection.from_judgements(
        name="toy", split="train", limit=1, judgements=judgements,
        documents=Texts.from_lists(DOCUMENTS, DOCUMENTS.values()), queries=Texts.from_lists(QUERIES, QUERIES.values()),
    )  # fmt: skip
    assert some.queries.take_ids([0]) == ["q"]
    assert len(some.queries) == 1


def test_a_judgement_of_something_unknown_is_an_error() -> None:
    with pytest.raises(CollectionError, match="names document 'z', which is not there"):
        collection(DOCUMENTS, QUERIES, {"p": {"z": 1}})
    with pytest.raises(CollectionError, match="names query 'z', which is not there"):
        collection(DOCUMENTS, QUERIES, {"z": {"a": 1}})


def test_without_a_positive_there_is_nothing_to_mine() -> None:
    with pytest.raises(CollectionError, match="no query has a positive"):
        collection(DOCUMENTS, QUERIES, {"p": {"a": 0}})


def test_the_digest_is_of_texts_ids_and_judgements() -> None:
    some = collection(DOCUMENTS, QUERIES, {"p": {"a": 1}})
    assert some.digest == collection(DOCUMENTS, QUERIES, {"p": {"a": 1}}).digest
    others = [
        collection({**DOCUMENTS, "c": "four"}, QUERIES, {"p": {"a": 1}}),
        collection(DOCUMENTS, {**QUERIES, "p": "other?"}, {"p": {"a": 1}}),
        collection(DOCUMENTS, QUERIES, {"p": {"b": 1}}),
        collection(DOCUMENTS, QUERIES, {"p": {"a": 2}}),
        collection({"z": "one", "b": "two", "c": "three"}, QUERIES, {"p": {"z": 1}}),
    ]
    assert len({some.digest, *(other.digest for other in others)}) == 6


def test_extra_positives_make_a_new_collection() -> None:
    some = collection(DOCUMENTS, QUERIES, {"p": {"a": 3, "b": 0}})
    more = some.with_extra_positives(np.array([0, 0], np.int32), np.array([1, 0], np.int32))
    assert more.positives(0).tolist() == [0, 1]
    assert more.grade.tolist() == [3, 1]
    assert some.positives(0).tolist() == [0]
