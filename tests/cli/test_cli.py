"""The command line: output, errors, and equal results for a file and for the data set imported from it."""

import io
import json
import lzma
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas
import pytest

from oal_engine import __version__, datasets
from oal_engine.cli import main as cli
from oal_engine.kernel.algorithms import ALGORITHMS
from oal_engine.kernel.learners import LEARNERS
from oal_engine.kernel.query_rules import QUERY_RULES
from oal_engine.sessions.files.export import LABELS
from oal_engine.sessions.insights import answer_checks, outcome
from oal_engine.sessions.session import Session
from oal_engine.sessions.settings import create
from oal_engine.store import Store, digest_of
from tests.harness import ROOT
from tests.harness.command_line import ROWS, RUN, TWEETS
from tests.harness.examples import topics, write_embedding
from tests.harness.sessions import label_until_the_end

TABLES = ".csv, .csv.gz, .tsv, .jsonl, .parquet or .xlsx"

# Import and lists


def test_imports_and_sessions_are_listed(ok, numbers, tweets):
    """Data sets are listed with their counts, the newest first, and sessions with their progress."""
    imported = ok("import", numbers, "--name", "numbers", "--json")
    summary = {
        "id": 1,
        "name": "numbers",
        "kind": "vectors",
        "items": 60,
        "features": 5 + 6400 + 512,
        "positives": 15,
        "negatives": 45,
        "classes": None,
    }
    assert "svmlight" == imported.pop("read")["reader"]
    assert summary | {"skipped": {}, "near_duplicates": 0} == imported
    tweets.write_text(tweets.read_text() + ",,daily\n")
    said = ok("import", tweets, "--name", "tweets", *TWEETS, "--json")
    assert (60, {"empty text": {"count": 1, "first_line": 62}}) == (said["items"], said["skipped"])
    Store("other.db").close()
    assert {"datasets": []} == ok("datasets", "--db", "other.db", "--json")
    listed = ok("datasets", "--json")["datasets"]
    assert ["tweets", "numbers"] == [row["name"] for row in listed]
    assert summary.items() <= listed[1].items()
    assert (0, "numbers.libsvm") == (listed[1]["sessions"], listed[1]["source"])
    store = Store()
    opened = Session(store, create(store, "numbers", "PAA-I", budget=9, name="mine"))
    opened.answer("event", opened.place.asked.id, 1)
    (session,) = ok("sessions", "--json")["sessions"]
    assert ("mine", "numbers", "PAA-I", 1, 9, 1, 0) == tuple(
        session[key] for key in ("name", "dataset_name", "algorithm", "labels", "budget", "positives", "skipped")
    )
    assert {"learner": {"C": 1.0}, "rule": {"delta": 0.1}} == session["parameters"]
    assert all(word in ok("datasets") for word in ("numbers", "tweets", "45"))
    assert "mine" in ok("sessions")


def test_what_is_doubtful_stops_with_the_option_that_settles_it(ok, run, tmp_path):
    """If there is a doubt about a file, the import stops and names the option that settles it. With this option, the
    import prints the layout."""
    rows = "".join(f"{k},{'?' if k == 7 else k % 5},{k % 37}\n" for k in range(40))
    (tmp_path / "years.csv").write_text("1999,2000,2001\n" + rows)
    assert "(--header or --no-header)." in run("import", "years.csv", "--name", "a")[2]
    assert "(--missing mean takes the mean" in run("import", "years.csv", "--name", "a", "--no-header")[2]
    said = ok("import", "years.csv", "--name", "a", "--no-header", "--missing", "mean").splitlines()
    read = (
        "Read as csv (encoding utf-8, delimiter comma, header no); 3 columns of numbers; no labels; lines are numbered."
    )
    assert [read, "a: 41 items (no labels)."] == said
    (tmp_path / "tags.csv").write_text(
        "text,topics\n" + "".join(f"some words {k},{'a|b' if k % 3 else 'a'}\n" for k in range(9))
    )
    assert "(--contains) or the whole cell is one label (--no-contains)." in run("import", "tags.csv", "--name", "t")[2]
    assert 6 == ok("import", "tags.csv", "--name", "t", "--positive", "b", "--contains", "--json")["positives"]
    assert 0 == ok("import", "tags.csv", "--name", "u", "--label", "", "--json")["positives"]


