"""Compute text vectors from static token embeddings in a local folder (model2vec, WordLlama). Nothing is downloaded.

The vector of a text is the sum of its token vectors, each times (1 + ln c) a / (a + s). c: count of the token in the
text, s: its share of all tokens in the imported texts, a: COMMON_SHARE (Arora, Liang, Ma 2017). The sum has a fixed
order, and so the same bits on every machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernel import rows, truncated_svd
from .. import row_files
from ..reading.parsed import name_list
from ..reading.sources import DataError, Progress, open_file
from .vectorizer import exact_log

if TYPE_CHECKING:
    from scipy import sparse

COMMON_SHARE = 1e-3  # a: a token with a larger share has less than half the weight
CHUNK_TEXTS = 2000
MAX_TABLE_BYTES, MAX_TOKENIZER_BYTES = 2**31, 2**27
TABLE_NAMES = ("embeddings", "embedding.weight")  # of model2vec and of WordLlama


@dataclass(frozen=True, eq=False)
class Embedding:
    """A static token embedding. table: token vectors, float16 or float32, shape (tokens, width). tokenizer: the bytes
    of its JSON file, uint8. counts: occurrences of each token in the imported texts, int64."""

    name: str
    table: np.ndarray
    tokenizer: np.ndarray
    counts: np.ndarray

    @cached_property
    def checksum(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 digest of the table and the tokenizer."""
        digest = sha256(np.ascontiguousarray(self.table).data)
        digest.update(np.ascontiguousarray(self.tokenizer).data)
        return digest.hexdigest()[:16]

    def fit(self, texts: Sequence[str], progress: Progress | None = None) -> tuple[Embedding, np.ndarray]:
        """Count the tokens of texts. Return the embedding with these counts, and the vectors of the texts."""
        parts = []
        for first in range(0, len(texts), CHUNK_TEXTS):
            parts.append(self._tokens(texts[first : first + CHUNK_TEXTS]))
            if progress:
                progress(min(first + CHUNK_TEXTS, len(texts)), len(texts))
        counts = sum((np.bincount(part.indices, part.data, len(self.table)) for part in parts), np.zeros(1))
        fitted = replace(self, counts=rows.read_only(counts, np.int64))
        return fitted, np.vstack([fitted._vectors(part) for part in parts])

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Compute the vectors of texts: float32, shape (texts, width)."""
        starts = range(0, max(1, len(texts)), CHUNK_TEXTS)
        return np.vstack([self._vectors(self._tokens(texts[first : first + CHUNK_TEXTS])) for first in starts])

    def _vectors(self, tokens: sparse.csr_array) -> np.ndarray:
        from scipy import sparse

        used, places = np.unique(tokens.indices, return_inverse=True)
        weights = COMMON_SHARE / (COMMON_SHARE + self.counts[used] / max(1, self.counts.sum()))
        distinct, which = np.unique(tokens.data, return_inverse=True)
        count_weights = np.array([1 + exact_log(float(count)) for count in distinct.tolist()])
        values = (weights[places] * count_weights[which]) if used.size else np.empty(0)
        weighted = rows.as_rows(sparse.csr_array((values, places, tokens.indptr), (tokens.shape[0], used.size)))
        return truncated_svd.multiply(weighted, rows.read_only(self.table[used], np.float32)).astype(np.float32)

    def _tokens(self, texts: Sequence[str]) -> sparse.csr_array:
        """Count each token in each text: shape (texts, tokens)."""
        from scipy import sparse

        ends, columns, counts = [0], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        with _readable(f"the tokenizer of {self.name}"):
            batch, unknown = self._encoder.encode_batch(list(texts), add_special_tokens=False), self._unknown
        for encoded in batch:
            ids, id_counts = np.unique(np.array(encoded.ids, np.int64), return_counts=True)
            in_table = ids != unknown
            columns.append(ids[in_table])
            counts.append(id_counts[in_table])
            ends.append(ends[-1] + int(in_table.sum()))
        shape = len(texts), len(self.table)
        return sparse.csr_array((np.concatenate(counts), np.concatenate(columns), np.array(ends)), shape)

    @cached_property
    def _encoder(self) -> Any:
        encoder = _packages()[1].from_str(self.tokenizer.tobytes().decode())
        encoder.no_padding()
        encoder.no_truncation()
        return encoder

    @cached_property
    def _unknown(self) -> int:
        """The id of the token for unknown words, which is ignored; -1 if the tokenizer has none."""
        model = json.loads(self.tokenizer.tobytes())["model"]
        word = model.get("unk_token")
        number = model.get("unk_id") if word is None else self._encoder.token_to_id(word)
        return -1 if number is None else number

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store, {name: flat array}."""
        return {"embeddings": self.table.ravel(), "tokenizer": self.tokenizer, "tokens": self.counts}

    @property
    def source(self) -> dict[str, Any]:
        """The name, checksum, data type and sizes that `mapped` needs to open the stored arrays, ready for JSON."""
        tokens, width = self.table.shape
        sizes = {"dtype": str(self.table.dtype), "tokens": tokens, "width": width, "tokenizer": self.tokenizer.size}
        return {"name": self.name, "checksum": self.checksum} | sizes


