"""Access to the running app: log-ins that end, foreign hosts and frames, and uploads without a log-in."""

import http.client
import json
import socket

import pytest
from playwright.sync_api import expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from oal_engine.datasets import demo
from oal_engine.sessions.settings import create
from tests.harness.browser import PATIENCE, UPGRADE, Card, guarded

pytestmark = pytest.mark.slow

SECRET = "a-secret-of-the-server-and-of-nobody-else"
SECRETS = f"""
[auth]
redirect_uri = "http://127.0.0.1/oauth2callback"
cookie_secret = "{SECRET}"
client_id = "client"
client_secret = "another secret"
server_metadata_url = "http://127.0.0.1:9/nowhere"

[access]
allowed = ["ben@example.org"]
owners = ["anna@example.org"]
"""


@pytest.fixture(scope="module")
def app(browser, tmp_path_factory):
    """The running app, whose log-in is configured by the secrets file in its working directory."""
    with guarded(tmp_path_factory.mktemp("guarded"), SECRETS) as app:
        yield app


@pytest.fixture(scope="module")
def unreadable(browser, tmp_path_factory):
    """The app, started with an unreadable secrets file and with the list of host names that its owner allows."""
    hosts = {"STREAMLIT_SERVER_ALLOWED_HOSTS": "label.example.org 127.0.0.1"}
    with guarded(tmp_path_factory.mktemp("unreadable"), "[auth\n", **hosts) as app:
        yield app


@pytest.fixture(scope="module")
def store(app):
    """The store of the app's database, opened in the test process."""
    return app.store


@pytest.fixture(scope="module")
def session(store):
    """The id of a session that asks about every item."""
    return create(store, demo.dataset(store, "tweets"), learner="pa-i", rule="all", name="a private session")


def log_in(server, email):
    """Return the signed cookie that Streamlit sets for a person after a log-in at the provider."""
    claims = {"origin": server.url(""), "is_logged_in": True, "email": email, "provider": "default"}
    value = create_signed_value(SECRET, "_streamlit_user", json.dumps(claims)).decode()
    return {"name": "_streamlit_user", "value": value, "url": server.url("/"), "httpOnly": True}


def answers(store, session):
    return [row["annotator"] for row in store.answers(session) if row["label"]]


def test_an_open_tab_stops_when_its_person_logs_out_in_another(visit, app, another, store, session):
    """After a log-out in another tab, an open tab shows the log-in button without a reload, and keys label nothing."""
    page = visit(app, f"/Label?session={session}", context=another, cookie=log_in(app, "ben@example.org"))
    card = Card(page)
    card.press("a")
    card.saved()
    assert ["ben@example.org"] == answers(store, session)[-1:]
    before = len(answers(store, session))
    other = page.context.new_page()
    other.goto(app.url("/"))
    other.get_by_role("button", name="ben@example.org").click()
    other.get_by_role("button", name="Log out").click()
    other.get_by_role("button", name="Log in").wait_for()
    page.get_by_role("button", name="Log in").wait_for()
    expect(page.get_by_test_id("oal-card")).to_have_count(0)
    page.keyboard.press("a")
    assert before == len(answers(store, session))


def test_a_cookie_kept_from_before_the_log_out_is_no_log_in(visit, app, another, session):
    """A cookie copied before the log-out logs nobody in, not even with its signature spelled differently."""
    cookie = log_in(app, "ben@example.org")
    page = visit(app, f"/Label?session={session}", context=another, cookie=cookie)
    Card(page)
    page.goto(app.url("/auth/logout"))
    page.get_by_role("button", name="Log in").wait_for()
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = letters[letters.index(cookie["value"][-1]) ^ 1]  # flips a bit that base64 ignores
    for copied in (cookie, cookie | {"value": cookie["value"][:-1] + last}):
        page = visit(app, context=another, cookie=copied)
        page.get_by_role("button", name="Log in").wait_for()


