"""The step between reading and batching: applies a problem's preprocessors to the training examples of an epoch.

The result for an example is a pure function of (seed, epoch, example): it depends neither on its batch nor on what was
read before. Preprocessors that change lengths run before batches are cut, on all examples of a window; processes do so
for the next window while training works on this one. They are new ones, not forked: TensorFlow's threads do not survive
a fork.

Letters: N requested examples, B rows of a batch, L its padded length.
"""

import contextlib
import hashlib
import logging
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from t2t.data.columns import batch_dtype, pack
from t2t.data.reading.reader import SplitReader
from t2t.errors import UserError, did_you_mean
from t2t.files.processor import available_cores
from t2t.problems.preprocessors import Example, Preprocessor, TokenMasking
from t2t.registry.overrides import PluginError, described, is_of_plugin
from t2t.specs import INPUTS, TARGETS

log = logging.getLogger("t2t")

LEAST_EXAMPLES = 4096
"""Fewer examples are preprocessed where they are needed: starting a process would take longer."""

MOST_PROCESSES = 16
"""Processes that are started by default."""

Columns = dict[str, tuple[np.ndarray, np.ndarray | None]]
"""By feature, concatenated values and lengths, (N,); no lengths where each example has one value, as images have."""

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
        log.warning("a process that preprocesses examples has ended (%r); one thread continues without it", error)
        self._begun, self._count = None, 0
        _end(self._children)


class PreprocessedReader(SplitReader):
    """A split with its examples preprocessed for one epoch; features that no preprocessor names are read as stored.

    Preprocessors that change lengths run first, when lengths are requested, and their results are kept. The others run
    when an example is read.

    Raises:
        UserError: a preprocessor names a feature that is not stored.
    """

    def __init__(
        self,
        reader: SplitReader,
        preprocessors: Sequence[Preprocessor],
        seed: int,
        epoch: int,
        pool: PreprocessingPool | None = None,
    ):
        vars(self).update(vars(reader))  # the same files and what they hold
        self._stored, self._key, self._pool = reader, (seed, epoch), pool
        steps = list(enumerate(preprocessors))
        self._resizing = [step for step in steps if step[1].changes_lengths]
        self._keeping = [step for step in steps if not step[1].changes_lengths]
        self._resized = _features_of(self._resizing)
        self._kept: dict[int, Example] = {}
        """By example, the features whose lengths may have changed."""
        self._unchecked = {position for position, one in steps if is_of_plugin(type(one))}
        for name in _features_of(steps):
            if name not in self.features:
                raise UserError(
                    f"preprocessors of {self.problem}: the data has no feature {name!r}",
                    f"{did_you_mean(name, self.features)}it has {', '.join(self.features)}",
                )

    def lengths(self, feature: str, indices: np.ndarray | None = None) -> np.ndarray:
        """Returns the lengths, (N,) int32, of the examples at `indices`, or of all."""
        if feature not in self._resized:
            return self._stored.lengths(feature, indices)
        numbers = range(len(self)) if indices is None else indices.tolist()
        if missing := [number for number in numbers if number not in self._kept]:
            self._kept |= zip(missing, self._resized_rows(np.array(missing)), strict=True)
        return np.array([len(self._kept[number][feature]) for number in numbers], np.int32)

    def read(self, indices: np.ndarray, feature: str) -> tuple[np.ndarray, np.ndarray]:
        """Reads examples, see `SplitReader.read`.

        Raises:
            UserError: a preprocessor returned values that the feature does not allow, or changed lengths without
                `changes_lengths`.
        """
        steps, names = self._steps_of(feature)
        if not steps and feature not in self._resized:
            return self._stored.read(indices, feature)
        indices = np.asarray(indices)
        lengths = self.lengths(feature, indices)
        stored = split_columns(self._columns(indices, names - self._resized)) or [{} for _ in indices]
        changed = []
        for number, example in zip(indices.tolist(), stored, strict=True):
            kept = {name: self._kept[number][name] for name in names & self._resized}
            changed.append(self._changed(example | kept, number, steps)[feature])
        column = pack(changed, self.features[feature], feature, self.problem, "preprocessors")
        if not np.array_equal(column.lengths, lengths):
            raise UserError(
                f"preprocessors of {self.problem}: {steps[-1][1]} has changed lengths", "set its changes_lengths = True"
            )
        return column.values, lengths

    def _steps_of(self, feature: str) -> tuple[list[Step], set[str]]:
        """Returns the preprocessors that a feature depends on when it is read, and all features that they use."""
        steps: list[Step] = []
        names = {feature}
        for step in reversed(self._keeping):
            if names & set(step[1].features):
                steps.insert(0, step)
                names |= set(step[1].features)
        return steps, names

    def prepare(self, indices: np.ndarray) -> None:
        """Has the pool preprocess examples whose lengths will be requested next, without waiting."""
        if self._pool is not None and len(indices) >= self._pool.least_examples:
            self._pool.begin(self._key, indices, self._columns)

    def _resized_rows(self, indices: np.ndarray) -> Sequence[Example]:
        """Returns the features of examples whose lengths may change, preprocessed."""
        if self._pool is not None and len(indices) >= self._pool.least_examples:
            found = self._pool.finish(self._key, indices, self._columns)
            if found is not None:
                return found
        rows = zip(indices.tolist(), split_columns(self._columns(indices)), strict=True)
        return [self._changed(one, number, self._resizing) for number, one in rows]

    def _changed(self, example: Example, number: int, steps: Sequence[Step]) -> Example:
        """Does the same as the function; checks each preprocessor of a plug-in on the first example."""
        for step in [one for one in steps if one[0] in self._unchecked]:
            self._unchecked.discard(step[0])
            before = {name: array.copy() for name, array in example.items()}
            first, second = (_changed(example, number, [step], self._key) for _ in range(2))
            own = described(type(step[1]))
            if not _is_same(example, before):
                raise PluginError(f"{own}: it changes the arrays that it is given", "return changed copies")
            if not _is_same(first, second):
                raise PluginError(f"{own}: it changes an example in two ways", "draw only from the generator rng")
        return _changed(example, number, steps, self._key)

    def _columns(self, indices: np.ndarray, features: Collection[str] | None = None) -> Columns:
        """Returns examples as they are stored; by default their features whose lengths may change."""
        columns: Columns = {}
        for name in self._resized if features is None else features:
            values, lengths = self._stored.read(indices, name)
            values = values.astype(batch_dtype(self.features[name]), copy=False)
            columns[name] = values, lengths if self.is_sequence(name) else None
        return columns


