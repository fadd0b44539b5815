"""Access: unclear secrets close the app to everybody; lists in the secrets name the people who may enter and the
owners."""

import asyncio
import html
import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
import streamlit as st
import uvicorn
from streamlit import config
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.Navigation_pb2 import Navigation
from streamlit.testing.v1 import AppTest
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from oal_engine import datasets
from oal_engine.sessions.settings import create
from tests.harness import ROOT
from tests.harness.pages import BINARY
from tests.harness.sessions import stream_of
from ui import access
from ui.api import server as api
from ui.gate import Gate
from ui.page import PAGES

SECRET = "a-secret-of-the-server-and-of-nobody-else"
AUTH = f'[auth]\ncookie_secret = "{SECRET}"\n'
LISTS = AUTH + '[access]\nallowed = ["ben@example.org", "@lab.example"]\nowners = ["Anna@Example.org"]\n'


def user(email, **claims):
    return {"is_logged_in": True, "email": email} | claims


@pytest.fixture
def secrets(tmp_path, monkeypatch):
    """The path of the secrets file of a server that has just started; the file does not exist yet."""
    monkeypatch.setattr(access, "_login_required", False)
    # Otherwise a thread of Streamlit would read its own copy of the secrets, perhaps from a half-written file.
    monkeypatch.setattr(type(st.secrets), "_maybe_install_file_watchers", lambda secrets: None)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".streamlit").mkdir()
    return tmp_path / ".streamlit" / "secrets.toml"


UNCLEAR = {
    "a typo": b'[auth\ncookie_secret = "x"',
    "an unfinished save": b"",
    "no text": b"\xff\xfe[auth]",
    "another case": LISTS.replace("[auth]", "[Auth]").encode(),
    "another name": LISTS.replace("[auth]", "[oauth]").encode(),
    "a name of its own": AUTH.replace("[auth]", "[log-in]").encode(),
    "no section": AUTH.replace("[auth]\n", "").encode(),
    "no section but a word": b'auth = "google"',
    "a list without a log-in": b'[access]\nallowed = ["ben@example.org"]',
    "no list": AUTH.encode(),
    "an empty list": (AUTH + "[access]\nallowed = []").encode(),
    "a list in another case": (AUTH + '[Access]\nallowed = ["*"]').encode(),
    "a list of another name": (AUTH + '[access]\nallow = ["*"]').encode(),
    "a word for a list": (AUTH + '[access]\nallowed = "ben@example.org"').encode(),
    "a name for an address": (AUTH + '[access]\nallowed = ["ben"]').encode(),
    "a domain without its at": (AUTH + '[access]\nallowed = ["*", "lab.example"]').encode(),
    "a star in an address": (AUTH + '[access]\nallowed = ["*", "*@example.org"]').encode(),
    "nothing but an at": (AUTH + '[access]\nallowed = ["@"]').encode(),
    "a folder": os.mkdir,
    "a broken link": partial(os.symlink, "gone"),
}


def put(path, written):
    """Replace a file of secrets by other contents, by what the function `written` makes there, or by nothing."""
    if os.path.lexists(path):
        path.rmdir() if path.is_dir() else path.unlink()
    if callable(written):
        written(path)
    elif written is not None:
        path.write_bytes(written)


@pytest.mark.parametrize("written", UNCLEAR.values(), ids=list(UNCLEAR))
def test_unclear_secrets_let_nobody_in(secrets, written):
    """Secrets that cannot be understood close the app with a reason, even to people who are logged in, at its start and
    later. Clear secrets let people in again."""
    for _ in range(2):
        put(secrets, written)
        for person in ({}, user("ben@example.org"), user("anna@example.org")):
            standing = access.standing(person)
            assert (False, False) == (standing.enters, standing.owns)
            assert standing.problem.endswith(".")
            assert access.LOG_IN != standing.problem
        put(secrets, LISTS.encode())
        assert access.standing(user("ben@example.org")).enters


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_secrets_that_may_not_be_read_let_nobody_in(secrets):
    secrets.write_text(LISTS)
    secrets.chmod(0)
    assert not access.standing({}).enters


