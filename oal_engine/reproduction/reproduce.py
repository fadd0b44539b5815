"""The published tables once more: ours beside the published figures, as results, as words and as a page."""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from os import cpu_count
from pathlib import Path
from time import perf_counter
from typing import Any

from .protocols import Block, oa3
from .published import BLOCKS

DATA = Path(__file__).parents[3] / "shared" / "data"


def listed() -> list[dict[str, Any]]:
    """What each block is, the files it needs, and what is known about its protocol."""
    return list(map(_described, BLOCKS))


def _described(name: str) -> dict[str, Any]:
    block = BLOCKS[name]
    return {
        "name": name, "paper": block.paper, "table": block.table, "files": list(block.files), "protocol": block.protocol
    }  # fmt: skip


def outline() -> str:
    """All blocks in words."""
    return "\n\n".join(
        f"{name}: {block.paper}, {block.table}\n  needs {', '.join(block.files)}\n  {block.protocol}"
        for name, block in BLOCKS.items()
    )


def reproduce(
    name: str, folder: Path | str | None = None, orders: int | None = None, zero_rows_as_mistakes: bool = False
) -> dict[str, Any]:
    """Run a block with the files of a folder: what it is, a line for each figure, and a summary."""
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
    started, count = perf_counter(), orders or block.orders
    lines = list(block.run(block, folder, count, zero_rows_as_mistakes))
    return _described(name) | {
        "notes": block.notes, "orders": count, "lines": lines, "summary": _summary(block, lines),
        "seconds": perf_counter() - started,
    }  # fmt: skip


def _summary(block: Block, lines: Sequence[Mapping[str, Any]]) -> str:
    if not any(line["verdict"] for line in lines):
        return _rivals(lines)
    return " ".join([_compared(block, lines), *_ranked(block, lines)])


def _compared(block: Block, lines: Sequence[Mapping[str, Any]]) -> str:
    """How many figures agree, and which do not."""
    verdicts: dict[str, list[str]] = {verdict: [] for verdict in ("exact", "agrees", "better", "worse")}
    for line in lines:
        if line["verdict"]:
            verdicts[line["verdict"]].append(f"{line['algorithm']} ({line['part']})")
    within = f"{block.tolerance:g} published standard deviations" if block.unit == "sd" else f"{block.tolerance:g}"
    words = (
        f"Of {sum(map(len, verdicts.values()))} published figures ours equals {len(verdicts['exact'])} to the last "
        f"printed digit, agrees with {len(verdicts['agrees'])} within {within}, is better than "
        f"{len(verdicts['better'])} and worse than {len(verdicts['worse'])} by more."
    )
    apart = [line for line in lines if line["verdict"] in ("better", "worse") and "other" in line]
    agreeing = sum(line["other"]["verdict"] in ("exact", "agrees") for line in apart)
    if agreeing:
        words += f" Of those beyond, {agreeing} agree at another setting of the grid."
    return words + (f" Worse: {', '.join(verdicts['worse'])}." if verdicts["worse"] else "")


def _ranked(block: Block, lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """For each part with published figures whether ours follow the published ranking, where the paper has one."""
    for part in dict.fromkeys(line["part"] for line in lines if block.ranking and line["published"]):
        ours = {line["algorithm"]: line["ours"] for line in lines if line["part"] == part}
        order = sorted(block.ranking, key=ours.__getitem__, reverse=True)
        follows = "as" if order == list(block.ranking) else "not as"
        yield f"{part}: {' > '.join(f'{name} {ours[name]:.2f}' for name in order)}, {follows} published."


def _rivals(lines: Sequence[Mapping[str, Any]]) -> str:
    """For each part whether Q_A wins, and by how much it is behind or ahead."""
    words = []
    for part in dict.fromkeys(line["part"] for line in lines):
        ours = {line["algorithm"]: line for line in lines if line["part"] == part}
        mine = ours.pop("Q_A")
        other = ours.pop("CSOAL")
        rules = max(ours.values(), key=itemgetter("ours"))
        words.append(
            f"{part}: Q_A {mine['ours']:.3f}, {_against(mine, rules)} the best other rule {rules['algorithm']} "
            f"({rules['ours']:.3f}) and {_against(mine, other)} CSOAL ({other['ours']:.3f})"
        )
    return "; ".join(words) + ". Ahead or behind means by more than the larger standard deviation."


def _against(mine: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    apart, spread = mine["ours"] - other["ours"], max(mine["std"] or 0, other["std"] or 0)
    return "ahead of" if apart > spread else "behind" if apart < -spread else "level with"


def markdown(result: Mapping[str, Any]) -> str:
    """A block's result as a section of Markdown."""
    block = BLOCKS[result["name"]]
    words = [
        f"## {result['name']}", f"{result['paper']}, {result['table']}. Data: {', '.join(result['files'])}.",
        result["protocol"], f"**{result['summary']}**", result["notes"],
        f"{result['orders']} orders, {result['seconds']:.0f} seconds on {cpu_count()} cores.",
    ]  # fmt: skip
    for part in dict.fromkeys(line["part"] for line in result["lines"]):
        lines = [line for line in result["lines"] if line["part"] == part]
        words += [f"### {part}", _table([_cells(block, line) for line in lines])]
    return "\n\n".join(filter(None, words)) + "\n"


def _cells(block: Block, line: Mapping[str, Any]) -> dict[str, str]:
    digits = block.parts[line["part"]].figure.digits

    def number(mean: float, std: float | None) -> str:
        return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")

    cells = {"algorithm": line["algorithm"], "settings": _settings(line["settings"])}
    if block.asks:
        cells["labels asked"] = f"{line['queried']:.2%}"
    cells["ours"] = number(line["ours"], line["std"])
    if line["published"] is not None:
        cells["published"] = number(line["published"], line["published_std"])
        cells["difference in sd"] = _signed(line["difference"])
        cells["verdict"] = line["verdict"]
    if "other" in line:
        other = line["other"]
        cells["verdict"] += (
            f"; {'best' if block.nearest else 'nearest'} of the grid at {_settings(other['settings'])}: "
            f"{number(other['ours'], other['std'])}, {_signed(other['difference'])} sd, {other['verdict']}"
        )
    return cells


def _signed(difference: float) -> str:
    return f"{round(difference, 2) + 0:+.2f}"  # + 0 for -0.0


def _settings(choice: Mapping[str, float]) -> str:
    return ", ".join(f"{key} = {value:.3g}" for key, value in choice.items())


def _table(rows: list[dict[str, str]]) -> str:
    columns = max(map(list, rows), key=len)
    cells = [[row.get(column, "") for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells)]
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines)


def sections(page: str) -> dict[str, str]:
    """The sections of a page by the names of their blocks."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return {section.split()[1]: section for section in parts[1:]}


def page(sections: Mapping[str, str]) -> str:
    """The sections of blocks, in the order of the blocks, as a page of Markdown."""
    missing = [name for name in BLOCKS if name not in sections]
    head = [
        "# Published tables, run again",
        "Written by `python -m oal_engine reproduce --write docs/reproduction.md`; with the name of a table before "
        "`--write` its section alone is run and written anew. Ours stands beside the published figure, each with the "
        "sample standard deviation over the orders; the difference is in published standard deviations. *exact* equals "
        "the published mean and deviation to the last printed digit, *agrees* is within the tolerance of the block, "
        "*better* and *worse* are beyond it. sum and accuracy are in percent.",
        f"Not here: {', '.join(missing)}." if missing else "",
    ]
    body = [sections[name].strip() for name in BLOCKS if name in sections]
    return "\n\n".join(filter(None, head + body)) + "\n"
