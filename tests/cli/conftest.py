"""Fixtures of the command-line tests: a database, functions that run commands, and files to import."""

import csv
import json

import numpy as np
import pytest

from tests.harness.command_line import ROWS


@pytest.fixture
def db(tmp_path, monkeypatch):
    """The path of this test's database, which OAL_DB names. The working folder is tmp_path."""
    monkeypatch.setenv("OAL_DB", str(tmp_path / "studio.db"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "studio.db"


@pytest.fixture
def run(db, command):
    """A function that runs a command line and returns (exit code, standard output, standard error)."""
    return command


@pytest.fixture
def ok(run):
    """A function that runs a command which must succeed, and returns the printed JSON or text."""

    def ok(*arguments):
        code, out, err = run(*arguments)
        assert (0, "") == (code, err)
        return json.loads(out) if "--json" in arguments else out

    return ok


@pytest.fixture
def numbers(tmp_path):
    """A libsvm file of 60 rows, a quarter of them positive."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 5)) * (rng.random((ROWS, 5)) < 0.7)
    score = X @ rng.normal(size=5)
    lines = (
        f"{'+1' if s > np.quantile(score, 0.75) else '-1'} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(x) if v)
        for s, x in zip(score, X.tolist())
    )
    path = tmp_path / "numbers.libsvm"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def tweets(tmp_path):
    """A file of short texts with hashtags, mentions and compound words, some of them about mood."""
    rng = np.random.default_rng(5)
    words = ["#happy", "happy", "state-of-the-art", "state", "art", "@Ann", "Ann", "day", "😀", "so"]
    path = tmp_path / "tweets.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["title", "body", "topics"])
        for _ in range(ROWS):
            picked = rng.choice(words, 5).tolist()
            writer.writerow(
                [" ".join(picked[:2]), " ".join(picked[2:]), "mood|daily" if "#happy" in picked else "daily"]
            )
    return path
