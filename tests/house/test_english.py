"""The project writes plain English: no construction that a stranger has to decode, one word for one thing."""

import ast
import io
import re
import tokenize
from functools import cache

import pytest

from tests.harness import ROOT

SOURCES = [path for name in ("oal_engine", "ui", "pages") for path in (ROOT / name).rglob("*.py")]
SOURCES += [ROOT / "app.py", ROOT / "home.py"]
PATHS = sorted(str(path.relative_to(ROOT)) for path in SOURCES)
CONSTRUCTIONS = {
    "a relative clause without a noun": (
        r"(?<!-)\bwhat (?!if\b|to\b)\w+(?![^.]*\?)|\bthose (?:that|who|of|which|there)\b|\bthat which\b"
    ),
    "so many": r"\bso many\b|\bso much\b",
    "beside": r"\bbeside\b",
    "the same of": r"\bthe same of\b|\bthe same (?:with|for)\b",
    "data that stand, lie, come or are heard": r"\b(?:stands?|lies|lie|are heard|is heard|goes on|go on)\b",
    "a negated noun": r"(?<!there )\b(?:is|are|was|were) (?:no|none)\b(?! longer| more)",
    "where for if": r"(?:^|[.;,:] )(?:None|True|False|empty|0) where\b",
    "at most, hung on": r", at most[.)]|, at least[.)]",
}
NOT_A_VERB = set(
    "a an the this that these those what where when whether which who how all each every any no none some both "
    "two in of on at by for from as with without after before until if it its is are there their numbers names "
    "rows items labels texts words columns ids questions answers".split()
)
PARTICIPLES = set("kept shown made found told said known given taken gone stood heard meant".split())
ALLOWED = {  # natural English all the same
    "a relative clause without a noun": {
        "what matters", "What counts", "what does", "what each", "what another", "what becomes", "what model",
        "those of",
    },
}  # fmt: skip
COLUMNS = {"oal_engine/sessions/settings.py: shown", "oal_engine/sessions/look_back.py: found"}  # names of stored data


@cache
def nodes(path):
    """Return every node in the syntax tree of a file."""
    return [*ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))]


@cache
def prose(path):
    """Return the comments of a file, and its strings of more than two words, docstrings included: [(line, text)]."""
    tokens = tokenize.generate_tokens(io.StringIO((ROOT / path).read_text(encoding="utf-8")).readline)
    comments = [(each.start[0], each.string.lstrip("# ")) for each in tokens if each.type == tokenize.COMMENT]
    return comments + [
        (node.lineno, node.value) for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 2
    ]  # fmt: skip


def found(path, construction):
    """Return the places where a file uses a construction of CONSTRUCTIONS, each as "path:line: words"."""
    return [
        f"{path}:{line}: {match[0]}"
        for line, text in prose(path)
        for match in re.finditer(CONSTRUCTIONS[construction], text, re.IGNORECASE)
        if match[0] not in ALLOWED.get(construction, ())
    ]


def functions(path):
    """Yield the functions and methods of a file except properties, which may be named as things."""
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not any(
            "property" in ast.unparse(each) for each in node.decorator_list
        ):
            yield node


def verbless(path):
    """Yield "path:line: first line" for each function of a file, unless its docstring begins with a verb."""
    for node in functions(path):
        first = re.match(r"[\w'-]+", ast.get_docstring(node) or "Do")
        if (
            not first
            or first[0].lower() in NOT_A_VERB
            or re.search(r"(?<!s)s$|ing$|ed$", first[0])
            or not first[0][0].isupper()
        ):
            yield f"{path}:{node.lineno}: {(ast.get_docstring(node) or '').splitlines()[0]}"


def participles(path):
    """Yield "path:line: name" for each parameter, function, class and variable of a file, if its name is a bare
    participle."""
    for node in nodes(path):
        name = (
            node.name if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else node.arg if isinstance(node, ast.arg)
            else node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            else ""
        )  # fmt: skip
        if name.strip("_").lower() in PARTICIPLES and f"{path}: {name}" not in COLUMNS:
            yield f"{path}:{node.lineno}: {name}"


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_no_construction_of_the_dialect(construction):
    """No docstring, comment or sentence uses a construction of CONSTRUCTIONS, which readers would have to decode."""
    assert [] == [place for path in PATHS for place in found(path, construction)]


def test_docstrings_of_functions_begin_with_a_verb():
    assert [] == [place for path in PATHS for place in verbless(path)]


def test_names_are_nouns():
    """No name is a bare participle, such as `kept`."""
    assert [] == [place for path in PATHS for place in participles(path)]
