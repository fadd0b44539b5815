"""A TCP proxy with which tests cut the line from browsers to a server: Chromium's offline switch leaves WebSockets
open."""

import os
import socket
import threading
import time
from contextlib import contextmanager, suppress

CUT = float(os.environ.get("OAL_CUT_SECONDS", "3"))  # seconds for which tests cut a line


class Line:
    """A proxy from its own port to a server's port. While it is cut, it is `closed` (old and new connections end),
    `silent` (nothing arrives until the cut is over) or `deaf` (data from the server are lost)."""

    def __init__(self, port):
        self.server, self.state, self.sockets = port, None, set()
        self.whole = threading.Event()
        self.whole.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, path):
        return f"http://127.0.0.1:{self.port}{path}"

    @contextmanager
    def cut(self, state):
        """Cut the line while the body runs, for at least CUT seconds. state: `closed`, `silent` or `deaf`."""
        end = time.monotonic() + CUT
        self.state = state
        self.whole.clear()
        if state == "closed":
            self._drop()
        yield
        time.sleep(max(0, end - time.monotonic()))
        if state == "deaf":
            self._drop()
        self.state = None
        self.whole.set()

    def close(self):
        """Close the port and all connections."""
        self.state = "closed"
        self.whole.set()
        self.listener.close()
        self._drop()

    def _drop(self):
        for each in [*self.sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        with suppress(OSError):
            while True:
                threading.Thread(target=self._connect, args=self.listener.accept()[:1], daemon=True).start()

    def _connect(self, browser):
        with browser:
            if self.state == "closed":
                return
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.server)) as server:
                self.sockets |= {browser, server}
                back = threading.Thread(target=self._pass, args=(server, browser, True), daemon=True)
                back.start()
                self._pass(browser, server)
                back.join()
            self.sockets -= {browser, server}

    def _pass(self, source, target, said=False):
        """Forward data from `source` to `target` until `source` closes. said: whether `source` is the server."""
        with suppress(OSError):
            while data := source.recv(2**16):
                if self.state == "silent":
                    self.whole.wait()
                if not (said and self.state == "deaf"):
                    target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
