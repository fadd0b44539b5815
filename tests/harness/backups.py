"""A small labeled database for the tests of backups and checks, and functions that damage it."""

import os
import sqlite3
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
from scipy import sparse

from oal_engine import datasets
from oal_engine.datasets import Dataset, reading
from oal_engine.sessions import backups
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store
from tests.harness import ROOT

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
PAGE_BYTES = 4096


def items(n, first=0, make=np.asarray):
    """Return `n` items, numbered from `first`. Each has a vector of three features; every third item is positive. make:
    function that converts the array of vectors."""
    numbers = range(first, first + n)
    X = np.array([[k, k % 3, 1.0] for k in numbers])
    y = np.array([1 if k % 3 == 0 else -1 for k in numbers], np.int8)
    return reading.Items([*map(str, numbers)], None, make(X), ["a", "b", "c"], [*map(str, y)], y, {})


def labelled(path, answers=5, make=sparse.csr_array, name="vectors"):
    """Create a database with a data set and a session with some answers. Return the store and the open session."""
    store = Store(path)
    dataset = datasets.add(store, name, datasets.table(items(60, make=make), "none"), "x.npy")
    opened = Session(store, create(store, dataset, learner="pa-i", rule="all", budget=50, name="mine"))
    for number in range(answers):
        opened.answer(f"{name} {number}", opened.place.asked.id, 1 if number % 3 else -1, "Ann")
    return store, opened


def contents(path):
    """Return the content of a database as (SQL statements, data sets, bytes of their rows), without the names of row
    folders."""
    store = Store(path, read_only=True)
    connection = sqlite3.connect(path)
    statements = [line for line in connection.iterdump() if not line.startswith('INSERT INTO "datasets"')]
    rows = {
        row["name"]: [part.tobytes() for part in (*Dataset(store, row["id"]).rows[:-1], Dataset(store, row["id"]).y)]
        for row in store.datasets()
    }
    records = [row | {"folder": None} for row in store.datasets()]
    connection.close()
    store.close()
    return statements, records, rows


def problems(store):
    """Check a database, and return the findings that are problems."""
    return [finding for finding in backups.check(store) if finding.problem]


def problems_of(backup):
    """Check a backup, and return the findings that are problems."""
    with backups.opened(backup) as store:
        return problems(store)


def change_byte(path, at, byte):
    """Overwrite one byte of a file. at: offset, counted from the end if it is negative."""
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        file.write(bytes([byte]))


def damage_page(path, page, rng):
    """Overwrite one page (a block of PAGE_BYTES) of a database file with random bytes, as a failing disk might."""
    with open(path, "r+b") as file:
        file.seek(PAGE_BYTES * page)
        file.write(rng.randbytes(PAGE_BYTES))


KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from oal_engine.sessions import backups
left = None
def count(event, _):
    global left
    if left is not None and event in {events}:
        left -= 1
        left or os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
for line in sys.stdin:
    if not os.fork():
        left = int(line)
        {call}
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@contextmanager
def killable(events, call):
    """Yield a function of n. It runs the statement `call` in a child process, which is killed at its n-th audit event
    of these kinds, and returns the exit code."""
    script = [sys.executable, "-c", KILLED.format(events=events, call=call)]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True) as process:

        def attempt(number):
            print(number, file=process.stdin, flush=True)
            return int(process.stdout.readline())

        yield attempt
