"""The published tables: the printed figures, the data and protocol of each, and known reasons for differences.

To add a table, or the part of a table that uses one data file, add an entry to BLOCKS.
"""

from typing import Any

from ..kernel import algorithms
from .blocks import RATES, Block, Figure, Part, Published
from .protocols import FOLDS, TRIALS, acog, cspaa, dada, held_out, oa3, oaal, paa

SUM, COST, COST_100, F1 = Figure("sum", 100), Figure("cost"), Figure("cost", 0.01), Figure("f1")
F1_PERCENT, ACCURACY = Figure("f1", 100, 2), Figure("accuracy", 100, 2)


FULL = "mean std sensitivity sensitivity_std specificity specificity_std seconds"


def tables(text: str, columns: str = "mean std", **figures: Figure) -> dict[str, Part]:
    """Parse a printed table into its parts. text: a line per algorithm, with its name and, for each part, its numbers
    in the order of `columns`; `-` marks a number that the paper does not print. figures: {part, with _ for a space:
    figure}."""
    names = columns.split()
    parts: dict[str, dict[str, Published | None]] = {part: {} for part in figures}
    for row in text.strip().splitlines():
        algorithm, *cells = row.replace("|", "").split()
        for at, part in enumerate(figures):
            printed = cells[at * len(names) : (at + 1) * len(names)]
            parts[part][algorithm] = _published(
                {name: float(cell) for name, cell in zip(names, printed, strict=True) if cell != "-"}
            )
    return {part.replace("_", " "): Part(figure, parts[part]) for part, figure in figures.items()}


def _published(numbers: dict[str, float]) -> Published:
    rates = {name: (numbers[name], numbers[f"{name}_std"]) for name in RATES if name in numbers}
    return Published(numbers["mean"], numbers.get("std"), rates, numbers.get("seconds"))


