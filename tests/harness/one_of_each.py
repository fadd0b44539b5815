"""Write one import, session, export and page of each kind to files that must have the same bytes on every machine."""

import json
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_array

from docs import make_pages
from oal_engine import datasets, experiments
from oal_engine.datasets import Dataset, feeds, reading
from oal_engine.datasets.features import embeddings, vectorizer
from oal_engine.experiments import race
from oal_engine.experiments import report as tables
from oal_engine.kernel.algorithms import strategy
from oal_engine.sessions import look_back
from oal_engine.sessions.files import export, player
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import SKIP, create
from oal_engine.store import Store
from tests.harness import promises
from tests.harness.examples import compared as runs_of
from tests.harness.examples import topics, write_embedding
from tests.harness.sessions import text_of

ITEMS, LATER, BUDGET = 240, 20, 60
PEOPLE = ("ann", "ben")
TEXT = reading.Columns(("text",), "label", "id")
TABLE = reading.Columns(label="label", id="id", features=("a", "b", "c"))
IMPORTS = {  # columns, fields of the request, settings of the vectorizer
    "latent": (TEXT, {}, {}),
    "rich": (TEXT, {"features": "rich", "near_duplicates": "once"}, {}),
    "words": (TEXT, {}, {"tokenizer": "words"}),
    "beside": (TEXT, {}, {}),
    "classes": (reading.Columns(("text",), "topic", "id", multiclass=True), {}, {}),
    "plain": (TABLE, {"features": "plain", "scale": "l2"}, {}),
    "waves": (TABLE, {"features": "fourier"}, {}),
    "leaves": (TABLE, {}, {}),
    "kinds": (reading.Columns(label="topic", id="id", features=("a", "b", "c"), multiclass=True), {}, {}),
}
SESSIONS = {  # data set and settings; each pair of a learner and a kind of rows takes seconds to compile
    "first order": ("plain", {"algorithm": "PAA-I", "seed_items": ["i0"]}),
    "second order": ("leaves", {"algorithm": "OA3-diag", "floor": 0.3, "shuffled": True}),
    "full": ("plain", {"algorithm": "OA3", "audit": 0.3, "pace": 0.5}),
    "sketched": ("rich", {"algorithm": "SSOA3", "averaged": True}),
    "adaptive": ("words", {"algorithm": "D-AMD", "seed_words": ["goal"]}),
    "auto": ("beside", {"algorithm": "auto", "overlap": 0.2, "repeat": 0.1, "audit": 0.5, "audit_trains": False}),
    "classes": ("classes", {"algorithm": "auto-classes", "averaged": True}),
}
WITH_PAGE = "auto", "classes"  # sessions whose page and tables in every format are written


class Clock(datetime):
    """A clock that always shows the same time, in every run."""

    @classmethod
    def now(cls, tz=None):
        """Return the same time at every call."""
        return datetime(2026, 1, 1, tzinfo=UTC)


def lines():
    """Yield items as lines of JSON: an id, a text, three numbers, one of two labels and one of three topics."""
    rng = np.random.default_rng(0)
    for k, text in enumerate(topics(ITEMS + LATER)):
        a, b, c = rng.normal((k % 3, k % 2, 0))
        yield json.dumps({"id": f"i{k}", "text": text, "a": a, "b": b, "c": c, "label": int(k % 3 == 0),
                          "topic": "xyz"[k % 3]}) + "\n"  # fmt: skip


