"""`mine_hard_negatives` of sentence-transformers 6.2 (docs/drop_in.md), over the pieces that `mine` is made of.

    arguments -> pairs -> embeddings -> nearest documents -> choose -> rows

Importing this loads neither torch nor sentence-transformers: whoever has a model has loaded both. What is printed,
logged and raised for what sentence-transformers prints, logs and raises has its words (Apache-2.0), because scripts
look for them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from foolsgold.compat import arguments as given
from foolsgold.compat.choose import mine
from foolsgold.compat.models import Embeddings, Prompt, teacher_of
from foolsgold.compat.nearest import Nearest
from foolsgold.compat.pairs import pair_up
from foolsgold.compat.rows import examples_of, report, to_dataset

if TYPE_CHECKING:
    from datasets import Dataset
    from sentence_transformers import CrossEncoder, SentenceTransformer

__all__ = ["mine_hard_negatives"]


def mine_hard_negatives(
    dataset: Dataset,
    model: SentenceTransformer,
    anchor_column_name: str | None = None,
    positive_column_name: str | None = None,
    corpus: list[str] | None = None,
    cross_encoder: CrossEncoder | None = None,
    range_min: int = 0,
    range_max: int | None = None,
    max_score: float | None = None,
    min_score: float | None = None,
    absolute_margin: float | None = None,
    relative_margin: float | None = None,
    num_negatives: int = 3,
    sampling_strategy: Literal["random", "top"] = "top",
    query_prompt_name: str | None = None,
    query_prompt: str | None = None,
    corpus_prompt_name: str | None = None,
    corpus_prompt: str | None = None,
    include_positives: bool = False,
    output_format: Literal["triplet", "n-tuple", "labeled-pair", "labeled-list"] = "triplet",
    output_scores: bool = False,
    batch_size: int = 32,
    faiss_batch_size: int = 16384,
    use_faiss: bool = False,
    use_multi_process: list[str] | bool = False,
    verbose: bool = True,
    cache_folder: str | None = None,
    as_triplets: bool | None = None,
    margin: float | None = None,
    *,
    seed: int | None = None,
    ragged: bool = False,
) -> Dataset:
    """Hard negatives for (anchor, positive) rows, as `sentence_transformers.util.mine_hard_negatives` mines them.

    Arguments, rows, columns, messages and errors are those of that function, except for these and what docs/drop_in.md
    lists.

    Args:
        cross_encoder: scores candidates if there is a threshold; without one it only scores what is put out.
        range_min, range_max: ranks by the model's score, over what is not a known positive, before thresholds.
        relative_margin: 0.05 is TopK-PercPos at 95 % of NV-Retriever (Moreira et al. 2024, section 3).
        use_faiss: caps a default range_max at what faiss finds on a GPU. The search is `fg.search.top_k` either way.
        cache_folder: keeps the cross-encoder's scores too; both are kept under the models' contents.
        seed: of `random`, from 0 to 2**64 - 1. None: drawn from Python's `random`, which `random.seed` then governs.
        ragged: keep n-tuples of fewer negatives than num_negatives, with nulls for the others.
    """
    given.check(dataset, faiss_batch_size, use_faiss, sampling_strategy, seed)
    anchor, positive = given.columns_of(dataset, anchor_column_name, positive_column_name)
    if include_positives:
        limits = (range_max, max_score, min_score, absolute_margin, relative_margin, margin)
        given.warn_of_lost_positives(range_min, sampling_strategy, *limits)
    format, scores = given.format_of(output_format, output_scores, as_triplets, include_positives)
    absolute_margin = absolute_margin if margin is None else given.absolute_margin_of(margin)
    thresholds = given.Thresholds(absolute_margin, relative_margin, max_score, min_score)
    anchors = given.strings_of(dataset[anchor], f"dataset, column {anchor!r}")
    positives = given.strings_of(dataset[positive], f"dataset, column {positive!r}")
    rows_per_query = list(Counter(anchors).values())
    most, rescored = max(rows_per_query), cross_encoder is not None
    ranks = given.range_of(
        range_min, range_max, num_negatives, thresholds,
        most_positives=most, rescored=rescored, use_faiss=use_faiss, verbose=verbose,
    )  # fmt: skip
    pairs = pair_up(anchors, positives, None if corpus is None else given.strings_of(corpus, "corpus"))
    if verbose and most > 1:
        print(f"Found {len(pairs.queries)} unique queries out of {len(anchors)} total queries.")
        print(f"Found an average of {np.mean(rows_per_query):.3f} positives per query.")
    prompts = Prompt(corpus_prompt, corpus_prompt_name), Prompt(query_prompt, query_prompt_name)
    documents, queries = Embeddings(model, cache_folder, batch_size, use_multi_process, verbose).of(pairs, *prompts)
    plan = given.Plan(
        ranks, thresholds, num_negatives, sampling_strategy, given.seed_of(seed, sampling_strategy), include_positives,
        format, scores, ragged, verbose,
    )  # fmt: skip
    bar = "Querying FAISS index" if use_faiss else "Computing similarity scores"
    reader = cross_encoder, thresholds.any or scores, cache_folder, batch_size, use_multi_process
    with teacher_of(*reader) as teacher:
        starts = range(0, len(queries), faiss_batch_size)
        blocks = (Nearest(model, documents, queries[start : start + faiss_batch_size]) for start in starts)
        mined = mine(plan, pairs, blocks, teacher, bar)
    if verbose:
        print("Negative candidates mined, preparing dataset...")
    examples = examples_of(mined, pairs, plan)
    found = to_dataset(examples, plan, anchor, positive)
    if verbose:
        report(examples, found, mined, plan, len(dataset))
    return found
