"""A crash simulator: each seed gives a random run in which several people work on one session. Their processes and
threads are killed between any two steps, the disk gets full, the database is locked, and the clock jumps.

At the end every acknowledged event must be stored exactly once, no refused event may be stored, and the session must
pass verification and continue.
"""

import os
import random
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from unittest.mock import patch

import numpy as np

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds, row_files
from oal_engine.sessions import look_back
from oal_engine.sessions.reproducing import LogMismatch
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError, create
from oal_engine.store import StorageError, Store
from tests.harness.sessions import stream_of

PEOPLE = ("anna", "ben", "carla")
SETTINGS = (  # only settings that tests of sessions compile anyway
    {},
    {"overlap": 0.4},
    {"audit": 0.25, "pace": 0.5, "horizon": 120, "shuffled": True},
    {"averaged": True, "overlap": 0.2},
    {"repeat": 0.6},
    {"overlap": 0.4, "repeat": 0.4},
    {"goal": "find", "shuffled": True, "overlap": 0.2},  # last: a real process does not have the short beginning
)
ACTS = {
    "answer": 16, "look": 2, "undo": 3, "correct": 3, "mark": 2, "note": 1, "tag": 1, "append": 1, "add": 1,
    "reopen": 1, "clock": 2, "disk": 1,
}  # fmt: skip
TAGS = ("unsure", "excluded")
FAULTS = ("kill", "fail", "others")
STEPS = 60  # a fault is triggered in one of the first STEPS steps of a call
LEASE = 60
AGAIN_AFTER = 2  # answers that a person gives before a question is repeated to them


class Killed(BaseException):
    """The process was killed: none of its code may run any more."""


class Clock:
    """The clock that all processes share."""

    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self, zone):
        """Return the time, which is a millisecond later at every call."""
        self.time += timedelta(milliseconds=1)
        return self.time.astimezone(zone)

    def jump(self, seconds):
        self.time += timedelta(seconds=seconds)


class Connection(sqlite3.Connection):
    """A connection that reports each statement, and the moment after each commit, as a step of its process."""

    process = None

    def execute(self, sql, *values):
        self.step()
        cursor = super().execute(sql, *values)
        if sql == "COMMIT":
            self.step(after=True)
        return cursor

    def executemany(self, *arguments):
        self.step()
        return super().executemany(*arguments)

    def rollback(self):
        if self.process and self.process.dead:
            raise Killed
        super().rollback()

    def step(self, **when):
        if self.process:
            self.process.step(**when)


class Process(Store):
    """A simulated process with its own connections to the database, in which the session is open twice (`windows`)."""

    def __init__(self, world, place, fault=None):
        self.world, self.place, self.connections, self.dead, self.fault = world, place, [], False, fault
        try:
            super().__init__(world.path, patience=world.patience)
            with self._failures():
                self._db.execute("PRAGMA synchronous = OFF")  # power failures are not simulated
            self.windows = [Session(self, world.session) for _ in range(2)]
        except BaseException:
            self.end()
            raise

    def _connect(self, mode):
        connection = super()._connect(mode)
        connection.process = self
        self.connections.append(connection)
        return connection

    def step(self, after=False):
        """Count a step, and trigger the planned fault when its step comes. after: the step follows a commit. Raise
        Killed if the process has ended."""
        if self.dead:
            raise Killed
        if self.fault:
            left, strike = self.fault
            self.fault = (left - 1, strike) if left > 0 else None
            if left <= 0:
                strike(self, after)

    def end(self):
        """Close the database as when a process ends: uncommitted changes are lost. Connections that other threads may
        still be reading from are closed at the end of the run."""
        self.dead = True
        with self._lock:  # waits until a thread that is writing has noticed the end
            for connection in self.connections[: 1 if self.world.threads else None]:
                connection.close()
        self.world.left += self.connections


