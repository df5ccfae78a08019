"""The same arguments give the rows, the columns and the printed lines that sentence-transformers gives."""

from __future__ import annotations

import inspect
import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from sentence_transformers.util import mine_hard_negatives as theirs

from foolsgold.compat.sentence_transformers import mine_hard_negatives as ours

pytestmark = pytest.mark.filterwarnings("ignore:std")  # theirs, of fewer than two negatives

FORMATS = ("triplet", "n-tuple", "labeled-pair", "labeled-list")
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"max_score": 0.6},
    {"min_score": 0.3},
    {"absolute_margin": 0.1},
    {"relative_margin": 0.05},
    {"absolute_margin": -0.2, "relative_margin": -0.3, "max_score": 0.7, "min_score": -0.1},
    {"range_max": 6, "relative_margin": 0.2},
)


def test_the_signature_is_theirs_with_two_keywords_more() -> None:
    own, other = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert list(own)[: len(other)] == list(other)
    assert {name: p.default for name, p in other.items()} == {name: own[name].default for name in other}
    assert all(own[name].kind == p.kind for name, p in other.items())
    assert set(own) - set(other) == {"seed", "ragged"}


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("rows", ["single", "several"])
@pytest.mark.parametrize("with_corpus", [False, True])
def test_every_format_has_their_rows(
    rows: str, filters: dict[str, Any], with_corpus: bool, retriever: Any, texts: list[str], request: Any
) -> None:
    dataset = request.getfixturevalue(rows)
    corpus = texts[60:150] if with_corpus else None
    for format, scores in itertools.product(FORMATS, (True,) if filters else (False, True)):
        kept: dict[str, Any] = dict(output_format=format, output_scores=scores, corpus=corpus, verbose=False, **filters)
        assert_same(ours(dataset, retriever, **kept), theirs(dataset, retriever, **kept))


@pytest.mark.parametrize("filters", [f for f in FILTERS if f], ids=str)
@pytest.mark.parametrize("rows", ["single", "several"])
def test_the_best_by_a_cross_encoder_are_theirs(
    rows: str, filters: dict[str, Any], retriever: Any, cross_encoder: Any, request: Any
) -> None:
    dataset = request.getfixturevalue(rows)
    dataset = dataset.select([*range(8), *range(len(dataset) - 4, len(dataset))])
    for format in ("triplet", "labeled-list"):
        kept: dict[str, Any] = dict(output_format=format, output_scores=True, verbose=False, **filters)
        found = (mine(dataset, retriever, cross_encoder=cross_encoder, **kept) for mine in (ours, theirs))
        assert_same(*found)


@pytest.mark.parametrize("filters", [{}, {"relative_margin": 0.05}], ids=str)
def test_ranks_and_numbers_of_negatives_are_theirs(filters: dict[str, Any], several: Any, retriever: Any) -> None:
    for n, last in itertools.product((1, 2, 5), (5, 7, None)):
        kept: dict[str, Any] = dict(num_negatives=n, range_max=last, output_scores=True, verbose=False, **filters)
        assert_same(ours(several, retriever, **kept), theirs(several, retriever, **kept))


def test_skipping_the_nearest_is_theirs_where_no_threshold_drops_any(several: Any, retriever: Any) -> None:
    for first, last in ((1, None), (3, 9), (10, 200)):
        kept: dict[str, Any] = {"range_min": first, "range_max": last, "output_scores": True, "verbose": False}
        assert_same(ours(several, retriever, **kept), theirs(several, retriever, **kept))


