"""The reproduction of published tables: protocols, verdicts, summaries and page."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from oal_engine import datasets
from oal_engine.datasets import reading
from oal_engine.kernel import algorithms, rows
from oal_engine.kernel.parameters import combinations
from oal_engine.reproduction import blocks, protocols, published, reproduce
from tests.harness import ROOT, SHARED

pytestmark = pytest.mark.slow

GERMAN = published.BLOCKS["acog-german"]
LETTER = published.BLOCKS["dada-letter"]


@pytest.fixture(scope="module")
def german():
    """The reproduction of the published table acog-german over 20 recorded orders, with a smaller parameter grid."""
    for file in GERMAN.files:
        if not (SHARED / file).exists():
            pytest.skip(f"needs ../shared/data/{file}")
    few = [1e-4, 0.1, 10.0, 100.0]
    grids = {
        name: [choice for choice in grid if not choice or {*choice.values()} <= {*few}]
        for name, grid in protocols.ACOG_GRIDS.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocols, "TENS", few)
        patch.setattr(protocols, "ACOG_GRIDS", grids)
        return reproduce.reproduce("acog-german", SHARED)


@pytest.fixture
def command(command):
    """A function that runs the command `reproduce` and returns the exit code, standard output and standard error."""
    return partial(command, "reproduce")


def table(matrix, y, classes=()):
    """Return a table as it would be read from a file."""
    return datasets.FeatureTable(rows.as_rows(matrix), np.array(y, np.int8), None, None, {"name": "none"}, classes)


@pytest.fixture(scope="module")
def three():
    """A stream of three classes with noise, in four orders."""
    rng = np.random.default_rng(5)
    y = rng.integers(1, 4, 1500)
    data = table(np.eye(3)[y - 1] + 0.5 * rng.normal(size=(1500, 3)), y, ("a", "b", "c"))
    return protocols.Stream(data, protocols.shuffles(1500, 4), 1.0)


def test_german_equals_the_publication_to_the_last_printed_digit(german):
    """Of the 24 sums and costs in ACOG's table 2 on german, 23 are exact, as are their sensitivity and specificity."""
    others = {(line["part"], line["algorithm"]) for line in german["lines"] if not reproduce._all(line, ("exact",))}
    assert {("sum", "ROMMA")} == others
    assert "for 23 to the last digit." in german["summary"]
    assert "Not for" not in german["summary"]
    assert {"eta": 100.0} == next(line["settings"] for line in german["lines"] if line["algorithm"] == "ACOG-II")


def test_german_says_where_the_best_of_the_grid_is_another_setting(german):
    """If another setting of the grid is better than the published one, the result of that setting is given too."""
    others = {line["algorithm"]: line["others"] for line in german["lines"] if line["part"] == "sum"}
    assert [("best", {"eta": 10.0})] == [(row["chosen"], row["settings"]) for row in others["ACOG-II"]]
    assert others["ACOG-II"][0]["ours"] > 66
    assert not others["ACOG-I"]


def test_every_block_is_listed_with_its_files_and_its_protocol(command):
    """--list names the paper, table, files and protocol of each block, and a block has only algorithms that exist."""
    listed = json.loads(command("--list", "--json")[1])["blocks"]
    assert [*published.BLOCKS] == [entry["name"] for entry in listed]
    assert all(all((each["paper"], each["table"], each["files"], len(each["protocol"]) > 100)) for each in listed)
    assert all(f"{name}: " in command("--list")[1] for name in published.BLOCKS)
    parts = [part for block in published.BLOCKS.values() for part in block.parts.values()]
    assert {algorithm for part in parts for algorithm in part.published} <= {*algorithms.ALGORITHMS}
    assert all(block.parts for block in published.BLOCKS.values())


