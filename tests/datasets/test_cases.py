"""Files that were once read wrongly come in right, or stop with the option that answers the question."""

import json

import pytest

from tests.harness import SHARED

FOLDER = SHARED.parent / "cases" / "imports"
COUNTED = "{} items ({} positive, {} negative"
RIGHT = {  # case: the report of its import has these words, or the error has
    "K1a": (COUNTED.format(24, 6, 18), "texts in message"),
    "K1d": (COUNTED.format(24, 6, 18), "2 repeated headers"),
    "K1e": (COUNTED.format(24, 6, 18), "texts in title + abstract", "labels in relevant"),
    "K2a": ("24 items (no labels)", "texts in text", "ids in c1"),
    "K2b": ("24 items (no labels)", "texts in text"),
    "K3a": (COUNTED.format(24, 6, 18), "texts in text"),
    "K3b": (COUNTED.format(24, 6, 18), "texts in text"),
    "K3d": (COUNTED.format(24, 6, 18), "texts in text"),
    "K3f": ("has 3 names, the lines have 5 cells", "--delimiter"),
    "K4a": (COUNTED.format(24, 6, 18), "texts in Word"),
    "K4c": ("24 items (no labels)", "texts in name"),
    "K5a": ("1,400 items (100 positive, 200 negative, 1,100 unlabelled", "labels in label"),
    "K5b": ("could be in the column spam", "--label 'spam'"),
    "K6a": ("included, asreview_label", "--label"),
    "K6c": ("40 items", "4 features", "labels in edible"),
    "K7a": ("spam (6), ham (6)", "--positive"),
    "K7c": (COUNTED.format(24, 6, 18),),
    "K7d": ("intent",),
    "K7f": (COUNTED.format(24, 6, 18),),
    "K7h": ("24 items", "texts in context"),
    "K8a": (COUNTED.format(24, 6, 18), "texts in tokens"),
    "K8c": ("CoNLL",),
    "K9a": ("24 items (no labels)", "texts in text", "x, y"),
    "K9c": ("24 items (no labels)",),
    "K9d": ("could be in the column language", "--label 'language'"),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_file_comes_in_right_or_stops_with_the_option(case, tmp_path, command):
    """The report of the import, or the sentence that stops it, says the right thing about the file."""
    if not FOLDER.is_dir():
        pytest.skip("needs ../shared/cases/imports")
    own = next(each for each in json.loads((FOLDER / "cases.json").read_text()) if each["id"] == case)
    arguments = "import", FOLDER / own["file"], "--name", "x", "--db", tmp_path / "x.db", *own["options"].split()
    _, output, errors = command(*arguments)
    assert [words for words in RIGHT[case] if words not in " ".join((output + errors).split())] == []