@dataclass
class Event:
    """An event that a person sends again and again until it is acknowledged or refused. before: if this event answers a
    prepared question, the event of the answer for which the question was prepared; it is sent first."""

    id: str
    kind: str
    who: str
    values: tuple
    before: "Event | None" = None
    state: str = "sent"  # then "acknowledged" or "refused"

    def send(self, opened):
        """Send the event to an open session."""
        match self.kind, self.values:
            case "answer", (question, label, _):
                opened.answer(self.id, question, label, self.who)
            case "undo", (question,):
                opened.undo(self.id, question, self.who)
            case "correct", (question, label):
                opened.correct(self.id, question, label, self.who)
            case "mark", (item, trains):
                opened.feedback(self.id, item, True, self.who, trains)
            case "note", (item,):
                opened.note(self.id, item, self.id, self.who)
            case "tag", (item, tag, given):
                opened.tag(self.id, item, tag, given, self.who)
            case "add", (labels,):
                opened.add_labels(self.id, labels, self.who)
            case "append", (seed,):
                items = stream_of(4, seed=seed, density=1)[1]
                items.ids = [f"{self.id} {k}" for k in range(4)]
                feeds.append(Dataset(opened.store, opened.dataset.id), items)


def prepared(folder):
    """Create the database of which every run uses a copy. Return its folder."""
    store = Store(folder / "studio.db")
    datasets.add(store, "sparse", datasets.table(stream_of(80)[1]), "made.npz")
    store.close()
    return folder


