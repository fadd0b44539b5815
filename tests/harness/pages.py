"""Run the pages of the app without a browser."""

import html
import json
import os
from contextlib import nullcontext
from functools import cache

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from oal_engine.datasets import import_process
from oal_engine.datasets.reading import DataError
from tests.harness import ROOT

BINARY = {"learner": "pa-i", "rule": "symmetric", "parameters": {"C": 1, "delta": 1}}
ADMIN = "admin@example.org"  # the owner of the studio in tests where people log in
WAIT = 60  # seconds; the first run of a page compiles

# Every new AppTest would read the metadata of all installed packages again, for 0.3 seconds.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)


def read_here(work, named, page, **settings):
    """Do in this process what `import_process` does in a child, which takes seconds to start."""
    (source, name), progress, vectors = named, page.get("progress", lambda *_: None), page.get("vectors")
    opened = import_process._open
    with opened(source) as file, opened(vectors[0]) if vectors else nullcontext() as other:
        own = {"name": name} | ({"vectors": (os.dup(other.fileno()), vectors[1])} if other else {})
        try:
            sent = json.loads(json.dumps(settings, default=import_process.plain)) | own
            result = import_process.WORK[work](file, progress, import_process.rebuilt(sent))
        except (ValueError, OSError) as error:
            raise DataError(str(error)) from error
    return json.loads(json.dumps(result))


def run(page, /, **query):
    """Run a page with these query parameters in its address, and check that it does not fail."""
    at = AppTest.from_file(str(ROOT / "home.py"), default_timeout=WAIT)
    if page != "home.py":
        at.switch_page(page)
    for key, value in query.items():
        at.query_params[key] = value if isinstance(value, list) else str(value)
    assert not at.run().exception
    return at


def press(at, key):
    """Press a button, and check that the page does not fail."""
    assert not at.button(key=key).click().run().exception


def form():
    """Open the form of a new session on Home."""
    at = run("home.py")
    at.button(key="new").click().run()
    return at


def data_page(path):
    """Open the Data page and enter the path of a file on the server."""
    at = run("pages/4_Data.py")
    at.segmented_control(key="way").set_value("File on the server").run()
    at.text_input(key="path").set_value(str(path)).run()
    return at


def words(at):
    """Return all literal HTML, unescaped, and all plain text of a page as one string."""
    return " ".join(
        [*(html.unescape(str(element.proto.body)) for element in at.get("html")), *(t.value for t in at.text)]
    )


def details(at):
    """Show the figures for researchers on the Label page, and check that the page does not fail."""
    assert not beside(at, "For researchers").exception
    return at


def beside(at, name):
    """Open the panel `name` beside the card."""
    at.session_state["panel"] = name if name in ("Progress", "List") else "More"
    at.session_state["more"] = name
    return at.run()


def listed(session, name, at=None, **state):
    """Run the Label page and open the panel `name`, with the state that a browser would send for its list. Check that
    the page does not fail."""
    at = at or run("pages/1_Label.py", session=str(session), annotator="carla")
    beside(at, {"find": "List"}.get(name, name.title()))
    at.session_state[f"{name}-{session}"] = state
    assert not at.run().exception
    return at
