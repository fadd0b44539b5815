"""The published tables once more: ours beside the published figures, as results, as words and as a page."""

import re
from operator import itemgetter
from os import cpu_count
from pathlib import Path
from time import perf_counter

from .protocols import oa3
from .published import BLOCKS

DATA = Path(__file__).parents[3] / "shared" / "data"


def listed():
    """What each block is, the files it needs, and what is known about its protocol."""
    return list(map(_about, BLOCKS))


def _about(name):
    block = BLOCKS[name]
    return {
        "name": name, "paper": block.paper, "table": block.table, "files": list(block.files), "protocol": block.protocol
    }  # fmt: skip


def outline():
    """All blocks in words."""
    return "\n\n".join(
        f"{name}: {block.paper}, {block.table}\n  needs {', '.join(block.files)}\n  {block.protocol}"
        for name, block in BLOCKS.items()
    )


def reproduce(name, folder=None, orders=None, zero_rows_as_mistakes=False):
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
    return _about(name) | {
        "notes": block.notes, "orders": count, "lines": lines, "summary": _summary(block, lines),
        "seconds": perf_counter() - started,
    }  # fmt: skip


def _summary(block, lines):
    if not any(found["verdict"] for found in lines):
        return _rivals(lines)
    return " ".join([_compared(block, lines), *_ranked(block, lines)])


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


def _ranked(block, lines):
    """For each part with published figures whether ours follow the published ranking, where the paper has one."""
    for part in dict.fromkeys(found["part"] for found in lines if block.ranking and found["published"]):
        ours = {found["algorithm"]: found["ours"] for found in lines if found["part"] == part}
        order = sorted(block.ranking, key=ours.get, reverse=True)
        said = "as" if order == list(block.ranking) else "not as"
        yield f"{part}: {' > '.join(f'{name} {ours[name]:.2f}' for name in order)}, {said} published."


def _rivals(lines):
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
        f"{result['orders']} orders, {result['seconds']:.0f} seconds on {cpu_count()} cores.",
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
    columns = list(max(rows, key=len))
    cells = [[row.get(column, "") for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells)]
    lines = [columns, ["-" * width for width in widths], *cells]
    return "\n".join("| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in lines)


def sections(page):
    """The sections of a page by the names of their blocks."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return {section.split()[1]: section for section in parts[1:]}


def page(sections):
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
