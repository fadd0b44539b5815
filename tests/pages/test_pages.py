"""Home, Label and Data without a browser, and properties of all pages."""

import json
import re
import shutil
import sqlite3
from contextlib import closing, contextmanager

import pytest

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.kernel.algorithms import ALGORITHMS, declared
from oal_engine.kernel.learners import is_multiclass
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from tests.harness.pages import data_page, details, form, press, run, words
from ui.page import PAGES, literal
from ui.strategies import OWN

SERVER = "File on the server"


@pytest.fixture
def texts(store, tmp_path):
    """The id of a small labeled data set, whose name and some of whose texts look like markup."""
    lines = ["text,label"]
    for k in range(60):
        lines.append(f"<b>item</b> {k} **{'good' if k % 5 == 0 else 'other'}** word{k % 7},{1 if k % 5 == 0 else 0}")
    path = tmp_path / "texts.csv"
    path.write_text("\n".join(lines))
    columns = reading.Columns(text=("text",), label="label")
    return datasets.import_file(store, path, "<i>Texts</i> $x$", columns, tokenizer="words")[0]


@pytest.fixture
def work_then(store, texts, tmp_path, monkeypatch):
    """A context manager that makes a session with an answer, and then locks the database or damages its files."""

    @contextmanager
    def make(trouble):
        session = Session(store, create(store, texts, learner="pa-i", rule="all"))
        session.answer("e", session.place.asked.id, 1)
        if trouble == "rows gone":
            shutil.rmtree(store.folder)
        (page,) = store.one("SELECT rootpage FROM sqlite_master WHERE name = 'questions'").values()
        store.close()
        path = tmp_path / "studio.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            (size,) = other.execute("PRAGMA page_size").fetchone()
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if trouble == "locked":
                real = sqlite3.connect
                monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: real(*args, **more | {"timeout": 0.1}))
                run("home.py")  # the app has opened its database before another process locks it
                other.execute("BEGIN EXCLUSIVE")
            if trouble == "damaged":
                with path.open("r+b") as file:
                    file.seek((page - 1) * size)
                    file.write(b"\xff" * size)
            if trouble == "another file":
                path.write_text("this is no database, " * 100)
            yield session.id

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("trouble", "refused", "spared", "sentence"), [
    ("damaged", "Home Label Replay", "Compare Data", "damaged"),
    ("rows gone", "Label Replay", "Home Compare Data", "No such file"),
    ("locked", "", "Home Label Replay Compare Data", "locked"),
    ("another file", "Home Label Replay Compare Data", "", "cannot be used: it is not a database"),
])  # fmt: skip
def test_no_page_is_a_traceback_where_the_database_is_in_trouble(work_then, trouble, refused, spared, sentence):
    """If the database is damaged, is another file, or the files of its data sets are missing, the pages that need them
    show one sentence, and other pages open. If the database is locked, all pages open."""
    with work_then(trouble) as session:
        for name, page in PAGES.items():
            shown = words(run(page, session=str(session)))
            assert sentence in shown or name not in refused
            assert sentence not in shown or name not in spared


def test_the_form_offers_every_algorithm_with_its_declared_parameters(store, texts):
    at = form()
    offered = at.selectbox(key="new-algorithm").options
    kind = f"new-kind-{texts}"
    at.segmented_control(key=kind).set_value("Several classes").run()
    offered += at.selectbox(key="new-algorithm-many").options
    assert sorted([*ALGORITHMS, *[OWN] * 2]) == sorted(offered)
    for name in ("MD-AMD-I", "MPAA-I", "OAAL", "OA3", "D-ADA", "Q_R", "PAA-II"):
        many = is_multiclass(ALGORITHMS[name].learner)
        at.segmented_control(key=kind).set_value("Several classes" if many else "One rare class").run()
        at.selectbox(key="new-algorithm" + "-many" * many).select(name).run()
        entry = ALGORITHMS[name]
        expected = [key for key in declared(entry.learner, entry.rule) if key not in entry.fixed]
        keys = [box.key.rpartition("-")[2] for box in at.number_input if box.key.startswith(f"new-{name}-")]
        assert expected == keys


