"""The container and its proxy: Dockerfile, compose.yaml and docs/deploying.md agree, and what they say works."""

import json
import os
import re
import socket
import ssl
import subprocess
import time
from contextlib import suppress
from http.client import HTTPConnection
from shutil import which

import pytest
import yaml

from tests.harness import ROOT
from tests.harness.browser import PATIENCE, UPGRADE, Server, free_port

HOST = "localhost"  # for which the proxy makes a certificate of its own
DOCKERFILE, DOCS = (ROOT / "Dockerfile").read_text("utf-8"), (ROOT / "docs" / "deploying.md").read_text("utf-8")
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
PROXY = COMPOSE["configs"]["proxy"]["content"]


def said(pattern, text=DOCKERFILE):
    """What the only match of a pattern with one group says."""
    (found,) = re.findall(pattern, text, re.MULTILINE)
    return found


def test_port_paths_and_limits_agree():
    """The app listens where the proxy and the health check look, keeps its database in the volume, and reads the
    secrets that are mounted; the proxy takes what the app takes; the documentation names the user."""
    app, proxy = COMPOSE["services"]["app"], COMPOSE["services"]["proxy"]
    port = said(r"^EXPOSE (\d+)$")
    assert said(r"proxy_pass http://127\.0\.0\.1:(\d+);", DOCS) == port
    assert f"http://127.0.0.1:{port}/_stcore/health" in DOCKERFILE
    assert f"reverse_proxy app:{port}\n" in PROXY
    assert "ports" not in app
    volume = said(r"^VOLUME (\S+)$")
    assert said(r"OAL_DB=(\S+)/studio\.db") == volume
    assert app["volumes"] == [f"studio:{volume}"]
    (secret,) = app["secrets"]
    assert app["environment"]["STREAMLIT_SECRETS_FILES"] == f"/run/secrets/{secret}"
    assert COMPOSE["secrets"] == {secret: {"file": "secrets.toml"}}
    assert proxy["configs"] == [{"source": "proxy", "target": "/etc/caddy/Caddyfile"}]
    assert said(r"max_size (\d+)MB", PROXY) == said(r"client_max_body_size (\d+)m;", DOCS)
    assert f"chown {said(r'--uid ([0-9]+)')} secrets.toml" in DOCS
    assert "USER oal" in DOCKERFILE


def test_the_image_has_what_the_app_needs_and_nothing_private():
    """Everything that is named is there; a database, secrets and tests are left out by leaving out everything else."""
    lines = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    kept = [line.removeprefix("!") for line in lines[1:] if line.startswith("!")]
    assert all((ROOT / each).exists() for each in kept)
    assert {"app.py", "home.py", "oal_engine", "pages", "ui", "data", ".streamlit/config.toml"} <= {*kept}
    assert not {".streamlit", "tests", "secrets.toml", "studio.db"} & {*kept}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("contained")


@pytest.fixture(scope="module")
def app(folder):
    """The app in the environment of the container, with a file of secrets of its own."""
    environment = dict(COMPOSE["services"]["app"]["environment"])
    (folder / "secrets.toml").write_text(said(r"```toml\n([^`]*)```", DOCS))
    environment["STREAMLIT_SECRETS_FILES"] = str(folder / "secrets.toml")
    environment["STREAMLIT_SERVER_ALLOWED_HOSTS"] = re.sub(
        r"\$\{[^}]*\}", HOST, environment["STREAMLIT_SERVER_ALLOWED_HOSTS"]
    )
    server = Server(folder, **environment)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def proxy(app, folder):
    """A function that connects over TLS to the proxy of compose.yaml, run with another port."""
    if which("caddy") is None:
        pytest.skip("needs caddy on the PATH")
    port = free_port()
    written = PROXY.replace("${OAL_HOST}", f"{HOST}:{port}").replace("app:8501", f"127.0.0.1:{app.port}")
    written = written.replace(
        "skip_install_trust", "skip_install_trust\n    admin off\n    auto_https disable_redirects"
    )
    (folder / "Caddyfile").write_text(written)
    data = folder / "data"
    with (folder / "caddy.log").open("wb") as log:
        running = subprocess.Popen(
            ["caddy", "run", "--config", folder / "Caddyfile", "--adapter", "caddyfile"],
            env=os.environ | {"XDG_DATA_HOME": str(data), "XDG_CONFIG_HOME": str(folder / "config")},
            stdout=log, stderr=log,
        )  # fmt: skip
    certificate, end = data / "caddy" / "pki" / "authorities" / "local" / "root.crt", time.monotonic() + PATIENCE

    def connect(name=HOST):
        trusted = ssl.create_default_context(cafile=certificate)
        return trusted.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE), server_hostname=name)

    while True:
        try:
            connect().close()
            break
        except OSError:
            assert running.poll() is None, (folder / "caddy.log").read_text()
            assert time.monotonic() < end, (folder / "caddy.log").read_text()
            time.sleep(0.05)
    yield connect
    running.kill()
    running.wait()


