"""The documentation is complete, its commands are valid, and its links lead somewhere."""

import inspect
import re
import tomllib
from dataclasses import fields
from functools import cache

import pytest

from docs import make_house, make_pages, make_pictures, make_reference
from oal_engine import __version__
from oal_engine.cli import main as cli
from oal_engine.sessions.settings import Options, create
from tests.harness import ROOT
from tests.harness.documents import NAMES, commands, page

COMMANDS = {name: cli.command(name) for name in cli.MODULES}
SLOW = dict.fromkeys(("comparison.png", "tutorial-end.png"), pytest.mark.slow)  # pictures of sessions that take long
LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")  # a relative one; a picture may be a link


@cache
def prose(name):
    """Return a page without its code blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page(name), flags=re.DOTALL | re.MULTILINE)


def section(name, heading):
    """Return the text below a heading of a page, up to the next heading of the same or a higher level."""
    _, _, below = f"\n{page(name)}".partition(f"\n{heading}\n")
    assert below, f"{name} has no {heading}"
    return re.split(rf"^#{{1,{len(heading.split()[0])}}} ", below, flags=re.MULTILINE)[0]


def named(heading, page):
    """Return the names in backticks in the first column of a section's table."""
    return re.findall(r"^\| `(.+?)`", section(page, heading), re.MULTILINE)


