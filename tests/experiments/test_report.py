"""Reports: tables, figures and a page that other programs can open, with every name from the data escaped."""

import html
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from oal_engine import experiments
from oal_engine.experiments import Comparison, Result, figures, report, significance
from oal_engine.kernel.parameters import combinations
from oal_engine.output.plots import METRICS
from tests.harness.markup import EVIL, Page

ALGORITHMS = {"OAAL": {}, "PAA-I": {}, "RPA-I": {}}


def counts(rng, runs, marks, classes, right):
    """Return random counts that grow from mark to mark; the larger `right`, the more predictions are correct."""
    shape = (classes, classes + 1, 2) if classes else (2, 3, 2)
    chances = np.ones(shape)
    chances[:, 0 if classes else 1] = 0
    for k in range(shape[0]):
        chances[k, k + 1 if classes else 2 * k] += right
    steps = rng.multinomial(30, chances.ravel() / chances.sum(), (runs, marks))
    return steps.cumsum(1).reshape(runs, marks, *shape)


def made(algorithms=ALGORITHMS, data=("one", EVIL), budgets=(5, None), permutations=6, classes=(), name=EVIL, **more):
    """Make a comparison with random counts instead of replays."""
    spec = experiments.specification(
        {"data": data, "algorithms": algorithms, "budgets": budgets, "permutations": permutations}
        | ({"criterion": "macro_f1"} if classes else {}) | more
    )  # fmt: skip
    rng = np.random.default_rng(7)
    floors = (["floor"], rng.integers(1, 9, (permutations, 2, 4))) if spec.floor else ()

    def tables(right):
        each = [counts(rng, permutations, 9, len(classes), right) for _ in spec.questions or "1"]
        return np.stack(each, 2) if spec.questions else each[0]

    lines = [
        Result(each, algorithm, budget, classes, setting, [[setting, 0.5]] if spec.tune != "none" else [], ["job"],
             tables(8 - k), 0, *floors, hit=hit)
        for each in data
        for budget in budgets
        for hit in spec.hits
        for k, algorithm in enumerate(algorithms)
        for setting in combinations(experiments.grid(algorithm, algorithms[algorithm], "none"))
    ]  # fmt: skip
    return Comparison(name, spec, {"engine": "0"}, lines)


COMPARISONS = {
    "two classes": {},
    "three classes": {"algorithms": {"MPAA-I": {}, "MD-AMD": {}}, "data": (EVIL,), "classes": ("a", EVIL, "c")},
    "one of each": {"algorithms": {"OAAL": {}}, "data": ("one",), "budgets": (5,), "permutations": 1},
    "floors": {"algorithms": {"OAAL": {}, "PAA-I": {}}, "data": ("one",), "budgets": (5,), "floor": 0.5},
    "a sweep": {
        "algorithms": {"OAAL": {"delta_plus": "10^-1..10^1", "delta_minus": [0.1, 1]}},
        "data": (EVIL,),
        "budgets": (5,),
    },
    "a sweep of one": {"algorithms": {"OAAL": {"delta_plus": "10^-1..10^1"}}, "data": (EVIL,), "budgets": (5,)},
    "tuned": {"tune": "2:1", "criterion": "cost", "data": ("one",)},
    "questions": {"data": ("one",), "budgets": (5, None), "questions": ("x", EVIL)},
    "hits": {"data": ("one",), "budgets": (None,), "hit": (0.2, 0.5), "algorithms": {"PAA-I": {}, "PA-I": {}}},
}


@pytest.fixture(params=COMPARISONS.values(), ids=COMPARISONS)
def comparison(request):
    return made(**request.param)