def test_import_keeps_and_shows_further_columns(ok, tmp_path):
    """By default further columns are stored, and those with usual names (year, url) shown. Options choose others."""
    lines = "".join(f"{k},a text {k % 3},{2000 + k},n,u{k},{k % 2}\n" for k in range(6))
    (tmp_path / "a.csv").write_text("id,text,year,grade,url,label\n" + lines)
    for name, options, kept, shown in (
        ("usual", (), ("year", "grade", "url"), ("year", "url")),
        ("named", ("--details", "url", "grade", "--show", "grade"), ("url", "grade"), ("grade",)),
        ("kept", ("--show", ""), ("year", "grade", "url"), ()),
        ("none", ("--details", ""), (), ()),
    ):
        ok("import", "a.csv", "--name", name, *options)
        stored = datasets.Dataset(Store(), name)
        assert (kept, shown) == (stored.details, stored.shown_columns)


def test_import_features(ok, tweets):
    """`import` gives texts the features that are named, by default rich terms with similar wording. Naming a tokenizer
    means the features `words`."""
    labels = ("--label", "topics", "--positive", "mood", "--contains")
    for name, options, tokenizer, similar in (
        ("a", (), "rich", True),
        ("b", ("--features", "rich"), "rich", False),
        ("c", ("--features", "words"), "tweets", False),
        ("d", ("--tokenizer", "words"), "words", False),
    ):
        ok("import", tweets, *labels, "--name", name, *options)
        stored = datasets.Dataset(Store(), name)
        assert (tokenizer, similar) == (stored.vocabulary.settings["tokenizer"], stored.latent > 0)


def test_vectors_beside_texts(ok, run, tweets, tmp_path):
    """A file of vectors may come with an import, an append or a replay, but not with lines from standard input."""
    labels = ("--label", "topics", "--positive", "mood", "--contains")
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(ROWS, 3)))
    imported = ok("import", tweets, *labels, "--name", "a", "--vectors", "v.npy", "--json")
    assert (3, imported["features"]) == ((stored := datasets.Dataset(Store(), "a")).vector_width, stored.rows.columns)
    more = tweets.with_name("more.csv")
    more.write_text("title,body\nnew,happy words\nnewer,other words\n")
    np.save(tmp_path / "w.npy", np.eye(3)[:2])
    assert ok("append", "a", more, "--vectors", "w.npy").startswith("a: appended 2, dropped 0 exact duplicates. ")
    message = "--vectors is for files: lines of standard input bring their own. Got w.npy."
    assert (1, "", f"error: {message}\n") == run("append", "a", "-", "--vectors", "w.npy")
    plain, beside = (ok("replay", tweets, *labels, *options, *RUN) for options in ((), ("--vectors", "v.npy")))
    assert plain["mean"] != beside["mean"]


@pytest.mark.slow
def test_predict_with_vectors(ok, run, tmp_path):
    """A prediction takes the model's kind of vectors from a column, a file or an embedding."""
    pytest.importorskip("tokenizers", reason="needs tokenizers: pip install .[embed]")
    write_embedding(tmp_path / "tiny")
    table = np.random.default_rng(0).normal(size=(60, 3))
    lines = [{"text": text, "label": k % 2, "v": v} for k, (text, v) in enumerate(zip(topics(60), table.tolist()))]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    np.save(tmp_path / "v.npy", table)
    columns = ("a.jsonl", "--text", "text", "--label", "label")
    ok("import", *columns, "--feature", "v", "--name", "given")
    ok("import", *columns, "--embed", "tiny", "--name", "made")
    for number, name in enumerate(("given", "made"), 1):
        create(store := Store(), name, "PAA-I", budget=5)
        label_until_the_end(Session(store, number))
        ok("export", str(number), "--what", "model", "--out", f"{name}.gz")
    predict = ("predict", "a.jsonl", "--model")
    by_column, by_file = (ok(*predict, "given.gz", *more) for more in ((), ("--vectors", "v.npy")))
    assert by_column == by_file
    assert 61 == len(by_column.splitlines()) == len(ok(*predict, "made.gz", "--embed", "tiny").splitlines())
    refused = run(*predict, "made.gz", "--embed", "tiny", "--vectors", "v.npy")[2]
    assert "--vectors is for models of texts with vectors." in refused
    plain, meaning = (ok("replay", *columns, *more, *RUN) for more in ((), ("--embed", "tiny")))
    assert plain["mean"] != meaning["mean"]


