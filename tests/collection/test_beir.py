from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from foolsgold.collection import corpus, load_collection
from foolsgold.collection.beir import read_qrels
from foolsgold.errors import CollectionError
from foolsgold.files import cache_folder

Write = Callable[..., Path]


def test_a_document_is_its_title_and_text_stripped(beir: Write) -> None:
    gold = load_collection(beir())
    assert gold.documents.take(range(3)) == ["Pyrite looks like gold", "a hard negative", "real gold"]
    assert gold.documents.take_ids(range(3)) == ["d1", "d2", "d3"]
    assert gold.queries.take(range(2)) == ["what is fool's gold", "what is gold"]
    assert (gold.name, gold.split, gold.notes) == ("gold", "train", ())


def test_grades_below_relevant_from_stay_as_judgements(beir: Write) -> None:
    gold = load_collection(beir(), relevant_from=2)
    assert gold.queries.take_ids([0]) == ["q1"]
    assert gold.positives(0).tolist() == [0]
    assert gold.grade.tolist() == [2, 1]


@pytest.mark.parametrize(
    "qrels",
    [
        "q1\td1\t2\nq1\td2\t1\nq2\td3\t1\n",
        "q1 0 d1 2\nq1 0 d2 1\nq2 0 d3 1\n",
        "q1\t0\td1\t2\r\nq1\t0\td2\t1\r\n\r\nq2\t0\td3\t1",
        "\ufeffquery-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq2\td3\t1\n",
    ],
    ids=["no header", "TREC with spaces", "TREC with tabs, Windows line ends", "byte order mark"],
)
def test_qrels_in_other_clothes_are_the_same_judgements(beir: Write, qrels: str) -> None:
    gold = load_collection(beir(train=qrels))
    assert gold.judged_query.tolist() == [0, 0, 1]
    assert gold.judged_doc.tolist() == [0, 1, 2]
    assert gold.grade.tolist() == [2, 1, 1]


def test_the_spec_loads_the_same_collection_again(beir: Write) -> None:
    gold = load_collection(beir(test="q1 0 d1 1"), split="test", limit=3)
    assert gold.spec is not None
    assert set(gold.spec) == {"beir", "split", "limit"}
    from foolsgold.recipe import CollectionSpec

    assert load_collection(CollectionSpec(**gold.spec)).digest == gold.digest


def test_a_pair_judged_twice_has_its_highest_grade(beir: Write) -> None:
    gold = load_collection(beir(train="q1 0 d1 2\nq1 0 d1 0\nq2 0 d3 1\nq2 0 d3 1"))
    assert gold.grade.tolist() == [2, 1]
    assert gold.notes == ("train.tsv: pairs judged with different grades: 1, the highest counts",)


def test_judgements_of_unknown_ids_are_counted_and_left_out(beir: Write) -> None:
    gold = load_collection(beir(train="q1 0 d1 1\nq1 0 d9 1\nq9 0 d1 1\nq8 0 d1 1"))
    assert gold.notes == (
        "train.tsv: judgements that name an unknown query: 2, left out (first: line 3, 'q9')",
        "train.tsv: judgements that name an unknown document: 1, left out (first: line 2, 'd9')",
    )
    assert gold.positives(0).tolist() == [0]


def test_when_no_judgement_names_a_known_id_the_error_shows_both_sides(beir: Write) -> None:
    with pytest.raises(CollectionError, match=r"no judgement names a known document \(line 1, '7'\).*'d1', 'd2'"):
        load_collection(beir(train="q1 0 7 1"))


def test_empty_texts_are_counted(beir: Write) -> None:
    folder = beir(
        corpus=[{"_id": "d1", "text": " "}, {"_id": "d2", "title": None, "text": "full"}],
        queries=[{"_id": "q1", "text": ""}, {"_id": "q2", "text": "full?"}],
        train="q1 0 d2 1\nq2 0 d2 1\nq2 0 d1 1",
    )
    gold = load_collection(f"beir:{folder}")
    assert gold.queries.take_ids(range(len(gold.queries))) == ["q2"]
    assert gold.documents.take(range(2)) == ["", "full"]
    assert gold.notes == (
        "documents with an empty text: 1, never taken as negatives",
        "queries with an empty text: 1, left out",
    )


def test_half_a_surrogate_pair_in_a_text_does_not_stop_the_reader(beir: Write) -> None:
    gold = load_collection(beir(corpus=['{"_id": "d1", "text": "cut \\ud83d off"}'], train="q1 0 d1 1"))
    assert gold.documents.take([0]) == ["cut \ufffd off"]


