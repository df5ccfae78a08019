"""The report: what it says, that every text stays text, and how a real browser shows it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from calibration.made import calibration, model
from toy import TableTeacher

from foolsgold.errors import MinedSetError
from foolsgold.mined.mined_set import MinedSet

if TYPE_CHECKING:
    from conftest import Mining

HOSTILE = {
    "p": "the right <b>answer</b> & more",
    "<i>a": "<script>document.title = 'pwned'</script>",
    "b": "{{ 7 * 7 }} {% raw %} </style></svg> <!--",
    "c": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u202e 123",
    "d": "\U0001f469\u200d\U0001f680 \u65e5\u672c\u8a9e " + "e\u0301" * 40,
    "e": "no_space_" * 12_000,
    "f": "x\x00y\x0bz",
}
QUERY = "<img src=x onerror=alert(1)> what is \"it\" & 'that'?"
# just below and above 0.3, just below and above 0.7, and one that the teacher is sure of
SCORES = {"p": 0.95, "<i>a": 0.29, "b": 0.31, "c": 0.69, "d": 0.71, "e": 0.05, "f": 0.99}


def _hostile(mining: Mining, **sections: Any) -> MinedSet:
    ranked = [doc for doc in HOSTILE if doc != "p"]
    return mining(
        {"run": {"q1": ranked, "q2": ["b", "e"], "q3": ["e"]}, "other": {"q1": ["e", "<i>a"], "q2": ["<i>a"]}},
        SCORES,
        documents=HOSTILE,
        queries={"q1": QUERY, "q2": "another one", "q3": "long"},
        **sections,
    )


class _Page(HTMLParser):
    """The tags, attributes and ids of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self.text += " " if tag in ("dt", "dd", "td", "th") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(mined: MinedSet) -> str:
    return (mined.path / "report.html").read_text(encoding="utf-8")


def test_the_report_and_its_plots_are_written_into_the_set(mining: Mining) -> None:
    mined = _hostile(mining)
    assert _read(mined).startswith("<!doctype html>")
    for name in ("margins.png", "ranks.png"):
        assert (mined.path / name).read_bytes().startswith(b"\x89PNG")


def test_every_text_stays_text(mining: Mining) -> None:
    page = _Page(_read(_hostile(mining)))
    assert not page.tags & {"script", "img", "b", "i", "iframe", "object"}
    assert not any(name.startswith("on") for name in page.attributes)
    for text in (QUERY, HOSTILE["<i>a"], "{{ 7 * 7 }} {% raw %} </style></svg> <!--", "[<i>a]", HOSTILE["c"]):
        assert text in page.text
    assert "49" not in page.text.split("Most suspicious negatives")[-1].split("Recipe")[0]


def test_nothing_is_loaded_from_anywhere(mining: Mining) -> None:
    page = _read(_hostile(mining))
    without_names = page.replace("http://www.w3.org/", "")  # of the SVG's namespaces
    assert "http" not in without_names.replace("http-equiv", "")
    assert "default-src 'none'" in page
    assert not {"src", "srcset", "action"} & _Page(page).attributes


def test_ids_in_the_page_are_unique_across_its_plots(mining: Mining) -> None:
    ids = _Page(_read(_hostile(mining))).ids
    assert len(ids) == len(set(ids)) > 10


def test_a_long_text_is_cut(mining: Mining) -> None:
    page = _read(_hostile(mining))
    assert "no_space_no_space_" in page
    assert len(page) < 200_000


def test_what_is_shown_is_what_happened(mining: Mining) -> None:
    text = " ".join(_Page(_read(_hostile(mining))).text.split())
    suspicious = text.split("one per query. Either")[1].split("At the thresholds")[0]
    assert suspicious.index("0.290 [<i>a]") >= 0  # the negative with the smallest margin
    for rule, below, above in (("negative_below: 0.3", "<i>a", "b"), ("positive_above: 0.7", "c", "d")):
        lower, upper = text.split(f"decide.{rule}, just below")[1].split(f"decide.{rule}, just above")
        assert f"[{below}]" in lower.split("candidate")[1]
        assert f"[{above}]" in upper.split("candidate")[1]
    thrown_back = text.rsplit("Those of which the teacher is surest", 1)[1]
    assert thrown_back.index("0.990 [f]") > 0
    assert "false negative: above positive threshold" in thrown_back


def test_the_same_set_gives_the_same_bytes(mining: Mining) -> None:
    first = _hostile(mining)
    again = _hostile(mining, out="elsewhere")
    assert first.version == again.version
    for name in ("report.html", "margins.png", "ranks.png"):
        assert (first.path / name).read_bytes() == (again.path / name).read_bytes()


