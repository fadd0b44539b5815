"""Write docs/reference.md from the declarations in the code: python -m docs.make_reference"""

import inspect
import re
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo

from oal_engine.cli import main as cli
from oal_engine.datasets.reading.readers import READERS
from oal_engine.kernel.algorithms import ALGORITHMS, alias_of
from oal_engine.kernel.learners import LEARNERS, is_multiclass
from oal_engine.kernel.metrics import METRICS
from oal_engine.kernel.parameters import parameters
from oal_engine.kernel.query_rules import QUERY_RULES, paceable, partners

PAGE = Path(__file__).parent / "reference.md"
WORDS = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "FILE"}

HEAD = """# Reference

Written by `python -m docs.make_reference` from the declarations in the code. Do not edit it by hand: a test compares
them. For explanations and examples see [the index](README.md).

- [Commands](#commands)
- [Algorithms](#algorithms), [learners](#learners), [query rules](#query-rules)
- [Metrics](#metrics), [file formats](#file-formats)
- Settings of a session and environment variables: [settings.md](settings.md)
"""


def literal(text):
    """Escape a text so that Markdown shows it literally, and join its lines into one."""
    return re.sub(r"([\\*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def arguments(function):
    """Yield the arguments and options of a command: (names on the command line, metavar, default, help)."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, about = get_args(hints[name]) if hasattr(hints[name], "__metadata__") else (hints[name], ArgumentInfo())
        plain = next(each for each in get_args(kind) or (kind,) if each is not NoneType)
        word = about.metavar or WORDS.get((get_args(plain) or (plain,))[0], "")
        if isinstance(about, ArgumentInfo):
            yield (about.metavar or name.upper(),), "", parameter.default, about.help or ""
        else:
            option = f"--{name.replace('_', '-')}"
            usual = (option, f"--no-{option[2:]}") if plain is bool else (option,)
            # Typer takes the first of an option's declared names for its default.
            declared_names = () if about.default is ... else (about.default, *about.param_decls)
            own = tuple(each for names in declared_names for each in names.split("/"))
            several = " ..." if get_origin(plain) is list else ""
            yield own or usual, f" {word}{several}" if word else "", parameter.default, about.help or ""


def default_cell(default):
    """Return a default value as a cell of a Markdown table."""
    if default is inspect.Parameter.empty:
        return "*required*"
    return "" if default is None or default is False else f"`{default}`"


def command(name, function):
    """Yield the section of a command in Markdown."""
    options = list(arguments(function))
    places = " ".join(
        word if default is inspect.Parameter.empty else f"[{word}]"
        for (word, *_), _, default, _ in options
        if not word.startswith("-")
    )
    yield f"\n### {name}\n\n{literal(function.__doc__)}\n\n`python -m oal_engine {name} {places}`".rstrip(" `") + "`\n"
    yield "| argument or option | default | meaning |\n|---|---|---|"
    for names, word, default, words in options:
        both = ", ".join(f"`{each}{word}`".replace("|", "\\|") for each in names)
        yield f"| {both} | {default_cell(default)} | {literal(words)} |"


def declared(kind):
    """Yield a Markdown list item for each parameter of a learner or rule."""
    for name, spec in parameters(kind).items():
        yield f"  - `{name}` = {spec.default:g} ({literal(spec.range)}): {literal(spec.help)}"


def reference():
    """Return the text of docs/reference.md."""
    lines = [HEAD, "## Commands\n", "All take `--help`. *...* marks an option that may be repeated."]
    for name in cli.MODULES:
        lines += command(name, cli.load(name))
    lines += ["\n## Algorithms\n", "A published algorithm is a learner, a query rule and fixed parameters.\n"]
    lines += ["| name | learner | rule | fixed | paper |", "|---|---|---|---|---|"]
    for name, entry in ALGORITHMS.items():
        fixed = entry.fixed | ({} if entry.rho is None else {"rho": entry.rho})
        words = ", ".join(f"{key} = {value:g}" for key, value in fixed.items())
        alias = f" (as `{first}`)" if (first := alias_of(name)) else ""
        lines.append(f"| `{name}`{alias} | `{entry.learner}` | `{entry.rule}` | {words} | {literal(entry.paper)} |")
    lines += ["\n## Learners\n", "Below each learner are its parameters: default, allowed values, meaning.\n"]
    for name, kind in LEARNERS.items():
        lines += [f"- `{name}`{' (K classes)' * is_multiclass(name)}: {literal(kind.__doc__)}", *declared(kind)]
    lines += ["\n## Query rules\n", "A rule that draws at random can be paced; the others answer yes or no.\n"]
    for name, kind in QUERY_RULES.items():
        some = "" if len(partners(name)) == len(LEARNERS) else f" Learners: {', '.join(partners(name))}."
        draws = "Draws." if name in paceable() else "Yes or no."
        lines += [f"- `{name}`: {literal(kind.__doc__)} {kind.sentence} {draws}{some}", *declared(kind)]
    lines += ["\n## Metrics\n", "For two classes: " + ", ".join(f"`{name}`" for name in METRICS) + "."]
    lines += ["For K classes: `accuracy`, `macro_f1`, `macro_recall`, and `recall`, `precision`, `f1` of each class.\n"]
    lines += ["## File formats\n", "| name for --reader | suffixes |", "|---|---|"]
    lines += [f"| `{name}` | {' '.join(f'`{suffix}`' for suffix in it.suffixes)} |" for name, it in READERS.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