def test_csv_and_parquet_have_a_row_for_each_line_and_run(comparison):
    import pandas

    frame = pandas.read_parquet(io.BytesIO(report.parquet(comparison)))
    questions = comparison.spec.questions
    assert len(comparison.lines) * comparison.spec.permutations * max(1, len(questions)) == len(frame)
    metric = "macro_f1" if comparison.lines[0].classes else "f1"
    runs = [run for line in comparison.as_json()["results"] for run in line["runs"]]
    runs = [run["questions"][name] for run in runs for name in questions] if questions else runs
    assert [run["push_query"][metric] for run in runs] == frame[f"push_query_{metric}"].tolist()
    assert [run["queried"] for run in runs] == frame["queried"].tolist()
    if comparison.has_floors:
        assert [run["floor"]["push"]["recall"] for run in runs] == frame["floor_push_recall"].tolist()
    again = pandas.read_csv(io.BytesIO(report.csv(comparison)))
    assert frame["data"].tolist() == again["data"].tolist()
    assert frame.columns.tolist() == again.columns.tolist()


def test_json_is_what_every_parser_reads(comparison):
    """The JSON has no NaN, even if a single run leaves nothing to test."""
    output = json.loads(report.as_json(comparison), parse_constant=pytest.fail)
    assert json.loads(json.dumps(comparison.as_json())) == output


def test_latex_closes_what_it_opens_and_every_row_has_all_cells(comparison):
    """Braces are balanced, every row has all cells of the table, and the best values are bold."""
    text = report.latex(comparison).decode()
    bare = re.sub(r"\\[\\{}$&#_%]", "", text.replace("\\\\", ""))
    depth = 0
    for character in bare:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    assert 0 == depth
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text)[1])
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert {columns} == {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows}
    assert len(comparison.lines) + 1 == len(rows)
    assert "$y$" not in text
    (label,) = re.findall(r"\\label\{(.*)\}", text)
    assert re.fullmatch(r"tab:[A-Za-z0-9-]+", label)
    further = 2 * comparison.has_floors + 2 * bool(comparison.spec.questions)
    assert len(comparison.blocks()) * (columns - 2 - further) == text.count(r"\textbf")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
def test_latex_compiles(tmp_path):
    table = (
        report.latex(made(data=("one", EVIL.replace("漢", "").replace("\u202e", "")))).decode().replace("漢\u202e", "")
    )
    (tmp_path / "a.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}" + table + "\\end{document}"
    )
    process = subprocess.run(["pdflatex", "-halt-on-error", "a.tex"], cwd=tmp_path, capture_output=True)
    assert 0 == process.returncode, process.stdout.decode()


@pytest.mark.slow
def test_the_page_of_html_needs_neither_scripts_nor_a_network(comparison):
    """The page has all tables, figures and the specification in one file, and escapes the names from the data."""
    text = report.page(comparison).decode()
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert all(address.startswith(("#", "data:image/png;")) for address in page.addresses)
    assert not re.search(r"url\((?!#)|@import", text)
    assert "default-src 'none'" in text
    assert all(line.algorithm in page.text and line.data in page.text for line in comparison.lines)
    assert comparison.name in page.text
    metrics = METRICS[bool(comparison.lines[0].classes)]
    maps = [*figures.sweeps(comparison, figures.view(comparison))]
    swept = 2 * len([*maps, *figures.varied(comparison.spec)])  # by criterion and by query ratio
    over = len(metrics) * len(comparison.spec.data) * bool(figures.AMOUNTS.keys() & figures.axes(comparison))
    curves = 2 if len(comparison.spec.hits) > 1 else len(metrics) + 1
    wanted = over + len(comparison.blocks()) * (curves + swept)
    ranked = comparison.ranks()["critical_difference"] is not None
    drawn = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert wanted + ranked == len(drawn)
    identities = [set(re.findall(r'id="([mp][0-9a-f]{10})"', each)) for each in drawn]
    assert sum(map(len, identities)) == len(set.union(*identities))  # no id occurs in two figures
    printed = html.unescape(re.search(r"<pre>(.*)</pre>", text, re.DOTALL)[1])
    assert comparison.versions == json.loads(printed)["versions"]


