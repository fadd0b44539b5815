"""Any history of a session, by several people in two processes, can be rebuilt from its log bit for bit."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds
from oal_engine.sessions import look_back
from oal_engine.sessions.one_question import QuestionTrace
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError
from tests.harness.sessions import EVENTS, PEOPLE, begin, database, leave, standing, stream_of, travelled

NAMES = ["half", "fifth", "rare"]
LATE = "late"  # a question that is added while the session runs
ONE = [  # data, algorithm, more settings of sessions with one question
    ("growing", "PAA-I", {"shuffled": True, "seed": 5}),
    ("growing", "PAA-I", {"audit": 0.25, "pace": 0.5, "horizon": 280}),
    ("growing", "auto", {"floor": 0.5}),
    ("sparse", "PAA-I", {"overlap": 0.3, "repeat": 0.5, "people": 3, "quota": 25}),
    ("sparse", "OAAL", {"audit": 0.5, "audit_trains": False, "averaged": True}),
    ("sparse", "SSOA3", {"averaged": True, "known_labels": 30}),
    ("classes", "MD-AMD", {"shuffled": True, "overlap": 0.3}),
    ("dense", "OA3", {"known_labels": 20}),
]
SEVERAL = [
    ("unlabelled", "auto", {"questions": NAMES} | more)
    for more in (
        {"audit": 0.3, "audit_trains": False}, {"floor": 0.5}, {"overlap": 0.3, "repeat": 0.3},
        {"questions": ["half", {"name": "fifth", "parent": "half"}, "rare"]},
    )
]  # fmt: skip
LABELS = st.lists(st.sampled_from([1, -1, -1, SKIP]), min_size=4, max_size=4)
WHO = st.sampled_from(PEOPLE)
NAME = st.sampled_from([*NAMES, LATE])
ITEM = st.integers(0, 299)


class Histories(RuleBasedStateMachine):
    """People answer, skip, undo, correct, mark, append, and change a session, in two processes. After each step the
    session equals one that is rebuilt from the log by another process."""

    store = other = there = runs = done = None

    @initialize(run=st.integers(0, 99), budget=st.integers(5, 14))
    def start(self, run, budget):
        data, algorithm, more = self.runs[run % len(self.runs)]
        self.opened = begin(self.store, data, algorithm, **{"budget": budget} | more)
        self.several = "questions" in more

    def attempt(self, act, *arguments, **more):
        """Do something that may be refused. What is refused changes nothing. Return whether it was done."""
        before = self.opened.digest(), self.opened.place, self.opened.version
        try:
            getattr(self.opened, act)(next(EVENTS), *arguments, **more)
        except SessionError:
            self.done[f"{act} refused"] += 1
            assert (self.opened.digest(), self.opened.place, self.opened.version) == before
            return False
        self.done[act] += 1
        return True

    def labels_for(self, asked, labels):
        """Return an answer to a question: a label, or for several questions one for each that is asked."""
        if self.several:
            return [label if asks else SKIP for label, (_, asks) in zip(labels, asked.parts)]
        return SKIP if labels[0] == SKIP else [*self.opened.names][labels[0] < 0]

    @rule(labels=LABELS, who=WHO, last=st.booleans(), times=st.integers(1, 4))
    def answer(self, labels, who, last, times):
        for _ in range(times):
            if held := self.opened.held(who):
                assert len({each.id for each in held}) == len(held)
                asked = held[-1 if last else 0]
                self.attempt("answer", asked.id, self.labels_for(asked, labels), who)

    @rule(labels=LABELS)
    def answer_and_undo(self, labels):
        """An answer of the only person that is undone at once leaves nothing behind."""
        for who in PEOPLE:
            leave(self.store, who)
        asked = self.opened.current
        if asked and not self.opened.state.outstanding.keys() - {asked.number}:
            before = self.opened.digest()
            if self.attempt("answer", asked.id, self.labels_for(asked, labels)):
                assert self.attempt("undo", asked.id)
                assert (self.opened.digest(), self.opened.current.id) == (before, asked.id)

    @rule(who=WHO)
    def undo(self, who):
        if last := self.opened.previous_of(who):
            self.attempt("undo", last, who)

    @rule(label=LABELS, place=ITEM, name=NAME, who=WHO)
    def correct(self, label, place, name, who):
        if log := [entry for entry in self.opened.log if entry.label is not None]:
            entry = log[place % len(log)]
            new = label[0] if self.several else self.labels_for(entry, label)
            self.attempt("correct", entry.id, new, who, **({"name": name} if self.several else {}))

    @rule(place=ITEM, trains=st.booleans(), who=WHO)
    def mark(self, place, trains, who):
        if not self.several:
            self.attempt("feedback", int(self.opened.order[place]), True, who, trains=trains)

    @rule(items=st.dictionaries(ITEM, LABELS, min_size=1, max_size=4), name=NAME)
    def know(self, items, name):
        values = {item: label[0] if self.several else self.labels_for(None, label) for item, label in items.items()}
        self.attempt("know", values, "file", **({"name": name} if self.several else {}))

    @rule(labels=st.integers(1, 3))
    def add_labels(self, labels):
        if self.opened.state.budget < 20:
            self.attempt("add_labels", labels)

    @rule(parent=st.sampled_from(["", *NAMES]))
    def add_question(self, parent):
        if self.several and LATE not in self.opened.settings.question_names:
            self.attempt("add_question", LATE, parent=parent)

    @rule(name=NAME)
    def close_question(self, name):
        if self.several:
            self.attempt("close_question", name)

    @rule(item=ITEM, text=st.text(max_size=5), who=WHO)
    def note(self, item, text, who):
        self.attempt("note", item, text, who)

    @rule(count=st.integers(1, 5))
    def append_items(self, count):
        name = self.opened.settings.dataset_name
        if name == "growing":
            items = stream_of(count, seed=next(SEEDS), density=1)[1]
            ids = [f"later {next(SEEDS)}" for _ in range(count)]
            feeds.append(Dataset(self.other, name), replace(items, ids=ids))
            self.done["append"] += 1

    @rule(who=WHO)
    def leases_expire(self, who):
        leave(self.store, who)

    @rule()
    def change_process(self):
        self.store, self.other = self.other, self.store
        self.opened = Session(self.store, self.opened.id)

    @invariant()
    def is_rebuilt(self):
        if hasattr(self, "opened"):
            self.opened.refresh()
            again = Session(self.other, self.opened.id)
            assert (again.digest(), again.version) == (self.opened.digest(), self.opened.version)
            assert again.place == self.opened.place
            assert again.log == self.opened.log
            assert all(map(np.array_equal, again.decided, self.opened.decided))
            assert self.opened.state.reserved <= self.opened.state.budget
            asked = {entry.item for entry in self.opened.log}
            assert self.several or not asked & self.opened.known_labels.keys()
            assert standing(self.store, again) == [entry.label for entry in again.log if entry.label is not None]

    def teardown(self):
        if hasattr(self, "opened"):
            assert look_back.verify(self.store, self.opened.id).verified
            self.look_back()
            assert self.store.problems() == []
            if self.opened.settings.dataset_name in ("sparse", "unlabelled"):
                travelled(self.store, self.opened.id, self.there[self.opened.settings.dataset_name])

    def look_back(self):
        """Open each question of the session again, as the Replay page does."""
        whole = look_back.Trace(self.store, self.opened.id)
        trace = QuestionTrace(whole, NAMES[0]) if self.several else whole
        for number in range(1, trace.steps + 1):
            trace.step(number)


SEEDS = iter(range(1, 10**9))


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Other databases with the same streams, {name of the data set: store}."""
    folder = tmp_path_factory.mktemp("there")
    return {
        "sparse": database(folder / "sparse.db", "sparse"),
        "unlabelled": database(folder / "unlabelled.db", "unlabelled", labels=(0, 0)),
    }


