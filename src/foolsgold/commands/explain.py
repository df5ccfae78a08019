"""`foolsgold explain` and `foolsgold diff`: what happened to a candidate, and what changed between two mined sets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from foolsgold.commands.console import out, print_json
from foolsgold.commands.options import Json
from foolsgold.errors import FoolsgoldError

if TYPE_CHECKING:
    from foolsgold.collection import Texts
    from foolsgold.mined.diff import Diff
    from foolsgold.mined.mined_set import MinedSet

Set = Annotated[Path, typer.Argument(metavar="SET", help="A mined set, or a folder of sets (its newest).")]

_EXAMPLES = 3
_CHARACTERS = 160  # of a text in an example


def explain(
    path: Set,
    query_id: Annotated[str, typer.Argument(metavar="QUERY_ID")],
    doc_id: Annotated[str, typer.Argument(metavar="DOC_ID")],
    as_json: Json = False,
) -> None:
    """Explain one candidate: its texts, what was decided and why, and what earlier sets decided.

    Example: `foolsgold explain mined/ q17 d42`
    """
    from foolsgold.mined.mined_set import MinedSet
    from foolsgold.training.lineage import history

    mined = MinedSet(path)
    story = mined.explain(query_id, doc_id)
    texts = _texts(mined, query_id, doc_id)
    before = history(mined, query_id, doc_id)
    if as_json:
        print_json({"row": dict(story.row), "sentences": story.sentences, "texts": texts, "before": before})
        return
    for name, text in texts.items():
        out.print(Text.assemble((f"{name}: ", "bold"), text))
    out.print(str(story))
    for version, said in before.items():
        out.print(Text.assemble((f"In the set before, {version}: ", "bold"), said))


def diff(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A mined set.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="Another.")],
    as_json: Json = False,
) -> None:
    """Show what changed between two mined sets: negatives, zones, recipe and models.

    Example: `foolsgold diff mined/3f1c0a2b9d4e mined/8a7b6c5d4e3f`
    """
    from foolsgold.mined.mined_set import MinedSet

    sets = MinedSet(before), MinedSet(after)
    change = sets[0].diff(sets[1])
    if as_json:
        print_json(change.to_json())
        return
    out.print(str(change))
    _print_examples(change, *sets)


def _texts(mined: MinedSet, query_id: str, doc_id: str) -> dict[str, str]:
    """The texts that a story is about; none where the collection is not there any more."""
    try:
        collection = mined.collection
    except FoolsgoldError as error:
        logging.getLogger(__name__).warning("%s", error)
        return {}
    positives = mined.positives.to_pylist()
    known = [row["doc_id"] for row in positives if row["query_id"] == query_id]
    return {
        f"Query {query_id}": _find(collection.queries, query_id) or "",
        **{f"Positive {positive}": _find(collection.documents, positive) or "" for positive in known},
        f"Document {doc_id}": _find(collection.documents, doc_id) or "",
    }


def _find(texts: Texts, name: str) -> str | None:
    found = texts.find([name])
    from foolsgold.auditing.page import printable

    return printable(texts.take([found[name]])[0]) if found else None


def _print_examples(change: Diff, before: MinedSet, after: MinedSet) -> None:
    """A few of each kind of change with their texts, the highest teacher scores first."""
    import pyarrow.compute as pc

    try:
        collections = (after.collection, before.collection)
    except FoolsgoldError as error:
        logging.getLogger(__name__).warning("no examples: %s", error)
        return
    groups = {name: change.pairs.filter(pc.equal(change.pairs["change"], name)) for name in ("added", "removed")}
    unselected = pc.invert(pc.or_(change.flips["selected_before"], change.flips["selected_after"]))
    for name, rows in (groups | {"other zone": change.flips.filter(unselected)}).items():
        score = pc.coalesce(rows["teacher_score_after"], rows["teacher_score_before"]).fill_null(float("-inf"))
        for row in rows.take(pc.sort_indices(score, sort_keys=[("", "descending")])[:_EXAMPLES]).to_pylist():
            out.print(Text.assemble((f"{name}: ", "bold"), f"{_said(row, 'before')} -> {_said(row, 'after')}"))
            for kind, key in (("query", "query_id"), ("document", "doc_id")):
                texts = (_find(c.queries if kind == "query" else c.documents, row[key]) for c in collections)
                text = next((text for text in texts if text is not None), "")
                out.print(Text.assemble((f"  {kind} {row[key]}: ", "dim"), _short(text)))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _CHARACTERS else flat[: _CHARACTERS - 1] + "…"


def _said(row: dict[str, Any], when: str) -> str:
    if row[f"verdict_{when}"] is None:
        return "no candidate"
    score = row[f"teacher_score_{when}"]
    said = "selected" if row[f"selected_{when}"] else row[f"reason_{when}"].replace("_", " ")
    return said if score is None else f"{said}, {score:.3g}"
