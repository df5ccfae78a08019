"""`foolsgold export`: a mined set in the format that a trainer reads, on disk or on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from foolsgold.commands.console import log_to_stderr, out, print_json
from foolsgold.commands.options import Json, Quiet
from foolsgold.errors import MinedSetError


def export(
    path: Annotated[Path, typer.Argument(metavar="SET", help="A mined set, or a folder of sets (its newest).")],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="sentence-transformers, flagembedding, tevatron, pylate, swift, swift-reranker, beir-run or jsonl.",
        ),
    ],
    target: Annotated[Path | None, typer.Option("--out", help="The file; for pylate the folder.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Also write the teacher's scores, as logits.")] = False,
    negatives: Annotated[int | None, typer.Option(min=1, help="At most this many negatives per row.")] = None,
    shape: Annotated[
        str, typer.Option(help="For sentence-transformers: triplet, n-tuple, labeled-pair or labeled-list.")
    ] = "triplet",
    weights: Annotated[
        bool, typer.Option("--weights", help="For sentence-transformers: the weights of negatives.")
    ] = False,
    prompt: Annotated[str | None, typer.Option(help="For flagembedding and swift: an instruction for queries.")] = None,
    push_to_hub: Annotated[
        str | None, typer.Option(metavar="OWNER/NAME", help="Upload it as a dataset with a card; private.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="With --push-to-hub: make it public.")] = False,
    licence: Annotated[
        str | None, typer.Option(help="With --push-to-hub: the hub's name of the texts' licence, such as cc-by-4.0.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a mined set for another trainer.

    Examples: `foolsgold export mined/ --to flagembedding --scores --out train.jsonl` or
    `foolsgold export mined/ --to tevatron --push-to-hub me/my-negatives`
    """
    from foolsgold.exchange.export import export as run
    from foolsgold.exchange.hub import push_to_hub as push

    log_to_stderr(quiet)
    if (target is None) == (push_to_hub is None):
        raise MinedSetError("name one place to write to: --out FILE or --push-to-hub OWNER/NAME")
    if push_to_hub is None and (public or licence):
        raise MinedSetError("--public and --licence are for --push-to-hub")
    options: dict[str, Any] = {
        "scores": scores,
        "negatives": negatives,
        "shape": shape,
        "weights": weights,
        "prompt": prompt,
    }
    if push_to_hub is not None:
        pushed = push(path, push_to_hub, to, public=public, licence=licence, **options)
        written: dict[str, Any] = {"url": pushed.url, "rows": pushed.rows, "notes": pushed.notes}
        said = f"pushed to {pushed.url}" + ("" if licence else "; its card names no licence yet")
    else:
        assert target is not None
        done = run(path, to, target, **options)  # type: ignore[arg-type]
        written = {"path": str(done.path), "rows": done.rows, "notes": done.notes}
        said = f"written to {done.path}"
    if as_json:
        print_json({"to": to} | written)
    else:
        out.print(f"{written['rows']:,} rows {said}")
