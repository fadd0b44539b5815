"""The app can be deployed as documented: the configuration files agree, and nginx and Caddy serve it."""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from shutil import which

import pytest
import yaml

from tests.harness import ROOT, package
from tests.harness.browser import PATIENCE, UPGRADE, Server, free_port, program

OTHERS = 136e6  # bytes of the image without its packages: python:3.12-slim, and the files of the app
NAME = "label.example.org"  # the host name in the documentation
UPLOAD = "/_stcore/upload_file/a/b"
HOSTS, SECRETS = "STREAMLIT_SERVER_ALLOWED_HOSTS", "STREAMLIT_SECRETS_FILES"
DOCKERFILE, DOCS = (ROOT / "Dockerfile").read_text("utf-8"), (ROOT / "docs" / "deploying.md").read_text("utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
CADDYFILE = COMPOSE["configs"]["proxy"]["content"]


def only(pattern, text=DOCKERFILE):
    """Return the group of the only match of a pattern in a text."""
    (match,) = re.findall(pattern, text, re.MULTILINE)
    return match


def block(language):
    """Return the only code block of a language in the documentation."""
    return only(rf"```{language}\n([^`]*)```", DOCS)


SERVICE = dict(re.findall(r"^Environment=(\w+)=(.*)$", block("ini"), re.MULTILINE))


def test_ports_paths_and_limits_agree():
    """The Dockerfile, compose.yaml and the documentation agree on the app's port, the database in the volume, the
    secrets, the upload limit and the user. The container and the documented service have the same settings."""
    app, proxy = COMPOSE["services"]["app"], COMPOSE["services"]["proxy"]
    port, volume = only(r"^EXPOSE (\d+)$"), only(r"^VOLUME (\S+)$")
    assert only(r"proxy_pass http://127\.0\.0\.1:(\d+);", DOCS) == port
    assert f"STREAMLIT_SERVER_PORT={port} " in DOCKERFILE
    assert "http://127.0.0.1:$STREAMLIT_SERVER_PORT/_stcore/health" in DOCKERFILE
    assert f"reverse_proxy app:{port}\n" in CADDYFILE
    assert "ports" not in app
    assert only(r"OAL_DB=(\S+)/studio\.db") == volume
    assert app["volumes"] == [f"studio:{volume}"]
    (secret,) = app["secrets"]
    assert app["environment"][SECRETS] == f"/run/secrets/{secret}"
    assert re.sub(r"\$\{[^}]*\}", NAME, app["environment"][HOSTS]) == f"{SERVICE[HOSTS]} 127.0.0.1"
    assert {*SERVICE} == {*app["environment"], "MALLOC_ARENA_MAX", "OAL_DB"}
    assert COMPOSE["secrets"] == {secret: {"file": "secrets.toml"}}
    assert proxy["configs"] == [{"source": "proxy", "target": "/etc/caddy/Caddyfile"}]
    assert only(r"max_size (\d+)MB", CADDYFILE) == only(r"client_max_body_size (\d+)m;", DOCS)
    app = DOCKERFILE.rpartition("FROM base AS app")[2]
    assert f"chown {only(r'--uid ([0-9]+)', app)} secrets.toml" in DOCS
    assert "USER oal" in app


def test_the_image_for_hugging_face_is_as_they_want_it():
    """The stage `spaces` runs as the user 1000 and serves the port and the host name of the Space. It is not the last
    stage: the documentation appends it."""
    stage = only(r"(?s)^FROM base AS spaces$(.*?)^FROM ")
    head = yaml.safe_load((ROOT / "deploy" / "spaces" / "README.md").read_text("utf-8").split("---")[1])
    assert ("docker", f"STREAMLIT_SERVER_PORT={head['app_port']} ") == (head["sdk"], only(r"ENV (\S+ )", stage))
    assert "--uid 1000 " in stage
    assert "USER oal" in stage
    assert "$SPACE_HOST" in stage
    assert 'echo "FROM spaces" >> space/Dockerfile' in DOCS


@pytest.mark.rare
def test_the_packages_of_the_image_run_the_app(tmp_path):
    """The steps that make the packages of the image run here, without an engine. The image has at most 900 MB, and with
    these packages the programs import, replay, label and serve."""
    program("strip")
    stage = only(r"(?s)AS packages$(.*?)^FROM ").replace("\\\n", "").replace("/venv", str(tmp_path / "venv"))
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for step in re.findall(r"^RUN (?!apt-get)(.*)$", stage, re.MULTILINE):
        subprocess.run(["sh", "-c", step], check=True, cwd=ROOT, env=os.environ | path)
    files = [path for path in (tmp_path / "venv").rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files) < 900e6 - OTHERS
    package.install(tmp_path / "venv" / "bin", "--no-deps", package.wheel(tmp_path))
    package.run(tmp_path / "venv" / "bin" / "python", ROOT / "tests" / "harness" / "smoke.py")


def test_the_image_has_what_the_app_needs_and_nothing_private():
    """.dockerignore excludes everything except existing files that the app needs."""
    lines = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if not line.startswith("#")]
    included = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert lines[0] == "*"
    assert all(any(ROOT.glob(name)) for name in included)
    assert {"app.py", "home.py", "oal_engine", "pages", "ui", "data", ".streamlit/config.toml"} <= included
    assert not {".streamlit", "tests", "secrets.toml", "studio.db"} & included


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for the files of the app and the proxies. It has the secrets file from the documentation."""
    folder = tmp_path_factory.mktemp("deployed")
    (folder / "secrets.toml").write_text(block("toml"))
    return folder


@pytest.fixture(scope="module")
def app(folder):
    """The app with the settings of the documented service, except for the database, the secrets file and one more host
    name."""
    own = {"OAL_DB": str(folder / "studio.db"), SECRETS: str(folder / "secrets.toml")}
    server = Server(folder, **SERVICE | own | {HOSTS: f"{SERVICE[HOSTS]} 127.0.0.1"})
    yield server
    server.kill()


def nginx(folder, app, port):
    """Return the command that runs nginx as documented, and the path of a certificate made for it."""
    key, certificate, text = folder / "key.pem", folder / "certificate.pem", block("nginx")
    request = [program("openssl"), *"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split()]
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    subprocess.run([*request, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    for original, replacement in {
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        f"/etc/letsencrypt/live/{NAME}/fullchain.pem": str(certificate),
        f"/etc/letsencrypt/live/{NAME}/privkey.pem": str(key),
        "http://127.0.0.1:8501": app.url(""),
    }.items():
        assert original in text
        text = text.replace(original, replacement)
    paths = "".join(f"{kind}_temp_path {folder / kind};" for kind in "client_body proxy fastcgi uwsgi scgi".split())
    start = f"daemon off; master_process off; pid {folder / 'pid'}; events {{}}"
    (folder / "nginx.conf").write_text(f"{start} http {{ access_log off; {paths} {text} }}")
    return [program("nginx"), "-p", folder, "-e", "stderr", "-c", folder / "nginx.conf"], certificate


def caddy(folder, app, port):
    """Return the command that runs Caddy as in compose.yaml, and the path of the root certificate that it creates."""
    if which("caddy") is None:
        pytest.skip("needs caddy on the PATH")
    text = CADDYFILE.replace("${OAL_HOST}", f"{NAME}:{port}").replace("app:8501", f"127.0.0.1:{app.port}")
    options = ("skip_install_trust", "admin off", "auto_https disable_redirects", "local_certs",
               f"storage file_system {folder / 'caddy'}")  # fmt: skip
    (folder / "Caddyfile").write_text(text.replace(options[0], "\n    ".join(options)))
    command = ["caddy", "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"]
    return command, folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def connect(request, app, folder):
    """A function that opens a TLS connection to a proxy in front of the app."""
    port, log, end = free_port(), folder / f"{request.param.__name__}.log", time.monotonic() + PATIENCE
    command, certificate = request.param(folder, app, port)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def connect(name=NAME):
        context = ssl.create_default_context(cafile=certificate)
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE), server_hostname=name)

    while True:
        try:
            connect().close()
            break
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
    yield connect
    process.terminate()
    process.wait()


def answer(connect, path="/", method="GET", host=NAME, **headers):
    """Send the head of a request, without a body, through a proxy. Return the response's status, headers and body."""
    connection = HTTPConnection(host)
    connection.sock = connect()
    try:
        connection.putrequest(method, path)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return response.status, response.headers, b"" if response.status == 101 else response.read()
    finally:
        connection.close()


