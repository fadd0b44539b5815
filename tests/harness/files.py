"""Make files in memory with invented content, and read them or get the message with which they are refused."""

import bz2
import gzip
import io
import lzma
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest

from oal_engine.datasets.reading import Columns, DataError, peek, read

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
    """Return an open file in memory with a name, like an upload from a browser."""
    file = io.BytesIO(content if isinstance(content, bytes) else content.encode(encoding))
    file.name = name
    return file


def upload(content, name, encoding="utf-8"):
    """Return an open file in memory, compressed as the suffix of its name says (.gz, .bz2 or .xz)."""
    pack = PACK.get(Path(name).suffix, bytes)
    return named(pack(content if isinstance(content, bytes) else content.encode(encoding)), name)


def zipped(members, kind=ZIP_DEFLATED):
    """Return the bytes of a ZIP archive with these members, {name: content}."""
    with ZipFile(file := io.BytesIO(), "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def imported(content, name="data.zip", **options):
    """Import a file with the guessed columns, without answering any question. Return its items."""
    head = peek(named(content, name), **options)
    head.settle(head.guess.label, None)
    return read(named(content, name), head.guess, **options)


def fails(file, columns=None, **options):
    """Check that a file is refused. Return the message."""
    with pytest.raises(DataError) as caught:
        read(file, columns, **options)
    return str(caught.value)


def arrays(**arrays):
    """Return an open .npz file with these arrays."""
    file = named(b"", "x.npz")
    np.savez(file, **arrays)
    return file
