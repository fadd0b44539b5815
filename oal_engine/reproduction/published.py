"""The published tables: figures as printed, the data and the protocol of each, and what is known of the difference.

To add a table, or the part of one that a data file serves, name it in BLOCKS.
"""

from typing import Any

from ..kernel import algorithms
from .protocols import TRIALS, Block, Figure, Part, acog, dada, oa3, oaal, paa

SUM, COST, COST_100, F1 = Figure("sum", 100), Figure("cost"), Figure("cost", 0.01), Figure("f1")
ACCURACY = Figure("accuracy", 100, 2)


def tables(text: str, **figures: Figure) -> dict[str, Part]:
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
DADA_PROTOCOL = (
    "Columns standardised (the paper does not say so; of the usual scalings only this one gives its figures of letter, "
    "and unit length would make MD the same as MD-I), sparse ones without the mean; accuracy over all rounds; 20 "
    "random orders of our own. C from 10^-5 .. 10^5; eta from 10^-3 .. 1 at delta = 1, then delta from 10^-3 .. 10, "
    f"each the best over {TRIALS} of these orders, where the paper says cross validation and gives no grid; b (delta "
    "of MPAA-II, q of MR) bisected on the first order until the share of labels is asked; a setting that ends more "
    "than 5 % beside it does not count, unless all do. The paper's 20 % is 10^-0.7. In kind, without published "
    "figures: MD-ADA-I and MD-AMD-I, which the paper could not bring down to this share either, and MDA and MMD, "
    "which ask all labels."
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


def _budgets(*budgets: int) -> dict[str, Part]:
    return {
        f"{budget} labels, {name}": Part(Figure("f1", evaluation=evaluation), {})
        for budget in budgets
        for name, evaluation in (("push", "push"), ("push and query", "push_query"))
    }


def _cover(number: int, kind: str) -> Block:
    return Block(
        algorithms.OAAL, "figures 3 and 4", ("covtype_sample20k.csv.xz",),
        f"{kind} against the rest on 20,000 random rows of 581,012; columns standardised, then rows of unit length. "
        + OAAL_PROTOCOL,
        _budgets(250, 1250), oaal, orders=10,
        task={"scale": "standardize+l2", "label": "c55", "positive": (str(number),)},
    )  # fmt: skip


def _dada(name: str, file: str, task: dict[str, Any], data: str, notes: str, text: str) -> Block:
    parts = tables(text, **{"10_%_of_labels": ACCURACY, "20_%_of_labels": ACCURACY})
    parts["20 % of labels"].published.update(dict.fromkeys(("MD-ADA-I", "MD-AMD-I")))
    parts["100 % of labels"] = Part(ACCURACY, dict.fromkeys(("MDA", "MMD")))
    return Block(
        algorithms.DADA, f"table 4, {name}", (file,), data + DADA_PROTOCOL, parts, dada,
        ranking=("MD-AMD", "MM-AMD", "MPAA-II"), task=task, notes=notes,
    )  # fmt: skip


BLOCKS = {
    "acog-german": Block(
        algorithms.ACOG, "table 2, german", ("german.libsvm.xz", "german.ID_ALL.txt.xz"),
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
        acog, nearest=True, asks=False,
        notes="CPA (CPA_PB in the paper) is not reproduced exactly by its textbook form. ROMMA has no parameter, yet "
        "its published sum and cost stem from different runs (sensitivity 43.550 and 43.650): ours equals the second.",
    ),
    "acog-a9a": Block(
        algorithms.ACOG, "table 2, a9a", ("a9a.libsvm.xz",), ACOG_PROTOCOL + UNKNOWN_ORDERS,
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
        acog, asks=False,
        notes="CPA is not reproduced by its textbook form at any C. No eta of the grid gives the published sums of "
        "COG-I, COG-II, ACOG-II and ACOG-II-diag within two deviations; those of the last two lie between eta = 1 "
        "and 10. We do not know why.",
    ),
    "acog-usps": Block(
        algorithms.ACOG, "tables 5 and 6, usps", ("usps_zip_train.csv.xz",),
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
        acog, asks=False, task={"label": "c1", "positive": ("0",)},
        notes="SACOG and SSACOG are equal to rounding here, and were not quite in the paper. Most published costs are "
        "those of another eta than the best of the grid, larger for COG and ACOG: the paper hardly chose by this cost.",
    ),
    "oa3-w8a": Block(
        algorithms.OA3, "table 2, w8a", ("w8a.libsvm.xz", "w8a.ID_ALL.txt.xz"),
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
        oa3,
        notes="The paper's cross validation is not described; ours tunes on the figure that is reported, so a better "
        "one is expected and is no contradiction. The gain in the sum is largest for OAAL, CSOAL and SOAL-CS, and "
        "the published lead of OA3 over SOAL-CS is gone here: they are level within a deviation, for the sum and for "
        "the cost. SOA3 and SSOA3 are equal to rounding.",
    ),
    **{
        f"paa-{name}": Block(
            algorithms.PAA, f"table {number}, {name}", (file,), PAA_PROTOCOL,
            tables(text, **{"10_%_of_labels": F1, "20_%_of_labels": F1}),
            paa, tolerance=tolerance, unit="F", task=task,
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
    "dada-letter": _dada(
        "letter", "mlbench_LetterRecognition.csv.xz", {"first": 15_000},
        "The first 15,000 rows, as in LIBSVM's training file. ",
        "MR-AMD does better between two points of the grid: 51.6 and 58.2 at eta = 0.5 and delta = 0.0001, over three "
        "orders, which agrees. MD-ADA-I and MD-AMD-I are shown at the smallest share of labels that they reached.",
        """
        MPAA-II 48.21 .74 55.09 .58
        MR-ADA 45.09 .65 51.92 .58
        MM-ADA 47.58 .71 54.40 .64
        MD-ADA 49.19 .55 55.24 .34
        MR-AMD 51.88 .51 58.23 .53
        MM-AMD 53.85 .67 60.28 .35
        MD-AMD 58.48 .66 62.65 .42
        """,
    ),
    "dada-20newsgroups": _dada(
        "20newsgroups", "20news_bydate.jsonl.xz",
        {"text": ("text",), "label": "label", "id": None, "vocabulary": {"max_terms": 26_214, "sublinear": False}},
        "Counts of the 26,214 words that occur in most of the 18,846 texts: as many features as the paper's, not the "
        "same ones. ",
        "The paper's texts, with as many features, are prepared in another way, so most of its figures do not come "
        "out: ours are 0.5 to 3.8 points below, and at 10 % the lead of MD-AMD over MM-AMD is smaller than a "
        "deviation. With rows of unit length on top, MPAA-II, MR and MM were within 1.6 points of it (on one "
        "order), but a_t is 1 there: MD is MD-I and asks far more than 20 %. So the paper's rows are longer than "
        "1, and likely shorter than ours, whose squared length is 12,800 in the middle: a_t is so small that MD is "
        "nearer to MM than published. C and eta are at the lower ends of their grids. MD-ADA-I and MD-AMD-I are "
        "shown at the smallest share of labels that they reached.",
        """
        MPAA-II 64.71 .41 73.12 .25
        MR-ADA 60.50 .79 69.50 .48
        MM-ADA 64.66 .65 73.85 .31
        MD-ADA 66.75 .55 76.33 .42
        MR-AMD 61.90 .80 70.34 .50
        MM-AMD 66.67 .60 75.39 .23
        MD-AMD 68.57 .54 77.62 .28
        """,
    ),
    "oaal-cov1": _cover(3, "Ponderosa pine"),
    "oaal-cov2": _cover(1, "Spruce-fir"),
    "oaal-cov3": _cover(2, "Lodgepole pine"),
    "oaal-hd": Block(
        algorithms.OAAL, "figure 5", ("ohsumed_single23.jsonl.xz",),
        "C14, cardiovascular, against the rest of 7,400 abstracts; tf-idf over the whole file, rows of unit length. "
        + OAAL_PROTOCOL,
        _budgets(100, 500), oaal, orders=10, task={"text": ("text",), "label": "label", "positive": ("C14",)},
    ),
    "oaal-2days": Block(
        algorithms.OAAL, "figure 6", ("happymoments.csv.xz",),
        "Happy moments on exercise against the rest, in the place of the tweets, which are not public; tf-idf over the "
        "whole file, rows of unit length. " + OAAL_PROTOCOL,
        _budgets(100, 1000), oaal, orders=10,
        task={"text": ("moment",), "label": "concepts", "positive": ("exercise",), "contains": True},
    ),
}  # fmt: skip
