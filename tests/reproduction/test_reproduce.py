import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine import datasets
from oal_engine.datasets import formats
from oal_engine.kernel import algorithms, rows, stream
from oal_engine.reproduction import protocols, published, reproduce
from tests.harness import ROOT, SHARED

pytestmark = pytest.mark.slow

GERMAN = published.BLOCKS["acog-german"]
LETTER = published.BLOCKS["dada-letter"]


@pytest.fixture(scope="module")
def german():
    """The result of the block acog-german over the 20 recorded orders."""
    for file in GERMAN.files:
        if not (SHARED / file).exists():
            pytest.skip(f"needs ../shared/data/{file}")
    return reproduce.reproduce("acog-german", SHARED)


@pytest.fixture
def command(command):
    """A function that runs the command with some arguments and returns what it printed."""
    return partial(command, "reproduce")


def table(matrix, y, classes=()):
    """A table as a file would give it."""
    return datasets.FeatureTable(rows.as_rows(matrix), np.array(y, np.int8), None, None, {"name": "none"}, classes)


@pytest.fixture(scope="module")
def three():
    """A stream of three classes with noise, in four orders."""
    rng = np.random.default_rng(5)
    y = rng.integers(1, 4, 1500)
    data = table(np.eye(3)[y - 1] + 0.5 * rng.normal(size=(1500, 3)), y, ("a", "b", "c"))
    return protocols.Stream(data, protocols.shuffles(1500, 4), 1.0)


def test_german_equals_the_publication_to_the_last_printed_digit(german):
    """21 of the 24 figures of ACOG's table 2 on german are reproduced exactly, and the others are close."""
    others = {(line["part"], line["algorithm"]) for line in german["lines"] if line["verdict"] != "exact"}
    assert {("sum", "ROMMA"), ("sum", "CPA"), ("cost in hundreds", "CPA")} == others
    assert all(abs(line["difference"]) < 0.35 for line in german["lines"])
    assert {"eta": 100.0} == next(line["settings"] for line in german["lines"] if line["algorithm"] == "ACOG-II")


def test_german_says_where_the_best_of_the_grid_is_another_setting(german):
    """If another setting than the published one is best, its figure is given too."""
    others = {line["algorithm"]: line.get("other") for line in german["lines"] if line["part"] == "sum"}
    assert {"eta": 10.0} == others["ACOG-II"]["settings"]
    assert others["ACOG-II"]["ours"] > 66
    assert others["ACOG-I"] is None


@pytest.mark.parametrize("name", published.BLOCKS)
def test_every_block_is_listed_with_its_files_and_its_protocol(name):
    """A block names its paper, table, files and protocol, and only algorithms that exist."""
    entry = next(entry for entry in reproduce.listed() if entry["name"] == name)
    block = published.BLOCKS[name]
    assert all((entry["paper"], entry["table"], entry["files"], len(entry["protocol"]) > 100, block.parts))
    assert name in reproduce.outline()
    assert all(algorithm in algorithms.ALGORITHMS for part in block.parts.values() for algorithm in part.published)


def test_an_unknown_table_is_refused_with_the_names_of_all_tables(command):
    """The error lists the names of all blocks."""
    sentence = f"error: a table must be all or one of {', '.join(published.BLOCKS)}. Got iris.\n"
    assert (1, "", sentence) == command("iris")


def test_the_list_is_one_object(command):
    """--list --json prints every block."""
    code, printed, _ = command("--list", "--json")
    assert code == 0
    assert reproduce.listed() == json.loads(printed)["blocks"]


@pytest.mark.parametrize("name", published.BLOCKS)
def test_a_missing_file_is_one_sentence(name, tmp_path, command):
    """Without its data a block says which file it needs and how to name the folder."""
    file = published.BLOCKS[name].files[0]
    sentence = f"error: {name} needs the file {file}, which is not in {tmp_path}: name its folder with --data-dir.\n"
    assert (1, "", sentence) == command(name, "--data-dir", tmp_path)


def test_zero_rows_can_be_counted_in_the_table_of_w8a_only(command):
    """A table whose protocol does not have the option refuses it."""
    assert (1, "", "error: zero rows can be counted as mistakes in oa3-w8a alone. Got acog-german.\n") == command(
        "acog-german", "--count-zero-rows-as-mistakes"
    )


def test_a_command_without_a_table_says_what_it_needs(command):
    """Without arguments nothing runs, and the error says what the command needs."""
    assert (1, "", "error: reproduce needs the name of a table, all, --list or --write.\n") == command()


def test_json_has_every_figure_with_its_settings(shared, command):
    """--json prints one object: a block with its lines."""
    shared("german.ID_ALL.txt.xz")
    code, printed, _ = command("acog-german", "--orders", "2", "--json", "--data-dir", SHARED)
    (block,) = json.loads(printed)["blocks"]
    assert code == 0
    assert ("acog-german", 2, 24) == (block["name"], block["orders"], len(block["lines"]))
    assert {"name", "paper", "table", "files", "protocol", "notes", "orders", "lines", "summary", "seconds"} == set(
        block
    )
    keys = {"part", "algorithm", "settings", "ours", "std", "queried", "published", "published_std", "difference"}
    assert all(keys | {"verdict"} == set(line) - {"other"} for line in block["lines"])


