"""The wheel is complete, and it works in an environment without the rest of the project."""

import json
import os
import re
import subprocess
import sys
import tomllib
from email.parser import Parser
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from playwright.sync_api import expect

from tests.harness import ROOT, browser, package, shapes
from tests.harness.browser import Card, Server, button

pytestmark = pytest.mark.slow

PYTHONS = "3.11", "3.12", "3.13", "3.14"
ITEMS = "text,kind\n" + "".join(f"{'a dog ran' if k % 7 == 0 else 'news'} word{k % 13},{k % 7}\n" for k in range(60))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The path of the built wheel."""
    return package.wheel(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    """The folder of programs in an environment with the wheel. All other packages come from the environment of the
    tests."""
    folder = package.environment(tmp_path_factory.mktemp("environment"))
    required = (path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    (package.packages(folder) / "required.pth").write_text("\n".join(required))
    package.install(folder, "--no-deps", wheel)
    return folder


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """An empty working directory."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory):
    """The environment variables of somebody who has never used the programs."""
    unset = dict.fromkeys(("OAL_DB", "PYTHONPATH", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), "")
    return unset | {"HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture(scope="module")
def oal(programs, work, newcomer):
    """A function that runs the installed command line and returns its output."""

    def run(*arguments, program=("oal",), **variables):
        command = [programs / program[0], *program[1:], *arguments]
        return package.run(*command, cwd=work, env=os.environ | newcomer | variables).stdout

    return run


@pytest.fixture(scope="module")
def app(programs, work, newcomer, tmp_path_factory):
    """The app, started by `oal-studio`. Its log must have no traceback, and the working directory must stay empty."""
    server = Server(tmp_path_factory.mktemp("log"), work, command=(programs / "oal-studio", "--port"), **newcomer)
    yield server
    server.kill()
    assert "Traceback" not in server.log.read_text()
    assert [] == [*work.iterdir()]


def test_the_wheel_holds_the_app_and_the_engine(wheel):
    """The wheel holds the engine with the demos, the app with its pages, scripts, styles and settings, and nothing
    else."""
    folders = {
        "oal_engine": "oal_engine",
        "data": "oal_engine/data",
        "papers": "oal_engine/papers",
        "ui": "oal_studio/ui",
        "pages": "oal_studio/pages",
    }
    expected = {f"oal_studio/{name}" for name in ("app.py", "home.py", ".streamlit/config.toml")}
    expected.add("oal_engine/papers/README.md")
    for folder, place in folders.items():
        paths = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        expected |= {f"{place}/{path.relative_to(ROOT / folder).as_posix()}" for path in paths if path.suffix != ".md"}
    expected |= {f"oal_studio/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}  # pages lead to them
    assert expected == {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}


def test_the_wheel_has_the_requirements_of_the_project(wheel):
    """The wheel requires the lines of requirements.txt, and for each of its extras the packages in pyproject.toml."""
    archive = ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    about = Parser().parsestr(archive.read(metadata).decode())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    expected = {Requirement(line) for line in (ROOT / "requirements.txt").read_text().splitlines()}
    expected |= {Requirement(f"{line}; extra == '{extra}'") for extra, lines in extras.items() for line in lines}
    assert expected == {Requirement(line) for line in about.get_all("Requires-Dist")}


def test_the_app_runs_where_nothing_else_is(app, newcomer, visit, tmp_path):
    """`oal-studio`, started in an empty folder, prints the path of its data. On Home, a person can upload an Excel file
    and get the first question about it."""
    (database,) = re.findall(r"^Your data are kept in (.+)$", app.log.read_text(), re.MULTILINE)
    assert database.startswith(newcomer["HOME"])
    page = visit(app)
    button(page, "Try the demo").wait_for()
    assert Path(database).exists()
    (tmp_path / "mine.xlsx").write_bytes(shapes.workbook(("Mail", [line.split(",") for line in ITEMS.splitlines()])))
    with page.expect_file_chooser() as chooser:
        button(page, "Upload").click()
    chooser.value.set_files(tmp_path / "mine.xlsx")
    page.get_by_role("radio", name="no labels").click()
    button(page, "Import").click()
    page.get_by_role("textbox", name="Name of the rare class").fill("About dogs")
    button(page, "Start labeling").click()
    expect(Card(page)("text")).to_contain_text("dog")


def test_a_database_that_cannot_be_used_is_refused(programs, tmp_path):
    """If its database cannot be opened, `oal-studio` ends with a one-sentence error before it serves anything."""
    wrong = tmp_path / "missing" / "studio.db"
    done = subprocess.run([programs / "oal-studio", "--db", wrong], capture_output=True, text=True)
    assert (1, f"error: {wrong} cannot be used: it cannot be opened.\n") == (done.returncode, done.stderr)


def test_the_settings_of_the_server_hold(app):
    """The server refuses a request with a foreign host name, as .streamlit/config.toml says."""
    for host, status in ((f"localhost:{app.port}", 200), ("evil.example", 400)):
        connection = HTTPConnection("127.0.0.1", app.port)
        connection.request("GET", "/_stcore/health", headers={"Host": host})
        assert status == connection.getresponse().status
        connection.close()


def test_the_command_line_shares_the_database_of_the_app(app, oal, visit, tmp_path):
    """Data from `oal import` are on Home and in `python -m oal_engine datasets`, and `oal replay` replays a demo."""
    (tmp_path / "given.csv").write_text(ITEMS)
    oal("import", tmp_path / "given.csv", "--name", "given", "--text", "text", "--label", "kind", "--positive", "0")
    for program in (("oal",), ("python", "-m", "oal_engine")):
        assert "given" in [row["name"] for row in json.loads(oal("datasets", "--json", program=program))["datasets"]]
    visit(app).get_by_text("given").first.wait_for()
    oal("replay", "demo:tweets", "--algorithm", "PAA-I", "--budget", "20")


def test_shells_complete_the_command_line(oal):
    """A shell completes commands and their options, and the help of `oal` offers `--install-completion`."""
    for words, completed in (("oal impo", "import"), ("oal import --multic", "--multiclass")):
        request = {"_OAL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert completed == oal(**request).strip()
    assert "--install-completion" in oal("--help")


@pytest.mark.rare
@pytest.mark.parametrize(("python", "versions"), [*product(PYTHONS, ["highest"]), (PYTHONS[0], "lowest-direct")])
def test_a_release_runs_on_every_python(python, versions, wheel, newcomer, tmp_path):
    """In an empty environment of each Python, with the newest or the lowest allowed versions, the programs of the wheel
    import, replay, label and serve."""
    uv = browser.program("uv")
    if subprocess.run([uv, "python", "find", "--no-python-downloads", python], capture_output=True).returncode:
        pytest.skip(f"needs Python {python}")
    package.run(uv, "venv", "--python", python, tmp_path / "empty")
    install = (uv, "pip", "install", "--python", tmp_path / "empty", "--resolution", versions)
    package.run(*install, "--requirement", ROOT / "requirements.txt", wheel)
    package.run(
        tmp_path / "empty" / "bin" / "python", ROOT / "tests" / "harness" / "smoke.py", env=os.environ | newcomer
    )
