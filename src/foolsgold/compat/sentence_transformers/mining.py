"""START HERE: `mine_hard_negatives`, the arguments of sentence-transformers 6.2 and the order of the steps."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

import numpy as np

from foolsgold.compat.sentence_transformers import report, settings
from foolsgold.compat.sentence_transformers.blocks import Blocks, Rules
from foolsgold.compat.sentence_transformers.nearest import Nearest
from foolsgold.compat.sentence_transformers.pairs import columns_of, pair_up, rows_a_query, strings_of
from foolsgold.compat.sentence_transformers.rescore import Rescorer
from foolsgold.compat.sentence_transformers.rows import to_dataset
from foolsgold.compat.sentence_transformers.settings import Thresholds
from foolsgold.compat.sentence_transformers.vectors import Embeddings, Prompt, pool_of
from foolsgold.progress import Bars

if TYPE_CHECKING:
    from datasets import Dataset
    from sentence_transformers import CrossEncoder, SentenceTransformer


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
    """Hard negatives for a dataset of (anchor, positive) rows, as `sentence_transformers.util.mine_hard_negatives`.

    The same arguments give the same rows, columns, messages and errors but for what docs/drop_in.md lists. `seed` and
    `ragged` are ours.

    Example:
        >>> from foolsgold.compat.sentence_transformers import mine_hard_negatives
        >>> mined = mine_hard_negatives(dataset, model, relative_margin=0.05, num_negatives=5)

    Args:
        dataset: rows of an anchor and a positive; all positives of equal anchors are positives of that anchor.
        model: embeds texts, by `encode_query` and `encode_document`, and compares them, by `similarity`.
        anchor_column_name, positive_column_name: null: the first and the second column.
        corpus: documents to find negatives in, beside the positives.
        cross_encoder: scores candidates in the model's place, if there is a threshold: the thresholds and all scores
            are then in the scale of its `predict`. Without a threshold it scores what is put out.
        range_min, range_max: ranks of the candidates to consider, from range_min on and below range_max, counted from 0
            over what is no known positive, before thresholds. null: range_min and num_negatives (10 times as many, if
            a threshold may drop some) and the most positives of any anchor.
        max_score, min_score: keep scores up to, and from, this.
        absolute_margin: keeps scores up to the positive's less this; with several positives the lowest counts.
        relative_margin: keeps scores up to the positive's less this share of its magnitude. 0.05 is TopK-PercPos at
            95 % of NV-Retriever (Moreira et al. 2024, section 3).
        num_negatives: of each anchor, at most.
        sampling_strategy: `top`: the highest scores that are left. `random`: drawn from them.
        query_prompt_name, query_prompt, corpus_prompt_name, corpus_prompt: as `encode` takes them.
        include_positives: rank the positives among the negatives, as an n-tuple.
        output_format: `triplet`, `n-tuple`, `labeled-pair` or `labeled-list`.
        output_scores: add `scores` [positive, negative, ...], or put `score` or `scores` in place of labels.
        batch_size: texts (and pairs) run together.
        faiss_batch_size: queries searched together.
        use_faiss: caps a default range_max at what faiss finds on a GPU. The search is `fg.search.top_k` either way.
        use_multi_process: True, or devices, to encode and score in several processes.
        verbose: print statistics.
        cache_folder: keeps embeddings and the cross-encoder's scores, by the models' contents, prompts and texts.
        as_triplets, margin: deprecated, for `output_format` and `absolute_margin`.
        seed: of `random`, from 0 to 2**64 - 1. null: drawn from Python's `random`, which `random.seed` then governs.
        ragged: keep n-tuples of fewer negatives than num_negatives, with nulls for the others.

    Returns:
        The columns of anchor and positive under their own names, and:
        `triplet`: negative[, scores]. `n-tuple`: negative_1 .. negative_n[, scores]. `labeled-pair`: label or score.
        `labeled-list`, whose positive column holds lists: labels or scores.

    Raises:
        ValueError: arguments out of range, as sentence-transformers says it.
        CollectionError: no such column, or a value that is no text.
        SourceError, TeacherError: a model gave vectors or scores that are not finite numbers.
        ImportError: use_faiss without faiss.
    """
    if len(dataset) == 0:
        raise ValueError("The dataset is empty. Please provide a non-empty dataset.")
    if faiss_batch_size <= 0:
        raise ValueError(f"faiss_batch_size must be a positive integer, got {faiss_batch_size}.")
    if use_faiss:
        settings.need_faiss()
    settings.check_sampling(sampling_strategy, seed)
    anchor_column, positive_column = columns_of(dataset, anchor_column_name, positive_column_name)
    changed = (range_max, max_score, min_score, absolute_margin, relative_margin, margin)
    if include_positives and (range_min != 0 or sampling_strategy != "top" or any(c is not None for c in changed)):
        settings.warn_of_lost_positives()
    format, output_scores = settings.format_of(output_format, output_scores, as_triplets, include_positives)
    if margin is not None:
        absolute_margin = settings.absolute_margin_of(margin)
    thresholds = Thresholds(absolute_margin, relative_margin, max_score, min_score)

    anchors = strings_of(dataset[anchor_column], f"dataset, column {anchor_column!r}")
    positives = strings_of(dataset[positive_column], f"dataset, column {positive_column!r}")
    rows_of_queries = rows_a_query(anchors)
    ranks = settings.range_of(
        range_min,
        range_max,
        num_negatives,
        thresholds,
        most_positives=max(rows_of_queries),
        rescored=cross_encoder is not None,
        use_faiss=use_faiss,
        verbose=verbose,
    )
    pairs = pair_up(anchors, positives, None if corpus is None else strings_of(corpus, "corpus"))
    if verbose and len(pairs.queries) != len(anchors):
        print(f"Found {len(pairs.queries)} unique queries out of {len(anchors)} total queries.")
    if verbose and max(rows_of_queries) > 1:
        print(f"Found an average of {np.mean(rows_of_queries):.3f} positives per query.")

    embeddings = Embeddings(
        model, cache_folder, batch_size=batch_size, use_multi_process=use_multi_process, verbose=verbose
    )
    of_documents, of_queries = Prompt(corpus_prompt, corpus_prompt_name), Prompt(query_prompt, query_prompt_name)
    documents, queries = embeddings.of(pairs.documents, of_documents, pairs.queries, of_queries)
    if seed is None:
        seed = random.getrandbits(64) if sampling_strategy == "random" else 0
    rules = Rules(
        ranks=ranks,
        thresholds=thresholds,
        n=num_negatives,
        sampling=sampling_strategy,
        seed=seed,
        include_positives=include_positives,
        wants_scores=output_scores,
        wants_statistics=verbose,
    )
    with ExitStack() as stack:
        rescorer = None
        if cross_encoder is not None and (thresholds.any or output_scores):
            pool = stack.enter_context(pool_of(cross_encoder, use_multi_process))
            rescorer = Rescorer(cross_encoder, pairs, cache_folder, batch_size=batch_size, pool=pool, progress=Bars())
            stack.callback(rescorer.close)
        elif cross_encoder is not None:
            settings.warn_of_idle_cross_encoder()
        blocks = Blocks(pairs, rules, rescorer)
        bar = "Querying FAISS index" if use_faiss else "Computing similarity scores"
        for start in range(0, len(pairs.queries), faiss_batch_size):
            nearest = Nearest(model, documents, queries[start : start + faiss_batch_size])
            blocks.add(start, nearest, Bars(), bar)
    if verbose:
        print("Negative candidates mined, preparing dataset...")
    mined = blocks.mined
    found = to_dataset(
        mined, format, num_negatives, anchor_column, positive_column, scores=output_scores, ragged=ragged
    )
    if verbose:
        report.print_scores(mined.examples(format, num_negatives, ragged))
        report.print_skipped(blocks.skipped, blocks.looked_at, thresholds)
        possible = len(pairs.positives)
        if format == "triplet":
            possible *= num_negatives
        elif format == "labeled-pair":
            possible = len(pairs.queries) * num_negatives + len(dataset)
        report.print_missing(possible - len(found), possible, thresholds, range_min=range_min)
    return found
