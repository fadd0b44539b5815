"""The configuration in docs/deploying.md works: its nginx in front of the app with its service and secrets."""

import re
import socket
import ssl
import subprocess
import time
from http.client import HTTPConnection

import pytest

from tests.harness import ROOT
from tests.harness.browser import PATIENCE, UPGRADE, Server, free_port, program

pytestmark = pytest.mark.slow

NAME = "label.example.org"
UPLOAD = "/_stcore/upload_file/a/b"


def block(language):
    """The only code block of a language in the document."""
    (content,) = re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / "deploying.md").read_text("utf-8"), re.DOTALL)
    return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for the files of the app and the proxy."""
    return tmp_path_factory.mktemp("deployed")


@pytest.fixture(scope="module")
def app(folder):
    """The app in the environment of the service, with folders of its own."""
    (folder / "secrets.toml").write_text(block("toml"))
    environment = dict(re.findall(r"^Environment=(\w+)=(.*)$", block("ini"), re.MULTILINE))
    known = {"MALLOC_ARENA_MAX", "OAL_DB", "STREAMLIT_SERVER_ALLOWED_HOSTS", "STREAMLIT_SECRETS_FILES"}
    assert known == set(environment)
    del environment["OAL_DB"]
    environment["STREAMLIT_SERVER_ALLOWED_HOSTS"] += " 127.0.0.1"  # the address that the test uses
    environment["STREAMLIT_SECRETS_FILES"] = str(folder / "secrets.toml")
    server = Server(folder, **environment)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def proxy(app, folder):
    """A function that connects to the document's nginx, run with a test certificate and port."""
    nginx, key, certificate, port = program("nginx"), folder / "key.pem", folder / "certificate.pem", free_port()
    make = [program("openssl"), *"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split()]
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    subprocess.run([*make, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    written = block("nginx")
    for original, replacement in {
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        f"/etc/letsencrypt/live/{NAME}/fullchain.pem": str(certificate),
        f"/etc/letsencrypt/live/{NAME}/privkey.pem": str(key),
        "http://127.0.0.1:8501": app.url(""),
    }.items():
        assert original in written
        written = written.replace(original, replacement)
    places = "".join(f"{kind}_temp_path {folder / kind};" for kind in "client_body proxy fastcgi uwsgi scgi".split())
    around = f"daemon off; master_process off; pid {folder / 'pid'}; events {{}}"
    (folder / "nginx.conf").write_text(f"{around} http {{ access_log off; {places} {written} }}")
    log = folder / "nginx.log"
    running = subprocess.Popen([nginx, "-p", folder, "-e", log, "-c", folder / "nginx.conf"])
    trusted = ssl.create_default_context(cafile=certificate)

    def connect(name=NAME):
        return trusted.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE), server_hostname=name)

    end = time.monotonic() + PATIENCE
    while True:
        try:
            connect().close()
            break
        except ConnectionRefusedError:
            assert running.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
    yield connect
    running.terminate()
    running.wait()


def request(connect, path="/", method="GET", **headers):
    """Send the head of a request through the proxy; the answer and its body."""
    connection = HTTPConnection(NAME)
    connection.sock = connect()
    connection.putrequest(method, path)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read() if answer.status != 101 else b""
    connection.close()
    return answer, text


def test_the_proxy_serves_the_app_with_its_headers(proxy):
    """Pages are served over TLS with headers against framing and guessed types."""
    answer, _ = request(proxy)
    headers = answer.headers
    assert 200 == answer.status
    assert "max-age=31536000" == headers["Strict-Transport-Security"]
    assert ["frame-ancestors 'none'"] == headers.get_all("Content-Security-Policy")
    assert ["nosniff"] == headers.get_all("X-Content-Type-Options")


def test_the_proxy_lets_browsers_talk_to_the_app(proxy):
    """A WebSocket is opened for the app's own site, and refused for a foreign one."""
    for origin, status in ((f"https://{NAME}", 101), ("https://evil.example", 403)):
        assert status == request(proxy, "/_stcore/stream", Origin=origin, **UPGRADE)[0].status


def test_the_proxy_knows_one_name(proxy):
    """Another host name gets no TLS handshake, or no page if only the request has it."""
    for name in ("evil.example", "127.0.0.1"):
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
            proxy(name)
    with proxy() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert not connection.recv(100).startswith(b"HTTP/1.1 200")


def test_the_proxy_refuses_what_is_too_large(proxy):
    """A body over the limit is refused before it is sent."""
    assert 413 == request(proxy, UPLOAD, "PUT", **{"Content-Length": 202 * 2**20})[0].status


def test_uploads_of_strangers_are_refused_through_the_proxy(proxy):
    """An upload without a log-in is refused before its bytes are sent."""
    answer, text = request(proxy, UPLOAD, "PUT", **{"Content-Length": 150 * 2**20})
    assert (403, b"Log in first.") == (answer.status, text)


def test_the_app_of_the_service_asks_for_a_log_in(app, visit):
    """With the document's secrets a stranger sees the button to log in."""
    visit(app).get_by_role("button", name="Log in").wait_for()
