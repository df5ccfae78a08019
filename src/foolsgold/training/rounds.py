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
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from foolsgold.errors import FoolsgoldError, TrainingError
from foolsgold.mined.mined_set import MinedSet
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import Recipe
from foolsgold.training.curriculum import Segment
from foolsgold.training.job import Job, version_of
from foolsgold.training.launch import is_first, libraries
from foolsgold.training.outcomes import HeldOutQueries, announce
from foolsgold.training.regimes import negatives_of, segments_of
from foolsgold.training.report import write_report
from foolsgold.training.run import UNDONE, Round, RunState

if TYPE_CHECKING:
    from foolsgold.training.known import KnownPositives
    from foolsgold.training.remining import SegmentSets
    from foolsgold.training.trainer import SegmentTrainer

log = logging.getLogger(__name__)

START = "start"  # of a run's folder: a static student before training, to compare the trained one with
_NO_ROOM = 1 << 20  # bytes that are left on a disk on which a checkpoint cannot be written


@dataclass(frozen=True)
class Trained:
    """A finished run of training: its folder and its record."""

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
        """The student before training, then one round per segment."""
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

    The same recipe on the same collection is the same run: a run that was stopped is resumed, a finished run is
    returned. Several processes (torchrun) train together; the first mines and evaluates.

    Args:
        recipe: a Recipe, its plain values, or a YAML file.
        out: the folder that the run's own folder is made in.
        collection: instead of the recipe's; anything that `load_collection` reads.
        progress: where long stages report to.
        cache: the folder of the stores of embeddings and teacher scores.
        sections: recipe sections to replace, as in `mine`.

    Raises:
        FoolsgoldError: bad input, one sentence. MissingExtra: torch is not installed.
    """
    job = Job.prepared(recipe, sections, collection, progress, cache)
    facts = job.facts()
    folder = Path(out) / version_of(facts)
    with _alone(folder), _full_disk_explained(folder):
        state = _opened(folder, facts)
        if state.is_finished:
            log.info("%s: this run is finished; another seed or recipe makes another", folder)
        else:
            _Loop(job, folder, state).run()
        return Trained(folder, state)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Refuse a second run in the same folder: both would write its checkpoints. Processes of one run are one."""
    if not is_first():
        yield
        return
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise TrainingError(
            f"{folder}: another process is training this run; wait for it, or name another --out"
        ) from None
    except OSError as error:
        raise TrainingError(f"{folder}: cannot write the run here ({error}); name another --out") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _full_disk_explained(folder: Path) -> Iterator[None]:
    """Turn whatever a full disk makes a library raise into one sentence."""
    try:
        yield
    except Exception as error:
        # errors of torch and safetensors are not OSErrors, and not all of them say what is wrong
        is_full = "No space left" in str(error) or (
            not isinstance(error, FoolsgoldError) and shutil.disk_usage(folder).free <= _NO_ROOM
        )
        if not is_full:
            raise
        raise TrainingError(f"{folder}: the disk is full; make room, and the same command resumes the run") from error


def _opened(folder: Path, facts: Mapping[str, Any]) -> RunState:
    """The run that is in the folder, or a new one."""
    if not (folder / "run.json").is_file():
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return RunState(folder.name, {**facts, "created": created, "libraries": libraries()})
    state = RunState.load(folder)
    log.info("%s: resuming after %d rounds", folder, max(len(state.rounds) - 1, 0))
    if state.is_finished and not (folder / "model").is_dir():
        raise TrainingError(
            f"{folder}: this run is finished, but its model is gone; delete the folder to train it again"
        )
    return state


class _Loop:
    """A run that is not finished: from its newest round to its model."""

    def __init__(self, job: Job, folder: Path, state: RunState) -> None:
        self._job, self._folder, self._state = job, folder, state
        self._held_out = HeldOutQueries(job, folder)

    def run(self) -> None:
        """Train what is left of the schedule, segment by segment, and save the best model."""
        state = self._state
        if not state.rounds:
            self._job.check_models()
        segments = segments_of(self._job.recipe, self._trainer.steps_per_epoch)
        self._begin_or_resume()
        for segment in segments[len(state.rounds) - 1 :]:
            if state.rounds[-1].outcome == "stopped":
                break
            began = time.perf_counter()
            mined = self._sets.of(segment)
            self._train(segment, mined)
            self._keep_or_roll_back(segment, mined, began)
        self._finish()

    @cached_property
    def _trainer(self) -> SegmentTrainer:
        from foolsgold.training.build import build_trainer

        return build_trainer(
            self._job.recipe,
            self._job.collection,
            self._known,
            epochs=self._job.regimes[-1].to,
            folder=self._folder / "checkpoints",
            cache=self._job.cache,
            progress=self._job.progress,
        )

    @cached_property
    def _sets(self) -> SegmentSets:
        from foolsgold.training.remining import SegmentSets

        return SegmentSets(self._job, self._folder, self._trainer, self._state)

    @cached_property
    def _known(self) -> KnownPositives | None:
        """What no batch may count as a negative: known positives, and false negatives of the sets used so far."""
        from foolsgold.training.known import KnownPositives

        if not self._job.recipe.student.masks:
            return None
        known = KnownPositives(self._job.collection)
        for used in dict.fromkeys(one.set_version for one in self._state.rounds):
            if used is not None:
                _mask_false_negatives(known, MinedSet(self._folder / "sets" / used, self._job.collection))
        return known

    def _begin_or_resume(self) -> None:
        state, trainer = self._state, self._trainer
        if not state.rounds:
            if trainer.is_main:
                if self._job.recipe.student.static:  # the start of its training is saved nowhere else
                    trainer.save_student(self._folder / START)
                state.rounds.append(self._held_out.first_round(trainer.model))
            state.share(trainer, self._folder)
        elif trainer.newest_step() < state.rounds[-1].stop:
            raise TrainingError(
                f"{self._folder}: the checkpoint of step {state.rounds[-1].stop} is gone, and the run cannot continue "
                "without it; delete the folder to train it again"
            )
        elif state.rounds[-1].outcome in UNDONE and trainer.newest_step() == state.rounds[-1].stop:
            trainer.roll_back(state.best.stop)  # a run that was killed may only have written down that it would

    def _train(self, segment: Segment, mined: MinedSet | None) -> None:
        regime = self._job.regimes[segment.regime]
        self._trainer.rows.swap(mined, 0 if mined is None else negatives_of(regime, self._job.recipe))
        if mined is not None and self._known is not None:
            _mask_false_negatives(self._known, mined)
        self._trainer.train_to(segment.stop, self._job.progress)

    def _keep_or_roll_back(self, segment: Segment, mined: MinedSet | None, began: float) -> None:
        trainer, state = self._trainer, self._state
        if trainer.is_main:
            state.rounds.append(self._held_out.round_after(segment, mined, trainer.model, state.best, began))
            state.curve = trainer.losses()
            announce(state.rounds, state.decisive)
        state.share(trainer, self._folder)
        if state.rounds[-1].outcome in UNDONE:
            trainer.roll_back(state.best.stop)
        trainer.keep_only({state.best.stop, trainer.newest_step()})

    def _finish(self) -> None:
        """Put the best model into model/, with foolsgold.json, which says what it was made of."""
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


def _mask_false_negatives(known: KnownPositives, mined: MinedSet) -> None:
    """From now on, false negatives that the teacher found for a query are not its negatives in any batch."""
    found, of = mined.relabelled, mined.collection
    known.add(of.queries.rows_of(found["query_id"], "query"), of.documents.rows_of(found["doc_id"]))