def test_a_forged_cookie_is_no_log_in(visit, app, another):
    cookie = log_in(app, "anna@example.org")
    claims = {"origin": app.url(""), "is_logged_in": True, "email": "anna@example.org"}
    cookie["value"] = create_signed_value("guessed", "_streamlit_user", json.dumps(claims)).decode()
    visit(app, context=another, cookie=cookie).get_by_role("button", name="Log in").wait_for()


def asked(server, path, method="GET", **headers):
    """Send a request. Return the status and the headers of its response."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    connection.close()
    return answer.status, answer.headers


PATHS = ["/", "/Label", "/_stcore/health", "/_stcore/host-config", "/media/x", "/_stcore/upload_file/a/b"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8501", "localhost.evil.example", "127.0.0.1.e", "[::1"])
def test_a_foreign_host_name_is_refused_everywhere(app, host):
    for path in PATHS:
        assert 400 == asked(app, path, Host=host)[0]
    assert 400 == asked(app, "/_stcore/stream", Host=host, Origin=f"http://{host}", **UPGRADE)[0]


def test_the_names_of_this_machine_are_served(app):
    for host in (f"localhost:{app.port}", f"127.0.0.1:{app.port}", "LOCALHOST"):
        assert 200 == asked(app, "/", Host=host)[0]
        assert 101 == asked(app, "/_stcore/stream", Host=host, Origin=f"http://{host}", **UPGRADE)[0]


def test_every_answer_forbids_frames_and_guesses(app):
    """The headers of pages, files and refusals forbid framing and content sniffing."""
    for path in PATHS:
        headers = asked(app, path)[1]
        assert "frame-ancestors 'none'; img-src 'self' data: blob:" == headers["Content-Security-Policy"]
        assert ("DENY", "nosniff") == (headers["X-Frame-Options"], headers["X-Content-Type-Options"])


def session_id(page):
    """Return the id of a page's connection, under which its uploads are sent."""
    ids = []

    def hear(data):
        message = ForwardMsg()
        message.ParseFromString(data)
        if message.HasField("new_session"):
            ids.append(message.new_session.initialize.session_id)

    page.on("websocket", lambda connection: connection.on("framereceived", hear))
    page.reload()
    page.get_by_role("button").first.wait_for()
    return ids[-1]


def upload(server, page, session, length):
    """Send the headers of an upload, with all tokens that Streamlit requires. Return the open connection."""
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    pairs = "; ".join(f"{name}={value}" for name, value in cookies.items())
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    connection.sendall(
        f"PUT /_stcore/upload_file/{session}/file HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {pairs}\r\n"
        f"X-Xsrftoken: {cookies['_streamlit_xsrf']}\r\nContent-Type: multipart/form-data; boundary=x\r\n"
        f"Content-Length: {length}\r\n\r\n".encode()
    )
    return connection


def test_uploads_of_who_is_logged_out_are_refused_before_a_byte_is_read(visit, app, another):
    page = visit(app, context=another)
    with upload(app, page, session_id(page), 150_000_000) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 403 ")


def test_uploads_of_who_may_enter_are_taken(visit, app, another):
    page = visit(app, context=another, cookie=log_in(app, "ben@example.org"))
    body = b'--x\r\nContent-Disposition: form-data; name="a"; filename="a.csv"\r\n\r\ntext\r\n--x--\r\n'
    with upload(app, page, session_id(page), len(body)) as connection:
        connection.sendall(body)
        assert connection.recv(100).startswith(b"HTTP/1.1 204 ")


def test_files_made_for_somebody_are_for_who_may_enter(app):
    cookie = log_in(app, "ben@example.org")
    assert 403 == asked(app, "/media/anything.csv")[0]
    assert 404 == asked(app, "/media/anything.csv", Cookie=f"{cookie['name']}={cookie['value']}")[0]


def test_the_owner_names_the_hosts(unreadable):
    hosts = ("label.example.org", "127.0.0.1", "localhost")
    assert [200, 200, 400] == [asked(unreadable, "/", Host=host)[0] for host in hosts]
