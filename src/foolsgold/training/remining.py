"""The mined set of each segment: mined now, with the student where the regime says so, or one that is there already."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from foolsgold.files import cache_folder
from foolsgold.mined.mined_set import MinedSet
from foolsgold.mining.mine import mine
from foolsgold.recipe import Recipe, RegimeSpec
from foolsgold.training.curriculum import Segment
from foolsgold.training.job import Job
from foolsgold.training.regimes import is_in_batch, mining_recipe
from foolsgold.training.run import Round, RunState
from foolsgold.training.trainer import SegmentTrainer


class SegmentSets:
    """The mined sets of a run, in its folder."""

    def __init__(self, job: Job, folder: Path, trainer: SegmentTrainer, state: RunState) -> None:
        self._job, self._folder = job, folder
        self._trainer, self._state = trainer, state
        self._open: MinedSet | None = None  # the one opened last

    def of(self, segment: Segment) -> MinedSet | None:
        """The set to train a segment on; None for in-batch negatives only."""
        regime = self._job.regimes[segment.regime]
        earlier = [one for one in self._state.rounds if one.regime == regime.name]
        if any(one.outcome == "rolled back" for one in earlier):  # softened: the negatives that were good before
            return self._opened(self._state.best.set_version)
        if is_in_batch(regime, self._job.recipe):
            return None
        if earlier and earlier[-1].mining == segment.mining:
            return self._opened(earlier[-1].set_version)
        if self._state.mined is None or self._state.mined[0] != segment.start:
            made = self._mine(segment, earlier).version if self._trainer.is_main else None
            self._state.mined = (segment.start, self._trainer.shared(made))
            self._state.share(self._trainer, self._folder)
        return self._opened(self._state.mined[1])

    def _opened(self, version: str | None) -> MinedSet | None:
        """The same object as long as no other set is asked for: what it has audited or read it keeps."""
        if version is None:
            return None
        if self._open is None or self._open.version != version:
            self._open = MinedSet(self._folder / "sets" / version, self._job.collection)
        return self._open

    def _mine(self, segment: Segment, earlier: list[Round]) -> MinedSet:
        regime = self._job.regimes[segment.regime]
        before = self._opened(earlier[-1].set_version) if earlier else None
        kept = self._kept_of(before, segment) if before is not None else None
        recipe = self._recipe(regime, kept)
        embeddings = cache_folder(self._job.cache) / "embeddings"
        stored = set(embeddings.glob("*"))
        mined = mine(
            self._job.collection,
            recipe,
            out=self._folder / "sets",
            progress=self._job.progress,
            cache=self._job.cache,
        )
        mined.report()
        if regime.mines_with_student:  # its vectors, which no other mining will ask for
            made = embeddings / str(mined.manifest.sources["self"].fingerprint)
            if made not in stored:  # vectors that were there before are the retriever's, which the student started as
                shutil.rmtree(made, ignore_errors=True)
        if kept is not None:
            kept.unlink(missing_ok=True)
        self._open = mined
        return mined

    def _recipe(self, regime: RegimeSpec, kept: Path | None) -> Recipe:
        """The recipe of a mining; where the student is a source, it is saved first, as it is now."""
        folder = (self._folder / "student").resolve()
        if regime.mines_with_student:
            shutil.rmtree(folder, ignore_errors=True)
            self._trainer.load_newest()
            self._trainer.save_student(folder)
        # a saved student says itself how it pools
        student = self._job.student.model_copy(update={"model": str(folder), "pooling": "auto"})
        return mining_recipe(self._job.recipe, regime, student, kept)

    def _kept_of(self, before: MinedSet, segment: Segment) -> Path | None:
        """The negatives of the previous set as a run file that the next mining reads, in the order of selection."""
        again, table = self._job.recipe.remine, before.negatives
        if again is None or again.overlap == 0.0 or len(table) == 0:
            return None
        order = np.arange(len(table), 0, -1, dtype=np.float32)
        path = self._folder / f"kept-{segment.start}.parquet"
        pq.write_table(table.select(["query_id", "doc_id"]).append_column("score", pa.array(order)), path)
        return path.resolve()
