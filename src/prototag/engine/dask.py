"""The engine of many machines: blocks on a Dask cluster.

Blocks travel as pickles, which a worker opens only once it is known to run the same version. What
all blocks of a call share is sent once and lies on the workers; the scheduler keeps a copy, so that
it comes back when the worker that had it dies. See docs/reference/cluster.md.
"""

from __future__ import annotations

import os
import pickle
import sys
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from time import monotonic
from typing import Any, NamedTuple, Self, TypeVar

import cloudpickle
import dask
import numpy as np
from distributed import (
    Client,
    Future,
    KilledWorker,
    LocalCluster,
    TimeoutError,
    get_worker,
    wait,
)
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

import prototag
from prototag.engine.layout import separate_shared
from prototag.engine.task_names import display_name
from prototag.engine.threads import (
    Engine,
    batch_slices,
    count_rows,
    ensure_blas_single_threaded,
    run_batch,
    single_threaded_blas,
    slice_rows,
)
from prototag.errors import ClusterError

T = TypeVar("T")
BATCHES_PER_THREAD = (
    3  # blocks for each thread of the cluster that are under way or wait to be looked at
)
INLINE_MAX_BYTES = 1 << 15  # bytes; what is shared and smaller goes with each block
SHARED_CACHE_BYTES = (
    1 << 28
)  # bytes of what was shared last that stay on the workers, should it be asked again
POLL_SECONDS = 5.0  # seconds between two looks at who works
WORKER_TIMEOUT_SECONDS = 300.0  # seconds without any worker until a call is given up
CONNECT_TIMEOUT_SECONDS = 30.0  # seconds
# Of local clusters: a look at every stack each 10 ms takes three percent of a core.
LOCAL_CLUSTER_CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "200ms",
}


class Versions(NamedTuple):
    """What must be the same on both sides."""

    prototag: str
    python: str
    numpy: str

    def __str__(self) -> str:
        return f"prototag {self.prototag} on Python {self.python} with NumPy {self.numpy}"


