"""The published tables once more: ours beside the published figures, under the published protocols.

A block is a part of a table that one data file serves; to add one, name it in BLOCKS.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import sqrt
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from . import algorithms, datasets, formats, metrics, readers, rows, stream

DATA = Path(__file__).parents[2] / "shared" / "data"
TENS = [10.0**k for k in range(-5, 6)]
TWOS = [2.0**k for k in range(-5, 6)]
TRIALS = 3  # orders that settings are tuned on, where the orders of the paper are not known
AWAITED = {"dada-letter": "mlbench_LetterRecognition.csv.xz", "dada-20newsgroups": "20news_bydate.jsonl.xz"}


@dataclass(frozen=True)
class Figure:
    """What a column of a table shows: a metric of one evaluation, times a factor, with so many decimals."""

    metric: str
    factor: float = 1.0
    digits: int = 3
    evaluation: str = "push"

    def of(self, counts):
        """The figure of each table of counts; counts may have leading axes."""
        return self.factor * metrics.evaluate(counts, self.evaluation)[self.metric]

    @property
    def sign(self):
        """+1 where more is better, -1 where less is."""
        return -1 if self.metric == "cost" else 1


class Part(NamedTuple):
    """A column of a table: the figure and its published mean and standard deviation by algorithm."""

    figure: Figure
    published: dict


@dataclass(frozen=True)
class Block:
    """A published table on one data set; `run(block, folder, orders, choice)` gives a line for each part and algorithm.

    tolerance: the difference up to which ours agrees, in published standard deviations (`unit` sd) or as a number.
    nearest: show the setting nearest to the published figure, not the best. asks: whether labels are asked by a rule.
    task: how the file is read.
    """

    paper: str
    table: str
    files: tuple
    protocol: str
    parts: dict
    run: Callable
    tolerance: float = 2.0
    unit: str = "sd"
    orders: int = 20
    nearest: bool = False
    asks: bool = True
    notes: str = ""
    task: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Stream:
    """Rows with labels, orders of visit, and what a run over them is given: the published protocol of one table.

    missed: counts added to every run, of the rows that no order visits.
    """

    table: datasets.Table
    visits: list
    rho: float
    budget: int | None = None
    missed: np.ndarray = field(default_factory=metrics.empty)

    def counts(self, algorithm, choices, orders=None):
        """The counts (choices, orders, 2, 3, 2) of an algorithm under each choice of settings, over the first orders.

        A choice may set rho beside the algorithm's parameters.
        """
        visits = self.visits[:orders]
        strategies = [
            algorithms.strategy(algorithm, values={key: value for key, value in choice.items() if key != "rho"})
            for choice in choices
        ]

        def run(job):
            number, order = job
            chosen = strategies[number]
            rho = choices[number].get("rho", self.rho if chosen.rho is None else chosen.rho)
            done = stream.replay(
                self.table.rows, self.table.y, visits[order], *chosen.build(self.table.rows.columns),
                stream.objective(rho=rho), budget=self.budget, seed=order,
            )  # fmt: skip
            return done.counts + self.missed

        with ThreadPoolExecutor(os.cpu_count()) as threads:
            found = list(threads.map(run, product(range(len(choices)), range(len(visits)))))
        return np.reshape(found, (len(choices), len(visits), *metrics.COUNTS))

    def means(self, figure, algorithm, choices, orders=None):
        """The figure under each choice, averaged over the first orders."""
        return figure.of(self.counts(algorithm, choices, orders)).mean(1)

    def best(self, figure, algorithm, choices, orders=None):
        """The choice with the best figure over the first orders."""
        if len(choices) == 1:
            return choices[0]
        return choices[int(np.argmax(figure.sign * self.means(figure, algorithm, choices, orders)))]

    def descend(self, figure, algorithm, keys, orders):
        """A good choice of several parameters out of TENS, found by turning one at a time, all of them twice."""
        choice = dict.fromkeys(keys, 0.1)
        for key in keys * min(2, len(keys)):
            choice = self.best(figure, algorithm, [choice | {key: value} for value in TENS], orders)
        return choice


def grid(**values):
    """Every combination of the values of some parameters."""
    return [dict(zip(values, combination)) for combination in product(*values.values())]


def read(folder, file, scale="l2", positive=(), **columns):
    """The table of a published data file."""
    columns = replace(formats.peek(folder / file).guess, positive=positive, features=None, **columns)
    return datasets.table(formats.read(folder / file, columns), scale)


def recorded(path, rounds):
    """The orders of visit of a file, one a line, rows counted from 1."""
    try:
        with readers.COMPRESSIONS.get(path.suffix, open)(path, "rt") as lines:
            orders = [np.array(line.split(), dtype=np.int64) - 1 for line in lines if line.strip()]
    except readers.UNREADABLE as error:
        raise ValueError(f"the orders {path} cannot be read: {error}.") from None
    for number, order in enumerate(orders, 1):
        if not np.array_equal(np.sort(order), np.arange(rounds)):
            raise ValueError(
                f"order {number} of {path} must visit each of the rows 1 to {rounds} once. Got {order.size} numbers."
            )
    return orders


def imbalance(y):
    """T_n / T_p."""
    return float((y < 0).sum() / (y > 0).sum())


def line(block, part, algorithm, choice, counts):
    """One line of a result: ours over the orders, the published figure, and how far apart they are."""
    figure, published = block.parts[part].figure, block.parts[part].published.get(algorithm)
    values = figure.of(counts)
    ours, queried = float(values.mean()), float(counts[..., 1].sum() / counts.sum())
    found = {
        "part": part, "algorithm": algorithm, "settings": choice, "ours": ours,
        "std": float(values.std(ddof=1)) if values.size > 1 else None,
        "queried": queried, "published": None, "published_std": None, "difference": None, "verdict": None,
    }  # fmt: skip
    if published:
        mean, std = published
        found |= {"published": mean, "published_std": std, "difference": (ours - mean) / std}
        found["verdict"] = _verdict(block, figure, ours, found["std"], mean, std)
    return found


def _verdict(block, figure, ours, spread, mean, std):
    apart = (ours - mean) / (std if block.unit == "sd" else 1)
    if (round(ours, figure.digits), round(spread or 0, figure.digits)) == (mean, std):
        return "exact"
    if abs(apart) <= block.tolerance:
        return "agrees"
    return "better" if apart * figure.sign > 0 else "worse"


# ---- ACOG: supervised, one parameter, the sum and the cost

ACOG_GRIDS = {
    "Perceptron": [{}], "ROMMA": [{}], "PAUM": [{}], "PA-I": grid(C=TENS), "CPA": grid(C=TENS), "AROW": grid(r=TENS),
}  # fmt: skip


def _acog(block, folder, orders, _):
    data = read(folder, block.files[0], **block.task)
    rounds = data.y.size
    if len(block.files) > 1:
        visits = recorded(folder / block.files[1], rounds)[:orders]
    else:
        visits = [stream.shuffled(rounds, seed) for seed in range(orders)]
    for part, (figure, published) in block.parts.items():
        run = Stream(data, visits, imbalance(data.y) if figure.metric == "sum" else 9.0)
        for algorithm, (mean, _) in published.items():
            choices = ACOG_GRIDS.get(algorithm, grid(eta=TENS))
            if algorithm == "PAUM":  # its margin is the rho of the sum in both halves of the table
                choices = [{"rho": imbalance(data.y)}]
            means = run.means(figure, algorithm, choices, None if block.nearest else TRIALS)
            best, nearest = choices[np.argmax(figure.sign * means)], choices[np.argmin(np.abs(means - mean))]
            shown, *others = (
                line(block, part, algorithm, choice, run.counts(algorithm, [choice]))
                for choice in ([nearest, best] if block.nearest else [best, nearest])[: 1 + (best != nearest)]
            )
            for other in others:
                shown["other"] = {key: other[key] for key in ("settings", "ours", "std", "difference", "verdict")}
            yield shown


# ---- OA3: a budget, recorded orders, rows of zeros

OA3_PARAMETERS = {
    "PAA": ("delta",),
    "OAAL": ("delta_minus", "delta_plus"),
    "CSOAL": ("C", "delta"),
    "SOAL": ("eta", "delta"),
    "SOAL-CS": ("eta", "delta"),
    "OA3": ("eta", "delta_minus", "delta_plus"),
    "OA3-diag": ("eta", "delta_minus", "delta_plus"),
    "SOA3": ("eta", "delta_minus", "delta_plus"),
    "SSOA3": ("eta", "delta_minus", "delta_plus"),
}


def without_zero_rows(run):
    """The same stream where each row of zeros is a mistake that is neither asked nor learned: a margin divided by the
    norm of such a row is not a number, and equals no label."""
    empty = abs(rows.matrix(run.table.rows)).sum(1) == 0
    y = run.table.y[empty]
    missed = metrics.empty()
    missed[1, 0, 0], missed[0, 2, 0] = (y < 0).sum(), (y > 0).sum()
    return replace(run, visits=[order[~empty[order]] for order in run.visits], missed=missed)


def _oa3(block, folder, orders, zero_rows_as_mistakes):
    data = read(folder, block.files[0])
    run = Stream(data, recorded(folder / block.files[1], data.y.size)[:orders], 9.0, budget=32000)
    for part, (figure, _) in block.parts.items():
        if zero_rows_as_mistakes and "rule" in part:
            continue
        protocol = run if "rule" in part else without_zero_rows(run)
        if figure.metric == "sum":
            protocol = replace(protocol, rho=imbalance(data.y))
        for algorithm in OA3_PARAMETERS:
            tuned = "SSOA3" if algorithm == "SOA3" else algorithm  # equal to rounding, and faster
            choice = protocol.descend(figure, tuned, OA3_PARAMETERS[algorithm], orders=2)
            yield line(block, part, algorithm, choice, protocol.counts(algorithm, [choice]))


# ---- PAA: the share of labels is given, delta is found for it

PAA_SMOOTHING = {"SEL-ada": "beta", "RPE": "q", "RPA": "q", "RPA-I": "q", "RPA-II": "q"}


def smoothing(run, algorithm, share, orders, choice):
    """The choice with the smoothing (delta, beta or q) at which a share of the labels is asked."""
    key = PAA_SMOOTHING.get(algorithm, "delta")
    if key == "q":
        return choice | {key: share}
    low, high = -14.0, 14.0
    for _ in range(10):
        middle = (low + high) / 2
        counts = run.counts(algorithm, [choice | {key: 2**middle}], orders)
        low, high = (middle, high) if counts[..., 1].sum() < share * counts.sum() else (low, middle)
    return choice | {key: 2 ** ((low + high) / 2)}


def _paa(block, folder, orders, _):
    data = read(folder, block.files[0], "standardize+l2", **block.task)
    run = Stream(data, [stream.shuffled(data.y.size, seed) for seed in range(orders)], 1.0)
    trials = orders if data.y.size < 10_000 else TRIALS
    for part, (figure, published) in block.parts.items():
        share = float(part.split()[0]) / 100
        for algorithm in published:
            choices = grid(C=TWOS) if algorithm.endswith(("-I", "-II")) else [{}]
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                choices = list(threads.map(partial(smoothing, run, algorithm, share, trials), choices))
            choice = run.best(figure, algorithm, choices, trials)
            yield line(block, part, algorithm, choice, run.counts(algorithm, [choice]))


# ---- OAAL: in kind, for the figures give curves and other data

OAAL_CHOICES = {
    "Q_F": [{}],
    "Q_R": grid(q=[0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
    "Q_D": grid(tau=TENS),
    "Q_S": grid(delta=TENS),
    "Q_A": grid(delta_plus=TENS, delta_minus=TENS),
}


def _oaal(block, folder, orders, _):
    data = read(folder, block.files[0], **block.task)
    mixed, third = stream.shuffled(data.y.size, 0), data.y.size // 3
    validation, test = mixed[:-third], mixed[-third:]

    def visits(part, count):
        return [part[stream.shuffled(part.size, seed)][:third] for seed in range(count)]

    rho = imbalance(data.y[validation])
    choices = OAAL_CHOICES | {"CSOAL": grid(C=TENS, delta=TENS, rho=[1.0, sqrt(rho), rho])}
    for part, (figure, _) in block.parts.items():
        budget = int(part.split()[0])
        tuned = Stream(data, visits(validation, orders), rho, budget)
        tested = Stream(data, visits(test, orders), rho, budget)
        for algorithm in choices:
            choice = tuned.best(figure, algorithm, choices[algorithm])
            yield line(block, part, algorithm, choice, tested.counts(algorithm, [choice]))


# ---- The blocks

SUM, COST, COST_100, F1 = Figure("sum", 100), Figure("cost"), Figure("cost", 0.01), Figure("f1")


def tables(text, **figures):
    """Parts from lines of an algorithm and, for each part, its published mean and standard deviation."""
    cells = [row.split() for row in text.strip().splitlines()]
    return {
        part.replace("_", " "): Part(
            figure, {row[0]: (float(row[1 + 2 * at]), float(row[2 + 2 * at])) for row in cells}
        )
        for at, (part, figure) in enumerate(figures.items())
    }


ACOG_PROTOCOL = (
    "Every label is learned; rows of unit length; rho = T_n/T_p for the sum (alpha 0.5 : 0.5) and 9 for the cost "
    "(0.9 : 0.1); gamma = 1; C, eta and AROW's r from 10^-5 .. 10^5; mean and standard deviation over 20 orders. "
)
UNKNOWN_ORDERS = (
    f"The orders are not published, so ours are random: settings are the best of the grid over {TRIALS} orders, all "
    "orders are run there. Where that figure does not agree, the setting whose figure is nearest is given too."
)
PAA_PROTOCOL = (
    "Columns standardised over the whole file, then rows of unit length (the paper does not say so; its figures come "
    "out no other way); 20 random orders of our own; delta (beta, q) bisected until the share of labels is asked, "
    "on average over orders, where the paper takes the nearest of 2^-10 .. 2^10; C the best of 2^-5 .. 2^5, where the "
    f"paper says cross validation; both over all orders, or over {TRIALS} of w8a; F-measure over all rounds."
)
OAAL_PROTOCOL = (
    "In kind: the paper draws curves and gives no table, and its data differ. Two thirds of the rows are for tuning, "
    "one third for testing, split at random; settings are the best F1 of the same evaluation over ten "
    "streams out of the first part, as long as the test stream and with the same budget; then ten runs over the test "
    "rows, each in an order and with draws of its own. The paper's streams of covtype and OHSUMED are 30 "
    "and 50 times as long, so a budget is a far smaller share of them. tau, delta, C from 10^-5 .. 10^5, q from "
    "0.01 .. 1; CSOAL's rho from 1, "
    "sqrt(T_n/T_p), T_n/T_p. Last weights after the budget (option I)."
)


def _budgets(*budgets):
    return {
        f"{budget} labels, {name}": Part(Figure("f1", evaluation=evaluation), {})
        for budget in budgets
        for name, evaluation in (("push", "push"), ("push and query", "push_query"))
    }


def _cover(number, kind):
    return Block(
        OAAL_PAPER, "figures 3 and 4", ("covtype_sample20k.csv.xz",),
        f"{kind} against the rest on 20,000 random rows of 581,012; columns standardised, then rows of unit length. "
        + OAAL_PROTOCOL,
        _budgets(250, 1250), _oaal, orders=10,
        task={"scale": "standardize+l2", "label": "c55", "positive": (str(number),)},
    )  # fmt: skip


ACOG_PAPER, OA3_PAPER, PAA_PAPER, OAAL_PAPER = algorithms.ACOG, algorithms.OA3, algorithms.PAA, algorithms.OAAL

BLOCKS = {
    "acog-german": Block(
        ACOG_PAPER, "table 2, german", ("german.libsvm.xz", "german.ID_ALL.txt.xz"),
        ACOG_PROTOCOL + "The 20 orders are those recorded by the authors. How the paper chose from the grid is not "
        "known, and it is not the best mean: shown is the setting whose figure is nearest to the printed one, and "
        "beside it the best of the grid.",
        tables(
            """
            Perceptron 53.760 1.655 1.945 .070
            ROMMA 57.625 2.943 1.721 .128
            PA-I 53.043 1.902 1.977 .083
            PAUM 54.145 1.335 2.112 .091
            CPA 53.185 1.948 1.759 .082
            AROW 59.948 1.295 1.610 .082
            COG-I 54.424 1.474 1.770 .081
            COG-II 54.952 1.359 1.035 .033
            ACOG-I 63.150 1.025 1.232 .049
            ACOG-II 62.511 1.190 .875 .044
            ACOG-I-diag 61.765 1.195 1.330 .064
            ACOG-II-diag 62.281 1.428 .912 .045
            """,
            sum=SUM, cost_in_hundreds=COST_100,
        ),
        _acog, nearest=True, asks=False,
        notes="CPA (CPA_PB in the paper) does not come out exactly from its textbook form. ROMMA has no parameter, yet "
        "its published sum and cost stem from different runs (sensitivity 43.550 and 43.650): ours equals the second.",
    ),
    "acog-a9a": Block(
        ACOG_PAPER, "table 2, a9a", ("a9a.libsvm.xz",), ACOG_PROTOCOL + UNKNOWN_ORDERS,
        tables(
            """
            Perceptron 71.343 .215 50.951 .382
            ROMMA 70.904 .239 50.184 .361
            PA-I 71.274 .169 51.068 .311
            PAUM 78.255 .155 35.976 .346
            CPA 72.678 .209 42.517 .326
            AROW 75.854 .188 45.931 .486
            COG-I 78.978 .128 28.632 .263
            COG-II 79.126 .103 25.527 .182
            ACOG-I 79.903 .109 26.760 .291
            ACOG-II 81.220 .108 20.307 .169
            ACOG-I-diag 79.827 .094 26.917 .253
            ACOG-II-diag 81.098 .083 20.661 .110
            """,
            sum=SUM, cost_in_hundreds=COST_100,
        ),
        _acog, asks=False,
        notes="CPA does not come out from its textbook form at any C. No eta of the grid gives the published sums of "
        "COG-I, COG-II, ACOG-II and ACOG-II-diag within two deviations; those of the last two lie between eta = 1 "
        "and 10. We do not know why.",
    ),
    "acog-usps": Block(
        ACOG_PAPER, "tables 5 and 6, usps", ("usps_zip_train.csv.xz",),
        "Digit 0 against the rest, 1 : 5.11; sketches of m = 5. " + ACOG_PROTOCOL + UNKNOWN_ORDERS,
        tables(
            """
            COG-I 96.820 .165 90.165 3.851
            COG-II 96.576 .139 75.135 4.338
            ACOG-I 98.073 .115 44.365 3.448
            ACOG-II 97.633 .148 50.100 4.321
            ACOG-I-diag 96.886 .226 79.850 4.773
            ACOG-II-diag 96.305 .182 66.300 3.242
            SACOG-I 97.146 .149 55.970 3.053
            SACOG-II 97.071 .169 53.155 4.815
            SSACOG-I 97.091 .197 57.055 4.251
            SSACOG-II 97.048 .163 52.420 4.009
            """,
            sum=SUM, cost=COST,
        ),
        _acog, asks=False, task={"label": "c1", "positive": ("0",)},
        notes="SACOG and SSACOG are equal to rounding here, and were not quite in the paper. Most published costs are "
        "those of another eta than the best of the grid, larger for COG and ACOG: the paper hardly chose by this cost.",
    ),
    "oa3-w8a": Block(
        OA3_PAPER, "table 2, w8a", ("w8a.libsvm.xz", "w8a.ID_ALL.txt.xz"),
        "Budget 32,000 of 64,700; the 20 orders recorded by the authors; rows of unit length; rho = T_n/T_p for the "
        "sum and 9 for the cost; gamma = 1, m = 5; eta, deltas and C from 10^-5 .. 10^5, tuned on the first two "
        "orders, one parameter at a time, twice round. The published run divides the 5,455 rows of zeros by their "
        "norm, and so counts each as a mistake without asking it: so do the first two parts. By the rule their margin "
        "is 0, which predicts +1 and is asked: so do the last two, whose figures no publication has.",
        tables(
            """
            PAA 74.121 1.196 1334.555 29.329
            OAAL 73.919 .848 1327.965 16.675
            CSOAL 78.929 .586 1193.555 11.979
            SOAL 75.688 .531 1262.290 17.663
            SOAL-CS 80.076 .380 1137.000 14.635
            OA3 83.313 .951 1042.260 7.455
            OA3-diag 84.129 .260 1048.075 7.826
            SOA3 81.759 .455 1150.620 10.609
            SSOA3 81.803 .265 1149.620 8.379
            """,
            sum=SUM, cost=COST,
        )
        | {"sum, zero rows by the rule": Part(SUM, {}), "cost, zero rows by the rule": Part(COST, {})},
        _oa3,
        notes="The paper's cross validation is not described; ours tunes on the figure that is reported, so a better "
        "one is expected and is no contradiction. The gain in the sum is largest for OAAL, CSOAL and SOAL-CS, and "
        "the published lead of OA3 over SOAL-CS is gone here: they are level within a deviation, for the sum and for "
        "the cost. SOA3 and SSOA3 are equal to rounding.",
    ),
    **{
        f"paa-{name}": Block(
            PAA_PAPER, f"table {number}, {name}", (file,), PAA_PROTOCOL,
            tables(text, **{"10_%_of_labels": F1, "20_%_of_labels": F1}),
            _paa, tolerance=tolerance, unit="F", task=task,
            notes="C and delta are chosen on orders that are also reported, which favours ours a little.",
        )
        for name, number, file, tolerance, task, text in (
            (
                "svmguide1", 2, "svmguide1.csv.xz", 0.006, {"label": "c1", "positive": ("1",)},
                """
                PEA .837 .006 .832 .003
                SEL-ada .836 .005 .831 .005
                SEL-2nd .838 .009 .834 .007
                RPE .800 .008 .796 .006
                RPA .793 .009 .796 .008
                RPA-I .859 .003 .860 .002
                RPA-II .858 .004 .858 .002
                PAA .830 .006 .827 .005
                PAA-I .864 .002 .864 .002
                PAA-II .863 .001 .862 .002
                """,
            ),
            (
                "spambase", 3, "spambase.csv.xz", 0.006, {"positive": ("spam",)},
                """
                PEA .846 .006 .854 .005
                SEL-ada .835 .012 .849 .004
                SEL-2nd .843 .012 .859 .006
                RPE .800 .012 .819 .007
                RPA .827 .011 .838 .009
                RPA-I .858 .007 .875 .003
                RPA-II .860 .005 .875 .005
                PAA .865 .006 .867 .006
                PAA-I .881 .004 .888 .002
                PAA-II .884 .003 .889 .003
                """,
            ),
            (
                "w8a", 3, "w8a.libsvm.xz", 0.02, {},
                """
                PEA .263 .015 .342 .013
                SEL-ada .236 .018 .304 .016
                SEL-2nd .363 .019 .428 .016
                RPE .188 .007 .225 .007
                RPA .198 .013 .249 .010
                RPA-I .280 .009 .370 .008
                RPA-II .227 .011 .290 .011
                PAA .385 .015 .441 .021
                PAA-I .391 .015 .461 .009
                PAA-II .386 .015 .458 .012
                """,
            ),
        )
    },
    "oaal-cov1": _cover(3, "Ponderosa pine"),
    "oaal-cov2": _cover(1, "Spruce-fir"),
    "oaal-cov3": _cover(2, "Lodgepole pine"),
    "oaal-hd": Block(
        OAAL_PAPER, "figure 5", ("ohsumed_single23.jsonl.xz",),
        "C14, cardiovascular, against the rest of 7,400 abstracts; tf-idf over the whole file, rows of unit length. "
        + OAAL_PROTOCOL,
        _budgets(100, 500), _oaal, orders=10, task={"text": ("text",), "label": "label", "positive": ("C14",)},
    ),
    "oaal-2days": Block(
        OAAL_PAPER, "figure 6", ("happymoments.csv.xz",),
        "Happy moments on exercise against the rest, in the place of the tweets, which are not public; tf-idf over the "
        "whole file, rows of unit length. " + OAAL_PROTOCOL,
        _budgets(100, 1000), _oaal, orders=10,
        task={"text": ("moment",), "label": "concepts", "positive": ("exercise",), "contains": True},
    ),
}  # fmt: skip


# ---- What the command prints


def listed():
    """What each block is, the files it needs, what is known about its protocol, and what it awaits, if anything."""
    return [
        {"name": name, "paper": block.paper, "table": block.table, "files": list(block.files),
         "protocol": block.protocol, "awaits": None}
        for name, block in BLOCKS.items()
    ] + [
        {"name": name, "paper": algorithms.DADA, "table": f"table 4, {name[5:]}", "files": [file],
         "protocol": "Accuracy at 10 % and 20 % of labels.", "awaits": "the multi-class learners"}
        for name, file in AWAITED.items()
    ]  # fmt: skip


def outline():
    """The list in words."""
    return "\n\n".join(
        f"{about['name']}: {about['paper']}, {about['table']}\n  needs {', '.join(about['files'])}"
        + (f"\n  awaits {about['awaits']}" if about["awaits"] else "")
        + f"\n  {about['protocol']}"
        for about in listed()
    )


def reproduce(name, folder=None, orders=None, zero_rows_as_mistakes=False):
    """Run a block with the files of a folder: what it is, a line for each figure, and a summary."""
    if name not in BLOCKS:
        waits = f" {name} awaits the multi-class learners." if name in AWAITED else ""
        raise ValueError(f"a table must be all or one of {', '.join(BLOCKS)}. Got {name}.{waits}")
    block, folder = BLOCKS[name], Path(folder or DATA)
    for file in block.files:
        if not (folder / file).is_file():
            raise ValueError(
                f"{name} needs the file {file}, which is not in {folder}: name its folder with --data-dir."
            )
    started, count = perf_counter(), orders or block.orders
    lines = list(block.run(block, folder, count, zero_rows_as_mistakes))
    return {
        "name": name, "paper": block.paper, "table": block.table, "files": list(block.files),
        "protocol": block.protocol, "notes": block.notes, "orders": count, "lines": lines,
        "summary": _compared(block, lines) if any(found["verdict"] for found in lines) else _ranked(lines),
        "seconds": perf_counter() - started,
    }  # fmt: skip


def _compared(block, lines):
    """How many figures agree, and which do not."""
    verdicts = {verdict: [] for verdict in ("exact", "agrees", "better", "worse")}
    for found in lines:
        if found["verdict"]:
            verdicts[found["verdict"]].append(f"{found['algorithm']} ({found['part']})")
    within = f"{block.tolerance:g} published standard deviations" if block.unit == "sd" else f"{block.tolerance:g}"
    said = (
        f"Of {sum(map(len, verdicts.values()))} published figures ours equals {len(verdicts['exact'])} to the last "
        f"printed digit, agrees with {len(verdicts['agrees'])} within {within}, is better than "
        f"{len(verdicts['better'])} and worse than {len(verdicts['worse'])} by more."
    )
    apart = [found for found in lines if found["verdict"] in ("better", "worse") and "other" in found]
    agreeing = sum(found["other"]["verdict"] in ("exact", "agrees") for found in apart)
    if agreeing:
        said += f" Of those beyond, {agreeing} agree at another setting of the grid."
    return said + (f" Worse: {', '.join(verdicts['worse'])}." if verdicts["worse"] else "")


def _ranked(lines):
    """For each part whether Q_A wins, and by how much it is behind or ahead."""
    said = []
    for part in dict.fromkeys(found["part"] for found in lines):
        ours = {found["algorithm"]: found for found in lines if found["part"] == part}
        mine = ours.pop("Q_A")
        other = ours.pop("CSOAL")
        rules = max(ours.values(), key=itemgetter("ours"))
        said.append(
            f"{part}: Q_A {mine['ours']:.3f}, {_against(mine, rules)} the best other rule {rules['algorithm']} "
            f"({rules['ours']:.3f}) and {_against(mine, other)} CSOAL ({other['ours']:.3f})"
        )
    return "; ".join(said) + ". Ahead or behind means by more than the larger standard deviation."


def _against(mine, other):
    apart, spread = mine["ours"] - other["ours"], max(mine["std"] or 0, other["std"] or 0)
    return "ahead of" if apart > spread else "behind" if apart < -spread else "level with"


def markdown(result):
    """A block's result as a section of Markdown."""
    block = BLOCKS[result["name"]]
    said = [
        f"## {result['name']}", f"{result['paper']}, {result['table']}. Data: {', '.join(result['files'])}.",
        result["protocol"], f"**{result['summary']}**", result["notes"],
        f"{result['orders']} orders, {result['seconds']:.0f} seconds.",
    ]  # fmt: skip
    for part in dict.fromkeys(found["part"] for found in result["lines"]):
        lines = [found for found in result["lines"] if found["part"] == part]
        said += [f"### {part}", _table([_cells(block, found) for found in lines])]
    return "\n\n".join(filter(None, said)) + "\n"