def answered(connect, path="/", **headers):
    """The status and the headers of an answer through the proxy."""
    connection = HTTPConnection(HOST)
    connection.sock = connect()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    connection.close()
    return answer.status, answer.headers


def upload(connect):
    """The beginning of the answer to a large upload of a stranger, and how many bytes of it were sent before."""
    chunk, sent = bytes(2**16), 0
    with connect() as connection:
        head = f"PUT /_stcore/upload_file/a/b HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {150 * 2**20}\r\n\r\n"
        connection.sendall(head.encode())
        connection.settimeout(0.1)
        while sent < 150 * 2**20:
            connection.sendall(chunk)
            sent += len(chunk)
            with suppress(TimeoutError):
                return connection.recv(100), sent
    raise AssertionError("nothing was answered")


@pytest.mark.slow
def test_the_proxy_of_the_container_serves_the_app(proxy):
    """Over TLS, with its headers; browsers of its own site talk to the app, those of others do not; another name gets
    no handshake; uploads of strangers end at once."""
    status, headers = answered(proxy)
    assert (200, "max-age=31536000", "nosniff") == (
        status, headers["Strict-Transport-Security"], headers["X-Content-Type-Options"]
    )  # fmt: skip
    for origin, status in ((f"https://{HOST}", 101), ("https://evil.example", 403)):
        assert status == answered(proxy, "/_stcore/stream", Origin=origin, **UPGRADE)[0]
    with pytest.raises(ssl.SSLError):
        proxy("evil.example")
    answer, sent = upload(proxy)
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert sent < 2**22


def engine():
    """Whether a container engine runs here, with Compose."""
    calls = ["docker", "info"], ["docker", "compose", "version"]
    return which("docker") and all(subprocess.run(call, capture_output=True).returncode == 0 for call in calls)


@pytest.mark.rare
@pytest.mark.skipif(not engine(), reason="needs a running Docker with Compose")
def test_the_containers_are_built_and_run(folder):
    """compose.yaml as it stands, but for the port: the app is healthy, its user is not root and may write to the
    volume alone, and it is reached through the proxy alone."""
    port = free_port()
    (folder / "secrets.toml").write_text(said(r"```toml\n([^`]*)```", DOCS))
    (folder / "secrets.toml").chmod(0o644)
    override = (
        f'services: {{proxy: {{ports: !override ["127.0.0.1:{port}:443"]}}}}\n'
        f"secrets: {{oal-studio.toml: {{file: {json.dumps(str(folder / 'secrets.toml'))}}}}}\n"
    )
    (folder / "override.yaml").write_text(override)
    command = [
        "docker",
        "compose",
        "-p",
        f"oal-test-{port}",
        "-f",
        ROOT / "compose.yaml",
        "-f",
        folder / "override.yaml",
    ]

    def compose(*arguments, check=True):
        return subprocess.run(
            [*command, *arguments], env=os.environ | {"OAL_HOST": HOST}, check=check, capture_output=True, text=True
        )

    try:
        compose("up", "--build", "--detach", "--wait", "--wait-timeout", "900")
        inside = ["exec", "app", "python", "-c"]
        ask = "import os; print(os.getuid(), os.access('/data', os.W_OK), os.access('/app', os.W_OK))"
        assert ["10001", "True", "False"] == compose(*inside, ask).stdout.split()
        assert compose("port", "app", "8501", check=False).stdout.strip() in ("", ":0")
        unverified = ssl._create_unverified_context()

        def connect():
            return unverified.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE), server_hostname=HOST)

        assert 200 == answered(connect, "/_stcore/health")[0]
        assert upload(connect)[0].startswith(b"HTTP/1.1 403 ")
    finally:
        compose("down", "--volumes", "--rmi", "local", check=False)