def test_import_by_a_mesh_tree(ok, run, tmp_path):
    """With --mesh-tree and --mesh-number, a record with a heading under the tree number is positive. Neither option may
    be used alone or with others that choose positives."""
    mesh = ["Heart Arrest/*TH; Human.", "heart diseases.", "Liver; Human.", None]
    (tmp_path / "ohsumed.87").write_text(
        "".join(
            f".I {k}\n.U\n8700{k}\n" + (f".M\n{headings}\n" if headings else "") + f".T\nA title of {k} words.\n"
            for k, headings in enumerate(mesh)
        )
    )
    with lzma.open("tree.bin.xz", "wt") as file:
        file.write("Heart Diseases;C14.280\nHeart Arrest;C14.280.383\nLiver;A03.620\nSpleen;A10.549\n")
    tree, number = ("--mesh-tree", "tree.bin.xz"), ("--mesh-number", "C14.280")
    imported = ok("import", "ohsumed.87", "--name", "heart", *tree, *number, "--json")
    assert (4, 2, 2, None) == tuple(imported[key] for key in ("items", "positives", "negatives", "classes"))
    stored = datasets.Dataset(Store(), "heart")
    assert ("87000", "A title of 0 words.", mesh[0]) == tuple(stored.item(0)[key] for key in ("id", "text", "label"))
    assert [1, 1, -1, -1] == stored.y.tolist()
    together = "error: --mesh-tree FILE and --mesh-number NUMBER must be given together.\n"
    alone = "error: --mesh-tree cannot be combined with --positive, --contains or --multiclass.\n"
    for arguments, message in (
        (tree, together),
        (number, together),
        ((*tree, *number, "--positive", "Liver"), alone),
        ((*tree, *number, "--contains"), alone),
        ((*tree, *number, "--multiclass"), alone),
    ):
        assert (1, "", message) == run("import", "ohsumed.87", "--name", "x", *arguments)


def test_algorithms_are_listed_with_what_can_be_set(ok):
    """Every published name, learner and rule is listed, with the range, default and help of each parameter;
    a second name of an algorithm is marked."""
    listed = ok("algorithms", "--json")
    assert list(ALGORITHMS) == [entry["name"] for entry in listed["algorithms"]]
    assert list(LEARNERS) == [entry["name"] for entry in listed["learners"]]
    assert list(QUERY_RULES) == [entry["name"] for entry in listed["rules"]]
    by_name = {entry["name"]: entry for entry in listed["algorithms"]}
    assert {"eta", "delta", "b"} == {spec["name"] for spec in by_name["D-ADA"]["parameters"]}
    assert ({"a": -1}, 1.0) == (by_name["D-ADA"]["fixed"], by_name["SOAL"]["rho"])
    covariances = [name for name, kind in LEARNERS.items() if getattr(kind, "provides", None) == "covariance"]
    assert {"arow", "acog-ii", "acog-ii-diag", "ssacog-ii"} < set(covariances)
    assert covariances == next(rule for rule in listed["rules"] if rule["name"] == "variance")["learners"]
    for entry in (*listed["algorithms"], *listed["learners"], *listed["rules"]):
        for spec in entry["parameters"]:
            assert ["name", "default", "range", "help"] == list(spec)
    aliases = {"Q_A": "OAAL", "PEA": "Q_S", "LEPE": "Q_S", "RPE": "Q_R", "CSPAA": "CSOAL"}
    assert aliases == {name: entry["alias_of"] for name, entry in by_name.items() if entry["alias_of"]}
    assert re.search(r"LEPE +Q_S +perceptron", ok("algorithms"))


def test_names_are_shown_as_they_are(ok, numbers):
    """In lists, brackets in a name are not markup, and a long name is not cut if a program reads the output."""
    for name in ("[red]bold[/red]", "half [/of] it", "very " * 30 + "long"):
        ok("import", numbers, "--name", name, "--json")
        assert name in ok("datasets")
    create(Store(), "half [/of] it", "PAA-I", name="a [/session]")
    assert "a [/session]" in ok("sessions")


# Export


