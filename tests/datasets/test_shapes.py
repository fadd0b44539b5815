"""Files in common layouts are read correctly without an option, or refused with a sentence that says what to do."""

import numpy as np
import pytest
from scipy import sparse

from oal_engine.datasets.reading import DataError, layout_sentence, read
from tests.harness.files import imported, named
from tests.harness.shapes import SHAPES


def test_there_are_enough():
    """The corpus has more than sixty files, each with a unique name."""
    assert 60 < len({shape.name for shape in SHAPES}) == len(SHAPES)


@pytest.mark.parametrize("shape", [each for each in SHAPES if not each.stops], ids=lambda shape: shape.name)
def test_a_file_comes_in_right_without_an_option(shape):
    """Without any option, every row of a file becomes an item with its text or numbers and its label. The report names
    the layout."""
    items = imported(shape.make(), shape.name)
    assert shape.counts == (len(items.ids), (items.y == 1).sum(), (items.y == -1).sum()), items.report()
    if items.texts:
        assert shape.first == items.texts[0]
    elif shape.first:
        row = items.vectors[[0]]
        assert shape.first == np.ravel(row.toarray() if sparse.issparse(row) else row).tolist()
    assert shape.words in layout_sentence(items.description)


@pytest.mark.parametrize("shape", [each for each in SHAPES if each.stops], ids=lambda shape: shape.name)
def test_a_doubtful_file_stops_with_what_to_do(shape):
    """A doubtful file is refused. The one-sentence error names the option that settles the doubt, or another way
    out."""
    with pytest.raises(DataError) as stopped:
        imported(shape.make(), shape.name)
    message = str(stopped.value)
    assert shape.stops in message
    assert message.endswith(".")
    assert "\n" not in message


def test_a_percent_sign_in_a_damaged_file_is_no_format():
    """If a library's error message quotes a damaged file, a percent sign in it is not taken for a format specifier."""
    damaged = b"@relation r\n@attribute a numeric\n@attribu,75,0.5\n-5yes,no}\n@data\n-9.0,0.%,yes\n"
    with pytest.raises(DataError, match=r"^x.arff cannot be read: .*\.$"):
        read(named(damaged, "x.arff"))