def test_the_form_makes_the_session_that_it_shows(store, texts):
    at = form()
    at.selectbox(key="new-algorithm").select("PAA-I").run()
    at.number_input(key="new-budget").set_value(7)
    next(box for box in at.number_input if box.key.endswith("-C")).set_value(0.25)
    at.text_input(key=f"new-positive-{texts}-Relevant").set_value("Good")
    press(at, "new-send")
    session = store.session(store.sessions()[0]["id"])
    assert (session["algorithm"], session["budget"], session["positive_name"]) == ("PAA-I", 7, "Good")
    assert session["parameters"] == {"learner": {"C": 0.25}, "rule": {"delta": 0.1}}


def test_the_form_takes_words_and_texts_of_the_rare_class(store, texts):
    """Seed words in the form become the session's prior, and words that do not occur in the data are named at once. A
    line of many words is an example text; the form counts these texts."""
    at = form()
    at.text_area(key="new-seeds").set_value("nowhere").run()
    assert "Not in the data: nowhere." in words(at)
    at.button(key="new-send").click().run()
    assert "seed words must occur in the data. Got nowhere." in words(at)
    lines = ["a good text of word1 and word2", "so good, that it counts twice here"]
    at.text_area(key="new-seeds").set_value("\n\n".join(lines))
    assert "2 example texts." in words(at.run())
    at.text_area(key="new-seeds").set_value(f"{lines[0]}\n\ngood, word1,nowhere\n{lines[1]}").run()
    press(at, "new-send")
    known = store.session(store.sessions()[0]["id"])["prior"]
    expected = {
        "words": ["good", "word1"],
        "texts": lines,
        "unknown": ["nowhere"],
        "items": [],
        "model": None,
        "scores": 0,
    }
    assert expected == {name: known[name] for name in expected}


def test_the_form_suggests_words_of_the_guidelines_that_few_texts_have(store, tmp_path):
    """The hint in the field for examples names words of the guidelines that occur in few texts, except words that the
    guidelines exclude. Typed words stay when the guidelines change."""
    path = tmp_path / "sky.txt"
    path.write_text("a comet and a meteor came\n" * 3 + "".join(f"another thing {k}\n" for k in range(40)))
    datasets.import_file(store, path, "sky", reading.Columns(("text",)))
    at = form()
    assert "such as" not in at.text_area(key="new-seeds").placeholder
    at.text_area(key="new-seeds").set_value("good")
    at.text_area(key="new-guidelines").set_value("Any comet or another planet. Not a meteor.").run()
    assert "separated by commas, such as comet. Or" in at.text_area(key="new-seeds").placeholder
    assert "good" == at.text_area(key="new-seeds").value


def test_the_form_suggests_words_of_the_labels_that_a_file_has(store, tmp_path):
    path = tmp_path / "gaps.csv"
    lines = [f"the orbit of item{k} a,1\nthe engine of item{k} b,0\nthe other thing {k},\n" for k in range(20)]
    path.write_text("text,label\n" + "".join(lines))
    datasets.import_file(store, path, "gaps", reading.Columns(("text",), "label"))
    at = form()
    assert "such as orbit. Or" in at.text_area(key="new-seeds").placeholder


@pytest.mark.slow
def test_the_form_makes_a_session_of_several_classes(store, texts, tmp_path):
    """On a data set with classes, a session uses these classes, or one of them against the rest. On any other data set
    the names of several classes can be typed."""
    path = tmp_path / "kinds.csv"
    path.write_text("text,kind\n" + "\n".join(f"word{k} *word{k % 3}*,{'*a*' if k % 3 else 'b'}" for k in range(30)))
    kinds, _ = datasets.import_file(store, path, "kinds", reading.Columns(("text",), "kind", multiclass=True))
    at = form()
    assert "2 classes: *a*, b" in words(at)
    press(at, "new-send")
    session = store.session(store.sessions()[0]["id"])
    assert (kinds, "auto-classes", ["*a*", "b"]) == (session["dataset"], session["algorithm"], session["classes"])
    at = form()
    at.segmented_control(key=f"new-kind-{kinds}").set_value("One rare class").run()
    at.selectbox(key=f"new-rare-{kinds}").select("b").run()
    press(at, "new-send")
    session = store.session(store.sessions()[0]["id"])
    assert ("b", "b", "Not b") == tuple(session[key] for key in ("positive_class", "positive_name", "negative_name"))
    at = form()
    at.selectbox(key="new-dataset").select_index(1).run()
    at.segmented_control(key=f"new-kind-{texts}").set_value("Several classes").run()
    at.button(key="new-send").click().run()
    assert "has no classes of its own: name the classes to ask for." in words(at)
    at.text_input(key=f"new-classes-{texts}").set_value(" joy, fear ,anger").run()
    press(at, "new-send")
    assert ["joy", "fear", "anger"] == store.session(store.sessions()[0]["id"])["classes"]