@pytest.mark.parametrize("name", published.BLOCKS)
def test_a_missing_file_is_one_sentence(name, tmp_path, command):
    """If a data file is missing, the error names the file and the option that names its folder."""
    file = published.BLOCKS[name].files[0]
    sentence = f"error: {name} needs the file {file}, which is not in {tmp_path}: name its folder with --data-dir.\n"
    assert (1, "", sentence) == command(name, "--data-dir", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("iris",), f"a table must be all or one of {', '.join(published.BLOCKS)}. Got iris."),
        (("acog-german", "--count-zero-rows-as-mistakes"),
         "zero rows can be counted as mistakes in oa3-w8a alone. Got acog-german."),
        ((), "reproduce needs the name of a table, all, --list or --write."),
    ],
)  # fmt: skip
def test_what_cannot_be_reproduced_is_refused_in_a_sentence(command, arguments, message):
    """An unknown table, an option of another table, and no table at all are refused with what is allowed."""
    assert (1, "", f"error: {message}\n") == command(*arguments)


def test_json_has_every_figure_with_its_settings(shared, command):
    """--json prints one object that has, for each block, its result lines with their figures and settings."""
    shared("german.ID_ALL.txt.xz")
    code, printed, _ = command("acog-german", "--orders", "2", "--json", "--data-dir", SHARED)
    (block,) = json.loads(printed)["blocks"]
    assert code == 0
    assert ("acog-german", 2, 24) == (block["name"], block["orders"], len(block["lines"]))
    keys = "name paper table files protocol notes orders lines claims summary seconds"
    assert set(keys.split()) == set(block)
    numbers = {"ours", "std", "published", "published_std", "difference", "verdict"}
    keys = numbers | {"part", "algorithm", "chosen", "settings", "rates", "queried", "seconds", "published_seconds"}
    for line in block["lines"]:
        assert all(keys == set(row) - {"others"} for row in (line, *line["others"]))
        assert all(numbers == set(rate) for rate in line["rates"].values())
        assert list(blocks.RATES) == list(line["rates"])


