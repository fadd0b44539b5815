"""How figures look, whatever they show: names of metrics, colours, and files drawn by matplotlib."""

import io
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

TITLES = {
    "sum": "Weighted sum", "f1": "F1", "cost": "Cost", "sensitivity": "Sensitivity", "specificity": "Specificity",
    "precision": "Precision", "accuracy": "Accuracy", "macro_f1": "Macro F1", "macro_recall": "Balanced accuracy",
    "query_ratio": "Query ratio", "seconds": "Time (s)",
}  # fmt: skip
METRICS = {False: tuple(TITLES)[:6], True: tuple(TITLES)[6:9]}  # by whether there are K classes
EFFORTS = ("query_ratio", "seconds")  # what a run takes, under either evaluation
NAMES = {"push": "push", "push_query": "push-and-query"}
ON_PAGE = (4.8, 3.0)  # inches of a figure on a page: its words are read on a telephone too
# Okabe and Ito's colours with a dash and a mark of their own: each line is known without its colour too.
Style: TypeAlias = tuple[str, str, Any, str, str]
STYLES: tuple[Style, ...] = (
    ("#0072B2", "solid", "-", "circle", "o"),
    ("#D55E00", "dash", "--", "square", "s"),
    ("#009E73", "dashdot", "-.", "diamond", "D"),
    ("#CC79A7", "dot", ":", "triangle-up", "^"),
    ("#E69F00", "longdash", (0, (8, 3)), "x", "X"),
    ("#56B4E9", "longdashdot", (0, (8, 2, 1, 2)), "cross", "P"),
    ("#8A8F98", "8px 2px 2px 2px 2px 2px", (0, (6, 2, 1, 2, 1, 2)), "triangle-down", "v"),
    ("#7A5C99", "2px 2px", (0, (1, 1)), "star", "*"),
)  # colour, plotly's dash, matplotlib's, plotly's mark, matplotlib's
LOCK = threading.Lock()  # matplotlib's settings are one for all threads
LOOK: dict[Any, Any] = {
    "text.parse_math": False, "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False, "savefig.dpi": 200,
}  # fmt: skip


def number(metric: str, value: float) -> str:
    """A value of a metric in digits that mean something: a cost counts items, all else are fractions or seconds."""
    return f"{value:,.1f}" if metric == "cost" else f"{value:.3g}" if metric == "seconds" else f"{value:.3f}"


def drawn(
    kind: str,
    draw: Callable[..., None],
    *arguments: object,
    size: tuple[float, float] = (6.4, 3.8),
    ink: str | None = None,
) -> bytes:
    """The bytes of a figure as png or svg; draw is given its axes and the arguments. ink: its colour on no ground."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    settings = LOOK | {"svg.hashsalt": f"{draw.__name__}{arguments[1:]}"}
    if ink:
        settings |= dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink
        )
    with LOCK, rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a viewer of SVG has more fonts
        figure, file = Figure(figsize=size, layout="constrained"), io.BytesIO()
        draw(figure.add_subplot(), *arguments)
        figure.savefig(file, format=kind, transparent=bool(ink), metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def plain(words: object) -> str:
    """Words of the data on one line, without what XML cannot hold."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]", " ", str(words)).split())
