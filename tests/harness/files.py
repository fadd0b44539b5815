"""Open files with made-up content, and the messages with which files are refused."""

import bz2
import gzip
import io
import lzma
from pathlib import Path

import numpy as np
import pytest

from oal_engine.datasets.reading import Columns, DataError, read

PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
LABELLED = Columns(text=("text",), label="label")
OHSUMED = """\
.I 1
.U
87000001
.S
J Made Up 8703; 1(2):3-5
.M
Adult; Heart Arrest, Induced/*; Human; Support, U.S. Gov't, P.H.S..
.T
Cooling of the heart.
.P
JOURNAL ARTICLE.
.W
The first line of an invented abstract,
.05 of which begins with a dot,

and a third one.
.A
Doe J; Roe R.
.I 2
.U
87000002
.M
*Atrial Fibrillation; Human.
.T
A rhythm without an abstract.
.A
Roe R.
.I 3
.U 87000003
.S J Made Up 8703; 1(2):6
.T A letter without headings,
in two lines.
.P
LETTER.
.I 4
.U
87000004
.U
87000005
.T
Two records in one.
.I
.U
87000006
.T
No number.
.I 7
.U
87000001
.T
The first again.
.I 8
.U
87000008
.M
Human; HEART DISEASES/CO/*TH/DI.
.W
An abstract without a title.
.I 9
.U
87000009
.M
Human.
"""


def named(content, name, encoding="utf-8"):
    """An open file as a browser would hand it over."""
    file = io.BytesIO(content if isinstance(content, bytes) else content.encode(encoding))
    file.name = name
    return file


def upload(content, name, encoding="utf-8"):
    """The same, compressed as its name says."""
    pack = PACK.get(Path(name).suffix, bytes)
    return named(pack(content if isinstance(content, bytes) else content.encode(encoding)), name)


def fails(file, columns=None, **options):
    """The message with which a file is refused."""
    with pytest.raises(DataError) as caught:
        read(file, columns, **options)
    return str(caught.value)


def arrays(**arrays):
    """An open .npz file of these arrays."""
    file = named(b"", "x.npz")
    np.savez(file, **arrays)
    return file