def test_secrets_that_the_command_names_must_exist(secrets, monkeypatch):
    option = config.get_config_options()["secrets.files"]
    monkeypatch.setattr(option, "where_defined", "command-line argument or environment variable")
    assert "The secrets .streamlit/secrets.toml are missing." in access.standing({}).problem


@pytest.mark.parametrize("written", [None, "[database]\nurl = 'somewhere'"])
def test_without_a_log_in_everybody_is_an_owner(secrets, written):
    if written:
        secrets.write_text(written)
    assert access.Standing(enters=True, owns=True) == access.standing({})


@pytest.mark.parametrize("written", [b"[database]\nurl = 'somewhere'", None])
def test_a_server_that_asked_for_a_log_in_never_opens(secrets, written):
    """Secrets that were removed or no longer concern access close a running app."""
    put(secrets, LISTS.encode())
    assert access.standing(user("ben@example.org")).enters
    put(secrets, written)
    assert not access.standing({}).enters
    assert not access.standing(user("ben@example.org")).enters


def test_unclear_secrets_are_not_mended_by_removing_them(secrets):
    secrets.write_text("[auth")
    assert not access.standing({}).enters
    secrets.unlink()
    assert "start the server again" in access.standing({}).problem


def test_two_files_of_secrets_count_as_one(secrets, tmp_path):
    """The secrets in the home folder and in the working directory are combined, and either file can close the app."""
    (tmp_path / "home" / ".streamlit").mkdir(parents=True)
    home = tmp_path / "home" / ".streamlit" / "secrets.toml"
    home.write_text('[access]\nallowed = ["@lab.example"]')
    secrets.write_text(AUTH)
    assert access.standing(user("ben@lab.example")).enters
    home.write_text("[access")
    assert not access.standing(user("ben@lab.example")).enters


PEOPLE = [
    (user("ben@example.org"), True, False),
    (user("BEN@Example.Org"), True, False),
    (user("carla@lab.example"), True, False),
    (user("anna@example.org"), True, True),
    (user("anna@example.org", email_verified=True), True, True),
    (user("anna@example.org", email_verified=False), False, False),
    (user("anna@example.org", email_verified="false"), False, False),
    (user("anna@example.org", email_verified=None), False, False),
    (user("eve@example.org"), False, False),
    (user("eve@lab.example.evil"), False, False),
    (user("eve@evil-lab.example"), False, False),
    (user("eve@sub.lab.example"), False, False),
    (user("@lab.example"), False, False),
    (user("ben@example.org", is_logged_in=False), False, False),
    (user("ben@example.org", is_logged_in="true"), False, False),
    ({"is_logged_in": True, "name": "ben@example.org"}, False, False),
    ({"email": "anna@example.org"}, False, False),
    ({}, False, False),
]


@pytest.mark.parametrize(("person", "enters", "owns"), PEOPLE)
def test_lists_say_who_enters_and_who_owns(secrets, person, enters, owns):
    """The lists match people by verified address or by domain, ignoring case. An owner need not be on the list of
    people who may enter."""
    secrets.write_text(LISTS)
    standing = access.standing(person)
    assert (enters, owns, enters) == (standing.enters, standing.owns, standing.problem == "")


def test_everybody_is_let_in_only_where_the_list_says_so(secrets):
    """A star lets in every account that has an address, and makes nobody an owner."""
    secrets.write_text(AUTH + '[access]\nallowed = ["*"]')
    assert access.Standing(enters=True, mail="eve@example.org") == access.standing(user("Eve@Example.org"))
    for email in ("", None, "Eve", "ben@"):
        standing = access.standing(user(email, name="ben@example.org"))
        assert (False, "An account without an e-mail address cannot enter.") == (standing.enters, standing.problem)