def current_versions() -> Versions:
    """Of this process: Python by its minor version, NumPy by its major one."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Versions(prototag.__version__, python, np.__version__.partition(".")[0])


class Dask(Engine):
    """Runs blocks on a Dask cluster, to the same bits as threads.

    Parameters
    ----------
    where : str, path or distributed.Client
        The address of a scheduler (``tcp://host:8786``, or ``tls://...`` with the certificates that
        Dask's own configuration names), or the file that ``--scheduler-file`` had it write.
    patience : float
        Seconds to wait for a worker where there is none, before a call is given up.
    """

    def __init__(
        self, where: str | os.PathLike[str] | Client, *, patience: float = WORKER_TIMEOUT_SECONDS
    ):
        self._cluster: LocalCluster | None = None
        self._own = not isinstance(where, Client)
        self.patience = patience
        self.client = where if isinstance(where, Client) else _connect(os.fspath(where))
        self._kept: OrderedDict[str, tuple[Future, int]] = OrderedDict()
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    @classmethod
    def local(cls, n: int) -> Self:
        """A cluster of ``n`` processes of one thread each on this machine, until it is closed."""
        with dask.config.set(LOCAL_CLUSTER_CONFIG):
            cluster = LocalCluster(
                n_workers=n,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any port that is free
                silence_logs=50,  # a worker that dies is our matter, not the reader's
            )
        try:
            engine = cls(cluster.scheduler_address)
        except BaseException:
            cluster.close()
            raise
        engine._cluster = cluster
        return engine

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        for future, _ in self._kept.values():
            future.release()
        self._kept.clear()
        if self._own:
            self.client.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reconnect, (self.client.scheduler.address, self.patience)

    def __repr__(self) -> str:
        return f"Dask({self.client.scheduler.address!r})" if self.client.scheduler else "Dask()"

    def count_threads(self) -> int:
        """How many blocks the workers run at a time, just now."""
        with _scheduler_errors():
            return sum(self.client.nthreads().values())

    # -- blocks ------------------------------------------------------------------------------------

    def stream(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> Iterator[T]:
        """See :class:`prototag.engine.Engine`.

        A block whose worker dies is run again elsewhere. The first exception of any block ends the
        call.
        """
        parts = list(batch_slices(count_rows(rows), size))
        if not parts:
            return
        call = _Call(self, function, shared, len(parts))
        waiting: deque[Future] = deque()
        try:
            with single_threaded_blas():  # for whoever looks at the results, as with threads
                for number, part in enumerate(parts):
                    waiting.append(call.submit(number, slice_rows(rows, part)))
                    while len(waiting) >= call.window():
                        yield from self._results(waiting)
                while waiting:
                    yield from self._results(waiting)
        finally:
            for future in waiting:
                future.release()
            call.close()

    def _results(self, waiting: deque[Future]) -> Iterator[Any]:
        """The first result, and those after it that are there already."""
        self._await(waiting[0])
        found = [waiting.popleft()]
        while waiting and waiting[0].status == "finished":
            found.append(waiting.popleft())
        try:
            with _scheduler_errors():
                answers = self.client.gather(found)
        except KilledWorker as error:
            raise _killed_error(error) from error
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "prototag":
                raise ClusterError(f"a worker {_MISSING}") from error
            raise
        finally:
            for future in found:
                future.release()
            del found
        while answers:
            yield pickle.loads(answers.pop(0))

    def _await(self, future: Future) -> None:
        """Wait for a result, as long as there is somebody to compute it."""
        last_seen = monotonic()
        while not future.done():
            with _scheduler_errors(), self.client.as_current():
                try:
                    wait([future], timeout=POLL_SECONDS)
                    return
                except TimeoutError:
                    pass
            if self.count_threads():
                last_seen = monotonic()
            elif monotonic() - last_seen > self.patience:
                raise ClusterError(_NO_WORKER.format(self.patience))

    def _share(self, parcel: bytes) -> Future:
        """What blocks share, as a task that the scheduler can repeat."""
        digest = blake2b(parcel, digest_size=8).hexdigest()
        if digest in self._kept and self._kept[digest][0].status in ("pending", "finished"):
            self._kept.move_to_end(digest)
            return self._kept[digest][0]
        name = f"Shared values-{digest}-{uuid.uuid4().hex[:8]}"
        # Dask warns of large tasks, because most people mean to send them once and do it each time.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            future = self.client.submit(
                _unpickle_shared, current_versions(), parcel, key=name, pure=False
            )
        self._kept[digest] = future, len(parcel)
        while (
            len(self._kept) > 1
            and sum(size for _, size in self._kept.values()) > SHARED_CACHE_BYTES
        ):
            self._kept.popitem(last=False)
        return future

    def _check_workers(self) -> None:
        """Refuse a cluster with workers of other versions, by name."""

        def about() -> tuple[str, str, str]:  # travels as code: prototag may be missing there
            import sys

            import numpy

            import prototag

            python = f"{sys.version_info.major}.{sys.version_info.minor}"
            return prototag.__version__, python, numpy.__version__.partition(".")[0]

        with _scheduler_errors():
            found = self.client.run(about, on_error="return")
        for worker, theirs in found.items():
            if isinstance(theirs, ImportError):
                raise ClusterError(f"the worker {worker} {_MISSING}")
            if isinstance(theirs, Exception):
                raise ClusterError(f"the worker {worker} does not answer: {theirs!r}.")
            _require_same_versions(current_versions(), Versions(*theirs), worker)


class _Call:
    """One call: what its blocks are called, share, and how many of them may be under way."""

    def __init__(
        self, engine: Dask, function: Callable[..., Any], shared: Sequence[Any], total: int
    ) -> None:
        self.engine = engine
        self.function = function
        self.total = total
        self.name = display_name(function)
        self.token = uuid.uuid4().hex[:8]
        parcel = cloudpickle.dumps(tuple(shared), protocol=5)
        self.inline = parcel if len(parcel) <= INLINE_MAX_BYTES else None
        self.shared = None if self.inline is not None else engine._share(parcel)
        self._looked = -np.inf
        self._threads = 1

    def submit(self, number: int, rows: list[Any]) -> Future:
        parcel = cloudpickle.dumps((self.function, rows), protocol=5)
        key = f"{self.name}-{number + 1}/{self.total}-{self.token}"
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            return self.engine.client.submit(
                _run_pickled_batch,
                current_versions(),
                parcel,
                self.inline,
                self.shared,
                key=key,
                pure=False,
            )

    def window(self) -> int:
        """Blocks under way at most; workers come and go."""
        if monotonic() - self._looked > POLL_SECONDS:
            self._threads = max(1, self.engine.count_threads())
            self._looked = monotonic()
        return BATCHES_PER_THREAD * self._threads

    def close(self) -> None:
        self.shared = None


# -- what workers run ------------------------------------------------------------------------------


def _unpickle_shared(theirs: Versions, parcel: bytes) -> tuple[Any, ...]:
    """What blocks share, opened once on each worker."""
    _require_same_versions(theirs, current_versions(), _worker_address())
    return tuple(separate_shared(pickle.loads(parcel)))


def _run_pickled_batch(
    theirs: Versions, parcel: bytes, inline: bytes | None, shared: tuple[Any, ...] | None
) -> bytes:
    """Run one block; what it returns travels as a pickle, and is as writable as what was made."""
    _require_same_versions(theirs, current_versions(), _worker_address())
    function, rows = pickle.loads(parcel)
    values = pickle.loads(inline) if inline is not None else shared or ()
    ensure_blas_single_threaded()
    answer: bytes = cloudpickle.dumps(run_batch(function, rows, values), protocol=5)
    return answer


def _require_same_versions(ours: Versions, theirs: Versions, worker: str) -> None:
    if tuple(ours) != tuple(theirs):
        raise ClusterError(
            f"the worker {worker} has {Versions(*theirs)}; whoever gives it work has "
            f"{Versions(*ours)}. Install the same on all machines."
        )


def _worker_address() -> str:
    with suppress(ValueError):  # no worker: a test calls it
        return str(get_worker().address)
    return "here"


# -- what can go wrong -----------------------------------------------------------------------------

_MISSING = 'has no prototag: pip install "prototag[cluster]" where it runs.'
_NO_WORKER = (
    "the cluster has had no worker for {:.0f} seconds: start some with `dask worker ADDRESS`, and "
    "run this again."
)


def _connect(where: str) -> Client:
    is_file = "://" not in where and not _is_host(where)
    if is_file and not os.path.isfile(where):
        raise ClusterError(
            f"{where} is neither the address of a scheduler, such as tcp://host:8786, nor the file "
            "that one wrote (dask scheduler --scheduler-file)."
        )
    try:
        if is_file:
            return Client(
                scheduler_file=where, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False
            )
        return Client(where, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, AssertionError) as error:
        raise ClusterError(
            f"no scheduler answers at {where}: {error}. Start one with `dask scheduler`, or "
            "give its address."
        ) from error


def _is_host(where: str) -> bool:
    host, _, port = where.rpartition(":")
    return bool(host) and port.isdigit() and os.sep not in where


def _reconnect(address: str, patience: float) -> Dask:
    return Dask(address, patience=patience)


def _killed_error(error: KilledWorker) -> ClusterError:
    name = str(error.task).rpartition("-")[0]
    return ClusterError(
        f'"{name}" was given up: {error.allowed_failures + 1} workers died over it, one after the '
        f"other, the last at {getattr(error.last_worker, 'address', error.last_worker)}. Most "
        "often they had too little memory: see their logs, give each more, or run fewer on a "
        "machine."
    )


@contextmanager
def _scheduler_errors() -> Iterator[None]:
    try:
        yield
    except (CommClosedError, FutureCancelledError) as error:
        raise ClusterError(
            f"the scheduler of the cluster is gone, or forgot the work: {error}. Start it again, "
            "and run this again."
        ) from error
