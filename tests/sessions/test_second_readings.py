"""Second and repeated answers to several questions: they label every question of an item, train nothing, and give the
agreement on each question."""

import io

import pytest

from oal_engine.sessions import look_back
from oal_engine.sessions.files import bundle, export, methods
from oal_engine.sessions.insights import agreement
from oal_engine.sessions.insights.estimates import Estimate
from oal_engine.sessions.one_question import OneQuestion
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SessionError
from tests.harness.sessions import EVENTS, begin, bits, database, text_of, travelled

NAMES = ["half", "third", "fifth"]
PEOPLE = ("anna", "ben")


@pytest.fixture
def soon(monkeypatch):
    """Repeat questions after three answers."""
    monkeypatch.setattr("oal_engine.sessions.asking.REPEAT_AFTER", 3)


def of_several(store, **more):
    return begin(store, "unlabelled", "auto", **{"questions": NAMES} | more)


def truth(item):
    return [1 if item % each == 0 else -1 for each in (2, 3, 5)]


def reply(opened, who, labels=None):
    """Answer a person's current question, with the true labels unless others are given. Return the question."""
    asked = opened.held(who)[0]
    opened.answer(next(EVENTS), asked.id, truth(asked.item) if labels is None else labels, who)
    return asked


def team(store, readings=24, wrong=(5, 9), **more):
    """Return a session in which two people answer every item. The second answers numbered in `wrong` (from 1) differ
    from the truth on the last question, and second answer 3 has no label for the first question."""
    opened, second = of_several(store, overlap=1.0, budget=readings, **more), 0
    for who in PEOPLE * readings * 2:
        if held := opened.held(who):
            labels = truth(held[0].item)
            if held[0].blind:
                second += 1
                labels[2] *= -1 if second in wrong else 1
                labels[0] *= second != 3
            reply(opened, who, labels)
    return opened


def agreements(opened):
    pairs = agreement.by_question(opened)
    return {name: agreement.of_pairs(agreement.one_each(own)) for name, own in pairs.items()}


def given(opened):
    return {row["question"]: row for row in opened.store.opinions(opened.id)}


def test_readings_asked_again_change_no_bit_of_the_session(store, soon):
    """Repeated answers have a label for each question and train nothing: questions, learners and budget are the same as
    in a session without repeated answers, bit for bit."""
    plain, opened = of_several(store, shuffled=True), of_several(store, shuffled=True, repeat=1.0)
    for each in (plain, opened):
        while held := each.held("anna"):
            reply(each, "anna", [-1, -1, 0] if held[0].blind else None)
    assert (plain.digest(), bits(plain)) == (opened.digest(), bits(opened))
    assert [(entry.round, entry.labels) for entry in plain.log] == [(entry.round, entry.labels) for entry in opened.log]
    repeated = given(opened)
    assert 30 < len(repeated) < 40 == opened.place.progress.labels
    assert {("again", -1, (-1, -1, 0))} == {
        (row["kind"], row["label"], tuple(row["labels"])) for row in repeated.values()
    }
    assert look_back.verify(store, opened.id).verified


def test_nobody_sees_the_first_reading_before_giving_the_second(store):
    """A person who is asked for a second answer does not see the labels of the first one before giving theirs. A wrong
    number of labels is refused."""
    opened = of_several(store, overlap=1.0)
    first = reply(opened, "anna", [1, -1, 1])
    asked = opened.held("ben")[0]
    assert (first.id, True, None) == (asked.id, asked.blind, asked.old)
    assert {first.id} == opened.unseen("ben")
    before = opened.place.progress.labels
    for labels, sentence in ((1, "a label for each of"), ([1, 1], "3 labels"), ([1, 1, 2], "a label must be")):
        with pytest.raises(SessionError, match=sentence):
            reply(opened, "ben", labels)
    reply(opened, "ben", [-1, 0, 1])
    assert ([-1, 0, 1], before) == (given(opened)[first.id]["labels"], opened.place.progress.labels)
    assert [1, -1, 1] == opened.answered(first.id).old
    assert set() == opened.unseen("ben")


def test_agreement_is_of_each_question(store):
    """Agreement on each question is computed from the labels that both people gave, weighted as in a session of one
    question. The question with the lowest kappa is named, in the text for a methods section too."""
    opened = team(store)
    found = agreements(opened)
    assert 24 == len(agreement.answer_pairs(opened))
    assert {"half": (23, 23), "third": (24, 24), "fifth": (24, 22)} == {
        name: (own.pairs, own.equal) for name, own in found.items()
    }
    assert [pytest.approx(1)] * 2 == [found[name].kappa.value for name in NAMES[:2]]
    assert found["fifth"].kappa.value < 0.9
    weights = [1 / pair.entry.probability for pair in agreement.answer_pairs(OneQuestion(opened, "fifth"))]
    same = [pair.first == pair.second for pair in agreement.answer_pairs(OneQuestion(opened, "fifth"))]
    assert sum(w for w, each in zip(weights, same) if each) / sum(weights) == pytest.approx(found["fifth"].same.value)
    assert f"Kappa is lowest for fifth: {found['fifth'].kappa}." == agreement.lowest(found)
    assert "" == agreement.lowest({name: found[name] for name in NAMES[:2]})
    text = methods.markdown(opened)
    assert "24 readings have two answers." in text
    assert "Kappa is lowest for fifth" in text
    assert {"anna": 0, "ben": 0} == {each.name: each.again for each in agreement.people(opened)}


