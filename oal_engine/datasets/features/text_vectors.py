"""Turn vectors of texts, from a file or an encoder, into further columns of the rows."""

from typing import Any, TypeAlias

import numpy as np

from . import latent
from .latent import unit

# The means of the columns, their share in the squared length of a row, and the encoder that makes the vectors, if any
TextVectors: TypeAlias = dict[str, Any]

SHARE = 0.2  # unless `fit` is given another one
LATENT_WEIGHT = 0.1  # share of the latent part (similar wording), if there are vectors


def fit(vectors: np.ndarray, share: float = SHARE) -> TextVectors:
    """Compute the mean of the vectors, each scaled to unit length. `columns` subtracts this mean from all vectors."""
    total = np.zeros((1, vectors.shape[1]))
    for first in range(0, len(vectors), latent.CHUNK_TEXTS):  # a sum in a fixed order has the same bits everywhere
        total = np.vstack([total, unit(vectors[first : first + latent.CHUNK_TEXTS])]).cumsum(axis=0)[-1:]
    return {"means": (total[0] / len(vectors)).tolist()} | ({"share": share} if share != SHARE else {})


def share_of(fitted: TextVectors) -> float:
    """Return the share of the vectors in the squared length of a row."""
    return float(fitted.get("share", SHARE))


def columns(fitted: TextVectors, vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to unit length, center them, and scale to the squared length of their share: float32. 0 stays 0."""
    result = np.empty(vectors.shape, np.float32)
    for first in range(0, len(vectors), latent.CHUNK_TEXTS):
        chunk = unit(vectors[first : first + latent.CHUNK_TEXTS])
        centered = np.where(chunk.any(axis=1, keepdims=True), chunk - fitted["means"], 0)
        result[first : first + latent.CHUNK_TEXTS] = np.sqrt(share_of(fitted)) * unit(centered)
    return result
