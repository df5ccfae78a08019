"""One file per format: what its columns are called, how it is recognised and read, and how it is written.

A new format is one file here, and one line in READERS, WRITERS or both.
"""

from foolsgold.exchange.formats import (
    beir_run,
    dpr,
    flagembedding,
    jsonl,
    pylate,
    sentence_transformers,
    swift,
    tevatron,
)
from foolsgold.exchange.formats.reading import Reader
from foolsgold.exchange.formats.writing import Writer

READERS: dict[str, Reader] = {  # the first that recognises a file reads it; the last reads all that is left
    "swift": swift.READER,
    "dpr": dpr.READER,
    "flagembedding": flagembedding.READER,
    "tevatron": tevatron.READER,
    "jsonl": jsonl.READER,
    "sentence-transformers": sentence_transformers.READER,
}

WRITERS: dict[str, Writer] = {  # in the order of docs/formats.md
    "sentence-transformers": sentence_transformers.WRITER,
    "flagembedding": flagembedding.WRITER,
    "tevatron": tevatron.WRITER,
    "pylate": pylate.WRITER,
    "swift": swift.WRITER,
    "swift-reranker": swift.RERANKER,
    "beir-run": beir_run.WRITER,
    "jsonl": jsonl.WRITER,
}
