from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foolsgold.collection import Collection, load_collection
from foolsgold.collection.distinct import Entry, distinct, made_ids
from foolsgold.errors import CollectionError

Write = Callable[..., Path]

ROWS = [
    {"question": "what is pyrite?", "answer": "fool's gold"},
    {"question": "what is gold?", "answer": "a metal"},
    {"question": "what is pyrite?", "answer": "iron disulfide"},
    {"question": "what is iron?", "answer": "a metal"},
]
WANTED = {
    "what is pyrite?": {"fool's gold", "iron disulfide"},
    "what is gold?": {"a metal"},
    "what is iron?": {"a metal"},
}


def positives(some: Collection) -> dict[str, set[str]]:
    """Query text -> texts of its positives."""
    return {
        text: set(some.documents.take(some.positives(row)))
        for row, text in enumerate(next(iter(some.queries.batches())))
    }


def ids(some: Collection) -> list[list[str]]:
    return [texts.take_ids(range(len(texts))) for texts in (some.queries, some.documents)]


def as_csv(between: str) -> str:
    return "".join(f"{row[0]}{between}{row[1]}\n" for row in [list(ROWS[0]), *(list(row.values()) for row in ROWS)])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.jsonl", ROWS),
        ("pairs.json", json.dumps(ROWS, indent=1)),
        ("pairs.json", "".join(json.dumps(row) + "\n" for row in ROWS)),
        ("pairs.csv", as_csv(",")),
        ("pairs.tsv", as_csv("\t").replace("\n", "\r\n")),
    ],
)
def test_every_text_format_gives_the_same_collection(file: Write, name: str, content: Any) -> None:
    some = load_collection(f"pairs:{file(name, content)}")
    assert positives(some) == WANTED
    assert ids(some) == [["q0", "q1", "q2"], ["d0", "d1", "d2"]]
    assert (some.name, some.split) == ("pairs", "train")
    assert some.notes == ("columns: 'question' is the query, 'answer' the positive",)


def test_parquet_and_gz_too(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "pairs.parquet")
    with gzip.open(tmp_path / "pairs.jsonl.gz", "wt", encoding="utf-8") as packed:
        packed.writelines(json.dumps(row) + "\n" for row in ROWS)
    one, other = (load_collection(f"pairs:{tmp_path / name}") for name in ("pairs.parquet", "pairs.jsonl.gz"))
    assert positives(one) == WANTED
    assert one.digest == other.digest


def test_csv_texts_may_hold_commas_quotes_and_line_breaks(file: Write) -> None:
    some = load_collection(file("pairs.csv", 'query,positive\n"one, ""two""","a\nb"\n'))
    assert positives(some) == {'one, "two"': {"a\nb"}}


def test_tsv_texts_may_begin_with_a_quotation_mark(file: Write) -> None:
    some = load_collection(file("pairs.tsv", 'query\tpositive\n"gold" is\ta "metal"\n'))
    assert positives(some) == {'"gold" is': {'a "metal"'}}


FLAG = {"query": "what is pyrite?", "pos": ["fool's gold", "iron disulfide"], "neg": ["gold", "silver"]}


def test_flag_embedding_lists_are_positives_and_more_documents(file: Write) -> None:
    some = load_collection(f"pairs:{file('mined.jsonl', [FLAG, {**FLAG, 'query': 'and?', 'neg': []}])}")
    assert positives(some) == {
        "what is pyrite?": {"fool's gold", "iron disulfide"},
        "and?": {"fool's gold", "iron disulfide"},
    }
    assert some.documents.take(range(4)) == ["fool's gold", "iron disulfide", "gold", "silver"]
    assert some.notes == ("columns: 'query' is the query, 'pos' the positive, 'neg' more documents for the corpus",)


def test_tevatron_objects_bring_their_own_ids(file: Write) -> None:
    row = {
        "query_id": 7,
        "query": "what is pyrite?",
        "positive_passages": [{"docid": "p1", "title": "Pyrite", "text": "fool's gold"}],
        "negative_passages": [{"docid": "n1", "title": "", "text": "silver"}],
    }
    some = load_collection(f"pairs:{file('tevatron.jsonl', [row])}")
    assert ids(some) == [["7"], ["p1", "n1"]]
    assert some.documents.take([0, 1]) == ["Pyrite fool's gold", "silver"]


