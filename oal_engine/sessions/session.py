"""A person's run over a stream: the question is stored before it is shown, the label before it is learned.

The state is never stored, only rebuilt from the log: the same data, settings and labels give the same bits, which a
digest every DIGEST_EVERY answers proves. The next question under each possible answer is prepared ahead, so that a
page can show it the moment a key is pressed; each prepared question is stored like any other and becomes the next one
only when its answer is. Remaining budget is counted from the labels that stand. Items appended to the data set follow
those that the session began with, and the stream goes on.
"""

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from .. import __version__
from ..kernel import metrics, rows, spending, stream
from ..kernel.algorithms import strategy
from ..kernel.learners import weights
from ..store import now
from .runs import SKIP, Asked, Run, SessionError, answered

DIGEST_EVERY = 50  # answers between two stored digests
BRANCH_LIMIT = 96 * 2**20  # bytes of the copies of a learner for all possible answers, where they are prepared
MOST_CLASSES = 127


def create(
    store,
    dataset,
    algorithm=None,
    *,
    learner=None,
    rule=None,
    parameters=(),
    budget=300,
    seed=0,
    shuffled=False,
    positive_name="Relevant",
    negative_name="Not relevant",
    classes=(),
    positive_class=None,
    name=None,
    weights=metrics.Weights(),
    metric="sum",
    theta=0.0,
    rho="laplace",
    averaged=False,
    audit=0.0,
    audit_trains=True,
    pace=None,
    horizon=None,
    owner="",
    guidelines="",
):
    """Check the settings and store a new session; its id.

    rho is 'laplace' (estimated from the labels given) or a number; what an algorithm fixes goes before. A multi-class
    algorithm asks for one of `classes` (names; the data set's own where there are none given). A session never uses the
    data set's own labels: they draw the exact curves and nothing else. Labels of K classes serve a session of two
    where positive_class says (by name) which is the positive one. audit: share of the budget for random checks up to
    the horizon (rounds; None: the stream as it is), whose answers teach only if audit_trains. pace: share of the
    horizon in which the rest is spent evenly (None: as the rule wants).
    """
    chosen = strategy(algorithm, learner, rule, parameters)
    about = store.dataset(dataset)
    own = list(about["classes"] or ())
    names = _names(classes or own, about) if chosen.multiclass else []
    if classes and not chosen.multiclass:
        raise SessionError(f"{chosen.algorithm} asks for a positive and a negative class. Got {len(classes)} classes.")
    if positive_class is not None and (chosen.multiclass or positive_class not in own):
        allowed = f"one of {', '.join(own)}" if own and not chosen.multiclass else "left out here"
        raise SessionError(f"positive_class must be {allowed}. Got {positive_class}.")
    chosen.build(about["features"], len(names))
    budget, seed = _whole(budget, "budget", 1), _whole(seed, "seed", 0)
    positive_name, negative_name = ("", "") if names else (positive_name.strip(), negative_name.strip())
    if not names and (not positive_name or not negative_name or positive_name == negative_name):
        raise SessionError("a session needs two different class names.")
    if metric not in ("sum", "cost"):
        raise SessionError(f"metric must be sum or cost. Got {metric}.")
    horizon = about["items"] if horizon is None else _whole(horizon, "horizon", 1)
    spending.plan(chosen.rule, budget, horizon, audit, audit_trains, pace)
    rho = stream.objective(theta, effective_rho(chosen, rho, weights, metric), weights.ratio("sum")).rho
    return store.add_session(
        {
            "name": (name or about["name"]).strip(),
            "dataset": about["id"],
            "items": about["items"],
            "horizon": horizon,
            "algorithm": chosen.algorithm,
            "learner": chosen.learner,
            "rule": chosen.rule,
            "parameters": json.dumps({"learner": chosen.learner_parameters, "rule": chosen.rule_parameters}),
            "budget": budget,
            "seed": seed,
            "shuffled": int(shuffled),
            "positive_name": positive_name,
            "negative_name": negative_name,
            "classes": json.dumps(names) if names else None,
            "positive_class": positive_class,
            "alpha_p": weights.alpha_p,
            "c_p": weights.c_p,
            "metric": metric,
            "theta": float(theta),
            "rho": rho,
            "averaged": int(averaged),
            "audit": float(audit),
            "audit_trains": int(audit_trains),
            "pace": None if pace is None else float(pace),
            "owner": owner.strip(),
            "guidelines": guidelines,
            "engine": __version__,
        }
    )


def effective_rho(chosen, rho, weights, metric):
    """The rho that a strategy runs with where no labels are known beforehand; 0 is Laplace's estimate."""
    if rho == "auto":
        raise SessionError("rho must be a number > 0, or laplace. Got auto.")
    return chosen.known_rho(rho, weights, metric)


