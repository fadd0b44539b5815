"""Files from labeling tools, reference databases and sites are imported with their texts and labels."""

import json

import pytest

from oal_engine.datasets.reading import peek, read
from oal_engine.datasets.reading.parsed import Columns
from tests.harness.files import imported, named

TEXTS = [f"Note {k} is about the harbour, and about 5% of its boats" for k in range(6)]
LABELS = [k % 2 == 1 for k in range(6)]
NO, YES = ("no", "yes")


def lines(make):
    return "".join(json.dumps(make(k, text, label)) + "\n" for k, (text, label) in enumerate(zip(TEXTS, LABELS)))


def array(make, before="", after=""):
    return before + json.dumps([json.loads(line) for line in lines(make).splitlines()], indent=2) + after


def word(label):
    return YES if label else NO


def choice(label, cancelled=False):
    result = [{
        "id": "Ab3", "from_name": "sentiment", "to_name": "text", "type": "choices", "origin": "manual",
        "value": {"choices": [word(label)]},
    }]  # fmt: skip
    return {"id": 9, "completed_by": 1, "was_cancelled": cancelled, "lead_time": 3.1, "result": result}


def label_studio(k, text, label):
    annotations = [choice(not label, cancelled=True), choice(label)]
    return {
        "id": k, "annotations": annotations, "drafts": [], "predictions": [], "data": {"text": text}, "meta": {},
        "created_at": "2024-05-01T10:00:00.000000Z", "inner_id": k, "total_annotations": 1, "project": 2,
    }  # fmt: skip


def prodigy_choice(k, text, label):
    options = [{"id": word, "text": word.title()} for word in (YES, NO)]
    return {
        "text": text, "_input_hash": k, "_task_hash": k, "options": options, "_view_id": "choice",
        "config": {"choice_style": "single"}, "accept": [word(label)], "answer": "accept", "_timestamp": 1714557600,
    }  # fmt: skip


def argilla(k, text, label):
    response = [{"value": word(label), "user_id": "7d2", "status": "submitted"}]
    return {
        "id": str(k), "fields": {"text": text}, "metadata": {"origin": "web"}, "vectors": {}, "status": "completed",
        "suggestions": {"label": {"value": YES, "score": 0.5, "agent": "m"}},
        "responses": {"label": [{"value": YES, "user_id": "1", "status": "discarded"}, *response]},
    }  # fmt: skip


def argilla_rows(k, text, label):
    return {
        "id": str(k), "status": "completed", "text": text, "label.responses": [word(label)],
        "label.responses.users": ["7d2"], "label.responses.status": ["submitted"], "label.suggestion": YES,
    }  # fmt: skip


def hugging_face():
    feature = {"dtype": "string", "_type": "Value"}, {"names": [NO, YES], "_type": "ClassLabel"}
    features = [
        {"feature_idx": at, "name": name, "type": type}
        for at, (name, type) in enumerate(zip(("text", "label"), feature))
    ]
    rows = [
        {"row_idx": k, "row": {"text": text, "label": int(label)}, "truncated_cells": []}
        for k, (text, label) in enumerate(zip(TEXTS, LABELS))
    ]
    return json.dumps({"features": features, "rows": rows, "num_rows_total": 6, "partial": False})


def table(head, make, delimiter=",", before=""):
    cells = [make(k, text, label) for k, (text, label) in enumerate(zip(TEXTS, LABELS))]
    quoted = (delimiter.join(f'"{cell}"' if delimiter in cell else cell for cell in map(str, row)) for row in cells)
    return before + "\r\n".join([delimiter.join(head), *quoted, ""])


def written(make, before="", after=""):
    return before + "".join(make(k, text, label) for k, (text, label) in enumerate(zip(TEXTS, LABELS))) + after