def _cells(block, found):
    digits = block.parts[found["part"]].figure.digits

    def number(mean, std):
        return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")

    cells = {"algorithm": found["algorithm"], "settings": _settings(found["settings"])}
    if block.asks:
        cells["labels asked"] = f"{found['queried']:.2%}"
    cells["ours"] = number(found["ours"], found["std"])
    if found["published"] is not None:
        cells["published"] = number(found["published"], found["published_std"])
        cells["difference in sd"] = _signed(found["difference"])
        cells["verdict"] = found["verdict"]
    if "other" in found:
        other = found["other"]
        cells["verdict"] += (
            f"; {'best' if block.nearest else 'nearest'} of the grid at {_settings(other['settings'])}: "
            f"{number(other['ours'], other['std'])}, {_signed(other['difference'])} sd, {other['verdict']}"
        )
    return cells


def _signed(difference):
    return f"{round(difference, 2) + 0:+.2f}"  # + 0 for -0.0


def _settings(choice):
    return ", ".join(f"{key} = {value:.3g}" for key, value in choice.items())


def _table(rows):
    columns = list(rows[0])
    widths = [max(len(column), *(len(row[column]) for row in rows)) for column in columns]
    lines = [columns, ["-" * width for width in widths], *(row.values() for row in rows)]
    return "\n".join("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines)


def page(results):
    """The results of blocks as a page of Markdown."""
    head = [
        "# Published tables, run again",
        "Written by `python -m oal_engine reproduce --write docs/reproduction.md`, "
        f"{sum(result['seconds'] for result in results):.0f} seconds on {os.cpu_count()} cores. Ours stands beside the "
        "published figure, each with the sample standard deviation over the orders; the difference is in published "
        "standard deviations. *exact* equals the published mean and deviation to the last printed digit, *agrees* is "
        "within the tolerance of the block, *better* and *worse* are beyond it. sum is in percent.",
        f"Not here: {', '.join(AWAITED)} (D-ADA table 4), which await the multi-class learners.",
    ]
    return "\n\n".join(head + [markdown(result).strip() for result in results]) + "\n"
