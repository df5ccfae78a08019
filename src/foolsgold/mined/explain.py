"""One candidate's whole story, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.compute as pc

from foolsgold.errors import MinedSetError
from foolsgold.mined.folder import MinedFolder

_REASONS = {
    "known_positive": "it is a known positive of this query",
    "duplicate_of_positive": "its text is that of a known positive, except for case and white space",
    "near_duplicate_of_positive": "it is nearly the same text as a known positive",
    "query_itself": "its text is the query's own",
    "empty_text": "it has no text",
    "duplicate_of_candidate": "another candidate of this query has the same text",
    "outside_window": "its rank lies outside the window of every source that found it",
    "below_negative_threshold": "{score} is below {threshold} ({negative_below})",
    "between_thresholds": "{score} is from negative_below ({negative_below}) to positive_above ({positive_above})",
    "judge_says_negative": "the teacher is in doubt, and the judge says that it does not answer the query",
    "judge_says_positive": "the teacher is in doubt, and the judge says that it answers the query",
    "above_positive_threshold": "{score} is above decide.positive_above ({positive_above})",
    "above_positive_percentile": "its score is not below percentile {positive_percentile} of all positives' scores",
    "within_absolute_margin": "its score is less than {absolute_margin} below the positive's",
    "within_relative_margin": "its score is above {relative_margin} of the positive's",
    "passed_every_rule": "no rule speaks against it",
    "no_filter": "nothing was asked: the recipe has no teacher and no rule that could tell a false negative",
    "not_needed": "the query had its negatives before this candidate's turn came",
}


@dataclass(frozen=True)
class Explanation:
    """What happened to one candidate. `str` of it is the story; `row` is its line in the ledger."""

    query_id: str
    doc_id: str
    row: Mapping[str, Any]
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @classmethod
    def of(cls, mined: MinedFolder, query_id: str, doc_id: str) -> Explanation:
        """From the ledger of a set.

        Raises:
            MinedSetError: no such query in the ledger, or no source proposed that document for it.
        """
        ledger, sources = mined.ledger(query_id), list(mined.manifest.sources)
        if len(ledger) == 0:
            raise MinedSetError(
                f"no candidate was found for a query {query_id!r}: not mined, or no source found anything"
            )
        rows = ledger.filter(pc.equal(ledger["doc_id"], doc_id)).to_pylist()
        if not rows:
            raise MinedSetError(
                f"no source proposed document {doc_id!r} for query {query_id!r}; "
                f"it is below the depth of {', '.join(sources)}, or not in the corpus"
            )
        stories = [sentence for row in rows for sentence in _story(row, sources, mined)]
        return cls(query_id, doc_id, rows[0], tuple(stories))


def _story(row: Mapping[str, Any], sources: list[str], mined: MinedFolder) -> list[str]:
    teacher = mined.manifest.teacher
    found = [
        f"{source} at rank {row[f'{source}_rank'] + 1} (score {row[f'{source}_score']:.4g})"
        for source in sources
        if row[f"{source}_rank"] is not None
    ]
    story = [f"Query {row['query_id']}, document {row['doc_id']}: found by {' and '.join(found)}."]
    if row["positive_id"] is not None:
        story[0] = story[0][:-1] + f", as a negative beside the positive {row['positive_id']}."
    if row["teacher_score"] is not None and teacher is not None:
        positive = row["positive_score"]
        beside = "" if positive is None else f"; the positive has {positive:.4g}"
        story.append(f"The teacher gives it {row['teacher_score']:.4g} ({teacher.scale}){beside}.")
    if row.get("judge_probability") is not None:
        story.append(f"The calibrated probability that it is relevant is {row['judge_probability']:.3f}.")
    judged = row.get("judge_probability") is not None  # thresholds are then the calibration's, on its probability
    named = {
        "score": "that probability" if judged else "its score",
        "threshold": "the calibrated threshold" if judged else "decide.negative_below",
    }
    why = _REASONS[row["reason"]].format(**asdict(mined.limits), **named)
    story.append(f"Verdict: {row['verdict'].replace('_', ' ')}, because {why}.")
    if row["selected"]:
        weight = "" if row["weight"] == 1.0 else f", with weight {row['weight']:.2g}"
        story.append(f"Selected, from the quota of {row['source']}{weight}.")
    elif row["weight"] is not None and row["weight"] > 0:
        story.append("Not selected: the budget was full before its turn came.")
    return story
