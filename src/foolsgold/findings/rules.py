"""The rules: one code, one sentence why, one fix. A code never changes its meaning and is never used again.

A new rule is a function in the file of what it looks at (recipe, sets, models), and an entry here and in docs/check.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from foolsgold.findings import models, recipe, sets
from foolsgold.findings.finding import Finding, Level, Said, Unchecked, Unknown
from foolsgold.findings.subject import Subject


@dataclass(frozen=True)
class Rule:
    """One anti-pattern. A look that yields nothing has found nothing wrong.

    level: an error harms the model or makes its evidence worthless; a warning could be better, or lacks evidence.
    why, fix: one sentence each. reads_sets: it reads the tables of a set, so of a run it looks at each set too.
    """

    code: str
    name: str
    level: Level
    why: str
    fix: str
    look: Callable[[Subject], Said]
    reads_sets: bool = False

    def __str__(self) -> str:
        return f"{self.code} {self.name} ({self.level})\n\n{self.why}\n\nFix: {self.fix}"

    def to_json(self) -> dict[str, Any]:
        """What --explain prints, by name."""
        return {"code": self.code, "name": self.name, "level": self.level, "why": self.why, "fix": self.fix}

    def check(self, subject: Subject) -> Iterator[Finding | Unchecked]:
        """What the rule says of one thing."""
        try:
            for said in self.look(subject):
                if isinstance(said, Unknown):
                    yield Unchecked(self.code, subject.place, str(said))
                else:
                    yield Finding(self.code, self.level, f"{subject.place}: {said.at}", said.said, self.fix)
        except Unknown as why:
            yield Unchecked(self.code, subject.place, str(why))


RULES: tuple[Rule, ...] = (
    Rule(
        "FG001", "unfiltered-neighbours", "error",
        "A third to two thirds of a query's nearest passages are unlabelled positives; without a teacher or a margin "
        "they are trained on as negatives.",
        "Set `teacher`, or at least `decide.relative_margin`.",
        recipe.unfiltered,
    ),
    Rule(
        "FG002", "nearest-only", "error",
        "The nearest passages are the most likely to be unlabelled positives, and a query with one negative has no "
        "other to make up for a false one.",
        "Set `teacher`, start `sources.dense.window` later, or raise `select.per_query`.",
        recipe.nearest_only,
    ),
    Rule(
        "FG003", "no-curriculum", "warning",
        "Negatives that are hard for a model that does not change soon teach the student nothing more (Xiong et al., "
        "ANCE, ICLR 2021).",
        "Give `schedule` regimes that grow harder: bm25, then dense_ce_0.5, then self_ce_0.3 with `remine`.",
        recipe.no_curriculum,
    ),
    Rule(
        "FG004", "unmasked-batch", "error",
        "The other rows' documents are negatives too, so a passage that answers two queries of a batch is pushed away "
        "from both.",
        "Set `student.masks: true`, and `student.batches: no_duplicates`.",
        recipe.unmasked,
    ),
    Rule(
        "FG005", "weak-teacher", "error",
        "A teacher that is no better than the student drops true negatives and keeps false ones.",
        "Take a stronger `teacher.model`, such as a cross-encoder trained on texts like these.",
        models.weak_teacher,
    ),
    Rule(
        "FG006", "no-cap", "warning",
        "With more than about 8 negatives per query training gains nothing, and false negatives are still added.",
        "Set `select.per_query` and `select.cap` to 8 or less.",
        recipe.over_cap, reads_sets=True,
    ),
    Rule(
        "FG007", "no-remining", "warning",
        "Negatives that the student found show what it got wrong then, not what it gets wrong an epoch later.",
        "Set `remine: {every: 1 epoch}`.",
        recipe.stale_self,
    ),
    Rule(
        "FG008", "unvalidated-threshold", "warning",
        "What a score of 0.3 means differs between teachers and between collections.",
        "Label 100 pairs (`foolsgold label SET`), and set `decide.calibration` to what `foolsgold calibrate` writes.",
        sets.unvalidated,
    ),
    Rule(
        "FG009", "score-scale", "error",
        "A threshold on another scale than the scores keeps everything, or nothing.",
        "Set `teacher.scale` to what the scores are, and the thresholds of `decide` on that scale.",
        recipe.off_scale, reads_sets=True,
    ),
    Rule(
        "FG010", "teacher-is-retriever", "error",
        "A model that scores what it found itself makes the same mistake twice.",
        "Name another `teacher.model`: a cross-encoder, or a larger model.",
        recipe.teacher_retrieves,
    ),
    Rule(
        "FG011", "leakage", "error",
        "A query that is trained on is worth nothing in an evaluation, and a negative that another split judges "
        "relevant is a false negative.",
        "Take these queries out of the train split, and add the other splits' judgements to its qrels.",
        sets.leakage, reads_sets=True,
    ),
    Rule(
        "FG012", "missing-prompt", "warning",
        "A model that was trained with prompts works worse without them, and finds other hard negatives.",
        "Leave `query_prompt` and `document_prompt` null for the model's own, or write them out.",
        models.missing_prompts,
    ),
    Rule(
        "FG013", "random-fill", "warning",
        "Random negatives beside hard ones teach almost nothing: the rest of the batch is random already.",
        "Set the quota of `sources.random` to at most a tenth of `select.per_query`.",
        recipe.random_fill, reads_sets=True,
    ),
    Rule(
        "FG014", "hubs", "warning",
        "A document that is a negative of very many queries is learnt to be wrong for every query.",
        "Take boilerplate out of the corpus, or give `sources.bm25` a larger quota.",
        sets.hubs, reads_sets=True,
    ),
    Rule(
        "FG015", "small-batch", "warning",
        "An in-batch loss ranks against the rest of the batch, and a small batch gives it few negatives (Karpukhin et "
        "al., DPR, EMNLP 2020, table 3).",
        "Raise `student.batch_size` to 64 or more, with `student.loss: cached_mnr` if memory runs out.",
        recipe.small_batch,
    ),
    Rule(
        "FG016", "no-held-out", "error",
        "Without queries that training has not seen, nothing shows whether a round made the model better or worse.",
        "Leave `evaluation.held_out` above 0, or set `evaluation.split` to a split that is not trained on.",
        recipe.no_held_out,
    ),
    Rule(
        "FG017", "low-positives", "warning",
        "Where the teacher scores positives low, labels are wrong, or it does not know this kind of text and its "
        "negatives mean nothing.",
        "Look at the lowest teacher_score in positives.parquet, drop what answers nothing, or take another teacher.",
        sets.low_positives, reads_sets=True,
    ),
    Rule(
        "FG018", "truncation", "warning",
        "The answer to a query may stand after the last token that the model reads.",
        "Raise `max_length`, or split long documents into passages.",
        models.truncation,
    ),
    Rule(
        "FG019", "unaudited-margins", "warning",
        "Negatives that are as close to the query as its positive are false negatives, and only margins show them.",
        "Mine with a `teacher`, and keep `audit.min_mean_margin` and `audit.max_inverted`.",
        sets.unaudited, reads_sets=True,
    ),
    Rule(
        "FG020", "stale-set", "warning",
        "A set that is older than the model shows what an earlier model got wrong.",
        "Mine again with the model as `retriever`, or give `schedule` a regime with self.",
        sets.stale_set,
    ),
    Rule(
        "FG021", "failed-audit", "error",
        "A set whose margins fail the audit harms training.",
        "Run `foolsgold audit` on the set, which says what to do about each gate.",
        sets.failed_audit, reads_sets=True,
    ),
)  # fmt: skip
