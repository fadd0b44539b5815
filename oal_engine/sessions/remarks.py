"""The notes and tags that people leave on the items of a session."""

from threading import Lock

from ..store import Store
from ..store.fields import READ, REMARKS, event_problem


class Remarks:
    """The notes and tags of a session, read from its log. Each read takes only the events that are new, because a page
    reads them after each answer. A dictionary that was returned is never changed."""

    def __init__(self, store: Store, session: int) -> None:
        self._store, self._session, self._number, self._lock = store, session, 0, Lock()
        self._texts, self._given = dict[int, str](), dict[tuple[int, str], bool]()
        self._notes, self._tags = dict[int, str](), dict[int, list[str]]()

    def read(self) -> tuple[dict[int, str], dict[int, list[str]]]:
        """Return the current note of each item, and the tags of each item in the order in which they were first
        given."""
        with self._lock:
            self._read_on()
            return self._notes, self._tags

    @property
    def tags_ever(self) -> set[str]:
        """All tags that the log names."""
        with self._lock:
            self._read_on()
            return {tag for _, tag in self._given}

    def _read_on(self) -> None:
        events = self._store.events(self._session, *REMARKS, after=self._number)
        if not events:
            return
        for row in events:
            item, data = row["item"], row["data"]
            if event_problem(row, READ):
                continue
            if row["kind"] == "noted":
                self._texts[item] = data["text"]
            else:
                self._given[item, data["tag"]] = bool(data["given"])
        self._number = events[-1]["number"]
        self._notes = {item: text for item, text in self._texts.items() if text}
        self._tags = {}
        for (item, tag), is_set in self._given.items():
            if is_set:
                self._tags.setdefault(item, []).append(tag)


def unreadable(store: Store, session: int) -> str | None:
    """Say which notes and tags of a session cannot be read and are left out; None if there are none."""
    problems = {row["number"]: event_problem(row, READ) for row in store.events(session, *REMARKS)}
    wrong = [f"event {number:,}: {problem}" for number, problem in problems.items() if problem]
    if not wrong:
        return None
    more = f", and {len(wrong) - 5:,} more" if len(wrong) > 5 else ""
    return f"Notes and tags that cannot be read are left out ({'; '.join(wrong[:5])}{more})."
