"""Every package that the project imports is declared, and the allowed versions are the tested ones."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions, version

from packaging.requirements import Requirement

from tests.harness import ROOT

OURS = {"oal_engine", "ui", "pages", "home", "app"}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


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
    """requirements-test.txt lists each requirement of an extra, with the same versions."""
    listed = requirements("requirements-test.txt")
    assert {name: str(each) for name, each in extras().items()} == {name: str(listed[name]) for name in extras()}


def test_streamlit_is_limited_to_the_minor_version_that_is_tested():
    """The app uses private modules of Streamlit, so the next minor version is not allowed before it is tested."""
    major, minor, *_ = map(int, version("streamlit").split("."))
    allowed = requirements("requirements.txt")["streamlit"].specifier
    assert allowed.contains(version("streamlit"))
    assert not allowed.contains(f"{major}.{minor + 1}.0")


def test_installed_packages_are_allowed():
    """The tests run with versions that the requirements allow."""
    wrong = {
        name: version(name)
        for name, each in requirements("requirements.txt").items()
        if (not each.marker or each.marker.evaluate()) and not each.specifier.contains(version(name))
    }
    assert {} == wrong
