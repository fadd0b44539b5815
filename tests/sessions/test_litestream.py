"""A database that Litestream copies while people answer can be restored with a copy of its rows, as documented."""

import shutil
import subprocess
from multiprocessing import get_context
from time import monotonic, sleep

import pytest
import yaml

from oal_engine.sessions.session import Session
from oal_engine.store import Store
from tests.harness import ROOT
from tests.harness.backups import labelled
from tests.harness.sessions import take_back

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("litestream"), reason="needs litestream")]
PATIENCE = 120  # seconds to wait until answers are copied
ANSWERS = 5  # before Litestream starts


def work(path, session):
    """Answer and undo until killed."""
    opened, number = Session(Store(path), session), 0
    while True:
        opened.answer(f"more {number}", opened.place.asked.id, 1 if number % 3 else -1, "Ann")
        if number % 2 or opened.state.number > 40:
            take_back(opened, f"undo {number}")
        number += 1


def litestream(*arguments):
    return subprocess.Popen(["litestream", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def restored(config, source, target):
    """Restore the database into an empty folder. Return its store, or None if nothing was copied yet."""
    shutil.rmtree(target.parent, ignore_errors=True)
    target.parent.mkdir()
    ended = litestream("restore", "-config", config, "-o", target, source).wait()
    return None if ended else Store(target)


def test_what_was_copied_before_all_was_killed_is_restored(tmp_path):
    """If the app and Litestream are killed during work, the restored copy is sound, its log is the beginning of the
    lost one, and its session continues."""
    source, target, config = tmp_path / "studio.db", tmp_path / "restored" / "studio.db", tmp_path / "litestream.yml"
    text = (ROOT / "docs" / "deploying.md").read_text().split("```yaml\ndbs:")[1].split("```")[0]
    settings = yaml.safe_load("dbs:" + text)
    settings["dbs"][0]["path"] = str(source)
    settings["dbs"][0]["replicas"][0]["path"] = str(tmp_path / "copy")
    config.write_text(yaml.safe_dump(settings))
    store, opened = labelled(source, ANSWERS)
    copying = litestream("replicate", "-config", config)
    working = get_context("spawn").Process(target=work, args=(source, opened.id))
    working.start()
    try:
        until = monotonic() + PATIENCE
        while (copy := restored(config, source, target)) is None or len(copy.events(opened.id)) < ANSWERS + 20:
            assert monotonic() < until, "nothing was copied"
            assert (True, None) == (working.is_alive(), copying.poll())
            sleep(0.1)
    finally:
        working.kill()
        copying.kill()
        working.join()
        copying.wait()
    copy = restored(config, source, target)
    shutil.copytree(store.folder, copy.folder)
    events = copy.events(opened.id)
    assert ANSWERS + 20 <= len(events)
    assert events == store.events(opened.id)[: len(events)]
    assert [] == copy.problems()
    again = Session(copy, opened.id)
    again.dataset.check()
    again.answer("after", again.place.asked.id, 1, "Ann")
    assert len(events) + 1 == len(copy.events(opened.id))