def test_addresses_are_the_same_by_the_letters_of_ascii_only(app_store, secrets):
    """The Kelvin sign does not count as a k in the lists, in roles, or in the owner of a session or data set."""
    kelvin, karl = "\u212aarl@example.org", "karl@example.org"
    secrets.write_text(AUTH + f'[access]\nallowed = ["Karl@example.org"]\nowners = ["x@{kelvin[0]}.org"]')
    assert (True, karl) == (access.standing(user("KARL@example.org")).enters, access.standing(user(karl)).mail)
    assert not access.standing(user(kelvin)).enters
    assert not access.standing(user("x@k.org")).enters
    data = datasets.add(app_store, "d", datasets.table(stream_of()[1]), "made.npz", owner="KARL@Example.org")
    session = create(app_store, data, "PAA-I", owner="Karl@Example.org")
    assert ["owner", None, None] == [app_store.role(session, mail) for mail in (karl.upper(), kelvin, "")]
    assert [{data}, set()] == [app_store.visible_datasets(mail) for mail in (karl.upper(), kelvin)]
    app_store.put_role(session, kelvin, "reader", karl)
    assert [karl, kelvin] == [row["mail"] for row in app_store.roles(session)]
    assert access.LOG_IN == access.standing({}).problem


def opened(page):
    at = AppTest.from_file(str(ROOT / "home.py"), default_timeout=60)
    return (at if page == "home.py" else at.switch_page(page)).run()


@pytest.mark.slow
@pytest.mark.parametrize("written", [b"[auth", b"", b"[Auth]\nclient_id = 'x'", LISTS.encode(), os.mkdir])
def test_no_page_shows_anything_to_who_may_not_enter(app_store, keep, secrets, monkeypatch, written):
    """Each page shows a person who may not enter only one sentence, with a log-in button if that helps, and no name of
    a session or data set."""
    monkeypatch.chdir(secrets.parent.parent)
    create(app_store, keep("hidden texts", 20), "PAA-I", name="a private session")
    put(secrets, written)
    for page in PAGES.values():
        at = opened(page)
        assert not at.exception
        shown = html.unescape(" ".join(str(element) for element in at.main))
        assert "private" not in shown
        assert "hidden" not in shown
        buttons = ["Log in"] if written == LISTS.encode() else []
        assert buttons == [button.label for button in at.button]
        assert 2 + len(buttons) == len(at.main.children)  # a title and a sentence


def removing(at):
    return [button.label for button in at.button if button.label.startswith(("Remove", "Delete", "Cancel"))]


@pytest.mark.slow
@pytest.mark.parametrize("owns", [True, False])
def test_only_owners_remove_and_add_to_what_is_there(app_store, keep, monkeypatch, owns):
    """People who are not owners get neither buttons to remove sessions or data sets nor a form to add items."""
    create(app_store, keep("used", 20), "PAA-I", name="kept")
    keep("unused", 20)
    monkeypatch.setattr(access, "standing", lambda person: access.Standing(enters=True, owns=owns))
    assert (["Remove this session"] if owns else []) == removing(opened("home.py"))
    data = opened("pages/4_Data.py")
    assert (["Remove", "Remove"] if owns else []) == removing(data)
    assert owns == any(control.key == "kind" for control in data.segmented_control)


@pytest.fixture
def folder(secrets, tmp_path, monkeypatch):
    """The folder that OAL_FILES names, with files and links in it and files outside."""
    folder = tmp_path / "shared"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "in.csv").write_text("text\na\n")
    (tmp_path / "out.csv").write_text("text\nsecret\n")
    (tmp_path / "shared2").mkdir()
    (tmp_path / "shared2" / "out.csv").write_text("text\nsecret\n")
    os.symlink("../out.csv", folder / "link.csv")
    os.symlink("below/in.csv", folder / "alias.csv")
    os.symlink("..", folder / "up")
    os.mkfifo(folder / "pipe.csv")
    monkeypatch.setenv("OAL_FILES", str(folder))
    return folder


