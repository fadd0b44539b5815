"""A Dask cluster as an executor of comparisons: rows are opened by path where a worker sees them, else uploaded."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Client, Security, WorkerPlugin

from .. import experiments
from ..datasets import fingerprint, mapped
from ..versions import versions
from . import tuned_runs
from .tuned_runs import RowSource

OURS = versions()
PATIENCE = 10  # seconds for a scheduler to answer, and three times that for its first worker


@contextmanager
def executor(address: str, sources: Iterable[RowSource]) -> Iterator[Executor]:
    """A concurrent.futures.Executor on the cluster of a scheduler (tcp://... or tls://...), whose workers have the rows
    of the sources and run the same versions as this process."""
    if not re.fullmatch(r"(tcp|tls)://.+:[0-9]+", address):
        raise experiments.ExperimentError(
            f"a Dask scheduler must be at tcp://HOST:PORT or tls://HOST:PORT. Got {address}."
        )
    if address.startswith("tls:") and not Security().get_connection_args("client")["ssl_context"]:
        raise experiments.ExperimentError(
            f"{address} needs a certificate: see docs/cluster.md on DASK_DISTRIBUTED__COMM."
        )
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise experiments.ExperimentError(f"there is no Dask scheduler at {address}: {error}.") from None
    with client:
        try:
            client.run_on_scheduler(versions)
        except ImportError as error:
            raise experiments.ExperimentError(
                f"the scheduler at {address} needs this project installed, as its workers do: {error}."
            ) from None
        try:
            client.wait_for_workers(1, timeout=3 * PATIENCE)
        except TimeoutError:
            raise experiments.ExperimentError(f"the cluster at {address} has no workers.") from None
        _same_versions(client)
        for source in sources:
            if not all(client.run(seen, source).values()):
                client.register_plugin(Upload(source))
        yield client.get_executor()


def _same_versions(client: Client) -> None:
    for worker, theirs in client.run(versions, on_error="return").items():
        if isinstance(theirs, Exception):
            raise experiments.ExperimentError(f"the worker {worker} needs this project installed: {theirs}.")
        for name, version in OURS.items():
            if theirs[name] != version:
                raise experiments.ExperimentError(
                    f"the worker {worker} must have {name} {version}, as this process has. It has {theirs[name]}."
                )


def seen(source: RowSource) -> bool:
    """Whether this process finds the rows of a source where it says, and they are the same."""
    try:
        return fingerprint(*mapped(source.folder, source.rounds), source.classes) == source.fingerprint
    except (OSError, ValueError):
        return False


class Upload(WorkerPlugin):
    """The files of a source, for every worker that does not see them, also for those that join later."""

    idempotent = True  # once per worker

    def __init__(self, source: RowSource) -> None:
        self.name = f"rows {source.fingerprint}"
        self.source = source
        self.files = {path.name: path.read_bytes() for path in Path(source.folder).iterdir()}

    def setup(self, worker: Any) -> None:
        """Write them to the worker's own folder, which goes when the worker ends."""
        if seen(self.source):
            return
        folder = Path(worker.local_directory) / self.source.fingerprint
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        tuned_runs.PLACES[self.source.fingerprint] = str(folder)