@pytest.fixture
def labelled(ok, numbers):
    """A session with an answer, a skip, an undone answer and an open question."""
    ok("import", numbers, "--name", "numbers", "--json")
    store = Store()
    opened = Session(store, create(store, "numbers", "PAA-I", positive_name="Yes", negative_name="No"))
    for number, label in enumerate((1, 0, -1)):
        opened.answer(f"event {number}", opened.place.asked.id, label, 'Ann "A", B', 0.5)
    opened.undo("undo", opened.previous)
    return opened


def test_an_export_has_every_question(ok, labelled):
    """An export has every question with its features, label, margin, probability, times and annotator."""
    lines = [json.loads(line) for line in ok("export", labelled.id, "--format", "jsonl").splitlines()]
    own = [name for name in LABELS if name != "text"]
    assert [*own[:5], *labelled.dataset.feature_names, *own[5:]] == list(lines[0])
    assert [(1, 1, "Yes"), (2, None, "skipped"), (3, None, None)] == [
        (line["number"], line["label"], line["class"]) for line in lines
    ]
    assert ['Ann "A", B', 'Ann "A", B', None] == [line["annotator"] for line in lines]
    stored = ("item", "margin", "probability", "draw", "asked_at", "answered_at", "seconds")
    columns = ("round", "id", "position", "margin", "asking_probability", *stored[3:])
    for line, entry in zip(lines, labelled.store.answers(labelled.id)):
        values = [entry["round"] + 1, labelled.dataset.item(entry["item"])["id"], *(entry[key] for key in stored)]
        assert values == [line[column] for column in columns]


def test_labels_are_added_to_a_budget(ok, run, labelled):
    """add-labels raises the budget of a session. It refuses more labels than could be spent."""
    code, _, error = run("add-labels", labelled.id, 50)
    assert (1, True) == (code, "a label for every item left" in error)
    small = create(Store(), "numbers", "PAA-I", budget=5, name="small")
    assert "small: 0 of 15 labels used.\n" == ok("add-labels", small, 10)
    assert 15 == next(each["budget"] for each in ok("sessions", "--json")["sessions"] if each["name"] == "small")


def test_answers_to_check_are_listed(ok, labelled):
    """`answers-to-check` lists answers that a model trained on all other answers contradicts, and answers that
    influence the model most, at most `--most` of each. The table shows the same items as the JSON."""
    while labelled.place.asked and len(labelled.labels) < 40:
        asked = labelled.place.asked
        labelled.answer(f"more {asked.id}", asked.id, -1 if asked.number % 3 else 1)
    lists = ok("answers-to-check", labelled.id, "--most", 3, "--json")
    assert ["at odds", "decisive"] == list(lists)
    found = answer_checks.of_session(Session(Store(), labelled.id))
    assert [each.entry.number for each in found.at_odds[:3]] == [line["number"] for line in lists["at odds"]]
    assert [each.without for each in found.decisive[:3]] == [line["without"] for line in lists["decisive"]]
    shown = ok("answers-to-check", labelled.id, "--most", 3)
    assert lists["at odds"]
    assert all(line["id"] in shown for lines in lists.values() for line in lines)


# Audits


@pytest.fixture
def judged(tmp_path):
    """A file of texts with a column of labels by a model, a quarter of which are wrong, and a column of right ones."""
    texts = [f"{text}\x1b[2J" for text in topics(90)]
    truth = [("no", "yes")[k % 3 == 0] for k in range(90)]
    llm = [("no", "yes")[(k % 3 == 0) != (k % 8 in (1, 5))] for k in range(90)]
    path = tmp_path / "judged.csv"
    pandas.DataFrame({"id": range(90), "text": texts, "truth": truth, "llm": llm}).to_csv(path, index=False)
    return path


AUDIT = ("--judge", "llm", "--positive", "yes", "--features", "words", "--label")


def test_an_audit_prints_what_the_page_shows(run, judged):
    """`audit` with a column of right labels prints the figures of the page, and writes the corrected column in the
    words of the column."""
    code, out, _ = run("audit", judged, *AUDIT, 60, "--truth", "truth", "--out", "fixed.csv")
    assert 0 == code
    lines, more = outcome.audit(Session(Store(), 1))
    assert [cell for line in lines for cell in line if cell not in out] == []
    assert any(f"{name}: {words}" in out for name, words in more)
    assert re.search(r"0\.\d\d \(0\.\d\d to", out)
    fixed, right = pandas.read_csv("fixed.csv"), pandas.read_csv(judged)["truth"]
    assert {"yes", "no"} == {*fixed["corrected"]} == {*fixed["column"]}
    answered = fixed["answer"].notna()
    assert answered.sum() > 40
    assert (fixed["answer"] == right[fixed["position"]].values)[answered].all()


