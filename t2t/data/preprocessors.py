"""The step between reading and batching: applies a problem's preprocessors to the training examples of an epoch.

The result for an example is a pure function of (seed, epoch, example): it depends neither on its batch nor on what was
read before.

Letters: N requested examples, B rows of a batch, L its padded length.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from t2t.data.columns import SEQUENCES, batch_dtype, pack
from t2t.data.reader import SplitReader
from t2t.errors import UserError, did_you_mean
from t2t.problems.masking import TokenMasking
from t2t.problems.preprocessors import Example, Preprocessor
from t2t.specs.constants import INPUTS, TARGETS


class PreprocessedReader(SplitReader):
    """A split with its examples preprocessed for one epoch; features that no preprocessor names are read as stored.

    Preprocessors that change lengths run first, when lengths are requested, and their results are kept. The others run
    when an example is read.

    Raises:
        UserError: a preprocessor names a feature that is not stored.
    """

    def __init__(self, reader: SplitReader, preprocessors: Sequence[Preprocessor], seed: int, epoch: int):
        vars(self).update(vars(reader))  # the same files and what they hold
        self._stored, self._key = reader, (seed, epoch)
        steps = list(enumerate(preprocessors))
        self._resizing = [step for step in steps if step[1].changes_lengths]
        self._keeping = [step for step in steps if not step[1].changes_lengths]
        self._resized = _features_of(self._resizing)
        self._kept: dict[int, Example] = {}
        """By example, the features whose lengths may have changed."""
        for name in _features_of(steps):
            if name not in self.features:
                raise UserError(
                    f"preprocessors of {self.problem}: the data has no feature {name!r}; "
                    f"{did_you_mean(name, self.features)}it has {', '.join(self.features)}"
                )

    def lengths(self, feature: str, indices: np.ndarray | None = None) -> np.ndarray:
        """Returns the lengths, (N,) int32, of the examples at `indices`, or of all."""
        if feature not in self._resized:
            return self._stored.lengths(feature, indices)
        numbers = range(len(self)) if indices is None else indices.tolist()
        if missing := [number for number in numbers if number not in self._kept]:
            for number, example in zip(missing, self._rows(np.array(missing), self._resized), strict=True):
                self._kept[number] = self._changed(example, number, self._resizing)
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
        examples = zip(indices.tolist(), self._rows(indices, names - self._resized), strict=True)
        changed = [
            self._changed(example | {name: self._kept[n][name] for name in names & self._resized}, n, steps)[feature]
            for n, example in examples
        ]
        column = pack(changed, self.features[feature], feature, self.problem, "preprocessors")
        if not np.array_equal(column.lengths, lengths):
            raise UserError(
                f"preprocessors of {self.problem}: {steps[-1][1]} has changed lengths; set its changes_lengths = True"
            )
        return column.values, lengths

    def _steps_of(self, feature: str) -> tuple[list[tuple[int, Preprocessor]], set[str]]:
        """Returns the preprocessors that a feature depends on when it is read, and all features that they use."""
        steps: list[tuple[int, Preprocessor]] = []
        names = {feature}
        for step in reversed(self._keeping):
            if names & set(step[1].features):
                steps.insert(0, step)
                names |= set(step[1].features)
        return steps, names

    def _changed(self, example: Example, number: int, steps: Sequence[tuple[int, Preprocessor]]) -> Example:
        """Applies some preprocessors, each given with its position in the problem's list, to an example."""
        for place, preprocessor in steps:
            seen = {name: example[name] for name in preprocessor.features}
            example = example | preprocessor(seen, generator_of(*self._key, number, place))
        return example

    def _rows(self, indices: np.ndarray, features: set[str]) -> list[Example]:
        """Returns examples as they are stored."""
        examples: list[Example] = [{} for _ in indices]
        for name in features:
            spec = self.features[name]
            values, lengths = self._stored.read(indices, name)
            values = values.astype(batch_dtype(spec), copy=False)
            rows = np.split(values, np.cumsum(lengths)[:-1]) if spec.kind in SEQUENCES else values
            for example, row in zip(examples, rows, strict=True):
                example[name] = row
        return examples


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


def generator_of(seed: int, epoch: int, example: int, place: int | str) -> np.random.Generator:
    """Returns the generator of one preprocessor, given by its position in the list, for one example in one epoch."""
    digest = hashlib.blake2b(f"preprocessor/{seed}/{epoch}/{example}/{place}".encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest))


def _features_of(steps: Sequence[tuple[int, Preprocessor]]) -> set[str]:
    return {name for _, preprocessor in steps for name in preprocessor.features}
