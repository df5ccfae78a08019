"""The page in a real browser: twenty pairs by keyboard, a kill, more pairs, undo, a phone; and texts stay texts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foolsgold.calibration.labels import read_labels
from foolsgold.label.answers import Answers
from foolsgold.label.choose import choose
from foolsgold.mined.mined_set import MinedSet

pytest.importorskip("playwright", reason="needs the package playwright")
pytest.importorskip("starlette", reason="needs the extra label")
pytest.importorskip("uvicorn", reason="needs the extra label")

from playwright.sync_api import expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a system chromium: apt-get install chromium")
PHONE = {"viewport": {"width": 360, "height": 640}, "is_mobile": True, "has_touch": True}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # root has no sandbox
        yield browser
        browser.close()


@pytest.fixture
def complaints() -> list[str]:
    """What the pages opened in a test wrote to the console, threw, or asked of others than their server."""
    return []


@pytest.fixture
def open_page(browser: Any, complaints: list[str]) -> Iterator[Callable[..., Any]]:
    contexts = []

    def open_(url: str, **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        origin = url.partition("/?")[0]
        page.on("request", lambda r: None if r.url.startswith(origin) else complaints.append(r.url))
        page.goto(url)
        page.wait_for_selector("#candidate *, #candidate:not(:empty), #end:not([hidden])")
        return page

    yield open_
    for context in contexts:
        context.close()


def _press(page: Any, key: str) -> None:
    """A key, and then the pair that follows it (the count goes up or down)."""
    before = page.text_content("#count")
    page.keyboard.press(key)
    expect(page.locator("#count")).not_to_have_text(before)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_twenty_pairs_by_keyboard_then_a_kill_then_on_and_undo(
    made: Path, tmp_path: Path, serve: Callable[..., Any], open_page: Callable[..., Any], complaints: list[str]
) -> None:
    answers = tmp_path / "labels.jsonl"
    served = serve(str(made), "--n", "24", "--out", str(answers))
    page = open_page(served.url)
    assert "token" not in page.url
    pressed = [("relevant", "unsure", "not")[number % 3] for number in range(20)]
    for label in pressed:
        _press(page, str(("relevant", "unsure", "not").index(label) + 1))
    assert page.text_content("#count") == "20 of 24"
    assert page.text_content("#tally") == "7 relevant, 7 unsure, 6 not"
    waiting = page.text_content("#candidate-id")

    served.kill()
    page.keyboard.press("1")
    expect(page.locator("#message")).to_contain_text("The server does not respond")
    assert len(_lines(answers)) == 20
    assert complaints.pop().startswith("Failed to load resource: net::ERR_CONNECTION_REFUSED")
    assert complaints == []

    page = open_page(serve(str(made), "--n", "24", "--out", str(answers)).url)
    assert page.text_content("#count") == "20 of 24"
    assert page.text_content("#candidate-id") == waiting
    _press(page, "3")
    _press(page, "u")
    assert page.text_content("#candidate-id") == waiting
    assert page.text_content("#message") == "Undone. Your answer was “not”."
    for key in "1233":
        _press(page, key)
    page.wait_for_selector("#end:not([hidden])")
    assert page.text_content("#tally") == "8 relevant, 8 unsure, 8 not"

    pairs = [(pair.query_id, pair.doc_id) for pair in choose(MinedSet(made), 24)]
    assert Answers(answers).current() == dict(zip(pairs, [*pressed, "relevant", "unsure", "not", "not"], strict=True))
    assert [line["label"] for line in _lines(answers)[20:22]] == ["not", None]
    assert complaints == []
    labels, notes = read_labels(answers, relevant_from=1)  # as `foolsgold calibrate` reads them
    assert (len(labels), sum(label.relevant for label in labels)) == (16, 8)
    assert any("unsure: 8" in note for note in notes)


def test_texts_with_markup_stay_texts_and_matching_words_are_marked(
    made: Path, tmp_path: Path, serve: Callable[..., Any], open_page: Callable[..., Any], complaints: list[str]
) -> None:
    page = open_page(serve(str(made), "--n", "4", "--out", str(tmp_path / "a.jsonl")).url)
    lake = page.text_content("#positive-id")[1:]
    assert page.inner_text("#candidate").startswith(f"<script>alert({lake})</script> A goose on lake {lake}")
    assert "flies & swims" in page.inner_text("#candidate")
    assert page.locator("script").count() == 1
    assert page.locator("#candidate mark").all_text_contents() == ["lake", "flies"]
    assert page.locator("#positive mark").all_text_contents() == ["geese", "lake", "fly"]
    assert complaints == []


def test_a_held_key_and_keys_with_control_answer_once_or_not_at_all(
    made: Path, tmp_path: Path, serve: Callable[..., Any], open_page: Callable[..., Any]
) -> None:
    answers = tmp_path / "a.jsonl"
    page = open_page(serve(str(made), "--n", "9", "--out", str(answers)).url)
    page.keyboard.press("Control+1")
    page.keyboard.press("x")
    page.keyboard.down("3")
    for _ in range(5):
        page.keyboard.down("3")  # what holding it sends
    page.keyboard.up("3")
    expect(page.locator("#count")).to_have_text("1 of 9")
    _press(page, "Control+z")
    assert [line["label"] for line in _lines(answers)] == ["not", None]


def test_two_tabs_show_two_pairs_and_both_answers_are_kept(
    made: Path, tmp_path: Path, serve: Callable[..., Any], open_page: Callable[..., Any]
) -> None:
    answers = tmp_path / "a.jsonl"
    url = serve(str(made), "--n", "9", "--out", str(answers)).url
    one, other = open_page(url), open_page(url)
    shown = {(page.text_content("#query"), page.text_content("#candidate-id")) for page in (one, other)}
    assert len(shown) == 2
    _press(one, "1")
    _press(other, "3")
    assert other.text_content("#count") == "2 of 9"
    assert {line["doc_id"] for line in _lines(answers)} == {doc_id for _, doc_id in shown}


def test_on_a_phone_buttons_are_large_and_in_view_and_nothing_is_wider_than_the_screen(
    made: Path, tmp_path: Path, serve: Callable[..., Any], open_page: Callable[..., Any], complaints: list[str]
) -> None:
    answers = tmp_path / "a.jsonl"
    page = open_page(serve(str(made), "--n", "3", "--out", str(answers)).url, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for label in ("relevant", "unsure", "not"):
        box = page.locator(f"[data-label={label}]").bounding_box()
        assert box["height"] >= 44
        assert box["y"] + box["height"] <= 640
        page.tap(f"[data-label={label}]")
        expect(page.locator("#tally")).to_contain_text(f"1 {label}")
    assert [line["label"] for line in _lines(answers)] == ["relevant", "unsure", "not"]
    assert page.is_visible("#end")
    page.tap("#undo")
    page.wait_for_selector("#pair:not([hidden])")
    assert complaints == []
