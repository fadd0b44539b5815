"""The demo streams of this repository: synthetic texts with stored vocabularies."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import places
from . import importing, reading
from .features import table, vectorizer

if TYPE_CHECKING:
    from ..store import Store

FOLDER = places.DATA


@dataclass(frozen=True)
class Demo:
    """A demo stream: its file and columns, and the settings of a session that suits it."""

    name: str
    file: str
    columns: reading.Columns
    session: dict[str, Any]

    @property
    def vocabulary_file(self) -> Path:
        return FOLDER / Path(self.file).with_suffix(".vocabulary.json")


DEMOS = {
    "tweets": Demo(
        "Demo: life satisfaction (synthetic)",
        "tweets.csv",
        reading.Columns(text=("text",), label="label", id="id", positive=("satisfaction",)),
        {
            "algorithm": "auto",
            "budget": 300,
            "positive_name": "About life satisfaction",
            "negative_name": "Something else",
            "guidelines": (
                "About life satisfaction: the writers say how satisfied or dissatisfied they are with their own life "
                "as a whole.\n"
                "Something else: a good mood or a bad day, a loved dish, a dull job, somebody else's life, a quotation "
                "or a joke, in however similar words.\n"
                "In doubt, skip."
            ),
        },
    ),
    "abstracts": Demo(
        "Demo: heart abstracts (synthetic)",
        "abstracts.csv",
        reading.Columns(text=("title", "abstract"), label="label", id="id", positive=("heart",)),
        {
            "algorithm": "auto",
            "budget": 200,
            "positive_name": "Concerns the heart",
            "negative_name": "Something else",
            "guidelines": (
                "Concerns the heart: the study is about diseases of the heart or their treatment, such as infarction, "
                "valves, rhythm, heart muscle, transplantation, arrest or devices.\n"
                "Something else: stroke, pulmonary embolism, blood pressure, vessels outside the heart, a heart rate "
                "measured on the side.\n"
                "In doubt, skip."
            ),
        },
    ),
}

TWEETS = DEMOS["tweets"]
DEMOS["judged"] = replace(
    TWEETS, name="Demo: labels of a model (synthetic)", columns=replace(TWEETS.columns, details=("llm",)),
    session=TWEETS.session | {"budget": 150, "column": "llm", "floor": 0.5, "pace": 1.0},
)  # fmt: skip

# A session that asks several questions about each abstract
FIVE_QUESTIONS: dict[str, Any] = {
    "name": "Demo: five questions (synthetic)",
    "algorithm": "auto",
    "budget": 200,
    "guidelines": "An abstract may answer several questions with yes, or none.",
    "questions": [
        {"name": "Heart", "guidelines": "The study is about diseases of the heart or their treatment."},
        {"name": "Cancer", "guidelines": "The study is about cancer of any organ, its diagnosis or its treatment."},
        {"name": "Children", "guidelines": "The patients are children or newborn babies."},
        {"name": "Pregnancy", "guidelines": "The patients are pregnant or giving birth."},
        {"name": "Interviews", "guidelines": "People were asked in interviews or focus groups."},
    ],
}


def read_vocabulary(demo: Demo) -> vectorizer.Vocabulary:
    """Read the stored vocabulary of a demo."""
    stored = json.loads(demo.vocabulary_file.read_text(encoding="utf-8"))
    terms, counts = zip(*stored["terms"])
    return vectorizer.Vocabulary(list(terms), np.array(counts, np.int64), stored["documents"], stored["settings"])


def dataset(store: Store, which: str) -> int:
    """Return the id of a demo's data set. Import it if it is not stored yet. which: a key of DEMOS."""
    demo = DEMOS[which]
    if stored := store.one("SELECT id FROM datasets WHERE name = ?", demo.name):
        return stored["id"]
    items = reading.read(FOLDER / demo.file, demo.columns)
    features = table.table(items, vocabulary=read_vocabulary(demo))
    return importing.add(store, demo.name, features, demo.file, demo.columns)
