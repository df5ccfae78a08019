"""`foolsgold evaluate`: how good models are on a collection, and whether one is better than another."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from foolsgold.commands.console import log_to_stderr, out, print_json
from foolsgold.commands.options import Json, Quiet, assignments
from foolsgold.errors import EvaluationError, GateFailed

if TYPE_CHECKING:
    from foolsgold.collection import Collection
    from foolsgold.evaluation.result import Comparison, Evaluation
    from foolsgold.recipe import CollectionSpec

_SAVED = ".parquet"


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Hub id, folder, package:NAME/SUBPATH, or a file that --out wrote."),
    ],
    collection: Annotated[
        str | None, typer.Option(help="beir:FOLDER, pairs:FILE, hf:NAME, ir_datasets:NAME or demo.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which judgements; pairs have only train.")] = "test",
    relevant_from: Annotated[int | None, typer.Option(help="Lowest grade that makes a document relevant.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many queries.")] = None,
    measures: Annotated[
        str, typer.Option(help="Names of ir-measures, with commas between; the first decides with --strict.")
    ] = "nDCG@10,MRR@10,recall@10,recall@100,MAP",
    baseline: Annotated[
        str | None, typer.Option(metavar="MODEL", help="What to compare with: a model, or a file that --out wrote.")
    ] = None,
    assign: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="A field of the retriever, for every model; repeatable."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write each query's values to this Parquet file.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a model is significantly worse than the baseline (5 %).")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Measure retrievers by a collection's judgements: each query searches the whole corpus, exactly.

    Without --collection, a model of `foolsgold train` is evaluated on the collection it was trained on. With a
    baseline, every difference has a 95 % bootstrap interval and the p-value of a paired randomisation test.

    Examples: `foolsgold evaluate org/model --collection beir:data/scifact --out before.parquet` or
    `foolsgold evaluate runs/RUN/model --baseline before.parquet`
    """
    from foolsgold.collection import load_collection
    from foolsgold.evaluation.evaluate import evaluate as run
    from foolsgold.evaluation.result import Evaluation

    progress = log_to_stderr(quiet)
    settings = assignments(assign or [])
    names = [name for part in measures.split(",") if (name := part.strip())]
    _check_options(models, to, strict, baseline)
    named = [name for name in (*models, baseline) if name is not None and not name.endswith(_SAVED)]
    for name in named:  # none is run before all are known to be there
        _check_there(name)

    @cache
    def loaded() -> Collection:
        spec = collection or next(filter(None, map(_trained_on, named)), None)
        if spec is None:
            raise EvaluationError("nothing to evaluate on: name a collection, as in --collection beir:data/scifact")
        return load_collection(spec, split=split, relevant_from=relevant_from, limit=limit, progress=progress)

    def evaluated(model: str) -> Evaluation:
        if model.endswith(_SAVED):
            return Evaluation.load(model)
        return run({**settings, "model": model}, loaded(), measures=names, progress=progress)

    before = None if baseline is None else evaluated(baseline)
    found = [evaluated(model) for model in models]
    if to is not None:
        found[0].save(to)
    compared = [] if before is None else [one.compare(before) for one in found]
    if as_json:
        changes = [one.to_json() for one in compared] or [{}] * len(found)
        models_json = [one.to_json() | change for one, change in zip(found, changes, strict=True)]
        print_json({"models": models_json, "baseline": before and before.to_json()})
    else:
        out.print(_table([*found, *([] if before is None else [before])]))
        for comparison in compared:
            out.print(f"\n{comparison}")
        if to is not None:
            out.print(f"written to {to}")
    if strict:
        _refuse_worse(compared, decisive=next(iter(found[0].values)))


def _check_options(models: list[str], to: Path | None, strict: bool, baseline: str | None) -> None:
    if to is not None and len(models) > 1:
        raise EvaluationError(f"--out names one file, and {len(models)} models are given; evaluate them one by one")
    if to is not None and to.suffix != _SAVED:
        raise EvaluationError(f"--out {to}: name a file that ends with {_SAVED}, so that it is known for an evaluation")
    if strict and baseline is None:
        raise EvaluationError("--strict compares a model with a baseline; name one with --baseline")


def _refuse_worse(compared: list[Comparison], decisive: str) -> None:
    """Fail if a model is significantly worse than the baseline by the decisive measure."""
    worse = [one for one in compared if one.is_significant_drop(decisive)]
    if worse:
        each = [f"{one.model} ({one.of(decisive).delta:+.4f}, p = {one.of(decisive).p_value:.4f})" for one in worse]
        raise GateFailed(f"{decisive} is significantly worse than {worse[0].baseline}'s: {', '.join(each)}")


def _check_there(name: str) -> None:
    """Refuse a run's folder, or the model of a run that has not finished, with what to name instead."""
    from foolsgold.models.names import locate

    folder = Path(name)
    if (folder / "run.json").is_file():
        raise EvaluationError(f"{name}: is a run of training; name the model in it, {folder / 'model'}")
    if not folder.exists() and (folder.parent / "run.json").is_file():
        raise EvaluationError(
            f"{name}: is not there; the run in {folder.parent} has not finished; start it again with the same command"
        )
    locate(name)


def _trained_on(name: str) -> CollectionSpec | None:
    """The collection that a model of a run was trained on, all its queries, as the model's record has it."""
    from foolsgold.findings.subject import record_of
    from foolsgold.models.names import locate
    from foolsgold.recipe import CollectionSpec

    folder = locate(name).folder
    record = record_of(folder) if folder is not None else None
    spec = record["recipe"]["collection"] if record else None
    return spec and CollectionSpec.model_validate(spec).model_copy(update={"part": None, "limit": None})


def _table(found: list[Evaluation]) -> Table:
    """A row a model. Measures that only some have, as a file may, are left empty in the others."""
    names = list(dict.fromkeys(name for one in found for name in one.values))
    on = [f"{one.collection}, {len(one.query_ids):,} queries" for one in found]
    is_one = len(set(on)) == 1  # as nearly always, and then the names of models have its room
    table = Table(box=None, padding=(0, 2, 0, 0), title=on[0] if is_one else None, title_justify="left")
    for name in ("model", *(() if is_one else ("collection",))):
        table.add_column(name, overflow="fold")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for one, where in zip(found, on, strict=True):
        means: dict[str, Any] = one.means
        values = (f"{means[name]:.4f}" if name in means else "" for name in names)
        table.add_row(one.model, *(() if is_one else (where,)), *values)
    return table
