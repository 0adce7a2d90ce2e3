"""The cluster engine: batches on a Dask cluster (docs/reference/cluster.md).

Batches are sent as pickles, which a worker loads only after comparing versions. The shared values
of a call are sent once and stay on the workers. The scheduler keeps a copy, from which they are
restored if a worker dies.
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
BATCHES_PER_THREAD = 3  # batches per thread of the cluster that run or whose results wait
INLINE_MAX_BYTES = 1 << 15  # smaller shared values are sent with each batch
SHARED_CACHE_BYTES = 1 << 28  # of recent shared values that stay on the workers for later calls
POLL_SECONDS = 5.0  # between two checks of the workers
WORKER_TIMEOUT_SECONDS = 300.0  # without any worker until a call fails
CONNECT_TIMEOUT_SECONDS = 30.0
# The worker profiler samples all stacks every 10 ms, which takes 3% of a core.
LOCAL_CLUSTER_CONFIG = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "200ms",
}


class Versions(NamedTuple):
    """Versions that must be equal on both sides."""

    prototag: str
    python: str
    numpy: str

    def __str__(self) -> str:
        return f"prototag {self.prototag} on Python {self.python} with NumPy {self.numpy}"


def current_versions() -> Versions:
    """Return the versions of this process: minor version of Python, major version of NumPy."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Versions(prototag.__version__, python, np.__version__.partition(".")[0])


class Dask(Engine):
    """Runs batches on a Dask cluster, with results bit-identical to those of threads.

    Parameters
    ----------
    scheduler : str, path or distributed.Client
        The address of a scheduler (``tcp://host:8786``, or ``tls://...`` with the certificates that
        Dask's configuration names), or the file of ``dask scheduler --scheduler-file``.
    worker_timeout : float
        Seconds without any worker after which a call fails.
    """

    def __init__(
        self,
        scheduler: str | os.PathLike[str] | Client,
        *,
        worker_timeout: float = WORKER_TIMEOUT_SECONDS,
    ):
        self._cluster: LocalCluster | None = None
        self._owns_client = not isinstance(scheduler, Client)
        self.worker_timeout = worker_timeout
        self.client = scheduler if isinstance(scheduler, Client) else _connect(os.fspath(scheduler))
        self._shared_futures: OrderedDict[str, tuple[Future, int]] = OrderedDict()
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    @classmethod
    def local(cls, n: int) -> Self:
        """Start a cluster of ``n`` single-threaded processes on this machine."""
        with dask.config.set(LOCAL_CLUSTER_CONFIG):
            cluster = LocalCluster(
                n_workers=n,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any free port
                silence_logs=50,  # this class reports dead workers itself
            )
        try:
            engine = cls(cluster.scheduler_address)
        except BaseException:
            cluster.close()
            raise
        engine._cluster = cluster
        return engine

    def close(self) -> None:
        """Disconnect from the cluster; stop it if :meth:`local` started it."""
        for future, _ in self._shared_futures.values():
            future.release()
        self._shared_futures.clear()
        if self._owns_client:
            self.client.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reconnect, (self.client.scheduler.address, self.worker_timeout)

    def __repr__(self) -> str:
        return f"Dask({self.client.scheduler.address!r})" if self.client.scheduler else "Dask()"

    def count_threads(self) -> int:
        """Return the number of threads of all current workers."""
        with _scheduler_errors():
            return sum(self.client.nthreads().values())

    # -- batches -----------------------------------------------------------------------------------

    def stream(
        self,
        function: Callable[..., T],
        rows: Sequence[Any],
        shared: Sequence[Any] = (),
        *,
        size: int,
    ) -> Iterator[T]:
        """See :class:`prototag.engine.Engine`.

        A batch is rescheduled if its worker dies. The first exception of a batch ends the call.
        """
        parts = list(batch_slices(count_rows(rows), size))
        if not parts:
            return
        call = _Call(self, function, shared, len(parts))
        waiting: deque[Future] = deque()
        try:
            with single_threaded_blas():  # the consumer of the results computes as with threads
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
        """Yield the first result and those after it that are finished."""
        self._await(waiting[0])
        finished = [waiting.popleft()]
        while waiting and waiting[0].status == "finished":
            finished.append(waiting.popleft())
        try:
            with _scheduler_errors():
                answers = self.client.gather(finished)
        except KilledWorker as error:
            raise _killed_error(error) from error
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "prototag":
                raise ClusterError(f"a worker {_MISSING}") from error
            raise
        finally:
            for future in finished:
                future.release()
            del finished
        while answers:
            yield pickle.loads(answers.pop(0))

    def _await(self, future: Future) -> None:
        """Wait for a result; fail after ``worker_timeout`` without workers."""
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
            elif monotonic() - last_seen > self.worker_timeout:
                raise ClusterError(_NO_WORKER.format(self.worker_timeout))

    def _share(self, pickled: bytes) -> Future:
        """Send shared values as a task that the scheduler can repeat."""
        digest = blake2b(pickled, digest_size=8).hexdigest()
        if digest in self._shared_futures and self._shared_futures[digest][0].status in (
            "pending",
            "finished",
        ):
            self._shared_futures.move_to_end(digest)
            return self._shared_futures[digest][0]
        name = f"Shared values-{digest}-{uuid.uuid4().hex[:8]}"
        # Dask warns of large tasks, which are often sent repeatedly by mistake.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            future = self.client.submit(
                _unpickle_shared, current_versions(), pickled, key=name, pure=False
            )
        self._shared_futures[digest] = future, len(pickled)
        while (
            len(self._shared_futures) > 1
            and sum(size for _, size in self._shared_futures.values()) > SHARED_CACHE_BYTES
        ):
            self._shared_futures.popitem(last=False)
        return future

    def _check_workers(self) -> None:
        """Raise an error that names a worker with other versions."""

        def about() -> tuple[str, str, str]:  # sent as code, since prototag may be missing there
            import sys

            import numpy

            import prototag

            python = f"{sys.version_info.major}.{sys.version_info.minor}"
            return prototag.__version__, python, numpy.__version__.partition(".")[0]

        with _scheduler_errors():
            answers_by_worker = self.client.run(about, on_error="return")
        for worker, theirs in answers_by_worker.items():
            if isinstance(theirs, ImportError):
                raise ClusterError(f"the worker {worker} {_MISSING}")
            if isinstance(theirs, Exception):
                raise ClusterError(f"the worker {worker} does not answer: {theirs!r}.")
            _require_same_versions(current_versions(), Versions(*theirs), worker)


