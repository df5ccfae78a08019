"""The recipe: everything a mining run depends on, as one validated object, from YAML, keywords or `--set` pairs.

One model a stage, in the order of the stages. Every field has a default, and the defaults that matter say where they
come from. An unknown key is an error that names the nearest known key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from foolsgold.errors import RecipeError
from foolsgold.recipe.html import html_table
from foolsgold.recipe.stage import BatchSize, Fraction, Stage, flat
from foolsgold.recipe.training import EvaluationSpec, RegimeSpec, RemineSpec, StudentSpec
from foolsgold.records import Scale

_OWN_FIELDS = {  # fields of a source that only some kinds have
    "model": ("dense", "sparse", "multivector"),
    **dict.fromkeys(("index", "recall"), ("dense",)),
    **dict.fromkeys(("language", "tokenizer", "method", "k1", "b"), ("bm25",)),
    "path": ("run",),
}
_INDEX_PARTS = (  # of faiss's factory strings: those of indexes by inner product that need no ids of their own
    "IVF", "IMI", "HNSW", "Flat", "PQ", "SQ", "RQ", "LSQ", "PRQ", "PLSQ", "RaBitQ", "OPQ", "PCA", "PCAR", "PCAW",
    "PCAWR", "ITQ", "RR", "Pad", "L2norm", "Refine", "RFlat", "Residual",
)  # fmt: skip
HARD_CAP = 8  # negatives a query; beyond about 8 the gain in training is gone and the false negatives are not

SourceKind = Literal["random", "bm25", "dense", "sparse", "multivector", "run"]


class _EachKeyOnce(yaml.SafeLoader):
    """YAML in which a key that stands twice in a section is an error, not the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a repeated key, naming its line."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.YAMLError(f"a name is expected in line {key.start_mark.line + 1}, not a list or a mapping")
            if key.value in seen and key.value != "<<":
                raise yaml.YAMLError(f"{key.value} stands twice, again in line {key.start_mark.line + 1}")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Plain values. Raises yaml.YAMLError, also where a key stands twice."""
    return yaml.load(text, Loader=_EachKeyOnce)  # a SafeLoader


class PairsSpec(Stage):
    """A file of (query, positive) rows and which of its columns are which (inferred from the usual names if null)."""

    path: str
    anchor: str | None = None
    positive: str | None = None
    corpus: str | None = Field(None, description="more documents to choose from: jsonl, parquet, csv, tsv or txt")


class CollectionSpec(Stage):
    """Where corpus, queries and judgements come from: exactly one of the first five."""

    beir: str | None = Field(None, description="folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv")
    pairs: PairsSpec | None = Field(
        None, description="(query, positive) rows: jsonl, parquet, csv, tsv, or a saved Dataset"
    )
    hf: str | None = Field(None, description="a dataset of (query, positive) rows on the Hugging Face hub")
    ir_datasets: str | None = Field(None, description="a dataset known to the ir_datasets package")
    demo: bool | int | None = Field(None, description="docstrings of the installed packages: true, or how many")
    split: str | None = Field(None, description="which judgements or rows to mine for (default: train)")
    relevant_from: int = Field(
        1, ge=-(2**31), lt=2**31, description="the lowest grade that makes a judged document a positive"
    )
    limit: int | None = Field(None, ge=1, description="mine only for the first so many queries")
    part: Literal["train", "held_out"] | None = Field(
        None, description="of the queries, by a hash of their texts: those held_out for evaluation, or the rest"
    )
    held_out: Fraction = Field(0.1, description="share of the queries in part held_out")

    @field_validator("pairs", mode="before", json_schema_input_type=str | PairsSpec | None)
    @classmethod
    def _a_path_is_enough(cls, pairs: Any) -> Any:
        return {"path": pairs} if isinstance(pairs, str) else pairs

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        named = [kind for kind in ("beir", "pairs", "hf", "ir_datasets", "demo") if getattr(self, kind)]
        if len(named) != 1:
            raise ValueError(f"name one of beir, pairs, hf, ir_datasets, demo (got {', '.join(named) or 'none'})")
        return self


class ModelSpec(Stage):
    """An embedding model: a hub id, a local folder, or package:NAME/SUBPATH."""

    model: str
    query_prompt: str | None = Field(None, description="put before each query; null: the model's own, if it has one")
    document_prompt: str | None = Field(None, description="put before each document; null: the model's own")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    max_length: int | None = Field(None, ge=1, description="tokens a text is cut to; null: the model's own limit")
    pooling: Literal["auto", "cls", "mean"] = Field("auto", description="only for models that do not say")
    similarity: Literal["auto", "cosine", "dot"] = Field("auto", description="auto: the model's own, else cosine")
    batch_size: BatchSize = Field(None, description="texts or pairs run together; null or auto: as many as fit")
    device: str | None = Field(None, description="torch device; null: the best there is")
    trust_remote_code: bool = Field(False, description="run Python code that a hub model brings with it")


class TeacherSpec(Stage):
    """What scores (query, document) pairs to tell negatives from false negatives."""

    model: str = Field(
        "cross-encoder/ms-marco-MiniLM-L-12-v2",
        description="a hub id, a folder, package:NAME/SUBPATH, or module:function for kind callable",
    )
    kind: Literal["auto", "cross_encoder", "onnx", "bi_encoder", "multivector", "callable"] = "auto"
    scale: Scale = Field("probability", description="the scale that scores and thresholds are in")
    max_length: int = Field(512, ge=1, description="tokens a pair is cut to")
    prompt: str | None = Field(None, description="put before each query")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch_size: BatchSize = Field(None, description="texts or pairs run together; null or auto: as many as fit")
    device: str | None = None
    trust_remote_code: bool = False
    ray_workers: int | None = Field(None, ge=1, description="actors of a Ray cluster that score; null: this process")
    exhaustive: bool = Field(False, description="score every candidate, not only those that decide (design, section 8)")


class SourceSpec(Stage):
    """One source: how deep it looks, and how many of a query's negatives are its to give."""

    kind: SourceKind | None = Field(None, description="null: the source's own name is its kind")
    depth: int = Field(100, ge=1, description="candidates retrieved a query")
    quota: int | None = Field(None, ge=0, description="negatives a query from this source; null: an equal share")
    window: tuple[int, int] | None = Field(
        None, description="ranks [from, to) to choose from, counted after known positives are excluded"
    )
    # dense, sparse, multivector
    model: ModelSpec | None = Field(None, description="a name, or settings as in retriever; null: the retriever")
    # dense
    index: str | None = Field(
        None, description="faiss's factory string, such as IVF4096,PQ48x4fsr: approximate search; null: exact"
    )
    recall: Fraction = Field(
        0.95, description="with an index: the share of the exact hits that the search is set to find, on a sample"
    )
    # bm25
    language: str = Field("english", description="stemmer and stop words; 'none' for neither")
    tokenizer: Literal["word", "bigram"] = Field("word", description="bigram: character bigrams, for Chinese, Japanese")
    method: Literal["lucene", "robertson", "atire", "bm25l", "bm25+"] = "lucene"
    k1: float = Field(1.5, ge=0.0, le=1000.0, description="bm25s's default")
    b: Fraction = Field(0.75, description="bm25s's default")
    # run
    path: str | None = Field(None, description="TREC run file or parquet (query_id, doc_id, score)")

    @field_validator("model", mode="before", json_schema_input_type=str | ModelSpec | None)
    @classmethod
    def _a_name_is_enough(cls, model: Any) -> Any:
        return {"model": model} if isinstance(model, str) else model

    @field_validator("index")
    @classmethod
    def _index_has_known_parts(cls, index: str | None) -> str | None:
        # faiss, which knows all the rules, is asked when the model has told the dimension; most slips are seen here
        for part in [] if index is None else index.split(","):
            if not re.match(rf"({'|'.join(_INDEX_PARTS)})(fp16|bf16|(?![A-Za-z]))", part):
                raise ValueError(
                    f"{part!r} is no part of a faiss factory string{_nearest(part, _INDEX_PARTS)}; "
                    "a common index is IVF4096,PQ48x4fsr"
                )
            for letters, number in re.findall(r"([A-Za-z]*)(\d+)", part):  # with less faiss ends the process
                least = 2 if letters == "HNSW" else 1
                if int(number) < least:
                    raise ValueError(f"{part!r} has {letters}{number}, a number of at least {least} is needed there")
        return index

    @field_validator("window")
    @classmethod
    def _window_is_not_empty(cls, window: tuple[int, int] | None) -> tuple[int, int] | None:
        if window is not None and not 0 <= window[0] < window[1]:
            raise ValueError(f"a window [from, to) needs 0 <= from < to, not {list(window)}")
        return window