def test_an_audit_asks_in_the_terminal(run, judged, monkeypatch):
    """Without a column of right labels each text is printed and answered by a key, without the column's cell and the
    codes of the terminal; another key asks again, and the end of the input ends the audit."""
    prompts, keys = [], iter("yxnS")
    monkeypatch.setattr("builtins.input", lambda prompt: prompts.append(prompt) or next(keys, None) or stop())

    def stop():
        raise EOFError

    code, out, _ = run("audit", judged, *AUDIT, 20, "--name", "mine")
    assert (0, True) == (code, "2 of 20 answers" in out)
    assert prompts[1] == prompts[2]
    assert not any("\x1b" in prompt or "llm" in prompt for prompt in prompts)
    assert [1, -1, 0] == [entry.label for entry in Session(Store(), 1).log if entry.label is not None]


@pytest.mark.parametrize(("options", "words"), [
    (["--judge", "lm"], "--judge must be one of id, text, truth, llm. Got lm. Did you mean llm?"),
    (["--judge", "text"], "column must be kept with the items of judged: truth, llm. Got text."),
    (["--judge", "llm", "--cut", "0.5"], "cut is for scores. Column llm of judged has labels."),
    (["--judge", "llm", "--out", "fixed.doc"], f"the name of the file to write must end in {TABLES}. Got fixed.doc."),
    (["--judge", "llm", "--truth", "id", "--multiclass"], "--positive must name positive labels of --truth: 0, 1,"),
])  # fmt: skip
def test_an_audit_that_cannot_begin_leaves_no_data(run, judged, options, words):
    """Options of `audit` that do not fit are refused in one sentence, and the data set is not left behind."""
    code, _, err = run("audit", judged, "--label", 9, "--features", "words", *options)
    assert 1 == code
    assert words in err
    assert [] == Store().datasets()


# Errors


def cut(path):
    """Write a truncated compressed file, and return its path."""
    path.write_bytes(lzma.compress(b"1 2 3\n" * 9999)[:60])
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("replay nothing --algorithm PA", "data set nothing does not exist. There are: none."),
        ("replay DATA --learner pa", "Give --algorithm NAME, or --learner and --rule."),
        ("replay DATA --algorithm PA-I --set C", "--set must be KEY=VALUE. Got C."),
        ("replay DATA --algorithm PA-I --set C=big", "C must be a number. Got big."),
        (
            "replay DATA --algorithm PA --orders missing.txt",
            "the orders missing.txt cannot be read: No such file or directory.",
        ),
        ("replay DATA --algorithm PA --orders WORDS", "words.txt cannot be read: "),
        ("replay DATA --algorithm PA --orders CUT", "cut.txt.xz cannot be read: "),
        ("replay DATA --algorithm PA --orders EMPTY", "must hold one order a line. Got none."),
        (
            "replay DATA --algorithm PA --orders WORDS --permutations 2",
            "--orders FILE and --permutations NUMBER cannot be given together.",
        ),
        ("replay DATA --algorithm PA --learner pa", "a strategy is PA, or a learner and a rule, not both. Got pa too."),
        ("import missing.csv --name x", "missing.csv cannot be read: No such file or directory."),
        ("import - a.csv --name x", "- (standard input) is imported alone. Got 2 files."),
        ("predict DATA --model FOLDER", "cannot be opened: Is a directory."),
        ("predict parts --model m --parts", "--parts needs a folder, --out with another folder, and no --vectors."),
        ("predict a.csv --model m --workers 2", "--workers, --processes and --scheduler are for --parts."),
        ("predict parts --model m --out x.zip", "the name of the file to write must end in"),
        ("publish 9", "session 9 does not exist."),
        ("adopt missing", "missing cannot be opened: No such file or directory."),
        ("compare a", "compare needs --algorithms NAME,NAME or a --spec that names some. Got neither."),
        ("compare a --algorithms OAAL --set C=1", "none of OAAL has a parameter C."),
        ("compare a --algorithms OAAL --set C", "--set must be KEY=VALUES, or A:KEY="),
        ("compare a --algorithms PAA-I --set C=1,", "C must be a number, several (1, 10), or powers"),
        ("compare a --algorithms OAAL --rho x", "--rho must be auto, laplace or a number. Got x."),
        ("tune a --algorithm OAAL --tune none", "--tune must be 2:1, cv or hindsight. Got none."),
        ("results nothing", "comparison nothing does not exist. There are: none."),
        ("results --remove", "--trials, --remove and --out need the name of a comparison. Got none."),
        (
            "replay DATA --algorithm PA --permutations 9999999999999999",
            "permutations of a replay must be <= 10,000. Got 9,9",
        ),
    ],
)
def test_errors_are_one_sentence(run, numbers, tmp_path, line, message):
    """An error prints one line on standard error and nothing on standard output, and exits with code 1."""
    (tmp_path / "words.txt").write_text("one two\n")
    (tmp_path / "empty.txt").write_text("\n")
    Store().close()
    files = {
        "DATA": numbers, "WORDS": tmp_path / "words.txt", "CUT": cut(tmp_path / "cut.txt.xz"),
        "EMPTY": tmp_path / "empty.txt", "FOLDER": tmp_path,
    }  # fmt: skip
    code, out, err = run(*(files.get(argument, argument) for argument in shlex.split(line)))
    assert (1, "") == (code, out)
    assert err.startswith("error: ")
    assert message in err
    assert 1 == err.count("\n")


