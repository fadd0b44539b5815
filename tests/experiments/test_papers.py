"""The published tables and figures in `papers/`, and how they are run again."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine import experiments, places
from oal_engine.experiments import papers, tuned_runs, worker
from oal_engine.kernel import algorithms, metrics, rows
from oal_engine.store import Store
from tests.harness import ROOT, SHARED

PAGE = papers.sections((ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8"))
SHORT = """
paper = "A paper"
title = "A table"
protocol = "Twice."
permutations = 2
grids = {}
"""
ZEROS = "a,b,y\n0,0,yes\n1,0,yes\n0,0,no\n-1,0,no\n2,1,yes\n"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Return a function that makes a file of a table the only one, with data of its own, and returns its name."""
    folder = tmp_path / "papers" / "p"
    folder.mkdir(parents=True)
    monkeypatch.setattr(places, "PAPERS", folder.parent)
    (folder / "paper.toml").write_text(SHORT)
    (folder.parent / "README.md").write_text("# Head\n")
    (tmp_path / "data.csv").write_text(ZEROS)

    def write(text):
        (folder / "t.toml").write_text(text)
        return "p-t"

    return write


def cell(**setting):
    """Return a cell with these settings."""
    return vars(papers.Cell(setting, 1.0, [1.0, 0.0], [], None))


def shortened(name, column, tmp_path, monkeypatch):
    """Make papers/p-t.toml a copy of a published table that has one column and only its published settings."""
    path = papers.names()[name]
    text = path.read_text().split("\n[columns.")
    folder = tmp_path / "p"
    folder.mkdir()
    part = next(each for each in text if each.startswith(f"{column}]"))
    settings = next(each for each in text if each.startswith(f"{column}.settings"))
    printed = next(each for each in text if each.startswith(f"{column}.printed"))
    (folder / "paper.toml").write_text(path.with_name("paper.toml").read_text())
    (folder / "t.toml").write_text("\n[columns.".join([text[0], f"{part}\nalgorithms = []\n", printed, settings]))
    monkeypatch.setattr(places, "PAPERS", tmp_path)
    return papers.reproduce("p-t", Store(tmp_path / "x.db"), SHARED)


def test_german_equals_the_publication_to_the_last_printed_digit(shared, tmp_path, monkeypatch):
    """Nine sums of ACOG's table 2 on german are exact, as are their deviation, sensitivity and specificity."""
    shared("german.libsvm.xz"), shared("german.ID_ALL.txt.xz")
    result = shortened("acog-table-2-german", "sum", tmp_path, monkeypatch)
    assert result["summary"] == "Of 9 published figures 9 are exact and 0 agree."


def test_w8a_has_5455_rows_of_zeros(shared, tmp_path):
    """w8a has 5,455 rows of zeros. By the published protocol each is a wrong prediction that was not asked about."""
    shared("w8a.libsvm.xz")
    entry, _ = papers._stored(Store(tmp_path / "x.db"), papers.block("oa3-table-2-w8a"), SHARED)
    spec = experiments.specification({"data": [entry], "algorithms": {"PAA": {}}, "permutations": 1})
    (source,) = experiments.sources(spec, Store(tmp_path / "x.db"), SHARED)
    missed = worker.mistakes(source)
    assert 5455 == missed.sum() == missed[1, 0, 0] + missed[0, 2, 0]
    assert 64_700 - 5455 == worker.streamed(source, ("all", 0)).size


@pytest.mark.parametrize(("kind", "asked", "wrong"), [("streamed", 5, None), ("left out", 3, 0), ("mistakes", 3, 2)])
def test_rows_of_zeros_are_streamed_left_out_or_mistakes(tmp_path, kind, asked, wrong):
    """Rows of zeros are asked about only if they are streamed; as mistakes each is a wrong prediction."""
    (tmp_path / "z.csv").write_text(ZEROS)
    entry = {"file": "z.csv", "zero_rows": kind}
    spec = experiments.specification({"data": [entry], "algorithms": {"PA": {}}, "permutations": 1, "points": 1})
    (line,) = experiments.compare(spec, Store(tmp_path / "x.db"), folder=tmp_path).lines
    counts = line.counts[0, -1]
    assert counts[..., 1].sum() == asked
    assert wrong is None or counts[1, 0, 0] + counts[0, 2, 0] == wrong
    if kind == "mistakes":
        curve = (
            experiments.compare(replace(spec, points=2), Store(tmp_path / "y.db"), folder=tmp_path).lines[0].counts[0]
        )
        assert {2} == {int(each[1, 0, 0] + each[0, 2, 0]) for each in curve}
    if kind != "streamed":
        with pytest.raises(experiments.ExperimentError, match="need whole streams"):
            experiments.sources(replace(spec, held_out=True), Store(tmp_path / "x.db"), tmp_path)