class ExcludeSpec(Stage):
    """What is dropped before a teacher looks at it, beside known positives and their duplicates."""

    near_duplicate: Fraction | None = Field(
        0.95,
        description="a candidate whose character 5-shingles have this Jaccard similarity to a positive's; null: off",
    )
    near_duplicate_cosine: Fraction | None = Field(
        0.98, description="the same by the cosine of the dense source's vectors, where there is one; null: off"
    )


class DecideSpec(Stage):
    """Zones: which scores make a negative, which a false negative. Thresholds are on the teacher's declared scale."""

    negative_below: float | None = Field(0.3, description="below: negative")
    positive_above: float | None = Field(0.7, description="above: false negative; between the two: ambiguous")
    ambiguous: Literal["skip", "weight"] = Field(
        "skip", description="weight: may be selected, with a weight from 1 at negative_below to 0 at positive_above"
    )
    relative_margin: Fraction | None = Field(
        None, description="0.95 keeps candidates up to 95 % of the positive's score (sign-safe)"
    )
    absolute_margin: float | None = Field(
        None, ge=0.0, description="0.1 keeps candidates 0.1 below the positive's score"
    )
    positive_percentile: Annotated[float, Field(ge=0.0, le=100.0)] | None = Field(
        None, description="5 keeps candidates below the 5th percentile of all positives' scores"
    )
    positive_reference: Literal["min", "max", "mean", "each"] = Field(
        "min", description="which positive a margin is measured from; each: mined for every positive apart"
    )
    calibration: str | None = Field(
        None,
        description="calibration.json, or default: thresholds are on a calibrated probability of being relevant",
    )
    max_false_negative_rate: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.02, description="with a calibration, of the negatives; in place of negative_below"
    )

    @model_validator(mode="after")
    def _thresholds_in_order(self) -> Self:
        low, high = self.negative_below, self.positive_above
        if self.calibration is None and low is not None and high is not None and low > high:
            raise ValueError(f"negative_below ({low}) must not be above positive_above ({high})")
        if self.ambiguous == "weight" and (low is None or high is None):
            raise ValueError("ambiguous: weight needs both negative_below and positive_above")
        default = DecideSpec.model_fields["negative_below"].default
        if self.calibration is not None and low not in (None, default):
            raise ValueError(
                f"negative_below is {low}, but a calibration sets that threshold itself, by max_false_negative_rate; "
                "leave one of the two out"
            )
        return self

    @property
    def compares(self) -> bool:
        """Whether any rule compares a candidate with positives, its query's or a percentile of all."""
        rules = (self.relative_margin, self.absolute_margin, self.positive_percentile)
        return any(rule is not None for rule in rules)