@pytest.mark.slow
def test_figures_are_of_their_kind_and_the_same_again(comparison):
    """Figures are PNG, and reproducible PDF and SVG, without characters that XML forbids and without math markup."""
    assert report.png(comparison).startswith(b"\x89PNG")
    assert report.pdf(comparison).startswith(b"%PDF")
    assert report.pdf(comparison) == report.pdf(comparison)
    svg = report.svg(comparison)
    words = " ".join(ElementTree.fromstring(svg).itertext())
    assert comparison.lines[0].data in words or "$y$" in words
    assert svg == report.svg(comparison)


def test_hits_are_drawn_over_the_share_of_labels_asked():
    """If there are several targets (`hit`), a curve has the tables' values at the shares of labels asked for, and its
    band contains them."""
    comparison = made(**COMPARISONS["hits"])
    view = figures.view(comparison)
    assert ("share", ("PAA-I", "PA-I")) == (view.axis, view.names)
    for name, x, mean, low, high, _ in figures.curves(comparison, view):
        lines = [block[name] for block in comparison.blocks().values()]
        points = sorted(
            (comparison.values(line, "query_ratio").mean(), comparison.values(line).mean()) for line in lines
        )
        assert points == [*zip(x, mean)]
        assert ((low <= mean) & (mean <= high)).all()
    assert "share of labels asked" in report.svg(comparison).decode()


def test_a_sweep_of_the_smoothing_is_drawn_over_what_it_asks():
    """Settings that differ only in the smoothing of their rule form one curve; other settings have their own."""
    comparison = made(
        algorithms={"PAA-I": {"delta": [0.1, 1, 10], "C": [1, 2]}, "PEA": {"delta": [0.1, 1]}},
        data=("one",),
        budgets=(5,),
    )
    view = figures.view(comparison, axis="share")
    sizes = {name: x.size for name, x, *_ in figures.curves(comparison, view)}
    assert {"PAA-I C=1": 3, "PAA-I C=2": 3, "PEA": 2} == sizes
    assert "share" not in figures.axes(made(budgets=(5,)))
    assert "share" not in figures.axes(made(held_out=True))


def test_a_supervised_algorithm_is_a_level_line():
    """An algorithm that asks for all labels whatever the target (`hit`) is a level line from the smallest share of
    labels to 1."""
    comparison = made(**COMPARISONS["hits"])
    for line in comparison.lines:
        if line.algorithm == "PA-I":
            asked = line.counts.sum(-1)
            line.counts[..., 0], line.counts[..., 1] = 0, asked
    view = figures.view(comparison)
    drawn = {name: x for name, x, *_ in figures.curves(comparison, view)}
    assert [drawn["PAA-I"].min(), 1] == [*drawn["PA-I"]]


def test_a_wide_axis_has_few_ticks_within_it():
    """Ticks are 1, 2 and 5 times the powers of ten, or only the powers if there are many."""
    assert [0.01, 0.02, 0.05, 0.1, 0.2] == pytest.approx(figures.ticks(np.array([0.01, 0.3])))
    assert [0.001, 0.01, 0.1, 1] == pytest.approx(figures.ticks(np.array([0.0005, 0.0010, 1])))


def test_the_best_is_marked_and_so_is_what_is_level_with_it():
    """The best value of each metric (the lowest cost) is marked, and so are values that a paired t-test finds level
    with it."""
    rows = report.table(made(), "one", 5, "push")
    for metric in METRICS[False]:
        means = {row.name: row.cells[metric][0] for row in rows}
        best = (min if metric == "cost" else max)(means, key=means.get)
        assert [best] == [row.name for row in rows if row.cells[metric][2] == "best"]
    lines = made().blocks()["one", 5]
    tests = made().test(lines, "f1", "push")
    assert [name for name, each in tests.items() if each["level"] and not each["best"]] == [
        row.name for row in rows if row.cells["f1"][2] == "level"
    ]
    single = report.table(made(permutations=1), "one", 5, "push")  # has no test
    assert {"best", ""} == {row.cells["f1"][2] for row in single}
    assert {None} == {row.cells["f1"][1] for row in single}