def test_id_columns_are_used(file: Write) -> None:
    rows = [{"qid": f"q-{row}", "pid": 10 + row, "query": "same", "passage": "text"} for row in range(2)]
    some = load_collection(f"pairs:{file('pairs.jsonl', rows)}")
    assert ids(some) == [["q-0", "q-1"], ["10", "11"]]
    assert "'qid' the query's id, 'pid' the positive's id" in some.notes[0]


def test_ids_that_name_two_texts_are_not_used_and_a_note_says_so(file: Write) -> None:
    rows = [{"query_id": "1", "query": f"q {row}", "positive": "text"} for row in range(2)]
    some = load_collection(f"pairs:{file('pairs.jsonl', rows)}")
    assert ids(some)[0] == ["q0", "q1"]
    assert some.notes[1] == "'1' in 'query_id' names two different texts; ids are made up instead"


def test_an_id_of_the_row_is_never_taken_for_a_text(file: Write) -> None:
    with pytest.raises(CollectionError) as caught:
        load_collection(f"pairs:{file('pairs.jsonl', [{'id': 'a', 'query': 'b', 'blurb': 'c'}])}")
    assert "no column looks like the positive (columns: 'id', 'query', 'blurb')" in str(caught.value)
    assert "anchor: COLUMN, positive: COLUMN" in str(caught.value)


def test_two_columns_that_could_be_the_positive_are_an_error_until_one_is_named(file: Write) -> None:
    path = file("squad.jsonl", [{"question": "who?", "context": "long", "answer": "short"}])
    with pytest.raises(CollectionError, match="'context' and 'answer' could each be the positive"):
        load_collection(f"pairs:{path}")
    some = load_collection(f"pairs:{path}", positive="context")
    assert positives(some) == {"who?": {"long"}}
    assert some.notes == ("columns: 'question' is the query, 'context' the positive; not read: 'answer'",)
    assert some.spec == {"pairs": {"path": str(path), "positive": "context"}}


def test_a_mistyped_column_names_the_nearest(file: Write) -> None:
    with pytest.raises(CollectionError, match=r"no column 'anwser' for the positive; did you mean 'answer'\?"):
        load_collection(f"pairs:{file('pairs.jsonl', ROWS)}", positive="anwser")


def test_one_column_cannot_be_both(file: Write) -> None:
    with pytest.raises(CollectionError, match="anchor and positive are both the column 'answer'"):
        load_collection(f"pairs:{file('pairs.jsonl', ROWS)}", anchor="answer", positive="answer")


def test_rows_without_a_text_are_counted_and_left_out(file: Write) -> None:
    rows = [
        ROWS[0],
        {"question": None, "answer": "x"},
        {"question": " ", "answer": "x"},
        {"question": "x"},
        {"question": "x", "answer": [""]},
    ]
    some = load_collection(f"pairs:{file('pairs.jsonl', rows)}")
    assert positives(some) == {"what is pyrite?": {"fool's gold"}}
    assert some.notes[1] == "lines without a text in 'question' or 'answer': 4, left out (first: line 2)"


BAD_CELLS = {
    json.dumps({"question": "x", "answer": 3}): r"line 5: 'answer' is a number \(3\); it must be a text",
    json.dumps({"question": {"a": 1}, "answer": "x"}): r"line 5: 'question' is an object",
    json.dumps({"question": "x", "answer": [["x"]]}): r"line 5: 'answer' is a list",
    json.dumps(
        {"question": "x", "answer": {"body": "x"}}
    ): r"line 5: 'answer' is an object with 'body'; it needs 'text'",
    "nonsense": "line 5: not JSON",
}