class JudgeSpec(Stage):
    """A language model that is asked about ambiguous candidates: any endpoint with OpenAI's chat completions."""

    kind: Literal["llm"] = "llm"
    endpoint: str = Field(description="base address, such as http://127.0.0.1:8000/v1")
    model: str = Field(description="as the endpoint calls it; with its version, since opinions are kept by this name")
    budget: int = Field(1000, ge=0, description="candidates a run may ask about; opinions kept from before count too")
    api_key_env: str | None = Field(None, description="the environment variable that holds the endpoint's key")
    temperature: float | None = Field(0.0, ge=0.0, description="null: not sent, for models that refuse it")

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_an_address(cls, endpoint: str) -> str:
        if not endpoint.startswith(("http://", "https://")):
            raise ValueError(f"{endpoint!r} is no address; it begins with https:// or http://")
        if "@" in endpoint.split("/")[2]:
            raise ValueError("a name and a password in an address end up in every manifest; use judge.api_key_env")
        return endpoint


class SelectSpec(Stage):
    """Which of a query's negatives are taken, and how many."""

    strategy: Literal["top", "random", "simans", "log_random", "stratified"] = Field(
        "random", description="random keeps out-of-domain quality where top loses it (design, section 6)"
    )
    per_query: int = Field(7, ge=1)
    cap: int = Field(HARD_CAP, ge=1, description="per_query may not be above this; raise both if you mean it")
    backfill: bool = Field(True, description="what one source cannot give may come from the others")
    simans_a: float = Field(0.5, ge=0.0, description="p ~ exp(-a (s - s_positive - b)^2); SimANS's published code: 0.5")
    simans_b: float = Field(0.0, description="the same; SimANS's published code: 0")
    strata: int = Field(
        4, ge=1, description="bands of the retriever's score that strategy stratified draws from in turn"
    )

    @model_validator(mode="after")
    def _under_the_cap(self) -> Self:
        if self.per_query > self.cap:
            raise ValueError(
                f"per_query is {self.per_query} but the cap is {self.cap}; set cap: {self.per_query} if you mean it"
            )
        return self


