"""What is refused, warned of and derived from other arguments, as sentence-transformers words it."""

from __future__ import annotations

import builtins
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest
from datasets import Dataset
from sentence_transformers.util import mine_hard_negatives as theirs

from foolsgold.compat.sentence_transformers import mine_hard_negatives as ours
from foolsgold.errors import CollectionError

Said = Callable[..., tuple[type[Exception], str]]


@pytest.fixture
def said(retriever: Any, single: Any) -> Said:
    """The type and the text of the error that both functions raise, which must be one."""

    def ask(dataset: Any = single, **arguments: Any) -> tuple[type[Exception], str]:
        errors = []
        for mine in (ours, theirs):
            with pytest.raises((ValueError, ImportError)) as caught:
                mine(dataset, retriever, verbose=False, **arguments)
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]
        return errors[0]

    return ask


def test_what_is_out_of_range_is_refused_in_their_words(said: Said, single: Any) -> None:
    assert said(Dataset.from_dict({"question": [], "answer": []}))[0] is ValueError
    assert "two columns" in said(single.select_columns(["question"]))[1]
    assert "output_format: pairs" in said(output_format="pairs")[1]
    assert "num_negatives=0" in said(num_negatives=0)[1]
    assert "num_negatives=-5" in said(num_negatives=-5, range_min=3)[1]
    assert "range_min=-1" in said(range_min=-1, range_max=8)[1]
    assert "smaller than range_max" in said(range_min=5, range_max=5)[1]
    assert "Cannot mine 10 negatives" in said(num_negatives=10, range_max=4)[1]
    assert "faiss_batch_size" in said(faiss_batch_size=0)[1]


def test_faiss_on_a_gpu_caps_a_derived_range(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    faiss = pytest.importorskip("faiss")
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    assert "capped to 2047" in said(num_negatives=10, range_min=2040, use_faiss=True)[1]
    assert "capped to 2047" in said(range_min=2050, use_faiss=True)[1]


def test_faiss_on_a_cpu_caps_nothing(single: Any, retriever: Any) -> None:
    pytest.importorskip("faiss")
    assert len(ours(single, retriever, num_negatives=10, range_min=2040, use_faiss=True, verbose=False)) == 0


def test_the_cap_is_printed(single: Any, retriever: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    faiss = pytest.importorskip("faiss")
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 1, raising=False)
    ours(single, retriever, range_min=2044, use_faiss=True)
    assert "positives. Setting range_max to 2047.\nSetting range_max to 2047 based on" in capsys.readouterr().out


def test_faiss_is_asked_for_only_with_use_faiss(
    single: Any, retriever: Any, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = builtins.__import__

    def without_faiss(name: str, *rest: Any, **more: Any) -> Any:
        if name == "faiss":
            raise ImportError(name)
        return really(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_faiss)
    assert said(use_faiss=True)[0] is ImportError
    assert len(ours(single, retriever, verbose=False)) == 120


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"range_min": 1},
        {"range_max": 5},
        {"max_score": 0.8},
        {"min_score": -0.5},
        {"absolute_margin": 0.1},
        {"relative_margin": 0.05},
        {"margin": 0.1},
        {"sampling_strategy": "random"},
        {"output_format": "labeled-list"},
        {"as_triplets": False},
        {"as_triplets": True, "output_format": "labeled-list"},
        {"output_format": "n-tuple-scores"},
    ],
    ids=str,
)
def test_the_same_is_warned_of(
    changed: dict[str, Any], single: Any, retriever: Any, caplog: pytest.LogCaptureFixture
) -> None:
    few = single.select(range(6))
    for ranking in (False, True):
        warned, columns = [], []
        for mine in (ours, theirs):
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                columns.append(mine(few, retriever, include_positives=ranking, verbose=False, **changed).column_names)
            warned.append(sorted(record.getMessage() for record in caplog.records))
        assert warned[0] == warned[1]
        assert columns[0] == columns[1]


def test_a_column_that_is_not_there_is_refused_by_name(single: Any, retriever: Any) -> None:
    with pytest.raises(CollectionError, match="no column 'questoin' for the anchor; did you mean 'question'"):
        ours(single, retriever, anchor_column_name="questoin")
    with pytest.raises(CollectionError, match="no column 'x' for the positive"):
        ours(single, retriever, positive_column_name="x")
    with pytest.raises(CollectionError, match="both the column 'answer'"):
        ours(single, retriever, anchor_column_name="answer")


def test_columns_are_named_in_any_order(single: Any, retriever: Any) -> None:
    named: dict[str, Any] = {"anchor_column_name": "other", "positive_column_name": "question", "verbose": False}
    found, expected = ours(single, retriever, **named), theirs(single, retriever, **named)
    assert found.column_names == ["other", "question", "negative"]
    assert found.to_list() == expected.to_list()


def test_what_is_no_text_is_refused_with_its_row(retriever: Any, single: Any) -> None:
    with pytest.raises(CollectionError, match="column 'a': row 1 holds None"):
        ours(Dataset.from_dict({"q": ["bees", "honey"], "a": ["river", None]}), retriever)
    with pytest.raises(CollectionError, match="corpus: one string"):
        ours(single, retriever, corpus="the capital of france")
    with pytest.raises(CollectionError, match="corpus: row 1 holds 3"):
        ours(single, retriever, corpus=["bees", 3])


def test_a_strategy_or_a_seed_that_is_none_is_refused(retriever: Any, single: Any) -> None:
    with pytest.raises(ValueError, match="Invalid sampling_strategy: best"):
        ours(single, retriever, sampling_strategy="best")
    for seed in (-1, 2**64, 1.5, True):
        with pytest.raises(ValueError, match="Invalid seed"):
            ours(single, retriever, sampling_strategy="random", seed=seed)


def test_the_corpus_may_be_any_iterable_of_texts(single: Any, retriever: Any, texts: list[str]) -> None:
    column = Dataset.from_dict({"text": texts[80:]})["text"]
    plain = ours(single, retriever, corpus=texts[80:], verbose=False)
    for corpus in (column, iter(texts[80:])):
        assert ours(single, retriever, corpus=corpus, verbose=False).to_list() == plain.to_list()


def test_importing_it_loads_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, foolsgold as fg; fg.compat.sentence_transformers.mine_hard_negatives;"
        "assert not {'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_formats_and_flags_go_together(several: Any, retriever: Any) -> None:
    for format, scores, ragged in itertools.product(
        ("triplet", "n-tuple", "labeled-pair", "labeled-list"), (False, True), (False, True)
    ):
        found = ours(
            several, retriever, output_format=format, output_scores=scores, ragged=ragged, max_score=0.3, verbose=False
        )
        assert len(found)