@pytest.mark.slow
def test_what_does_not_exist_is_named_in_one_sentence(store, texts):
    """A page without any session says so, and Replay still offers to open a published one. A session or comparison in
    the address that does not exist is named, literally."""
    for name in ("Label", "Replay"):
        at = run(PAGES[name])
        assert "You have no session yet" in words(at)
    assert 1 == len(at.get("file_uploader"))
    create(store, texts, "PAA-I", budget=5)
    for name, kind, numbers in (
        ("Label", "session", "9 x -1"), ("Replay", "session", "99"), ("Compare", "comparison", "77 x -1 1.5 1OR1=1"),
    ):  # fmt: skip
        for number in numbers.split():
            at = run(PAGES[name], **{kind: number})
            assert f"{kind.title()} {number} does not exist." in words(at)


def test_a_stream_without_labels_says_why_it_has_no_figures_yet(store, tmp_path):
    """If the data has no labels, the page says what is still needed for estimates. From the tenth answer on it shows
    the answers of each class, but not the weighted sum, which needs labels."""
    path = tmp_path / "plain.txt"
    path.write_text("\n".join(f"some words {k} and {k % 9}" for k in range(50)))
    dataset, _ = datasets.import_file(store, path, "plain", reading.Columns(text=("text",)))
    opened = Session(store, create(store, dataset, "PAA-I", budget=20))
    shown = words(run("pages/1_Label.py", session=str(opened.id)))
    assert "The items that you have found are counted here after 10 answers: 10 more answers to go." in shown
    for k in range(10):
        opened.answer(f"e{k}", opened.place.asked.id, -1)
    at = details(run("pages/1_Label.py", session=str(opened.id)))
    assert "No estimate yet. It needs 5 more positive answers, at least one" in words(at)
    assert "Answers of each class" in words(at)
    assert "Weighted sum</b>" not in words(at)


def test_home_lists_a_session_and_removes_it_only_after_a_question(store, texts):
    """Home shows what will happen until there is a session, then its labels, and opens it or, at its end, its result.
    The Remove button asks for a confirmation that counts the answers, and a removed session can be restored."""
    assert "You answer a few questions" in words(run("home.py"))
    session = create(store, texts, "PAA-I", budget=1)
    opened = Session(store, session)
    for labels, word in enumerate(("Resume", "Result")):
        at = run("home.py")
        (progress,) = at.get("progress")
        assert f"{labels} of 1 labels, {labels} positive" == progress.proto.text
        assert "You answer a few questions" not in words(at)
        assert word == at.button(key=f"resume-{session}").label
        press(at, f"resume-{session}")
        assert [str(session)] == [*at.query_params["session"]]
        if opened.place.asked:
            opened.answer("an event", opened.place.asked.id, 1)
    at = run("home.py")
    at.button(key=f"remove-{session}").click().run()
    assert [session] == [row["id"] for row in store.sessions()]
    assert "with its 1 answer? It can be restored on this page for 30 days." in words(at)
    at.button(key="remove-sure").click().run()
    assert [] == store.sessions()
    at.button(key=f"restore-{session}").click().run()
    assert [(session, 1)] == [(row["id"], row["labels"]) for row in store.sessions()]


def test_the_form_of_a_demo_begins_with_its_guidelines(store):
    demo.dataset(store, "abstracts")
    at = form()
    at.button(key="new-send").click().run()
    session = store.session(store.sessions()[0]["id"])
    expected = demo.DEMOS["abstracts"].session
    assert {name: expected[name] for name in ("guidelines", "positive_name")} == {
        name: session[name] for name in ("guidelines", "positive_name")
    }


def test_ten_random_items_are_shown_before_a_session_starts(store, texts):
    at = form()

    def shown():
        return set(re.findall(r"<b>item</b> (\d+) ", words(at)))

    first = shown()
    at.button(key="look-again").click().run()
    assert (10, 10) == (len(first), len(shown()))
    assert first != shown()