def imported(store, folder):
    """For each kind of import, import a data set and append items to it. Yield (name, bytes) for each of its files."""
    write_embedding(folder / "tiny")
    items = [*lines()]
    first, later = folder / "first.jsonl", folder / "later.jsonl"
    first.write_text("".join(items[:ITEMS]))
    later.write_text("".join(items[ITEMS:]))
    for name, (columns, options, settings) in IMPORTS.items():
        embedding = embeddings.read(folder / "tiny") if name == "beside" else None
        request = datasets.ImportRequest(encoder=embedding, **options)
        key = datasets.import_file(store, first, name, columns, request, **settings)[0]
        for _ in feeds.append_file(Dataset(store, key), later):
            pass
        record = {**store.dataset(key)}
        for path in sorted((store.folder / record.pop("folder")).iterdir()):
            yield f"{name}/{path.name}", path.read_bytes()
        yield f"{name}/record", json.dumps(record, default=str).encode()


def labelled(store, data, settings):
    """Create a session and answer it, with skips and wrong answers, by two people if some questions are asked of
    both."""
    session = Session(store, create(store, data, budget=BUDGET, **settings))
    people = PEOPLE if session.settings.overlap else ("ann",)
    for k in range(2 * BUDGET):
        who = people[k % len(people)]
        if not (held := session.held(who)):
            break
        label = int(session.y[held[0].item])
        if k % 7 == 6:
            label = 1 + label % len(session.settings.names) if session.multiclass else -label
        session.answer(f"{session.id} {k}", held[0].id, SKIP if k % 11 == 10 else label, who, 2.5)
    return session


def exported(store, session, folder, name):
    """Yield the names and bytes of a session's exports."""
    path = folder / "export"
    for what in export.WHATS:
        if (what == "positives" and session.multiclass) or what == "audit":
            continue
        kinds = {"model": ("json.gz",), "methods": ("markdown", "text")}.get(what, ("",))
        if what in export.TABLES:
            kinds = ("csv", "jsonl", "parquet")[: None if name in WITH_PAGE else 1]
        for kind in kinds:
            export.export(store, session.id, what, kind, path, texts=True)
            yield f"{name}/{what}.{kind}", path.read_bytes()


def replayed():
    """Yield (name, digest of log, counts and learner) for a long replay of each of the project's own algorithms."""
    for name in ("auto", "auto-sum", "auto-classes"):
        chosen = strategy(name)
        X, y, order = promises.data_for(chosen.learner, n=1500, huge=1)
        done = promises.run(csr_array(X), y, order, chosen.learner, chosen.rule, budget=400)
        yield f"replay/{name}", promises.bits(done.log, done.counts, done.learner).encode()


def made(folder):
    """Yield (name, bytes) for each file that is compared."""
    store = Store(folder / "studio.db")
    yield from replayed()
    yield from imported(store, folder)
    for name, (data, settings) in SESSIONS.items():
        session = labelled(store, data, settings)
        yield f"{name}/digest", session.digest().encode()
        yield f"{name}/state", b"".join(array.tobytes() for array in session.state.arrays())
        yield f"{name}/published", text_of(store, session.id).encode()
        yield from exported(store, session, folder, name)
        if name in WITH_PAGE:
            yield f"{name}/page", player.page(look_back.Trace(store, session.id), texts=True)
    yield "race.page", race.page(Dataset(store, "words"), [("Q_A", {})], 40, 1, texts=True)
    for name, page in make_pages.PAGES.items():
        yield name, page()
    compared = experiments.load(store, runs_of(store, "compared", data=["words"], algorithms={"OAAL": {}, "Q_A": {}}))
    for kind in ("csv", "latex", "svg", "page"):
        yield f"comparison.{kind}", getattr(tables, kind)(compared)
    texts = np.arange(5000)
    yield "logarithms", vectorizer.Vocabulary([], texts, texts.size, {"sublinear": True}).inverse_frequency.tobytes()


def write(folder):
    """Write all files below a folder, with a clock that never advances."""
    with ExitStack() as stack:
        stack.enter_context(patch("oal_engine.store.database.datetime", Clock))
        for module in ("kernel.stream", "sessions.fold"):
            stack.enter_context(patch(f"oal_engine.{module}.perf_counter", lambda: 0.0))
        for name, content in made(folder):
            path = folder / "made" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
