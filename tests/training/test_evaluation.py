"""The evaluator in sentence-transformers' own trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sentence_transformers", reason="needs the torch extra")
pytest.importorskip("accelerate", reason="needs the torch extra")

import small_training as small

from foolsgold.evaluation.result import Evaluation
from foolsgold.training.evaluation import RetrievalEvaluator


def _student(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(small.student(folder)), device="cpu")


def test_the_trainer_logs_it_keeps_the_best_step_and_history_is_compared(tmp_path: Path) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    collection = small.collection()
    rows = range(len(collection.queries))
    positives = [collection.positives(row)[0] for row in rows]
    pairs = Dataset.from_dict(
        {"anchor": collection.queries.take(rows), "positive": collection.documents.take(positives)}
    )
    student = _student(tmp_path / "student")
    evaluator = RetrievalEvaluator(collection, measures=("nDCG@10", "MRR@10"), name="toy")
    before = evaluator(student)
    trainer = SentenceTransformerTrainer(
        model=student,
        args=SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path / "out"),
            num_train_epochs=4,
            per_device_train_batch_size=16,
            learning_rate=0.1,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model=f"eval_{evaluator.primary_metric}",
            report_to="none",
            use_cpu=True,
        ),
        train_dataset=pairs,
        loss=MultipleNegativesRankingLoss(student),
        evaluator=evaluator,
    )
    trainer.train()
    assert len(evaluator.history) == 5
    logged = [entry["eval_toy_nDCG@10"] for entry in trainer.state.log_history if "eval_toy_nDCG@10" in entry]
    means = [one.means["nDCG@10"] for one in evaluator.history]
    assert means == pytest.approx([before["toy_nDCG@10"], *logged])
    assert trainer.state.best_metric == max(logged)
    assert evaluator.history[-1].compare(evaluator.history[0]).of("nDCG@10").delta > 0.1
    saved = sorted((tmp_path / "out" / "eval").glob("toy_step-*.parquet"), key=lambda path: len(path.name))
    assert len(saved) == 4
    assert {Evaluation.load(path).means["nDCG@10"] for path in saved} == set(means[1:])
    student.save(str(tmp_path / "trained"))  # writes the model card, which names the evaluator
    assert "toy_nDCG@10" in (tmp_path / "trained" / "README.md").read_text(encoding="utf-8")


def test_the_first_queries_are_enough_where_a_limit_says_so(tmp_path: Path) -> None:
    student, collection = _student(tmp_path / "student"), small.collection()
    limited, whole = RetrievalEvaluator(collection, limit=10), RetrievalEvaluator(collection)
    limited(student)
    whole(student)
    few, all_of_them = limited.history[0], whole.history[0]
    assert few.query_ids == all_of_them.query_ids[:10]
    np.testing.assert_array_equal(few.values["MAP"], all_of_them.values["MAP"][:10])


def test_the_first_measure_is_the_primary_one_and_prompts_are_passed_on(tmp_path: Path) -> None:
    student = _student(tmp_path / "student")
    evaluator = RetrievalEvaluator(small.collection(), measures=("MAP", "P@5"), query_prompt="one ")
    assert list(evaluator(student)) == ["MAP", "P@5"]
    assert evaluator.primary_metric == "MAP"
    assert evaluator.greater_is_better
    assert evaluator.history[0].about["query_prompt"] == "one "
    assert evaluator.get_config_dict() == {"collection": "toy, train", "query_prompt": "one "}
