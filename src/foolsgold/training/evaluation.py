"""Evaluation during training, in the form that sentence-transformers' trainer calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sentence_transformers.base.evaluation import BaseEvaluator

from foolsgold.evaluation.evaluate import MEASURES, Evaluation, evaluate
from foolsgold.progress import SILENT, Progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from foolsgold.collection import Collection


class RetrievalEvaluator(BaseEvaluator):
    """`evaluator=` of a SentenceTransformerTrainer: `evaluate` with the model as it is at that step.

    The whole corpus is encoded and searched each time, since a measure on part of a corpus is another measure. What
    makes it cheaper is fewer queries, or a smaller collection.

    Args:
        collection: judged queries that the model is not trained on.
        measures: as `evaluate` takes them; the first is the `primary_metric`, for `metric_for_best_model`.
        limit: only the first so many queries.
        query_prompt, document_prompt: None: the model's own.
        name: put before the names of the measures in the trainer's log.
        progress: where encoding and searching report to.

    Attributes:
        history: one Evaluation per call, in order; `history[-1].compare(history[0])` shows what training changed.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        measures: Iterable[Any] = MEASURES,
        limit: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        name: str = "",
        progress: Progress = SILENT,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if limit is not None and limit < len(collection.queries):
            collection = collection.with_queries(np.arange(limit))
        self.name = name
        self.history: list[Evaluation] = []
        self._collection = collection
        self._measures = [measures] if isinstance(measures, str) else list(measures)
        self._prompts = {"query_prompt": query_prompt, "document_prompt": document_prompt}
        self._progress = progress
        self.primary_metric = "_".join(filter(None, (name, str(self._measures[0]))))

    def __call__(  # type: ignore[override]  # it is for models with one vector a text
        self, model: SentenceTransformer, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """The mean of each measure, by name.

        output_path: a folder to save each query's values in, as NAME_step-STEP.parquet; steps: -1 outside of training.
        """
        found = evaluate(model, self._collection, measures=self._measures, progress=self._progress, **self._prompts)
        self.history.append(found)
        if output_path is not None:
            when = "now" if steps == -1 else f"step-{steps}"
            found.save(Path(output_path) / f"{self.name or 'retrieval'}_{when}.parquet")
        means: dict[str, float] = self.prefix_name_to_metrics(found.means, self.name)
        self.store_metrics_in_model_card_data(model, means, epoch, steps)
        return means

    def get_config_dict(self) -> dict[str, Any]:
        """The evaluator's settings, for the model card."""
        about = {"collection": f"{self._collection.name}, {self._collection.split}"}
        return about | {name: prompt for name, prompt in self._prompts.items() if prompt is not None}