BAD_RECORDS = {
    '{"_id": "d9", "text": "x"': r"line 4: not JSON \(Expecting ',' delimiter at column 27\); each line",
    '["d9", "x"]': "line 4: holds a list; each line must be one JSON object",
    '{"id": "d9", "text": "x"}': r"line 4: no '_id' \(there is 'id', 'text'\); every record needs one",
    '{"_id": "d9", "body": "x"}': r"line 4: no 'text' \(there is '_id', 'body'\)",
    '{"_id": 9, "text": "x"}': "line 4: '_id' is a number; it must be a text, such as \"17\"",
    '{"_id": "d9", "text": ["x"]}': "line 4: 'text' is a list; it must be a text",
    '{"_id": "d9", "text": null}': "line 4: 'text' is null; it must be a text",
    '{"_id": "d9", "title": 3, "text": "x"}': "line 4: 'title' is a number",
    '{"_id": "", "text": "x"}': "line 4: '_id' is empty",
    '{"_id": "d1", "text": "x"}': "line 4: _id 'd1' was line 1's already; ids must differ",
    "[" * 100_000: "line 4: not usable JSON",
}


@pytest.mark.parametrize(("record", "message"), BAD_RECORDS.items(), ids=range(len(BAD_RECORDS)))
def test_a_broken_record_is_named_with_its_line_and_a_remedy(beir: Write, record: str, message: str) -> None:
    good = [{"_id": f"d{n}", "text": "x"} for n in (1, 2, 3)]
    with pytest.raises(CollectionError, match=r"corpus\.jsonl, " + message):
        load_collection(beir(corpus=[*good, record]))


def test_all_broken_lines_are_told_at_once(beir: Write) -> None:
    records = [{"_id": "d1", "text": "fine"}, *['{"_id": "x"}'] * 6, "", "{"]
    with pytest.raises(CollectionError) as caught:
        load_collection(beir(corpus=records))
    told = str(caught.value).splitlines()
    assert told[0].endswith("corpus.jsonl: 7 bad lines")
    assert [line.strip()[:7] for line in told[1:]] == [f"line {n}:" for n in (2, 3, 4, 5, 6)] + ["and 2 m"]


BAD_QRELS = {
    "q1\td1\t1.5": r"train\.tsv, line 1: the grade '1.5' is not an integer",
    "q1\td1\t1\nq1\td2\thigh": r"line 2: the grade 'high' is not an integer",
    "q1\td1\t1\nq1 d2": r"line 2: 2 columns; a judgement is query-id, corpus-id, score",
    "query-id\tcorpus-id\tscore\n": r"train\.tsv: empty",
    "": r"train\.tsv: empty",
}


@pytest.mark.parametrize(("qrels", "message"), BAD_QRELS.items(), ids=range(len(BAD_QRELS)))
def test_broken_judgements_are_named(beir: Write, qrels: str, message: str) -> None:
    with pytest.raises(CollectionError, match=message):
        load_collection(beir(train=qrels))


def test_a_file_that_is_not_utf8_is_named_with_line_and_byte(beir: Write) -> None:
    folder = beir(corpus=b'{"_id": "d1", "text": "fine"}\n{"_id": "d2", "text": "caf\xe9"}\n')
    with pytest.raises(CollectionError, match=r"line 2: not UTF-8 \(byte 0xe9 at column 27\); save the file as UTF-8"):
        load_collection(f"beir:{folder}")


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_corpus_is_an_error(beir: Write, content: bytes) -> None:
    with pytest.raises(CollectionError, match=r"corpus\.jsonl: empty"):
        load_collection(beir(corpus=content))


def test_a_missing_split_lists_those_there_are(beir: Write) -> None:
    folder = beir(test="q1 0 d1 1", dev="q1 0 d1 1")
    with pytest.raises(CollectionError, match="no split 'train'; it has dev, test"):
        load_collection(f"beir:{folder}")


def test_a_folder_of_another_kind_is_told_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").touch()
    with pytest.raises(CollectionError, match=r"not a BEIR folder, it has no queries\.jsonl, qrels"):
        load_collection(f"beir:{tmp_path}")
    with pytest.raises(CollectionError, match="no such folder"):
        load_collection(f"beir:{tmp_path / 'nowhere'}")
    with pytest.raises(CollectionError, match=r"a file, not a folder.*pairs:"):
        load_collection(f"beir:{tmp_path / 'corpus.jsonl'}")


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "MAP_FROM", 0)
    monkeypatch.setattr(corpus, "_BATCH", 2)


def arrow_files() -> list[Path]:
    return sorted((cache_folder() / "collections").glob("*"))


