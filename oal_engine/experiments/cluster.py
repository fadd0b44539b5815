"""Run comparisons on a Dask cluster. Rows are opened by path if a worker can read them, else uploaded."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Client, KilledWorker, Security, WorkerPlugin

from ..datasets import fingerprint, mapped
from ..versions import versions
from . import worker as workers
from .specifications import ExperimentError
from .worker import RowSource

OUR_VERSIONS = versions()
TIMEOUT_SECONDS = 10  # for a scheduler to answer; its first worker gets three times as long


@contextmanager
def executor(address: str, sources: Iterable[RowSource]) -> Iterator[Executor]:
    """Connect to a Dask scheduler (tcp://... or tls://...), and yield its cluster as a concurrent.futures.Executor.

    Workers that cannot read the rows of the sources get a copy. Raise ExperimentError if the cluster cannot be reached,
    or if a worker has other versions of the software than this process.
    """
    if not re.fullmatch(r"(tcp|tls)://.+:[0-9]+", address):
        raise ExperimentError(f"a Dask scheduler must be at tcp://HOST:PORT or tls://HOST:PORT. Got {address}.")
    if address.startswith("tls:") and not Security().get_connection_args("client")["ssl_context"]:
        raise ExperimentError(f"{address} needs a certificate: see docs/cluster.md on DASK_DISTRIBUTED__COMM.")
    try:
        client = Client(address, timeout=TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ExperimentError(f"no Dask scheduler answers at {address}: {error}.") from None
    with client:
        try:
            client.run_on_scheduler(versions)
        except ImportError as error:
            raise ExperimentError(
                f"the scheduler at {address} needs this project installed, as its workers do: {error}."
            ) from None
        try:
            client.wait_for_workers(1, timeout=3 * TIMEOUT_SECONDS)
        except TimeoutError:
            raise ExperimentError(f"the cluster at {address} has no workers.") from None
        _same_versions(client)
        for source in sources:
            if not all(client.run(has_rows, source).values()):
                client.register_plugin(Upload(source))
        try:
            yield client.get_executor()
        except KilledWorker:
            raise ExperimentError(
                "workers of the cluster ended, perhaps for want of memory. Run the same command again."
            ) from None


def _same_versions(client: Client) -> None:
    for worker, theirs in client.run(versions, on_error="return").items():
        if isinstance(theirs, OSError):  # the worker has just ended, and others get its tasks
            continue
        if isinstance(theirs, Exception):
            raise ExperimentError(f"the worker {worker} needs this project installed: {theirs}.")
        for name, version in OUR_VERSIONS.items():
            if theirs[name] != version:
                raise ExperimentError(
                    f"the worker {worker} must have {name} {version}, as this process has. It has {theirs[name]}."
                )


def has_rows(source: RowSource) -> bool:
    """Return whether this process can read a source's rows from its folder, and their fingerprint matches."""
    try:
        return fingerprint(*mapped(source.folder, source.rounds), source.classes) == source.fingerprint
    except (OSError, ValueError):
        return False


class Upload(WorkerPlugin):
    """A Dask worker plugin that copies the files of a source to every worker that cannot read its folder, including
    workers that join later."""

    idempotent = True  # once per worker

    def __init__(self, source: RowSource) -> None:
        self.name = f"rows {source.fingerprint}"
        self.source = source
        self.files = {path.name: path.read_bytes() for path in Path(source.folder).iterdir()}

    def setup(self, worker: Any) -> None:
        """Write the files to the local directory of a worker, unless the worker can read the rows in the source's
        folder. Dask deletes the local directory when the worker ends."""
        if has_rows(self.source):
            return
        folder = Path(worker.local_directory) / self.source.fingerprint
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        workers.UPLOADED[self.source.fingerprint] = str(folder)
