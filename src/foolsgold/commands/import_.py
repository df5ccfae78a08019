"""`foolsgold import`: somebody else's negatives as a mined set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foolsgold.commands.console import log_to_stderr, print_json
from foolsgold.commands.files import Anchor, Positive, Scores, Split, scale_of
from foolsgold.commands.mine import print_set, summary
from foolsgold.commands.options import Assign, Json, Out, Quiet, recipe_of


def import_(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="jsonl, json, parquet, csv, tsv (or .gz), a saved Dataset, or hf:NAME."),
    ],
    teacher: Annotated[
        str | None, typer.Option(help="Score the pairs with this model, and drop false negatives and doubtful ones.")
    ] = None,
    scores: Scores = None,
    anchor: Anchor = None,
    positive: Positive = None,
    split: Split = None,
    assign: Assign = None,
    to: Out = Path("mined"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Turn a file of negatives from another tool into a mined set; rows that are not negatives are dropped.

    The format is recognised by the columns: FlagEmbedding, sentence-transformers, Tevatron, RLHN, DPR, ms-swift.

    Examples: `foolsgold import their.jsonl --teacher org/cross-encoder` then
    `foolsgold export mined/ --to flagembedding --out clean.jsonl`
    """
    from foolsgold.exchange.importing import import_set

    progress = log_to_stderr(quiet)
    mined = import_set(
        file,
        out=to,
        teacher=teacher,
        scores=scale_of(scores),
        anchor=anchor,
        positive=positive,
        split=split,
        progress=progress,
        recipe=recipe_of(None, assign),
    )
    mined.report()
    if as_json:
        print_json(summary(mined))
    else:
        print_set(mined)