class World:
    """The run of one seed in its own folder. threads: people act at the same time, so that the seed does not determine
    the order. real: some events are sent by real processes, which are killed by SIGKILL."""

    def __init__(self, seed, template, folder, real=False):
        self.chance = random.Random(seed)
        self.threads, self.real = seed % 10 == 9 and not real, real
        shutil.copytree(template, folder)
        self.path, self.clock, self.lock = folder / "studio.db", Clock(), threading.RLock()
        self.patience = 0.02 if self.threads else 0
        self.full, self.between, self.events, self.counts = False, False, [], Counter()
        with closing(Store(self.path)) as store:
            settings = {"budget": self.chance.randint(6, 20), "lease": LEASE, "tags": TAGS}
            settings |= self.chance.choice(SETTINGS[:-1] if real else SETTINGS)
            self.session = create(store, "sparse", "PAA-I", **settings)
        self.left: list[Connection] = []  # connections of processes that have ended
        self.people = PEOPLE[: self.chance.choice((1, 2, 3, 3))]
        self.processes = [None] * self.chance.choice((1, 2, 3))

    # Faults

    def kill(self, process, after=False):
        process.dead = True
        self.counts["kills"] += 1
        raise Killed

    def fail(self, process, after=False):
        """Raise an I/O error or a disk-full error in place of a statement. after: the statement ran, so do nothing."""
        if not after:
            self.counts["errors"] += 1
            error = sqlite3.OperationalError("a fault")
            error.sqlite_errorcode = self.chance.choice((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL))
            raise error

    def others(self, process, after=False):
        """Let other processes act between two statements of `process`, which may hold the database's lock meanwhile."""
        places = [place for place in range(len(self.processes)) if place != process.place]
        if places and not after and not self.between:
            self.between = True
            try:
                for _ in range(self.chance.choice((1, 1, 3))):
                    self.turn(self.chance, self.chance.choice(places), self.chance.choice(self.people))
            finally:
                self.between = False

    def planned(self, chance):
        """Return a random fault for the next call, as (number of steps before it, fault), or None."""
        if chance.random() < 0.4:
            return chance.randrange(STEPS), getattr(self, chance.choice(FAULTS[: 2 if self.threads else 3]))
        return None

    @contextmanager
    def faulty(self):
        """Patch the engine to use the simulated clock and connections, and to write rows in two steps."""
        write = row_files.write_behind

        def in_two(path, array, size):
            process = next((each for each in self.processes if each and each._writing), None)
            half = len(array) // 2
            for part, place in ((array[:half], size), (array[half:], size + half)):
                write(path, part, place)
                if process:
                    try:
                        process.step()
                    except sqlite3.OperationalError as error:
                        raise OSError(*error.args) from error

        with (
            patch("oal_engine.store.database.datetime", self.clock),
            patch("oal_engine.sessions.asking.REPEAT_AFTER", AGAIN_AFTER),
            patch("oal_engine.kernel.spending.BEGINNING", (4, 0.0)),  # labels after which a whole file is asked about
            patch("oal_engine.sessions.asking.JOIN_WAIT_SECONDS", 0),  # nobody waits for the pages of others
            patch.object(row_files, "write_behind", in_two),
            patch("sqlite3.connect", partial(sqlite3.connect, factory=Connection)),
        ):
            yield

    @contextmanager
    def ending(self):
        """End all processes and close their connections when the body ends."""
        try:
            yield
        finally:
            for place in range(len(self.processes)):
                self.stop(place)
            for connection in self.left:
                connection.close()

    # What people do

    def run(self):
        """Let people act, end all faults, answer what is left, and check what is stored. Return counts of events and
        faults."""
        with self.faulty(), self.ending():
            if self.threads:
                self.play_in_threads()
            else:
                for _ in range(self.chance.randint(20, 60)):
                    place = self.chance.randrange(len(self.processes))
                    self.turn(self.chance, place, self.chance.choice(self.people))
            self.full = False
            self.clock.jump(self.chance.choice((0, 2 * LEASE)))
            for place in range(len(self.processes)):
                self.window(place, 0)
            for event in self.events:
                if event.state == "sent":
                    self.deliver(event, self.window(0, 0))
            self.check()
            self.finish()
            self.check()
        self.counts["events"] = len(self.events)
        return self.counts

    def play_in_threads(self):
        """Let each person act in a thread of their own. Raise the first failure, if any."""
        failures, ended = [], []

        def play(who, seed):
            chance = random.Random(seed)
            try:
                for _ in range(12):
                    self.turn(chance, chance.randrange(len(self.processes)), who)
            except BaseException as failure:
                failures.append(failure)
            ended.append(who)

        threads = [threading.Thread(target=play, args=(who, self.chance.random())) for who in (*self.people, "dora")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def window(self, place, number, fault=None):
        """Return one of the open sessions (windows) of a process, which is started if it is not running. fault: a fault
        to plan for the process."""
        with self.lock:
            process = self.processes[place]
            if process is None:
                process = self.processes[place] = Process(self, place, fault)
            else:
                process.fault = fault
        with process._lock, process._failures():
            pages = 2**30 if not self.full else process._db.execute("PRAGMA page_count").fetchone()[0]
            process._db.execute(f"PRAGMA max_page_count = {pages}").fetchall()  # an open cursor keeps a snapshot
        return process.windows[number]

    def turn(self, chance, place, who):
        """Let a person act in a process. Storage errors are only accepted if a fault may have caused them."""
        errors = self.counts["errors"]
        try:
            self.act(chance, place, who)
        except Killed:
            self.stop(place)
        except (StorageError, OSError):
            self.counts["unsaved"] += 1
            if not (self.threads or self.full or self.between or self.counts["errors"] > errors):
                raise
        finally:
            if process := self.processes[place]:
                process.fault = None

    def stop(self, place):
        """End a process, if it runs."""
        with self.lock:
            process, self.processes[place] = self.processes[place], None
        if process:
            process.end()

    def act(self, chance, place, who):
        act = chance.choices(list(ACTS), ACTS.values())[0]
        own = [event for event in self.events if event.who == who and event.state != "refused"]
        again = [event for event in own if event.state == "sent"] or own[-3:]
        if act == "clock":
            self.clock.jump(chance.choice((-86_400 * 365, -3600, -1, 1, LEASE / 2, 2 * LEASE, 86_400)))
        elif act == "disk":
            self.full = not self.full
        elif act == "reopen":
            self.stop(place)
        else:
            real = self.real and not self.between and chance.random() < 0.3
            opened = self.window(place, chance.randrange(2), None if real else self.planned(chance))
            event = chance.choice(again) if again and chance.random() < 0.3 else self.made(chance, act, opened, who)
            if event and event.before and event.before.state == "sent":
                event = event.before
            if event and real:
                self.kill_for_real(event, place, chance.randrange(STEPS))
            elif event:
                self.deliver(event, opened)

    def kill_for_real(self, event, place, step):
        """Send an event in a forked process that is killed by SIGKILL at its step number `step`."""
        for each in range(len(self.processes)):  # SQLite's connections must not be carried into another process
            self.stop(each)
        if not (child := os.fork()):
            code = 1
            try:
                process = Process(self, place, (step, lambda *_: os.kill(os.getpid(), signal.SIGKILL)))
                self.deliver(event, process.windows[0])
                code = {"acknowledged": 0, "refused": 2}[event.state]
            finally:
                os._exit(code)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        known = event.state == "acknowledged"
        event.state = "acknowledged" if known else {0: "acknowledged", 2: "refused", -signal.SIGKILL: "sent"}[ended]
        self.counts["real kills"] += ended < 0

    def made(self, chance, act, opened, who):
        """Make an event of the kind `act` from what a person sees. Return None if there is nothing to send."""
        values = following = None
        if act == "look":
            opened.held(who)
        elif act == "answer" and (held := opened.held(who)):
            asked = chance.choice(held)
            label = chance.choice((int(opened.y[asked.item]) or 1, 1, -1, SKIP))
            values = asked.id, label, asked.item
            shown = opened.branches if opened.current in held else {}
            if asked == opened.current and label in shown and chance.random() < 0.5:
                following = shown[label].asked
        elif act == "undo" and (previous := opened.previous_of(who)):
            values = (previous,)
        elif act == "correct" and (answered := [entry for entry in opened.log if entry.label is not None]):
            values = chance.choice(answered).id, chance.choice((1, -1, SKIP))
        elif act == "mark":
            _, predicted, asked = opened.decided
            if (passed := np.flatnonzero((predicted > 0) & ~asked)).size:
                values = int(opened.order[chance.choice(passed)]), chance.random() < 0.7
        elif act == "note":
            values = (chance.randrange(80),)
        elif act == "tag":
            values = chance.randrange(80), chance.choice(TAGS), chance.random() < 0.7
        elif act == "append":
            values = (chance.randrange(2**30),)
        elif act == "add":
            values = (chance.randint(1, 3),)
        if values is None:
            return None
        with self.lock:
            event = Event(f"event {len(self.events)}", act, who, values)
            self.events.append(event)
            if following:  # the person also answers the prepared question, while offline
                values = following.id, chance.choice((1, -1, SKIP)), following.item
                self.events.append(Event(f"event {len(self.events)}", act, who, values, event))
            return event

    def deliver(self, event, opened):
        """Send an event. It becomes acknowledged if the call returns, and refused if it raises SessionError."""
        known = event.state == "acknowledged"
        try:
            event.send(opened)
        except LogMismatch:
            raise
        except SessionError as error:
            if event.before and f"already by {event.who}" not in str(error):
                raise AssertionError(f"{event} was shown as prepared") from error
            assert not opened.store.event(event.id), f"{event} is stored, and refused when it is sent again"
            event.state = "acknowledged" if known else "refused"
        except BaseException:
            event.state = "acknowledged" if known else "sent"
            raise
        else:
            event.state = "acknowledged"

    def finish(self):
        """Let the leases expire, and check that one person can answer all remaining questions."""
        self.clock.jump(2 * LEASE)
        opened = self.window(0, 0)
        for _ in range(200):
            held = opened.held("eve")
            if not held:
                break
            self.events.append(Event(f"event {len(self.events)}", "answer", "eve", (held[0].id, 1, held[0].item)))
            self.deliver(self.events[-1], opened)
            assert self.events[-1].state == "acknowledged"
        assert opened.ended(opened.state), "questions are left that nobody gets"

    # What must hold

    def check(self):
        """Check everything that is promised, with a freshly opened database."""
        with closing(Store(self.path)) as store:
            assert store.problems() == []
            report = look_back.verify(store, self.session)
            assert report.verified, report
            again = Session(store, self.session)
            for process in filter(None, self.processes):
                for opened in process.windows:
                    opened.refresh()
                    assert (opened.digest(), opened.log) == (again.digest(), again.log)
            state = again.state
            assert again.ended(state) or state.reserved <= state.budget, "more labels are promised than there are"
            history = store.history(self.session)
            labels = sum(entry.label not in (None, SKIP) for entry in again.log)
            assert labels + sum(again.marks.values()) == state.spent <= state.budget
            leases = [row["question"] for row in store.leases(self.session)]
            assert len({*leases}) == len(leases)
            self.compare(store, history)

    def compare(self, store, history):
        """Check that each acknowledged event is stored once, as sent, and that no refused or unknown event is
        stored."""
        items = {row["id"]: row["item"] for row in history.questions}
        parts = {"answered": {}, "corrected": {}, "second": {}, "late": {}, "again": {}}
        undone, others = set(), set()
        for row in history.events:
            if row["kind"] in parts:
                parts[row["kind"]][row["id"]] = row
            elif row["id"]:
                (undone if row["kind"] in ("undone", "withdrawn") else others).add(row["id"])
        labels = parts.pop("answered") | parts.pop("corrected")
        opinions = {id: row for part in parts.values() for id, row in part.items()}
        appended = Counter(
            row["id"].rpartition(" ")[0] for row in store.query("SELECT id FROM items WHERE position >= 80")
        )
        sent = {event.id: event for event in self.events}
        assert {*labels, *opinions, *undone, *others, *appended} <= {*sent}
        for event in self.events:
            times = {
                "answer": (event.id in labels) + (event.id in opinions),
                "undo": event.id in undone,
                "correct": event.id in labels,
                "append": appended[event.id] / 4,
            }.get(event.kind, event.id in others)
            may_be = {"acknowledged": (1,), "refused": (0,), "sent": (0, 1)}[event.state]
            if event.kind == "correct" and event.state == "acknowledged":
                may_be = (0, 1)  # the correction may have been to the same label
            assert times in may_be, f"{event} is stored {times} times"
            if event.kind == "answer" and event.id in labels:
                row = labels[event.id]  # perhaps of another question about the same item
                assert event.values[1:] == (row["label"], items[row["question"]])
        assert all(sent[each].state != "refused" for each in undone)
        given = {row["number"]: row["annotator"] for row in history.events}
        firsts = {
            row["question"]: given[row["given"]]
            for row in store.query("SELECT labels.* FROM labels JOIN questions ON questions.id = question"
                                   " WHERE session = ?", self.session)
        }  # fmt: skip
        standing = [row for row in store.opinions(self.session) if row["kind"] != "late"]
        for row in standing:
            own = row["annotator"] == firsts.get(row["question"])
            assert own == (row["kind"] == "again"), (
                "one person gave both answers, or somebody else gave one's own again"
            )
        kinds = [row["kind"] for row in standing]
        kinds += ["ahead, late" for event in self.events if event.before and event.id in opinions]
        kinds += ["ahead" for event in self.events if event.before and event.id in labels]
        self.counts |= Counter(kinds)  # the maximum over all checks


def replay(seed, template, folder, real=False):
    """Play the run that a seed determines, in a new folder that is removed afterwards. Return counts of what happened.
    An error gets a note with the seed."""
    try:
        return World(seed, template, folder, real).run()
    except BaseException as error:
        error.add_note(f"This was the run of seed {seed}.")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
