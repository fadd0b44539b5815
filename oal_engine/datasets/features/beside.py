"""Vectors beside texts: what each text means by itself, whoever made them, as columns behind its terms."""

from typing import Any, TypeAlias

import numpy as np

from . import latent
from .latent import unit

Beside: TypeAlias = dict[str, Any]  # the means of the columns, and the model that makes the vectors, if one does

WEIGHT = 0.2  # of the vectors in the squared length of a row
SIMILAR = 0.1  # of similar wording in it, where there are vectors


def fit(vectors: np.ndarray) -> Beside:
    """What later vectors need to become columns as these do: the means of those of length 1."""
    total = np.zeros((1, vectors.shape[1]))
    for first in range(0, len(vectors), latent.CHUNK):  # a sum in a fixed order, with the same bits everywhere
        total = np.vstack([total, unit(vectors[first : first + latent.CHUNK])]).cumsum(axis=0)[-1:]
    return {"means": (total[0] / len(vectors)).tolist()}


def columns(beside: Beside, vectors: np.ndarray) -> np.ndarray:
    """Vectors at length 1 less their means, of squared length WEIGHT; zeros stay: float32."""
    made = np.empty(vectors.shape, np.float32)
    for first in range(0, len(vectors), latent.CHUNK):
        some = unit(vectors[first : first + latent.CHUNK])
        centred = np.where(some.any(axis=1, keepdims=True), some - beside["means"], 0)
        made[first : first + latent.CHUNK] = np.sqrt(WEIGHT) * unit(centred)
    return made
