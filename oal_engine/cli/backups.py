"""The commands of backups: backup, check, restore."""

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ..sessions import backups
from ..store import Store, default_path
from .terminal import Db, Json

Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]


def backup(
    file: Annotated[Path, typer.Argument(help="The .tar file to write.")],
    force: Force = False,
    db: Db = None,
):
    """Write the database and the rows of its data sets into one file, also while the server runs and others label."""
    backups.backup(Store(db, read_only=True), file, force)
    print(f"{file}: {file.stat().st_size:,} bytes. `check {file}` reads it again.")


def check(
    file: Annotated[Path | None, typer.Argument(help="A backup (default: the database itself).")] = None,
    db: Db = None,
    as_json: Json = False,
):
    """Check the database, or a backup: that SQLite finds it whole, that all rows are as they were written, and that
    every session verifies. The exit code is 1 where anything does not."""
    if file and db:
        raise ValueError("check takes a backup or --db, not both.")
    with backups.opened(file) if file else nullcontext(Store(db, read_only=True)) as store:
        findings = []
        for finding in backups.check(store):
            findings.append(finding)
            if not as_json:
                print(finding, flush=True)
    sound = not any(finding.problem for finding in findings)
    if as_json:
        print(json.dumps({"sound": sound, "findings": [asdict(finding) for finding in findings]}, ensure_ascii=False))
    if not sound:
        raise typer.Exit(1)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
    force: Force = False,
    db: Db = None,
):
    """Put a backup in the place of the database, checked first, all or nothing; stop the server before."""
    target = db or default_path()
    for finding in backups.restore(file, target, force):
        if finding.problem:
            print(f"restored as it was: {finding}", file=sys.stderr)
    print(f"{target} is what {file} holds.")