def mapped(folder: Path, source: dict[str, Any]) -> Embedding:
    """Memory-map the embedding that is stored in a folder. source: its `Embedding.source`."""
    tokens, width = source["tokens"], source["width"]
    table = row_files.mapped(folder / "embeddings.npy", source["dtype"], tokens * width).reshape(tokens, width)
    tokenizer = row_files.mapped(folder / "tokenizer.npy", np.uint8, source["tokenizer"])
    return Embedding(source["name"], table, tokenizer, row_files.mapped(folder / "tokens.npy", np.int64, tokens))


def _packages() -> tuple[Any, Any]:
    """Import the optional packages safetensors and tokenizers. Return (load_file, Tokenizer)."""
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError:
        raise DataError(
            "embeddings need the packages safetensors and tokenizers: pip install safetensors tokenizers."
        ) from None
    return load_file, Tokenizer


def read(folder: Path | str) -> Embedding:
    """Read a static embedding of model2vec or WordLlama: a .safetensors table and a tokenizer JSON file, in `folder` or
    in one of its subfolders. Raise DataError if they are missing or damaged."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"embeddings must be a folder. Got {folder}.")
    load, _ = _packages()
    path, tokenizer = _only(folder, "*.safetensors", "model"), _only(folder, "*tokenizer*.json", "tokenizer")
    _content(path, MAX_TABLE_BYTES, 0)
    content = np.frombuffer(_content(tokenizer, MAX_TOKENIZER_BYTES), np.uint8)
    with _readable(path.name):
        tensors = load(path)
    table = _table(tensors, path.name)
    embedding = Embedding(folder.resolve().name, table, content, np.zeros(len(table), np.int64))
    with _readable(tokenizer.name):
        tokens = embedding._encoder.get_vocab()
    if (size := 1 + max(tokens.values(), default=-1)) > len(table):
        raise DataError(f"{path.name} must have a finite vector for each of the {size:,} tokens. Got {len(table):,}.")
    if not np.isfinite(table).all():
        raise DataError(f"{path.name} must have finite numbers. Got others.")
    return embedding


def _content(path: Path, most: int, count: int = -1) -> bytes:
    """Read `count` bytes of a file (-1: all). Raise DataError if it is not a regular file or exceeds `most` bytes."""
    try:
        with open_file(path) as file:
            if (size := os.fstat(file.fileno()).st_size) > most:
                raise DataError(f"{path.name} must have at most {most:,} bytes. Got {size:,}.")
            return file.read(count)
    except OSError as error:
        raise DataError(f"{path.name} cannot be opened: {error.strerror}.") from None


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Turn any error in the body, even a panic in compiled code, into a DataError saying that `name` cannot be read."""
    try:
        yield
    except (DataError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise DataError(f"{name} cannot be read: {' '.join(str(error).split())[:200].rstrip('.')}.") from None


def _table(tensors: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return the vector of each token from the tensors of a file, multiplied by the weight of the token if the file has
    weights. A vector that several tokens share is repeated."""
    tables = [tensors[key] for key in TABLE_NAMES if key in tensors]
    if len(tables) != 1 or tables[0].ndim != 2 or tables[0].dtype.kind not in "fiu":
        names = name_list(map(ascii, tensors), 5) or "none"
        raise DataError(f"{name} must have one table of numbers, {' or '.join(TABLE_NAMES)}. Got {names}.")
    [table] = tables
    if (mapping := tensors.get("mapping")) is not None:  # several tokens share a vector
        if mapping.ndim != 1 or mapping.dtype.kind not in "iu" or not np.isin(mapping, np.arange(len(table))).all():
            raise DataError(f"{name} must have a mapping to its {len(table):,} vectors. Got another.")
        if mapping.size * table.shape[1] > MAX_TABLE_BYTES // 4:
            raise DataError(f"{name} must have at most {MAX_TABLE_BYTES // 4:,} numbers. Got {mapping.size:,} vectors.")
        table = table[mapping]
    with np.errstate(over="ignore", invalid="ignore"):  # the caller refuses numbers that are not finite
        if (weights := tensors.get("weights")) is not None:
            if weights.shape != table.shape[:1] or weights.dtype.kind not in "fiu":
                raise DataError(f"{name} must have a weight for each of the {len(table):,} tokens. Got another shape.")
            table = table.astype(np.float32) * weights.astype(np.float32)[:, None]
        return rows.read_only(table, np.float16 if table.dtype == np.float16 else np.float32)


def _only(folder: Path, pattern: str, usual: str) -> Path:
    """Find the one file that matches a pattern in a folder or its subfolders; if several match, the one with the stem
    `usual`. Raise DataError if there is not exactly one."""
    files = sorted([*folder.glob(pattern), *folder.glob(f"*/{pattern}")])
    candidates = [path for path in files if path.stem == usual] or files
    if len(candidates) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in files[:5])
        raise DataError(
            f"{folder.name} must have one file {pattern}, or {usual}{Path(pattern).suffix}. Got {names or 'none'}."
        )
    return candidates[0]
