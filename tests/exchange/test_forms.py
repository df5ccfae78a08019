"""Every form that a file of mined negatives may have, told from its columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from foolsgold.collection.rows import rows_of_file
from foolsgold.errors import CollectionError
from foolsgold.exchange.detect import detect
from foolsgold.exchange.listed import Listed, read_listed

# (query text, positive texts, negative texts) of what every form below says
SAID = [("q one", ["p1"], ["n1", "n2"]), ("q two", ["p2"], ["n3", "n1"])]

FORMS: dict[str, list[dict[str, Any]]] = {
    "FlagEmbedding": [{"query": q, "pos": p, "neg": n, "prompt": "Find: "} for q, p, n in SAID],
    "Tevatron": [
        {
            "query_id": f"{at}",
            "query": q,
            "positive_passages": [{"docid": text, "title": "", "text": text} for text in p],
            "negative_passages": [{"docid": text, "title": "", "text": text} for text in n],
        }
        for at, (q, p, n) in enumerate(SAID)
    ],
    "Tevatron (RLHN)": [
        {
            "query_id": f"{at}",
            "query": q,
            "subset": "msmarco",
            "answers": ["of another kind"],
            "positive_passages": [{"docid": text, "text": text} for text in p],
            "negative_passages": [{"docid": text, "text": text} for text in n],
        }
        for at, (q, p, n) in enumerate(SAID)
    ],
    "sentence-transformers triplets": [
        {"anchor": q, "positive": p[0], "negative": text} for q, p, n in SAID for text in n
    ],
    "sentence-transformers tuples of 2 negatives": [
        {"anchor": q, "positive": p[0], "negative_1": n[0], "negative_2": n[1]} for q, p, n in SAID
    ],
    "sentence-transformers labeled pairs": [
        {"anchor": q, "positive": text, "label": label}
        for q, p, n in SAID
        for text, label in [(p[0], 1), (n[0], 0), (n[1], 0)]
    ],
    "sentence-transformers labeled lists": [
        {"anchor": q, "positive": [*p, *n], "labels": [1, 0, 0]} for q, p, n in SAID
    ],
    "DPR": [
        {
            "question": q,
            "answers": ["x"],
            "positive_ctxs": [{"title": "", "text": text, "passage_id": text} for text in p],
            "negative_ctxs": [],
            "hard_negative_ctxs": [{"title": "", "text": text, "passage_id": text} for text in n],
        }
        for q, p, n in SAID
    ],
    "ms-swift": [
        {
            "messages": [{"role": "system", "content": "Find"}, {"role": "user", "content": q}],
            "positive_messages": [[{"role": "user", "content": text}] for text in p],
            "negative_messages": [[{"role": "user", "content": text}] for text in n],
        }
        for q, p, n in SAID
    ],
    "lists of positives and negatives": [
        {
            "query": q,
            "positives": [{"doc_id": text, "text": text} for text in p],
            "negatives": [{"doc_id": text, "text": text} for text in n],
        }
        for q, p, n in SAID
    ],
}


def jsonl(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read(path: Path, **named: str) -> Listed:
    rows = rows_of_file(path)
    return read_listed(rows, detect(rows, **named))


def said(listed: Listed) -> list[tuple[str, list[str], list[str]]]:
    texts, documents = listed.queries.take(range(len(listed.queries))), listed.documents
    return [
        (
            text,
            documents.take(listed.positives.doc[listed.positives.query == query]),
            documents.take(listed.negatives.doc[listed.negatives.query == query]),
        )
        for query, text in enumerate(texts)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_told_from_its_columns_and_says_the_same(tmp_path: Path, form: str) -> None:
    listed = read(jsonl(tmp_path / "their.jsonl", FORMS[form]))
    assert listed.format.name == form
    assert listed.format.sentence.startswith(f"{form}: ")
    assert said(listed) == SAID
    assert (listed.repeated, listed.asked, listed.notes) == (0, 2, ())


@pytest.mark.parametrize("form", ["FlagEmbedding", "sentence-transformers labeled lists", "Tevatron"])
def test_parquet_says_what_json_lines_say(tmp_path: Path, form: str) -> None:
    pq.write_table(pa.Table.from_pylist(FORMS[form]), tmp_path / "their.parquet")
    assert said(read(tmp_path / "their.parquet")) == SAID


@pytest.mark.parametrize(("suffix", "between"), [("csv", ","), ("tsv", "\t")])
def test_triplets_may_be_a_table_of_text(tmp_path: Path, suffix: str, between: str) -> None:
    rows = [record.values() for record in FORMS["sentence-transformers triplets"]]
    lines = [["anchor", "positive", "negative"], *rows]
    path = tmp_path / f"their.{suffix}"
    path.write_text("".join(between.join(line) + "\n" for line in lines), encoding="utf-8")
    assert said(read(path)) == SAID


def test_ids_are_the_files_own_or_hashes_of_texts(tmp_path: Path) -> None:
    with_ids = read(jsonl(tmp_path / "a.jsonl", FORMS["Tevatron"]))
    assert with_ids.queries.ids.to_pylist() == ["0", "1"]
    assert with_ids.documents.ids.to_pylist() == ["p1", "n1", "n2", "p2", "n3"]
    without = read(jsonl(tmp_path / "b.jsonl", FORMS["FlagEmbedding"]))
    again = read(jsonl(tmp_path / "c.jsonl", FORMS["sentence-transformers triplets"]))
    assert without.documents.ids.to_pylist() == again.documents.ids.to_pylist()
    assert all(len(own_id) == 16 for own_id in without.documents.ids.to_pylist())


def test_ids_with_white_space_are_not_used(tmp_path: Path) -> None:
    records = [{"query_id": "a b", "query": "q", "pos": ["p"], "neg": ["n"]}]
    listed = read(jsonl(tmp_path / "their.jsonl", records))
    assert listed.notes == ("the ids of queries have white space, as 'a b'; hashes of the texts are used",)


def test_scores_beside_the_texts_are_read_from_every_place(tmp_path: Path) -> None:
    forms = [
        [{"query": "q", "pos": ["p"], "neg": ["n", "m"], "pos_scores": [3.0], "neg_scores": [1.0, 2]}],
        [{"anchor": "q", "positive": "p", "negative_1": "n", "negative_2": "m", "scores": [3.0, 1.0, 2.0]}],
        [
            {
                "query": "q",
                "positives": [{"text": "p", "score": 3.0}],
                "negatives": [{"text": "n", "score": 1.0}, {"text": "m", "score": 2.0}],
            }
        ],
    ]
    for at, records in enumerate(forms):
        listed = read(jsonl(tmp_path / f"{at}.jsonl", records))
        assert (listed.positives.score, listed.negatives.score) == ([3.0], [1.0, 2.0])


def test_a_negative_listed_twice_in_a_row_is_told_but_not_one_beside_another_positive(tmp_path: Path) -> None:
    twice = read(jsonl(tmp_path / "a.jsonl", [{"query": "q", "pos": ["p"], "neg": ["n", "n", "m"]}]))
    assert (twice.repeated, len(twice.negatives)) == (1, 2)
    crossed = [{"anchor": "q", "positive": p, "negative": n} for p in ("p1", "p2") for n in ("n1", "n2")]
    assert read(jsonl(tmp_path / "b.jsonl", crossed)).repeated == 0
    assert read(jsonl(tmp_path / "c.jsonl", crossed + crossed[:1])).repeated == 1


def test_what_has_no_text_or_no_positive_is_left_out_and_counted(tmp_path: Path) -> None:
    records = [
        *FORMS["sentence-transformers labeled pairs"],
        {"anchor": "only a negative", "positive": "n1", "label": 0},
        {"anchor": " ", "positive": "n1", "label": 0},
    ]
    listed = read(jsonl(tmp_path / "their.jsonl", records))
    assert said(listed) == SAID
    assert listed.notes == (
        "lines without a query or any document: 1, left out",
        "queries without a positive: 1, left out",
    )


def test_columns_of_other_names_can_be_named(tmp_path: Path) -> None:
    records = [{"suchfrage": "q one", "treffer": "p1", "negative": "n1"}]
    path = jsonl(tmp_path / "their.jsonl", records)
    with pytest.raises(CollectionError, match=r"(?s)no column looks like the anchor.*--anchor and --positive name"):
        read(path)
    assert said(read(path, anchor="suchfrage", positive="treffer")) == [("q one", ["p1"], ["n1"])]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"query": "q", "passage": "p"}, "no negatives in its columns .*foolsgold mine --pairs"),
        ({"anchor": "q", "positive": "p", "score": 0.4}, "'score' is not a label"),
        ({"anchor": "q", "positive": "p", "label": 0.4}, r"line 1: 'label' is a number \(0.4\); a label is 1"),
        ({"anchor": "q", "positive": ["p"], "labels": [1, 0]}, "1 documents in 'positive', but 2 labels"),
        ({"query": "q", "pos": ["p"], "neg": [3]}, r"line 1: 'neg' is a number \(3\); it must be a text"),
        ({"query": "q", "pos": ["p"], "neg": ["n"], "neg_scores": [1, 2]}, "1 documents in 'neg', but 2 scores"),
        ({"query": "q", "pos": ["p"], "neg": ["n"], "neg_scores": ["a"]}, "a score of 'neg' is a text"),
        ({"query": "q", "pos": [], "neg": ["n"]}, "no query has a positive"),
        ({"query": "q", "pos": ["p"], "neg": []}, "has a negative"),
        ({"query": "q", "question": "r", "pos": ["p"], "neg": ["n"]}, "could each be the anchor"),
        (
            {"messages": ["q"], "positive_messages": [], "negative_messages": []},
            "must be a list of messages with 'role'",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence_with_its_place(tmp_path: Path, record: dict[str, Any], said: str) -> None:
    with pytest.raises(CollectionError, match=said):
        read(jsonl(tmp_path / "their.jsonl", [record]))


def test_a_saved_dataset_and_one_in_memory_are_read(tmp_path: Path) -> None:
    from foolsgold.exchange.importing import read_file
    from foolsgold.progress import SILENT

    dataset = datasets.Dataset.from_list(FORMS["sentence-transformers triplets"])
    dataset.save_to_disk(str(tmp_path / "saved"))
    for file in (dataset, tmp_path / "saved", datasets.DatasetDict({"train": dataset})):
        _, listed = read_file(file, anchor=None, positive=None, split=None, progress=SILENT)
        assert said(listed) == SAID
