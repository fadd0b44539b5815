"""Reproduce the published tables, and compare our figures with the published ones, as data, text or a page."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from time import process_time
from typing import Any

from .blocks import RATES, Block
from .protocols import oa3
from .published import BLOCKS

AGREEING = ("exact", "agrees")
APART = 1.5  # smallest ratio of two published times whose order is compared
LEGEND = """\
How to read the tables:

- *ours*, *published*: mean ± sample standard deviation over the orders. Sum, accuracy, sensitivity and specificity are
  in percent.
- *verdict*: *exact* equals the published mean and deviation to the last printed digit, *agrees* is within the tolerance
  that the section names, *better* and *worse* are beyond it. A sensitivity or specificity is *higher* or *lower*.
- *difference in sd*: in published standard deviations, or in ours if the paper prints none.
- *setting*: *nearest* is nearest to the printed numbers of all settings of the grid, *best* has the best figure of all,
  *also* and *paper* are other settings, which the section explains.
- *time*: processor time of a run as a multiple of the first algorithm's. The papers' seconds come from other machines
  and languages, so only the order of the algorithms can be compared.
- *In kind*: other data than the paper's, or a figure without numbers. There only the paper's claims are checked."""
DATA = Path(__file__).parents[3] / "shared" / "data"


def listed() -> list[dict[str, Any]]:
    """Describe each block: its paper, the files it needs, and the known details of its protocol."""
    return list(map(_described, BLOCKS))


def _described(name: str) -> dict[str, Any]:
    block = BLOCKS[name]
    return {
        "name": name, "paper": block.paper, "table": block.table, "files": list(block.files), "protocol": block.protocol
    }  # fmt: skip


def outline() -> str:
    """Describe all blocks as text."""
    return "\n\n".join(
        f"{name}: {block.paper}, {block.table}\n  needs {', '.join(block.files)}\n  {block.protocol}"
        for name, block in BLOCKS.items()
    )


def reproduce(
    name: str, folder: Path | str | None = None, orders: int | None = None, zero_rows_as_mistakes: bool = False
) -> dict[str, Any]:
    """Run a block with the data files in a folder. Return its description, a line for each figure, and a summary. Raise
    ValueError if the block is unknown or a file is missing. zero_rows_as_mistakes: as in `protocols.oa3`, for blocks
    with this protocol."""
    if name not in BLOCKS:
        raise ValueError(f"a table must be all or one of {', '.join(BLOCKS)}. Got {name}.")
    block, folder = BLOCKS[name], Path(folder or DATA)
    if zero_rows_as_mistakes and block.run is not oa3:
        allowed = ", ".join(key for key, each in BLOCKS.items() if each.run is oa3)
        raise ValueError(f"zero rows can be counted as mistakes in {allowed} alone. Got {name}.")
    for file in block.files:
        if not (folder / file).is_file():
            raise ValueError(
                f"{name} needs the file {file}, which is not in {folder}: name its folder with --data-dir."
            )
    started, count = process_time(), orders or block.orders
    lines = list(block.run(block, folder, count, zero_rows_as_mistakes))
    return _described(name) | {
        "notes": block.notes, "orders": count, "lines": lines, "claims": _claims(block, lines),
        "summary": _summary(block, lines),
        "seconds": process_time() - started,
    }  # fmt: skip


def _summary(block: Block, lines: Sequence[Mapping[str, Any]]) -> str:
    return " ".join(
        [*_compared(block, lines), *_together(lines), *_ranked(block, lines), *_timed(lines), *_claimed(block, lines)]
    )


def _compared(block: Block, lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say how many figures agree with the published ones, and which are worse."""
    verdicts: dict[str, list[str]] = {verdict: [] for verdict in (*AGREEING, "better", "worse")}
    for line in lines:
        if line["verdict"]:
            verdicts[line["verdict"]].append(_place(line))
    count = sum(map(len, verdicts.values()))
    if not count:
        return
    first = " (the first line of each algorithm)" if any(line.get("others") for line in lines) else ""
    owner = "published" if any(line["published_std"] for line in lines) else "of our"
    within = f"{block.tolerance:g} {owner} standard deviations" if block.unit == "sd" else f"{block.tolerance:g}"
    yield (
        f"Of {count} published figures ours{first} equals {len(verdicts['exact'])} to the last printed digit, agrees "
        f"with {len(verdicts['agrees'])} within {within}, is better than {len(verdicts['better'])} and worse than "
        f"{len(verdicts['worse'])} by more."
    )
    if verdicts["worse"]:
        yield f"Worse: {', '.join(verdicts['worse'])}."