def explore(runs, stores, there, examples):
    """Run random histories. Return how often each action was done or refused."""
    done = Counter()
    kind = type("Histories", (Histories,), {
        "store": stores[0], "other": stores[1], "there": there, "runs": runs, "done": done,
    })  # fmt: skip
    more = {"deadline": None, "suppress_health_check": [*HealthCheck], "database": None, "phases": [Phase.generate]}
    run_state_machine_as_test(kind, settings=settings(max_examples=examples, stateful_step_count=25, **more))
    return done


@pytest.mark.parametrize("runs", [ONE, SEVERAL], ids=["one question", "several questions"])
def test_any_history_is_rebuilt_bit_for_bit(store, other, there, runs, monkeypatch):
    """After each step of random histories a session rebuilt from the log is the same to the bit; at the end the session
    verifies, here and, published, in another database."""
    monkeypatch.setattr("oal_engine.sessions.asking.JOIN_WAIT_SECONDS", 0)
    monkeypatch.setattr("oal_engine.sessions.asking.REPEAT_AFTER", 2)
    if runs is ONE:
        datasets.add(store, "growing", datasets.table(stream_of(seed=3)[1]), "made.npz")
    done = explore(runs, (store, other), there, 25)
    assert {"answer", "undo", "correct", "know", "add_labels", "note"} <= done.keys()
    assert done["answer"] > 40