class _Call:
    """One call of ``stream``: task names, shared values and the number of batches in flight."""

    def __init__(
        self, engine: Dask, function: Callable[..., Any], shared: Sequence[Any], total: int
    ) -> None:
        self.engine = engine
        self.function = function
        self.total = total
        self.name = display_name(function)
        self.token = uuid.uuid4().hex[:8]
        pickled = cloudpickle.dumps(tuple(shared), protocol=5)
        self.inline = pickled if len(pickled) <= INLINE_MAX_BYTES else None
        self.shared = None if self.inline is not None else engine._share(pickled)
        self._last_poll = -np.inf
        self._threads = 1

    def submit(self, number: int, rows: list[Any]) -> Future:
        pickled = cloudpickle.dumps((self.function, rows), protocol=5)
        key = f"{self.name}-{number + 1}/{self.total}-{self.token}"
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PB"}):
            return self.engine.client.submit(
                _run_pickled_batch,
                current_versions(),
                pickled,
                self.inline,
                self.shared,
                key=key,
                pure=False,
            )

    def window(self) -> int:
        """Return the maximum number of batches in flight for the current workers."""
        if monotonic() - self._last_poll > POLL_SECONDS:
            self._threads = max(1, self.engine.count_threads())
            self._last_poll = monotonic()
        return BATCHES_PER_THREAD * self._threads

    def close(self) -> None:
        self.shared = None


# -- worker functions ------------------------------------------------------------------------------


def _unpickle_shared(theirs: Versions, pickled: bytes) -> tuple[Any, ...]:
    """Unpickle the shared values, once on each worker."""
    _require_same_versions(theirs, current_versions(), _worker_address())
    return tuple(separate_shared(pickle.loads(pickled)))


def _run_pickled_batch(
    theirs: Versions, pickled: bytes, inline: bytes | None, shared: tuple[Any, ...] | None
) -> bytes:
    """Run a batch and pickle its result, which keeps arrays writable."""
    _require_same_versions(theirs, current_versions(), _worker_address())
    function, rows = pickle.loads(pickled)
    values = pickle.loads(inline) if inline is not None else shared or ()
    ensure_blas_single_threaded()
    answer: bytes = cloudpickle.dumps(run_batch(function, rows, values), protocol=5)
    return answer


def _require_same_versions(ours: Versions, theirs: Versions, worker: str) -> None:
    if tuple(ours) != tuple(theirs):
        raise ClusterError(
            f"the worker {worker} has {Versions(*theirs)}; this process has "
            f"{Versions(*ours)}. Install the same versions on all machines."
        )


def _worker_address() -> str:
    with suppress(ValueError):  # outside a worker, in tests
        return str(get_worker().address)
    return "of this process"


# -- errors --------------------------------------------------------------------------------------

_MISSING = 'has no prototag: run pip install "prototag[cluster]" in its environment.'
_NO_WORKER = (
    "the cluster has had no worker for {:.0f} seconds: start some with `dask worker ADDRESS`, and "
    "run this again."
)


def _connect(scheduler: str) -> Client:
    is_file = "://" not in scheduler and not _is_host(scheduler)
    if is_file and not os.path.isfile(scheduler):
        raise ClusterError(
            f"{scheduler} is neither the address of a scheduler, such as tcp://host:8786, nor a "
            "scheduler file (dask scheduler --scheduler-file)."
        )
    try:
        if is_file:
            return Client(
                scheduler_file=scheduler, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False
            )
        return Client(scheduler, timeout=CONNECT_TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError, AssertionError) as error:
        raise ClusterError(
            f"no scheduler answers at {scheduler}: {error}. Start one with `dask scheduler`, or "
            "give its address."
        ) from error


def _is_host(scheduler: str) -> bool:
    host, _, port = scheduler.rpartition(":")
    return bool(host) and port.isdigit() and os.sep not in scheduler


def _reconnect(address: str, worker_timeout: float) -> Dask:
    return Dask(address, worker_timeout=worker_timeout)


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