def test_a_sweep_is_a_grid_of_its_means():
    """A heat map shows each setting's mean in its cell. The best mean is the highest one, or the lowest one for a
    cost or a share of labels."""
    comparison = made(**COMPARISONS["a sweep"])
    view = figures.view(comparison)
    (sweep,) = figures.sweeps(comparison, view)
    assert {"delta_plus": ["0.1", "1", "10"], "delta_minus": ["0.1", "1"]} == sweep.values
    for line in comparison.blocks()[view.data, view.budget].values():
        place = tuple(values.index(f"{line.setting[key]:g}") for key, values in sweep.values.items())
        assert comparison.values(line).mean() == sweep.mean[place]
    assert sweep.mean.max() == sweep.mean[sweep.best("f1")]
    assert sweep.mean.min() == sweep.mean[sweep.best("cost")]
    (asked,) = figures.sweeps(comparison, replace(view, metric="query_ratio"))
    ratios = [line.asked.mean() / line.items for line in comparison.blocks()[view.data, view.budget].values()]
    assert pytest.approx(sorted(ratios)) == sorted(asked.mean.ravel())
    assert asked.mean.min() == asked.mean[asked.best("query_ratio")]


def test_one_parameter_is_the_first_axis_and_two_are_a_heat_map():
    """A sweep over one parameter is a curve by default, one over two is a heat map, and one over three is neither. Each
    parameter is an axis."""
    values = {"delta_plus": [1, 2], "delta_minus": [1, 2], "rho": [1, "auto"]}
    for size, first, maps in ((1, "delta_plus", []), (2, "labels", [(2, 2)]), (3, "labels", [])):
        comparison = made({"OAAL": dict([*values.items()][:size])}, ("one",))
        assert maps == [sweep.mean.shape for sweep in figures.sweeps(comparison, figures.view(comparison))]
        assert first == figures.view(comparison).axis
        assert [*values][:size] == [key for key in values if key in figures.axes(comparison)]


def axes_of(draw, *arguments):
    """Return the matplotlib axes on which a function has drawn a figure."""
    axes = Figure().add_subplot()
    draw(axes, *arguments)
    return axes


def test_a_heat_map_of_equal_values_says_so_in_words():
    """If every setting gives the same value as printed, the figure has a sentence instead of colors and a ring."""
    comparison = made(**COMPARISONS["a sweep"])
    view = figures.view(comparison, metric="query_ratio")
    for words in ([], [f"every setting gives {comparison.values(comparison.lines[0], 'query_ratio').mean():.3f}"]):
        axes = axes_of(figures.draw_sweep, comparison, view, next(figures.sweeps(comparison, view)))
        assert (words, not words) == ([each.get_text() for each in axes.texts], bool(axes.images and axes.lines))
        for line in comparison.lines:
            line.counts[:] = comparison.lines[0].counts


SEVERAL, TWO = {"OAAL": {}, "PAA-I": {}}, [0.5, 0.9]
OVER = {  # axis: algorithms, budgets, places of the points in the figure, scale
    "labels": (SEVERAL, (5,), None, "linear"),
    "rounds": (SEVERAL, (5,), None, "linear"),
    "budget": (SEVERAL, (5, 20, None), [5, 20, 270], "log"),  # without a budget: the number of items
    "share": ({"PAA-I": {"delta": [0.1, 1]}}, (5,), None, "linear"),
    "c_p": ({"OAAL": {"c_p": TWO}, "PAA-I": {"c_p": TWO}}, (5,), TWO, "linear"),
    "eta": ({"OA3-diag": {"eta": "10^-2..10^1"}, "PAA-I": {}}, (5,), [0.01, 0.1, 1, 10], "log"),
    "gamma": ({"OA3-diag": {"gamma": [1, 2], "eta": [1, 2]}}, (5,), [1, 2], "linear"),
    "m": ({"SOA3": {"m": [5, 10, 50]}, "SSACOG-I": {"m": [5, 100]}}, (5,), [5, 10, 50, 100], "log"),
}


