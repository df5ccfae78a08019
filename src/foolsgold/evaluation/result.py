"""What a model scored on each query, as it is saved, and how two models compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from foolsgold.errors import EvaluationError
from foolsgold.evaluation.paired import interval, p_value
from foolsgold.files import written_whole
from foolsgold.records import DoubleArray

_ABOUT = b"foolsgold_evaluation"
_QUERY = "query_id"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a model scored on each query of a collection.

    collection: its name and split; digest: of its texts and judgements. values: by measure, float64 (n_queries).
    about: what the model was when it was evaluated: prompts, similarity and, of a model that was named, fingerprint.
    """

    model: str
    collection: str
    digest: str
    query_ids: tuple[str, ...]
    values: Mapping[str, DoubleArray]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def means(self) -> dict[str, float]:
        """The mean of each measure over the queries."""
        return {name: float(values.mean()) for name, values in self.values.items()}

    def __str__(self) -> str:
        lines = [f"{self.model} on {self.collection}, {len(self.query_ids):,} queries"]
        return "\n".join([*lines, *(f"  {name:<12}{mean:.4f}" for name, mean in self.means.items())])

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
        return f"Evaluation({self.model!r} on {self.collection!r}: {means})"

    def compare(self, baseline: Evaluation, *, seed: int = 13) -> Comparison:
        """What this one scores above the baseline, of each measure that both have.

        seed: of the signs and samples drawn; the same for every measure.

        Raises:
            EvaluationError: they are of other queries or documents, or have no measure in common.
        """
        if (self.digest, self.query_ids) != (baseline.digest, baseline.query_ids):
            raise EvaluationError(
                f"{self.model} was evaluated on {self._where()}, {baseline.model} on {baseline._where()}, and these "
                "are not the same texts and judgements; evaluate both on the same"
            )
        common = [name for name in self.values if name in baseline.values]
        if not common:
            raise EvaluationError(
                f"{self.model} has {', '.join(self.values)} and {baseline.model} has {', '.join(baseline.values)}; "
                "evaluate both with one measure in common"
            )
        changes = {
            name: Change.of(baseline.values[name], self.values[name] - baseline.values[name], seed) for name in common
        }
        return Comparison(self.model, baseline.model, changes)

    def to_json(self) -> dict[str, Any]:
        """As JSON values, without those of each query."""
        return {
            "model": self.model,
            "collection": self.collection,
            "queries": len(self.query_ids),
            "measures": self.means,
            **self.about,
        }

    def save(self, path: str | Path) -> Path:
        """Write a Parquet file, whole or not at all: one row per query, its id and one column per measure.

        Raises:
            EvaluationError: it cannot be written there.
        """
        target = Path(path)
        about = {"model": self.model, "collection": self.collection, "digest": self.digest, "about": dict(self.about)}
        table = pa.table({_QUERY: pa.array(self.query_ids, pa.string()), **self.values})
        with written_whole(target, EvaluationError, "name another file") as partial:
            pq.write_table(table.replace_schema_metadata({_ABOUT: json.dumps(about)}), partial)
        return target

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read what `save` wrote.

        Raises:
            EvaluationError: there is no such file, or it holds something else.
        """
        try:
            table = pq.read_table(path)
            about = json.loads((table.schema.metadata or {})[_ABOUT])
            names = [name for name in table.column_names if name != _QUERY]
            values = {name: table[name].to_numpy() for name in names}
            return cls(query_ids=tuple(table[_QUERY].to_pylist()), values=values, **about)
        except FileNotFoundError:
            raise EvaluationError(f"{path}: no such file; `foolsgold evaluate MODEL --out FILE` writes one") from None
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            raise EvaluationError(
                f"{path}: is not an evaluation; name a file that `foolsgold evaluate MODEL --out FILE` wrote"
            ) from None

    def _where(self) -> str:
        return f"{len(self.query_ids):,} queries of {self.collection} ({self.digest[:8]})"


@dataclass(frozen=True)
class Change:
    """What one model scores above another, in the mean over the same queries.

    interval: of the difference, 95 %, by the bootstrap. p_value: two-sided, of the paired randomisation test.
    """

    before: float
    delta: float
    interval: tuple[float, float]
    p_value: float

    @classmethod
    def of(cls, before: DoubleArray, differences: DoubleArray, seed: int) -> Change:
        """From what each query scored before, and how much more it scores now; float64 (n), n at least 1."""
        return cls(
            float(before.mean()), float(differences.mean()), interval(differences, seed), p_value(differences, seed)
        )

    @property
    def after(self) -> float:
        """The mean now."""
        return self.before + self.delta


@dataclass(frozen=True)
class Comparison:
    """What a model scores above a baseline, by measure."""

    model: str
    baseline: str
    changes: Mapping[str, Change]

    def of(self, measure: str) -> Change:
        """The change of one measure.

        Raises:
            EvaluationError: the two do not both have it.
        """
        if measure not in self.changes:
            raise EvaluationError(f"{measure} was not measured of both; there are {', '.join(self.changes)}")
        return self.changes[measure]

    def is_significant_drop(self, measure: str, alpha: float = 0.05) -> bool:
        """Whether a measure fell, and by more than chance would let it in a share `alpha` of cases."""
        change = self.of(measure)
        return change.delta < 0 and change.p_value < alpha

    def __str__(self) -> str:
        lines = [f"{self.model} against {self.baseline}", f"  {'':<12}before  after   change   95 % interval       p"]
        for name, one in self.changes.items():
            low, high = one.interval
            lines.append(
                f"  {name:<12}{one.before:.4f}  {one.after:.4f}  {one.delta:+.4f}  {low:+.4f} to {high:+.4f}  "
                f"{one.p_value:.4f}"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        changes = {
            name: {"delta": one.delta, "interval": list(one.interval), "p_value": one.p_value}
            for name, one in self.changes.items()
        }
        return {"baseline": self.baseline, "changes": changes}
