"""What a model or a mined set came from: model <- set <- set <- student, each with its date and what it changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from foolsgold.errors import MinedSetError, TrainingError
from foolsgold.mined.mined_set import MinedSet
from foolsgold.training.run import UNDONE, Round, RunState, student_words

Kind = Literal["model", "set", "student"]


@dataclass(frozen=True)
class Node:
    """One thing that was made, and what it was made from.

    facts: by name, numbers as numbers. came_from: newest first.
    """

    kind: Kind
    version: str
    created: str
    path: Path
    facts: dict[str, Any] = field(default_factory=dict)
    came_from: list[Node] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The node and all it came from, as plain values for JSON."""
        return {
            "kind": self.kind,
            "version": self.version,
            "created": self.created,
            "path": str(self.path),
            **self.facts,
            "came_from": [node.to_json() for node in self.came_from],
        }


def lineage(path: str | Path) -> list[Node]:
    """The lineage of a run, of a model from a run, of a mined set, or of everything in a folder, newest first.

    Raises:
        MinedSetError: none of these is there, or it cannot be read.
    """
    path = Path(path)
    if (path / "foolsgold.json").is_file() and (path.parent / "run.json").is_file():
        return [_model(path.parent)]
    if (path / "foolsgold.json").is_file():
        return [_model_alone(path)]
    if (path / "run.json").is_file():
        return [_model(path)]
    if (path / "manifest.json").is_file():
        return [_set(path)]
    found = [_model(folder.parent) for folder in sorted(path.glob("*/run.json"))]
    folders = {manifest.parent.name: manifest.parent for manifest in path.glob("*/manifest.json")}
    parents = {MinedSet(folder).manifest.parent for folder in folders.values()}
    found += [_set(folder) for name, folder in folders.items() if name not in parents]  # the others are below those
    if not found:
        raise MinedSetError(f"{path}: no run of training, model or mined set is here")
    return sorted(found, key=lambda node: (node.created, node.version), reverse=True)


def history(mined: MinedSet, query_id: str, doc_id: str) -> dict[str, str]:
    """What earlier sets in the same folder recorded about a candidate, by version, newest first."""
    return {before.version: _last_word(before, query_id, doc_id) for before in list(_with_parents(mined.path))[1:]}


def _last_word(mined: MinedSet, query_id: str, doc_id: str) -> str:
    try:
        return " ".join(mined.explain(query_id, doc_id).sentences[1:])
    except MinedSetError:
        return "not a candidate."


def _model(run: Path) -> Node:
    state = RunState.load(run)
    rounds = state.rounds
    facts: dict[str, Any] = {"finished": state.is_finished, "rounds": max(len(rounds) - 1, 0)}
    if rounds:
        decisive = state.facts["recipe"]["evaluation"]["decisive"]
        best = state.best
        facts |= {
            "measure": decisive,
            "value": best.measures[decisive],
            "before": rounds[0].measures[decisive],
            "steps": best.stop,
        }
    student = state.facts["student"]
    node = _student(student)
    for version in state.set_versions:
        trained = [one for one in rounds if one.set_version == version]
        node = _trained_on(run / "sets" / version, version, trained, node)
    return Node("model", state.version, state.facts["created"], run / "model", facts, [node])


def _student(student: Mapping[str, Any]) -> Node:
    said = {"is": student_words(student)}
    return Node("student", student["fingerprint"][:12], "", Path(student["model"]), said)


def _trained_on(folder: Path, version: str, trained: list[Round], before: Node) -> Node:
    """A set of a run, with the change in the measure after training on it."""
    deltas = [one.delta for one in trained if one.delta is not None and one.outcome not in UNDONE]
    facts = {
        "regimes": list(dict.fromkeys(one.regime for one in trained)),
        "negatives": trained[0].negatives,
        "mean_margin": trained[0].mean_margin,
        "delta": max(deltas, default=None),
    }
    created = MinedSet(folder).manifest.created if (folder / "manifest.json").is_file() else ""
    return Node("set", version, created, folder, facts, [before])


def _model_alone(folder: Path) -> Node:
    """A model that was moved out of its run's folder, from its own record."""
    try:
        facts = json.loads((folder / "foolsgold.json").read_text(encoding="utf-8"))
        decisive = facts["recipe"]["evaluation"]["decisive"]
        node = _student(facts["student"])
        for version in facts["sets"]:
            node = Node("set", version, "", folder, {}, [node])
        said = {
            "measure": decisive,
            "value": facts["evaluation"][decisive],
            "before": facts["before"][decisive],
            "steps": facts["after_steps"],
        }
        return Node("model", facts["run"], facts["created"], folder, said, [node])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{folder}: foolsgold.json cannot be read ({error}); name the run's folder") from None


def _set(folder: Path) -> Node:
    """A set and the sets before it in its folder."""
    chain = list(_with_parents(folder))
    node: Node | None = None
    for mined in reversed(chain):
        audit = json.loads((mined.path / "audit.json").read_text(encoding="utf-8"))
        facts = {
            "collection": mined.manifest.collection.name,
            "negatives": mined.manifest.counts.selected,
            "mean_margin": audit.get("mean_margin"),
        }
        created = mined.manifest.created
        node = Node("set", mined.version, created, mined.path, facts, [node] if node is not None else [])
    assert node is not None
    return node


def _with_parents(folder: Path) -> Iterator[MinedSet]:
    seen: set[str] = set()
    while (folder / "manifest.json").is_file() and folder.name not in seen:
        seen.add(folder.name)
        mined = MinedSet(folder)
        yield mined
        folder = folder.parent / str(mined.manifest.parent)