def test_files_in_the_folder_of_the_owner_are_read(folder):
    """A file in the folder OAL_FILES is read by its relative or absolute path, or through a link that stays inside."""
    inside = folder / "below" / "in.csv"
    for name in ("below/in.csv", str(inside), "alias.csv", "below/../below/in.csv"):
        assert inside == access.served(name)


def test_folders_in_the_folder_of_the_owner_are_found(folder):
    """A folder inside OAL_FILES is found; files, missing paths and paths outside get the same refusal."""
    assert folder / "below" == access.served("below", "folder")
    for name in ("..", "up", "below/in.csv", "missing", "../shared2"):
        with pytest.raises(ValueError, match=r"^The folder shared has no folder .*\.$"):
            access.served(name, "folder")


OUTSIDE = ["../out.csv", "link.csv", "up/out.csv", "../shared2/out.csv", "/etc/passwd", "below", "pipe.csv"]


@pytest.mark.parametrize("name", [*OUTSIDE, "", "missing.csv", "a\0b", "x" * 5000])
def test_no_other_file_of_the_server_is_read(folder, name):
    """A file outside the folder OAL_FILES is refused with the same message as a missing one, so that nobody learns
    which files exist."""
    with pytest.raises(ValueError, match=r"^The folder shared has no file .*\.$"):
        access.served(name)


PNG = b"\x89PNG\r\n\x1a\n"


def test_a_picture_of_the_folder_is_known_by_its_content(folder, monkeypatch):
    """Pictures of four types are read in the folder OAL_PICTURES, whatever their names are; other, too large, missing
    and outer files are refused, and so is everything without a folder."""
    for setting in ("", str(folder)):
        monkeypatch.setenv("OAL_PICTURES", setting)
        monkeypatch.setattr(access, "MOST_PICTURE_BYTES", 20)
        heads = {"png": PNG, "jpeg": b"\xff\xd8\xff", "gif": b"GIF89a", "webp": b"RIFF\n\0\0\0WEBP"}
        for kind, head in heads.items():
            (folder / "a.png").write_bytes(head + b"more")
            if setting:
                assert (f"image/{kind}", head + b"more") == access.picture("a.png")
        for content in (b"", b"<svg>", b"<html>" + PNG, PNG + b"x" * 20):
            (folder / "b.png").write_bytes(content)
            with pytest.raises(ValueError, match=r"^A picture must be a PNG" if setting else "OAL_PICTURES"):
                access.picture("b.png")
        for name in (*OUTSIDE, "", "missing.png", "a.png" * (not setting)):
            with pytest.raises(ValueError, match="has no file" if setting else "OAL_PICTURES"):
                access.picture(name)


@pytest.mark.parametrize(("address", "shown"), [
    ("https://one.example/a.png", True),
    ("HTTPS://One.Example/a.png", True),
    ("https://two.example:8443/a.png", True),
    ("http://localhost:9/a.png", True),
    ("http://one.example/a.png", False),
    ("https://localhost:9/a.png", False),
    ("https://two.example/a.png", False),
    ("https://one.example.evil/a.png", False),
    ("https://one.example:8443/a.png", False),
    ("https://evil.example/one.example/a.png", False),
    ("https://anna:secret@one.example/a.png", False),
    ("https://one.example@evil.example/a.png", False),
    ("https://evil.example\\@one.example/a.png", False),
    ("https:///evil.example/a.png", False),
    ("https://two.example:8443", True),
])  # fmt: skip
def test_pictures_come_from_named_hosts_alone(monkeypatch, address, shown):
    """Addresses are shown if they are https addresses (on this machine http) of a host in OAL_PICTURE_HOSTS, without a
    user; by default none is. Otherwise, a sentence names the setting."""
    assert "OAL_PICTURE_HOSTS" in access.why_not_shown(address)
    monkeypatch.setenv("OAL_PICTURE_HOSTS", "one.example, Two.example:8443,localhost:9,")
    assert shown == (not access.why_not_shown(address))
    assert "OAL_PICTURES" in access.why_not_shown("//evil.example/a.png")  # a path: the browser asks this server alone


