"""The pages of the documentation, and the commands of the engine that they show."""

import re
import shlex
from functools import cache

from tests.harness import ROOT

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("[!.]*/README.md")]
NAMES = sorted({str(path.relative_to(ROOT)) for path in PAGES})


@cache
def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def commands(name):
    """Yield the commands of the engine in a page's shell blocks: (text before the command on its line, arguments)."""
    for block in re.findall(r"```sh\n(.*?)```", page(name), re.DOTALL):
        for line in block.splitlines():
            before, engine, arguments = line.partition("python -m oal_engine ")
            if engine:
                yield before, shlex.split(arguments, comments=True)