def upload(connect, host=NAME):
    """Upload 150 MB through a proxy until it answers. Return the start of the answer and the number of bytes sent."""
    n_sent = 0
    with connect() as connection:
        connection.sendall(f"PUT {UPLOAD} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {150 * 2**20}\r\n\r\n".encode())
        connection.settimeout(0.1)
        while n_sent < 150 * 2**20:
            with suppress(TimeoutError):
                return connection.recv(100), n_sent
            connection.sendall(bytes(2**16))
            n_sent += 2**16
    raise AssertionError("the proxy did not answer")


@pytest.mark.slow
def test_pages_have_the_headers_of_the_proxy_and_the_app(connect):
    """Pages are served over TLS with headers that forbid plain HTTP, framing and guessing of types (MIME sniffing)."""
    status, headers, _ = answer(connect)
    assert (200, "max-age=31536000") == (status, headers["Strict-Transport-Security"])
    assert ["frame-ancestors 'none'; img-src 'self' data: blob:"] == headers.get_all("Content-Security-Policy")
    assert ["nosniff"] == headers.get_all("X-Content-Type-Options")


@pytest.mark.slow
def test_the_app_talks_to_pages_of_its_own_site_alone(connect):
    for origin, status in ((f"https://{NAME}", 101), ("https://evil.example", 403)):
        assert status == answer(connect, "/_stcore/stream", Origin=origin, **UPGRADE)[0]