def test_one_table_is_written_into_the_page_and_the_others_stay(shared, command, tmp_path):
    """--write with a table replaces the table's section of a Markdown page, keeps the other sections, and says which
    tables the page does not have."""
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
    """Every section of docs/reproduction.md has today's protocol, notes and published figures."""
    section = reproduce.sections((ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8"))[name]
    block = published.BLOCKS[name]
    assert block.protocol in section
    assert block.notes in section
    for figure, cells in block.parts.values():
        for mean, std, rates, _ in filter(None, cells.values()):
            assert f" {reproduce._number(figure.digits, mean, std)} " in section
            assert all(f" {reproduce._number(3, *rate)} " in section for rate in rates.values())


def test_the_notes_count_the_cells_of_oaal_as_the_page_shows_them():
    """The notes state in how many cells Q_A is ahead of, level with or behind CSOAL. These counts equal the five
    sections of docs/reproduction.md."""
    sections = reproduce.sections((ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8"))
    rows = [
        line for name, section in sections.items() if name.startswith("oaal") for line in section.splitlines()
        if line.startswith("| Q_A ahead of CSOAL ")
    ]  # fmt: skip
    assert 5 == len(rows)
    ahead, level, behind = ("".join(rows).count(f"| {verdict},") for verdict in ("ahead", "level", "behind"))
    assert f"ahead in {ahead} of {ahead + level + behind} cells, level in {level} and behind in {behind}:" in (
        published.OAAL_NOTES
    )


def test_rows_of_zeros_count_as_mistakes_and_are_not_asked():
    """In the published protocol a row of zeros is a mistake whatever its label, and costs no label."""
    data = table([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], [1, 1, -1, -1])
    run = protocols.without_zero_rows(protocols.Stream(data, [np.arange(4)], 1.0))
    counts = run.counts("PA", [{}])[0, 0]
    assert 2 == counts[..., 1].sum()
    assert {1} == {counts[0, 2, 0], counts[1, 2].sum(), counts[1, 0, 0], counts[0, 0].sum()}


def test_w8a_has_5455_rows_of_zeros(shared):
    """w8a has 5,455 rows of zeros. By the published protocol each is a wrong prediction, and no row counts twice."""
    data = datasets.table(reading.read(shared("w8a.libsvm.xz")))
    run = protocols.without_zero_rows(protocols.Stream(data, [np.arange(data.y.size)], 1.0, budget=0))
    counts = run.counts("PAA", [{}])[0, 0]
    assert 5455 == run.missed.sum() == run.missed[1, 0].sum() + run.missed[0, 2].sum()
    assert 64_700 == counts.sum()
    assert run.missed[0, 2].sum() == counts[0].sum()  # with no label asked all other margins are 0: predicted positive


@pytest.mark.parametrize(("algorithm", "key", "random"), [("MPAA-I", "delta", "MRPA-I"), ("MM-AMD", "b", "MR-AMD")])
def test_smoothing_meets_the_share_of_labels(three, algorithm, key, random):
    """`smoothing` finds the delta or the b at which a rule asks for the wanted share of labels. A random rule gets this
    share as its q."""
    choice = protocols.smoothing(three, algorithm, 0.2, None, {})
    counts = three.counts(algorithm, [choice])
    assert [key] == list(choice)
    assert counts[..., 1].sum() / counts.sum() == pytest.approx(0.2, abs=0.01)
    assert {"q": 0.2} == protocols.smoothing(three, random, 0.2, None, {})


@pytest.mark.parametrize(
    ("metric", "ours", "verdict"),
    [
        ("sum", 53.7604, "exact"),
        ("sum", 53.8, "agrees"),
        ("sum", 60, "better"),
        ("sum", 50, "worse"),
        ("cost", 60, "worse"),
        ("cost", 50, "better"),
        ("sensitivity", 60, "higher"),
        ("specificity", 50, "lower"),
    ],
)
def test_verdicts_know_which_way_is_better(metric, ours, verdict):
    """Verdicts are exact, agrees (within two published deviations), better or worse, and for rates higher or lower."""
    assert verdict == blocks._verdict(GERMAN, blocks.Figure(metric), ours, 1.655, 53.76, 1.655)


def test_a_setting_is_the_best_of_its_grid():
    """The best setting of a grid has the highest sum or, for the metric cost, the lowest cost."""
    data = table([[1.0, 0.0], [0.0, 1.0]] * 50, [1, -1] * 50)
    run = protocols.Stream(data, [np.arange(100)], 1.0)
    choices = combinations({"q": [1e-9, 1.0]})
    assert [{"q": 1e-9}, {"q": 1.0}] == choices
    assert {"q": 1.0} == run.best(published.SUM, "RPE", choices) == run.best(published.COST, "RPE", choices)


def test_figures_of_more_than_two_classes_are_those_of_the_classes(three):
    """With more than two classes, accuracy is the share of rounds with the right class, for each setting and item
    order."""
    counts = three.counts("MM-AMD", [{"b": 1.0}, {"b": 0.1}], 3)
    right = counts[..., range(3), range(1, 4), :].sum((-2, -1))
    assert (2, 3, 3, 4, 2) == counts.shape
    assert pytest.approx(100 * right / 1500) == published.ACCURACY.of(counts)
    assert right[0].min() > 1000


def test_a_setting_that_cannot_reach_the_share_does_not_count(three):
    """A setting that asks for nearly all labels loses to a less accurate one that asks for the wanted share, unless it
    is the only one."""
    keen, shy = {"eta": 1e-6}, {"eta": 1000.0}
    better, poorer = published.ACCURACY.of(three.counts("MM-AMD", [keen | {"b": 2.0**-14}, shy | {"b": 0.1}])).mean(1)
    assert better > poorer
    assert 1000.0 == protocols.nearby(three, published.ACCURACY, "MM-AMD", 0.2, [keen, shy])["eta"]
    assert 1e-6 == protocols.nearby(three, published.ACCURACY, "MM-AMD", 0.2, [keen])["eta"]


def test_columns_are_standardized_and_sparse_ones_stay_sparse():
    """Columns get standard deviation 1, and mean 0 in dense rows; constant columns are not divided."""
    matrix = np.array([[0.0, 4.0], [2.0, 4.0]])
    dense, thin = (protocols.standardized(table(kind(matrix), [1, -1])).rows for kind in (np.array, csr_array))
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
    figures = {"MPAA-II": blocks.Published(1.0, 0.1), "MM-AMD": blocks.Published(2.0, 0.1), "MD-AMD": None}
    parts = {"20 % of labels": blocks.Part(published.ACCURACY, figures)}
    block = replace(
        LETTER,
        files=("three.csv",),
        parts=parts,
        task={"first": 1000, "multiclass": True},
        ranking=("MM-AMD", "MPAA-II"),
    )
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
    """On letter, MD-AMD > MM-AMD > MPAA-II in accuracy at a tenth of the labels, with the settings of
    docs/reproduction.md."""
    data = protocols.standardized(
        protocols.read(shared(LETTER.files[0]).parent, LETTER.files[0], "none", **LETTER.task)
    )
    run = protocols.Stream(data, protocols.shuffles(15_000, 2), 1.0)
    settings = {
        "MD-AMD": {"eta": 0.1, "delta": 0.01, "b": 0.00222},
        "MM-AMD": {"eta": 0.01, "delta": 0.01, "b": 0.00108},
        "MPAA-II": {"C": 0.01, "delta": 0.00455},
    }
    for algorithm, (mean, *_) in ((name, LETTER.parts["10 % of labels"].published[name]) for name in settings):
        counts = run.counts(algorithm, [settings[algorithm]])
        assert counts[..., 1].sum() / counts.sum() == pytest.approx(0.1, abs=0.006)
        assert published.ACCURACY.of(counts).mean() == pytest.approx(mean, abs=2)


@pytest.fixture
def signs():
    """A stream of one feature whose sign is the label, in two orders."""
    y = np.array([1, -1] * 20)
    return protocols.Stream(table(y[:, None].astype(float), y), protocols.shuffles(40, 2), 1.0)


def block_of(published_numbers, **more):
    """Return a block whose only table column is the sum, with these published numbers."""
    parts = {"sum": blocks.Part(published.SUM, published_numbers)}
    return replace(GERMAN, parts=parts, also={}, **more)


def test_the_rates_tell_a_wrong_algorithm_whose_figure_is_right(signs):
    """The summary names an algorithm whose sensitivity or specificity is not as printed, even if its sum agrees."""
    right = {"sensitivity": (100.0, 1.0), "specificity": (95.0, 1.0)}
    for rates, words in ((right, "For 1 of 1 a"), (right | {"specificity": (90.0, 1.0)}, "Not for Perceptron (sum).")):
        block = block_of({"Perceptron": blocks.Published(97.5, 1.0, rates)})
        line = protocols.line(block, "sum", "Perceptron", {}, signs)
        assert line["verdict"] in ("exact", "agrees")
        assert words in reproduce._summary(block, [line])
    assert "higher" == line["rates"]["specificity"]["verdict"]


def test_held_out_folds_are_predicted_by_what_the_others_taught(signs):
    """In cross-validation, each row is predicted once by a learner trained on the other folds, and its label is not
    asked for. In an online run, the first predictions are guesses."""
    online, held_out = (replace(signs, folds=folds).counts("Perceptron", [{}])[0] for folds in (0, 5))
    assert 40 == held_out[0].sum() == online[0].sum()
    assert 0 == held_out[..., 1].sum()
    assert [100, 100] == published.SUM.of(held_out).tolist()
    assert published.SUM.of(online).min() < 100


def test_the_nearest_setting_is_nearest_in_figure_and_rates():
    """Of two settings with the printed sum, the one with the printed sensitivity and specificity is nearer."""
    counts = np.zeros((2, 1, 2, 3, 2), np.int64)
    for k, (tp, tn) in enumerate(((60, 40), (40, 60))):
        counts[k, 0, 1, 2, 1], counts[k, 0, 0, 2, 1] = tp, 100 - tp
        counts[k, 0, 0, 0, 1], counts[k, 0, 1, 0, 1] = tn, 100 - tn
    printed = blocks.Published(50, 1, {"sensitivity": (40, 2), "specificity": (60, 2)})
    assert [10, 0] == pytest.approx(printed.distance(published.SUM, counts))
    assert "b" == protocols.chosen(published.SUM, ["a", "b"], counts, printed)


def test_claims_are_counted_by_the_larger_deviation():
    """By each metric, a claimed algorithm is ahead of, level with or behind its best rival, measured by the larger of
    their deviations. For costs, lower is better."""
    parts = {"sum": blocks.Part(published.SUM, {}), "cost": blocks.Part(published.COST, {})}
    block = replace(GERMAN, parts=parts, claims=(("A", ("B", "C")),))
    lines = [
        {"part": part, "algorithm": name, "ours": ours, "std": 1.0, "chosen": ""}
        for part, figures in (("sum", (9, 5, 7)), ("cost", (9, 5, 9)))
        for name, ours in zip("ABC", figures)
    ]
    (claim,) = reproduce._claims(block, lines)
    assert {"verdict": "ahead", "against": "C", "by": 2} == claim["cells"]["sum"]
    assert {"verdict": "behind", "against": "B", "by": -4} == claim["cells"]["cost"]
    assert ["A against B and C: ahead in 1, behind in 1 of 2."] == list(reproduce._claimed(block, lines))


def test_times_are_compared_in_their_order_only():
    """The summary counts the pairs of algorithms whose printed times differ by half or more, and how many of these
    pairs have the same order in our times."""
    times = (("A", 1.0, 3.0), ("B", 1.2, 1.0), ("C", 4.0, 9.0))
    lines = [{"part": "sum", "published_seconds": there, "seconds": here} for _, there, here in times]
    (words,) = reproduce._timed(lines)
    assert words.startswith("Of 2 pairs")
    assert "2 are in the same order" in words
    assert not list(reproduce._timed([line | {"published_seconds": None} for line in lines]))


def test_printed_numbers_are_read_with_their_gaps():
    """A printed table is parsed into values, rates and seconds by metric and algorithm. A dash is a missing number."""
    parts = published.tables(
        """
        A 1 .1 2 .2 3 .3 .5 | 4 .4 5 .5 6 .6 .7
        B 7 .7 - - - - .9 | 8 .8 - - - - -
        """,
        published.FULL, one_part=published.SUM, other=published.COST,
    )  # fmt: skip
    assert ["one part", "other"] == list(parts)
    assert (4, 0.4, {"sensitivity": (5, 0.5), "specificity": (6, 0.6)}, 0.7) == parts["other"].published["A"]
    assert (7, 0.7, {}, 0.9) == parts["one part"].published["B"]
    assert parts["other"].published["B"].seconds is None


def test_word_counts_are_of_the_wanted_groups_without_common_words(tmp_path):
    """The scaling `counts` gives unscaled word counts of the items with given labels, leaving out common words."""
    texts = [("x", "the goal the goal"), ("y", "the base base base"), ("z", "other words")]
    path = tmp_path / "news.jsonl"
    path.write_text("\n".join(json.dumps({"id": str(k), "label": a, "text": t}) for k, (a, t) in enumerate(texts)))
    data = protocols.read(
        tmp_path, path.name, "counts", ("x",), among=("x", "y"), text=("text",), label="label", id=None
    )
    assert [1, -1] == data.y.tolist()
    assert [[0, 2], [3, 0]] == rows.matrix(data.rows).toarray().tolist()
