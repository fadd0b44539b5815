"""The look of all plots: titles of the metrics, colors, and rendering to files with matplotlib."""

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
EFFORTS = ("query_ratio", "seconds")  # costs of a run, the same under both evaluations
NAMES = {"push": "push", "push_query": "push-and-query"}
OF_THE_LIST = "{} of the list"  # a metric of the third evaluation
ON_PAGE = (4.8, 3.0)  # inches of a figure on a page, whose text is readable on a phone too
# Okabe and Ito's colors, each with its own dash and mark, so that lines can be told apart without color.
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
)  # color, plotly's dash, matplotlib's, plotly's mark, matplotlib's
UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # the same figure is the same file
LOCK = threading.Lock()  # matplotlib's settings are shared by all threads
LOOK: dict[Any, Any] = {
    "text.parse_math": False, "svg.fonttype": "none", "pdf.fonttype": 42, "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False, "savefig.dpi": 200,
}  # fmt: skip


def number(metric: str, value: float) -> str:
    """Format a value of a metric: a cost counts items; the others are fractions or seconds."""
    return f"{value:,.1f}" if metric == "cost" else f"{value:.3g}" if metric == "seconds" else f"{value:.3f}"


def drawn(
    kind: str,
    draw: Callable[..., None],
    *arguments: object,
    size: tuple[float, float] = (6.4, 3.8),
    ink: str | None = None,
) -> bytes:
    """Render a figure to the bytes of a file, by calling `draw(axes, *arguments)`.

    kind: png, svg or pdf. size: width and height in inches. ink: color of text and axes on a transparent background.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    look = LOOK | {"svg.hashsalt": f"{draw.__name__}{arguments[1:]}"}
    if ink:
        look |= dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), ink)
    with LOCK, rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a viewer of SVG has more fonts
        figure, file = Figure(figsize=size, layout="constrained"), io.BytesIO()
        draw(figure.add_subplot(), *arguments)
        figure.savefig(file, format=kind, transparent=bool(ink), metadata=UNDATED.get(kind))
    return file.getvalue()


def plain(words: object) -> str:
    """Put text from the data on one line, without the characters that XML forbids."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]", " ", str(words)).split())