class AuditSpec(Stage):
    """Gates on the mined set; null: that gate is off. The first three fail a set, the others warn.

    The margins are those of the design; where the other limits come from is in docs/audit.md.
    """

    min_mean_margin: float | None = Field(2.0, description="mean of positive minus negative teacher score, in logits")
    max_inverted: Fraction | None = Field(
        0.05, description="share of negatives that the teacher scores above their positive"
    )
    max_leaked: Fraction | None = Field(
        0.0, description="share of negatives that another split judges a positive of the same query"
    )
    min_lower_mode: float | None = Field(
        1.0, description="where the margins, in logits, have their mode, or the lower one of two"
    )
    min_fill: Fraction | None = Field(0.8, description="share of queries that have all the negatives asked for")
    max_low_positives: Fraction | None = Field(
        0.1, description="share of queries whose positive the teacher itself would call a negative"
    )
    max_hubs: Fraction | None = Field(
        0.05, description="share of negatives that are hubs: one document for very many queries"
    )
    max_near_duplicates: Fraction | None = Field(
        0.05, description="share of negatives that nearly repeat another negative of their query"
    )


class Recipe(Stage):
    """One mining run, whole. Two runs of the same recipe on the same collection give the same bytes."""

    collection: CollectionSpec | None = None
    retriever: ModelSpec | None = Field(
        default_factory=lambda: ModelSpec(model="sentence-transformers/all-MiniLM-L6-v2")
    )
    teacher: TeacherSpec | None = Field(default_factory=TeacherSpec)
    sources: dict[str, SourceSpec] = Field(
        default_factory=lambda: {"bm25": SourceSpec(quota=3), "dense": SourceSpec(quota=4, window=(0, 100))}
    )
    exclude: ExcludeSpec = Field(default_factory=ExcludeSpec)
    decide: DecideSpec = Field(default_factory=DecideSpec)
    judge: JudgeSpec | None = Field(
        None, description="a language model for ambiguous candidates: {endpoint: URL, model: NAME, api_key_env: NAME}"
    )
    select: SelectSpec = Field(default_factory=SelectSpec)
    relabel: bool = Field(
        False, description="false negatives above positive_above become positives of a new collection"
    )
    audit: AuditSpec = Field(default_factory=AuditSpec)
    student: StudentSpec = Field(default_factory=StudentSpec)
    schedule: list[RegimeSpec] = Field(
        default_factory=list,
        description="regimes of training, such as {name: hard, from: 2, to: 4, mode: dense_ce_0.3}",
    )
    remine: RemineSpec | None = Field(
        None, description="mine again with the student in training: {every: 1 epoch, overlap: 0.5}"
    )
    evaluation: EvaluationSpec = Field(default_factory=EvaluationSpec)
    seed: int = Field(13, ge=0, lt=2**63)

    @field_validator("judge", mode="before", json_schema_input_type=JudgeSpec | None)
    @classmethod
    def _a_judge_has_an_endpoint(cls, judge: Any) -> Any:
        if isinstance(judge, str):
            said = f"{judge} names no endpoint; write {{endpoint: http://127.0.0.1:8000/v1, model: NAME}}"
            raise ValueError(said)  # noqa: TRY004  (pydantic makes a sentence of it)
        return judge

    @field_validator("sources", mode="before", json_schema_input_type=dict[str, SourceSpec | None])
    @classmethod
    def _empty_section_means_defaults(cls, sources: Any) -> Any:
        if isinstance(sources, Mapping):
            return {name: {} if spec is None else spec for name, spec in sources.items()}
        return sources

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.sources:
            raise ValueError("sources is empty; name at least one, such as bm25 or dense")
        kinds = SourceKind.__args__  # type: ignore[attr-defined]
        for name, spec in self.sources.items():
            if not name.replace("_", "").isalnum():
                raise ValueError(f"sources.{name}: a source's name is letters, digits and _")
            if name in ("teacher", "positive"):  # columns of the tables are called {name}_score
                raise ValueError(f"sources.{name}: this name is taken by the tables' columns; give it another")
            if spec.kind is None and name not in kinds:
                near = _nearest(name, kinds)
                raise ValueError(
                    f"sources.{name}: unknown source{near}; another name needs its kind: {', '.join(kinds)}"
                )
            for field in spec.model_fields_set:
                owners = _OWN_FIELDS.get(field, kinds)
                if self.kind_of(name) not in owners and getattr(spec, field) != SourceSpec.model_fields[field].default:
                    raise ValueError(f"sources.{name}.{field}: only a {' or '.join(owners)} source has this field")
            if self.kind_of(name) == "run" and spec.path is None:
                raise ValueError(f"sources.{name}: a run needs its path")
            if self.kind_of(name) == "run" and self.select.strategy == "simans":
                raise ValueError(
                    f"select.strategy: simans needs the score of a query's positive, and the run {name} cannot score a "
                    "document it did not find; take another strategy"
                )
            if self.kind_of(name) in ("sparse", "multivector") and spec.model is None:
                raise ValueError(f"sources.{name}: a {self.kind_of(name)} source needs its model")
            if "recall" in spec.model_fields_set and spec.index is None and spec.recall != 0.95:
                raise ValueError(f"sources.{name}.recall: exact search finds all; name an index, or leave recall out")
            if self.kind_of(name) == "dense" and spec.model is None and self.retriever is None:
                raise ValueError(f"sources.{name}: a dense source needs a model here or a retriever")
        if self.decide.calibration is not None and self.teacher is None:
            raise ValueError("decide.calibration: what it calibrates is a teacher's score; name the teacher")
        if self.teacher is not None and (self.teacher.scale == "probability" or self.decide.calibration is not None):
            for field in ("negative_below", "positive_above"):
                value = getattr(self.decide, field)
                if value is not None and not 0.0 <= value <= 1.0:
                    raise ValueError(
                        f"decide.{field} is {value}, but the teacher's scale is probability (0 to 1); "
                        "set teacher.scale: logit if the threshold is a logit"
                    )
        return self

    @model_validator(mode="after")
    def _schedule_has_no_gap(self) -> Self:
        end = 0.0
        for regime in self.schedule:
            if regime.from_ != end:
                raise ValueError(
                    f"schedule: regime {regime.name} begins at epoch {regime.from_:g}, but the one before it ends at "
                    f"{end:g}; a schedule begins at 0 and has no gaps"
                )
            end = regime.to
        names = [regime.name for regime in self.schedule]
        if "start" in names:
            raise ValueError("schedule: start is the name of the student before training; name that regime otherwise")
        if len(set(names)) < len(names):
            raise ValueError("schedule: two regimes have one name; each needs its own")
        if self.schedule and self.student.epochs not in (None, end):
            raise ValueError(
                f"student.epochs is {self.student.epochs:g}, but the schedule ends at epoch {end:g}; leave epochs out"
            )
        if self.remine is not None and not any(regime.mines_with_student for regime in self.schedule):
            raise ValueError("remine: no regime of a schedule mines with the student; name self among one's sources")
        return self

    def _repr_html_(self) -> str:
        """What is not a default, one field a line."""
        changed = self.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        return html_table("recipe: what is not a default", ("field", "value"), flat(changed).items())

    @property
    def takes_whole_runs(self) -> bool:
        """Whether the budget is all that runs list, as in an imported set: to be below it is no shortfall then."""
        depth = sum(spec.depth for spec in self.sources.values())
        return self.select.per_query >= depth and all(self.kind_of(name) == "run" for name in self.sources)

    def kind_of(self, source: str) -> SourceKind:
        """The kind of one of `sources`, from its spec or else its name."""
        return self.sources[source].kind or source  # type: ignore[return-value]

    @property
    def training_seed(self) -> int:
        """Of the order of batches, the draws of negatives, and whatever else is random in training."""
        return self.seed if self.student.seed is None else self.student.seed

    @classmethod
    def from_yaml(cls, path: str | Path) -> Self:
        """Read a YAML file.

        Raises:
            RecipeError: no such file, not YAML, an unknown key, a value that cannot be.
        """
        path = Path(path)
        try:
            loaded = read_yaml(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecipeError(f"{path}: no such recipe; `foolsgold init {path}` writes one") from None
        except IsADirectoryError:
            raise RecipeError(f"{path}: is a folder; name the recipe's file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"{path}: cannot be read ({error})") from None
        except (yaml.YAMLError, RecursionError) as error:
            raise RecipeError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
        if loaded is None:
            loaded = {}
        if not isinstance(loaded, dict):
            raise RecipeError(f"{path}: a recipe is a mapping of sections, not {type(loaded).__name__}")
        return cls.build(loaded, where=f"{path}: ")

    @classmethod
    def build(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Validate plain values, as from YAML.

        Raises:
            RecipeError: with every problem found, each naming its field.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise RecipeError("\n".join(f"{where}{_sentence(cls, problem)}" for problem in error.errors())) from None

    def to_yaml(self) -> str:
        """The whole recipe, defaults included, as YAML."""
        return str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True))

    def with_values(self, overrides: Mapping[str, Any]) -> Self:
        """A copy with fields replaced, each named by its path: {"decide.negative_below": 0.2}.

        None for a source ({"sources.dense": None}) leaves that source out.

        Raises:
            RecipeError: as `build`.
        """
        values = self.model_dump()
        for path, value in overrides.items():
            *sections, field = path.split(".")
            target = values
            for section in sections:
                if target.get(section) is None:
                    target[section] = {}
                target = target[section]
                if not isinstance(target, dict):
                    is_list = "; a list is set whole, as in --set 'FIELD=[...]'" if isinstance(target, list) else ""
                    raise RecipeError(f"{path}: {section} is not a section{is_list}")
            if sections == ["sources"] and value is None:
                target.pop(field, None)
            else:
                target[field] = value
        return self.build(values)


def _sentence(model: type[BaseModel], problem: Any) -> str:
    path = [str(part) for part in problem["loc"]]
    where = ".".join(path)
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown field{_nearest(path[-1], _fields_at(model, path[:-1]))}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


def _fields_at(model: type[BaseModel], path: list[str]) -> list[str]:
    """The field names of the section that `path` leads to."""
    schema = model.model_json_schema()
    here: dict[str, Any] = schema
    for part in path:
        here = here.get("properties", {}).get(part) or here.get("additionalProperties") or here
        for option in (here, *here.get("anyOf", ())):
            if "$ref" in option:
                here = schema["$defs"][option["$ref"].rsplit("/", 1)[1]]
    return list(here.get("properties", {}))


def _nearest(name: str, known: Any) -> str:
    by_initials = [one for one in known if "_" in one and "".join(word[0] for word in one.split("_") if word) == name]
    near = by_initials or difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f" (known: {', '.join(known)})"