@pytest.mark.slow
def test_a_proxy_serves_one_name(connect):
    """A TLS handshake for any host name but the documented one fails, and a request with another name in its Host
    header gets no page."""
    for name in ("evil.example", "127.0.0.1"):
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name|internal error"):
            connect(name)
    with suppress(HTTPException):  # nginx ends the connection
        assert b"" == answer(connect, host="evil.example")[2]


@pytest.mark.slow
def test_uploads_of_strangers_end_early(connect):
    start, n_sent = upload(connect)
    assert start.startswith(b"HTTP/1.1 403 ")
    assert n_sent < 2**22


@pytest.mark.slow
@pytest.mark.parametrize("connect", [nginx], ids=["nginx"], indirect=True)
def test_nginx_refuses_uploads_before_they_are_sent(connect):
    """nginx refuses an upload that is too large, or without a log-in, as soon as it has the headers of the request."""
    assert 413 == answer(connect, UPLOAD, "PUT", **{"Content-Length": 202 * 2**20})[0]
    status, _, text = answer(connect, UPLOAD, "PUT", **{"Content-Length": 150 * 2**20})
    assert (403, b"Log in first.") == (status, text)


@pytest.mark.slow
def test_the_app_of_the_service_asks_for_a_log_in(app, visit):
    """A stranger sees the button to log in if the app runs with the secrets file from the documentation."""
    visit(app).get_by_role("button", name="Log in").wait_for()


def has_compose():
    """Return whether Docker runs on this machine and has Compose."""
    calls = ["docker", "info"], ["docker", "compose", "version"]
    return which("docker") and all(subprocess.run(call, capture_output=True).returncode == 0 for call in calls)


@pytest.mark.rare
@pytest.mark.skipif(not has_compose(), reason="needs a running Docker with Compose")
def test_the_containers_are_built_and_run(folder):
    """The containers of compose.yaml start, with the proxy on a free port. The app is healthy, its user is not root and
    can write only to the volume, and only the proxy can be reached from outside."""
    port, secrets = free_port(), json.dumps(str(folder / "secrets.toml"))
    (folder / "secrets.toml").chmod(0o644)
    (folder / "override.yaml").write_text(
        f'services: {{proxy: {{ports: !override ["127.0.0.1:{port}:443"]}}}}\n'
        f"secrets: {{oal-studio.toml: {{file: {secrets}}}}}\n"
    )
    files = os.pathsep.join(map(str, (ROOT / "compose.yaml", folder / "override.yaml")))
    settings = {"COMPOSE_FILE": files, "COMPOSE_PROJECT_NAME": f"oal-test-{port}", "OAL_HOST": "localhost"}

    def compose(*arguments, check=True):
        command = ["docker", "compose", *arguments]
        return subprocess.run(command, env=os.environ | settings, check=check, capture_output=True, text=True).stdout

    def connect():
        plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
        return ssl._create_unverified_context().wrap_socket(plain, server_hostname="localhost")

    try:
        compose("up", "--build", "--detach", "--wait", "--wait-timeout", "900")
        ask = "import os; print(os.getuid(), os.access('/data', os.W_OK), os.access('/app', os.W_OK))"
        assert ["10001", "True", "False"] == compose("exec", "app", "python", "-c", ask).split()
        look = ["docker", "image", "inspect", "--format", "{{.Size}}", compose("images", "--quiet", "app").strip()]
        assert int(subprocess.run(look, check=True, capture_output=True).stdout) <= 900e6
        assert compose("port", "app", "8501", check=False).strip() in ("", ":0")
        assert 200 == answer(connect, "/_stcore/health", host="localhost")[0]
        assert upload(connect, host="localhost")[0].startswith(b"HTTP/1.1 403 ")
    finally:
        compose("down", "--volumes", "--rmi", "local", check=False)