def test_orders_from_a_file_are_run(tmp_path):
    (tmp_path / "z.csv").write_text(ZEROS)
    (tmp_path / "orders.txt").write_text("5 4 3 2 1\n1 2 3 4 5\n")
    values = {"data": [{"file": "z.csv", "orders": "orders.txt"}], "algorithms": {"PA": {}}}
    store = Store(tmp_path / "x.db")
    (source,) = experiments.sources(experiments.specification(values | {"permutations": 2}), store, tmp_path)
    assert worker.streamed(source, ("all", 0)).tolist() == [4, 3, 2, 1, 0]
    for changes in ({"permutations": 3}, {"permutations": 2, "tune": "2:1"}):
        with pytest.raises(experiments.ExperimentError, match=r"no more than it has \(2\)"):
            experiments.sources(experiments.specification(values | changes), store, tmp_path)


def test_settings_are_tuned_on_the_first_orders(tmp_path):
    (tmp_path / "z.csv").write_text(ZEROS)
    values = {"data": [{"file": "z.csv"}], "algorithms": {"PA-I": {"C": [0.1, 1]}}, "permutations": 4, "trials": 2}
    store = Store(tmp_path / "x.db")
    (tuned,) = experiments.compare(experiments.specification(values | {"tune": "first"}), store, folder=tmp_path).lines
    lines = experiments.compare(experiments.specification(values), store, folder=tmp_path).lines
    f1 = [metrics.evaluate(line.counts[:2, -1], "push")["f1"].mean() for line in lines]
    assert [score for _, score in tuned.trials] == f1
    assert (
        experiments.compare(experiments.specification(values | {"points": 1}), store, folder=tmp_path).has_list is False
    )


@pytest.mark.parametrize("name", papers.names())
def test_every_file_is_a_table_that_can_run_and_is_on_the_page(name):
    """Each file in papers/ has algorithms that exist, settings that they have, and a section of docs/reproduction.md
    with today's protocol, note and published numbers."""
    block = papers.block(name)
    assert block.columns
    for column in block.columns:
        for _, spec in papers._specifications(column, {"file": "x", "name": "x"}, 4.0, None):
            assert {*spec.algorithms} <= {*algorithms.ALGORITHMS}
        for printed in dict(column.printed).values():
            assert papers._numbers(printed, column.digits) in PAGE[name]
    assert block.protocol in PAGE[name]
    assert block.note in PAGE[name]


def test_the_page_is_that_of_the_files():
    """docs/reproduction.md is the prose of papers/README.md and a section for each file."""
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert text == papers.page(PAGE)
    assert [*PAGE] == [*papers.names()]
    assert all(f"`{name}`" in text for name in papers.names())


@pytest.mark.parametrize(
    ("ours", "printed", "verdict"),
    [
        ([53.7604, 1.6551], [53.76, 1.655], "exact"),
        ([53.8, 2.0], [53.76, 1.655], "agrees"),
        ([60, 2.0], [53.76, 1.655], "better"),
        ([50, 1.0], [53.76, 1.655], "worse"),
        ([50, 1.0], [51.9], "agrees"),
        ([53.76, 1.655, 40, 1, 50, 1], [53.76, 1.655, 40, 1, 50, 1], "exact"),
        ([53.76, 1.655, 40, 1, 50, 1], [53.76, 1.655, 41, 1, 50, 1], "agrees"),
        ([53.76, 1.655, 40, 1, 50, 1], [53.76, 1.655, 45, 1, 50, 1], "other rates"),
    ],
)
def test_a_verdict_is_of_the_criterion_and_then_of_the_rates(small, ours, printed, verdict):
    """A figure is exact, agrees within two deviations, or is better or worse; the rates decide only if it agrees."""
    block = papers.block(small('data = {file = "data.csv"}\n[columns.sum]\ncriterion = "sum"\n'))
    spec = experiments.specification({"data": ["x"], "algorithms": {"PA": {}}, "criterion": "sum"})
    assert papers._verdict(block, block.columns[0], spec, ours, printed) == verdict
    cost = experiments.specification({"data": ["x"], "algorithms": {"PA": {}}, "criterion": "cost"})
    other = {"better": "worse", "worse": "better"}
    assert papers._verdict(block, block.columns[0], cost, ours, printed) == other.get(verdict, verdict)


