"""A race as an HTML page, and the data that its script race.js shows: the record of the race, a sentence about each
rule, and the texts of items that were asked about."""

from collections.abc import Sequence
from typing import Any

from ..datasets import Dataset
from ..kernel.parameters import Values
from ..kernel.query_rules import QUERY_RULES
from ..output import browser
from ..output.meanings import MEANINGS
from . import race

CLOUDS = "Two clouds (synthetic)"
MOST_LANES = 4
MOST_CHARACTERS = 240  # of an item
Lanes = Sequence[tuple[str, Values]]  # the names of strategies, as in `race.choices`, and their parameters


def watched(data: Dataset | None, lanes: Lanes, budget: int, seed: int, texts: bool = True) -> dict[str, Any]:
    """Record a race over a data set (None: over the two Gaussian clouds of `race.clouds`). texts: whether to include
    the texts of items that were asked about."""
    if not 1 <= len(lanes) <= MOST_LANES:
        raise ValueError(f"a race needs 1 to {MOST_LANES} strategies. Got {len(lanes)}.")
    entrants = [race.entrant(name, values) for name, values in lanes]
    if data is None:
        rows, y, view = race.clouds(seed)
        note = ""
    else:
        rows, y, order = race.sampled(data, seed)
        view = race.principal(rows, y)
        note = _limits_of(view, len(y), len(data.y))
    record = race.record(rows, y, view, entrants, budget, seed)
    asked = sorted({t for lane in record["lanes"] for t, *_ in lane["questions"]})
    for lane in record["lanes"]:
        lane["sentence"] = _sentence(lane)
        lane["title"] = "baseline" if lane["name"] == race.BASELINE else lane["name"]
    usual = (data, budget, {name: dict(values) for name, values in lanes}) == (None, race.BUDGET, race.TUNED)
    return record | {
        "note": note,
        "items": {t: _words(data.item(int(order[t]))) for t in asked} if data and texts else {},
        "means": race.MEAN_SUMS if usual else None,
        "meanings": MEANINGS,
    }


def page(data: Dataset | None, lanes: Lanes, budget: int, seed: int, texts: bool = False) -> bytes:
    """Return a race as a self-contained HTML page. texts: whether to include the texts of items asked about."""
    name = data.name if data else CLOUDS
    record = watched(data, lanes, budget, seed, texts)
    about = f"{', '.join(name for name, _ in lanes)}: {budget:,} labels each, seed {seed}. Made with OAL Studio."
    return browser.page(browser.RACE, f"Race: {name}", [about], record)


def _sentence(lane: dict[str, Any]) -> str:
    """Describe how the rule of a lane decides, and for the asymmetric rule which side it prefers."""
    plus, minus = (lane["parameters"].get(f"delta_{side}", 0) for side in ("plus", "minus"))
    if lane["rule"] != "asymmetric" or plus == minus:
        rule: Any = QUERY_RULES[lane["rule"]]
        return rule.sentence
    return f"Asks near its line, more readily where it says {'▲' if plus > minus else '●'}."


def _words(item: dict[str, Any]) -> str:
    words = " ".join((item["text"] or item["id"]).split())
    return words if len(words) <= MOST_CHARACTERS else words[:MOST_CHARACTERS].rstrip() + "…"


def _limits_of(view: race.Plane, n_shown: int, n_items: int) -> str:
    """Describe in a sentence which items the picture shows, and which share of their variation."""
    part = f"A random sample of {n_shown:,} of {n_items:,}" if n_shown < n_items else f"All {n_items:,}"
    sample = f"{part} items"
    if view.share == 1:
        return f"{sample}, in random order."
    return (
        f"{sample}, in random order. The plane holds the first two principal components, {100 * view.share:.0f} % of "
        "the variation: lines and points are projected, so a point can be on the other side than its prediction."
    )
