"""The commands that need only the store, and so start at once: datasets, sessions, token."""

import json
import sys
from datetime import timedelta
from typing import Annotated

from typer import Argument, Option

from ..store import ROLES, Store
from .terminal import Db, Json, show

DATASET = ("id", "name", "kind", "items", "features", "positives", "negatives", "classes")
SESSION = ("id", "name", "algorithm", "labels", "budget", "positives", "skipped", "worked_at")
TOKEN = ("id", "session", "role", "annotator", "created_at", "expires_at", "valid")


def datasets(db: Db = None, as_json: Json = False) -> None:
    """List the data sets."""
    keys = (*DATASET, "sessions", "source", "created_at")
    rows = [{key: row[key] for key in keys} for row in Store(db, read_only=True).datasets()]
    show({"datasets": rows}, as_json, *DATASET, "sessions")


def sessions(db: Db = None, as_json: Json = False) -> None:
    """List the sessions with their progress."""
    rows = [row | {"parameters": json.loads(row["parameters"])} for row in Store(db, read_only=True).sessions()]
    show({"sessions": rows}, as_json, *SESSION)


def token(
    action: Annotated[str, Argument(help="new, list or remove.")],
    number: Annotated[int | None, Argument(min=1, help="The number of the token to remove.")] = None,
    session: Annotated[int | None, Option(help="The session that a new token is for.")] = None,
    role: Annotated[str | None, Option(help=f"Its role: {', '.join(ROLES)}.")] = None,
    name: Annotated[str, Option(help="Its annotator; with a log-in an e-mail address (default: by its number).")] = "",
    days: Annotated[int, Option(min=1, max=3650, help="The days for which it is valid.")] = 90,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Make, list or remove tokens, with which programs use a session over HTTP. A new token is printed once."""
    match action:
        case "list":
            tokens = Store(db, read_only=True).tokens()
            rows = [{column: row[column] for column in TOKEN} for row in tokens]
            show({"tokens": [row | {"expires_at": row["expires_at"] or "expired"} for row in rows]}, as_json, *TOKEN)
        case "new" if session and role:
            own, secret = Store(db).add_token(session, role, name.strip(), timedelta(days=days))
            print(f"Token {own} is valid for {days:,} days, and is shown only now:", file=sys.stderr)
            print(secret)
        case "remove" if number:
            Store(db).remove_token(number)
            print(f"Token {number} is removed.")
        case _:
            raise ValueError(
                f"token must be `list`, `new` with --session and --role, or `remove` with a number. Got {action}."
            )
