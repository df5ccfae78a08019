"""The ways of mining that are compared, each a few sections of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foolsgold.recipe import Recipe


@dataclass(frozen=True)
class Method:
    """One way of mining.

    usually: the false-negative rates usually reported for it. sections: of the recipe, in place of its own. ranked_by:
    the source whose ranks the rate is drawn against. missing: why it cannot be mined.
    """

    name: str
    label: str
    usually: str | None
    sections: Mapping[str, Any]
    ranked_by: str | None = None
    missing: str | None = None


def methods(recipe: Recipe, *, depth: int, student: str | None) -> tuple[Method, ...]:
    """Random, BM25, dense, nearest, self, and what the recipe itself says, in this order.

    All but the nearest one draw at random from their `depth` best, as the literature does with its top 50; `nearest`
    takes the best that passes.
    """
    draw = {"strategy": "random", "per_query": recipe.select.per_query, "cap": recipe.select.cap}
    first = {"strategy": "top", "per_query": 1}
    dense = {"dense": {"depth": depth}}
    myself = {"self": {"kind": "dense", "model": student, "depth": depth}}
    no_retriever = None if recipe.retriever else "the recipe has no retriever"
    no_student = None if student else "needs the model that is trained: --student MODEL"
    return (
        Method("random", "random", "< 0.1 %", {"sources": {"random": {"depth": depth}}, "select": draw}),
        Method("bm25", f"bm25 top-{depth}", "1-3 %", {"sources": {"bm25": {"depth": depth}}, "select": draw}, "bm25"),
        Method("dense", f"dense top-{depth}", "5-15 %", {"sources": dense, "select": draw}, "dense", no_retriever),
        Method("nearest", "nearest-1", "> 20 %", {"sources": dense, "select": first}, missing=no_retriever),
        Method("self", f"self top-{depth}", "10-25 %", {"sources": myself, "select": draw}, "self", no_student),
        Method("recipe", "this recipe", None, {}),
    )
