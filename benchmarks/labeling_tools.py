"""OAL Studio and the tools it is compared with: how each is installed, started on texts, opened and answered."""

import csv
import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import requests

from oal_engine import datasets
from oal_engine.datasets import demo, reading
from oal_engine.sessions.settings import create
from oal_engine.store import Store

OURS = "OAL Studio"
ASREVIEW, LABEL_STUDIO = "asreview==3.0.8", "label-studio==1.23.2"  # pinned here only
ROOT = Path(__file__).parent.parent
AGAIN = "sh", "-c", 'until false; do "$@"; done', "sh"  # runs a command again whenever it ends
PATIENCE = 300  # seconds for a server to start, and for its first item
BUDGET = 1000
STRATEGIES = {
    "auto": demo.DEMOS["tweets"].session,
    "OA3-diag": {
        "algorithm": "OA3-diag",
        "parameters": {"eta": 1, "gamma": 0.1, "delta_plus": 0.1, "delta_minus": 0.01},
    },
    "CSPAA": {
        "learner": "cspaa",
        "rule": "asymmetric",
        "parameters": {"C": 1, "delta_plus": 0.3, "delta_minus": 0.1},
    },
    "PAA-I": {"algorithm": "PAA-I", "parameters": {"delta": 0.1}},
}
EMAIL, PASSWORD = "benchmark@example.org", "benchmark-1"
NAMES = {True: "Relevant", False: "Not relevant"}
local = requests.Session()
local.trust_env = False  # no proxy for requests to this machine


class Item(NamedTuple):
    """A text, and whether a person would call it relevant."""

    text: str
    relevant: bool


class Missing(Exception):
    """Raised if a tool cannot be installed or started; the message is one sentence."""


class Tool(NamedTuple):
    """A labeling tool. version: its pinned package, or for OAL Studio the strategy of the session.

    serve(environments, own folder, items): context manager that starts the tool and yields the address of the first
    item. enter(page, address): function that opens that address in a browser. keys: keys to press for each label. text:
    CSS selector of the item's text. saved: CSS selector that matches while all answers are saved (None: the tool saves
    an answer before it shows the next item).
    """

    name: str
    version: str
    serve: Callable
    enter: Callable
    keys: dict
    text: str
    saved: str | None = None


# Shared by the tools


def programs(package, venvs):
    """Return the folder of a package's programs, in a virtual environment that is created at the first use."""
    folder = venvs.resolve() / package
    complete = folder / "complete"
    if not complete.exists():
        print(f"installing {package} in {folder} …", file=sys.stderr)
        for command in ([sys.executable, "-m", "venv", "--clear", folder], [folder / "bin/pip", "install", package]):
            process = subprocess.run(command, capture_output=True, text=True)
            if process.returncode:
                output = (process.stderr or process.stdout).strip().splitlines()
                raise Missing(f"{package} could not be installed: {output[-1] if output else 'pip failed'}")
        complete.touch()
    return folder / "bin"


@contextmanager
def running(command, health, folder, home=None, **environment):
    """Run a server until the end of the block, which begins with the server's first answer at the address `health`.
    folder: where its log is written, and its working directory unless `home` is given."""
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, cwd=home or folder, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        end = time.monotonic() + PATIENCE
        while not _answers(health):
            if time.monotonic() > end or server.poll() is not None:
                raise Missing(f"{command[0]} did not answer at {health} within {PATIENCE} seconds.")
            time.sleep(0.1)
        yield server
    except BaseException:
        print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
        raise
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _answers(address):
    try:
        return local.get(address, timeout=2).ok
    except requests.RequestException:
        return False