def test_options_for_files_are_refused_for_a_data_set(run, ok, numbers):
    ok("import", numbers, "--name", "numbers", "--json")
    for option in ("--text", "--label", "--positive", "--id", "--feature", "--reader", "--encoding", "--limit"):
        message = f"error: {option} is for files: the data set numbers has been imported already.\n"
        assert (1, "", message) == run("replay", "numbers", "--algorithm", "PA", option, "word")


def test_an_error_of_writing_names_the_output_not_the_input(run, ok, labelled, numbers, tmp_path):
    """When predictions cannot be written, the message names the output file or format and not the input."""
    ok("export", labelled.id, "--what", "model", "--out", "model.json.gz")
    for out, message in (
        (("--out", tmp_path), f"{tmp_path} cannot be opened: Is a directory."),
        (
            ("--out", tmp_path / "none/at.csv"),
            f"{tmp_path / 'none/at.csv'} cannot be opened: No such file or directory.",
        ),
        (("--format", "xml"), "--format must be one of csv, csv-guarded, csv.gz, tsv, jsonl, parquet, xlsx. Got xml."),
    ):
        assert (1, "", f"error: {message}\n") == run("predict", numbers, "--model", "model.json.gz", *out)


@pytest.mark.parametrize(
    ("arguments", "name", "allowed"),
    [
        *((("export", 1), f"labels.{suffix}", TABLES)
          for suffix in ("xls", "json", "csv.xz", "feather", "gz", "txt", "CSV.bak")),
        (("export", 1, "--format", "csv"), "labels.xlsx", ".csv"),
        (("export", 1, "--what", "report"), "report.pdf", ".html or .htm"),
        (("predict", "new.csv", "--model", "none"), "predicted.ods", TABLES),
        (("publish", 1), "session.json", ".jsonl, .html or .htm"),
        (("race",), "race.pdf", ".html or .htm"),
        (("reproduce", "all"), "page.html", ".md"),
    ],
)  # fmt: skip
def test_a_file_has_the_suffix_of_what_is_written(run, tmp_path, arguments, name, allowed):
    option = "--write" if arguments[0] == "reproduce" else "--out"
    message = f"error: the name of the file to write must end in {allowed}. Got {name}.\n"
    assert (1, "", message) == run(*arguments, option, name)
    assert not (tmp_path / name).exists()


def test_an_unlabelled_stream_cannot_be_replayed(run, ok, tmp_path):
    (tmp_path / "some.csv").write_text("text,label\na b,yes\nb a,no\na b c,\n")
    (tmp_path / "none.csv").write_text("text\na b\nb a\n")
    for name in ("some", "none"):
        ok("import", f"{name}.csv", "--name", name, "--json")
        message = f"error: every item of {name} must have a label. Some have none.\n"
        assert (1, "", message) == run("replay", name, "--algorithm", "PAA-I")


# Start-up