@pytest.mark.parametrize("host", ["https://one.example", "*", "one.example; script-src *", "a b"])
def test_a_host_of_pictures_must_be_a_name(monkeypatch, host):
    """A host that is no host name is refused, because it would go into a header as it is."""
    monkeypatch.setenv("OAL_PICTURE_HOSTS", f"one.example,{host}")
    with pytest.raises(ValueError, match=r"^OAL_PICTURE_HOSTS must be host names, separated by commas\. Got .*\.$"):
        access.picture_hosts()


def test_a_picture_is_for_people_with_a_role_in_its_session(
    card_client, app_store, tmp_path, folder, monkeypatch, become
):
    """The picture of an item is sent to people of its session, and neither to others nor for an item without one."""
    (tmp_path / "texts.csv").write_text("text,photo,label\nso happy a day,a.png,1\na sad day,,0\n")
    data = datasets.import_file(app_store, tmp_path / "texts.csv", "pictures", min_df=1)[0]
    session = create(app_store, data, "PAA-I", owner="anna@example.org")
    monkeypatch.setenv("OAL_PICTURES", str(folder))
    (folder / "a.png").write_bytes(PNG)
    become("eve@example.org")
    assert 404 == card_client.get(f"{session}/0").status_code
    become("anna@example.org")
    answer = card_client.get(f"{session}/0")
    assert (200, "image/png", PNG) == (answer.status_code, answer.headers["content-type"], answer.content)
    for path in (f"{session}/1", f"{session}/2", f"{session}/{2**70}", f"{2**70}/0"):
        assert 404 == card_client.get(path).status_code


@pytest.mark.slow
@pytest.mark.parametrize(("named", "written"), [(None, None), ("", None), ("folder", LISTS), ("folder", "[auth")])
def test_no_path_is_asked_for_without_a_folder_or_with_a_log_in(
    app_store, folder, secrets, monkeypatch, named, written
):
    """Without OAL_FILES, or if people must log in, the Data page has no field for a path, and every path is refused."""
    monkeypatch.chdir(secrets.parent.parent)
    if named is None:
        monkeypatch.delenv("OAL_FILES")
    else:
        monkeypatch.setenv("OAL_FILES", named and str(folder))
    if written:
        secrets.write_text(written)
    for path, kind in ((folder / "below" / "in.csv", "file"), (folder / "below", "folder")):
        with pytest.raises(ValueError, match="OAL_FILES"):
            access.served(str(path), kind)
    assert "way" not in [control.key for control in opened("pages/4_Data.py").segmented_control]


class Server:
    """A stand-in for Streamlit behind the gate, which records the messages that reach it."""

    def __init__(self):
        self.received, self.gate = [], Gate(self)

    async def __call__(self, scope, receive, send):
        while (message := await receive())["type"] == "websocket.receive":
            self.received.append(message["bytes"])
            await send(SHOWN)

    async def log_out(self, cookies):
        scope = {"type": "http", "method": "GET", "path": "/auth/logout", "headers": [(b"cookie", cookies.encode())]}
        await self.gate(scope, self._nothing, None)

    def talk(self, cookies, between=None, words=(b"first", b"second")):
        """Send the messages `words`, and call `between` before b"second". Return the messages that came back."""
        answers, messages = [], iter(words)

        async def receive():
            if (word := next(messages, None)) == b"second":
                await between()
            return {"type": "websocket.receive", "bytes": word} if word else await self._nothing()

        async def send(message):
            answers.append(message)

        scope = {"type": "websocket", "path": "/_stcore/stream", "headers": [(b"cookie", cookies.encode())]}
        with ThreadPoolExecutor() as thread:  # this thread may already run the event loop of a browser
            thread.submit(asyncio.run, self.gate(scope, receive, send)).result()
        return answers

    async def _nothing(self):
        return {"type": "websocket.disconnect"}


