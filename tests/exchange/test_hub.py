"""The upload to the hub, against a server that answers as the hub's API does, on this machine."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from foolsgold.errors import MinedSetError
from foolsgold.exchange.hub import published, push_to_hub
from foolsgold.mined.mined_set import MinedSet

Mine = Callable[..., MinedSet]


class Hub(ThreadingHTTPServer):
    """What was asked of it; files by path of the last commit. refuse: answers 403 to a new repository."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.created: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.refuse = False

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    """Answers as the hub's API does (https://huggingface.co/docs/hub/api): to repos/create, preupload and commit."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, answer = 200, {}
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            self.server.created.append(asked)
            name = f"{asked.get('organization')}/{asked['name']}"
            answer = {"url": f"{self.server.address}/datasets/{name}", "name": name}
            if self.server.refuse:
                status, answer = 403, {"error": "You don't have the rights to create a dataset"}
        elif "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(body)["files"]]
            answer = {"files": [{"path": n, "uploadMode": "regular", "shouldIgnore": False} for n in names]}
        elif "/commit/" in self.path:
            parts = [json.loads(line) for line in body.splitlines()]
            files = [part["value"] for part in parts if part["key"] == "file"]
            self.server.files = {file["path"]: base64.b64decode(file["content"]) for file in files}
            place = f"{self.server.address}/datasets/me/negatives/commit/{'a' * 40}"
            answer = {"commitUrl": place, "commitOid": "a" * 40, "success": True}
        elif self.path.startswith("/api/datasets/"):
            status, answer = 404, {"error": "Repository not found"}
        sent = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    do_GET = do_POST = do_HEAD = _answer  # noqa: N815, the names that http.server calls


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # huggingface_hub reads HF_ENDPOINT once, when it is imported
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", server.address)
    yield server
    server.shutdown()
    server.server_close()


def header_and_text(card: bytes) -> tuple[dict[str, Any], str]:
    _, header, text = card.decode().split("---\n", 2)
    return yaml.safe_load(header), text


def test_rows_card_manifest_and_audit_are_uploaded_to_a_private_dataset(mine: Mine, hub: Hub) -> None:
    mined = mine()
    pushed = push_to_hub(mined, "me/negatives", "tevatron", token="hf_none", scores=True)
    assert (pushed.rows, pushed.url) == (2, f"{hub.address}/datasets/me/negatives")
    assert hub.created[0]["type"] == "dataset"
    assert hub.created[0].get("visibility", "private") == "private"
    assert set(hub.files) == {"README.md", "data/train.jsonl", "manifest.json", "audit.json"}
    assert json.loads(hub.files["data/train.jsonl"].splitlines()[0])["query_id"] == "q"
    header, text = header_and_text(hub.files["README.md"])
    assert "license" not in header
    assert header["configs"] == [{"config_name": "train", "data_files": "data/train.jsonl", "default": True}]
    assert header["size_categories"] == ["n<1K"]
    assert b"# license: name the licence of the texts here" in hub.files["README.md"]
    assert "3 hard negatives for 2 queries of toy" in text
    assert "| run | run |  | 3 |" in text
    assert "Zones: negative below 0.3, false negative above\n0.7" in text
    assert "| min_mean_margin: " in text
    assert "Not stated yet." in text
    assert json.loads(hub.files["audit.json"])["negatives"] == 3


def test_a_licence_is_put_into_the_cards_header(mine: Mine, hub: Hub) -> None:
    push_to_hub(mine(), "me/negatives", "pylate", token="hf_none", licence="cc-by-4.0", public=True)
    assert hub.created[0].get("visibility", "public") == "public"
    assert set(hub.files) == {
        "README.md", "manifest.json", "audit.json",
        "data/train.parquet", "data/queries.parquet", "data/documents.parquet",
    }  # fmt: skip
    header, text = header_and_text(hub.files["README.md"])
    assert header["license"] == "cc-by-4.0"
    assert {config["config_name"] for config in header["configs"]} == {"train", "queries", "documents"}
    assert "Not stated yet" not in text


def test_nothing_that_is_published_names_a_place_on_this_machine(mine: Mine, hub: Hub, tmp_path: Path) -> None:
    mined = mine()
    assert str(tmp_path) in json.dumps(dict(mined.manifest))  # the run's path, in the recipe and the source
    assert str(tmp_path) not in json.dumps(published(mined.manifest))
    push_to_hub(mined, "me/negatives", "flagembedding", token="hf_none")
    assert not any(str(tmp_path).encode() in content for content in hub.files.values())


def test_a_hub_that_refuses_is_one_sentence(mine: Mine, hub: Hub) -> None:
    hub.refuse = True
    with pytest.raises(MinedSetError, match=r"me/negatives: cannot be pushed to http://127\.0\.0\.1.*hf auth login"):
        push_to_hub(mine(), "me/negatives", "jsonl", token="hf_none")


def test_a_name_that_cannot_be_a_datasets_is_one_sentence(mine: Mine, hub: Hub) -> None:
    with pytest.raises(MinedSetError, match="is the name OWNER/NAME"):
        push_to_hub(mine(), "not a name", "jsonl", token="hf_none")