ACOG_PROTOCOL = (
    "Every label is learned; rows of unit length; rho = T_n/T_p for the sum (alpha 0.5 : 0.5) and 9 for the cost "
    "(0.9 : 0.1); gamma = 1; C, eta and AROW's r from 10^-5 .. 10^5; mean and standard deviation over 20 orders. "
)
STATED = {"AROW": {"r": 1.0}}  # the value that the paper states
UNKNOWN_ORDERS = (
    f"The orders are not published, so ours are random: settings are chosen over {TRIALS} of them, then all are run. "
)
NEAREST = (
    "How the paper chose from the grid is not known, and it is not the best mean: each algorithm is shown at the "
    "setting nearest to its printed figure, sensitivity and specificity, and at the best setting of the grid."
)
PAA_PROTOCOL = (
    "Columns standardized over the whole file, then rows of unit length (the paper does not say so; its figures come "
    "out no other way); 20 random orders of our own; delta (beta, q) bisected until the share of labels is asked, "
    "on average over orders, where the paper takes the nearest of 2^-10 .. 2^10; C the best of 2^-5 .. 2^5, where the "
    f"paper says cross validation; both over all orders, or over {TRIALS} of w8a; F-measure over all rounds."
)
PAA_FIRST_ORDER = ("RPE", "RPA", "RPA-I", "RPA-II", "PEA", "PAA", "PAA-I", "PAA-II")
PAA_CLAIMS = (
    ("PAA", ("RPA",)), ("PAA-I", ("RPA-I",)), ("PAA-II", ("RPA-II",)), ("PEA", ("RPE",)),
    ("PAA", ("PEA",)), ("PAA-I", ("PEA",)), ("PAA-II", ("PEA",)),
)  # fmt: skip
PAA_IN_KIND = (
    "In kind: the paper draws curves and prints no number. 20 random orders; delta (q) bisected until the share of "
    f"labels is asked; C the best of 2^-5 .. 2^5; both over {TRIALS} orders."
)
CSPAA_ACTIVE, CSPAA_ALL = ("LEPE", "CSRND", "CSPAA", "CSPAA(a)"), ("Perceptron", "PA", "CW-diag", "PAUM", "CPA")
DADA_PROTOCOL = (
    "20 random orders of our own; predictions of all rounds count. C, eta of SOAL and a of SOP from 10^-5 .. 10^5; eta "
    f"from 10^-3 .. 1 at delta = 1, then delta from 10^-3 .. 10, each the best over {TRIALS} of these orders; the "
    "paper says cross validation and gives no grid; b (delta of PAA-II, SOP and SOAL, q of a random rule) bisected on "
    "the first order until the share of labels is asked; a setting whose share differs by more than 5 % of it does not "
    "count, unless all do. The paper's 20 % is 10^-0.7."
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


OAAL_CLAIMS = (("Q_A", ("Q_F", "Q_R", "Q_D", "Q_S")), ("Q_A", ("CSOAL",)))
OAAL_NOTES = (
    "The paper has Q_A ahead of CSOAL everywhere but on hd with the larger budget. Over the five OAAL blocks here it "
    "is ahead in 1 of 20 cells, level in 8 and behind in 11: on these data, with these budgets, CSOAL is the better "
    "choice."
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
        f"{kind} against the rest on 20,000 random rows of 581,012; columns standardized, then rows of unit length. "
        + OAAL_PROTOCOL,
        _budgets(250, 1250), oaal, orders=10, claims=OAAL_CLAIMS, notes=OAAL_NOTES,
        task={"scale": "standardize+l2", "label": "c55", "positive": (str(number),)},
    )  # fmt: skip


def _generalization(
    name: str, files: tuple[str, ...], orders: int, settings: dict[str, dict[str, float]], text: str
) -> Block:
    return Block(
        algorithms.ACOG, f"table 3, {name}", files,
        f"{FOLDS}-fold cross-validation: the labels of all folds but one are learned in one pass, and the last weights "
        f"predict the fold that was held out. The sum is over all items, its mean and deviation over {orders} orders; "
        "the paper prints one number. rho = T_n/T_p; rows of unit length. Shown are the likely settings of the paper "
        "(as in its table 2, but AROW's r = 1 on german) and the best of 10^-5 .. 10^5, chosen over "
        f"{TRIALS} orders.",
        tables(text, "mean", sum=SUM), held_out, orders=orders, asks=False, also={"sum": settings},
        notes="The weights after the last round vary much from order to order, by several points for many algorithms: "
        "one number of a paper says little here.",
    )  # fmt: skip


def _etas(cog: float, acog: float) -> dict[str, dict[str, float]]:
    """Return settings of the COG and ACOG algorithms with these values of eta: {algorithm: settings}."""
    return {name: {"eta": cog} for name in ("COG-I", "COG-II")} | {
        name: {"eta": acog} for name in ("ACOG-I", "ACOG-II", "ACOG-I-diag", "ACOG-II-diag")
    }


NEWSGROUPS = "20news_bydate.jsonl.xz"
NEWS: dict[str, Any] = {"text": ("text",), "label": "label", "id": None, "scale": "counts"}
COMP = ("graphics", "os.ms-windows.misc", "sys.ibm.pc.hardware", "sys.mac.hardware", "windows.x")
REC = ("autos", "motorcycles", "sport.baseball", "sport.hockey")
SCI = ("crypt", "electronics", "med", "space")
COUNTS = (
    "Words of three letters or more, without the most common English words; rows are not scaled. The paper does not "
    "say how it made its rows. They must be longer than 1, or D-ADA would equal D-ADA-I. Of counts, logarithms of "
    "counts, tf-idf and standardized columns, with and without common words, these counts come nearest to its figures. "
)


def _dada_binary(name: str, positive: str, negative: str, text: str) -> Block:
    return Block(
        algorithms.DADA, f"table 2, {name}", (NEWSGROUPS,),
        f"{positive} against {negative}, word counts. {COUNTS}{DADA_PROTOCOL}",
        tables(text, "mean std", **{"10_%_of_labels": F1_PERCENT, "20_%_of_labels": F1_PERCENT}), dada,
        claims=tuple((ahead, ("PAA-II", "SOP-diag", "SOAL-diag")) for ahead in ("D-ADA", "D-AMD")),
        task=NEWS | {"positive": (positive,), "among": (positive, negative), "vocabulary": {"min_df": 2}},
        notes="SOP-diag and SOAL-diag are the paper's SOP and SOAL, which it runs with the diagonal alone.",
    )  # fmt: skip


def _dada_classes(name: str, file: str, task: dict[str, Any], data: str, notes: str, text: str) -> Block:
    parts = tables(text, "mean std", **{"10_%_of_labels": ACCURACY, "20_%_of_labels": ACCURACY})
    fewest = dict.fromkeys(("MD-ADA-I", "MD-AMD-I"))
    parts["20 % of labels"] = Part(ACCURACY, {**parts["20 % of labels"].published, **fewest})
    parts["100 % of labels"] = Part(ACCURACY, dict.fromkeys(("MDA", "MMD")))
    return Block(
        algorithms.DADA, f"table 4, {name}", (file,),
        f"{data}{DADA_PROTOCOL} In kind, without published figures: MD-ADA-I and MD-AMD-I, which the paper could not "
        "bring down to this share either, and MDA and MMD, which ask all labels.",
        parts, dada, ranking=("MD-AMD", "MM-AMD", "MPAA-II"), task={"multiclass": True} | task, notes=notes,
    )  # fmt: skip


def _shares(figure: Figure, names: tuple[str, ...], *shares: str) -> dict[str, Part]:
    return {f"{share} % of labels": Part(figure, dict.fromkeys(names)) for share in shares}


def _news_pair(first: str, firsts: tuple[str, ...], second: str, seconds: tuple[str, ...]) -> Block:
    positive, negative = (
        tuple(f"{field}.{group}" for group in groups) for field, groups in ((first, firsts), (second, seconds))
    )
    return Block(
        algorithms.PAA, "section 6.1.4 and figure 2", (NEWSGROUPS,),
        f"{first} against {second}, {len(firsts)} and {len(seconds)} groups of 20 newsgroups; tf-idf of 26,214 words, "
        f"as many as the paper's, not the same ones; rows of unit length. {PAA_IN_KIND}",
        _shares(F1, PAA_FIRST_ORDER, "5", "10", "20"), paa, claims=PAA_CLAIMS,
        task=NEWS | {
            "scale": "l2", "positive": positive, "among": positive + negative, "vocabulary": {"max_terms": 26_214}
        },
    )  # fmt: skip


def _mpaa(name: str, file: str, data: str, task: dict[str, Any]) -> Block:
    return Block(
        algorithms.PAA, f"figure 4, {name}", (file,),
        f"{data} Columns standardized over the whole file, then rows of unit length. {PAA_IN_KIND}",
        _shares(ACCURACY, tuple(f"M{algorithm}" for algorithm in PAA_FIRST_ORDER), "5", "10", "20"), paa,
        claims=tuple((f"M{ahead}", tuple(f"M{other}" for other in others)) for ahead, others in PAA_CLAIMS),
        task={"multiclass": True} | task,
    )  # fmt: skip


BLOCKS = {
    "acog-german": Block(
        algorithms.ACOG, "table 2, german", ("german.libsvm.xz", "german.ID_ALL.txt.xz"),
        f"{ACOG_PROTOCOL}The 20 orders are those recorded by the authors. {NEAREST}",
        tables(
            """
            Perceptron 53.760 1.655 35.133 2.343 72.386 .977 .003 | 1.945 .070 35.133 2.343 72.386 .977 .003
            ROMMA 57.625 2.943 43.550 4.496 71.700 1.710 .004 | 1.721 .128 43.650 4.372 71.536 1.932 .004
            PA-I 53.043 1.902 34.000 2.818 72.086 1.128 .003 | 1.977 .083 34.000 2.818 72.086 1.128 .003
            PAUM 54.145 1.335 26.483 3.633 81.807 1.341 .003 | 2.112 .091 26.483 3.633 81.807 1.341 .003
            CPA 53.185 1.948 37.883 2.925 68.486 1.144 .004 | 1.759 .082 44.317 2.883 63.464 1.287 .004
            AROW 59.948 1.295 26.367 3.893 93.529 1.630 .014 | 1.610 .082 43.867 3.364 86.571 1.543 .016
            COG-I 54.424 1.474 36.083 2.203 72.764 .807 .003 | 1.770 .081 42.933 3.010 67.200 .990 .003
            COG-II 54.952 1.359 54.833 1.318 55.071 1.442 .003 | 1.035 .033 81.067 .799 25.200 1.983 .003
            ACOG-I 63.150 1.025 49.050 1.932 77.250 1.489 .008 | 1.232 .049 62.750 2.017 67.671 1.394 .010
            ACOG-II 62.511 1.190 63.000 2.052 62.021 1.408 .008 | .875 .044 86.883 2.264 25.564 4.099 .011
            ACOG-I-diag 61.765 1.195 47.517 2.610 76.014 1.022 .003 | 1.330 .064 58.967 2.362 68.300 .901 .003
            ACOG-II-diag 62.281 1.428 62.883 1.852 61.679 1.576 .003 | .912 .045 84.733 .876 28.629 4.046 .003
            """,
            FULL, sum=SUM, cost_in_hundreds=COST_100,
        ),
        acog, asks=False, also={"sum": STATED, "cost in hundreds": STATED},
        notes="AROW's printed figures come from r = 0.1 (sum) and r = 0.0001 (cost), not from the r = 1 that the paper "
        "states. ROMMA has no parameter, yet its published sum and cost stem from different runs (sensitivity "
        "43.550 and 43.650): ours equals the second.",
    ),
    "acog-a9a": Block(
        algorithms.ACOG, "table 2, a9a", ("a9a.libsvm.xz",), ACOG_PROTOCOL + UNKNOWN_ORDERS + NEAREST,
        tables(
            """
            Perceptron 71.343 .215 56.406 .327 86.280 .102 .196 | 50.951 .382 56.406 .327 86.280 .102 .191
            ROMMA 70.904 .239 57.918 .493 83.889 .262 .225 | 50.184 .361 57.989 .346 83.863 .227 .224
            PA-I 71.274 .169 56.310 .277 86.237 .113 .212 | 51.068 .311 56.310 .277 86.237 .113 .212
            PAUM 78.255 .155 70.868 .345 85.643 .116 .192 | 35.976 .346 70.868 .345 85.643 .116 .197
            CPA 72.678 .209 62.818 .345 82.537 .145 .254 | 42.517 .326 66.818 .285 79.503 .132 .246
            AROW 75.854 .188 58.858 .510 92.849 .153 5.591 | 45.931 .486 58.858 .510 92.849 .153 5.104
            COG-I 78.978 .128 71.967 .264 85.990 .137 .192 | 28.632 .263 79.390 .241 81.284 .107 .190
            COG-II 79.126 .103 81.038 .243 77.213 .168 .201 | 25.527 .182 89.013 .171 62.398 .243 .193
            ACOG-I 79.903 .109 73.561 .347 86.244 .162 3.080 | 26.760 .291 81.129 .340 81.398 .219 2.837
            ACOG-II 81.220 .108 85.269 .219 77.171 .134 3.344 | 20.307 .169 94.079 .136 62.107 .185 3.612
            ACOG-I-diag 79.827 .094 73.361 .245 86.293 .103 .202 | 26.917 .253 80.990 .282 81.369 .147 .205
            ACOG-II-diag 81.098 .083 84.705 .227 77.491 .152 .216 | 20.661 .110 93.352 .126 63.212 .238 .213
            """,
            FULL, sum=SUM, cost_in_hundreds=COST_100,
        ),
        acog, asks=False,
        also={
            "sum": _etas(0.5, 8.0) | STATED,
            "cost in hundreds": STATED,
        },
        notes="The published sums of COG and ACOG do not come from the stated grid, but from eta = 0.5 for COG and 8 "
        "for ACOG: powers of two. The published costs come from eta = 1 for COG and 10 for ACOG. With these the "
        "figure, the sensitivity and the specificity all agree. The published setting is not the best one of the grid: "
        "ACOG-II does better at eta = 1.",
    ),
    "acog-german-held-out": _generalization(
        "german", ("german.libsvm.xz", "german.ID_ALL.txt.xz"), 20,
        {"PA-I": {"C": 10.0}, "CPA": {"C": 10.0}} | STATED | _etas(100.0, 100.0),
        """
        Perceptron 53.737
        ROMMA 58.614
        PA-I 51.363
        PAUM 52.126
        CPA 52.768
        AROW 54.575
        COG-I 52.258
        COG-II 50.784
        ACOG-I 62.954
        ACOG-II 60.928
        ACOG-I-diag 64.389
        ACOG-II-diag 66.036
        """,
    ),
    "acog-a9a-held-out": _generalization(
        "a9a", ("a9a.libsvm.xz",), 4,
        {"PA-I": {"C": 10.0}, "CPA": {"C": 10.0}} | {"AROW": {"r": 0.1}} | _etas(0.5, 8.0),
        """
        Perceptron 68.649
        ROMMA 72.467
        PA-I 71.986
        PAUM 79.323
        CPA 73.668
        AROW 75.961
        COG-I 79.705
        COG-II 78.559
        ACOG-I 80.026
        ACOG-II 81.630
        ACOG-I-diag 80.118
        ACOG-II-diag 81.752
        """,
    ),
    "acog-usps": Block(
        algorithms.ACOG, "tables 5 and 6, usps", ("usps_zip_train.csv.xz",),
        "Digit 0 against the rest, 1 : 5.11; sketches of m = 5. " + ACOG_PROTOCOL + UNKNOWN_ORDERS + NEAREST,
        tables(
            """
            COG-I 96.820 .165 96.361 .345 97.279 .116 .039 | 90.165 3.851 92.642 .344 98.179 .060 .031
            COG-II 96.576 .139 96.516 .226 96.637 .193 .038 | 75.135 4.338 96.570 .215 93.722 .342 .030
            ACOG-I 98.073 .115 97.822 .242 98.323 .095 .271 | 44.365 3.448 96.671 .321 98.591 .070 .151
            ACOG-II 97.633 .148 97.998 .230 97.268 .176 .239 | 50.100 4.321 98.241 .172 94.883 .488 .252
            ACOG-I-diag 96.886 .226 95.641 .435 98.131 .076 .039 | 79.850 4.773 93.526 .423 98.314 .080 .031
            ACOG-II-diag 96.305 .182 96.369 .228 96.240 .182 .040 | 66.300 3.242 96.993 .149 94.425 .295 .030
            SACOG-I 97.146 .149 - - - - .135 | 55.970 3.053 - - - - .078
            SACOG-II 97.071 .169 - - - - .091 | 53.155 4.815 - - - - .090
            SSACOG-I 97.091 .197 96.817 .323 97.365 .125 .077 | 57.055 4.251 95.657 .384 98.296 .076 .054
            SSACOG-II 97.048 .163 97.010 .237 97.085 .190 .074 | 52.420 4.009 97.647 .192 95.550 .360 .054
            """,
            FULL, sum=SUM, cost=COST,
        ),
        acog, asks=False, task={"label": "c1", "positive": ("0",)},
        notes="SACOG and SSACOG are equal to rounding here, and were not quite in the paper. Most published costs "
        "come from another eta than the best of the grid, larger for COG and ACOG: the paper hardly chose by this "
        "cost.",
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
            PAA 74.121 1.196 57.716 2.564 90.526 .213 .990 | 1334.555 29.329 57.512 2.309 90.514 .270 .982
            OAAL 73.919 .848 57.850 1.798 89.987 .163 1.022 | 1327.965 16.675 56.945 1.033 90.776 .040 1.034
            CSOAL 78.929 .586 68.078 1.307 89.780 .159 .976 | 1193.555 11.979 66.699 .967 90.214 .110 .979
            SOAL 75.688 .531 60.476 1.071 90.899 .042 3.340 | 1262.290 17.663 60.212 1.031 90.917 .028 3.458
            SOAL-CS 80.076 .380 69.912 .781 90.241 .050 3.763 | 1137.000 14.635 69.268 .944 90.403 .053 3.752
            OA3 83.313 .951 84.369 .565 82.257 2.365 14.118 | 1042.260 7.455 79.240 .679 89.149 .194 9.002
            OA3-diag 84.129 .260 83.101 .435 85.157 .742 6.691 | 1048.075 7.826 79.020 .477 89.117 .126 5.398
            SOA3 81.759 .455 80.864 .760 82.655 1.303 4.556 | 1150.620 10.609 76.234 .974 88.256 .266 4.364
            SSOA3 81.803 .265 80.365 .788 83.241 .816 3.398 | 1149.620 8.379 76.079 .946 88.315 .273 3.332
            """,
            FULL, sum=SUM, cost=COST,
        )
        | {"sum, zero rows by the rule": Part(SUM, {}), "cost, zero rows by the rule": Part(COST, {})},
        oa3, claims=(("OA3", ("SOAL-CS",)), ("SOAL-CS", ("SOAL",)), ("SOA3", ("SOAL-CS",))),
        notes="The paper does not describe its cross-validation. The best setting, tuned on the figure that is "
        "reported, is better than published for OAAL, CSOAL, SOA3 and SSOA3, which does not contradict it. The "
        "published lead of OA3 over SOAL-CS comes out, for the sum and for the cost. OAAL's published cost comes out "
        "at some settings (delta_minus = 1000, delta_plus = 1), but at none of the grid with its specificity of "
        "90.776. SOA3 and SSOA3 are equal to rounding.",
    ),
    **{
        f"paa-{name}": Block(
            algorithms.PAA, f"table {number}, {name}", (file,), PAA_PROTOCOL,
            tables(text, "mean std seconds", **{"10_%_of_labels": F1, "20_%_of_labels": F1}),
            paa, tolerance=tolerance, unit="F", task=task,
            notes="C and delta are chosen on orders that are also reported, which favors ours a little.",
        )
        for name, number, file, tolerance, task, text in (
            (
                "svmguide1", 2, "svmguide1.csv.xz", 0.006, {"label": "c1", "positive": ("1",)},
                """
                PEA .837 .006 .149 | .832 .003 .151
                SEL-ada .836 .005 .154 | .831 .005 .153
                SEL-2nd .838 .009 .232 | .834 .007 .230
                RPE .800 .008 .030 | .796 .006 .031
                RPA .793 .009 .031 | .796 .008 .033
                RPA-I .859 .003 .031 | .860 .002 .033
                RPA-II .858 .004 .032 | .858 .002 .034
                PAA .830 .006 .152 | .827 .005 .152
                PAA-I .864 .002 .152 | .864 .002 .155
                PAA-II .863 .001 .152 | .862 .002 .155
                """,
            ),
            (
                "spambase", 3, "spambase.csv.xz", 0.006, {"positive": ("spam",)},
                """
                PEA .846 .006 .099 | .854 .005 .100
                SEL-ada .835 .012 .102 | .849 .004 .102
                SEL-2nd .843 .012 .279 | .859 .006 .281
                RPE .800 .012 .020 | .819 .007 .021
                RPA .827 .011 .021 | .838 .009 .022
                RPA-I .858 .007 .021 | .875 .003 .022
                RPA-II .860 .005 .022 | .875 .005 .023
                PAA .865 .006 .100 | .867 .006 .101
                PAA-I .881 .004 .101 | .888 .002 .103
                PAA-II .884 .003 .101 | .889 .003 .104
                """,
            ),
            (
                "w8a", 3, "w8a.libsvm.xz", 0.02, {},
                """
                PEA .263 .015 1.799 | .342 .013 1.847
                SEL-ada .236 .018 1.887 | .304 .016 1.819
                SEL-2nd .363 .019 42.26 | .428 .016 42.45
                RPE .188 .007 .705 | .225 .007 .590
                RPA .198 .013 .730 | .249 .010 .636
                RPA-I .280 .009 .728 | .370 .008 .628
                RPA-II .227 .011 .736 | .290 .011 .661
                PAA .385 .015 1.873 | .441 .021 1.907
                PAA-I .391 .015 1.961 | .461 .009 1.943
                PAA-II .386 .015 1.897 | .458 .012 1.857
                """,
            ),
        )
    },
    "paa-comp-rec": _news_pair("comp", COMP, "rec", REC),
    "paa-rec-sci": _news_pair("rec", REC, "sci", SCI),
    "mpaa-usps": _mpaa(
        "usps", "usps_zip_train.csv.xz", "Ten digits, 7,291 rows, as in the paper.", {"label": "c1"}
    ),
    "mpaa-letter": _mpaa(
        "letter", "mlbench_LetterRecognition.csv.xz", "The first 15,000 rows, as in LIBSVM's training file.",
        {"first": 15_000},
    ),
    "mpaa-covtype": _mpaa(
        "covtype", "covtype_sample20k.csv.xz", "Seven classes, 20,000 random rows of 581,012.", {"label": "c55"}
    ),
    "cspaa-w8a": Block(
        algorithms.PAA, "tables 6 to 8 and figure 6", ("w8a.libsvm.xz",),
        "In kind: w8a, with 1 : 32.5, in place of the paper's URLs with 1 : 9 and 1 : 99. Rows of unit length, "
        "without the 5,455 rows of zeros, which would always be asked; "
        "C = rho = T_n/T_p; 5 random orders; delta (q) bisected until the share of labels is asked; the paper takes "
        "delta from 2^-10, 2^-8 .. 2^10. The sum alone: with the paper's c_p = T_n/T and c_n = T_p/T the cost is "
        "2 T_n T_p / T times (1 - sum), which says the same.",
        _shares(SUM, CSPAA_ACTIVE, "0.5", "2", "10") | _shares(SUM, CSPAA_ALL, "100"), cspaa, orders=5,
        claims=(
            ("CSPAA", ("LEPE",)), ("CSPAA", ("CSRND",)), ("CSPAA(a)", ("CSPAA",)),
            ("CPA", ("PA",)), ("PAUM", ("Perceptron",)), ("CW-diag", ("PA",)),
        ),
    ),
    "dada-basehock": _dada_binary(
        "Basehock", "rec.sport.baseball", "rec.sport.hockey",
        """
        PAA-II 87.50 1.40 91.49 .86
        SOP-diag 82.02 2.05 86.95 .97
        SOAL-diag 87.58 4.14 92.60 1.24
        D-ADA 91.96 1.12 95.00 .42
        D-AMD 92.62 .72 94.52 .60
        """,
    ),
    "dada-pcmac": _dada_binary(
        "Pcmac", "comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware",
        """
        PAA-II 76.56 2.42 82.04 1.64
        SOP-diag 70.12 3.39 75.26 1.45
        SOAL-diag 79.22 1.94 84.87 2.14
        D-ADA 80.33 1.70 86.57 .74
        D-AMD 80.62 2.75 86.61 .65
        """,
    ),
    "dada-letter": _dada_classes(
        "letter", "mlbench_LetterRecognition.csv.xz", {"first": 15_000},
        "The first 15,000 rows, as in LIBSVM's training file. Columns standardized (the paper does not say so; of the "
        "usual scalings only this one gives its figures, and unit length would make MD the same as MD-I). ",
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
    "dada-20newsgroups": _dada_classes(
        "20newsgroups", NEWSGROUPS, NEWS | {"vocabulary": {"max_features": 26_214}},
        "Counts of the 26,214 most frequent words of the 18,846 texts: as many as the paper's, not the same ones. "
        + COUNTS,
        "Random queries come out within a quarter of a deviation. MPAA-II is 1.4 to 2.1 points better than published, "
        "and with 20 % of the labels MD is 0.9 to 1.9 points worse: MD-AMD ends at the smallest b that is tried. "
        "MD-ADA-I and MD-AMD-I are shown at the smallest share of labels that they reached.",
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
        _budgets(100, 500), oaal, orders=10, claims=OAAL_CLAIMS, notes=OAAL_NOTES,
        task={"text": ("text",), "label": "label", "positive": ("C14",)},
    ),
    "oaal-2days": Block(
        algorithms.OAAL, "figure 6", ("happymoments.csv.xz",),
        "Happy moments on exercise against the rest, in the place of the tweets, which are not public; tf-idf over the "
        "whole file, rows of unit length. " + OAAL_PROTOCOL,
        _budgets(100, 1000), oaal, orders=10, claims=OAAL_CLAIMS, notes=OAAL_NOTES,
        task={"text": ("moment",), "label": "concepts", "positive": ("exercise",), "contains": True},
    ),
}  # fmt: skip
