"""The loop around training: mine, train, evaluate, keep or roll back, mine again.

One trainer goes through the whole schedule, a segment at a time (see `curriculum`). After each segment the student is
evaluated on held-out queries and compared with the best so far by a paired test; where it is significantly worse, the
recipe says what happens. Every decision is written to the run's folder before the next begins.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from foolsgold.errors import FoolsgoldError, TrainingError
from foolsgold.evaluation.evaluate import Comparison, Diverged, Evaluation, evaluate
from foolsgold.files import cache_folder
from foolsgold.mined.mined_set import MinedSet
from foolsgold.mining.mine import mine, resolved
from foolsgold.models.names import fetched, fingerprint, locate
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import Recipe, RegimeSpec
from foolsgold.training.curriculum import Segment
from foolsgold.training.launch import is_first, libraries
from foolsgold.training.regimes import (
    check_there,
    held_out_parts,
    is_in_batch,
    mining_recipe,
    negatives_of,
    regimes_of,
    segments_of,
)
from foolsgold.training.report import write_report
from foolsgold.training.run import UNDONE, Outcome, Round, RunState

if TYPE_CHECKING:
    from foolsgold.training.known import KnownPositives
    from foolsgold.training.trainer import SegmentTrainer

log = logging.getLogger(__name__)

_NO_ROOM = 1 << 20  # bytes that are left on a disk on which a checkpoint cannot be written


@dataclass(frozen=True)
class Trained:
    """A run of training, finished: its folder, and what it says of itself."""

    path: Path
    state: RunState

    @property
    def model_path(self) -> Path:
        """The folder of the best model, which SentenceTransformer(...) opens."""
        return self.path / "model"

    @property
    def version(self) -> str:
        """The run's id."""
        return self.state.version

    @property
    def rounds(self) -> list[Round]:
        """What happened, in order."""
        return self.state.rounds

    def __repr__(self) -> str:
        best = self.state.best
        measures = ", ".join(f"{name} {value:.4f}" for name, value in best.measures.items())
        return f"Trained({self.version}: {len(self.rounds) - 1} rounds, best after step {best.stop}: {measures})"


def train(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    out: str | Path = "runs",
    *,
    collection: Any = None,
    progress: Progress = SILENT,
    cache: str | Path | None = None,
    **sections: Any,
) -> Trained:
    """Mine, train, evaluate, keep or roll back, and mine again, as the recipe's schedule says.

    The same recipe on the same collection is the same run: one that was stopped goes on where it was, one that is
    finished is returned. Several processes (torchrun) train together; the first mines and evaluates.

    Args:
        recipe: a Recipe, its plain values, or a YAML file.
        out: the folder that the run's own folder is made in.
        collection: in place of the recipe's; anything `load_collection` reads.
        progress: where long stages report to.
        cache: the folder of the stores of embeddings and teacher scores.
        sections: recipe sections to replace, as in `mine`.

    Raises:
        FoolsgoldError: bad input, one sentence. MissingExtra: torch is not installed.
    """
    libraries()  # all that training needs is here, or it ends before anything is read
    loop = _Loop(resolved(recipe, sections), out, collection, progress, cache)
    return loop.run()


START = "start"  # of a run's folder: a static student before training, to compare the trained one with


