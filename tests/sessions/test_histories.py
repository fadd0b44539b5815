"""Any history of a session, by several people in two processes, can be rebuilt from its log bit for bit.

This machine states what holds in every history; the other modules have examples, exact numbers and sentences.
"""

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
from oal_engine.sessions.one_question import OneQuestion, QuestionTrace
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, SessionError
from oal_engine.store import StoreError
from tests.harness.sessions import EVENTS, PEOPLE, begin, database, leave, standing, stream_of, travelled

NAMES = ["half", "fifth", "rare"]
EXAMPLES = 3  # histories of each kind of session
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
    ("sparse", "PAA-I", {"seed_items": ["i5"], "floor": 0.3}),
    ("short", None, {"learner": "pa-i", "rule": "all", "budget": 17}),  # the stream ends before the budget
    ("sparse", "D-AMD", {"shuffled": True}),
    ("sparse", "OA3-diag", {}),
    ("sparse", "SEL-ada", {}),
    ("classes", "auto-classes", {"averaged": True}),
    ("growing", "auto", {"goal": "find", "shuffled": True, "seed": 3}),
    ("sparse", "auto", {"goal": "find", "overlap": 0.3, "repeat": 0.3, "known_labels": 30, "audit": 0.2}),
    ("classes", "auto-classes", {"goal": "find"}),
]
SEVERAL = [
    (data, "auto", {"questions": NAMES} | more)
    for data, more in (
        ("unlabelled", {"audit": 0.3, "audit_trains": False}), ("unlabelled", {"floor": 0.5}),
        ("unlabelled", {"overlap": 0.3, "repeat": 0.3}), ("growing", {"pace": 1.0, "horizon": 300}),
        ("unlabelled", {"questions": ["half", {"name": "fifth", "parent": "half"}, "rare"]}),
        ("unlabelled", {"questions": [{"name": "half", "seed_items": ["i4"]}, "fifth", "rare"]}),
        ("growing", {"goal": "find"}),
    )
]  # fmt: skip
LABELS = st.lists(st.sampled_from([1, -1, -1, SKIP]), min_size=4, max_size=4)
WHO = st.sampled_from(PEOPLE)
NAME = st.sampled_from([*NAMES, LATE])
ITEM = st.integers(0, 299)


def facts(entry):
    """Return the stored facts of a question, which never change."""
    return entry.item, entry.round, entry.margin, entry.probability, entry.draw, entry.predicted, entry.parts


