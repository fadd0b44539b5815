"""Try the programs in the environment of this Python, with the standard library alone: `bin/python smoke.py`."""

import json
import os
import platform
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

PROGRAMS = Path(sys.executable).parent  # scripts are installed next to Python
ITEMS = "text,kind\n" + "".join(
    f"{'a dog ran' if k % 7 == 0 else 'news'} word{k % 13},{k % 7 == 0}\n" for k in range(60)
)
LABELING = """
from oal_engine import Studio
session = Studio().new_session("small", budget=5)
for question in session:
    session.answer(question, session.classes["dog" not in question.text])
assert (len(session.labels), len(session.predictions)) == (5, 60)
"""


def run(program, *arguments):
    """Run a program of the environment. Return its output."""
    return subprocess.run([PROGRAMS / program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def answers(seconds=120):
    """Start the app, wait until it says that it is healthy, and end it. Return whether it did."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server, end = subprocess.Popen([PROGRAMS / "oal-studio", "--port", str(port)]), time.monotonic() + seconds
    try:
        while server.poll() is None and time.monotonic() < end:
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=10) as response:
                return response.read() == b"ok"
            time.sleep(0.1)
        return False
    finally:
        server.terminate()
        server.wait()


def main():
    """Import a file, replay a demo, label with `Studio`, and start the app, in an empty folder."""
    begin = time.monotonic()
    assert "replay" in run("oal", "--help")
    Path("small.csv").write_text(ITEMS)
    run("oal", "import", "small.csv", "--name", "small", "--text", "text", "--label", "kind", "--positive", "True")
    assert "small" in [row["name"] for row in json.loads(run("oal", "datasets", "--json"))["datasets"]]
    run("oal", "replay", "demo:tweets", "--algorithm", "PAA-I", "--budget", "20")
    run("python", "-c", LABELING)
    assert answers(), "oal-studio does not answer"
    names = "oal-studio", "streamlit", "numpy", "numba", "pandas", "pyarrow"
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    print(f"Python {platform.python_version()}, {versions}: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        os.environ |= {"OAL_DB": str(Path(folder, "studio.db")), "PYTHONWARNINGS": "error::SyntaxWarning"}
        main()