@pytest.mark.slow
def test_pasted_texts_become_a_data_set(store):
    for name in ("Pasted texts", "Pasted texts 2"):
        at = run("home.py")
        at.text_area(key="pasted-0").set_value("a dog ran\n\na cat ran\nthe <b>dog</b> sat")
        press(at, "paste")
        assert (name, 3) == (store.datasets()[0]["name"], store.datasets()[0]["items"])
        assert at.selectbox(key="new-dataset").value == store.datasets()[0]["id"]
        assert "the <b>dog</b> sat" in words(at)


@pytest.mark.slow
def test_pasted_texts_that_cannot_be_kept_are_refused_once(store):
    at = run("home.py")
    at.text_area(key="pasted-0").set_value("one\ntwo")
    press(at, "paste")
    assert "No term occurs in at least 2 of the 2 texts." in words(at)
    assert [] == store.datasets()


YEARS = "1999,2000,2001\n" + "".join(f"{k},{'?' if k == 7 else k % 5},{k % 37}\n" for k in range(40))
MESSAGES = "id,text,label\n" + "".join(f"{k},hello word{k % 3},{'spam' if k % 4 == 0 else 'ham'}\n" for k in range(40))


def pasted(content):
    """Paste a table into the field on Home. Return the page."""
    at = run("home.py")
    at.text_area(key="pasted-0").set_value(content)
    press(at, "paste")
    return at


@pytest.mark.slow
@pytest.mark.parametrize(("key", "file"), [("own-", "Pasted texts.txt"), ("", "years.csv")])
def test_doubtful_parts_of_a_file_are_asked_about(store, tmp_path, key, file):
    """Home and the Data page ask about the first row and the cells without numbers before they import anything; Home
    then opens the form of a new session on the data set."""
    (tmp_path / file).write_text(YEARS)
    at = pasted(YEARS) if key else data_page(tmp_path / file)
    question = f"The first row of {file} counts from 1999 to 2001: say whether it names the columns."
    assert literal(question) == at.segmented_control(key=f"{key}header").label
    assert "header yes" in words(at)
    at.segmented_control(key=f"{key}header").set_value("--no-header").run()
    assert "header no" in words(at)
    assert [] == store.datasets()
    at.radio(key="missing-2").set_value("zero").run()
    press(at, f"{key}import")
    (row,) = store.datasets()
    assert (41, 3) == (row["items"], datasets.Dataset(store, row["id"]).named)
    assert not key or at.selectbox(key="new-dataset").value == row["id"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "chosen"),
    [
        (("spam", "ham"), "spam"),
        (("a", "b"), "a"),
        (("1", "0"), "1"),
        (("non-toxic", "toxic"), "toxic"),
        (("exclude", "include"), "include"),
    ],
)
def test_the_rare_class_is_proposed(store, pair, chosen):
    """When a file is opened, Home shows its label words with their counts, and proposes as the rare class the positive
    word of a known pair, or else the rarer word."""
    at = pasted(MESSAGES.replace("spam", pair[0]).replace("ham", pair[1]))
    counts = dict(zip(pair, (10, 30)))
    assert sorted(literal(f"{word} ({count})") for word, count in counts.items()) == sorted(
        at.pills(key="positive-label").options
    )
    assert [chosen] == at.pills(key="positive-label").value
    assert [] == store.datasets()
    press(at, "own-import")
    (row,) = store.datasets()
    assert (counts[chosen], 40 - counts[chosen]) == (row["positives"], row["negatives"])


@pytest.mark.slow
def test_words_that_mean_no_label_can_be_switched(store):
    at = pasted(MESSAGES.replace("spam", "NA").replace("3,hello word0,ham", "3,hello word0,rare"))
    assert (["NA"], ["rare"]) == (at.pills(key="unknown-label").value, at.pills(key="positive-label").value)
    assert "10 of 40 rows without a label." in words(at)
    at.pills(key="unknown-label").set_value([]).run()
    assert "without a label" not in words(at)
    press(at, "own-import")
    (row,) = store.datasets()
    assert (2, 38) == (row["positives"], row["negatives"])


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "question", "answer"), [
    ("spam", "Is spam the label?", "spam"), ("spam,rude", "Which of these columns is the label?", None),
])  # fmt: skip
def test_a_column_of_two_words_is_asked_about(store, columns, question, answer):
    """If one column could hold the labels, Home proposes it. If several could, none is proposed, and nothing can be
    imported before a choice."""
    words_of_row = ",".join(["1", "0"][: 1 + columns.count(",")])
    at = pasted(f"text,{columns}\n" + "".join(
        f"hello word{k % 3},{words_of_row if k % 4 else words_of_row.translate(str.maketrans('01', '10'))}\n"
        for k in range(40)
    ))  # fmt: skip
    assert (literal(question), answer) == (at.pills(key="label").label, at.pills(key="label").value)
    assert (answer is not None) == ("own-import" in [button.key for button in at.button])
    at.pills(key="label").set_value("\0none").run()
    press(at, "own-import")
    assert 0 == store.datasets()[0]["positives"]