def anchors(name):
    """Return the anchors that GitHub makes from the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(name), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_reference_is_up_to_date():
    """docs/reference.md equals the output of python -m docs.make_reference."""
    assert make_reference.reference() == page("docs/reference.md")


def test_the_picture_of_the_house_is_up_to_date():
    """docs/how-it-works.md has the diagram of the parts and imports that python -m docs.make_house draws."""
    assert make_house.written(page("docs/how-it-works.md")) == page("docs/how-it-works.md")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_reference_has_every_option(name):
    """In docs/reference.md, the section of each command names exactly the options that the command's parser accepts."""
    below = section("docs/reference.md", f"### {name}")
    known = {option for parameter in COMMANDS[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
    documented = set(re.findall(r"`(--[\w-]+)", below))
    assert {option for option in known if option.startswith("--")} - {"--help"} == documented


def test_every_command_is_explained():
    """Each command has an example on a page other than docs/reference.md, which is generated."""
    shown = "".join(page(name) for name in NAMES if name != "docs/reference.md")
    assert COMMANDS.keys() <= {*re.findall(r"python -m oal_engine ([a-z-]+)", shown)}


def test_the_settings_of_a_session_are_explained():
    """The table in docs/settings.md has a row with the default for each argument of `create` and each field of
    `Options`."""
    rows = re.findall(r"^\| `(\w+)` \|(.*?)\| .+ \|$", section("docs/settings.md", "## Settings of a session"), re.M)
    arguments = [each for each in inspect.signature(create).parameters.values() if each.kind != each.VAR_KEYWORD][1:]
    expected = [(each.name, "" if each.default is each.empty else f"`{each.default!r}`") for each in arguments]
    expected += [(each.name, f"`{each.default!r}`") for each in fields(Options)]
    assert expected == [(name, default.strip()) for name, default in rows]


def test_every_requirement_is_explained():
    """The tables of docs/installing.md name every requirement of the package and every extra."""
    extras = tomllib.loads(page("pyproject.toml"))["project"]["optional-dependencies"]
    required = re.findall(r"^[\w-]+", page("requirements.txt"), re.MULTILINE)
    assert {*required} == {*named("## What is installed", "docs/installing.md")}
    assert [*extras] == named("## Extras", "docs/installing.md")


def test_every_environment_variable_is_explained():
    """The table in docs/settings.md names exactly the environment variables (OAL_...) that the sources use."""
    deep = (path for folder in ("oal_engine", "ui", "pages", "tests") for path in (ROOT / folder).rglob("*.py"))
    sources = [*ROOT.glob("*.py"), *ROOT.glob("benchmarks/*.py"), *deep]  # peers are installed below benchmarks
    used = {name for path in sources for name in re.findall(r"\bOAL_[A-Z_]+", path.read_text(encoding="utf-8"))}
    rows = re.findall(r"^\| `(\w+)`", section("docs/settings.md", "## Environment variables"), re.MULTILINE)
    assert used == set(rows)


@pytest.mark.parametrize("name", NAMES)
def test_its_commands_are_valid(name):
    for command, *arguments in (cli.repeat_options(words) for _, words in commands(name)):
        COMMANDS[command].make_context(command, arguments)


@pytest.mark.parametrize("name", NAMES)
def test_its_links_lead_somewhere(name):
    dead = []
    for link in LINK.findall(prose(name)):
        target, _, anchor = link.partition("#")
        path = ((ROOT / name).parent / target).resolve() if target else ROOT / name
        if not path.exists() or (anchor and anchor not in anchors(str(path.relative_to(ROOT)))):
            dead.append(link)
    assert [] == dead


@pytest.mark.parametrize("name", NAMES)
def test_the_files_that_it_names_exist(name):
    paths = re.findall(r"(?<![\w./-])(?:benchmarks|data|docs|oal_engine|tests|ui)/[\w/.]+\.\w+", page(name))
    assert [] == [path for path in paths if not (ROOT / path).exists()]


def test_the_index_leads_to_every_page():
    assert {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"} <= {*LINK.findall(page("docs/README.md"))}


def test_the_version_is_named():
    """The citation, the changelog and the image tags in docs/cluster.md name the current version. The citation and the
    changelog give the same date."""
    (date,) = re.findall(rf"^## {re.escape(__version__)} \((.+)\)$", page("CHANGELOG.md"), re.MULTILINE)
    assert f"version: {__version__}\ndate-released: {date}\n" in page("CITATION.cff")
    assert {__version__} == set(re.findall(r"(?:oal-studio:|image\.tag=)([\d.]+)", page("docs/cluster.md")))


def test_a_change_is_one_line_of_the_changelog():
    later = page("CHANGELOG.md").split("## 0.2.0")[0]
    entries = re.split(r"^#.*$", later, flags=re.MULTILINE)[3:]
    assert [] == [line for part in entries for line in part.splitlines() if line and not line.startswith("- ")]


def test_the_readme_is_short():
    """The README can be read in a few minutes: it has at most 600 words."""
    assert len(page("README.md").split()) <= 600


@pytest.mark.slow
@pytest.mark.parametrize("name", make_pages.PAGES)
def test_the_published_pages_are_up_to_date(name):
    """docs/replay.html and docs/race.html equal the output of python -m docs.make_pages, byte for byte."""
    assert make_pages.PAGES[name]() == ROOT.joinpath("docs", name).read_bytes()


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in make_pictures.PICTURES])
def test_a_picture_shows_what_its_command_shows_today(name):
    """The digest in each picture is that of the data that python -m docs.make_pictures draws."""
    assert make_pictures.stored_digest(name) == make_pictures.digest(name)


@pytest.mark.slow
def test_the_python_of_the_tutorial_ends_as_it_says(tmp_path, capsys):
    """docs/tutorial.md has the last line that its Python prints, and the sentence on the quality of the list."""
    make_pictures.story(tmp_path)
    printed, said = capsys.readouterr(), " ".join(page("docs/tutorial.md").split())
    assert f"ends with `{printed.out.splitlines()[-1]}`" in said
    assert re.search(r"about (.*? included\.)", printed.err)[1] in said


def test_every_picture_is_made_by_a_command():
    pictures = {path.name for path in ROOT.glob("docs/*") if path.suffix in (".png", ".gif", ".jpg", ".svg")}
    assert pictures == {*make_pictures.PICTURES}


def test_pictures_lead_to_the_published_pages():
    assert make_pages.PAGES.keys() == {*re.findall(r"\.\w+\)\]\((\w+\.html)\)", "".join(map(page, NAMES)))}