@pytest.mark.parametrize("metric", ["f1", "cost", "query_ratio", "seconds"])
@pytest.mark.parametrize("axis", OVER)
def test_each_figure_has_a_line_for_each_algorithm_over_its_axis(axis, metric):
    """A figure over any axis has a line for each algorithm, with the metric at the end of the stream at each of its
    points. The axis is logarithmic if its values span a wide range."""
    algorithms, budgets, places, scale = OVER[axis]
    comparison = made(algorithms, ("one",), budgets)
    times = np.random.default_rng(0).random((len(comparison.lines), 6, 9)).cumsum(2)
    timed = [replace(line, nanoseconds=each) for line, each in zip(comparison.lines, times)]
    comparison = replace(comparison, lines=timed)
    axes = axes_of(figures.draw_curves, comparison, figures.view(comparison, axis=axis, metric=metric))
    lines = {line.get_label(): line.get_xydata() for line in axes.lines if line.get_label() in algorithms}
    assert ([*algorithms], scale) == ([*lines], axes.get_xscale())
    assert places in (None, sorted({x for line in lines.values() for x in line[:, 0]}))
    for name, points in lines.items():
        ends = {comparison.values(line, metric).mean() for line in timed if line.algorithm == name}
        assert {*points[:, 1]} <= ends or (points[-1, 1] in ends and axis in figures.AXES)


def test_a_diagram_of_ranks_has_each_name_at_its_rank():
    comparison = made()
    ranks = comparison.ranks()
    axes = axes_of(figures.draw_ranks, comparison, ranks)
    order = sorted(ranks["ranks"], key=ranks["ranks"].get)
    assert [f"{name} {ranks['ranks'][name]:.2f}" for name in order] == [text.get_text() for text in axes.texts[:3]]
    assert [ranks["ranks"][name] for name in order] == [line.get_xdata()[0] for line in axes.lines[:3]]


def test_a_curve_over_a_parameter_is_of_the_best_settings():
    """Over a parameter, each point is of the settings with the best criterion, whichever metric is shown; the axis says
    so. Words are at places of their own. An algorithm without the parameter is a level line."""
    comparison = made({"CSOAL": {"rho": [1, "auto"], "delta": [1, 2]}, "PAA-I": {}}, ("one",), (5,))
    view = figures.view(comparison, axis="rho", metric="precision")
    drawn = {name: mean for name, _, mean, *_ in figures.curves(comparison, view)}
    for place, rho in enumerate([1, "auto"]):
        lines = [line for line in comparison.lines if line.setting.get("rho") == rho]
        best = max(lines, key=lambda line: comparison.values(line).mean())
        assert comparison.values(best, "precision").mean() == drawn["CSOAL"][place]
    assert (2, 1) == (len(drawn["PAA-I"]), len({*drawn["PAA-I"]}))
    axes = axes_of(figures.draw_curves, comparison, view)
    assert "rho, with the best delta by F1 (push)" == axes.get_xlabel()
    assert [(0, "1"), (1, "auto")] == [*zip(axes.get_xticks(), [tick.get_text() for tick in axes.get_xticklabels()])]


def test_a_weight_that_only_some_algorithms_vary_weighs_all_of_them():
    comparison = made({"CSOAL": {"c_p": TWO}, "PAA-I": {}}, ("one",), (5,), criterion="cost")
    drawn = {name: mean for name, _, mean, *_ in figures.curves(comparison, figures.view(comparison, axis="c_p"))}
    weighted = [replace(comparison.lines[-1], setting={"c_p": c_p}) for c_p in TWO]
    assert [comparison.values(each, "cost").mean() for each in weighted] == [*drawn["PAA-I"]]
    assert drawn["PAA-I"][0] != drawn["PAA-I"][1]