@pytest.mark.parametrize(("line", "message"), BAD_CELLS.items(), ids=range(len(BAD_CELLS)))
def test_a_cell_that_is_no_text_is_named_with_its_row(file: Write, line: str, message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        load_collection(f"pairs:{file('pairs.jsonl', [*ROWS, line])}")


def test_a_label_of_0_is_a_judgement_and_not_a_positive(file: Write) -> None:
    some = load_collection(file("pairs.csv", "query,passage,label\na,x,1\na,y,0\nb,y,0\n"))
    assert positives(some) == {"a": {"x"}}
    assert some.grade.tolist() == [1, 0]
    assert some.notes[-1] == "judged queries without a positive: 1, left out"


def test_a_label_that_means_something_else_is_an_error(file: Write) -> None:
    with pytest.raises(CollectionError, match=r"line 3: 'label' is a text \(0.7\); it must be 1 .* or 0"):
        load_collection(file("pairs.csv", "query,passage,label\na,x,1\na,y,0.7\n"))


def test_broken_tables_are_named(file: Write) -> None:
    cases = {
        "query,positive\na,b,c\n": "line 2: 3 fields where the first line names 2 columns",
        "": "empty; the first line must name the columns",
        "query,positive\n": "no row has both a query in 'query' and a positive in 'positive'",
        'query,positive\n"a,b\n': "is a quotation mark not closed",
        "query,query\na,b\n": "two columns are called 'query'",
    }
    for content, message in cases.items():
        with pytest.raises(CollectionError, match=message):
            load_collection(f"pairs:{file('pairs.csv', content)}")
    for name, content, message in (
        ("a.jsonl", "", "empty; it must have one JSON object per line"),
        ("a.json", "[1, 2]", "there is no JSON object"),
        ("a.json", "[{]", "not JSON"),
        ("a.parquet", "not parquet", "not a parquet file"),
        ("a.xlsx", "", r"unknown format '\.xlsx'; it can be \.jsonl"),
        ("a.jsonl.gz", "not gzip", "cannot be unpacked"),
    ):
        with pytest.raises(CollectionError, match=message):
            load_collection(f"pairs:{file(name, content)}")


def test_a_file_has_no_splits(file: Write) -> None:
    with pytest.raises(CollectionError, match="it has no splits, so split 'test' cannot be chosen"):
        load_collection(f"pairs:{file('pairs.jsonl', ROWS)}", split="test")


CORPUS_ROWS = [
    {"_id": "c1", "text": "a metal"},
    {"_id": "c2", "text": "fool's gold "},
    {"_id": "c3", "text": "a stone"},
    {"_id": "c4", "text": ""},
]


def test_a_positive_that_the_corpus_has_is_the_corpus_document(file: Write) -> None:
    corpus = file("corpus.jsonl", CORPUS_ROWS)
    some = load_collection(f"pairs:{file('pairs.jsonl', ROWS)}", corpus=corpus)
    assert ids(some)[1] == ["c1", "c2", "c3", "c4", "d4"]
    assert some.documents.take([4]) == ["iron disulfide"]
    assert positives(some) == WANTED
    assert some.notes[1:] == (
        "documents of the pairs that the corpus lacks: 1 of 3, added to it",
        "documents with an empty text: 1, never taken as negatives",
    )
    assert some.spec is not None
    assert some.spec["pairs"]["corpus"] == str(corpus)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("corpus.txt", "a metal\na stone\n"),
        ("corpus.csv", "text\na metal\na stone\n"),
        ("corpus.jsonl", [{"contents": "a metal"}, {"contents": "a stone"}]),
    ],
)
def test_a_corpus_without_ids_gets_some(file: Write, name: str, content: Any) -> None:
    some = load_collection(f"pairs:{file('pairs.jsonl', ROWS)}", corpus=file(name, content))
    assert ids(some)[1] == ["d0", "d1", "d2", "d3"]
    assert some.documents.take([1]) == ["a stone"]
    assert positives(some) == WANTED


def test_a_corpus_may_be_a_list_or_a_dataset(file: Write) -> None:
    datasets = pytest.importorskip("datasets")
    path = file("pairs.jsonl", ROWS)
    listed = load_collection(path, corpus=["a metal", "a stone"])
    dataset = datasets.Dataset.from_list([{"_id": 5, "title": "Au", "text": "metal"}])
    mapped = load_collection(path, corpus=dataset)
    assert (positives(listed), listed.spec) == (WANTED, None)
    assert (ids(mapped)[1][0], mapped.documents.take([0])) == ("5", ["Au metal"])