def test_a_report_goes_where_it_is_asked_to(mining: Mining, tmp_path: Path) -> None:
    mined = _hostile(mining)
    target = mined.report(tmp_path / "shared" / "page.html")
    assert target.read_text(encoding="utf-8") == _read(mined)
    assert (target.parent / "margins.png").exists()
    with pytest.raises(MinedSetError, match="cannot be written here"):
        mined.report(target / "below" / "page.html")


def test_without_texts_the_report_has_ids_and_scores(mining: Mining, tmp_path: Path) -> None:
    page = _Page(MinedSet(_hostile(mining).path).report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "(text not at hand)" in page.text
    assert "[<i>a]" in page.text
    assert QUERY not in page.text


@pytest.mark.parametrize("scale", ["logit", "cosine"])
def test_other_scales_are_reported_in_their_unit(mining: Mining, scale: str) -> None:
    mined = mining({"run": {"q": ["a", "b", "c"]}}, {"p": 0.9, "a": 0.1, "b": 0.2, "c": 0.8}, scale=scale)
    assert f"in {scale}s: mean" in " ".join(_Page(_read(mined)).text.split())


def test_a_set_without_a_teacher_has_a_report(mining: Mining) -> None:
    text = _Page(_read(mining({"run": {"q": ["a", "b"]}}, None))).text
    assert "No teacher has scored these negatives" in text
    assert "that a source ranks highest" in text
    assert "At the thresholds" not in text


def test_margins_are_borders_too_and_a_positive_stands_beside_its_own_negatives(mining: Mining) -> None:
    mined = mining(
        {"run": {"q": ["a", "b"]}},
        {"p": 0.9, "p2": 0.5, "a": 0.45, "b": 0.1},
        documents={"p": "right", "p2": "right too", "a": "one", "b": "two"},
        positives={"q": {"p": 1, "p2": 1}},
        decide={"negative_below": None, "positive_above": None, "absolute_margin": 0.1, "positive_reference": "each"},
    )
    text = " ".join(_Page(_read(mined)).text.split())
    # a is 0.45 below p and 0.05 below p2: a negative for p, a false negative for p2
    assert "0.500 [p2] right too candidate 0.450 [a] one false negative: within absolute margin" in text
    below = text.split("decide.absolute_margin: 0.1, just below")[1].split("just above")[0]
    assert "candidate 0.100 [b] two" in below  # 0.3 below the border of p2; a is 0.35 below that of p


def test_with_a_calibration_the_borders_are_those_of_its_probability(mining: Mining, tmp_path: Path) -> None:
    # the calibration's probability is the teacher's with its logit doubled: 0.71 becomes 0.857, and 0.99 0.9999
    teacher = TableTeacher({HOSTILE[doc]: score for doc, score in SCORES.items()})
    judge = calibration(model(("teacher_logit",), [2.0], safe_to=0.4), fingerprint=teacher.fingerprint)
    judge.save(tmp_path / "calibration.json")
    mined = _hostile(mining, decide={"negative_below": None, "calibration": str(tmp_path / "calibration.json")})
    assert mined.manifest["teacher"]["judge"]["threshold"] == pytest.approx(0.995)
    text = " ".join(_Page(_read(mined)).text.split())
    below, above = text.split("decide.negative_below", 2)[1:]
    assert below.split("candidate")[1].startswith(" 0.710 [d]")
    assert above.split("candidate")[1].startswith(" 0.990 [f]")
    # and a positive is low by the teacher's own 0.5, not by a threshold that is on another scale
    assert mined.audit().low_positive_share == 0.0


def test_plots_take_the_ink_of_the_page(mining: Mining) -> None:
    page = _read(_hostile(mining))
    assert "currentColor" in page
    assert "#1b1c1e" not in page.split("<figure", 1)[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_a_browser_shows_the_report_without_an_error(mining: Mining, browser: Any, width: int, scheme: str) -> None:
    mined = _hostile(mining)
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto((mined.path / "report.html").as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [(mined.path / "report.html").as_uri()]
    assert page.title() == f"Mined set {mined.version}: toy"
    shown = page.inner_text("body")
    assert QUERY in shown
    assert HOSTILE["<i>a"] in shown
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out of the page
    boxes = page.locator("figure svg")
    assert boxes.count() == 2
    assert "teacher score" in boxes.nth(1).text_content()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(22, 24, 27)" if scheme == "dark" else "rgb(255, 255, 255)")
    page.close()