def _together(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say for how many published figures one setting agrees with the figure, its sensitivity and its specificity
    together, and list all other figures."""
    printed = [line for line in lines if any(rate["verdict"] for rate in line["rates"].values())]
    if not printed:
        return
    exact = sum(any(_all(row, ("exact",)) for row in _rows(line)) for line in printed)
    apart = [_place(line) for line in printed if not any(_all(row, AGREEING) for row in _rows(line))]
    yield (
        f"For {len(printed) - len(apart)} of {len(printed)} a setting is shown at which figure, sensitivity and "
        f"specificity agree together, for {exact} to the last digit."
    )
    if apart:
        yield f"Not for {', '.join(apart)}."


def _place(line: Mapping[str, Any]) -> str:
    return f"{line['algorithm']} ({line['part']})"


def _rows(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [line, *line.get("others", ())]


def _all(row: Mapping[str, Any], verdicts: Sequence[str]) -> bool:
    return all(each["verdict"] in verdicts for each in (row, *row["rates"].values()))


def _ranked(block: Block, lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say for each part with published figures whether our figures rank the algorithms as the paper does."""
    for part in dict.fromkeys(line["part"] for line in lines if block.ranking and line["published"]):
        ours = {line["algorithm"]: line["ours"] for line in lines if line["part"] == part}
        order = sorted(block.ranking, key=ours.__getitem__, reverse=True)
        follows = "as" if order == list(block.ranking) else "not as"
        yield f"{part}: {' > '.join(f'{name} {ours[name]:.2f}' for name in order)}, {follows} published."


def _timed(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say for how many pairs of algorithms the faster one here is also the faster one in the paper."""
    timed = [line for line in lines if line["published_seconds"]]
    same = [
        (one["seconds"] < other["seconds"]) == (one["published_seconds"] < other["published_seconds"])
        for one, other in combinations(timed, 2)
        if one["part"] == other["part"]
        and not 1 / APART < one["published_seconds"] / other["published_seconds"] < APART
    ]
    if same:
        yield (
            f"Of {len(same)} pairs of algorithms of which one takes at least {APART:g} times as long as the "
            f"other in the paper, {sum(same)} are in the same order of time here."
        )


def _claims(block: Block, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Check the paper's claims. For each claim and part, return whether the algorithm is ahead of, level with or behind
    the best of its rivals, and by how much. Every algorithm runs at its best setting."""
    results = []
    for ahead, others in block.claims:
        cells = {}
        for part in dict.fromkeys(line["part"] for line in lines):
            named = {line["algorithm"]: _tuned(line) for line in lines if line["part"] == part}
            if {ahead, *others} <= named.keys():
                sign = block.parts[part].figure.sign
                best = max((named[other] for other in others), key=lambda line: sign * line["ours"])
                apart = sign * (named[ahead]["ours"] - best["ours"])
                spread = max(named[ahead]["std"] or 0, best["std"] or 0)
                verdict = "ahead" if apart > spread else "behind" if apart < -spread else "level"
                cells[part] = {"verdict": verdict, "against": best["algorithm"], "by": apart}
        results.append({"claim": f"{ahead} ahead of {' and '.join(others)}", "cells": cells})
    return results


def _tuned(line: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((row for row in _rows(line) if "best" in row["chosen"]), line)


def _claimed(block: Block, lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for claim in _claims(block, lines):
        verdicts = [cell["verdict"] for cell in claim["cells"].values()]
        counts = (f"{name} in {verdicts.count(name)}" for name in ("ahead", "level", "behind") if name in verdicts)
        yield f"{claim['claim'].replace('ahead of', 'against')}: {', '.join(counts)} of {len(verdicts)}."


def markdown(result: Mapping[str, Any]) -> str:
    """Format the result of a block as a section of Markdown."""
    block = BLOCKS[result["name"]]
    words = [
        f"## {result['name']}", f"{result['paper']}, {result['table']}. Data: {', '.join(result['files'])}.",
        result["protocol"], f"**{result['summary']}**", result["notes"],
        f"{result['orders']} orders, {result['seconds']:.0f} seconds of processor time.",
    ]  # fmt: skip
    if result["claims"]:
        words += [
            "Ahead or behind means by more than the larger standard deviation, each algorithm at its best setting.",
            _table([_claim_cells(block, claim) for claim in result["claims"]]),
        ]
    for part in dict.fromkeys(line["part"] for line in result["lines"]):
        lines = [line for line in result["lines"] if line["part"] == part]
        words += [f"### {part}", _table([_cells(block, row) for line in lines for row in _rows(line)])]
        if block.parts[part].figure.metric in ("sum", "cost") or any(line["published_seconds"] for line in lines):
            words.append(_table([_rate_cells(row, lines[0]) for line in lines for row in _rows(line)]))
    return "\n\n".join(filter(None, words)) + "\n"


def _claim_cells(block: Block, claim: Mapping[str, Any]) -> dict[str, str]:
    cells = {"the paper has": claim["claim"]} | dict.fromkeys(block.parts, "")
    for part, cell in claim["cells"].items():
        cells[part] = f"{cell['verdict']}, {cell['by']:+.{block.parts[part].figure.digits}f}"
    return cells


def _number(digits: int, mean: float, std: float | None) -> str:
    return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _cells(block: Block, row: Mapping[str, Any]) -> dict[str, str]:
    digits = block.parts[row["part"]].figure.digits
    cells = {"algorithm": row["algorithm"]}
    if row["chosen"]:
        cells["setting"] = row["chosen"]
    cells["parameters"] = ", ".join(f"{key} = {value:.3g}" for key, value in row["settings"].items())
    if block.asks:
        cells["labels asked"] = f"{row['queried']:.2%}"
    cells["ours"] = _number(digits, row["ours"], row["std"])
    if row["published"] is not None:
        cells["published"] = _number(digits, row["published"], row["published_std"])
        cells["difference in sd"] = f"{round(row['difference'], 2) + 0:+.2f}"  # + 0 turns -0.0 into 0.0
        cells["verdict"] = row["verdict"]
    return cells


def _rate_cells(row: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells for sensitivity, specificity and the time relative to the first algorithm."""
    cells = {"algorithm": row["algorithm"]}
    if row["chosen"]:
        cells["setting"] = row["chosen"]
    for name, rate in row["rates"].items():
        cells[name] = _number(RATES[name].digits, rate["ours"], rate["std"])
        if rate["verdict"]:
            cells[f"published {name}"] = _number(RATES[name].digits, rate["published"], rate["published_std"])
            cells[f"{name} verdict"] = rate["verdict"]
    if first["published_seconds"]:
        cells[f"time, {first['algorithm']} = 1"] = f"{row['seconds'] / first['seconds']:.2g}"
        if row["published_seconds"]:
            cells["published time"] = f"{row['published_seconds'] / first['published_seconds']:.2g}"
    return cells


def _table(rows: list[dict[str, str]]) -> str:
    columns = max(map(list, rows), key=len)
    cells = [[row.get(column, "") for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells)]
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines)


def sections(page: str) -> dict[str, str]:
    """Split a page into its sections: {name of the block: section}."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return {section.split()[1]: section for section in parts[1:]}


def page(sections: Mapping[str, str]) -> str:
    """Join sections into a page of Markdown, in the order of the blocks."""
    missing = [name for name in BLOCKS if name not in sections]
    head = [
        "# Published tables, run again",
        "Written by `python -m oal_engine reproduce --write docs/reproduction.md`; with the name of a table before "
        "`--write` only its section is run and written anew.",
        LEGEND,
        f"Not here: {', '.join(missing)}." if missing else "",
    ]
    body = [sections[name].strip() for name in BLOCKS if name in sections]
    return "\n\n".join(filter(None, head + body)) + "\n"