@pytest.mark.slow
def test_labels_that_a_model_may_have_made_are_asked_about(store):
    """A column that seems to be made by a model is never preselected as the label. If it is, the form of a new session
    offers to audit it."""
    at = pasted("text,llm_label\n" + "".join(f"hello word{k},{k % 2}\n" for k in range(40)))
    question = "llm_label: labels that a person gave, labels that a model made (audit them), or ignore?"
    assert (literal(question), None) == (at.pills(key="label").label, at.pills(key="label").value)
    assert "own-import" not in [button.key for button in at.button]
    at.pills(key="label").set_value("labels that a model made (audit them)").run()
    press(at, "own-import")
    (row,) = store.datasets()
    assert (0, 0) == (row["positives"], row["negatives"])
    assert ["llm_label"] == at.multiselect(key=f"new-column-{row['id']}").value


@pytest.mark.slow
def test_the_first_items_are_shown_before_they_are_stored(store):
    at = pasted("id,text,label,year\n" + "".join(f"{k},hello {k},{int(k > 20)},{1990 + k}\n" for k in range(40)))
    first = next(body for body in (str(each.proto.body) for each in at.get("html")) if "as they will be" in body)
    assert ["hello 0", "hello 1", "hello 21"] == re.findall(r"<span[^>]*>([^<]*)", first)
    assert ["0: negative", "0: negative", "1: positive"] == re.findall(r"<b [^>]*>([^<]*)", first)
    assert ["year 1990", "year 1991", "year 2011"] == re.findall(r"<small[^>]*>([^<]*)", first)
    assert [] == store.datasets()


@pytest.mark.slow
def test_encodings_are_shown_side_by_side(store, tmp_path):
    """If a file's encoding is in doubt, the page shows each likely encoding with a line whose text depends on it, and
    preselects the likeliest."""
    (tmp_path / "prices.csv").write_bytes(b"text,label\n" + "".join(
        f"it costs £{k} – or more,{k % 2}\n" for k in range(40)).encode("cp1252"))  # fmt: skip
    at = data_page(tmp_path / "prices.csv")
    question = at.radio(key="doubt-encoding")
    assert ("cp1252", ["cp1252", "mac\\_roman"]) == (question.value, question.options)
    assert ["it costs £0 – or more,0", "it costs £0 ñ or more,0"] == [
        each.replace("\\", "") for each in question.proto.captions
    ]
    question.set_value("mac_roman").run()
    press(at, "import")
    assert "it costs £3 ñ or more" == store.item(store.datasets()[0]["id"], 3)["text"]