def mask_rows(arrays: Example, indices: np.ndarray, masking: TokenMasking, seed: int, epoch: int) -> None:
    """Masks the rows of a batch in place, see `Problem.masking`; each row is a function of (seed, epoch, example).

    Args:
        arrays: the batch: `targets` and `inputs`, (B, L) int32, are equal except for the padding.
        indices: the examples of its first rows; the others are empty.
        masking: hides tokens.
        seed: of the run.
        epoch: from 0.
    """
    common = min(arrays[INPUTS].shape[1], arrays[TARGETS].shape[1])  # widths of fixed shapes may differ
    for row, example in enumerate(indices.tolist()):
        rng = generator_of(seed, epoch, example, "masking")
        inputs, targets = masking(arrays[TARGETS][row, :common], rng)
        arrays[INPUTS][row, :common], arrays[TARGETS][row, :common] = inputs, targets


def pool_of(
    reader: SplitReader, preprocessors: Sequence[Preprocessor], processes: int | None
) -> PreprocessingPool | None:
    """Returns the processes for preprocessors that change lengths; None for preprocessors of other kinds.

    Those of plug-ins are called in this process: to import their modules in others might take long or have effects.

    Args:
        reader: of the examples.
        preprocessors: those of the problem.
        processes: their number; None for half of the cores, and only for many examples at once.
    """
    steps = [step for step in enumerate(preprocessors) if step[1].changes_lengths]
    if not steps or not all(type(one).__module__.startswith("t2t.") for _, one in steps):
        return None
    if not all(name in reader.features and reader.is_sequence(name) for name in _features_of(steps)):
        return None
    if processes is not None:
        return PreprocessingPool(steps, processes, least_examples=processes)
    found = min(MOST_PROCESSES, available_cores() // 2)
    return PreprocessingPool(steps, found) if found else None


def _is_same(one: Example, other: Example) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def _change_all(steps: Sequence[Step], key: Key, numbers: Sequence[int], examples: Sequence[Example]) -> list[Example]:
    """Applies some preprocessors to examples; `key` has the seed and the epoch."""
    return [_changed(one, number, steps, key) for number, one in zip(numbers, examples, strict=True)]


def _changed(example: Example, number: int, steps: Sequence[Step], key: Key) -> Example:
    for position, preprocessor in steps:
        seen = {name: example[name] for name in preprocessor.features}
        example = example | preprocessor(seen, generator_of(*key, number, position))
    return example


def generator_of(seed: int, epoch: int, example: int, position: int | str) -> np.random.Generator:
    """Returns the generator of one preprocessor, given by its position in the list, for one example in one epoch."""
    digest = hashlib.blake2b(f"preprocessor/{seed}/{epoch}/{example}/{position}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest))


def _features_of(steps: Sequence[Step]) -> set[str]:
    return {name for _, preprocessor in steps for name in preprocessor.features}


def split_columns(columns: Columns) -> list[Example]:
    """Returns examples, each with its own arrays."""
    rows = {
        name: values if lengths is None else np.split(values, np.cumsum(lengths)[:-1])
        for name, (values, lengths) in columns.items()
    }
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


def serve_parent() -> None:
    """In a process of a `PreprocessingPool`: preprocesses what the parent sends, until the parent ends."""
    received, sent = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that a plug-in prints gets among the results
    with contextlib.suppress(EOFError, OSError):
        steps = pickle.load(received)
        while True:
            key, numbers, columns = pickle.load(received)
            examples = _change_all(steps, key, numbers, split_columns(columns))
            pickle.dump(joined_columns(examples) if examples else {}, sent, pickle.HIGHEST_PROTOCOL)
            sent.flush()
    os._exit(0)  # what is left in a broken pipe would be an error
