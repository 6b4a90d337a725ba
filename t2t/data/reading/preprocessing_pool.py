"""Processes that preprocess the examples of the next window while training works on those of this one.

Preprocessors that change lengths run before batches are cut, on all examples of a window at once. They do not depend on
each other, so each process takes a part of them; which process an example is in does not change what becomes of it.

The processes are new ones, not forked: TensorFlow's threads do not survive a fork.

Letters: N examples.
"""

import contextlib
import logging
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from t2t.problems.preprocessors import Example, Preprocessor

log = logging.getLogger("t2t")

LEAST_EXAMPLES = 4096
"""Fewer examples are preprocessed where they are needed: starting a process would take longer."""

MOST_PROCESSES = 8
"""Processes that are started by default."""

Columns = dict[str, tuple[np.ndarray, np.ndarray]]
"""By feature, concatenated values and lengths, (N,)."""

Step = tuple[int, Preprocessor]
"""A preprocessor, with its position in the problem's list in front."""

Key = tuple[int, int]
"""The seed of the run, and an epoch."""

_CHILD = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from t2t.data.reading.preprocessors import serve_parent
serve_parent()
"""


class PreprocessingPool:
    """Applies some preprocessors to many examples, in processes that are started when they are first needed.

    If one of them ends, nothing is lost: the examples are preprocessed where they are needed from then on.

    Args:
        steps: the preprocessors.
        processes: number of processes.
        least_examples: how many at a time are worth it, at least one for each process.
    """

    def __init__(self, steps: Sequence[Step], processes: int, least_examples: int = LEAST_EXAMPLES):
        self.least_examples = least_examples
        self._steps, self._count = list(steps), processes
        self._children: list[subprocess.Popen] = []
        self._begun: tuple[Key, np.ndarray] | None = None

    def begin(self, key: Key, numbers: np.ndarray, read: Callable[[np.ndarray], Columns]) -> None:
        """Sends examples to the processes, each a part, without waiting; `finish` returns what becomes of them.

        Args:
            key: seed and epoch.
            numbers: (N,) the examples.
            read: returns the stored features of examples that preprocessors change.
        """
        if self._begun is not None:
            self._receive()
        if not self._count:
            return
        try:
            if not self._children:
                self._start()
            for child, part in zip(self._children, np.array_split(numbers, len(self._children)), strict=True):
                _send(child, (key, part.tolist(), read(part)))
            self._begun = key, numbers
        except (OSError, ValueError, AttributeError, pickle.PicklingError) as error:
            self._give_up(error)

    def finish(self, key: Key, numbers: np.ndarray, read: Callable[[np.ndarray], Columns]) -> list[Example] | None:
        """Returns what becomes of examples, begun before or not; None if no process can say. See `begin`."""
        begun = self._begun
        if begun is None or begun[0] != key or not np.array_equal(begun[1], numbers):
            self.begin(key, numbers, read)
        return self._receive() if self._begun is not None else None

    def _start(self) -> None:
        log.info("subwords are sampled a window ahead of training, processes: %d", self._count)
        for _ in range(self._count):
            child = subprocess.Popen(
                [sys.executable, "-P", "-c", _CHILD],  # no file of the current folder is taken for a module
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interruption of the command is none of its own
            )  # fmt: skip
            self._children.append(child)
        weakref.finalize(self, _end, self._children)
        for child in self._children:
            _send(child, sys.path)
            _send(child, self._steps)

    def _receive(self) -> list[Example] | None:
        """Waits for the results of what was begun."""
        self._begun = None
        try:
            parts = [pickle.load(child.stdout) for child in self._children if child.stdout]
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self._give_up(error)
            return None
        return [example for part in parts for example in split_columns(part)]

    def _give_up(self, error: Exception) -> None:
        log.warning("a process that preprocesses examples has ended (%r); one thread goes on alone", error)
        self._begun, self._count = None, 0
        _end(self._children)


def split_columns(columns: Columns) -> list[Example]:
    """Returns examples, each with its own arrays."""
    rows = {name: np.split(values, np.cumsum(lengths)[:-1]) for name, (values, lengths) in columns.items()}
    return [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def joined_columns(examples: Sequence[Example]) -> Columns:
    """Returns the columns of examples; see `split_columns`."""
    return {
        name: (np.concatenate([one[name] for one in examples]), np.array([len(one[name]) for one in examples]))
        for name in examples[0]
    }


def _send(child: subprocess.Popen, message: Any) -> None:
    assert child.stdin is not None, "it has a pipe"
    pickle.dump(message, child.stdin, pickle.HIGHEST_PROTOCOL)
    child.stdin.flush()


def _end(children: list[subprocess.Popen]) -> None:
    for child in children:
        child.kill()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()
        child.wait()
    children.clear()


def answer_parent(work: Callable[[list[Step], Key, Sequence[int], list[Example]], list[Example]]) -> None:
    """In a process: preprocesses what the parent sends, by `work`, until the parent ends."""
    received, sent = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that a plug-in prints gets among the results
    with contextlib.suppress(EOFError, OSError):
        steps = pickle.load(received)
        while True:
            key, numbers, columns = pickle.load(received)
            examples = work(steps, key, numbers, split_columns(columns))
            pickle.dump(joined_columns(examples) if examples else {}, sent, pickle.HIGHEST_PROTOCOL)
            sent.flush()
    os._exit(0)  # what is left in a broken pipe would be an error
