"""Simulate a page of a Streamlit app without a browser: the messages and the state of Streamlit's frontend.

As in a browser, a component's state is sent with a rerun of its fragment, timers request the reruns of fragments that
rerun periodically, and a large message that was sent before arrives as a hash only, by which it is found in the cache.
"""

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, WebSocketException

EARLY = ForwardMsg.FINISHED_EARLY_FOR_RERUN
LOST = "the server closed the connection"
RECONNECT_SECONDS = 0.2  # between two attempts to connect again
NO_TOKEN = "PLACEHOLDER_AUTH_TOKEN"  # sent if there is no XSRF cookie


@dataclass
class Kept:
    """A cached message, which may arrive again as its hash only. run: number of the last script run that used it."""

    message: ForwardMsg
    run: int


@dataclass
class Component:
    """A component on the page: its id, its fragment, and its state as the frontend keeps it."""

    id: str
    fragment: str
    state: dict = field(default_factory=dict)


@asynccontextmanager
async def open_page(address, on_data, on_problem):
    """Open a page until the end of the block.

    on_data: called with the name and the data of a component whenever data arrives. on_problem: called with a
    description of each exception on the page, and of the loss of the connection.
    """
    async with asyncio.TaskGroup() as tasks:
        page = Page(urlsplit(address), tasks, on_data, on_problem)
        await page.connect()
        try:
            yield page
        finally:
            page.stop_timers(list(page.timers))
            await page.disconnect()


class Page:
    """The frontend's side of one page."""

    def __init__(self, address, tasks, on_data, on_problem):
        self.host, self.name, self.query = address.netloc, address.path.strip("/"), address.query
        self.tasks, self.on_data, self.on_problem = tasks, on_data, on_problem
        self.session, self.script, self.components, self.timers = [], "", {}, {}
        self.cache, self.runs, self.longest = {}, 0, 0

    async def connect(self):
        """Connect to the server, resume the earlier session of this page if any, and run the page's script."""
        protocols = ["streamlit", NO_TOKEN, *self.session]
        as_browser = {"origin": f"http://{self.host}", "max_size": None, "ping_interval": None}
        self.socket = await connect(f"ws://{self.host}/_stcore/stream", subprotocols=protocols, **as_browser)
        self.listening = self.tasks.create_task(self.listen())
        await self.rerun()

    async def disconnect(self):
        """Close the connection."""
        self.listening.cancel()
        await self.socket.close()

    async def cut(self, seconds):
        """Cut the connection for `seconds`, then reconnect. Messages on their way, or sent meanwhile, are lost."""
        self.listening.cancel()
        self.socket.transport.abort()
        await asyncio.sleep(seconds)
        await self.connect()

    async def rerun(self, fragment="", by_timer=False):
        """Request a run of the page's script, or of one fragment, with the state of every component."""
        message = BackMsg()
        request = message.rerun_script
        request.query_string, request.fragment_id, request.is_auto_rerun = self.query, fragment, by_timer
        request.page_script_hash, request.page_name = self.script, "" if self.script else self.name
        request.cached_message_hashes.extend(self.cache)
        for component in self.components.values():
            if component.state:
                request.widget_states.widgets.add(id=component.id, json_value=json.dumps(component.state))
        with suppress(ConnectionClosed):  # `listen` reports it
            await self.socket.send(message.SerializeToString())

    async def set_state(self, name, key, value):
        """Set a part of a component's state and rerun its fragment, as `setStateValue` in the frontend does."""
        component = self.components[name]
        component.state[key] = value
        await self.rerun(component.fragment)

    async def listen(self):
        """Process the messages of the server. Connect again when the connection is lost."""
        with suppress(ConnectionClosed):
            async for data in self.socket:
                self._take(ForwardMsg.FromString(data))
        self.on_problem(LOST)
        is_back = False
        while not is_back:
            await asyncio.sleep(RECONNECT_SECONDS)
            with suppress(OSError, WebSocketException):
                await self.connect()
                is_back = True

    def _take(self, message):
        if message.HasField("ref_hash"):
            kept = self.cache[message.ref_hash]
            kept.run, message = self.runs, kept.message
        elif message.metadata.cacheable:
            self.cache[message.hash] = Kept(message, self.runs)
        match message.WhichOneof("type"):
            case "new_session":
                self.session = [message.new_session.initialize.session_id]
                self.script = message.new_session.page_script_hash
                self.longest = message.new_session.config.max_cached_message_age
            case "navigation":  # a page that is opened by its address begins under the hash of the first page
                self.script = message.navigation.page_script_hash
            case "delta":
                self._draw(message.delta)
            case "auto_rerun":
                self._start_timer(message.auto_rerun)
            case "stop_auto_rerun":
                self.stop_timers(message.stop_auto_rerun.fragment_ids)
            case "script_finished" if message.script_finished != EARLY:
                self._forget(message.metadata.run.fragment_ids)

    def _draw(self, delta):
        element = delta.new_element
        match element.WhichOneof("type"):
            case "bidi_component":
                drawn = element.bidi_component
                component = self.components.setdefault(drawn.component_name, Component(drawn.id, delta.fragment_id))
                component.id, component.fragment = drawn.id, delta.fragment_id
                self.on_data(drawn.component_name, json.loads(drawn.json))
            case "exception":
                self.on_problem(f"{element.exception.type}: {element.exception.message}")

    def _forget(self, fragments):
        """Evict cached messages that the last runs did not use. A run of some fragments evicts no messages of other
        fragments."""
        self.runs += 1
        self.cache = {
            hash: kept
            for hash, kept in self.cache.items()
            if self.runs - kept.run <= self.longest or (fragments and kept.message.delta.fragment_id not in fragments)
        }

    def _start_timer(self, wanted):
        known = self.timers.get(wanted.fragment_id)
        if known and known[0] == wanted.interval:
            return
        self.stop_timers([wanted.fragment_id])
        task = self.tasks.create_task(self._tick(wanted.fragment_id, wanted.interval))
        self.timers[wanted.fragment_id] = wanted.interval, task

    async def _tick(self, fragment, interval):
        while True:
            await asyncio.sleep(interval)
            await self.rerun(fragment, by_timer=True)

    def stop_timers(self, fragments):
        """Stop the timers of fragments."""
        for fragment in fragments:
            if fragment in self.timers:
                self.timers.pop(fragment)[1].cancel()
