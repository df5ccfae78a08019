"""`foolsgold mine`: hard negatives from a recipe, from options, or from both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foolsgold.commands.console import log_to_stderr, out, print_json
from foolsgold.commands.options import (
    Assign,
    Beir,
    Json,
    Limit,
    Out,
    Pairs,
    PerQuery,
    Quiet,
    RecipeFile,
    RelevantFrom,
    Retriever,
    Seed,
    Split,
    Strict,
    Teacher,
    recipe_of,
)
from foolsgold.errors import GateFailed, RecipeError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from foolsgold.mined.mined_set import MinedSet


def mine(
    recipe_file: RecipeFile = None,
    beir: Beir = None,
    pairs: Pairs = None,
    anchor: Annotated[str | None, typer.Option(help="With --pairs: the column of queries.")] = None,
    positive: Annotated[str | None, typer.Option(help="With --pairs: the column of positives.")] = None,
    corpus: Annotated[str | None, typer.Option(help="With --pairs: a file of more documents to choose from.")] = None,
    hf: Annotated[str | None, typer.Option(help="Dataset of pairs on the Hugging Face hub.")] = None,
    ir_datasets: Annotated[str | None, typer.Option(help="Dataset of the ir_datasets package.")] = None,
    split: Split = None,
    relevant_from: RelevantFrom = None,
    limit: Limit = None,
    retriever: Retriever = None,
    teacher: Teacher = None,
    per_query: PerQuery = None,
    seed: Seed = None,
    assign: Assign = None,
    to: Out = Path("mined"),
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Mine hard negatives: from a recipe, from options, or from both (options win).

    Examples: `foolsgold mine recipe.yaml` or
    `foolsgold mine --pairs pairs.jsonl --retriever org/model --per-query 5 --set decide.negative_below=0.2`
    """
    from foolsgold.mining.mine import mine as run

    progress = log_to_stderr(quiet)
    columns = {"anchor": anchor, "positive": positive, "corpus": corpus}
    if any(columns.values()) and not pairs:
        raise RecipeError("--anchor, --positive and --corpus describe the file of --pairs; name that file too")
    recipe = recipe_of(
        recipe_file,
        assign,
        beir=beir,
        pairs={"path": pairs, **columns} if any(columns.values()) else pairs,
        hf=hf,
        ir_datasets=ir_datasets,
        split=split,
        relevant_from=relevant_from,
        limit=limit,
        retriever=retriever,
        teacher=teacher,
        per_query=per_query,
        seed=seed,
    )
    if recipe.collection is None:
        raise RecipeError("nothing to mine: give a recipe with a collection, or --beir, --pairs, --hf or --ir-datasets")
    mined = run(recipe=recipe, out=to, progress=progress)
    mined.report()
    if as_json:
        print_json(summary(mined))
    else:
        print_set(mined)
    failed = [gate.name for gate in mined.audit().gates if gate.verdict == "fail"]
    if strict and failed:
        raise GateFailed(f"{mined.path}: {' and '.join(failed)} failed; the set is written nevertheless")


def print_set(mined: MinedSet, *more: RenderableType) -> None:
    """The funnel and the gates of a set, and where it is."""
    from foolsgold.commands import show

    for part in (show.funnel(mined), show.gates(mined), *more):
        out.print(part)
    out.print(f"written to {mined.path}")


def summary(mined: MinedSet) -> dict[str, Any]:
    """What --json prints of a set."""
    wanted = ("version", "seconds", "collection", "counts", "calls", "warnings", "notes")
    return (
        {"path": str(mined.path)} | {name: mined.manifest[name] for name in wanted} | {"audit": mined.audit().to_json()}
    )