def test_whole_readings_are_compared_for_each_person(store, soon):
    """The consistency of a person is the share of repeated answers with the same labels as at first; questions without
    a label in one of the two answers are ignored."""
    opened, number = of_several(store, repeat=1.0, budget=14), 0
    while held := opened.held("anna"):
        number += held[0].blind
        labels = truth(held[0].item)
        if held[0].blind:
            labels = [labels[0] * (number % 2), labels[1], -labels[2] if number == 4 else labels[2]]
        reply(opened, "anna", labels)
    (person,) = agreement.people(opened)
    assert person.again == number > 5
    assert (number - 1) / number == person.same.value


def test_lines_have_second_answers_only_where_they_were_asked(store):
    """A second answer labels the same questions as the first answer, even if one of them was closed since. A label for
    a question that was added since is refused."""
    opened = of_several(store, overlap=1.0)
    early = [reply(opened, "anna", [1, -1, 1]).id for _ in range(2)]
    opened.add_question(next(EVENTS), "new", parent="half")
    early.append(reply(opened, "anna", [1, -1, 1]).id)  # it was waiting before the question was added
    late = reply(opened, "anna", [1, -1, 1, 1]).id
    opened.close_question(next(EVENTS), "third")
    with pytest.raises(SessionError, match="is not asked about new"):
        reply(opened, "ben", [1, 1, 1, 1])
    for _ in early:
        reply(opened, "ben", [1, 1, 1])
    reply(opened, "ben", [-1, 1, 1, -1])
    assert [[1, 1, 1]] * 3 + [[-1, 1, 1, -1]] == [given(opened)[id]["labels"] for id in (*early, late)]
    pairs = {name: [pair.entry.id for pair in agreement.answer_pairs(OneQuestion(opened, name))] for name in NAMES}
    assert [[*early, late]] * 3 == [*pairs.values()]
    assert [late] == [pair.entry.id for pair in agreement.answer_pairs(OneQuestion(opened, "new"))]
    assert look_back.verify(store, opened.id).verified


def test_a_yes_below_a_no_is_refused_in_a_second_reading(store):
    """In a second answer, too, a yes to a child question needs a yes to its parent, and a child without a label gets
    the parent's no."""
    opened = of_several(store, overlap=1.0, questions=["half", {"name": "below", "parent": "half"}])
    first = reply(opened, "anna", [1, 1])
    with pytest.raises(SessionError, match="a yes to below needs a yes to half"):
        reply(opened, "ben", [-1, 1])
    reply(opened, "ben", [-1, 0])
    assert [-1, -1] == given(opened)[first.id]["labels"]


def test_a_second_reading_is_taken_back_and_a_difference_is_decided(store):
    """An undo of a second answer asks for it again and keeps the first answer; a correction of one question settles the
    difference on this question only."""
    opened = of_several(store, overlap=1.0)
    first = reply(opened, "anna", [1, 1, -1])
    assert first.id == opened.held("ben")[0].id  # Ben also has the next item
    before = opened.digest()
    reply(opened, "ben", [-1, -1, -1])
    opened.undo(next(EVENTS), first.id, "ben")
    assert ({}, before, first.id) == (given(opened), opened.digest(), opened.held("ben")[0].id)
    reply(opened, "ben", [-1, -1, 0])
    open_ones = lambda: {  # noqa: E731
        name: len(agreement.differing(agreement.answer_pairs(OneQuestion(opened, name)))) for name in NAMES
    }
    assert {"half": 1, "third": 1, "fifth": 0} == open_ones()
    opened.correct(next(EVENTS), first.id, -1, "owner", name="third")
    assert {"half": 1, "third": 0, "fifth": 0} == open_ones()
    assert opened.digest() == Session(store, opened.id).digest()


def test_second_readings_travel_and_are_exported(store, tmp_path):
    """A published session has its second answers and passes verification in another database. Its table of opinions has
    the labels of each question. A file with a wrong number of labels is refused."""
    opened = team(store)
    there = database(tmp_path / "there.db", "unlabelled", labels=(0, 0))
    adopted = travelled(store, opened.id, there)
    table, copy = (export.opinions(each)[0].frame for each in (opened, adopted))
    names = [f"{what}:{name}" for name in NAMES for what in ("label", "first", "stands")]
    assert names == [*table.columns[-9:]]
    assert table[names].equals(copy[names])
    assert 24 == len(table)
    assert 1 == table["label:half"].isna().sum()
    assert 2 == (table["label:fifth"] != table["first:fifth"]).sum()
    lines = text_of(store, opened.id).splitlines(keepends=True)
    place = next(k for k, line in enumerate(lines) if '"kind": "second"' in line)
    lines[place] = lines[place].replace('"labels": [', '"labels": [1, ')
    with pytest.raises(ValueError, match="does not have the labels"):
        bundle.adopt(database(tmp_path / "third.db", "unlabelled", labels=(0, 0)), io.StringIO("".join(lines)))


def test_negative_numbers_have_a_minus():
    """Negative estimates are printed with a minus sign, not a hyphen, and a value that rounds to 0 has no sign."""
    assert "−0.21 (−0.40 to 0.00)" == str(Estimate(-0.21, -0.4, -0.001))