@pytest.mark.parametrize("filters", [{}, {"max_score": 0.6}, {"range_min": 1}], ids=str)  # not both at once
@pytest.mark.parametrize("rows", ["single", "several"])
def test_a_ranking_with_positives_is_theirs(rows: str, filters: dict[str, Any], retriever: Any, request: Any) -> None:
    dataset = request.getfixturevalue(rows)
    kept: dict[str, Any] = dict(include_positives=True, num_negatives=4, output_scores=True, verbose=False, **filters)
    assert_same(ours(dataset, retriever, **kept), theirs(dataset, retriever, **kept))


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_the_models_own_similarity_decides(similarity: str, several: Any) -> None:
    from table_student import static_student

    model = static_student()
    model.similarity_fn_name = similarity
    kept: dict[str, Any] = {"relative_margin": 0.05, "output_scores": True, "faiss_batch_size": 7, "verbose": False}
    assert_same(ours(several, model, **kept), theirs(several, model, **kept))


def test_prompts_reach_the_model_as_theirs_do(single: Any) -> None:
    from table_student import static_student

    model = static_student()
    model.prompts = {"asking": "honey bees ", "query": "river ", "document": "paris "}
    given: list[dict[str, str]] = [
        {},
        {"query_prompt": "france "},
        {"query_prompt_name": "asking", "corpus_prompt": "bread "},
        {"query_prompt": "the ", "query_prompt_name": "asking", "corpus_prompt_name": "asking"},
    ]
    found = []
    for prompts in given:
        kept: dict[str, Any] = dict(output_scores=True, verbose=False, **prompts)
        found.append(ours(single, model, **kept))
        assert_same(found[-1], theirs(single, model, **kept))
    assert len({str(rows["scores"][0]) for rows in found}) == len(given)


def test_faiss_finds_what_exact_search_finds(several: Any, retriever: Any) -> None:
    pytest.importorskip("faiss")
    kept: dict[str, Any] = {"output_scores": True, "use_faiss": True, "faiss_batch_size": 6, "verbose": False}
    assert_same(ours(several, retriever, **kept), theirs(several, retriever, **kept))


def test_a_corpus_smaller_than_the_range_gives_what_there_is(single: Any, retriever: Any) -> None:
    few = single.select(range(3))
    for format in FORMATS:
        kept: dict[str, Any] = {"range_max": 500, "num_negatives": 3, "output_format": format, "verbose": False}
        found, expected = ours(few, retriever, **kept), theirs(few, retriever, **kept)
        assert found.column_names == expected.column_names
        assert found.to_list() == expected.to_list()


@pytest.mark.parametrize("sampling", ["top", "random"])
@pytest.mark.parametrize("filters", [{}, {"max_score": 0.3}, {"range_max": 6, "relative_margin": 0.2}], ids=str)
def test_as_many_are_drawn_as_they_draw(sampling: Any, filters: dict[str, Any], several: Any, retriever: Any) -> None:
    kept: dict[str, Any] = dict(sampling_strategy=sampling, output_scores=True, verbose=False, **filters)
    counts = []
    for mine in (ours, theirs):
        counted: dict[str, int] = defaultdict(int)
        for row in mine(several, retriever, **kept):
            counted[row["question"]] += 1
        counts.append(counted)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("filters", [f for f in FILTERS if "min_score" not in f], ids=str)
@pytest.mark.parametrize("format", FORMATS)
def test_the_same_is_printed(
    filters: dict[str, Any], format: str, several: Any, retriever: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: dict[str, Any] = dict(output_format=format, num_negatives=4, **filters)
    printed = []
    for mine in (ours, theirs):
        mine(several, retriever, **kept)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "Negative candidates mined" in printed[0]


def test_the_same_is_printed_of_nothing_at_all(single: Any, retriever: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for mine in (ours, theirs):
        assert len(mine(single, retriever, max_score=-2.0)) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def assert_same(own: Any, other: Any) -> None:
    """The same rows in the same order, in columns of the same types; scores to the sixth decimal."""
    assert own.column_names == other.column_names
    if len(other):  # theirs infers types from values, and has none to infer from
        assert own.features == other.features
    for column in own.column_names:
        if column in ("score", "scores"):
            mine, yours = (np.array([x for row in rows[column] for x in np.atleast_1d(row)]) for rows in (own, other))
            np.testing.assert_allclose(mine, yours, rtol=0, atol=2e-6)
        else:
            assert list(own[column]) == list(other[column]), column
