"""The page's server over HTTP: who is let in, what an answer does, and that nothing is lost."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foolsgold.errors import CollectionError
from foolsgold.label.answers import Answers
from foolsgold.label.choose import choose
from foolsgold.label.session import Session
from foolsgold.mined.mined_set import MinedSet

pytest.importorskip("httpx", reason="needs the extra llm, whose client talks to the server here")
pytest.importorskip("starlette", reason="needs the extra label")
pytest.importorskip("uvicorn", reason="needs the extra label")

import httpx
from starlette.testclient import TestClient

from foolsgold.label.server import application

HERE = "http://127.0.0.1:8765"
TOKEN = "a-token-of-this-test"


class Tab:
    """One tab: posts with the token, as a browser would."""

    def __init__(self, client: Any, token: str, name: str) -> None:
        self._client, self._token, self._name = client, token, name

    def post(self, path: str, **values: str) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        answer = self._client.post(path, json={"tab": self._name} | values, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def answer(self, state: Any, label: str) -> Any:
        pair = state["pair"]
        return self.post("/answer", query_id=pair["query_id"], doc_id=pair["candidate"]["id"], label=label)


def _over_http(url: str, name: str) -> Tab:
    """A tab of a server in a process of its own."""
    base, _, token = url.partition("/?token=")
    return Tab(httpx.Client(base_url=base, timeout=30), token, name)


def _key(state: Any) -> tuple[str, str]:
    return state["pair"]["query_id"], state["pair"]["candidate"]["id"]


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    return tmp_path / "labels.jsonl"


@pytest.fixture
def client(made: Path, answers: Path) -> Any:
    """The application without a process around it, asked by its own address; it has no cookie yet."""
    mined = MinedSet(made)
    session = Session(mined, choose(mined, 6), Answers(answers))
    return TestClient(application(session, TOKEN, 8765), base_url=HERE, follow_redirects=False)


@pytest.fixture
def tabs(client: Any) -> tuple[Tab, Tab]:
    return Tab(client, TOKEN, "a"), Tab(client, TOKEN, "b")


PATHS = [
    ("GET", "/"),
    ("GET", "/page.js"),
    ("GET", "/page.css"),
    ("POST", "/next"),
    ("POST", "/answer"),
    ("POST", "/undo"),
]


@pytest.mark.parametrize(("method", "path"), [*PATHS, ("GET", "/nowhere")])
@pytest.mark.parametrize("token", [None, "", "wrong", "w\u00f6rng"])
def test_without_the_token_nothing_is_answered(client: Any, method: str, path: str, token: str | None) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}".encode()}
    query = {} if token is None else {"token": token}
    answer = client.request(
        method, path, params=query, headers=headers, json={"tab": "t"} if method == "POST" else None
    )
    assert answer.status_code == 403
    assert "geese" not in answer.text


def test_the_address_sets_a_cookie_that_scripts_cannot_read_and_loses_its_token(client: Any) -> None:
    first = client.get(f"/?token={TOKEN}")
    assert (first.status_code, first.headers["location"]) == (303, "/")
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"foolsgold_label_8765={TOKEN};")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"
    assert "http" not in page.text  # nothing from elsewhere


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "0.0.0.0"])
def test_another_host_name_is_refused_even_with_the_token(client: Any, host: str) -> None:
    assert client.get(f"/?token={TOKEN}", headers={"Host": host}).status_code == 400


def test_localhost_is_the_same_place(client: Any) -> None:
    assert client.get(f"/?token={TOKEN}", headers={"Host": "localhost:8765"}).status_code == 303


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:8765"])
def test_a_post_from_another_page_is_refused_even_with_the_cookie(client: Any, origin: str) -> None:
    client.get(f"/?token={TOKEN}")
    assert client.post("/next", json={"tab": "t"}, headers={"Origin": origin}).status_code == 403
    assert client.post("/next", json={"tab": "t"}, headers={"Origin": HERE}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/next", b"{", "not JSON"),
        ("/next", b"[]", "texts tab"),
        ("/next", b'{"tab": 3}', "texts tab"),
        ("/next", b"\xff\xfe", "not JSON"),
        ("/next", b'{"tab": "' + b"x" * 20_000 + b'"}', "too long"),
        ("/answer", b'{"tab": "t"}', "texts tab, query_id, doc_id, label"),
        ("/answer", b'{"tab": "t", "query_id": "q0", "doc_id": "nope", "label": "not"}', "not among the pairs"),
        (
            "/answer",
            b'{"tab": "t", "query_id": "q0", "doc_id": "d00", "label": "maybe"}',
            "one of relevant, unsure, not",
        ),
    ],
)
def test_a_bad_request_is_a_sentence(client: Any, path: str, body: bytes, said: str) -> None:
    answer = client.post(path, content=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_a_pair_has_its_query_positive_and_marked_candidate_and_no_score(tabs: tuple[Tab, Tab]) -> None:
    state = tabs[0].post("/next")
    query_id, doc_id = _key(state)
    pair, lake = state["pair"], query_id[1:]
    assert pair["query"] == f"where do the grey geese of lake {lake} fly?"
    (positive,) = pair["positives"]
    assert positive["id"] == f"p{lake}"
    text = "".join(piece for piece, _ in pair["candidate"]["pieces"])
    assert text.startswith(f"<script>alert({lake})</script> A goose on lake {lake}, number {doc_id[-1]}")
    assert "lake" in [piece for piece, mark in pair["candidate"]["pieces"] if mark]
    assert set(pair) == {"query_id", "query", "positives", "candidate"}  # a score would lead the answer
    assert state["counts"] == {"relevant": 0, "unsure": 0, "not": 0}
    assert "133 more answers" in state["estimate"]


def test_answers_are_lines_and_the_same_one_twice_is_one_line(tabs: tuple[Tab, Tab], answers: Path) -> None:
    tab = tabs[0]
    first = tab.post("/next")
    after = tab.answer(first, "not")
    assert tab.answer(first, "not")["pair"] == after["pair"]
    assert after["counts"] == {"relevant": 0, "unsure": 0, "not": 1}
    assert _key(after) != _key(first)
    (line,) = _lines(answers)
    assert (line["query_id"], line["doc_id"], line["label"]) == (*_key(first), "not")
    assert tab.answer(first, "unsure")["counts"] == {"relevant": 0, "unsure": 1, "not": 0}  # changed one's mind
    assert [line["label"] for line in _lines(answers)] == ["not", "unsure"]


def test_two_tabs_see_different_pairs_and_lose_nothing(tabs: tuple[Tab, Tab], answers: Path) -> None:
    states = [tab.post("/next") for tab in tabs]
    seen = [_key(state) for state in states]
    for left in range(5, 0, -1):  # the tabs answer in turn
        number = left % 2
        states[number] = tabs[number].answer(states[number], "relevant")
        seen.append(_key(states[number]))
        assert (_key(states[0]) != _key(states[1])) == (left > 1)  # the last pair is all that is left for both
    for number in (0, 1):
        assert tabs[number].answer(states[number], "not")["pair"] is None
    assert len(set(seen)) == 6
    lines = _lines(answers)
    assert len(lines) == 6  # the last pair was answered twice, with the same
    assert {(line["query_id"], line["doc_id"]) for line in lines} == set(seen)


def test_a_reloaded_tab_keeps_its_pair_and_a_closed_tabs_pair_comes_last(tabs: tuple[Tab, Tab]) -> None:
    one, other = tabs
    held = one.post("/next")
    assert _key(one.post("/next")) == _key(held)
    state = other.post("/next")
    order = []
    while state["pair"] is not None:
        order.append(_key(state))
        state = other.answer(state, "not")
    assert order[-1] == _key(held)
    assert len(order) == 6


def test_undo_is_a_line_and_takes_the_tabs_own_last_answer(tabs: tuple[Tab, Tab], answers: Path) -> None:
    one, other = tabs
    mine, theirs = one.post("/next"), other.post("/next")
    one.answer(mine, "relevant")
    other.answer(theirs, "not")
    state = one.post("/undo")
    assert (_key(state), state["undone"]) == (_key(mine), "relevant")
    assert state["counts"] == {"relevant": 0, "unsure": 0, "not": 1}
    assert [line["label"] for line in _lines(answers)] == ["relevant", "not", None]
    assert "undone" not in one.post("/undo")  # the other tab's answer is not this tab's to take back
    assert len(_lines(answers)) == 3


def test_after_a_kill_it_goes_on_and_can_still_undo(made: Path, answers: Path, serve: Callable[..., Any]) -> None:
    served = serve(str(made), "--n", "6", "--out", str(answers))
    client = _over_http(served.url, "a")
    state = client.answer(client.post("/next"), "not")
    last = _key(state)
    following = client.answer(state, "unsure")
    served.kill()
    with answers.open("a", encoding="utf-8") as file:
        file.write('{"query_id": "q0", "doc')  # as if it had been killed in the middle of a line
    client = _over_http(serve(str(made), "--n", "6", "--out", str(answers)).url, "c")
    state = client.post("/next")
    assert state["counts"] == {"relevant": 0, "unsure": 1, "not": 1}
    assert _key(state) == _key(following)
    assert _key(client.post("/undo")) == last
    assert [line["label"] for line in _lines(answers)] == ["not", "unsure", None]


def test_two_servers_on_one_file_see_each_others_answers(
    tabs: tuple[Tab, Tab], made: Path, answers: Path, serve: Callable[..., Any]
) -> None:
    one, other = tabs[0], _over_http(serve(str(made), "--n", "6", "--out", str(answers)).url, "b")
    first = one.post("/next")
    one.answer(first, "not")
    state = other.post("/next")
    assert state["counts"]["not"] == 1
    assert _key(state) != _key(first)


def test_answers_stay_beside_the_set_if_no_file_is_named(made: Path, serve: Callable[..., Any], tmp_path: Path) -> None:
    here = tmp_path / made.name
    shutil.copytree(made, here)
    assert serve(str(here)).answers == here / "labels.jsonl"


def test_answers_of_another_collection_are_refused(made: Path, answers: Path) -> None:
    answers.write_text('{"query_id": "stranger", "doc_id": "d", "label": "not"}\n', encoding="utf-8")
    mined = MinedSet(made)
    with pytest.raises(CollectionError, match="has an answer for query 'stranger', which"):
        Session(mined, choose(mined, 6), Answers(answers))


def test_a_taken_port_is_one_sentence(made: Path, answers: Path, command: Callable[..., Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done: subprocess.CompletedProcess[str] = command(str(made), "--out", str(answers), "--port", port, "--json")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: --port {port}: Address already in use")


def test_an_interrupt_ends_the_session_with_its_count(made: Path, answers: Path, serve: Callable[..., Any]) -> None:
    served = serve(str(made), "--n", "6", "--out", str(answers))
    client = _over_http(served.url, "a")
    client.answer(client.post("/next"), "not")
    served.process.send_signal(signal.SIGINT)
    _, stderr = served.process.communicate(timeout=30)
    assert served.process.returncode == 0
    assert f"1 of 6 labelled, in {answers}" in stderr
    assert "Traceback" not in stderr


def test_without_the_extra_the_pip_line_is_named(made: Path, command: Callable[..., Any]) -> None:
    done: subprocess.CompletedProcess[str] = command(str(made), before="import sys; sys.modules['uvicorn'] = None\n")
    assert done.returncode == 2
    assert done.stderr == "error: the labelling page needs the optional extra: pip install 'foolsgold[label]'\n"
