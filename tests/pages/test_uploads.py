"""Several uploads are combined into one file."""

import pytest

from oal_engine.datasets import import_process
from tests.harness.files import named
from ui.data.file_questions import one_upload

HALVES = [f"text,label\nSome words of note {k},{k % 2}\n" for k in range(2)]


def uploads(*names):
    """Return files as the browser uploads them, under these names, each with its own id."""
    files = [named(content, name) for content, name in zip(HALVES, names)]
    for at, file in enumerate(files):
        file.file_id = str(at)
    return files


def test_one_upload_stays_as_it_is():
    (upload,) = uploads("a.csv")
    assert ((upload, "a.csv"), None) == (one_upload([upload]), one_upload([]))


@pytest.mark.slow
def test_several_uploads_are_read_together():
    for names, sources in ((("a.csv", "b.csv"), ["a.csv", "b.csv"]), (("a.csv", "a.csv"), ["1/a.csv", "2/a.csv"])):
        files, name = one_upload(uploads(*names))
        assert ("a and 1 more", "0 1") == (name, files.file_id)
        for _ in range(2):
            rows = import_process.peek(files, name).rows
            assert sources == [row["source"] for row in rows]