HEAVY = ("pandas", "numba", "scipy", "sklearn", "pyarrow", "matplotlib")
IMPORTED = f"""
import runpy, sys
try:
    runpy.run_module("oal_engine", run_name="__main__", alter_sys=True)
finally:
    print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["datasets"], ["sessions", "--json"]])
def test_help_and_lists_import_no_heavy_package(db, arguments):
    """The help and the lists appear at once, because they import none of the packages that load slowly."""
    Store().close()
    command = [sys.executable, "-c", IMPORTED, *arguments]
    process = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (0, "[]\n") == (process.returncode, process.stderr)


def test_help_lists_every_command(ok):
    shown = " ".join(ok("--help").replace("│", " ").split())
    for name in cli.MODULES:
        assert f" {name} {cli.load(name).__doc__.splitlines()[0]} " in shown


def test_the_version_is_printed(run):
    assert (0, f"oal {__version__}\n", "") == run("--version")


def test_remove_is_not_restore(run):
    """A misspelled command is suggested; a word that means something else suggests none."""
    suggested = {
        word: run(word)[2].partition("Did you mean ")[2].split("?")[0] for word in ("restor", "remove", "exprot")
    }
    assert {"restor": "restore", "remove": "", "exprot": "export"} == suggested


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_standard_input_is_imported(ok, monkeypatch, suffix):
    table = pandas.DataFrame({"text": ["a b", "b c", "c d"], "more": ["x", "y", "z"], "label": ["yes", "no", "yes"]})
    written = {
        "csv": lambda: table.to_csv(index=False).encode(),
        "jsonl": lambda: table.to_json(orient="records", lines=True).encode(),
        "parquet": lambda: table.to_parquet(index=False),
    }[suffix]()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written)))
    said = ok("import", "-", "--name", "piped", "--text", "text", "more", "--label", "label", "--json")
    assert (3, 2, 1) == tuple(said[key] for key in ("items", "positives", "negatives"))
    stored = datasets.Dataset(Store(), "piped")
    assert ["a b x", "b c y", "c d z"] == [" ".join(stored.item(k)["text"].split()) for k in range(3)]


def test_an_import_begins_with_the_labels_of_a_file(run, tmp_path):
    """--begin-with-labels makes a session that knows the labels of a partly labeled file. A fully labeled file is
    imported, and one sentence says why there is no session."""
    path = tmp_path / "partly.csv"
    lines = [f"words n{k} of kind {k % 3},{['spam', 'ham', ''][k % 3]}\n" for k in range(30)]
    path.write_text("text,label\n" + "".join(lines))
    arguments = ("--text", "text", "--label", "label", "--positive", "spam", "--begin-with-labels")
    code, out, _ = run("import", path, "--name", "partly", *arguments)
    assert (0, True) == (code, "Session 1 begins with 20 labels of the file." in out)
    assert 20 == len(Store("studio.db").first_known(1))
    path.write_text("text,label\n" + "".join(lines[k] for k in range(30) if k % 3 < 2))
    code, _, errors = run("import", path, "--name", "whole", *arguments)
    assert (1, True) == (code, "whole is imported, but no session begins with its labels: " in errors)
    assert 1 == len(Store("studio.db").sessions())


# Tokens


def test_tokens_are_made_listed_and_removed(ok, run, numbers):
    ok("import", numbers, "--name", "numbers", "--json")
    session, store = create(Store(), "numbers", "PAA-I", budget=9), Store()
    code, secret, note = run("token", "new", "--session", session, "--role", "annotator", "--name", "bot", "--days", 2)
    assert (0, "Token 1 is valid for 2 days, and is shown only now:\n") == (code, note)
    assert digest_of(secret.strip()) == store.tokens()[0]["digest"]
    (listed,) = ok("token", "list", "--json")["tokens"]
    assert (1, session, "annotator", "bot", 1) == tuple(
        listed[name] for name in ("id", "session", "role", "annotator", "valid")
    )
    assert "digest" not in listed
    assert (0, "Token 1 is removed.\n", "") == run("token", "remove", 1)
    assert [] == store.tokens()
    wrong = "error: token must be `list`, `new` with --session and --role, or `remove` with a number. Got {}.\n"
    for arguments in (["new", "--session", session], ["remove"], ["revoke", 1]):
        assert (1, "", wrong.format(arguments[0])) == run("token", *arguments)
    assert (1, "", "error: token 7 does not exist.\n") == run("token", "remove", 7)