def cookie(email):
    claims = json.dumps({"is_logged_in": True, "email": email})
    return f"_streamlit_user={create_signed_value(SECRET, '_streamlit_user', claims).decode()}"


PAGE = ForwardMsg(navigation=Navigation(page_script_hash="one")).SerializeToString()
SHOWN, CLOSED = {"type": "websocket.send", "bytes": PAGE}, {"type": "websocket.close", "code": 1008}


@pytest.mark.parametrize("left", ["logged out", "off the list", "no list", "unreadable", "gone"])
def test_a_connection_ends_with_the_first_message_after_its_person_may_no_longer_enter(secrets, left):
    """Once a person has lost access, the next message on their connection is dropped, and the connection is closed."""
    secrets.write_text(LISTS)
    server, ben = Server(), cookie("ben@example.org")

    async def leave():
        match left:
            case "logged out":
                await server.log_out(ben)
            case "gone":
                secrets.unlink()
            case _:
                written = {"off the list": LISTS.replace("ben@", "carla@"), "no list": AUTH, "unreadable": "[auth"}
                secrets.write_text(written[left])

    assert [SHOWN, CLOSED] == server.talk(ben, leave)
    assert [b"first"] == server.received


def asked(page, fragment=""):
    """Return the message with which a browser asks for a page or a fragment."""
    return BackMsg(rerun_script=ClientState(page_script_hash=page, fragment_id=fragment)).SerializeToString()


def test_only_the_page_that_is_awaited_may_ask_for_a_part_of_itself(secrets):
    """After a browser has asked for another page, requests for a fragment of the old page are dropped until the new
    page asks for a fragment of its own. After that all requests pass, because the app itself can change pages."""
    server, opened, other, part, late = Server(), asked(""), asked("other"), asked("other", "b"), asked("one", "a")
    assert [SHOWN] * 5 == server.talk("", words=[opened, other, late, late, part, late, b"?"])
    assert [opened, other, part, late, b"?"] == server.received


def test_a_connection_stays_while_nothing_changes_for_its_person(secrets):
    """Neither another person's log-out nor a change of the lists that concerns only others ends a connection."""
    secrets.write_text(LISTS)
    server = Server()

    async def others():
        await server.log_out(cookie("carla@lab.example"))
        secrets.write_text(LISTS.replace("@lab.example", "eve@lab.example"))

    assert [SHOWN, SHOWN] == server.talk(cookie("ben@example.org"), others)
    assert [b"first", b"second"] == server.received


def test_a_connection_made_before_the_log_in_was_asked_for_ends(secrets):
    server = Server()

    async def ask_for_a_log_in():
        secrets.write_text(LISTS)

    assert [SHOWN, CLOSED] == server.talk("", ask_for_a_log_in)
    assert [b"first"] == server.received


HERE = "http://localhost:8501"


