"""Draw the import graph of the project's parts into docs/how-it-works.md: python -m docs.make_house"""

import ast
import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "how-it-works.md"
MARKERS = "<!-- house: written by python -m docs.make_house -->", "<!-- end of house -->"
FOLDERS = ("oal_engine", "ui", "pages")  # home.py and app.py are wings of their own
LINE_WIDTH = 118


def sources():
    """Return the paths of all modules of the app and the engine, relative to the root."""
    paths = [ROOT / "app.py", ROOT / "home.py", *(path for name in FOLDERS for path in (ROOT / name).rglob("*.py"))]
    return sorted(path.relative_to(ROOT) for path in paths)


def wing(module):
    """Return the wing (part of the project) to which a module belongs: a folder or file of the engine, or ui, pages,
    home or app. "" for other modules. module: the dotted name."""
    first, *rest = module.split(".")
    if first != "oal_engine":
        return first if first in ("ui", "pages", "home", "app") else ""
    name = rest[0] if rest else "__init__"
    inside = ROOT / "oal_engine" / name
    return name if name != "__init__" and (inside.is_dir() or inside.with_suffix(".py").exists()) else ""


def imported(path):
    """Yield the dotted name of each module that a file imports, also inside functions."""
    package = path.parts[:-1]
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            for alias in node.names:
                yield ".".join([*base, *filter(None, [node.module]), alias.name])


def rooms():
    """Return the rooms of each wing, which are its subfolders: {wing: names}."""
    inside = defaultdict(set)
    for path in sources():
        parts = path.parts[1:-1] if path.parts[0] == "oal_engine" else path.parts[:-1]
        if len(parts) > 1:
            inside[parts[0]].add("/".join(parts[1:]))
    return inside


def imports():
    """Return the import graph: {wing: names of the wings that it imports}."""
    arrows = defaultdict(set)
    for path in sources():
        here = wing(".".join(path.with_suffix("").parts))
        if here:
            arrows[here] |= {wing(name) for name in imported(path)} - {here, ""}
    return arrows


def floors():
    """Return {wing: level in the picture}: one above the highest wing that it imports, or 1 without imports."""
    arrows, floor = imports(), {}
    for name in TopologicalSorter(arrows).static_order():
        floor[name] = 1 + max((floor[below] for below in arrows[name]), default=0)
    return floor


def wrapped(names, indent):
    """Join names by commas, and wrap the lines at LINE_WIDTH. indent: column at which each line begins."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) + 2 + indent > LINE_WIDTH:
            lines.append("")
        lines[-1] += f"{name}, "
    return f"\n{' ' * indent}".join(line.strip() for line in lines).rstrip(",")


def picture():
    """Draw the house (the import graph) as text: a line for each wing with its imports, the highest floor first."""
    floor, arrows, inside = floors(), imports(), rooms()
    lines, highest_first = [], sorted(floor, key=lambda name: (-floor[name], name))
    for number in range(max(floor.values()), 0, -1):
        lines.append(f"-- floor {number} ".ljust(LINE_WIDTH, "-"))
        for name in (each for each in highest_first if floor[each] == number):
            below = [each for each in highest_first if each in arrows[name]]
            lines.append(f"{name:<14}{'imports ' if below else ''}{wrapped(below, 22)}".rstrip())
            if inside[name]:
                lines.append(f"{'':<14}rooms   {wrapped(sorted(inside[name]), 22)}")
    return "\n".join(lines)


def written(page):
    """Return the text of a page in which a new picture replaces the text between the markers."""
    start, end = MARKERS
    block = f"{start}\n\n```text\n{picture()}\n```\n\n{end}"
    return re.sub(f"{re.escape(start)}.*?{re.escape(end)}", lambda _: block, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