@pytest.mark.slow
def test_a_new_file_is_asked_about_anew(store, tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(MESSAGES)
    at = data_page(tmp_path / "a.csv")
    at.segmented_control(key="header").set_value("--no-header").run()
    at.text_input(key="path").set_value(str(tmp_path / "b.csv")).run()
    assert "--header" == at.segmented_control(key="header-2").value


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "items", "said"), [
    ("keep", 40, "37 items are nearly the same as an earlier one."),
    ("once", 3, "Left out 37 near-duplicates, counted with the first."),
])  # fmt: skip
def test_near_duplicates_are_listed_and_shown_once_where_it_is_chosen(store, tmp_path, kind, items, said):
    """The page says how many texts are near-duplicates of an earlier one, and shows the first text of each of the
    largest groups. If so chosen, the others are left out."""
    path = tmp_path / "messages.csv"
    path.write_text("text\n" + "\n".join(f"<b>hello</b> word{k % 3}{'!' * k}" for k in range(40)))
    at = data_page(path)
    at.segmented_control(key="near").set_value(kind).run()
    press(at, "import")
    assert items == store.dataset("messages")["items"]
    listed = ["14 × <b>hello</b> word0", "13 × <b>hello</b> word1!", "13 × <b>hello</b> word2!!"]
    assert [said, *listed] == [each.value for each in at.text][-4:]


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "columns"), [(None, 3 + 6400 + 512), ("fourier", 3 + 512), ("plain", 3)])
def test_a_table_gets_leaves_unless_it_is_told_otherwise(store, tmp_path, chosen, columns):
    """A table of numbers gets waves and leaves unless another option is chosen. The pages show how many features the
    table itself has."""
    path = tmp_path / "table.csv"
    path.write_text("a,b,c,label\n" + "\n".join(f"{k},{k % 7},{k % 5},{k % 2}" for k in range(40)))
    at = data_page(path)
    if chosen:
        at.selectbox(key="features-of-vectors").set_value(chosen).run()
    press(at, "import")
    assert columns == datasets.Dataset(store, "table").rows.columns
    assert "3 features" in words(at)
    assert "3 features" in words(run("home.py"))


@pytest.mark.slow
def test_vectors_stand_beside_texts(store, tmp_path):
    """Columns of numbers or lists are offered as vectors next to texts. A folder of embeddings must be in OAL_FILES."""
    path = tmp_path / "texts.jsonl"
    lines = [{"text": f"hello word{k % 3}", "n": k, "v": [k % 5, 1.5, k % 7], "label": k % 2} for k in range(40)]
    path.write_text("\n".join(map(json.dumps, lines)))
    at = data_page(path)
    assert ["v", "n"] == at.multiselect(key="beside").options
    at.text_input(key="embed").set_value("nowhere").run()
    assert "has no folder nowhere." in words(at)
    at.text_input(key="embed").set_value("").run()
    at.multiselect(key="beside").set_value(["v"]).run()
    press(at, "import")
    stored = datasets.Dataset(store, "texts")
    assert (3, ("v",)) == (stored.vector_width, stored.vector_columns)


@pytest.mark.slow
def test_each_label_word_becomes_a_class(store, tmp_path):
    """If a file has more than two label words, each is proposed as a class, and no positive word is asked for. The data
    set then lists its classes."""
    path = tmp_path / "kinds.csv"
    kinds = ["<b>bold</b>", "$x$", *(f"kind {k}" for k in range(8))]
    path.write_text("text,label\n" + "".join(f"hello word{k % 3},{kinds[k % len(kinds)]}\n" for k in range(44)))
    at = data_page(path)
    assert "Each word is a class" == at.segmented_control(key="kind-label").value
    assert ["label", "unknown-label"] == [each.key for each in at.pills]
    at.button(key="check").click().run()
    assert "44 items in 10 classes: $x$ (5), <b>bold</b> (5)" in words(at)
    press(at, "import")
    (dataset,) = store.datasets()
    assert dataset["classes"] == {"$x$": 5, "<b>bold</b>": 5, "kind 0": 5, "kind 1": 5} | {
        f"kind {k}": 4 for k in range(2, 8)
    }
    listed = "10 classes: $x$ (5), <b>bold</b> (5), kind 0 (5), kind 1 (5), kind 2 (4), kind 3 (4) and 4 more"
    assert listed == at.text[0].value
    assert "10 classes" in words(run("home.py"))


@pytest.mark.slow
def test_mesh_headings_become_labels_by_a_tree(store, tmp_path):
    """MEDLINE records need a tree file and a tree number; a sentence says if they are missing or wrong."""
    mesh = ["Heart Arrest/*TH; Human.", "heart diseases.", "Liver; Human.", "Human."] * 5
    path, tree = tmp_path / "ohsumed.87", tmp_path / "tree.bin"
    path.write_text("".join(f".I {k}\n.U\n{k}\n.M\n{m}\n.T\nWords of title {k % 3}.\n" for k, m in enumerate(mesh)))
    tree.write_text("Heart Diseases;C14.280\nHeart Arrest;C14.280.383\nLiver;A03.620\n")
    at = data_page(path)
    assert (at.pills(key="label").value, at.segmented_control(key="kind-mesh").value) == ("mesh", "MeSH headings")
    at.pills(key="label").set_value("\0other").run()
    at.selectbox(key="other-label").set_value("source").run()
    assert at.segmented_control(key="kind-source").options == ["One rare class", "Each word is a class"]
    at.pills(key="label").set_value("mesh").run()
    at.button(key="import").click().run()
    assert "give a tree file and a tree number" in words(at)
    at.segmented_control(key="tree-way").set_value(SERVER).run()
    at.text_input(key="tree-path").set_value(str(tree)).run()
    at.text_input(key="number").set_value("C15").run()
    assert "tree.bin has no tree number 'C15'" in words(at)
    at.text_input(key="number").set_value("C14.280").run()
    press(at, "import")
    (dataset,) = store.datasets()
    assert (dataset["name"], dataset["items"], dataset["positives"], dataset["negatives"]) == ("ohsumed", 20, 10, 10)