@pytest.mark.parametrize(("origin", "more", "let_in"), [
    (HERE, {}, True), (None, {}, True), ("http://LOCALHOST:8501", {}, True),
    ("http://localhost:8000", {}, False), ("http://localhost", {}, False), ("http://evil.example", {}, False),
    ("http://127.0.0.1:8501", {}, False), ("null", {}, False), ("", {}, False), ("https://localhost:8502", {}, False),
    ("https://localhost:8501", {}, False), ("http://localhost:8501", {"tls": "yes"}, False),
    ("https://studio.example", {"host": "studio.example", "tls": "yes"}, True),
    ("https://studio.example", {"host": "studio.example:443", "tls": "yes"}, True),
    ("https://studio.example:443", {"host": "studio.example", "tls": "yes"}, True),
    ("http://studio.example", {"host": "studio.example:80"}, True),
    ("http://studio.example", {"host": "studio.example", "tls": "yes"}, False),
    ("https://studio.example", {"host": "studio.example"}, False),
    ("http://studio.example:443", {"host": "studio.example"}, False),
    ("http://evil.example", {"x-forwarded-host": "evil.example"}, False),
    ("http://allowed.example:7", {}, True),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["websocket", "PUT", "DELETE", "POST", "GET"])
def test_a_page_of_another_origin_sends_nothing(secrets, monkeypatch, origin, more, let_in, kind):
    """Even if the app needs no log-in, a page from another scheme, host or port cannot open a websocket, upload files
    or remove them, unless an option allows it. tls: the request came by TLS, which a trusted proxy may have ended."""
    options = {"server.corsAllowedOrigins": ["http://allowed.example:7"]}
    get = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: options.get(name) or get(name))
    passed, answers = [], []

    async def app(scope, receive, send):
        passed.append(scope["type"])

    async def receive():
        return {"type": "websocket.disconnect"}

    async def send(message):
        answers.append(message)

    headers = {"host": "localhost:8501"} | more | ({} if origin is None else {"origin": origin})
    scheme = {"websocket": "ws"}.get(kind, "http") + "s" * bool(headers.pop("tls", None))
    scope = {
        "type": "websocket" if kind == "websocket" else "http", "method": kind, "path": "/_stcore/upload_file/1",
        "scheme": scheme,
        "query_string": b"", "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, Gate(app)(scope, receive, send)).result()
    assert (let_in or kind == "GET") == bool(passed)
    if not passed:
        assert 1008 == answers[0]["code"] if kind == "websocket" else 403 == answers[0]["status"]


@contextmanager
def served(app):
    """Serve an app with uvicorn, as Streamlit does. Yield its port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    with ThreadPoolExecutor() as thread, socket.create_server(("127.0.0.1", 0)) as listener:
        running = thread.submit(server.run, [listener])
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            running.result()


def test_a_body_that_stalls_ends(app_store, keep, card_client, monkeypatch):
    """Of 40 requests of one address that stop in the middle of their bodies, 16 are read. All get the status 408 when
    the clock has run out, and people at other addresses are answered meanwhile."""
    session = create(app_store, keep("texts", 60), **BINARY)
    monkeypatch.setattr(api, "PATIENCE_SECONDS", 2.0)
    n_read, body = [], api._body

    async def counted(*arguments):
        n_read.append(arguments)
        return await body(*arguments)

    monkeypatch.setattr(api, "_body", counted)
    head = f"POST /card/{session} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    with served(card_client.app) as port, ExitStack() as opened:
        stalled = [opened.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(40)]
        for each in stalled:
            each.sendall(f"{head}Content-Length: 4000000\r\n\r\n".encode() + bytes(100_000))
        with socket.create_connection(("127.0.0.1", port), 30) as other:
            other.sendall(f"{head}X-Forwarded-For: 10.0.0.7\r\nContent-Length: 2\r\n\r\n{{}}".encode())
            assert other.recv(15) == b"HTTP/1.1 200 OK"
        assert len(n_read) == api.MOST_AT_ONCE + 1
        for each in stalled:
            received = b"".join(iter(partial(each.recv, 2**16), b""))  # to the end: the server closes the connection
            assert received.startswith(b"HTTP/1.1 408 ")


def test_a_fast_person_is_not_refused(app_store, keep, sent):
    """Three tabs of one person, each with 40 answers as fast as they go, are all answered. Requests above the rate
    wait, and only those are refused that would wait for more than 10 seconds."""
    session = create(app_store, keep("texts", 60), **BINARY | {"budget": 200})
    question = sent(session)["place"]["question"]

    def tab(number):
        notes = ({"id": f"{number} {k}", "action": "note", "item": question["item"], "text": f"{k}"} for k in range(40))
        return [sent(session, note)["acked"] == [note["id"]] for note in notes]

    with ThreadPoolExecutor() as tabs:
        assert [*tabs.map(tab, range(3))] == [[True] * 40] * 3
    while api.turns_of("testclient").reserve(2 * api.PATIENCE_SECONDS) is not None:
        pass
    assert sent(session, status=429)["error"] == "A person may send 50 requests a second."
