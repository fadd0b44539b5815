"""Who may do what: who is let in, who owns, who has which role in a session, and which files on the server may be read.

The rules are read from the secrets at every question, and the roles from the store, so that a change holds at once.
Whatever is unclear in the secrets closes the app to everybody.
"""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit import config

from oal_engine.store import ADDRESS, Store, address

LOG_IN = "Log in to label and to see the data."
Rules = tuple[bool, tuple[str, ...], tuple[str, ...]]  # whether people log in; who is let in; who owns
SECTIONS = ("auth", "access")
LOGIN_KEYS = {"redirect_uri", "cookie_secret"}  # of [auth]: a section that has them is one, whatever its name

_login_required = False  # once it is, in this server process, no file that changes or goes away opens the app


class Closed(ValueError):
    """The secrets do not say clearly who may enter, so nobody does."""


@dataclass(frozen=True)
class Standing:
    """What somebody may do here; `problem` is what who may not enter is told, `mail` the address of a log-in."""

    enters: bool = False
    owns: bool = False
    problem: str = ""
    mail: str = ""


def standing(person: Mapping[str, Any]) -> Standing:
    """What somebody may do, by what the log-in says of them: a mapping like `st.user`."""
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


def lets_in(mail: str) -> bool:
    """Whether the lists let in an e-mail address."""
    return standing({"is_logged_in": True, "email": mail}).enters


def role(store: Store, session: int, person: Mapping[str, Any]) -> str | None:
    """The role of somebody, as in `standing`, in a session: owner, annotator, reader, or None; who owns the studio owns
    every session."""
    who = standing(person)
    if who.owns:
        return "owner"
    return store.role(session, who.mail) if who.enters else None


def visible_datasets(store: Store, person: Mapping[str, Any]) -> set[int]:
    """The data sets that somebody, as in `standing`, may see."""
    who = standing(person)
    return {row["id"] for row in store.datasets()} if who.owns else store.visible_datasets(who.mail)


def files_folder() -> Path | None:
    """The folder of the server whose files may be imported: OAL_FILES, never where people log in; None without one."""
    named = os.environ.get("OAL_FILES")
    return Path(named).resolve() if named and not _is_login_required() else None


def served_file(name: str) -> Path:
    """The file of a name, or of a path, inside the folder of `files_folder`."""
    return _served(name, "file", Path.is_file)


def served_folder(name: str) -> Path:
    """The folder of a name, or of a path, inside the folder of `files_folder`."""
    return _served(name, "folder", Path.is_dir)


def _served(name: str, kind: str, is_kind: Callable[[Path], bool]) -> Path:
    folder = files_folder()
    if folder is None:
        raise ValueError("Files of the server can be imported where OAL_FILES names their folder, without a log-in.")
    try:
        path = (folder / name).resolve()
        if path.is_relative_to(folder) and is_kind(path):
            return path
    except (OSError, ValueError):  # too long, or with a character that no name has
        pass
    raise ValueError(f"There is no {kind} {name} in the folder {folder.name}.")


def _is_login_required() -> bool:
    try:
        return _rules()[0]
    except Closed:
        return True


def _rules() -> Rules:
    """Whether people log in, and the entries of the lists of who is let in and of who owns."""
    global _login_required
    try:
        rules = _read_rules()
    except Closed:
        _login_required = True
        raise
    if rules[0]:
        _login_required = True
    return rules


def _tell_streamlit(auth: dict[str, Any]) -> None:
    """Have Streamlit read the secrets again: its copy, which checks log-ins, does not follow a file that was broken."""
    if st.secrets.load_if_toml_exists() and st.secrets.to_dict().get("auth") != auth:
        st.secrets._reset()


def _read_rules() -> Rules:
    secrets: dict[str, Any] = {}
    named = config.is_manually_set("secrets.files")
    for path in config.get_option("secrets.files"):
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
    _tell_streamlit(secrets["auth"])
    return True, allowed, owners


def _read(path: str, must_exist: bool) -> dict[str, Any]:
    """The secrets of a file; none where it is one of those that need not exist, and does not."""
    shown = "/".join(Path(path).parts[-2:])
    try:
        with open(path, "rb") as file:
            secrets = tomllib.load(file)
    except FileNotFoundError as error:
        if must_exist or os.path.islink(path):
            raise Closed(f"The secrets {shown} are missing.") from error
        return {}
    except OSError as error:
        raise Closed(f"The secrets {shown} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise Closed(f"The secrets {shown} cannot be read: {error}.") from error
    if not secrets:
        raise Closed(f"The secrets {shown} are empty.")
    return secrets


def _entries(access: dict[str, Any], name: str) -> tuple[str, ...]:
    """The entries of a list: e-mail addresses, @domains, or *."""
    entries = access.get(name, [])
    if not isinstance(entries, list):
        raise Closed(f"{name} in [access] must be a list.")
    for nth, entry in enumerate(entries, 1):  # what is wrong is not shown: whoever comes reads the sentence
        if not isinstance(entry, str) or not (entry == "*" or re.fullmatch(r"[^@\s*]*@[^@\s*]+", entry.strip())):
            raise Closed(f'{name} in [access] must hold e-mail addresses, "@domains" or "*". Number {nth} is none.')
    return tuple(address(entry) for entry in entries)


def _listed(mail: str, entries: tuple[str, ...]) -> bool:
    return not {"*", mail[mail.rindex("@") :], mail}.isdisjoint(entries)
