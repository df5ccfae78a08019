"""`mine_hard_negatives` of sentence-transformers 6.2 (docs/drop_in.md). Read mining.py first.

Importing this loads neither torch nor sentence-transformers: whoever has a model has loaded both.

What is printed, logged and raised for what sentence-transformers prints, logs and raises is worded as theirs
(Apache-2.0), because scripts look for it.
"""

from foolsgold.compat.sentence_transformers.mining import mine_hard_negatives

__all__ = ["mine_hard_negatives"]