TOOLS = {
    "label-studio.json": array(label_studio),
    "label-studio-min.json": array(lambda k, text, label: {
        "text": text, "id": k, "sentiment": word(label), "annotator": 1, "annotation_id": 9,
        "created_at": "2024-05-01T10:00:00.000000Z", "updated_at": "2024-05-01T10:00:00.000000Z", "lead_time": 3.1,
    }),
    "label-studio.csv": table(
        "annotation_id annotator created_at id lead_time sentiment text updated_at".split(),
        lambda k, text, label: (k + 7, 1, "2024-05-01T10:00:00.000000Z", k, 3.1 + k, word(label), text, "2024-05-01"),
    ),
    "prodigy.jsonl": lines(lambda k, text, label: {
        "text": text, "meta": {"source": "web"}, "label": "HARBOUR", "_input_hash": k, "_task_hash": k,
        "_view_id": "classification", "answer": "accept" if label else "reject", "_timestamp": 1714557600,
    }),
    "prodigy-choice.jsonl": lines(prodigy_choice),
    "argilla.json": array(argilla),
    "argilla.jsonl": lines(argilla_rows),
    "doccano.jsonl": lines(lambda k, text, label: {"id": k, "text": text, "label": [word(label)], "Comments": []}),
    "doccano-old.jsonl": lines(lambda k, text, label: {"id": k, "data": text, "label": [word(label)]}),
    "spacy.jsonl": lines(lambda k, text, label: {"text": text, "cats": {"yes": float(label), "no": float(not label)}}),
    "spacy-one.jsonl": lines(lambda k, text, label: {"text": text, "cats": {"HARBOUR": float(label)}}),
    "spacy-pairs.json": array(lambda k, text, label: [text, {"cats": {"HARBOUR": label}}]),
    "openai.jsonl": lines(lambda k, text, label: {"messages": [
        {"role": "system", "content": "Is it about boats?"}, {"role": "user", "content": text},
        {"role": "assistant", "content": word(label)},
    ]}),
    "openai-old.jsonl": lines(lambda k, text, label: {"prompt": text, "completion": f" {word(label)}"}),
    "rows.json": hugging_face(),
    "asreview.csv": table(
        "record_id title abstract asreview_label".split(), lambda k, text, label: (k, f"Study {k}", text, int(label))
    ),
    "rayyan.csv": table(
        "key title year abstract notes".split(), lambda k, text, label: (
            f"rayyan-{k}", f"Study {k}", 2020, text,
            f'RAYYAN-INCLUSION: {{""Ann""=>""{"In" if label else "Ex"}cluded""}} | RAYYAN-LABELS: a,b',
        ),
    ),
    "decided.bib": written(
        lambda k, text, label: f"@article{{rayyan-{k},\n  title={{Study {k}}},\n  year={{2020}},\n"
        f"  note={{RAYYAN-INCLUSION: {{\"Ann\"=>\"{'In' if label else 'Ex'}cluded\"}}}},\n  abstract={{{text}}}\n}}\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOOLS)
def test_the_labels_of_tools_come_in(name):
    """Texts from labeling tools get their labels, stored there as an annotation, verdict, category or note."""
    items = imported(TOOLS[name], name)
    assert (TEXTS, [1 if label else -1 for label in LABELS]) == (
        [each.split("\n")[-1] for each in items.texts],
        [*items.y],
    )


def test_several_choices_are_in_the_column_of_single_ones():
    """Label Studio's short export has one choice as a word and several as an object; all are read into one column."""
    choices = ["a", {"choices": ["a", "b"]}, "b"] * 4
    content = json.dumps([{"text": f"some words {k}", "topic": each} for k, each in enumerate(choices)]).encode()
    items = read(named(content, "min.json"), Columns(("text",), "topic", multiclass=True))
    assert ["a", "a|b", "b"] == items.labels[:3]


MEDLINE = """

PMID- {k}
OWN - NLM
STAT- MEDLINE
IS  - 0140-6736 (Print)
TI  - Study {k} with a title that
      goes on.
LID - S0140-6736(20)3018-{k} [pii]
LID - 10.1000/j.{k} [doi]
{abstract}
FAU - Roe, Richard
AU  - Roe R
LA  - eng
PT  - Journal Article
JT  - Journal of Boats
MH  - *Ships
"""
BODIES = [f"AB  - {text[:20]}\n      {text[20:].strip()}\nCI  - Copyright." for text in TEXTS[:5]]
SOURCES = {
    "pubmed.nbib": "".join(
        MEDLINE.format(k=k, abstract=body) for k, body in enumerate([*BODIES, f"OAB - {TEXTS[5]}\nOABL- eng"])
    ),
    "web-of-science.ciw": written(
        lambda k, text, label: f"PT J\nAU Roe, R\n   Doe, J\nTI Study {k} with a title that\n   goes on.\nSO BOATS\n"
        f"AB {text[:20]}\n   {text[20:].strip()}\nCR Poe E, 1990, NATURE\n   Loe F, 1991, SCIENCE\nER\n\n",
        "FN Clarivate Analytics Web of Science\nVR 1.0\n", "EF",
    ),
    "scopus.csv": table(
        ["Authors", "Author(s) ID", "Title", "Year", "Source title", "DOI", "Link", "Abstract", "Document Type", "EID"],
        lambda k, text, label: ("Roe R.", f"5700{k};", f"Study {k} with a title that goes on.", 2020, "Boats",
                                f"10.1/{k}", "https://x.example", text, "Article", f"2-s2.0-{k}"), before="\ufeff",
    ),
    "zotero.csv": table(
        ["Key", "Item Type", "Publication Year", "Author", "Title", "Publication Title", "DOI", "Url", "Abstract Note"],
        lambda k, text, label: (f"K{k}", "journalArticle", 2020, "Roe", f"Study {k} with a title that goes on.",
                                "Boats", f"10.1/{k}", "https://x.example", text), before="\ufeff",
    ),
    "scopus.bib": written(
        lambda k, text, label: f"@ARTICLE{{Roe2020{k},\nauthor={{Roe, R.}},\ntitle={{{{Study}} {k} with a title that "
        f"goes on.}},\njournal={{Boats \\& Ships}},\nyear={{2020}},\nabstract={{{text}}},\nsource={{Scopus}},\n}}\n\n",
        "Scopus\nEXPORT DATE: 01 May 2024\n\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOURCES)
def test_references_have_title_and_abstract(name):
    """The text of a reference is its title and its whole abstract, even if they continue on further lines."""
    items = imported(SOURCES[name], name)
    expected = [f"Study {k} with a title that goes on.\n{text}" for k, text in enumerate(TEXTS)]
    assert (expected, [0] * 6) == (items.texts, [*items.y])


def test_a_reference_of_pubmed_has_its_doi():
    rows = peek(named(SOURCES["pubmed.nbib"], "pubmed.nbib")).rows
    assert [f"10.1000/j.{k}" for k in range(6)] == [row["doi"] for row in rows]


def test_commands_of_latex_become_characters():
    """LaTeX accents, braces and percent signs in BibTeX are decoded to characters, and a broken entry is skipped."""
    entries = '@article{a, title={Caf{\\\'e} \\& {B}ar}, abstract="About 5% of {\\"U}bung"}\n@article{b, title={One'
    items = imported(f"{entries}\n@misc{{c, title={{Two}}, title={{Three}}}}\n", "x.bib")
    assert ["Café & Bar\nAbout 5% of Übung", "Three"] == items.texts


SITES = {
    "tweets.js": array(
        lambda k, text, label: {"tweet": {
            "id_str": str(k), "full_text": text, "entities": {"urls": []}, "lang": "en",
            "favorite_count": "0", "created_at": "Wed Jan 03 10:00:00 +0000 2024",
        }}, "window.YTD.tweets.part0 = ",
    ),
    "comments.jsonl": lines(lambda k, text, label: {
        "author": f"user{k}", "body": text, "created_utc": 1714557600 + k, "id": f"k{k}x", "link_id": "t3_a",
        "score": k, "parent_id": "t3_a", "subreddit": "boats", "subreddit_id": "t5_a", "edited": False,
    }),
    "timeline.json": json.dumps({"data": [
        {"id": str(k), "text": text, "public_metrics": {"like_count": 3}} for k, text in enumerate(TEXTS)
    ], "includes": {"users": []}, "meta": {"result_count": 6}}),
}  # fmt: skip


@pytest.mark.parametrize("name", SITES)
def test_texts_of_sites_have_no_labels(name):
    items = imported(SITES[name], name)
    assert (TEXTS, [0] * 6) == (items.texts, [*items.y])
