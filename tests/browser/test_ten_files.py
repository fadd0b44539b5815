"""Ten typical files of users are imported and labeled correctly from Home, with two clicks and without typing."""

import io
import json

import pandas
import pytest
from playwright.sync_api import expect

from tests.harness.browser import Card, button

ITEMS = 60
TEXTS = [
    f"{'win a prize' if k % 5 == 0 else 'lunch is at noon'}, says word{k % 7} – it costs £{k}" for k in range(ITEMS)
]
LABELS = [int(k % 5 == 0) for k in range(ITEMS)]
KINDS = ["spam" if label else "ham" for label in LABELS]
FRAME = pandas.DataFrame({"text": TEXTS, "label": LABELS})


def saved(write):
    """Return the bytes that `write` writes to a file object."""
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def lines(*columns, head="", delimiter=","):
    rows = [delimiter.join(map(str, row)) for row in zip(*columns)]
    return "\n".join([*[head] * bool(head), *rows]) + "\n"


QUOTED = [f'"{text}"' for text in TEXTS]
RECORDS = "".join(
    f"TY  - JOUR\nTI  - Study {k}\nAB  - {text}\nN1  - ASReview_{'' if label else 'ir'}relevant\nER  - \n\n"
    for k, (text, label) in enumerate(zip(TEXTS, LABELS))
)
FILES = {
    "mails.csv": lines(QUOTED, LABELS, head="text,label"),
    "spam.csv": lines(KINDS, QUOTED, [",,"] * ITEMS, head="v1,v2,,,").encode("cp1252"),
    "doccano.jsonl": "\n".join(json.dumps({"text": t, "label": [kind]}) for t, kind in zip(TEXTS, KINDS)),
    "review.ris": RECORDS,
    "book.xlsx": saved(lambda file: FRAME.to_excel(file, index=False)),
    "lines.txt": lines(TEXTS),
    "headless.tsv": lines(KINDS, TEXTS, delimiter="\t"),
    "gaps.csv": lines(QUOTED, ["NA" if k % 5 > 1 else LABELS[k] for k in range(ITEMS)], head="comment,relevant"),
    "table.csv": lines(range(ITEMS), [k % 9 for k in range(ITEMS)], ["abc"[k % 3] for k in range(ITEMS)],
                       ["p" if label else "e" for label in LABELS], head="age,rooms,kind,class"),
    "table.parquet": saved(FRAME.to_parquet),
}  # fmt: skip
COUNTS = {"lines.txt": (0, 0), "gaps.csv": (12, 12)}  # (positives, negatives), if they differ from LABELS

COUNT = """() => {
  window.clicks = 0;
  window.keys = 0;
  document.addEventListener("click", (event) => (clicks += event.isTrusted && event.target.type !== "file"), true);
  document.addEventListener("keydown", () => (keys += 1), true);
}"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_ten_files_dropped_on_home_end_in_a_right_session(visit, app, store, tmp_path, name):
    """One click imports a dropped file, and a second click starts labeling, with the right texts and labels."""
    content = FILES[name]
    page = visit(app)
    button(page, "Try the demo").wait_for()
    page.evaluate(COUNT)
    page.locator("input[type=file]").first.set_input_files(
        {"name": name, "mimeType": "", "buffer": content if isinstance(content, bytes) else content.encode()}
    )
    page.get_by_text("The first items, as they will be imported").wait_for()
    button(page, "Import").click()
    button(page, "Show 10 other random items").wait_for()
    button(page, "Start labeling").click()
    card = Card(page)
    if name != "table.csv":
        first = 2 if name == "gaps.csv" else 0  # the file has labels for the first two items
        expect(card("text")).to_contain_text(TEXTS[first])
    clicks, keys = page.evaluate("[clicks, keys]")
    assert (2, 0) == (clicks, keys)
    session = store.sessions()[0]
    row = store.dataset(session["dataset_name"])
    counts = COUNTS.get(name, (sum(LABELS), ITEMS - sum(LABELS)))
    assert (name.split(".")[0], ITEMS, *counts) == (
        row["name"].split(" ")[0], row["items"], row["positives"], row["negatives"],
    )  # fmt: skip
