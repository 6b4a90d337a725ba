"""The processes of this machine that encode samples and make shards, by default one per core."""

import contextlib
import copy
import logging
import multiprocessing
import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

from t2t.data.generation.encoding import chunks_of, map_chunks
from t2t.errors import MachineError
from t2t.files.processor import available_cores
from t2t.problems.base import Problem
from t2t.problems.samples import SampleRecord, call_here

log = logging.getLogger("t2t")

_SECONDS_BETWEEN_LOOKS = 0.5
"""Longest pause between two progress reports while waiting for shards."""


class WorkerPool:
    """Runs a generation in worker processes.

    The constructor forks them, before vocabularies are built or TensorFlow Datasets loads TensorFlow, whose threads do
    not survive a fork. For the same reason a process that already has threads does the work itself. Workers have the
    problem as it was constructed.
    """

    def __init__(self, problem: Problem, workers: int | None = None):
        self._problem = copy.copy(problem)
        self._pool: ProcessPoolExecutor | None = None
        wanted = workers or available_cores()
        self.processes = wanted if _may_fork() else 1
        """Number of worker processes; 1 if this process does the work."""
        if self.processes < wanted:
            log.info(
                "one process generates where %d could: this one has threads or TensorFlow, which prevent forking; "
                "t2t-datagen has neither", wanted,
            )  # fmt: skip
        if self.processes > 1:
            context = multiprocessing.get_context("fork")
            self._read, self._stopped = context.Value("q"), context.Event()
            self._alive = os.pipe()  # the system closes it when this process ends, even if it is killed
            self._pool = ProcessPoolExecutor(
                self.processes,
                context,
                initializer=_start_worker,
                initargs=(self._problem, self._alive, self._read, self._stopped),
            )
            self._pool.submit(os.getpid).result()  # forks them now

    def map_chunks(
        self, function: Callable[..., Any], samples: Iterable[SampleRecord], *arguments: Any
    ) -> Iterator[Any]:
        """Yields what a function makes of each chunk of samples, see `encoding.map_chunks`, a few chunks ahead at most.

        Raises:
            Exception: what the function raises.
            MachineError: a worker died.
        """
        if self._pool is None:
            return map_chunks(self._problem, function, samples, *arguments)
        calls = ((*arguments, chunk, first) for first, chunk in chunks_of(self._problem, samples))
        return self._in_order(function, calls, 4 * self.processes)

    def call_each(self, problem: Problem, function: Callable[..., Any], calls: Iterable[tuple]) -> Iterator[Any]:
        """Yields the results of a function of the problem for each tuple of arguments; see `CallEach`.

        Raises:
            MachineError: a worker died.
        """
        if self._pool is None or type(problem) is not type(self._problem):  # workers have no other problem
            return call_here(problem, function, calls)
        return self._in_order(function, calls, self.processes)

    def run_each(
        self, function: Callable[..., Any], calls: Sequence[tuple], progress: Callable[[int], None]
    ) -> Iterator[Any]:
        """Calls a function with the problem and each tuple of arguments; yields the results as they are completed.

        There must be more than one process.

        Args:
            function: of a module. Its last argument is a callback, to be called with the number of samples read so far.
            calls: the arguments between the problem and the callback.
            progress: called now and then with the number of samples that all calls have read.

        Raises:
            MachineError: a worker died.
        """
        assert self._pool is not None, "there are workers"
        self._read.value = 0
        following, waiting = iter(calls), set[Future]()
        try:
            while True:
                room = 2 * self.processes - len(waiting)  # to look at thousands of futures again and again takes long
                waiting |= {self._pool.submit(_run_in_worker, function, *call) for call in islice(following, room)}
                if not waiting:
                    return
                done, waiting = wait(waiting, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
                progress(self._read.value)
                with _dead_workers_as_machine_errors():
                    yield from [future.result() for future in done]
        finally:
            self._stop(waiting)

    def _in_order(self, function: Callable[..., Any], calls: Iterable[tuple], ahead: int) -> Iterator[Any]:
        """Yields results in the order of the calls, at most some calls ahead of the reader."""
        assert self._pool is not None, "there are workers"
        waiting: deque[Future] = deque()
        try:
            with _dead_workers_as_machine_errors():
                for call in calls:
                    waiting.append(self._pool.submit(_call_in_worker, function, *call))
                    if len(waiting) >= ahead:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _stop(self, waiting: Iterable[Future]) -> None:
        """Stops unfinished calls at once, without waiting for whole shards."""
        waiting = [future for future in waiting if not future.cancel()]
        if waiting:
            self._stopped.set()
            wait(waiting)
            self._stopped.clear()

    def close(self) -> None:
        """Ends the workers."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            for end in self._alive:
                os.close(end)


@contextlib.contextmanager
def _dead_workers_as_machine_errors() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise MachineError(
            "a process that encodes the data died, most likely for want of memory",
            "free some memory, or generate in fewer processes (--num_concurrent_processes)",
        ) from error


def _may_fork() -> bool:
    known = "fork" in multiprocessing.get_all_start_methods()
    return known and threading.active_count() == 1 and "tensorflow" not in sys.modules


class _StoppedError(Exception):
    """The result of a call is not needed any more."""


# The following runs in a worker, which has the same problem all its life.
_problem: Problem
_read: Any
_stopped: Any


def _start_worker(problem: Problem, alive: tuple[int, int], read: Any, stopped: Any) -> None:
    global _problem, _read, _stopped
    _problem, _read, _stopped = problem, read, stopped
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.close(alive[1])
    threading.Thread(target=_exit_with_parent, args=(alive[0], os.getppid()), daemon=True).start()


def _exit_with_parent(alive: int, parent: int) -> None:
    """Ends this process as soon as its parent has ended, before the next run makes the same shard."""
    while os.getppid() == parent and not select.select([alive], [], [], 1)[0]:
        pass  # getppid is for the case that another process keeps the pipe open
    os._exit(1)


def _call_in_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(_problem, *arguments)


def _run_in_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    last = 0

    def tell(read: int) -> None:
        nonlocal last
        with _read.get_lock():
            _read.value += read - last
        last = read
        if _stopped.is_set():
            raise _StoppedError

    return function(_problem, *arguments, tell)