def send(address, method="POST", **parts):
    """Send a request and return its parsed JSON answer. parts: further arguments of `requests`."""
    answer = local.request(method, address, timeout=PATIENCE, **parts)
    answer.raise_for_status()
    return answer.json()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def table(items, heads, *columns):
    """Return items as the bytes of a CSV file. columns: for each column, a function of the item's number (from 1) and
    the item."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(heads)
    writer.writerows([column(k, item) for column in columns] for k, item in enumerate(items, 1))
    return file.getvalue().encode()


# The tools


def imported(folder, items):
    """Import the items. Return the store and the id of their data set; an existing database in the folder is reused."""
    store, name = Store(folder / "studio.db"), f"{len(items):,} texts"
    if not store.has_dataset(name):
        path = folder / "items.csv"
        heads = ("id", "text", "label")
        path.write_bytes(table(items, heads, lambda k, _: k, lambda _, x: x.text, lambda _, x: int(x.relevant)))
        datasets.import_file(store, path, name, reading.Columns(("text",), "label", "id", positive=("1",)))
        path.unlink()
    return store, store.dataset(name)["id"]


def session(store, dataset, strategy):
    """Create a session with a strategy, and return its id."""
    names = {"positive_name": NAMES[True], "negative_name": NAMES[False]}
    return create(store, dataset, **STRATEGIES[strategy] | names | {"budget": BUDGET})


@contextmanager
def serving(database, folder, again=False, **environment):
    """Serve the real app on a database. Yield the address of its home page, and its process. again: whether a shell,
    which is then the process, starts the app again when it ends."""
    port = free_port()
    command = [sys.executable, *f"-m streamlit run app.py --server.headless true --server.port {port}".split()]
    command = [*AGAIN, *command] if again else command
    base = f"http://127.0.0.1:{port}"
    own = {"OAL_DB": str(database.resolve()), "MALLOC_ARENA_MAX": "2"}
    with running(command, f"{base}/_stcore/health", folder, ROOT, **own, **environment) as server:
        yield base, server


@contextmanager
def studio(strategy, _, folder, items):
    """Serve the real app with a session over the items. Yield the address of the session."""
    store, dataset = imported(folder, items)
    session_id = session(store, dataset, strategy)
    store.close()
    with serving(store.path, folder) as (base, _):
        yield f"{base}/Label?session={session_id}"


def enter_studio(page, address):
    page.goto(address)
    page.locator('[data-testid="oal-text"]').first.wait_for()


@contextmanager
def asreview(venvs, folder, items):
    """Serve ASReview LAB with a project that uses its default model and is created through its API. Yield the project's
    address."""
    program, port = programs(ASREVIEW, venvs) / "asreview", free_port()
    base = f"http://localhost:{port}"
    command = [program, *f"lab --no-browser --skip-update-check --host localhost --port {port}".split()]
    environment = {"ASREVIEW_PATH": str(folder), "ASREVIEW_LAB_TASK_MANAGER_ENDPOINT": f"localhost:{free_port()}"}
    with running(command, base, folder, **environment):
        file = table(items, ("title", "abstract"), lambda k, _: f"Item {k}", lambda _, item: item.text)
        parts = {"data": {"mode": "oracle"}, "files": {"file": ("items.csv", file)}}
        project = send(f"{base}/api/projects/create", **parts)["id"]
        send(f"{base}/api/projects/{project}/review", "PUT", data={"status": "review", "trigger_model": "1"})
        yield f"{base}/reviews/{project}/reviewer"


def enter_asreview(page, address):
    page.goto(address)


@contextmanager
def label_studio(venvs, folder, items):
    """Serve Label Studio, without telemetry, with a project that has two choices and a key for each. Yield its
    address."""
    program, port, token = programs(LABEL_STUDIO, venvs) / "label-studio", free_port(), uuid4().hex
    base = f"http://127.0.0.1:{port}"
    command = [program, *f"start --no-browser --internal-host 127.0.0.1 --port {port} --data-dir".split(), folder]
    account = ["--user-token", token, "--username", EMAIL, "--password", PASSWORD]
    quiet = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
    environment = {"LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true", "DJANGO_DB": "sqlite", **quiet}
    choices = "".join(f'<Choice value="{NAMES[sign]}" hotkey="{key}"/>' for sign, key in ((True, "a"), (False, "x")))
    config = f'<View><Text name="text" value="$text"/><Choices name="label" toName="text">{choices}</Choices></View>'
    with running([*command, *account], f"{base}/health", folder, **environment):
        headers, settings = {"Authorization": f"Token {token}"}, {"title": "Texts", "label_config": config}
        project = send(f"{base}/api/projects", headers=headers, json=settings)["id"]
        tasks = [{"data": {"text": item.text}} for item in items]
        send(f"{base}/api/projects/{project}/import", headers=headers, json=tasks)
        yield f"{base}/projects/{project}/data?labeling=1"


def enter_label_studio(page, address):
    page.goto(address)
    page.locator("[name=email]").fill(EMAIL)
    page.locator("[name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/login" not in url)
    page.goto(address)


def ours(strategy):
    """Return OAL Studio as a tool. strategy: the strategy of its session."""
    keys = {True: ["a"], False: ["x"]}
    unsaved = '[data-testid="oal-card"][data-unsaved="0"]'
    return Tool(OURS, strategy, partial(studio, strategy), enter_studio, keys, '[data-testid="oal-text"]', unsaved)


OTHERS = [
    Tool(
        "ASReview LAB", ASREVIEW, asreview, enter_asreview, {True: ["r"], False: ["i"]},
        '[aria-label="record title abstract"] .MuiTypography-body1',
    ),
    Tool(
        "Label Studio", LABEL_STUDIO, label_studio, enter_label_studio,
        {True: ["a", "Control+Enter"], False: ["x", "Control+Enter"]}, ".lsf-richtext",
    ),
]  # fmt: skip