def _names(classes, about):
    """The class names of a multi-class session, checked."""
    names = [name.strip() for name in classes]
    if not names:
        raise SessionError(f"the data set {about['name']} has no classes of its own: name those to ask for.")
    if not 2 <= len(names) <= MOST_CLASSES or len(set(names)) < len(names) or not all(names):
        raise SessionError(f"a session needs 2 to {MOST_CLASSES} different class names. Got {', '.join(names)}.")
    return names


def _whole(value, name, low):
    if not isinstance(value, (int, float, np.number)) or not low <= value < 2**53 or int(value) != value:
        raise SessionError(f"{name} of a session must be a whole number >= {low}. Got {value}.")
    return int(value)


@dataclass(frozen=True)
class Decided:
    """The margin and the class predicted in every round of a stream, whether it was asked, and how many have passed."""

    margins: np.ndarray
    predicted: np.ndarray
    asked: np.ndarray
    rounds: int = 0

    @classmethod
    def empty(cls, rounds):
        return cls(np.zeros(rounds), np.zeros(rounds, np.int8), np.zeros(rounds, bool))

    def longer(self, rounds):
        """The same with room for a longer stream."""
        parts = (np.resize(part, rounds) for part in (self.margins, self.predicted, self.asked))
        return Decided(*parts, self.rounds)


