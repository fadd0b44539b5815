"""Permissions: who may enter, who owns the studio, the roles in a session, and the files and pictures that are served.

The rules are read from Streamlit's secrets and the roles from the store at each check, so that a change takes effect at
once. If the secrets are unclear, the app is closed to everybody.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import streamlit as st
from streamlit import config

from oal_engine.store import ADDRESS, ROLES, Row, Store, address

LOG_IN = "Log in to label and to see the data."
Rules = tuple[bool, tuple[str, ...], tuple[str, ...]]  # whether a log-in is required; `allowed`; `owners`
SECTIONS = ("auth", "access")
LOGIN_KEYS = {"redirect_uri", "cookie_secret"}  # a section with one of these keys is meant to be [auth]
HOST, OWN_HOST = re.compile(r"[a-z\d.-]+(:\d+)?"), re.compile(r"(localhost|127\.0\.0\.1)(:\d+)?")
ADDRESS_OF_HOST = re.compile(r"https?://[^/?#\\]*", re.IGNORECASE)
PICTURE_TYPE = re.compile(
    rb"(?P<png>\x89PNG\r\n\x1a\n)|(?P<jpeg>\xff\xd8\xff)|(?P<gif>GIF8[79]a)|(?P<webp>RIFF.{4}WEBP)", re.DOTALL
)
MOST_PICTURE_BYTES = 10 * 2**20
TOKEN: ContextVar[Row | None] = ContextVar("TOKEN", default=None)  # the token of a program's request; None on a page

_login_required = False  # once True, a changed or missing secrets file never opens the app in this server process


class Closed(ValueError):
    """Raised if the secrets do not clearly say who may enter. Then nobody may."""


@dataclass(frozen=True)
class Standing:
    """The permissions of a user. problem: sentence shown to a user who may not enter. mail: address of the log-in."""

    enters: bool = False
    owns: bool = False
    problem: str = ""
    mail: str = ""


STANDING: ContextVar[Standing | None] = ContextVar("STANDING", default=None)  # permissions of a card's user


def standing(person: Mapping[str, Any]) -> Standing:
    """Return the permissions of a person. person: the claims of the log-in, a mapping like `st.user`."""
    try:
        login, allowed, owners = _rules()
    except Closed as problem:
        return Standing(problem=f"For the owner of this app: {problem}")
    if not login:
        return Standing(enters=True, owns=True)
    if person.get("is_logged_in") is not True:
        return Standing(problem=LOG_IN)
    mail = address(str(person.get("email") or ""))
    if not ADDRESS.fullmatch(mail):
        return Standing(problem="An account without an e-mail address cannot enter.")
    if str(person.get("email_verified", True)).lower() != "true":
        return Standing(problem=f"The address {mail} is not verified by the provider of your log-in.")
    owns = _listed(mail, owners)
    if owns or _listed(mail, allowed):
        return Standing(enters=True, owns=owns, mail=mail)
    return Standing(problem=f"{mail} is not on the list of who may enter.")


def role(store: Store, session: int, who: Standing) -> str | None:
    """Return the role of a person with the permissions `who` in a session: owner, annotator, reader, or None. Owners of
    the studio own every session."""
    return "owner" if who.owns else store.role(session, who.mail) if who.enters else None


def holder(mail: str) -> Standing:
    """Return the permissions of the person with an e-mail address, whom an API token may name. If the app requires a
    log-in, a person who is on no list of the secrets has no permissions."""
    return standing({"is_logged_in": True, "email": mail})


def role_of_token(store: Store, session: int, token: Row) -> str | None:
    """Return the role that an API token gives in a session: the lower of the token's own role and the current role of
    the person whom it names. None if that person has no role, or the token is for another session."""
    own = role(store, session, holder(token["annotator"]))
    return min(own, token["role"], key=ROLES.index) if own and session == token["session"] else None


def visible_datasets(store: Store, person: Mapping[str, Any]) -> set[int]:
    """Return the ids of the data sets that a person may see."""
    who = standing(person)
    return {row["id"] for row in store.datasets()} if who.owns else store.visible_datasets(who.mail)


def files_folder() -> Path | None:
    """Return the folder whose files may be imported (OAL_FILES), or None if it is not set or the app has a log-in."""
    folder = os.environ.get("OAL_FILES")
    try:
        return Path(folder).resolve() if folder and not _rules()[0] else None
    except Closed:
        return None


def served(name: str, kind: Literal["file", "folder"] = "file") -> Path:
    """Return the path of a file or folder in `files_folder`, given its name or relative path. Raise ValueError if it
    does not exist."""
    if (folder := files_folder()) is None:
        raise ValueError("Files of the server can be imported only if OAL_FILES names their folder and nobody logs in.")
    return _inside(folder, name, kind)


def picture_hosts() -> tuple[str, ...]:
    """Return the scheme and host of pictures that may be shown (OAL_PICTURE_HOSTS): https, and http on this machine."""
    hosts = [*filter(None, map(str.strip, os.environ.get("OAL_PICTURE_HOSTS", "").lower().split(",")))]
    if wrong := [host for host in hosts if not HOST.fullmatch(host)]:
        raise ValueError(f"OAL_PICTURE_HOSTS must be host names, separated by commas. Got {wrong[0]}.")
    return tuple(f"http{'' if OWN_HOST.fullmatch(host) else 's'}://{host}" for host in hosts)


def why_not_shown(picture: str) -> str:
    """Return the reason not to show a picture, given its address or its path in OAL_PICTURES; "" if it may be shown."""
    if host := ADDRESS_OF_HOST.match(picture):
        setting = "" if host[0].lower() in picture_hosts() else "OAL_PICTURE_HOSTS names its host"
    else:
        setting = "" if os.environ.get("OAL_PICTURES") else "OAL_PICTURES names its folder"
    return setting and f"Its picture is shown if the server's setting {setting}."


def picture(name: str) -> tuple[str, bytes]:
    """Read a picture in the folder OAL_PICTURES, given its relative path. Return its media type and its bytes. Raise
    ValueError if it is not there, too large, or not a PNG, JPEG, GIF or WebP."""
    if reason := why_not_shown(name):
        raise ValueError(reason)
    path = _inside(Path(os.environ["OAL_PICTURES"]).resolve(), name)
    with path.open("rb") as file:
        content = file.read(MOST_PICTURE_BYTES + 1)
    if not (kind := PICTURE_TYPE.match(content)) or len(content) > MOST_PICTURE_BYTES:
        raise ValueError(f"A picture must be a PNG, JPEG, GIF or WebP of at most {MOST_PICTURE_BYTES:,} bytes.")
    return f"image/{kind.lastgroup}", content


def _inside(folder: Path, name: str, kind: Literal["file", "folder"] = "file") -> Path:
    try:
        path = (folder / name).resolve()
        if path.is_relative_to(folder) and (path.is_file() if kind == "file" else path.is_dir()):
            return path
    except (OSError, ValueError):  # too long, or with a character that file names cannot have
        pass
    raise ValueError(f"The folder {folder.name} has no {kind} {name}.")


def _rules() -> Rules:
    """Return the rules in the secrets, and remember whether they ever required a log-in."""
    global _login_required
    try:
        rules = _read_rules()
    except Closed:
        _login_required = True
        raise
    if rules[0]:
        _login_required = True
    return rules


def _read_rules() -> Rules:
    secrets: dict[str, Any] = {}
    named = config.is_manually_set("secrets.files")
    paths = config.get_option("secrets.files") if named else _usual_files(os.getcwd(), os.environ.get("HOME"))
    for path in paths:
        secrets |= _read(path, must_exist=named)
    for name, value in secrets.items():
        keys = {name, *value} if isinstance(value, dict) else {name}
        like = name.strip().lower()
        if name not in SECTIONS and ("auth" in like or like == "access" or LOGIN_KEYS & keys):
            raise Closed(f"The secrets have {name} where [auth] or [access] is expected.")
    if "auth" not in secrets:
        if "access" in secrets:
            raise Closed("The secrets have a section [access] but no [auth], without which nobody can log in.")
        if _login_required:
            raise Closed(
                "The secrets asked for a log-in, or were unclear, and have no [auth] now. Put it back, or start the "
                "server again to run it without a log-in."
            )
        return False, (), ()
    if not isinstance(secrets["auth"], dict):
        raise Closed("auth in the secrets must be a section: [auth].")
    access = secrets.get("access", {})
    if not isinstance(access, dict) or set(access) - {"allowed", "owners"}:
        raise Closed("[access] in the secrets must be a section of the lists allowed and owners, and of nothing else.")
    allowed, owners = (_entries(access, name) for name in ("allowed", "owners"))
    if not allowed and not owners:
        raise Closed(
            "Nobody is let in: the secrets have [auth], but no list of who may enter. Write [access] and below it "
            'allowed = ["anna@example.org", "@example.org"], or ["*"] for every account of the provider.'
        )
    if st.secrets.load_if_toml_exists() and st.secrets.to_dict().get("auth") != secrets["auth"]:
        st.secrets._reset()  # Streamlit checks log-ins with a copy, which would stay outdated after a file is mended
    return True, allowed, owners


@cache
def _usual_files(folder: str, home: str | None) -> list[str]:
    """Return the secrets files that Streamlit reads by default. Cached by working folder and home folder, because
    finding the files costs more than reading them."""
    return config.get_option("secrets.files")


def _read(path: str, must_exist: bool) -> dict[str, Any]:
    """Return the secrets of a TOML file, or {} if it is missing and need not exist."""
    try:
        with open(path, "rb") as file:
            secrets = tomllib.load(file)
    except FileNotFoundError as error:
        if must_exist or os.path.islink(path):
            raise Closed(f"The secrets {_short(path)} are missing.") from error
        return {}
    except OSError as error:
        raise Closed(f"The secrets {_short(path)} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise Closed(f"The secrets {_short(path)} cannot be read: {error}.") from error
    if not secrets:
        raise Closed(f"The secrets {_short(path)} are empty.")
    return secrets


def _short(path: str) -> str:
    return "/".join(Path(path).parts[-2:])


def _entries(access: dict[str, Any], name: str) -> tuple[str, ...]:
    """Return the entries of a list in [access]: e-mail addresses, @domains, or *."""
    entries = access.get(name, [])
    if not isinstance(entries, list):
        raise Closed(f"{name} in [access] must be a list.")
    for nth, entry in enumerate(entries, 1):  # the message does not quote the entry: every visitor can read it
        if not isinstance(entry, str) or not (entry == "*" or re.fullmatch(r"[^@\s*]*@[^@\s*]+", entry.strip())):
            raise Closed(f'{name} in [access] must hold e-mail addresses, "@domains" or "*". Entry {nth} is not valid.')
    return tuple(address(entry.strip()) for entry in entries)


def _listed(mail: str, entries: tuple[str, ...]) -> bool:
    return not {"*", mail[mail.rindex("@") :], mail}.isdisjoint(entries)
