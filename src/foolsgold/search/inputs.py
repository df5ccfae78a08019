"""What a search accepts: shapes, dtypes and values, and the errors for everything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from foolsgold.errors import SourceError

Matrix = npt.NDArray[Any]


def matrix(vectors: Any, name: str) -> Matrix:
    """The vectors as an array, (n, d). Raises SourceError, with their name, if they are not a real matrix."""
    try:
        found: Matrix = np.asanyarray(vectors)
    except ValueError:
        raise SourceError(f"{name} has rows of several lengths; encode all with the same model") from None
    except (TypeError, RuntimeError) as error:  # a torch tensor on a GPU, or one with gradients
        reason = str(error).splitlines()[0].rstrip(".")
        raise SourceError(f"{name} is not an array ({reason}); numpy arrays are needed") from None
    if found.ndim != 2:
        raise SourceError(f"{name} has shape {found.shape}; a matrix with one vector per row is needed")
    if found.dtype.kind in "cmMOSTU" or found.dtype.names:
        raise SourceError(f"{name} holds {found.dtype}; float32 or float16 vectors are needed")
    return found


def check(queries: Matrix, corpus: Matrix, k: int) -> None:
    """Raise SourceError unless both have the same dimension, the corpus has documents, and k is at least 1."""
    if queries.shape[1] != corpus.shape[1]:
        raise SourceError(
            f"queries have {queries.shape[1]} dimensions but the corpus has {corpus.shape[1]}; "
            "encode both with the same model"
        )
    if not is_count(k):
        raise SourceError(f"k is {k!r}; ask for a whole number of documents per query, at least 1")
    if len(corpus) == 0:
        raise SourceError("the corpus is empty; there is nothing to search")


def is_count(value: object) -> bool:
    """Whether it is a whole number of at least 1; a truth value is not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def not_finite(name: str, row: int, given: Matrix) -> SourceError:
    """The error for the vector `given`, (d), which float32 cannot hold: it has NaN or infinity, or a larger value."""
    if np.isfinite(given).all():
        largest = np.abs(given).max()
        return SourceError(f"{name} row {row} holds {largest:.3g}, too large for float32; scale the vectors down")
    return SourceError(f"{name} row {row} holds NaN or infinity; encode that text again or leave it out")


def too_large(product: float) -> SourceError:
    """The error for vectors whose inner products may be as large as `product`."""
    return SourceError(f"inner products of up to {product:.3g} do not fit float32; scale the vectors down")