def test_one_table_is_written_into_the_page_and_the_others_stay(shared, command, tmp_path):
    """--write with a table replaces its section, keeps the rest, and says which tables the page does not have."""
    shared("german.ID_ALL.txt.xz")
    path = tmp_path / "a" / "page.md"
    arguments = ("acog-german", "--orders", "2", "--write", path, "--data-dir", SHARED)
    _, printed, _ = command(*arguments)
    first = path.read_text(encoding="utf-8")
    assert first.startswith("# Published tables, run again\n")
    assert f"Not here: {', '.join(name for name in published.BLOCKS if name != 'acog-german')}." in first
    assert first.endswith("\n\n" + printed.strip() + "\n")
    other = "## oaal-cov1\n\nAs it was.\n\n### A part\n\n| a |\n"
    path.write_text(
        first.replace(printed.strip(), f"## acog-german\n\nOld.\n\n## gone\n\nOld.\n\n{other}"), encoding="utf-8"
    )
    _, printed, _ = command(*arguments)
    second = path.read_text(encoding="utf-8")
    assert second.endswith(f"\n\n{printed.strip()}\n\n{other}")
    assert "Old." not in second
    assert "oaal-cov1" not in second.split("## ")[0]


@pytest.mark.parametrize("name", published.BLOCKS)
def test_the_page_has_every_table_as_it_is_described_now(name):
    """No section of docs/reproduction.md is left from another protocol, other notes or other published figures."""
    section = reproduce.sections((ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8"))[name]
    block = published.BLOCKS[name]
    assert block.protocol in section
    assert block.notes in section
    for figure, cells in block.parts.values():
        for mean, std in filter(None, cells.values()):
            assert f" {mean:.{figure.digits}f} ± {std:.{figure.digits}f} " in section


def test_rows_of_zeros_count_as_mistakes_and_are_not_asked():
    """In the published protocol a row of zeros is a mistake whatever its label, and costs no label."""
    data = table([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], [1, 1, -1, -1])
    run = protocols.without_zero_rows(protocols.Stream(data, [np.arange(4)], 1.0))
    counts = run.counts("PA", [{}])[0, 0]
    assert 2 == counts[..., 1].sum()
    assert {1} == {counts[0, 2, 0], counts[1, 2].sum(), counts[1, 0, 0], counts[0, 0].sum()}


def test_w8a_has_5455_rows_of_zeros(shared):
    """Each of them is a mistake under the published protocol, and every row counts once."""
    data = datasets.table(formats.read(shared("w8a.libsvm.xz")))
    run = protocols.without_zero_rows(protocols.Stream(data, [np.arange(data.y.size)], 1.0, budget=0))
    counts = run.counts("PAA", [{}])[0, 0]
    assert 5455 == run.missed.sum() == run.missed[1, 0].sum() + run.missed[0, 2].sum()
    assert 64_700 == counts.sum()
    assert run.missed[0, 2].sum() == counts[0].sum()  # with no label asked all other margins are 0: predicted positive


def test_smoothing_meets_the_share_of_labels():
    """smoothing finds the delta at which the rule asks the wanted share of labels; a random rule gets it as q."""
    rng = np.random.default_rng(4)
    data = table(rng.normal(size=(3000, 4)), np.where(rng.normal(size=3000) > 0, 1, -1))
    run = protocols.Stream(data, [stream.shuffled(3000, seed) for seed in range(3)], 1.0)
    choice = protocols.smoothing(run, "PAA-I", 0.1, None, {"C": 0.1})
    counts = run.counts("PAA-I", [choice])
    assert choice["C"] == 0.1
    assert counts[..., 1].sum() / counts.sum() == pytest.approx(0.1, abs=0.005)
    assert {"C": 1.0, "q": 0.2} == protocols.smoothing(run, "RPA-I", 0.2, None, {"C": 1.0})


@pytest.mark.parametrize(
    ("metric", "ours", "verdict"),
    [
        ("sum", 53.7604, "exact"),
        ("sum", 53.8, "agrees"),
        ("sum", 60, "better"),
        ("sum", 50, "worse"),
        ("cost", 60, "worse"),
        ("cost", 50, "better"),
    ],
)
def test_verdicts_know_which_way_is_better(metric, ours, verdict):
    """A figure is exact, agrees within two published deviations, or is better or worse by more than that."""
    assert verdict == protocols._verdict(GERMAN, protocols.Figure(metric), ours, 1.655, 53.76, 1.655)


def test_a_setting_is_the_best_of_its_grid():
    """The best choice has the highest sum, or the lowest cost."""
    data = table([[1.0, 0.0], [0.0, 1.0]] * 50, [1, -1] * 50)
    run = protocols.Stream(data, [np.arange(100)], 1.0)
    choices = protocols.grid(q=[1e-9, 1.0])
    assert [{"q": 1e-9}, {"q": 1.0}] == choices
    assert {"q": 1.0} == run.best(published.SUM, "RPE", choices) == run.best(published.COST, "RPE", choices)


def test_figures_of_more_than_two_classes_are_those_of_the_classes(three):
    """Accuracy is the share of rounds on which the class was right, for each choice and order."""
    counts = three.counts("MM-AMD", [{"b": 1.0}, {"b": 0.1}], 3)
    right = counts[..., range(3), range(1, 4), :].sum((-2, -1))
    assert (2, 3, 3, 4, 2) == counts.shape
    assert pytest.approx(100 * right / 1500) == published.ACCURACY.of(counts)
    assert right[0].min() > 1000


def test_smoothing_knows_the_parameter_of_each_rule(three):
    """The wanted share of labels sets the b of the discriminative rule and the q of the random one."""
    choice = protocols.smoothing(three, "MM-AMD", 0.2, None, {"eta": 0.1})
    counts = three.counts("MM-AMD", [choice])
    assert ["eta", "b"] == list(choice)
    assert counts[..., 1].sum() / counts.sum() == pytest.approx(0.2, abs=0.01)
    assert {"eta": 0.1, "q": 0.2} == protocols.smoothing(three, "MR-AMD", 0.2, None, {"eta": 0.1})


def test_a_setting_that_cannot_reach_the_share_does_not_count(three):
    """A setting that asks nearly all labels loses to a poorer one that asks the wanted share, unless it is alone."""
    keen, shy = {"eta": 1e-6}, {"eta": 1000.0}
    better, poorer = three.means(published.ACCURACY, "MM-AMD", [keen | {"b": 2.0**-14}, shy | {"b": 0.1}])
    assert better > poorer
    assert 1000.0 == protocols.nearby(three, published.ACCURACY, "MM-AMD", 0.2, [keen, shy])["eta"]
    assert 1e-6 == protocols.nearby(three, published.ACCURACY, "MM-AMD", 0.2, [keen])["eta"]


def test_columns_are_standardised_and_sparse_ones_stay_sparse():
    """Deviation 1, and mean 0 where rows are dense; a column that does not vary is left as it is."""
    matrix = np.array([[0.0, 4.0], [2.0, 4.0]])
    dense, thin = (protocols.standardised(table(kind(matrix), [1, -1])).rows for kind in (np.array, csr_array))
    assert [[-1.0, 0.0], [1.0, 0.0]] == rows.matrix(dense).tolist()
    assert [[0.0, 4.0], [2.0, 4.0]] == rows.matrix(thin).toarray().tolist()


def test_a_block_of_classes_runs_from_its_file(tmp_path):
    """D-ADA's protocol runs from the file to the summary, which compares the ranking with the published one."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 3, 1300)
    cells = [
        ["f1,f2,f3,class"],
        *([*map(str, x), "abc"[k]] for k, x in zip(y, np.eye(3)[y] + rng.normal(size=(1300, 3)))),
    ]
    (tmp_path / "three.csv").write_text("\n".join(map(",".join, cells)))
    figures = {"MPAA-II": (1.0, 0.1), "MM-AMD": (2.0, 0.1), "MD-AMD": None}
    parts = {"20 % of labels": protocols.Part(published.ACCURACY, figures)}
    block = replace(LETTER, files=("three.csv",), parts=parts, task={"first": 1000}, ranking=("MM-AMD", "MPAA-II"))
    lines = list(block.run(block, tmp_path, 2, False))
    assert ["MPAA-II", "MM-AMD", "MD-AMD"] == [line["algorithm"] for line in lines]
    assert ["better", "better", None] == [line["verdict"] for line in lines]
    assert [0.2, 0.2] == [pytest.approx(line["queried"], abs=0.02) for line in lines[:2]]
    assert all(50 < line["ours"] < 90 for line in lines)
    for line, ours in zip(lines, (60.0, 61.0)):
        line["ours"] = ours
    assert reproduce._summary(block, lines).endswith("20 % of labels: MM-AMD 61.00 > MPAA-II 60.00, as published.")
    lines[0]["ours"] = 62.0
    assert reproduce._summary(block, lines).endswith("20 % of labels: MPAA-II 62.00 > MM-AMD 61.00, not as published.")


def test_letter_has_the_published_ranking(shared):
    """MD-AMD > MM-AMD > MPAA-II at a tenth of the labels, with the settings that docs/reproduction.md shows."""
    data = protocols.standardised(
        protocols.read(shared(LETTER.files[0]).parent, LETTER.files[0], "none", multiclass=True, **LETTER.task)
    )
    run = protocols.Stream(data, protocols.shuffles(15_000, 2), 1.0)
    settings = {
        "MD-AMD": {"eta": 0.1, "delta": 0.01, "b": 0.00222},
        "MM-AMD": {"eta": 0.01, "delta": 0.01, "b": 0.00108},
        "MPAA-II": {"C": 0.01, "delta": 0.00455},
    }
    for algorithm, (mean, _) in ((name, LETTER.parts["10 % of labels"].published[name]) for name in settings):
        counts = run.counts(algorithm, [settings[algorithm]])
        assert counts[..., 1].sum() / counts.sum() == pytest.approx(0.1, abs=0.006)
        assert published.ACCURACY.of(counts).mean() == pytest.approx(mean, abs=2)