def twenty_texts(store, folder):
    """Import twenty texts with labels as `texts`. Return the path of their file."""
    path = folder / "texts.csv"
    path.write_text("text,label\n" + "".join(f"hello word{k % 3} {k},{k % 2}\n" for k in range(20)))
    datasets.import_file(store, path, "texts", reading.Columns(("text",), "label"))
    return path


def adding(path):
    """Open the Data page, and choose a file on the server to add to a data set. Return the page."""
    at = run("pages/4_Data.py")
    at.segmented_control(key="kind").set_value("Add to existing").run()
    at.segmented_control(key="more-way").set_value(SERVER).run()
    return at.text_input(key="more-path").set_value(str(path)).run()


@pytest.mark.slow
def test_items_are_added_on_the_data_page(store, tmp_path):
    path = twenty_texts(store, tmp_path)
    path.write_text("text,label\nhello word0 0,1\nsomething new,0\n,1\n")
    at = adding(path)
    shown = words(at)
    assert shown.index("0: negative") < shown.index("something new")
    assert 20 == store.dataset("texts")["items"]
    press(at, "append")
    assert "texts: appended 1, dropped 1 exact duplicate, 1 line could not be read" in words(at)
    said, *listed = [each.value for each in at.text][-3:]
    assert "Added last: 100.0 % of the words are new to the vocabulary; 16.7 % at the import." == said
    assert ["items 21 to 21, 100.0 % new words", "items 1 to 20, 16.7 % new words"] == [each[12:] for each in listed]
    assert 21 == store.dataset("texts")["items"]


@pytest.mark.slow
def test_label_words_that_a_data_set_does_not_have_are_named_before_items_are_added(store, tmp_path):
    path = twenty_texts(store, tmp_path)
    path.write_text("text,label\nsomething new,maybe\nsomething else,wrong\n")
    at = adding(path)
    assert "does not have: maybe (1), wrong (1)" in words(at)
    assert at.button(key="append").disabled


@pytest.mark.slow
def test_what_is_doubtful_about_a_file_to_add_is_asked(store, tmp_path):
    """If it is unclear how to read a file to add, the page asks, as at an import. The file's rows are shown before they
    are added."""
    path = tmp_path / "years.csv"
    path.write_text("c1,c2,c3\n" + YEARS.partition("\n")[2].replace("?", "0"))
    datasets.import_file(store, path, "years")
    path.write_text("3000,3001,3002\n" + "".join(f"{k + 3000},{k % 5},{k % 37}\n" for k in range(40)))
    at = adding(path)
    assert "counts from 3000 to 3002" in at.segmented_control(key="more-header").label
    at.segmented_control(key="more-header").set_value("--no-header").run()
    assert ["c1", "c2", "c3"] == list(at.dataframe[0].value.columns)
    press(at, "append")
    assert "years: appended 41" in words(at)
    assert at.text_input(key="more-path1").value == ""


def test_a_data_set_in_use_cannot_be_removed(store, texts):
    session = create(store, texts, "PAA-I")
    assert run("pages/4_Data.py").button(key=f"remove-{texts}").disabled
    store.remove_session(session)
    at = run("pages/4_Data.py")
    at.button(key=f"remove-{texts}").click().run()
    assert "with its 60 items and the 1 removed session on it? It cannot be undone." in words(at)
    assert [texts] == [row["id"] for row in store.datasets()]
    at.button(key="remove-sure").click().run()
    assert store.datasets() == []
    assert not store.folder.exists() or list(store.folder.iterdir()) == []
