"""The package: what the wheel holds and requires, and that it works where nothing else of the project is."""

import json
import os
import re
import subprocess
import sys
from email.parser import Parser
from http.client import HTTPConnection
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from playwright.sync_api import expect

from tests.harness import ROOT, package, shapes
from tests.harness.browser import Card, Server, button

pytestmark = pytest.mark.slow
ITEMS = "text,kind\n" + "".join(f"{'a dog ran' if k % 7 == 0 else 'news'} word{k % 13},{k % 7}\n" for k in range(60))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The path of the wheel."""
    return package.wheel(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The folder of the programs of an environment with the wheel; what it requires comes from the one of the tests."""
    folder = package.environment(tmp_path_factory.mktemp("environment"))
    required = (path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    (package.packages(folder) / "required.pth").write_text("\n".join(required))
    package.install(folder, "--no-deps", wheel)
    return folder


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """The working directory and the environment variables of somebody who has nothing yet."""
    work, home = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("home")
    unset = dict.fromkeys(("OAL_DB", "PYTHONPATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), "")
    return work, unset | {"HOME": str(home)}


@pytest.fixture(scope="module")
def oal(programs, empty):
    """A function that runs the command line and returns what it prints."""
    work, variables = empty

    def run(*arguments, program=("oal",), **more):
        environment = os.environ | variables | more
        first, *rest = program
        return package.run(programs / first, *rest, *arguments, cwd=work, env=environment).stdout

    return run


@pytest.fixture(scope="module")
def app(programs, empty, tmp_path_factory):
    """The app as `oal-studio` starts it."""
    work, variables = empty
    server = Server(tmp_path_factory.mktemp("log"), work, command=(programs / "oal-studio", "--port"), **variables)
    yield server
    server.kill()
    assert "Traceback" not in server.log.read_text()


def named(file):
    """The requirements that a file names itself."""
    return {Requirement(line) for line in (ROOT / file).read_text().splitlines() if not line.startswith("-r ")}


def test_the_wheel_holds_what_runs(wheel):
    """The engine with the demos, and the app beside its pages, scripts, styles and settings: nothing is missing, and
    nothing else is installed."""
    folders = {
        "oal_engine": "oal_engine",
        "data": "oal_engine/data",
        "ui": "oal_studio/ui",
        "pages": "oal_studio/pages",
    }
    files = {"app.py": "oal_studio", "home.py": "oal_studio", ".streamlit/config.toml": "oal_studio"}
    expected = {f"{place}/{name}" for name, place in files.items()}
    for folder, place in folders.items():
        paths = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        expected |= {f"{place}/{path.relative_to(ROOT / folder).as_posix()}" for path in paths if path.suffix != ".md"}
    names = ZipFile(wheel).namelist()
    assert expected == {name for name in names if ".dist-info/" not in name}


def test_the_wheel_requires_what_the_files_name(wheel):
    """Each file of requirements is what the package or one of its extras requires."""
    archive = ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    about = Parser().parsestr(archive.read(metadata).decode())
    required = {Requirement(line) for line in about.get_all("Requires-Dist")}
    assert named("requirements.txt") == {each for each in required if not each.marker}
    extras = about.get_all("Provides-Extra")
    for extra in extras:
        several = {f"{each}; extra == '{extra}'" for each in named(f"requirements-{extra}.txt")}
        assert {*map(Requirement, several)} == {each for each in required if f'"{extra}"' in str(each.marker)}


def test_the_app_runs_where_nothing_else_is(app, empty, visit, tmp_path):
    """`oal-studio`, from an empty folder: it says where its data are, Home offers the demo, and an Excel file of one's
    own leads to its first question; the working directory stays empty."""
    work, variables = empty
    (kept,) = re.findall(r"^Your data are kept in (.+)$", app.log.read_text(), re.MULTILINE)
    assert kept.startswith(variables["HOME"])
    page = visit(app)
    button(page, "Try the demo").wait_for()
    assert Path(kept).exists()
    (tmp_path / "mine.xlsx").write_bytes(shapes.workbook(("Mail", [line.split(",") for line in ITEMS.splitlines()])))
    with page.expect_file_chooser() as chooser:
        button(page, "Upload").click()
    chooser.value.set_files(tmp_path / "mine.xlsx")
    page.get_by_role("textbox", name="Name of the rare class").fill("About dogs")
    button(page, "Start labeling").click()
    expect(Card(page)("text")).to_contain_text("dog")
    assert [] == [*work.iterdir()]


def test_a_database_that_cannot_be_used_is_refused(programs, tmp_path):
    """`oal-studio` ends with one sentence where its database cannot be opened, before it serves anything."""
    wrong = tmp_path / "missing" / "studio.db"
    done = subprocess.run([programs / "oal-studio", "--db", wrong], capture_output=True, text=True)
    assert (1, f"error: {wrong} cannot be used: it cannot be opened.\n") == (done.returncode, done.stderr)


def test_the_settings_of_the_server_hold(app):
    """A foreign host name is refused, as .streamlit/config.toml says."""
    for host, status in ((f"localhost:{app.port}", 200), ("evil.example", 400)):
        connection = HTTPConnection("127.0.0.1", app.port)
        connection.request("GET", "/_stcore/health", headers={"Host": host})
        assert status == connection.getresponse().status
        connection.close()


def test_the_command_line_shares_the_database_of_the_app(app, oal, empty, visit, tmp_path):
    """What `oal import` brings is on Home, also for `python -m oal_engine`; a demo is replayed."""
    (tmp_path / "given.csv").write_text(ITEMS)
    oal("import", tmp_path / "given.csv", "--name", "given", "--text", "text", "--label", "kind", "--positive", "0")
    for program in (("oal",), ("python", "-m", "oal_engine")):
        assert "given" in [row["name"] for row in json.loads(oal("datasets", "--json", program=program))["datasets"]]
    visit(app).get_by_text("given").first.wait_for()
    oal("replay", "demo:tweets", "--algorithm", "PAA-I", "--budget", "20")
    assert [] == [*empty[0].iterdir()]


def test_shells_complete_the_command_line(oal):
    """Commands and their options are completed, and `oal --install-completion` is offered."""
    for words, completed in (("oal impo", "import"), ("oal import --multic", "--multiclass")):
        asked = {"_OAL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert completed == oal(**asked).strip()
    assert "--install-completion" in oal("--help")
