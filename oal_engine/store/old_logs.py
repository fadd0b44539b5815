"""Convert the log of a session from the nine tables of earlier versions into rows of the table of events.

A migration of the database uses it once, and `adopt` uses it to read files that earlier versions published.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any

Row = dict[str, Any]
EVENT = dict.fromkeys(("id", "question", "item", "label", "seconds", "data"))


@dataclass
class OldLog:
    """The rows of a session in the earlier tables, oldest first. Rows of labels, marks and additions have an `age`, by
    which they are ordered.

    digests: {number of answers: digest}. rounds: length of the stream.
    """

    questions: list[Row]
    labels: list[Row]
    notes: list[Row]
    marks: list[Row]
    additions: list[Row]
    shared: list[Row]
    opinions: list[Row]
    tags: list[Row]
    digests: dict[int, str]
    rounds: int
    created_at: str

    def __post_init__(self) -> None:
        self._by_event = {row["event"]: row for row in (*self.labels, *self.marks, *self.additions)}
        self._replaced = {row["undone_by"]: row for row in self.labels if row["undone_at"] is not None}
        numbers = {row["id"]: row["number"] for row in self.questions if row["number"]}
        standing = [row for row in self.labels if row["undone_at"] is None and row["question"] in numbers]
        self._chains = {numbers[row["question"]]: self._chain(row) for row in standing}
        self._questions = {number: id for id, number in numbers.items()}

    def events(self) -> tuple[list[Row], dict[int, str]]:
        """Convert the log into rows of the table of events, without the column `session`. Return these rows, and the
        digests as {event number: digest}."""
        folded, digested = self._folded()
        replaced, others = dict[Any, list[Row]](), dict[str, list[list[Row]]]()
        final = {_subject(event) for event in folded}
        for block in self._loose():
            if (subject := _subject(block[0])) and subject in final:
                replaced.setdefault(subject, []).extend(block)
            else:
                others.setdefault(block[0]["kind"], []).append(block)
        blocks = ([*replaced.pop(_subject(event), []), event] for event in folded)
        ordered = merge(blocks, *others.values(), key=lambda block: block[0]["at"])  # each part keeps its own order
        rows = [event for block in ordered for event in block]
        sent = {row["id"] for row in rows if row["kind"] != "withdrawn"}
        for number, row in enumerate(rows, 1):
            row["number"] = number
            if row["kind"] == "withdrawn" and row["id"] in sent:  # another event of the page has its id
                row["id"] = None
        places = {answers: folded[place - 1]["number"] for answers, place in enumerate(digested)}
        return rows, {places[answers]: digest for answers, digest in self.digests.items() if answers in places}

    def _chain(self, label: Row) -> list[Row]:
        """Return a label with the labels that it corrected, the oldest first."""
        chain, seen = [label], {label["event"]}
        while (label := self._replaced.get(label["event"], label))["event"] not in seen:
            chain, seen = [label, *chain], {label["event"], *seen}
        return chain

    def _loose(self) -> Iterator[list[Row]]:
        """Yield the events that do not change the state of the session: labels that were taken back, opinions, marks
        that were not learned, notes and tags. The events of a yielded list stay together in the new log."""
        corrections = {row["event"] for row in self.labels}
        for row in self.labels:
            if row["undone_at"] is not None and row["undone_by"] not in corrections:
                first, *others = self._chain(row)
                undone = {"kind": "undone", "question": row["question"]}
                yield [
                    _answer("answered", first), *(_answer("corrected", each) for each in others),
                    EVENT | undone | {"id": row["undone_by"], "at": row["undone_at"], "annotator": ""},
                ]  # fmt: skip
        for row in self.opinions:
            block = [_answer(row["kind"], row)]
            if row["undone_at"] is not None:
                withdrawn = {key: row[key] for key in ("question", "annotator")} | {"kind": "withdrawn"}
                block.append(EVENT | withdrawn | {"id": row["undone_by"], "at": row["undone_at"]})
            yield block
        for row in self.marks:
            if row["position"] is None:
                yield [_mark(row)]
        for row in self.notes:
            yield [_about(row, "noted", "written_at", text=row["text"])]
        for row in self.tags:
            yield [_about(row, "tagged", "tagged_at", tag=row["tag"], given=row["given"])]

    # Events that change the state

    def _folded(self) -> tuple[list[Row], list[int]]:
        """Return the events that change the state of the session, in order. Also return a list whose entry n is the
        number of these events before the digest that was stored after n answers."""
        together = [(row["event"], json.loads(row["happened"])) for row in self.shared]
        first = next((event["rounds"] for _, event in together if event["kind"] == "grown"), self.rounds)
        numbers = [event["number"] for _, event in together if event["kind"] == "answered"]
        alone = sorted(self._chains.keys() - {*numbers})
        events, digested = self._alone(first, alone, {id for id, _ in together})
        for id, event in together:
            events.append(self._shared_event(id, **event))
            if event["kind"] == "answered":
                digested.append(len(events))
        at = self.created_at
        for row in events:  # growth of the stream, and a request for one more question, were stored without a time
            at = row["at"] = row["at"] or at
        return events, digested

    def _shared_event(self, id: str | None, kind: str, **values: Any) -> Row:
        stored = self._by_event.get(id or "")
        match kind:
            case "grown":
                return _grown(values["rounds"])
            case "answered" | "corrected" if stored:
                return _answer(kind, stored)
            case "marked" if stored:
                return _mark(stored)
            case "labelsadded" if stored:
                return _addition(stored)
        number = values.get("number")
        about = {"question": number and self._questions.get(number), "item": values.get("item")}
        return EVENT | about | {"kind": kind, "label": values.get("label"), "at": "", "annotator": ""}

    def _alone(self, rounds: int, answered: list[int], later: set[str | None]) -> tuple[list[Row], list[int]]:
        """Return the events and digest positions (as `_folded` does) from the time before several people shared the
        session. One question waited at a time, so the number of answers at each change gives the order. rounds: length
        of the stream at the end of that time. later: ids of the events after that time."""
        groups: dict[int, list[tuple[int | None, list[Row]]]] = {}
        for (position, end), placed in groupby(self._changes(later), itemgetter("position", "at_end")):
            if position <= len(answered):
                groups.setdefault(position, []).append((end, [row["event"] for row in placed]))
        ends = [end for position in sorted(groups) for end, _ in groups[position] if end is not None and end < rounds]
        events, digested = [_grown((ends or [rounds])[0])], []
        for done in range(len(answered) + 1):
            afterwards: list[Row] = []
            for end, changed in groups.get(done, []):
                if end is not None and end < rounds:
                    ends.pop(0)
                    events += [*changed, _grown((ends or [rounds])[0])]
                elif end is not None and changed[-1]["kind"] == "added":  # a question follows
                    events += changed
                else:  # a question waited, or the stream still ends there
                    afterwards += changed
            digested.append(len(events))
            events += afterwards
            if done < len(answered):
                events.append(_answer("answered", self._chains[answered[done]][0]))
        return events, digested

    def _changes(self, later: set[str | None]) -> list[Row]:
        """Return the corrections, training marks and added labels from the time before several people shared the
        session, in order. At the end of a stream, added labels come after other changes, as the stream continues with
        them."""
        changes = [
            *((row, _answer("corrected", row), row["at_end"] is None)
              for chain in self._chains.values() for row in chain[1:]),
            *((row, _mark(row), row["at_end"] is None) for row in self.marks if row["position"] is not None),
            *((row, _addition(row), row["at_end"] is not None) for row in self.additions),
        ]  # fmt: skip
        changes.sort(key=lambda each: (
            each[0]["position"], each[0]["at_end"] is None, each[0]["at_end"] or 0, each[2], each[0]["age"],
        ))  # fmt: skip
        return [
            {"position": row["position"], "at_end": row["at_end"], "event": event}
            for row, event, _ in changes if row["event"] not in later
        ]  # fmt: skip


def _subject(row: Row) -> tuple[Any, ...] | None:
    """Return the key of an answer or a mark, (question, item), or None for other events. Of the events with the same
    key, the last one counts."""
    return (row["question"], row["item"]) if row["kind"] in ("answered", "marked") else None


def _grown(rounds: int) -> Row:
    return EVENT | {"kind": "grown", "at": "", "annotator": "", "data": {"rounds": rounds}}


def _answer(kind: str, row: Row) -> Row:
    data = {"highlighted": row["highlighted"]} if row.get("highlighted") is not None else None
    values = {key: row[key] for key in ("question", "label", "annotator", "seconds")}
    return EVENT | values | {"kind": kind, "id": row["event"], "at": row["answered_at"], "data": data}


def _mark(row: Row) -> Row:
    trains = {"trains": int(row["position"] is not None)}
    return _about(row, "marked", "given_at", wrong=row["wrong"], **trains)


def _addition(row: Row) -> Row:
    return _about(row | {"item": None}, "added", "added_at", labels=row["labels"], horizon=row["horizon"])


def _about(row: Row, kind: str, at: str, **data: Any) -> Row:
    values = {"id": row["event"], "kind": kind, "at": row[at], "annotator": row["annotator"], "item": row["item"]}
    return EVENT | values | {"data": data}
