"""Every package that the project imports is declared, and the allowed versions are the tested ones."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, version

import yaml
from packaging.requirements import Requirement

from oal_engine import __version__
from tests.harness import ROOT

OURS = {"oal_engine", "ui", "pages", "home", "app"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def normalized(name):
    """Return the normalized name of a distribution: in lower case, with hyphens for underscores and dots."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(file):
    """Return the requirements that a file lists: {normalized name: requirement}."""
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return {normalized(each.name): each for each in map(Requirement, filter(lambda line: line[:1] != "-", lines))}


def extras():
    """Return the requirements of all extras of the package: {normalized name: requirement}."""
    return {normalized(each.name): each for lines in EXTRAS.values() for each in map(Requirement, lines)}


def imported_packages():
    """Return the third-party packages that the engine and the app import: {package: a file that imports it}."""
    paths = [ROOT / "app.py", ROOT / "home.py"]
    paths += [path for name in ("oal_engine", "ui", "pages") for path in (ROOT / name).rglob("*.py")]
    packages = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            packages |= {name.split(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return {name: path for name, path in packages.items() if name not in OURS | sys.stdlib_module_names}


def test_every_imported_package_is_declared():
    """Each package that a file imports belongs to a distribution in requirements.txt or in an extra."""
    declared, distributions = requirements("requirements.txt") | extras(), packages_distributions()
    imported = imported_packages()
    named = {name for name in imported if declared.keys() & {*map(normalized, distributions[name])}}
    assert {} == {name: path for name, path in imported.items() if name not in named}


def test_every_extra_is_installed_for_the_tests():
    listed = requirements("requirements-test.txt")
    assert {name: str(each) for name, each in extras().items()} == {name: str(listed[name]) for name in extras()}


def test_streamlit_is_limited_to_the_minor_version_that_is_tested():
    """The app uses private modules of Streamlit, so the next minor version is not allowed before it is tested."""
    major, minor, *_ = map(int, version("streamlit").split("."))
    allowed = requirements("requirements.txt")["streamlit"].specifier
    assert allowed.contains(version("streamlit"))
    assert not allowed.contains(f"{major}.{minor + 1}.0")


def test_installed_packages_are_allowed():
    wrong = {
        name: version(name)
        for name, each in requirements("requirements.txt").items()
        if (not each.marker or each.marker.evaluate()) and not each.specifier.contains(version(name))
    }
    assert {} == wrong


def workflow(name):
    """Return the text of a workflow of GitHub, and its jobs."""
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8")
    return text, yaml.safe_load(text)["jobs"]


def test_tests_and_releases_run_on_every_python():
    """The workflows run the tests, and try the wheel, on the versions of Python that the package names, and with the
    lowest allowed packages on the first of them."""
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    tried = workflow("release")[1]["smoke"]["strategy"]["matrix"]
    assert named == tried["python"] == workflow("tests")[1]["tests"]["strategy"]["matrix"]["python"]
    assert [{"python": named[0], "resolution": "lowest-direct"}] == tried["include"]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_a_release_may_do_no_more_than_it_must():
    """The release workflow has no secret. Only the jobs that publish may write, each after the wheel was tried."""
    text, jobs = workflow("release")
    assert "\npermissions: {}\n" in text
    assert "secrets." not in text
    writing = [(name, key) for name, job in jobs.items() for key, may in job["permissions"].items() if may == "write"]
    assert [("attest", "attestations"), ("attest", "id-token"), ("pypi", "id-token"), ("github", "contents")] == writing
    assert ["build", "smoke", "attest", "pypi"] == [job["needs"] for job in jobs.values() if "needs" in job]
    assert jobs["pypi"]["environment"] == "pypi"


def test_a_release_is_the_version_of_its_tag(tmp_path):
    """Before it builds anything, the release workflow compares the tag with the version and with the changelog, and
    adds the address of the repository to pyproject.toml."""
    check, address, build, *_ = (step["run"] for step in workflow("release")[1]["build"]["steps"] if "run" in step)
    for tag, code in ((f"v{__version__}", 0), ("v0.9.9", 1)):
        shell = ["bash", "-e", "-c", check]
        assert code == subprocess.run(shell, cwd=ROOT, env=os.environ | {"GITHUB_REF_NAME": tag}).returncode
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    here = {"SOURCE": "https://example.org/a/b", "GITHUB_REF_NAME": f"v{__version__}"}
    subprocess.run(["bash", "-e", "-c", address], cwd=tmp_path, env=os.environ | here, check=True)
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert urls["Changelog"] == f"{urls['Source']}/blob/v{__version__}/CHANGELOG.md"
    assert "python -m build" in build