def test_by_id_the_corpus_text_counts_where_it_differs(file: Write) -> None:
    pairs = file(
        "pairs.jsonl", [{"query": "a", "passage": "stone", "pid": "c3"}, {"query": "b", "passage": "new", "pid": "c9"}]
    )
    some = load_collection(pairs, corpus=file("corpus.jsonl", CORPUS_ROWS))
    assert positives(some) == {"a": {"a stone"}, "b": {"new"}}
    assert ids(some)[1][-1] == "c9"
    assert "documents with another text in the corpus than in the pairs: 1, the corpus's is used" in some.notes


def test_ids_made_for_a_corpus_may_not_be_taken(file: Write) -> None:
    pairs = file("pairs.jsonl", [{"query": "a", "passage": "b", "pid": "d0"}])
    with pytest.raises(CollectionError, match=r"'d0' is also the id of another document.*give the corpus a column _id"):
        load_collection(pairs, corpus=["x"])


def test_a_corpus_of_another_kind_is_an_error(file: Write) -> None:
    pairs = file("pairs.jsonl", ROWS)
    for corpus, message in (
        ([], "it is empty"),
        (["a", None], "item 2 is null"),
        (3, "a path, a Dataset or a list of texts, not int"),
        (file("c.csv", "a,b\n1,2\n"), "no column looks like the documents' text"),
        (pairs.parent, "a folder; name the file"),
    ):
        with pytest.raises(CollectionError, match=message):
            load_collection(pairs, corpus=corpus)


def test_a_dataset_is_read_as_it_stands(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_list([{"question": "noise", "answer": "noise"}, *ROWS])
    some = load_collection(dataset.select(range(1, 5)))
    assert (positives(some), some.spec, some.name) == (WANTED, None, "dataset")

    dataset.select(range(1, 5)).save_to_disk(str(tmp_path / "saved"))
    assert load_collection(f"pairs:{tmp_path / 'saved'}").digest == some.digest
    both = datasets.DatasetDict(train=dataset, test=dataset.select(range(1, 5)))
    assert load_collection(both, split="test").digest == some.digest
    both.save_to_disk(str(tmp_path / "both"))
    saved = load_collection(f"pairs:{tmp_path / 'both'}", split="test")
    assert (saved.digest, saved.split, saved.name) == (some.digest, "test", "both")
    with pytest.raises(CollectionError, match="no split 'dev'; it has train, test"):
        load_collection(f"pairs:{tmp_path / 'both'}", split="dev")


def test_a_null_in_a_dataset_is_left_out_and_a_number_is_an_error() -> None:
    datasets = pytest.importorskip("datasets")
    some = load_collection(datasets.Dataset.from_dict({"query": ["a", None], "positive": ["x", "y"]}))
    assert some.notes[1] == "rows without a text in 'query' or 'positive': 1, left out (first: row 2)"
    with pytest.raises(CollectionError, match=r"row 1: 'positive' is a number \(1\)"):
        load_collection(datasets.Dataset.from_dict({"query": ["a"], "positive": [1]}))


ENTRIES = st.lists(
    st.builds(Entry, st.sampled_from(["x", "y", "z"]), st.none() | st.sampled_from(["d0", "d1", "a"])), max_size=12
)


@given(ENTRIES)
def test_every_entry_keeps_its_text_and_ids_never_meet(entries: list[Entry]) -> None:
    some, notes = distinct(entries, "pid")
    made = made_ids(some, "d")
    assert len(set(made)) == len(made)
    assert [some.texts[row] for row in some.row_of] == [entry.text for entry in entries]
    if not notes:
        assert all(made[row] == entry.id for row, entry in zip(some.row_of, entries, strict=True) if entry.id)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=1))
def test_repeated_rows_are_the_same_as_a_list_column(pairs: list[tuple[str, str]]) -> None:
    datasets = pytest.importorskip("datasets")
    listed: dict[str, list[str]] = {}
    for query, positive in pairs:
        listed.setdefault(query, []).append(positive)
    rows = datasets.Dataset.from_dict({"query": [q for q, _ in pairs], "positive": [p for _, p in pairs]})
    lists = datasets.Dataset.from_dict({"query": list(listed), "positive": list(listed.values())})
    assert positives(load_collection(rows)) == positives(load_collection(lists))