class Histories(RuleBasedStateMachine):
    """People answer, skip, undo, correct, mark, append, and change a session, in two processes. After each step the
    session equals one that is rebuilt from the log, and one that another process has open."""

    store = other = there = run = done = None

    @initialize(budget=st.integers(5, 14), first=st.lists(LABELS, min_size=3, max_size=4))
    def start(self, budget, first):
        data, algorithm, more = self.run
        self.opened = begin(self.store, data, algorithm, **{"budget": budget} | more)
        self.elsewhere = Session(self.other, self.opened.id)
        self.several = "questions" in more
        self.sent, self.facts, self.places = [], {}, []
        for labels in first:
            asked = self.opened.current
            self.attempt("answer", asked.id, self.labels_for(asked, labels), "anna")  # a yes may need another yes

    def attempt(self, act, *arguments, **more):
        """Try to change the session. A refused or repeated event changes nothing. Return whether it was accepted."""
        event, before = next(EVENTS), (self.opened.digest(), self.opened.place, self.opened.version)
        try:
            getattr(self.opened, act)(event, *arguments, **more)
        except (SessionError, StoreError):  # a note may have a character that no file can hold
            self.done[f"{act} refused"] += 1
            assert (self.opened.digest(), self.opened.place, self.opened.version) == before
            return False
        self.done[act] += 1
        if self.store.event(event):
            self.sent.append((act, event, arguments, more))
            self.send_again(len(self.sent) - 1)
        return True

    def change(self, act, *arguments, **more):
        """Attempt to change a session. The waiting question and the decisions so far stay. Return whether it was
        done."""
        waiting, decided = self.opened.current, [each.copy() for each in self.opened.decided]
        done = self.attempt(act, *arguments, **more)
        if waiting:
            assert self.opened.current == waiting
            assert all(np.array_equal(now[..., : old.shape[-1]], old) for now, old in zip(self.opened.decided, decided))
        return done

    @rule(place=st.integers(0, 99))
    def send_again(self, place):
        """An event that is sent again, at once or much later, changes nothing."""
        if self.sent:
            act, event, arguments, more = self.sent[place % len(self.sent)]
            before = self.opened.digest(), self.opened.place, self.opened.version
            getattr(self.opened, act)(event, *arguments, **more)
            assert (self.opened.digest(), self.opened.place, self.opened.version) == before

    def labels_for(self, asked, labels):
        """Return an answer to a question: a label, or for several questions one for each that is asked."""
        if self.several:
            return [label if asks else SKIP for label, (_, asks) in zip(labels, asked.parts if asked else ())]
        return SKIP if labels[0] == SKIP else [*self.opened.names][labels[0] < 0]

    @rule(labels=LABELS, who=WHO, last=st.booleans(), times=st.integers(1, 4))
    def answer(self, labels, who, last, times):
        for _ in range(times):
            if held := self.opened.held(who):
                assert len({each.id for each in held}) == len(held)
                asked, branches = held[-1 if last else 0], self.opened.branches
                label = self.labels_for(asked, labels)
                if self.attempt("answer", asked.id, label, who) and branches and not self.opened.is_shared:
                    prepared, place = branches[label], self.opened.place
                    assert (prepared, bytes_of(prepared)) == (place, bytes_of(place))

    @rule(labels=LABELS, who=WHO, joins=WHO)
    def answer_offline(self, labels, who, joins):
        """A page that is offline answers a question and the one prepared after it. Both answers are kept, even if
        somebody joins meanwhile."""
        held, branches, asked = self.opened.held(who), self.opened.branches, self.opened.current
        label, ahead = self.labels_for(None, labels), self.labels_for(None, labels[1:])
        if branches and asked in held and branches[label].asked:
            self.opened.held(joins)
            assert self.attempt("answer", asked.id, label, who)
            assert self.attempt("answer", branches[label].asked.id, ahead, who)

    @rule(labels=LABELS)
    def answer_and_undo(self, labels):
        """An answer of the only person that is undone at once leaves nothing behind but a mark on its label. The same
        answer then leads to the same state."""
        for who in PEOPLE:
            leave(self.store, who)
        asked = self.opened.current
        if asked and not self.opened.state.outstanding.keys() - {asked.number}:
            before = self.opened.digest()
            if self.attempt("answer", asked.id, self.labels_for(asked, labels)):
                after, entry = self.opened.digest(), self.opened.log[asked.number - 1]
                assert self.attempt("undo", asked.id)
                assert (self.opened.digest(), self.opened.current.id) == (before, asked.id)
                assert self.opened.current.old == (entry.labels or entry.label)
                assert self.attempt("answer", asked.id, self.labels_for(asked, labels))
                assert self.opened.digest() == after

    @rule(who=WHO)
    def undo(self, who):
        if last := self.opened.previous_of(who):
            self.attempt("undo", last, who)

    @rule(label=LABELS, place=ITEM, name=NAME, who=WHO)
    def correct(self, label, place, name, who):
        """A correction of a label that is taken back leaves nothing behind."""
        if log := [entry for entry in self.opened.log if entry.label is not None]:
            entry, before = log[place % len(log)], weights_of(self.opened)
            new = label[0] if self.several else self.labels_for(entry, label)
            done = self.change("correct", entry.id, new, who, **({"name": name} if self.several else {}))
            if done and not self.several and SKIP not in (new, entry.label):
                after = self.opened.digest()
                assert self.change("correct", entry.id, entry.label)
                assert weights_of(self.opened) == before
                assert self.change("correct", entry.id, new)
                assert self.opened.digest() == after

    @rule(place=ITEM, wrong=st.sampled_from([True, True, False]), trains=st.booleans(), who=WHO)
    def mark(self, place, wrong, trains, who):
        if not self.several:
            self.change("feedback", int(self.opened.order[place % self.opened.rounds]), wrong, who, trains=trains)

    @rule(items=st.dictionaries(ITEM, LABELS, min_size=1, max_size=4), name=NAME)
    def know(self, items, name):
        values = {item: label[0] if self.several else self.labels_for(None, label) for item, label in items.items()}
        self.change("know", values, "file", **({"name": name} if self.several else {}))

    @rule(labels=st.integers(1, 3))
    def add_labels(self, labels):
        if self.opened.state.budget < 20:
            self.change("add_labels", labels)

    @rule(parent=st.sampled_from(["", *NAMES]))
    def add_question(self, parent):
        if self.several and LATE not in self.opened.settings.question_names:
            self.attempt("add_question", LATE, parent=parent, seed_items=["i7"])

    @rule(name=NAME)
    def close_question(self, name):
        if self.several:
            self.attempt("close_question", name)

    @rule(item=ITEM, text=st.text(max_size=5), who=WHO)
    def note(self, item, text, who):
        """An item has its newest note, which changes nothing else."""
        before = self.opened.digest(), self.opened.version
        if self.attempt("note", item, text, who):
            assert self.opened.notes.get(item, "") == text
        assert (self.opened.digest(), self.opened.version) == before

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

    @rule(reopen=st.booleans())
    def change_process(self, reopen):
        self.store, self.other = self.other, self.store
        self.opened, self.elsewhere = self.elsewhere, self.opened
        if reopen:
            self.opened = Session(self.store, self.opened.id)

    @invariant()
    def is_rebuilt(self):
        if hasattr(self, "opened"):
            self.opened.refresh()
            self.elsewhere.refresh()
            stored = "SELECT * FROM questions WHERE session = ?"
            before = self.other.query(stored, self.opened.id)
            again = Session(self.other, self.opened.id)
            assert self.other.query(stored, self.opened.id) == before
            for same in (again, self.elsewhere):
                assert (same.digest(), same.version) == (self.opened.digest(), self.opened.version)
                assert (same.place, same.branches) == (self.opened.place, self.opened.branches)
                assert same.log == self.opened.log
                assert all(map(np.array_equal, same.decided, self.opened.decided))

    @invariant()
    def is_counted(self):
        """No item is asked twice, no item with a known label is asked, and no question is lost. The labels are those of
        the tables, and never exceed the budget. No round is counted twice."""
        if hasattr(self, "opened"):
            state, log = self.opened.state, self.opened.log
            asked = {entry.item for entry in log}
            assert len(asked) == len(log)
            assert self.several or not asked & self.opened.known_labels.keys()
            assert all(self.facts.setdefault(entry.id, facts(entry)) == facts(entry) for entry in log)
            labels = [entry.label for entry in log if entry.label is not None]
            assert standing(self.store, self.opened) == labels
            assert state.spent == sum(label != SKIP for label in labels) + sum(self.opened.marks.values())
            assert state.reserved <= state.budget
            assert (state.counts.reshape(len(state.parts), -1).sum(axis=1) <= state.rounds).all()

    @invariant()
    def is_stored_before_it_is_shown(self):
        """Other processes see the current and each prepared question. A place that was shown never changes."""
        if hasattr(self, "opened"):
            for place in (self.opened.place, *self.opened.branches.values()):
                self.places.append((place, bytes_of(place)))
                if asked := place.asked:
                    query = "SELECT session, round, item, margin, probability, predicted FROM questions WHERE id = ?"
                    (row,) = self.other.query(query, asked.id)
                    shown = asked.round, asked.item, asked.margin, asked.probability, asked.predicted
                    assert (*row.values(),) == (self.opened.id, *shown)

    def teardown(self):
        if hasattr(self, "opened"):
            assert all(bytes_of(place) == content for place, content in self.places)
            assert look_back.verify(self.store, self.opened.id).verified
            self.look_back()
            assert self.store.problems() == []
            if self.opened.settings.dataset_name in ("sparse", "unlabelled"):
                adopted = travelled(self.store, self.opened.id, self.there[self.opened.settings.dataset_name])
                assert (adopted.digest(), adopted.place.progress) == (self.opened.digest(), self.opened.place.progress)

    def look_back(self):
        """Open each question of the session again, as the Replay page does, and compare it with the decisions."""
        whole = look_back.Trace(self.store, self.opened.id)
        trace = QuestionTrace(whole, NAMES[0]) if self.several else whole
        margins, predicted, asked = OneQuestion(self.opened, NAMES[0]).decided if self.several else self.opened.decided
        for number in range(1, trace.steps + 1):
            step = trace.step(number)
            passed = slice(step.passed.first, step.passed.first + step.passed.rounds)
            assert self.several or not asked[passed].any()
            if not (trace.multiclass or self.opened.known_labels):  # of which `passed` has no rounds
                assert step.passed.pushed == (predicted[passed] > 0).sum()
            if not self.several and not self.opened.known_labels:
                low, high = min(margins[passed], default=None), max(margins[passed], default=None)
                assert (step.passed.low, step.passed.high) == (low, high)
        for t in range(0, trace.reached, 23):
            if not asked[t]:
                place, draw = trace.round(t)
                assert (place.asked.margin, place.asked.predicted) == (margins[t], predicted[t])
                assert place.asked.probability <= draw
        if not self.several and trace.complete:
            assert trace.state.digest() == self.opened.digest()