class Session(Run):
    """An open session, safe to share between threads; opening it rebuilds the state from its log."""

    def __init__(self, store, session):
        super().__init__(store, store.session(session))
        self.id = session
        self._lock, self._decided = threading.RLock(), Decided.empty(0)
        self._rebuild()

    def _rebuild(self):
        """Run the log again from the first round; what is stored for it already is not stored again, so that a session
        opens while others write. A store that is only read gets nothing prepared."""
        with self.store.snapshot():
            waiting, ahead = self._run_log(), self._ahead()
            stored = self.store.prepared(waiting) if waiting else {}
        if bool(waiting) != self.ended(self._state) and all(
            map(self._is_stored, map(stored.get, ahead), ahead.values())
        ):
            self._branches = {
                label: (state, None if self.ended(state) else stored[label]["id"]) for label, state in ahead.items()
            }
            self._wait_for(waiting)
            return
        if self.store.read_only:
            self._branches = {}
            self._wait_for(waiting or 0)
            return
        with self.store.transaction():
            if self.store.log_version(self.id) != self.version:  # somebody wrote meanwhile
                waiting, ahead = self._run_log(), self._ahead()
            self._settle(waiting, ahead)

    def _is_stored(self, stored, state):
        """Whether the question of a prepared state is stored as it is."""
        return self.ended(state) or (stored is not None and self._facts(state.question).items() <= stored.items())

    def _run_log(self):
        """Bring the state to the end of the log, checking every question and digest; the id of the one that waits."""
        with self.store.snapshot():
            log, digests, self._changes = (
                ask(self.id) for ask in (self.store.answers, self.store.digests, self.store.changes)
            )
            self._version = self.store.log_version(self.id)
            if self.grown:
                self._take_more()
        self._decided = Decided.empty(self.rounds)
        *_, self._state = self.follow(log, digests, self._changes)
        self._answers = answered(log)
        return None if len(log) == len(self._answers) else log[len(self._answers)]["id"]

    def _decide(self, state):
        found, t = self._decided, state.question.t
        rounds = t + (state.question.predicted != 0)
        stream.decide(
            self.dataset.rows, self.order, state.learner, state.objective.theta, found.rounds, rounds, found.margins,
            found.predicted,
        )  # fmt: skip
        found.asked[found.rounds : rounds] = np.arange(found.rounds, rounds) == t
        self._decided = replace(found, rounds=rounds)

    def _ahead(self):
        """The state after each possible answer to the question that waits, where there is room for them."""
        if self.ended(self._state) or self._heavy:
            return {}
        return {label: self.advance(self._state.copy(), label) for label in (*self.names, SKIP)}

    def _settle(self, question=None, ahead=None):
        """Make the waiting question the current one, and store the next one under each possible answer."""
        parent, label = (self._answers[-1][0], self._answers[-1][2]) if self._answers else (0, 0)
        with self.store.transaction():
            if not self.ended(self._state):
                question = question or self._put(self._state.question, parent, label)
            self.store.number_question(self.id, question, len(self._answers) + 1)
            self._branches = {
                label: (state, None if self.ended(state) else self._put(state.question, question, label))
                for label, state in (self._ahead() if ahead is None else ahead).items()
            }
        self._wait_for(question)

    def _wait_for(self, question):
        """Have a stored question wait for its answer; none at the end."""
        ended = self.ended(self._state)
        self._current = None if ended else self._asked(self._state.question, question, len(self._answers) + 1)

    @property
    def _heavy(self):
        return sum(array.nbytes for array in self._state.arrays()) * (1 + len(self.names)) > BRANCH_LIMIT

    def _put(self, question, parent, branch):
        return self.store.put_question(
            {
                "session": self.id,
                "parent": parent,
                "branch": branch,
                **self._facts(question),
                "asked_at": now(),
            }
        )

    def _asked(self, question, id, number):
        old = self.store.old_label(id)
        return Asked(
            id,
            number,
            question.t,
            int(self.order[question.t]),
            question.margin,
            question.probability,
            question.predicted,
            None if old is None else old["label"],
            question.audit,
        )

    # What a page does

    def refresh(self):
        """Rebuild where another process has answered since, and go on where the data set has grown."""
        with self._lock:
            if self.store.log_version(self.id) != self.version:
                self._rebuild()
            elif self.grown:
                with self.store.transaction():
                    self._go_on()

    @property
    def grown(self):
        """Whether the data set has items that the session has not taken yet."""
        return self.store.length(self.dataset.id) > self.rounds

    def _take_more(self):
        self.dataset.refresh()
        self._take()
        self._decided = self._decided.longer(self.rounds)

    def _go_on(self):
        """Take the items that came, and run on what had reached the end: the state, or what is prepared."""
        end = self.rounds
        self._take_more()
        if self.store.log_version(self.id) != self.version:
            self._rebuild()
        elif any(state.question.t == end for state in (self._state, *(state for state, _ in self._branches.values()))):
            if self._state.question.t == end:
                self._state = self._continued(self._state.copy(), end)
                self._decide(self._state)
            self._settle(self._current and self._current.id)

    def _continued(self, state, end):
        """Run a state on from what was the end of the stream; changes the state given."""
        if end and self._point(end - 1) != end:  # a point that only the end had
            state.trail.pop()
        return self._run(state, end, {})

    @property
    def place(self):
        """The question that waits, or None at the end, and the progress."""
        with self._lock:
            return self.place_of(self._state, self._current, self._answers)

    @property
    def branches(self):
        """The place after each possible answer to the question that waits, where it is prepared."""
        with self._lock:
            number = len(self._answers) + 2
            return {
                label: self.place_of(
                    state,
                    following and self._asked(state.question, following, number),
                    [*self._answers, (0, "", label)],
                )
                for label, (state, following) in self._branches.items()
            }

    @property
    def previous(self):
        """The id of the question answered last, which undo takes back, or None."""
        return self._answers[-1][0] if self._answers else None

    @contextmanager
    def _event(self, event):
        """All or nothing of what an event changes, here and in the database: gives whether it is new."""
        with self._lock:
            self.refresh()  # what it prepares stays, whatever comes of the rest
            kept = dict(vars(self))
            try:
                with self.store.transaction():
                    self.refresh()
                    new = not self.store.event(event)
                    yield new
                    if new:
                        self._version = self.store.count_change(self.id)
            except BaseException:
                vars(self).update(kept)
                raise

    def _checked(self, label):
        if label not in (*self.names, SKIP):
            raise SessionError(f"a label must be {', '.join(map(str, self.names))} or 0 (skip). Got {label}.")

    def answer(self, event, question, label, annotator="", seconds=None, highlighted=None):
        """Store and learn an answer (a class or SKIP); an event that is known changes nothing."""
        self._checked(label)
        with self._event(event) as new:
            if not new:
                return
            if not self._current or question != self._current.id:
                raise SessionError(self._why_not(question))
            self.store.put_label(event, question, label, annotator, seconds, highlighted)
            prepared = self._branches.get(label)
            self._answers = [*self._answers, (question, event, label)]
            self._state, following = prepared or (self.advance(self._state.copy(), label), None)
            self._decide(self._state)
            self._settle(following)
            if len(self._answers) % DIGEST_EVERY == 0:
                self.store.put_digest(self.id, len(self._answers), self._state.digest())

    def _why_not(self, question):
        standing = self.store.standing_label(question)
        if standing:
            return f"this item was answered already by {standing['annotator'] or 'somebody'}."
        return "this item is not the one that is asked now."

    def undo(self, event, question):
        """Take back the last answer, the one to this question, and rebuild; a known event changes nothing."""
        with self._event(event) as new:
            if not new:
                return
            if question != self.previous:
                raise SessionError("only the last answer can be taken back.")
            self.store.undo_label(question, event)
            self.store.shorten_log(self.id, len(self._answers) - 1)
            if self._changes:  # the question that waited may be about another item when it comes again
                self.store.number_question(self.id, question, len(self._answers))
                self.store.drop_prepared(self.id)
            self._rebuild()

    def correct(self, event, question, label, annotator="", seconds=None, highlighted=None):
        """Replace an answer given before (a skip too), or do nothing where it is the same or the event is known.

        What happened in the stream stays: the questions, their chances, what was pushed. The learner is taught again
        with the answers that stand now, and goes on from there.
        """
        self._checked(label)
        with self._event(event) as new:
            if not new:
                return
            old = next((label for id, _, label in self._answers if id == question), None)
            if old is None:
                raise SessionError("only an item that was answered can be corrected.")
            if label == old:
                return
            if old == SKIP:
                self._spend("an answer to a skipped item")
            position = len(self._answers)
            self.store.put_label(event, question, label, annotator, seconds, highlighted, position, self._end)
            self._change()

    @property
    def _end(self):
        """The round that the stream would go on with, or None while a question waits."""
        return None if self._current else self.rounds

    def _spend(self, what):
        """Refuse what costs a label where the budget has none left beside the one for the question that waits."""
        if self.about["budget"] - self._state.spent <= (self._current is not None):
            last = "the last label is for the item that is asked now" if self.place.progress.left else "none is left"
            raise SessionError(f"{what} costs a label of the budget, and {last}.")

    def _change(self):
        """Teach the learner again after a change that is stored; the question that waits stays."""
        self.store.drop_prepared(self.id)
        log, self._changes = self.store.answers(self.id), self.store.changes(self.id)
        self._answers, self._state = answered(log), self._state.copy()
        self.change(self._state, log, self._changes, len(self._answers))
        self._settle(self._current and self._current.id)

    def feedback(self, event, item, wrong, annotator="", trains=False):
        """Store that an item which passed as positive without a question was passed wrongly (or, where `wrong` is
        False, take such a mark away); trains: it is learned as a negative and costs a label."""
        with self._event(event) as new:
            if not new:
                return
            passed = np.flatnonzero(self.order[: self._decided.rounds] == item)
            if not passed.size or self._decided.asked[passed[0]]:
                raise SessionError("only an item that passed without a question can be marked.")
            if trains and (not wrong or self.multiclass or self._decided.predicted[passed[0]] < 0):
                raise SessionError("only a wrong mark on an item that passed as positive can train.")
            known = {mark["item"]: mark for mark in self.store.feedback(self.id)}.get(item)
            if known and known["position"] is not None:
                raise SessionError("this mark has been learned: it stays.")
            if trains:
                self._spend("a mark that trains")
            position = len(self._answers) if trains else None
            self.store.put_feedback(event, self.id, item, wrong, annotator, position, self._end if trains else None)
            if trains:
                self._change()

    @property
    def marks(self):
        """The items that are marked as passed wrongly, and whether each mark was learned."""
        marks = self.store.feedback(self.id)
        return {mark["item"]: mark["position"] is not None for mark in marks if mark["wrong"]}

    def note(self, event, item, text, annotator=""):
        """Store a note on an item; an empty one takes it away."""
        if not 0 <= item < rows.length(self.dataset.rows):
            raise SessionError(f"a note must be on an item of the stream. Got {item}.")
        self.store.log_version(self.id)  # an error where the session was removed
        self.store.put_note(event, self.id, item, text, annotator)

    @property
    def notes(self):
        """The notes that stand, by item."""
        return self.store.notes(self.id)

    @property
    def changed(self):
        """What changes what is asked next besides answers: corrections, marks that train, a stream that grows."""
        return len(self._changes), self.rounds

    def earlier(self, answers):
        """The learner's weights as they were so many answers ago."""
        with self._lock:
            log = self.store.answers(self.id)[: len(self._answers)]
            return weights(self.taught(log, self._changes, max(0, len(log) - answers)).learner)

    @property
    def last_update(self):
        """The seconds that it took to learn the last answer and to find the next question."""
        return self._state.seconds

    @property
    def history(self):
        """The log in order, as `Store.answers` has it, with whether each label was corrected, and the item's note."""
        notes = self.notes
        return [
            entry | {"corrected": entry["label"] != entry["first"], "note": notes.get(entry["item"], "")}
            for entry in self.store.answers(self.id)
        ]

    @property
    def skipped(self):
        """The questions that stand skipped, in order."""
        return [
            Asked(**{name: entry[name] for name in Asked.__dataclass_fields__ if name != "old"}, old=SKIP)
            for entry in self.store.answers(self.id)
            if entry["label"] == SKIP
        ]

    @property
    def decided(self):
        """The margin, the class predicted and whether it was asked, of every round up to now."""
        with self._lock:
            found = self._decided
            return found.margins[: found.rounds], found.predicted[: found.rounds], found.asked[: found.rounds]

    def digest(self):
        """The fingerprint of the state now."""
        return self._state.digest()

    @property
    def version(self):
        """How often the log was changed: by every answer, undo, correction and mark."""
        return self._version
