"""The program oal-studio: the app, served on this machine, with its data in the user's folder."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from oal_engine.cli.main import errors_as_sentences
from oal_engine.store import Store

APP = Path(__file__).parents[1] / "app.py"  # .streamlit/config.toml in the same folder has the other settings


def serve(
    port: Annotated[int | None, Option(min=1, max=65535, help="The port to serve on (default: 8501).")] = None,
    db: Annotated[Path | None, Option(help="The database (default: OAL_DB, or one in your data folder).")] = None,
) -> None:
    """Start OAL Studio on this machine and print its address; Ctrl-C ends it."""
    from streamlit.web.cli import main as streamlit  # late: --help and completion need not wait for it

    if db:
        os.environ["OAL_DB"] = str(db)
    with closing(Store()) as store:  # fails here, before the server starts, if the database cannot be used
        print(f"Your data are kept in {store.path.absolute()}", flush=True)
    streamlit(["run", str(APP), *(["--server.port", str(port)] if port else [])])


def main() -> None:
    """Run the program oal-studio."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(serve)
    with errors_as_sentences():
        app()