def weights_of(opened):
    """Return the bytes of the weights of each question's learner."""
    return [part.learner.w.tobytes() for part in opened.state.parts]


def bytes_of(place):
    return place.weights.tobytes(), place.counts.tobytes()


SEEDS = iter(range(1, 10**9))


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Other databases with the same streams, {name of the data set: store}."""
    folder = tmp_path_factory.mktemp("there")
    return {
        "sparse": database(folder / "sparse.db", "sparse"),
        "unlabelled": database(folder / "unlabelled.db", "unlabelled", labels=(0, 0)),
    }


@pytest.fixture(scope="module")
def data(store):
    """The store with two more data sets: one that grows, and one that is short."""
    for name, items in (("growing", 300), ("short", 20)):
        datasets.add(store, name, datasets.table(stream_of(items, seed=3)[1]), "made.npz")
    return store


def explore(run, stores, there, examples):
    """Explore random histories of a kind of session. Return how often each action was done or refused."""
    done = Counter()
    kind = type("Histories", (Histories,), {
        "store": stores[0], "other": stores[1], "there": there, "run": run, "done": done,
    })  # fmt: skip
    more = {"deadline": None, "suppress_health_check": [*HealthCheck], "database": None, "phases": [Phase.generate]}
    run_state_machine_as_test(kind, settings=settings(max_examples=examples, stateful_step_count=25, **more))
    return done


@pytest.mark.parametrize("run", [*ONE, *SEVERAL], ids=lambda run: f"{run[1]}: {run[0]} {', '.join(run[2])}")
def test_any_history_is_rebuilt_bit_for_bit(data, other, there, run, monkeypatch):
    """After each step of random histories a session rebuilt from the log is the same to the bit; at the end the session
    verifies, here and, published, in another database, and its past can be opened again."""
    monkeypatch.setattr("oal_engine.sessions.asking.JOIN_WAIT_SECONDS", 0)
    monkeypatch.setattr("oal_engine.sessions.asking.REPEAT_AFTER", 2)
    monkeypatch.setattr("oal_engine.sessions.asking.DIGEST_EVERY", 3)
    monkeypatch.setattr("oal_engine.kernel.spending.BEGINNING", (4, 0.0))  # then the goal find asks about the whole
    done = explore(run, (data, other), there, EXAMPLES)
    assert done["answer"] > 0


@pytest.mark.parametrize(
    ("data_set", "more"),
    [("sparse", {"known_labels": 30}), ("unlabelled", {"questions": NAMES})],
    ids=["known", "several"],
)
def test_the_scratch_arrays_of_a_sketch_can_be_rebuilt(data, other, data_set, more, monkeypatch):
    """A sketched learner keeps numbers of the row that it predicted last, and a digest covers them: also after a block
    of rounds was inspected for several questions, and at the end of a stream whose last items are known."""
    monkeypatch.setattr("oal_engine.sessions.asking.DIGEST_EVERY", 1)
    opened = begin(data, data_set, "SSOA3", budget=5, **more)
    while asked := opened.current:
        opened.answer(next(EVENTS), asked.id, [1, -1, 1] if opened.several else 1)
    assert opened.digest() == Session(other, opened.id).digest()
    assert look_back.verify(data, opened.id).verified
