"""JSON is read by one rule: walk down while there is one list of objects, pairs or texts. A conversation is a text."""

import csv
import gzip
import io
import json

import pytest

from oal_engine import datasets
from oal_engine.datasets import Dataset, feeds
from oal_engine.datasets.reading import DataError, peek
from oal_engine.datasets.reading.sources import Layout
from tests.harness.files import imported, named

COUNT = 20
TEXTS = [f"the kettle in case {k} waits beside the {'green' if k % 3 else 'blue'} bottle" for k in range(COUNT)]
SIGNS = [1 if k % 4 == 0 else -1 for k in range(COUNT)]
ROWS = [{"text": text, "label": int(sign > 0)} for text, sign in zip(TEXTS, SIGNS)]
PAIRS = [[row["text"], str(row["label"])] for row in ROWS]
PARTS = {"train": slice(0, 12), "test": slice(12, None)}
SPLIT = [["test", "train"][k < 12] for k in range(COUNT)]


def indented(values):
    return "\n".join(json.dumps(value, indent=2) for value in values)


SAME = {  # the same rows in other clothes
    "two_wrappers.json": {"nlu": {"examples": ROWS, "synonyms": []}},
    "search.json": {"took": 3, "hits": {"total": 20, "hits": ROWS}},
    "beside.json": {"intents": {"names": [{"name": "a"}], "examples": ROWS}},
    "array.jsonl": ROWS,
    "pages.json": [{"page": "a", "rows": [{"number": k}]} | row for k, row in enumerate(ROWS)],
    "by_id.json": {f"item {k}": row for k, row in enumerate(ROWS)},
    "splits.json": {part: ROWS[at] for part, at in PARTS.items()},
    "splits_of_pairs.json": {part: PAIRS[at] for part, at in PARTS.items()},
    "one_of_pairs.json": {"data": PAIRS},
    "pairs.jsonl": "\n".join(map(json.dumps, PAIRS)),
    "over_lines.jsonl": indented(ROWS),
    "over_lines.json": indented(ROWS),
    "sections.json": [
        {"title": f"Part {k}", "sections": ROWS[k : k + 5]} for k in range(0, COUNT, 5)
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_items_are_found_wherever_they_are(name):
    """Wrappers, splits, pairs, pages and objects over several lines give the same texts and labels."""
    content = SAME[name] if isinstance(SAME[name], str) else json.dumps(SAME[name])
    items = imported(content.encode(), name)
    assert (TEXTS, SIGNS) == ([*items.texts], items.y.tolist())


def test_the_keys_of_several_lists_are_a_column():
    """Keys such as train and test are kept with the items; keys that are classes are the label."""
    split = imported(json.dumps(SAME["splits.json"]).encode(), "x.json")
    assert SPLIT == [json.loads(cells)[0] for cells in split.details]
    for lists in (
        {"positive": TEXTS[:5], "negative": TEXTS[5:]},
        {"negative": TEXTS[:10], "positive": TEXTS[10:]},
        {"positive": [{"text": text} for text in TEXTS[:5]], "negative": [{"text": text} for text in TEXTS[5:]]},
        [{"label": "positive", "texts": TEXTS[:5]}, {"label": "negative", "texts": TEXTS[5:]}],
    ):
        items = imported(json.dumps(lists).encode(), "x.json")
        words = ["positive" if sign > 0 else "negative" for sign in items.y.tolist()]
        assert ("label", TEXTS, words) == (items.columns.label, [*items.texts], [*items.labels])


def test_keys_that_could_be_columns_or_classes_are_asked_about():
    """Lists of one length under unknown keys stop with the option that answers. Known names are columns at once."""
    content = json.dumps({"gardens": TEXTS[:10], "kitchens": TEXTS[10:]}).encode()
    with pytest.raises(DataError, match=r"\(gardens, kitchens\) could be columns or labels: .*\(--no-header\)\.$"):
        imported(content, "x.json")
    head = peek(named(content, "x.json"), layout=Layout(header=False))
    assert {"gardens": 10, "kitchens": 10} == head.label_words["label"]
    assert ["gardens", "kitchens"] == peek(named(content, "x.json"), layout=Layout(header=True)).columns
    for names in (("question", "answer"), ("text", "label")):
        lists = dict(zip(names, (TEXTS[:10], TEXTS[10:])))
        assert ((), [*names]) == (lambda head: (head.doubts, head.columns))(
            peek(named(json.dumps(lists).encode(), "x.json"))
        )


def test_texts_under_titles_are_the_texts():
    """The texts of paragraphs under a title are the items, not the titles; a list beside a text stays in its cell."""
    articles = [{"title": f"On case {k}", "paragraphs": [{"context": TEXTS[k], "qas": []}]} for k in range(COUNT)]
    assert TEXTS == imported(json.dumps({"version": "1", "data": articles}).encode(), "x.json").texts
    posts = [{"body": TEXTS[k], "comments": [{"text": "a comment of some words"}] * 3} for k in range(COUNT)]
    assert TEXTS == imported(json.dumps(posts).encode(), "x.json").texts


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json"])
def test_keys_that_come_late_are_columns(name):
    """A key that occurs only after the first thousand objects is a column, also of a compressed file or an array."""
    rows = [{"text": f"{k} {TEXTS[k % COUNT]}"} | ({"label": k % 2} if k >= 1200 else {}) for k in range(1500)]
    content = json.dumps(rows) if name == "x.json" else "\n".join(map(json.dumps, rows))
    packed = gzip.compress(content.encode()) if name.endswith("gz") else content.encode()
    assert [0] * 1200 + [-1, 1] * 150 == imported(packed, name).y.tolist()


# ---- Conversations


def messages(k):
    return [
        {"role": "system", "content": "You help."}, {"role": "user", "content": f"Open {TEXTS[k]}?"},
        {"role": "assistant", "content": "With a key.\nAnd care."},
    ]  # fmt: skip


def turned(k, role="role", said="content", names=("system", "user", "assistant")):
    renamed = dict(zip(("system", "user", "assistant"), names))
    return [{role: renamed[each["role"]], said: each["content"]} for each in messages(k)]


def parts(k):
    return [{"role": each["role"], "content": [{"type": "text", "text": each["content"]}]} for each in messages(k)]


def nodes(k):
    steps = [
        {"id": f"n{at}", "parent": f"n{at - 1}" if at else None, "children": [f"n{at + 1}"] if at < 2 else [],
         "message": {"author": {"role": each["role"]}, "content": {"content_type": "text", "parts": [each["content"]]}}}
        for at, each in enumerate(messages(k))
    ]  # fmt: skip
    return {"title": f"Chat {k}", "mapping": {step["id"]: step for step in steps}, "current_node": "n2"}


def lines(record):
    return "".join(json.dumps(record(k)) + "\n" for k in range(COUNT))


def array(record):
    return json.dumps([record(k) for k in range(COUNT)])


def cells(write, head="id,chat"):
    file = io.StringIO()
    csv.writer(file).writerows([head.split(","), *((k, *write(k)) for k in range(COUNT))])
    return file.getvalue()


CHATS = {
    "openai.jsonl": lines(lambda k: {"messages": messages(k)}),
    "sharegpt.json": array(
        lambda k: {"id": f"c{k}", "conversations": turned(k, "from", "value", ("system", "human", "gpt"))}
    ),
    "parts.jsonl": lines(lambda k: {"conversation": parts(k)}),
    "lists.json": array(messages),
    "chatgpt.json": array(nodes),
    "export.json": array(
        lambda k: {"uuid": f"c{k}", "chat_messages": turned(k, "sender", "text", ("system", "human", "assistant"))}
    ),
    "wrapped.json": json.dumps({"data": {"chats": [{"id": k, "messages": messages(k)} for k in range(COUNT)]}}),
    "cell.csv": cells(lambda k: [json.dumps(messages(k))]),
    "python.csv": cells(lambda k: [str(messages(k))]),
    "numpy.csv": cells(lambda k: ["[" + "\n ".join(map(str, messages(k))) + "]"]),
    "traced.csv": cells(
        lambda k: [json.dumps({"messages": messages(k)[:2]}), json.dumps(messages(k)[2])], "id,input,output"
    ),
    "traced.jsonl": lines(
        lambda k: {"inputs": {"messages": messages(k)[:2]}, "outputs": {"choices": [{"message": messages(k)[2]}]}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHATS)
def test_a_conversation_is_one_text_with_roles(name):
    """A list of messages becomes the turns of one text, whatever the keys, the wrapper and the format."""
    expected = [f"system: You help.\nuser: Open {text}?\nassistant: With a key.\nAnd care." for text in TEXTS]
    assert expected == [*imported(CHATS[name].encode(), name).texts]


def test_names_tools_and_sentences_have_roles_too():
    """Names of persons are roles, calls of tools are named, and an input and its output are two turns."""
    call = {"type": "function", "function": {"name": "find", "arguments": '{"a": 1}'}}
    tools = [{"role": "user", "content": "Find it"}, {"role": "assistant", "content": None, "tool_calls": [call]},
             {"role": "tool", "name": "find", "content": "here"}]  # fmt: skip
    talk = [{"author": "Ann", "text": "hello to you"}, {"author": "Bob", "text": "and to you"}]
    for record, text in (
        ({"messages": tools}, 'user: Find it\nassistant: [calls find({"a": 1})]\ntool find: here'),
        ({"thread": talk}, "Ann: hello to you\nBob: and to you"),
        (
            {"input": "What is in it?", "output": "Some kettles are."},
            "user: What is in it?\nassistant: Some kettles are.",
        ),
    ):
        content = json.dumps(record) + "\n" + json.dumps(dict.fromkeys(record, "a text of words")) + "\n"
        assert text == imported(content.encode(), "x.jsonl").texts[0]


def test_what_is_no_conversation_stays_as_it_was():
    """The messages of a chat of persons are items; replies of one word are labels; lists of other objects are cells."""
    chat = {"name": "a group", "messages": [{"id": k, "from": "Ann", "text": text} for k, text in enumerate(TEXTS)]}
    assert TEXTS == imported(json.dumps(chat).encode(), "result.json").texts
    asked = [[{"role": "user", "content": text}, {"role": "assistant", "content": "yes" if sign > 0 else "no"}]
             for text, sign in zip(TEXTS, SIGNS)]  # fmt: skip
    items = imported(lines(lambda k: {"messages": asked[k]}).encode(), "tuning.jsonl")
    assert (TEXTS, SIGNS) == ([*items.texts], items.y.tolist())
    spans = lines(lambda k: {"text": TEXTS[k], "spans": [{"text": "kettle", "type": "THING"}]}).encode()
    assert '["{\\"text\\": \\"kettle\\", \\"type\\": \\"THING\\"}"]' == imported(spans, "x.jsonl").details[0]


def test_conversations_with_labels_are_labeled_and_appended(store, tmp_path):
    path = tmp_path / "chats.jsonl"
    path.write_text(lines(lambda k: {"messages": messages(k), "label": int(SIGNS[k] > 0)}))
    data = Dataset(store, datasets.import_file(store, path, "chats")[0])
    assert SIGNS == data.y.tolist()
    path.write_text(json.dumps({"messages": turned(1)[1:], "label": 1}) + "\n")
    line = json.dumps({"messages": turned(2)[1:], "label": 0}).encode() + b"\n"
    assert [1] == [each.appended for each in feeds.append_file(data, path)]
    assert [1] == [each.appended for each in feeds.append_lines(data, io.BytesIO(line))]
    assert [f"user: Open {TEXTS[k]}?\nassistant: With a key.\nAnd care." for k in (1, 2)] == data.store.texts(
        data.id, COUNT, COUNT + 2
    )
    assert [1, -1] == data.y[COUNT:].tolist()
    assert ["messages"] == data.columns["text"]
