"""The frame of every page: settings, log-in, the store, and text that is shown literally, never as markup."""

import html
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from urllib.parse import quote, unquote

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from oal_engine.datasets import sweep
from oal_engine.output.jsonlines import UNWRITABLE
from oal_engine.places import database_path
from oal_engine.sessions.log import unseen
from oal_engine.sessions.settings import SessionError, Settings
from oal_engine.store import RESTORABLE, MissingError, Row, StorageError, Store

from . import access
from .components import text
from .meanings import STYLE as EXPLAINED

STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding: 1rem 2rem 2rem; max-width: 1500px; }
[data-testid="stHeader"] { background: transparent; pointer-events: none; }
[data-testid="stHeader"] button { pointer-events: auto; }
h1 { font-size: 1.9rem !important; padding: .4rem 0 .2rem !important; }
[data-testid="stButtonGroup"] [data-selected="true"] p,
[data-testid="stSliderThumbValue"] p, [data-testid="stSlider"] [role="slider"] p,
[role="tab"][aria-selected="true"] p { color: light-dark(#0f6b62, #5cc2b4); }
[data-testid="stMain"]:focus-visible, [data-testid="stPageLink-NavLink"]:focus-visible,
[data-testid="stFileUploader"] button:focus-visible {
  outline: 2px solid currentColor !important; outline-offset: -2px !important;
}
[data-testid="stMain"] :is(h2, h3) { font-size: 1.2rem !important; padding: .4rem 0 .7rem !important; }
[data-testid="stMarkdownContainer"] table { display: block; overflow-x: auto; }
[data-testid="stMultiSelectTagsContainer"] { flex-wrap: wrap; overflow: visible; mask: none; height: auto; }
:has(> [data-testid="stMultiSelectTagsContainer"]) { height: auto; max-height: none; }
[data-testid="stMultiSelect"] [data-tag] { height: auto; min-height: 28px; max-width: 100%; }
[data-testid="stMultiSelect"] [data-tag] > span { white-space: normal; overflow-wrap: anywhere; min-width: 0; }
[data-variant="pills"] { height: auto; max-width: min(100%, 100vw - 5rem); }
[data-variant="pills"] * { white-space: normal; overflow-wrap: anywhere; min-width: 0; }
[class*="st-key-row-"] { flex-wrap: nowrap !important; }
.st-key-pulse { position: absolute !important; }
[class*="st-key-row-"] > :first-child { min-width: 0 !important; }
[data-testid="stApp"]:not([data-test-connection-state="CONNECTED"])::after {
  content: "The server cannot be reached. This page continues when it is back."; animation: oal-late .2s 4s both;
  position: fixed; inset: auto 0 .8rem; margin: auto; width: fit-content; max-width: 90vw; padding: .4rem .9rem;
  border-radius: .5rem; background: light-dark(#1c2024, #fafafa); color: light-dark(#fff, #1c2024); font-size: .875rem;
}
@keyframes oal-late { from { opacity: 0; } }
.oal-name { display: flex; align-items: center; gap: .4rem; font-size: 1.05rem; white-space: nowrap; }
.oal-name img { width: 1.4em; height: 1.4em; flex: none; }
.oal-steps { max-width: 60rem; margin: 1rem 0 0; }
.oal-steps img { display: block; width: 100%; }
.oal-steps ol { display: grid; grid-template-columns: repeat(3, 1fr); gap: 1rem; margin: .6rem 0 0; padding: 0; }
.oal-steps li { margin-left: 1.3rem; padding: 0; line-height: 1.35; }
.oal-entry { line-height: 1.35; overflow-wrap: anywhere; }
.oal-entry span { opacity: .75; }
@media (max-height: 44rem) {
  [data-testid="stMainBlockContainer"] { padding-top: .5rem; }
  [data-testid="stElementContainer"]:has(.oal-heading) { display: none; }
}
@media (max-width: 640px) {
  [data-testid="stMainBlockContainer"] { padding: .8rem .9rem 1rem; }
  h1 { font-size: 1.5rem !important; }
  .st-key-top { gap: .1rem !important; flex-wrap: nowrap !important; }
  .st-key-top > :last-child { min-width: 0 !important; }
  .st-key-top a { padding: .3rem .3rem; }
  .st-key-top p { font-size: .875rem; }
  .st-key-top button { padding: .2rem .5rem; max-width: 5.6rem; }
  .st-key-top button > div { margin-right: 0; }
  .st-key-top button p { overflow: hidden; white-space: nowrap; }
  .st-key-top button [aria-hidden="true"] { display: none; }
  .oal-wide { display: none !important; }
  .oal-steps ol { gap: .4rem; font-size: .875rem; }
}
</style>"""
SCRIPT = text(["popover.js", "keep_focus.js"])
RETRY_SECONDS = 5  # between two attempts to draw a page after a database error
COOKIE = "oal-annotator"  # remembers the annotator's name in this browser
REMEMBER = f'document.cookie = "{COOKIE}=%s; path=/; max-age=31536000; SameSite=Lax"'
PAGES = {
    "Home": "home.py",
    "Label": "pages/1_Label.py",
    "Compare": "pages/2_Compare.py",
    "Replay": "pages/3_Replay.py",
    "Data": "pages/4_Data.py",
}
DOCS = "Docs"  # a page without a link above the others


def open_page(title: str) -> None:
    """Begin a page. Every page calls it, because a deep link runs no other script first."""
    logo = drawing("logo.svg")
    st.set_page_config(title + " · OAL Studio", page_icon=logo, layout="wide")
    st.html(STYLE + EXPLAINED)
    _let_in()
    session, (name, login) = st.query_params.get("session"), who_labels()
    script = f"<script>{SCRIPT}{'' if login else REMEMBER % quote(name)}</script>"
    with st.container(key="top", horizontal=True, vertical_alignment="center", gap="small"):
        st.html(
            f'<b class="oal-name"><img alt="" src="{logo}"><span class="oal-wide">OAL Studio</span></b>{script}',
            width="content",
            unsafe_allow_javascript=True,
        )
        for name, page in PAGES.items():
            st.page_link(page, label=name, query_params={"session": session} if session else None)
        with st.container(horizontal=True, horizontal_alignment="right"):
            _who()


@cache
def drawing(name: str) -> str:
    """Return an SVG of ui/components as a data: URL, which the browser need not fetch."""
    return "data:image/svg+xml;base64," + b64encode(text([name]).encode()).decode()


def _let_in() -> None:
    """End the page with one sentence if the user may not enter."""
    standing = _standing()
    if standing.enters:
        return
    st.title("OAL Studio", anchor=False)
    if standing.problem == access.LOG_IN:
        st.text(standing.problem)
        st.button("Log in", type="primary", on_click=st.login)
    else:
        complain(standing.problem)
        if logged_in():
            st.button("Log out", on_click=st.logout)
    st.stop()


def stay_in() -> None:
    """Rerun the whole page, from within a fragment, if the user may no longer enter."""
    if not _standing().enters:
        st.rerun()


def owns() -> bool:
    """Tell whether the user owns the studio, and so may remove and change everything in it."""
    return _standing().owns


def _standing() -> access.Standing:
    token = access.TOKEN.get()
    return access.holder(token["annotator"]) if token else access.STANDING.get() or access.standing(st.user.to_dict())


def mail() -> str:
    """Return the e-mail address that the user logged in with ("" if the app has no log-in)."""
    return _standing().mail


def person() -> str:
    """Return who uses the page: the e-mail address, or the browser session if the app has no log-in."""
    context = get_script_run_ctx()
    return mail() or (context.session_id if context else "")


def role(store: Store, session: int) -> str | None:
    """Return the role of the user, or of a program's token, in a session: owner, annotator, reader, or None."""
    if token := access.TOKEN.get():
        return access.role_of_token(store, session, token)
    return access.role(store, session, _standing())


def sessions(store: Store) -> list[Row]:
    """Return the rows of `Store.sessions` for the sessions in which the user has a role."""
    who = _standing()
    return [row for row in store.sessions() if who.owns or store.role(row["id"], who.mail)]


def visible_datasets(store: Store) -> set[int]:
    """Return the ids of the data sets that the user may see."""
    return access.visible_datasets(store, st.user.to_dict())


def datasets(store: Store) -> list[Row]:
    """Return the rows of `Store.datasets` that the user may see. Only studio owners see the number of sessions."""
    if owns():
        return store.datasets()
    seen = visible_datasets(store)
    return [row | {"sessions": 0} for row in store.datasets() if row["id"] in seen]


def logged_in() -> bool:
    """Tell whether the user has logged in."""
    return getattr(st.user, "is_logged_in", False)


def who_labels() -> tuple[str, bool]:
    """Return the annotator's name, and whether it comes from a log-in. Call it once per run: it reads the secrets."""
    if logged_in():
        return mail(), True
    if "annotator" not in st.session_state:
        cookie = st.context.cookies.get(COOKIE)
        remembered = unquote(cookie) if isinstance(cookie, str) else ""  # in tests it is not a string
        st.session_state["annotator"] = UNWRITABLE.sub("", st.query_params.get("annotator", remembered))[:80]
    return st.session_state["annotator"], False


def annotator() -> str:
    """Return the annotator's name: the address of the log-in, or the name typed in."""
    return who_labels()[0]


def _who() -> None:
    name = annotator()
    with st.popover(literal(name) or "Your name"):
        if logged_in():
            st.button("Log out", on_click=st.logout)
        else:
            typed = st.text_input("Your name", name, max_chars=80, help="Stored with each label you give.")
            typed = UNWRITABLE.sub("", typed).strip()
            if typed != name:
                session = st.query_params.get("session", "")
                if session.isdecimal() and int(session) in {row["id"] for row in sessions(store())}:
                    store().pass_on(int(session), name, typed)  # so that the person's card keeps its item
                st.session_state["annotator"] = typed
                st.rerun()


@st.cache_resource
def store() -> Store:
    """Return the one store of this server process. It waits only 5 s for a locked database, so errors show soon."""
    opened = Store(patience=5)
    sweep(opened)
    opened.erase_removed()
    return opened


REMOVED = f"this session was removed. Its owner can restore it for {RESTORABLE.days} days."
NO_ROLE = "you have no role in this session any more."
ONLY_READS = "you may read this session, but not answer in it."


class Removed(SessionError):
    """Raised if the session of an open page was removed, or the user lost their role in it."""


def checked_role(store: Store, session: int, is_read: bool = False) -> str:
    """Return the role of the user in a session. Raise Removed if the session is gone or the user has no role in it.
    Every page and every message of a browser is checked here. is_read: whether the caller reads the session anyway, in
    `removed_in_words`."""
    if not is_read:
        with removed_in_words():
            store.log_version(session)
    if not (own := role(store, session)):
        raise Removed(NO_ROLE)
    return own


def stored_settings(store: Store, session: int) -> Settings:
    """Read the settings of a session. Raise Removed as in `checked_role`."""
    checked_role(store, session)
    return Settings.read(store, session)


@contextmanager
def removed_in_words() -> Iterator[None]:
    """Raise Removed if the block finds that a session is gone."""
    try:
        yield
    except MissingError:
        raise Removed(REMOVED) from None


def reason_to_withhold(store: Store, session: int, name: str, role: str | None) -> str:
    """Return the reason to hide all answers of a session from an annotator, or "" if they may read the answers.

    Somebody who still has to give second answers must not see the first ones. Readers and people who do not label in
    the session may read everything.
    """
    if not (questions := unseen(store, session, name)) or role == "reader":
        return ""
    if role != "annotator" and all(row["annotator"] != name for row in store.answers(session)):
        return ""
    items = counted(len(questions), "item")
    return f"You may still be asked for a second answer to {items}. The first answers can be read after that."


def check_may_answer(store: Store, session: int, is_read: bool = False) -> None:
    """Raise SessionError if the user may not answer in a session, or Removed as in `checked_role`."""
    if checked_role(store, session, is_read) == "reader":
        raise SessionError(ONLY_READS)


@contextmanager
def guarded() -> Iterator[None]:
    """Show an error as one sentence instead of a traceback, and rerun the page until a database error is over.

    Use it around every page and again around each fragment, because a fragment runs without its page.
    """
    try:
        yield
    except Removed as gone:
        complain(capitalized(str(gone)))
        st.page_link("home.py", label="All sessions")
    except StorageError as error:
        complain(error_in_words(error))
        _try_again()
    except (ValueError, OSError) as error:
        complain(error_in_words(error))


def _try_again() -> None:
    """Rerun the page every few seconds until the database can be read, even if the server restarts meanwhile."""
    first = True

    @st.fragment(run_every=RETRY_SECONDS)
    def rerun_later() -> None:
        nonlocal first
        if not first:
            st.rerun()
        first = False

    rerun_later()


def chosen_session(store: Store) -> int | None:
    """Return the session in the address, or else the session last worked on. None if the user has no session.

    A session that does not exist and a session that is not open to the user get the same message.
    """
    asked = st.query_params.get("session", "")
    open_to = [row["id"] for row in sessions(store)]
    if not (asked or open_to):
        return None
    if not asked:
        st.query_params["session"] = str(open_to[0])  # so that the address can be sent
        return open_to[0]
    if not asked.isdecimal() or int(asked) not in open_to:
        if asked in {str(row["id"]) for row in store.removed_sessions() if role(store, row["id"])}:
            complain(capitalized(REMOVED))
        else:
            here = f", or is not open to {mail() or 'you'}. Ask its owner" if logged_in() else ""
            complain(f"Session {asked} does not exist{here}.")
        st.page_link("home.py", label="All sessions")
        st.stop()
    return int(asked)


def heading(name: str, details: str = "") -> None:
    """Show a session's name, and details in wide windows."""
    st.html(
        '<div class="oal-heading" style="display:flex;gap:.2rem 1rem;flex-wrap:wrap;align-items:baseline;'
        'overflow-wrap:anywhere">'
        f'<b style="font-size:1.25rem" dir="auto">{html.escape(name)}</b>'
        f'<span class="oal-wide" style="opacity:.75">{html.escape(details)}</span></div>'
    )


def complain(problem: object) -> None:
    """Show one sentence as an error, literally: it may contain words of the data."""
    note(problem, "rgba(200, 40, 40, .12)")


def note(words: object, color: str = "rgba(60, 130, 120, .13)") -> None:
    """Show one sentence in a quiet box, literally."""
    style = f"margin:0;padding:.7rem 1rem;border-radius:.5rem;overflow-wrap:anywhere;background:{color}"
    st.html(f'<p role="status" style="{style}">{html.escape(str(words))}</p>')


def say(*sentences: str, margin: str = "0") -> None:
    """Show sentences as paragraphs, literally. margin: as in CSS."""
    style = f"margin:{margin};font-size:.92rem"
    st.html("".join(f'<p style="{style}">{html.escape(each)}</p>' for each in sentences))


def small_note(words: str) -> None:
    """Show one sentence in small letters below the widget that it is about, literally."""
    st.html(f'<p style="opacity:.8;font-size:.88rem;margin:-.5rem 0 0;overflow-wrap:anywhere">{html.escape(words)}</p>')


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def entry(name: str, *details: str) -> str:
    """Return HTML of a name with a line of details under it, escaped."""
    below = html.escape(" · ".join(details))
    return f'<div class="oal-entry"><b dir="auto">{html.escape(name)}</b><br><span>{below}</span></div>'


def error_in_words(error: object) -> str:
    """Return an error in words. Only owners of the studio are told in which folder of the server a file is."""
    folder = f"{database_path().absolute().parent}{os.sep}"
    return str(error) if owns() else str(error).replace(folder, "")


def capitalized(words: str) -> str:
    """Return a sentence with a capital first letter."""
    return words[:1].upper() + words[1:]


def remove_after_asking(
    what: str, may_remove: Callable[[], bool], remove: Callable[[], object], after: str = "It cannot be undone."
) -> None:
    """Ask whether to remove something, and call `remove` if the user agrees and still may.

    what: the thing, in words. after: a sentence on whether the removal can be undone.
    """

    def attempt() -> None:
        try:
            if not may_remove():
                raise SessionError("You may not remove this any more.")
            remove()
        except (ValueError, OSError) as error:
            st.session_state["remove-problem"] = error

    @st.dialog("Remove")
    def ask() -> None:
        st.text(f"Remove {what}? {after}")
        sure = st.button("Remove", type="primary", key="remove-sure", on_click=attempt)
        if problem := st.session_state.pop("remove-problem", None):
            complain(problem)
        elif sure:
            st.rerun()

    ask()


def one_row(name: str) -> DeltaGenerator:
    """Return a container that stays one row, even on a phone: the first element leaves room for buttons after it."""
    return st.container(key=f"row-{name}", horizontal=True, vertical_alignment="center")


def linked(words: str) -> str:
    """Escape text as `literal`, and make the paths of pages of the documentation links to them."""
    parts = re.split(r"docs/([\w-]+)\.md", words)
    return "".join(f"[{part}]({DOCS}?page={part})" if k % 2 else literal(part) for k, part in enumerate(parts))


def literal(words: object) -> str:
    """Escape text for labels and options, in which Streamlit would interpret Markdown."""
    return "".join("\\" + c if c in r"\`*_{}[]()#+-.!~$:<>|&" else c for c in str(words).replace("\n", " "))