def test_a_large_corpus_is_the_same_collection_as_a_small_one(beir: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = beir()
    small = load_collection(f"beir:{folder}")
    monkeypatch.setattr(corpus, "MAP_FROM", 0)
    monkeypatch.setattr(corpus, "_BATCH", 2)
    large = load_collection(f"beir:{folder}")
    assert large.digest == small.digest
    assert large.documents.texts.num_chunks == 2


@pytest.mark.usefixtures("everything_is_large")
def test_a_large_corpus_is_parsed_once_and_then_mapped(beir: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = beir()
    first = load_collection(f"beir:{folder}").digest
    assert [file.suffix for file in arrow_files()] == [".arrow", ".arrow"]
    with monkeypatch.context() as patched:
        patched.setattr(corpus, "rows_of_file", lambda *_: pytest.fail("parsed again"))
        held = pa.total_allocated_bytes()
        again = load_collection(f"beir:{folder}")
        assert pa.total_allocated_bytes() - held < 20_000  # the texts stay in the file
    assert again.digest == first


@pytest.mark.usefixtures("everything_is_large")
def test_a_changed_corpus_is_parsed_again(beir: Write) -> None:
    folder = beir()
    load_collection(f"beir:{folder}")
    path = folder / "corpus.jsonl"
    path.write_text(path.read_text().replace("real gold", "REAL gold"))
    os.utime(path, ns=(1, 1))
    assert load_collection(f"beir:{folder}").documents.take([2]) == ["REAL gold"]


@pytest.mark.usefixtures("everything_is_large")
def test_a_damaged_arrow_file_is_written_anew(beir: Write) -> None:
    folder = beir()
    digest = load_collection(f"beir:{folder}").digest
    for file in arrow_files():
        file.write_bytes(file.read_bytes()[:40])
    assert load_collection(f"beir:{folder}").digest == digest


@pytest.mark.usefixtures("everything_is_large")
def test_a_broken_large_corpus_leaves_nothing_behind(beir: Write) -> None:
    folder = beir(corpus=[{"_id": "d1", "text": "a"}, {"_id": "d2", "text": "b"}, {"_id": "d1", "text": "c"}])
    with pytest.raises(CollectionError, match="line 3: _id 'd1' was line 1's already"):
        load_collection(f"beir:{folder}")
    assert arrow_files() == []


@pytest.mark.usefixtures("everything_is_large")
def test_without_a_cache_folder_a_corpus_is_held_in_memory(
    beir: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("FOOLSGOLD_CACHE", str(tmp_path / "a file" / "cache"))
    gold = load_collection(beir())
    assert gold.documents.take([2]) == ["real gold"]
    assert "cannot be written to" in gold.notes[0]
    assert "corpus.jsonl is held in memory" in gold.notes[0]


@pytest.mark.parametrize(
    ("name", "options", "documents", "queries", "positives"),
    [
        ("scifact", {}, 5183, 809, 919),
        ("wikiqa", {}, 11406, 873, 1040),
        ("cran", {"split": "test"}, 1400, 225, 1837),
        ("trecdl21", {"split": "test_judged", "relevant_from": 2}, 10553, 52, 1864),
        ("debian", {"limit": 2000}, 64458, 2000, 2090),
    ],
)
def test_real_collections_are_read_whole(
    shared_data: Path, name: str, options: dict[str, object], documents: int, queries: int, positives: int
) -> None:
    real = load_collection(f"beir:{shared_data / name}", **options)
    assert (len(real.documents), len(real.queries), len(real.positive_rows)) == (documents, queries, positives)


@pytest.mark.parametrize("header", ["query-id\tcorpus-id\tscore", "qid iter docno rel", "query_id doc_id Relevance"])
def test_a_header_is_known_by_its_words(header: str, tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"{header}\nq1\td1\t1\n", encoding="utf-8")
    assert [judgement.query_id for judgement in read_qrels(path)[0]] == ["q1"]


@pytest.mark.parametrize("first", ["id-0\td0\t1", "ID 7 1", "q-id-1 0 d1 2"])
def test_a_first_line_with_a_grade_is_no_header_whatever_its_ids(first: str, tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"{first}\nq1\td1\t1\n", encoding="utf-8")
    assert len(read_qrels(path)[0]) == 2


@pytest.mark.parametrize("first", ["q0\td0\tnan", "q1\td1\tscore", "q0\td0\t1_0", "q0\td0\t10000000000000"])
def test_a_bad_grade_in_the_first_line_is_an_error(first: str, tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(f"{first}\nq1\td1\t1\n", encoding="utf-8")
    with pytest.raises(CollectionError, match="line 1"):
        read_qrels(path)