def test_few_runs_find_nothing_level():
    """With three runs or fewer, what is not worse than the best is too uncertain to be called level."""
    for runs, expected in ((3, "too few runs to tell"), (4, "level")):
        comparison = made(permutations=runs)
        for line in comparison.lines:
            line.counts[:] = comparison.lines[0].counts
        assert {"best", expected} == {
            significance.verdict(each, runs) for each in comparison.tests()["one", 5].values()
        }
        assert expected in report.test_table(comparison, "one", 5, "f1", "push")
        marks = {row.cells["f1"][2] for row in report.table(comparison, "one", 5, "push")}
        assert {"best", "level" if runs == 4 else ""} == marks
        assert (runs == 3) == ("too few runs to tell" in report.caption(comparison, "push"))


def test_a_line_keeps_its_style_whichever_others_are_drawn():
    comparison = made()
    view = figures.view(comparison)
    looks = {name: style for name, *_, style in figures.curves(comparison, view)}
    assert len(looks) == len(set(map(str, looks.values())))
    for name, *_, style in figures.curves(comparison, replace(view, names=view.names[1:])):
        assert looks[name] == style


def test_curves_over_labels_of_an_older_version_end_where_the_last_is_spent():
    """Results of an older version have points along the stream only. Their curves over labels leave out points after
    the last label, except the end."""
    comparison = made(budgets=(5,))
    line = comparison.lines[0]
    line.counts[:, 4:] = line.counts[:, 3:4]
    _, x, mean, low, high, _ = next(figures.curves(comparison, figures.view(comparison)))
    assert (5, 5, 5, 5) == (x.size, mean.size, low.size, high.size)
    assert (low <= mean).all()
    assert (mean <= high).all()
    assert 0 <= low.min()
    assert high.max() <= 1


def test_a_figure_has_few_lines_and_they_are_the_best():
    comparison = made(algorithms={"OAAL": {"delta_plus": "10^-5..10^5"}}, data=("one",), budgets=(5,))
    lines = comparison.blocks()["one", 5]
    means = {name: comparison.values(line).mean() for name, line in lines.items()}
    names = figures.view(comparison, axis="labels").names
    assert figures.MOST_LINES == len(names)
    assert sorted(means.values())[-figures.MOST_LINES :] == sorted(means[name] for name in names)


@pytest.mark.parametrize(
    ("ranks", "apart", "expected"),
    [
        ({"a": 1, "b": 2, "c": 3}, 1, [["a", "b"], ["b", "c"]]),
        ({"a": 1, "b": 2, "c": 3}, 2, [["a", "b", "c"]]),
        ({"a": 1, "b": 3}, 1, []),
        ({"d": 4, "c": 2.5, "a": 1, "b": 2}, 1.5, [["a", "b", "c"], ["c", "d"]]),
    ],
)
def test_names_that_do_not_differ_are_joined(ranks, apart, expected):
    """Names within the critical difference form a group, and no group lies inside another."""
    assert expected == figures.level_groups({"ranks": ranks, "critical_difference": apart})


def test_two_comparisons_share_what_ran_on_the_same_data_under_the_same_budget():
    one, other = made(), made(algorithms={"PAA-I": {}, "Q_S": {}}, budgets=(None, 9))
    differences = report.differences(one, other, "f1", "push")
    assert [("one", None, "PAA-I"), (EVIL, None, "PAA-I")] == [each[:3] for each in differences]
    for data, budget, name, *means in differences:
        expected = [each.values(each.blocks()[data, budget][name], "f1", "push").mean() for each in (one, other)]
        assert expected == means
    assert "<script>" not in report.difference_table(one, other, "f1", "push")
