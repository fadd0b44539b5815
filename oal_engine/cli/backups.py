"""The commands of backups: backup, check, restore."""

import json
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ..places import database_path
from ..sessions import backups
from ..store import Store
from .terminal import Db, Json

Force = Annotated[bool, Option("--force", help="Replace an existing file or database.")]


def backup(
    file: Annotated[Path, Argument(help="The .tar file to write.")], force: Force = False, db: Db = None
) -> None:
    """Check the database and the rows of its data sets, and write them to one file, even while the app is in use."""
    backups.backup(Store(db, read_only=True), file, force)
    print(f"{file}: {file.stat().st_size:,} bytes. `check {file}` verifies it.")


def check(
    file: Annotated[Path | None, Argument(help="A backup (default: the database).")] = None,
    repair: Annotated[
        bool, Option("--repair", help="First derive the current labels of every session again from its log of events.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Check that the database, or a backup, is undamaged: the file, the rows, and every session.

    The exit code is 1 if anything is damaged, or if a session fails verification.
    """
    if file and db:
        raise ValueError(f"check takes a backup or --db, not both. Got {file} and {db}.")
    if file and repair:
        raise ValueError(f"--repair is for the database, not for a backup. Got {file}.")
    if repair:
        with closing(Store(db)) as store, store.transaction():
            for session in store.sessions():
                store.derive_answers(session["id"])
    with backups.opened(file) if file else nullcontext(Store(db, read_only=True)) as store:
        findings = []
        for finding in backups.check(store):
            findings.append(finding)
            if not as_json:
                print(finding, flush=True)
    sound = not any(finding.problem for finding in findings)
    if as_json:
        print(json.dumps({"sound": sound, "findings": [finding.as_dict() for finding in findings]}, ensure_ascii=False))
    if not sound:
        raise typer.Exit(1)


def restore(
    file: Annotated[Path, Argument(help="A file that `backup` or the server wrote.")],
    force: Force = False,
    db: Db = None,
) -> None:
    """Replace the database with a backup, which is checked first. Stop the app beforehand."""
    target = db or database_path()
    findings, damaged = backups.restore(file, target, force)
    for finding in findings:
        if finding.problem:
            print(f"restored anyway: {finding}", file=sys.stderr)
    print(f"{target} is restored from {file}.")
    if damaged:
        print(f"The damaged database is kept as {damaged}: the answers since the backup are nowhere else.")