class _Loop:
    def __init__(self, recipe: Recipe, out: str | Path, collection: Any, progress: Progress, cache: Any) -> None:
        from foolsgold.training.student import student_spec

        self._progress, self._cache, out = progress, cache, Path(out)
        self._collection, self._held_out = held_out_parts(recipe, collection, progress)
        self._recipe = recipe.with_values({"collection": self._collection.spec})
        self._regimes = regimes_of(recipe)
        self._student_spec = student_spec(recipe)
        for regime in self._regimes:  # a mistake in the last regime, or its last mining, must not show after hours
            kept = out / "kept.parquet" if recipe.remine is not None and regime.mines_with_student else None
            mining_recipe(self._recipe, regime, self._student_spec, kept)
        student = fetched(locate(self._student_spec.model), with_code=self._student_spec.trust_remote_code)
        facts = {
            "recipe": self._recipe.recorded(by_alias=True),
            "collection": {"name": self._collection.name, "digest": self._collection.digest},
            "held_out": {
                "name": f"{self._held_out.name}, {self._held_out.split}",
                "digest": self._held_out.digest,
                "queries": len(self._held_out.queries),
            },
            "student": {
                "model": self._student_spec.model,
                "fingerprint": fingerprint(student),
                "static": recipe.student.static,
            },
        }
        self._version = _version_of(facts)
        self._folder = out / self._version
        self._facts = facts
        self._set: MinedSet | None = None  # the one opened last

    def run(self) -> Trained:
        with self._alone():
            try:
                return self._run()
            except Exception as error:
                # torch's and safetensors' own errors are no OSError, and do not all say what it is
                is_full = "No space left" in str(error) or (
                    not isinstance(error, FoolsgoldError) and shutil.disk_usage(self._folder).free <= _NO_ROOM
                )
                if not is_full:
                    raise
                raise TrainingError(
                    f"{self._folder}: the disk is full; make room, and the same command goes on where it was"
                ) from error

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse a second run in the same folder: both would write its checkpoints. Processes of one run are one."""
        if not is_first():
            yield
            return
        lock = FileLock(self._folder / ".lock", timeout=0)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise TrainingError(
                f"{self._folder}: another process is training this run; wait for it, or name another --out"
            ) from None
        except OSError as error:
            raise TrainingError(f"{self._folder}: cannot write the run here ({error}); name another --out") from None
        try:
            yield
        finally:
            lock.release()

    def _run(self) -> Trained:
        state = self._opened()
        if state.is_finished:
            if not (self._folder / "model").is_dir():
                raise TrainingError(
                    f"{self._folder}: this run is finished, but its model is gone; delete the folder to train it again"
                )
            log.info("%s: this run is finished; another seed or recipe makes another", self._folder)
            return Trained(self._folder, state)
        self._state = state
        if not state.rounds:
            check_there(self._recipe, self._student_spec, self._collection)
        trainer = self._trainer
        plan = segments_of(self._recipe, trainer.steps_per_epoch)
        if not state.rounds:
            self._record_start()
        elif trainer.newest_step() < state.rounds[-1].stop:
            raise TrainingError(
                f"{self._folder}: the checkpoint of step {state.rounds[-1].stop} is gone, and the run cannot go on "
                "without it; delete the folder to train it again"
            )
        elif state.rounds[-1].outcome in UNDONE and trainer.newest_step() == state.rounds[-1].stop:
            trainer.roll_back(state.best.stop)  # a run that was killed may have only written down that it would
        for segment in plan[len(state.rounds) - 1 :]:
            if state.rounds[-1].outcome == "stopped":
                break
            began = time.perf_counter()
            mined = self._mined_for(segment)
            self._use(mined, self._regimes[segment.regime])
            trainer.train_to(segment.stop, self._progress)
            self._judge(segment, mined, began)
        self._finish()
        return Trained(self._folder, state)

    def _opened(self) -> RunState:
        if (self._folder / "run.json").is_file():
            state = RunState.load(self._folder)
            log.info("%s: going on after %d rounds", self._folder, max(len(state.rounds) - 1, 0))
            return state
        facts = {
            **self._facts,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "libraries": libraries(),
        }
        return RunState(self._version, facts)

    @cached_property
    def _trainer(self) -> SegmentTrainer:
        from foolsgold.training.build import build_trainer

        return build_trainer(
            self._recipe,
            self._collection,
            self._known,
            epochs=self._regimes[-1].to,
            folder=self._folder / "checkpoints",
            cache=self._cache,
            progress=self._progress,
        )

    @cached_property
    def _known(self) -> KnownPositives | None:
        from foolsgold.training.known import KnownPositives

        if not self._recipe.student.masks:
            return None
        known = KnownPositives(self._collection)
        for used in self._state.rounds:
            if used.set_version is not None:
                _mask_false_negatives(known, self._open_set(used.set_version))
        return known

    def _record_start(self) -> None:
        began = time.perf_counter()
        if self._trainer.is_main:
            if self._recipe.student.static:  # what training starts from is nowhere else
                self._trainer.save_student(self._folder / START)
            start = Round(
                regime="start", mining=0, start=0, stop=0, set_version=None, negatives=0, mean_margin=None,
                inverted=None, failed_gates=[], measures=self._evaluate(0).means, delta=None, interval=None,
                p_value=None, outcome="start", seconds=round(time.perf_counter() - began, 2),
            )  # fmt: skip
            self._state.rounds.append(start)
        self._keep()

    def _keep(self) -> None:
        """Write down what the first process has decided, and let the others know."""
        self._state.rounds = self._trainer.shared(self._state.rounds)
        if self._trainer.is_main:
            self._state.save(self._folder)

    def _mined_for(self, segment: Segment) -> MinedSet | None:
        """The set to train a segment on; None for in-batch negatives only."""
        regime = self._regimes[segment.regime]
        earlier = [one for one in self._state.rounds if one.regime == regime.name]
        if any(one.outcome == "rolled back" for one in earlier):  # softened: the negatives that were good before
            best = self._state.best.set_version
            return None if best is None else self._open_set(best)
        if is_in_batch(regime, self._recipe):
            return None
        if earlier and earlier[-1].mining == segment.mining:
            last = earlier[-1].set_version
            return None if last is None else self._open_set(last)
        if self._state.mined is None or self._state.mined[0] != segment.start:
            made = self._mine(segment, earlier).version if self._trainer.is_main else None
            self._state.mined = (segment.start, self._trainer.shared(made))
            self._keep()
        return self._open_set(self._state.mined[1])

    def _mine(self, segment: Segment, earlier: list[Round]) -> MinedSet:
        regime = self._regimes[segment.regime]
        before = earlier[-1].set_version if earlier else None
        kept = self._kept(self._open_set(before), segment) if before is not None else None
        student = self._student_spec.model_copy(  # once saved it says itself how it pools
            update={"model": str(self._student_folder(regime)), "pooling": "auto"}
        )
        recipe = mining_recipe(self._recipe, regime, student, kept)
        embeddings = cache_folder(self._cache) / "embeddings"
        stored = set(embeddings.glob("*"))
        mined = mine(self._collection, recipe, out=self._folder / "sets", progress=self._progress, cache=self._cache)
        mined.report()
        if regime.mines_with_student:  # its vectors, which no other mining will ask for
            made = embeddings / str(mined.manifest.sources["self"].fingerprint)
            if made not in stored:  # but those that were there are another's: the retriever's, that it began as
                shutil.rmtree(made, ignore_errors=True)
        if kept is not None:
            kept.unlink(missing_ok=True)
        self._set = mined
        return mined

    def _student_folder(self, regime: RegimeSpec) -> Path:
        """Where the student as it is now can be loaded from, for a regime that mines with it."""
        folder = (self._folder / "student").resolve()
        if regime.mines_with_student:
            shutil.rmtree(folder, ignore_errors=True)
            self._trainer.load_newest()
            self._trainer.save_student(folder)
        return folder

    def _kept(self, before: MinedSet, segment: Segment) -> Path | None:
        """The negatives of the set before as a run that the next mining reads, best first as they were selected."""
        again = self._recipe.remine
        if again is None or again.overlap == 0.0:
            return None
        table = before.negatives
        if len(table) == 0:
            return None
        order = np.arange(len(table), 0, -1, dtype=np.float32)
        path = self._folder / f"kept-{segment.start}.parquet"
        pq.write_table(table.select(["query_id", "doc_id"]).append_column("score", pa.array(order)), path)
        return path.resolve()

    def _use(self, mined: MinedSet | None, regime: RegimeSpec) -> None:
        self._trainer.rows.swap(mined, 0 if mined is None else negatives_of(regime, self._recipe))
        if mined is not None and self._known is not None:
            _mask_false_negatives(self._known, mined)

    def _judge(self, segment: Segment, mined: MinedSet | None, began: float) -> None:
        """Evaluate the student after a segment, and keep it or roll it back."""
        trainer, state = self._trainer, self._state
        if trainer.is_main:
            state.rounds.append(self._compared(segment, mined, began))
            state.curve = trainer.losses()
            _say(state.rounds, self._recipe.evaluation.decisive)
        self._keep()
        if state.rounds[-1].outcome in UNDONE:
            trainer.roll_back(state.best.stop)
        trainer.keep_only({state.best.stop, trainer.newest_step()})

    def _compared(self, segment: Segment, mined: MinedSet | None, began: float) -> Round:
        spec = self._recipe.evaluation
        best = Evaluation.load(self._evaluation_file(self._state.best.stop))
        try:
            evaluation, diverged = self._evaluate(segment.stop), False
        except Diverged as error:
            log.warning("%s", error)
            nothing = replace(best, values={name: np.zeros_like(values) for name, values in best.values.items()})
            evaluation, diverged = self._written(nothing, segment.stop), True
        compared = evaluation.compare(best, seed=self._recipe.seed)
        change = compared.of(spec.decisive)
        audit = mined.audit() if mined is not None else None
        return Round(
            regime=self._regimes[segment.regime].name,
            mining=segment.mining,
            start=segment.start,
            stop=segment.stop,
            set_version=mined.version if mined is not None else None,
            negatives=len(mined.negatives) if mined is not None else 0,
            mean_margin=audit.mean_margin if audit is not None else None,
            inverted=audit.inverted_share if audit is not None else None,
            failed_gates=[gate.name for gate in audit.gates if gate.verdict == "fail"] if audit is not None else [],
            measures=evaluation.means,
            delta=change.delta,
            interval=change.interval,
            p_value=change.p_value,
            outcome=_outcome(compared, self._recipe, diverged, self._state.best),
            seconds=round(time.perf_counter() - began, 2),
        )

    def _evaluate(self, step: int) -> Evaluation:
        """The student as it is now on the held-out queries, which is also written down."""
        evaluation = evaluate(
            self._trainer.model, self._held_out, measures=self._recipe.evaluation.measures, progress=self._progress
        )
        return self._written(evaluation, step)

    def _written(self, evaluation: Evaluation, step: int) -> Evaluation:
        file = self._evaluation_file(step)
        file.parent.mkdir(parents=True, exist_ok=True)
        evaluation.save(file)
        return evaluation

    def _evaluation_file(self, step: int) -> Path:
        return self._folder / "evaluations" / f"step-{step}.parquet"

    def _open_set(self, version: str) -> MinedSet:
        """The same object as long as no other set is asked for: what it has audited or read it keeps."""
        if self._set is None or self._set.version != version:
            self._set = MinedSet(self._folder / "sets" / version, self._collection)
        return self._set

    def _finish(self) -> None:
        """Put the best model into model/, with what it was made of."""
        trainer, state = self._trainer, self._state
        if trainer.is_main:
            trainer.load(state.best.stop)
            model = self._folder / "model"
            partial = model.with_name(".model")
            shutil.rmtree(partial, ignore_errors=True)
            trainer.save_student(partial)
            lineage = {
                "run": state.version,
                "sets": state.set_versions,
                "evaluation": state.best.measures,
                "before": state.rounds[0].measures,
                "after_steps": state.best.stop,
                **state.facts,
            }
            (partial / "foolsgold.json").write_text(json.dumps(lineage, indent=2) + "\n", encoding="utf-8")
            shutil.rmtree(model, ignore_errors=True)
            partial.rename(model)
            write_report(state, self._folder / "report.html")
            state.is_finished = True
            state.save(self._folder)
            trainer.keep_only(set())
            shutil.rmtree(self._folder / "student", ignore_errors=True)
        trainer.wait_for_everyone()


def _version_of(facts: Mapping[str, Any]) -> str:
    """A hash of what a run depends on, not of where its collection lies."""
    recipe = {name: value for name, value in facts["recipe"].items() if name != "collection"}
    digests = [facts[name]["digest"] for name in ("collection", "held_out")]
    text = json.dumps([recipe, digests, facts["student"]["fingerprint"]], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:12]


def _mask_false_negatives(known: KnownPositives, mined: MinedSet) -> None:
    """From now on, what the teacher holds for positives of a query is no negative of it in any batch."""
    found, of = mined.relabelled, mined.collection
    known.add(of.queries.rows_of(found["query_id"], "query"), of.documents.rows_of(found["doc_id"]))


def _outcome(compared: Comparison, recipe: Recipe, diverged: bool, best: Round) -> Outcome:
    """What a round has brought; diverged: the student finds nothing any more, and training on would not mend it.

    A loss on nothing but scored negatives cannot go on with those of the best model, where that had none.
    """
    spec, student = recipe.evaluation, recipe.student
    softened: Outcome = "rolled back"
    if best.set_version is None and not student.ranks:
        softened = "stopped"
    if diverged:
        return softened if spec.on_regression == "rollback" else "stopped"
    change = compared.of(spec.decisive)
    if change.delta > 0:
        return "best"
    if not compared.is_significant_drop(spec.decisive, alpha=spec.significance):
        return "kept"
    outcomes: dict[str, Outcome] = {"stop": "stopped", "rollback": softened, "continue": "worse"}
    return outcomes[spec.on_regression]


def _say(rounds: list[Round], decisive: str) -> None:
    """What the last round brought, and the first time a set is used the gates that it fails."""
    one = rounds[-1]
    is_new = all(other.set_version != one.set_version for other in rounds[:-1])
    for gate in one.failed_gates if is_new else ():
        log.warning("regime %s: the audit's gate %s fails; see the set's report", one.regime, gate)
    level = logging.WARNING if one.outcome in ("worse", "rolled back", "stopped") else logging.INFO
    log.log(
        level, "regime %s, step %d: %s %.4f (%+.4f, p = %.3f): %s",
        one.regime, one.stop, decisive, one.measures[decisive], one.delta, one.p_value, one.outcome,
    )  # fmt: skip