def test_a_table_runs_on_its_data_and_on_a_file_of_ones_own(small, command, tmp_path):
    """The command runs a table from its files, with its published settings, claims and class ratio, writes its section
    into a page, keeps the other sections, and runs on a file of one's own without the published numbers."""
    name = small("""
        data = {file = "data.csv"}
        ahead = [["PA", "Perceptron"]]
        [columns.sum]
        criterion = "sum"
        algorithms = ["PA", "Perceptron"]
        printed = {PA = [9.0]}
        settings = {PA-I = {C = "T_n/T_p"}}
    """)
    page = tmp_path / "page.md"
    page.write_text("# Old\n\n## p-t\n\nOld.\n\n## gone\n\nOld.\n")
    code, printed, error = command("reproduce", name, "--data", tmp_path, "--write", page)
    assert (code, error) == (0, "")
    assert page.read_text() == f"# Head\n\n# A paper\n\nTwice.\n\n{printed.strip()}\n"
    assert (
        "**Of 1 published figures 0 are exact and 0 agree. Worse: PA (sum). PA against Perceptron: too few" in printed
    )
    assert "| sum | PA-I, as published |" in printed
    assert "C = 0.667 |" in printed
    (tmp_path / "own.csv").write_text(ZEROS.replace("yes", "ham").replace("no", "spam"))
    own = "--data", tmp_path / "own.csv", "--positive", "spam"
    code, printed, error = command("reproduce", name, *own, "--permutations", 4, "--json")
    (result,) = json.loads(printed)["results"]
    assert (result["files"], result["orders"]) == (["own.csv"], 4)
    assert [each["verdict"] for each in result["columns"]["sum"].values()] == [None] * 3
    assert "rho = auto" in papers._table({"columns": {"x": {"A": cell(rho="auto")}}, "digits": {"x": 1}})
    assert result["claims"][0]["verdicts"]["sum"] in ("ahead", "level", "behind")


def test_what_cannot_be_run_again_is_refused_in_a_sentence(small, command, tmp_path):
    name = small('data = {file = "none.csv"}\n[columns.sum]\ncriterion = "sum"\n')
    for arguments, message in (
        (("iris",), "a table or figure must be all or one of p-t. Got iris."),
        (
            (name, "--data", tmp_path),
            f"p-t needs the file none.csv, which is not in {tmp_path}: say where with --data.",
        ),
    ):
        assert (1, "", f"error: {message}\n") == command("reproduce", *arguments)
    assert "p-t" in command("reproduce")[1]


def test_folds_that_were_held_out_are_one_run(small, tmp_path):
    """In cross-validation five runs together predict each item once, and count as one."""
    data = "".join(f"{x},{'yes' if x > 0 else 'no'}\n" for x in np.random.default_rng(0).normal(size=40))
    (tmp_path / "data.csv").write_text("a,y\n" + data)
    name = small(
        'data = {file = "data.csv"}\npermutations = 10\nheld_out = true\n'
        '[columns.sum]\ncriterion = "sum"\nalgorithms = ["PA"]\n'
    )
    store = Store(tmp_path / "x.db")
    result = papers.reproduce(name, store, tmp_path)
    numbers = result["columns"]["sum"]["PA"]["numbers"]
    counts = experiments.load(store, "p-t sum").lines[0].counts[:, -1].reshape(2, 5, 2, 3, 2).sum(1)
    assert counts.sum((-3, -2, -1)).tolist() == [40, 40]
    assert numbers[0] == metrics.evaluate(counts, "push")["sum"].mean()


def test_settings_that_miss_the_share_of_labels_do_not_count(store):
    """Of several settings that are scaled to a share of the labels, one that asks for another share is not chosen
    unless none comes nearer."""
    spec = experiments.specification({"data": ["a"], "algorithms": {"MM-AMD": {}}, "hit": 0.2})
    run = tuned_runs.TunedRun(spec, None, "MM-AMD", None, {}, 0.2)
    counts = np.zeros((3, 2, 2, 3, 2), int)
    counts[:, :, 0, 0, 1], counts[:, :, 0, 0, 0] = [[200], [209], [400]], [[800], [791], [600]]
    assert run._hits(counts).tolist() == [True, True, False]
    assert run._hits(counts[2:]).tolist() == [True]


def test_columns_are_standardized_and_sparse_ones_stay_sparse(tmp_path):
    """Columns get standard deviation 1, and mean 0 in dense rows; constant columns are not divided."""
    (tmp_path / "d.csv").write_text("a,b,y\n0,4,yes\n2,4,no\n")
    (tmp_path / "s.libsvm").write_text("+1 2:4\n-1 1:2 2:4\n")
    dense, thin = (papers.read(tmp_path / name, "standardize").rows for name in ("d.csv", "s.libsvm"))
    assert rows.matrix(dense).tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert isinstance(rows.matrix(thin), csr_array)
    assert rows.matrix(thin).toarray().tolist() == [[0.0, 4.0], [2.0, 4.0]]


def test_word_counts_are_of_the_wanted_groups_without_common_words(tmp_path):
    """The scaling `counts` gives unscaled word counts of the items with given labels, leaving out common words."""
    texts = [("x", "the goal the goal"), ("y", "the base base base"), ("z", "other words")]
    path = tmp_path / "news.jsonl"
    path.write_text("\n".join(json.dumps({"id": str(k), "label": a, "text": t}) for k, (a, t) in enumerate(texts)))
    data = papers.read(path, "counts", among=("x", "y"), positive=["x"], text=["text"], label="label")
    assert data.y.tolist() == [1, -1]
    assert rows.matrix(data.rows).toarray().tolist() == [[0, 2], [3, 0]]
    with pytest.raises(experiments.ExperimentError, match=r"^the scale standardize needs numbers. Got news.jsonl.$"):
        papers.read(path, "standardize", positive=["x"], text=["text"], label="label")
