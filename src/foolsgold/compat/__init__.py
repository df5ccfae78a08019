"""Functions of other libraries, run by foolsgold: the same arguments and answers, so only an import changes."""

from foolsgold.compat import sentence_transformers

__all__ = ["sentence_transformers"]
