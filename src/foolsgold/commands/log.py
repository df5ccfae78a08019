"""`foolsgold log`: what a model was trained on, and what that was mined from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from foolsgold.commands.console import count, out, print_json, print_wide
from foolsgold.commands.options import Json

if TYPE_CHECKING:
    from foolsgold.training.lineage import Node

_WIDTH = 1000  # characters of a line in a file or pipe


def log(
    path: Annotated[Path, typer.Argument(help="A run, a trained model, a mined set, or a folder of those.")] = Path(
        "runs"
    ),
    as_json: Json = False,
) -> None:
    """Show what models and mined sets came from: model <- set <- set <- student, with dates and what each changed.

    Example: `foolsgold log runs/`
    """
    from foolsgold.training.lineage import lineage

    nodes = lineage(path)
    if as_json:
        print_json([node.to_json() for node in nodes])
        return
    for node in nodes:
        tree = Tree(_line(node))
        _grow(tree, node)
        print_wide(tree, 0 if out.is_terminal else _WIDTH)  # a tree breaks its own lines, at a terminal's width


def _grow(tree: Tree, node: Node) -> None:
    for before in node.came_from:
        _grow(tree.add(_line(before)), before)


def _line(node: Node) -> Text:
    facts, said = node.facts, []
    if facts.get("finished") is False:
        said.append(f"not finished, {count(facts['rounds'], 'round')} done")
    if "value" in facts:
        change = facts["value"] - facts["before"]
        said.append(f"{facts['measure']} {facts['value']:.4f} ({change:+.4f}) after {facts['steps']:,} steps")
    if facts.get("regimes"):
        said.append(", ".join(facts["regimes"]))
    if "negatives" in facts:
        said.append(f"{facts['negatives']:,} negatives")
    if facts.get("mean_margin") is not None:
        said.append(f"mean margin {facts['mean_margin']:.2f}")
    if facts.get("delta") is not None:
        said.append(f"{facts['delta']:+.4f} from training on it")
    if node.kind == "student":
        said.append(str(facts["is"]))
    when = f"{node.created[:16].replace('T', ' ')}  " if node.created else ""
    return Text.assemble((f"{node.kind} {node.version}", "bold"), "  ", (when, "dim"), "; ".join(said))
