"""Endless batches for training, epoch after epoch; training can resume at any of them.

Lengths count ids, vectors and frames; 10 ms of audio count as one (`length_unit`).
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from t2t.data.reading.batch_arrays import Arrays, read_batch
from t2t.data.reading.batching import LADDER_STEP, Batch, cut_batches, width_ladder
from t2t.data.reading.fixed_shapes import FixedShapes, obstacle_to_fixed_shapes
from t2t.data.reading.packing import PackedRows, check_packing
from t2t.data.reading.preprocessors import PreprocessedReader, mask_rows, pool_of
from t2t.data.reading.reader import SequenceLengths, SplitReader, checked_columns
from t2t.data.reading.sampler import WindowedOrder
from t2t.errors import UserError
from t2t.problems.preprocessors import Preprocessor, TokenMasking
from t2t.specs import TARGETS
from t2t.specs.features import FeatureKind


@dataclasses.dataclass(frozen=True)
class Curriculum:
    """A limit that rises linearly. It is a function of the number of batches drawn, so that a resumed run continues it.

    A window of examples has one limit, given by the number of batches drawn before it.
    """

    first: int
    """The limit at the beginning, in ids, end of sequence included."""
    last: int
    """The limit at the end."""
    batches: int
    """Number of batches after which the limit is `last`."""

    def longest(self, drawn: int) -> int:
        """Returns the limit after so many batches."""
        if drawn >= self.batches:
            return self.last
        return self.first + (self.last - self.first) * drawn // self.batches


WINDOW = 16_384
"""Examples that are sorted by length together."""

State = dict[str, int]
"""Position of the next batch in the data: `epoch`, `window` in the epoch and `batch` in the window, all from 0.

With a curriculum also `drawn`, the total number of batches so far.
"""


class TrainingBatches(Iterator[tuple[Arrays, State]]):
    """Endless batches of a split, epoch after epoch, with the state that follows each.

    The sequence is a pure function of the data and the arguments, so resuming from a state yields, without delay, the
    same batches as an uninterrupted run.

    Args:
        reader: of the split.
        seed: of the order, the preprocessors and the masking.
        batch_size: padded tokens per side, or examples if no feature is a sequence.
        window: examples that are sorted by length together; it should hold 50 batches or more.
        columns: feature name to stored feature name, e.g. `{"inputs": "targets", "targets": "inputs"}`; None for all
            features under their own names.
        max_length: examples with a longer sequence of ids are skipped, or cut if the target is a class; None for no
            limit. Audio may have any length.
        ladder_step: ratio of neighbouring widths, see `width_ladder`.
        fixed_shapes: largest number of shapes, see `FixedShapes`; 0 for any.
        fixed_shapes_multiple: widths of fixed shapes are multiples of this, up to `max_length`.
        packed_length: ids per row into which several examples are packed, see `PackedRows`; 0 for one example per row.
            When packing, each feature gets a second one with positions, see `POSITIONS`.
        curriculum: limits the lengths of early examples; None for no such limit.
        preprocessors: change the stored features of each example, differently in each epoch. Examples that become
            longer than `max_length` are skipped or cut as well.
        masking: hides tokens of each example, differently in each epoch, see `Problem.masking`; None for none.
        state: where to start; None for the beginning.
        processes: for preprocessors that change lengths; None to decide by the cores, see `pool_of`.

    Raises:
        UserError: a stored feature does not exist, every example is too long, or the state does not fit the data.
    """

    def __init__(
        self,
        reader: SplitReader,
        *,
        seed: int,
        batch_size: int,
        window: int = WINDOW,
        columns: Mapping[str, str] | None = None,
        max_length: int | None = None,
        ladder_step: float = LADDER_STEP,
        fixed_shapes: int = 0,
        fixed_shapes_multiple: int = 1,
        packed_length: int = 0,
        curriculum: Curriculum | None = None,
        preprocessors: Sequence[Preprocessor] = (),
        masking: TokenMasking | None = None,
        state: State | None = None,
        processes: int | None = None,
    ):
        self._reader, self._batch_size, self._max_length = reader, batch_size, max_length
        self._curriculum, self._preprocessors, self._seed = curriculum, preprocessors, seed
        self._masking = masking
        self._pool = pool_of(reader, preprocessors, processes)
        self.resized = {name for one in preprocessors if one.changes_lengths for name in one.features}
        """Stored features whose lengths are known only after preprocessing."""
        self._columns = checked_columns(reader, columns)
        self._sequences = SequenceLengths(reader, self._columns, max_length, self.resized)
        self._order = WindowedOrder(len(reader), seed, window)
        target = reader.features.get(self._columns.get(TARGETS, ""))
        self._target_is_class = target is not None and target.kind == FeatureKind.LABEL
        self._ladder_step = ladder_step
        longer = self._count_longer()
        self.skipped = 0 if self._target_is_class else longer
        """Number of stored examples that are left out of each epoch because they are longer than `max_length`."""
        self.shortened = longer - self.skipped
        """Number of stored examples that are longer than `max_length` and whose text is cut."""
        self.shapes: FixedShapes | None = None
        """The only shapes that occur; None for any."""
        if packed_length:
            check_packing(reader, self._columns, packed_length, self._sequences)
            self.shapes = PackedRows.for_features(self._columns, packed_length, batch_size)
        elif fixed_shapes:
            self.shapes = self._choose_shapes(fixed_shapes, fixed_shapes_multiple)
        self._check_curriculum()
        self._plan: tuple[tuple[int, int, int | None], list[Batch], SplitReader] | None = None
        self.seek(state or dict.fromkeys(self._state_keys, 0))

    def state(self) -> State:
        """Returns the state of the next batch; through a `Prefetch`, use the state that comes with each batch."""
        found = {"epoch": self._epoch, "window": self._window, "batch": self._batch, "drawn": self._drawn}
        return {key: found[key] for key in self._state_keys}

    @property
    def _state_keys(self) -> tuple[str, ...]:
        return ("epoch", "window", "batch", "drawn") if self._curriculum else ("epoch", "window", "batch")

    def seek(self, state: State) -> None:
        """Continues from a state.

        Raises:
            UserError: the state is not valid, or the data has no such window.
        """
        if set(state) != set(self._state_keys) or any(type(value) is not int or value < 0 for value in state.values()):
            *keys, last = self._state_keys
            raise UserError(
                f"state {state} of the training data: it needs {', '.join(keys)} and {last}, whole numbers from 0 on"
            )
        if state["window"] >= self._order.windows:
            raise UserError(
                f"state {state} of the training data: {self._reader.folder} has {self._order.windows} windows",
                "continue with the data and the hparams that the run was started with",
            )
        self._epoch, self._window, self._batch = (int(state[key]) for key in ("epoch", "window", "batch"))
        self._drawn = int(state.get("drawn", 0))

    def __next__(self) -> tuple[Arrays, State]:
        """Returns a batch and the state after it."""
        batch, reader, epoch = self._next_batch()
        arrays = read_batch(reader, batch, self._columns)
        if self._masking is not None:
            mask_rows(arrays, batch.indices, self._masking, self._seed, epoch)
        return arrays, self.state()

    def skip(self) -> State:
        """Skips a batch without reading it; returns the state after it."""
        self._next_batch()
        return self.state()

    @property
    def is_packed(self) -> bool:
        """Whether several examples are packed into a row."""
        return isinstance(self.shapes, PackedRows)

    def batches_with(self, examples: np.ndarray, epoch: int = 0) -> list[Batch | None]:
        """Returns the batch of an epoch that holds each example, or None if it is skipped; ignores the curriculum.

        This plans every window that holds one of the examples, so pass only a few at a time.
        """
        windows = self._order.windows_of(epoch, examples)
        planned = {window: self._plan_window(epoch, window, None)[0] for window in np.unique(windows).tolist()}
        return [
            next((batch for batch in planned[window] if example in batch.indices), None)
            for example, window in zip(examples.tolist(), windows.tolist(), strict=True)
        ]

    def _next_batch(self) -> tuple[Batch, SplitReader, int]:
        """Returns the examples and shape of the next batch, their reader and their epoch."""
        batches, reader = self._window_batches()
        passed = 0
        while self._batch >= len(batches):
            if passed > self._order.windows:
                raise self._all_too_long(self._limit())
            self._next_window()
            batches, reader = self._window_batches()
            passed += 1
        batch, epoch = batches[self._batch], self._epoch
        self._batch += 1
        self._drawn += 1
        if self._batch == len(batches):
            self._next_window()
        return batch, reader, epoch

    def _all_too_long(self, limit: int | None = None) -> UserError:
        """Returns the error for examples that preprocessors have made too long; for stored ones see `_count_longer`.

        `limit` is the curriculum's; None for `max_length` alone.
        """
        asked = f"max_length={self._max_length}; set it higher"
        if self._curriculum is not None and limit not in (None, self._max_length):
            asked = f"hparam curriculum_length={self._curriculum.first} allows so far ({limit}); set it higher, or to 0"
        return UserError(
            f"preprocessors of {self._reader.problem}: after them all {len(self._reader):,} {self._reader.split} "
            f"examples are longer than {asked}",
            "raise max_length, or have them lengthen texts less",
        )

    def _next_window(self) -> None:
        self._batch = 0
        self._window += 1
        if self._window == self._order.windows:
            self._epoch, self._window = self._epoch + 1, 0

    def _reader_of(self, epoch: int) -> SplitReader:
        if not self._preprocessors:
            return self._reader
        return PreprocessedReader(self._reader, self._preprocessors, self._seed, epoch, self._pool)

    def _limit(self) -> int | None:
        """Returns the curriculum's limit on the lengths of the current window; None without one."""
        return self._curriculum.longest(self._drawn - self._batch) if self._curriculum else None

    def _window_batches(self) -> tuple[list[Batch], SplitReader]:
        """Returns the batches of the current window, in the order of training, and their reader."""
        limit = self._limit()
        position = (self._epoch, self._window)
        plan = self._plan
        if plan is None or plan[0] != (*position, limit):
            plan = self._plan = ((*position, limit), *self._plan_window(*position, limit))
            is_last = self._window + 1 == self._order.windows
            epoch, window = (self._epoch + 1, 0) if is_last else (self._epoch, self._window + 1)
            following = self._reader_of(epoch) if self._pool else None
            if isinstance(following, PreprocessedReader):
                following.prepare(self._order.indices(epoch, window))
        return plan[1:]

    def _plan_window(self, epoch: int, window: int, limit: int | None) -> tuple[list[Batch], SplitReader]:
        """Returns the batches of a window, in the order of training, and their reader."""
        reader = self._reader_of(epoch)
        indices, lengths = self._window_examples(reader, epoch, window, limit)
        if self.shapes is None:
            batches = cut_batches(indices, lengths, self._batch_size, self._ladder(lengths))
        else:
            batches = self.shapes.cut_batches(indices, lengths)
        return self._order.shuffled(batches, epoch, window), reader

    def _ladder(self, lengths: Arrays) -> np.ndarray:
        """Returns the widths for a window, up to the longest of the split or, if that is unknown, of the window."""
        longest = self._sequences.longest
        if self.resized:
            longest = {name: int(counts.max(initial=1)) for name, counts in lengths.items()}
        return width_ladder(max(longest.values(), default=1), self._ladder_step)

    def _choose_shapes(self, count: int, multiple: int) -> FixedShapes:
        """Returns the fixed shapes, chosen for the first window that has examples within `max_length`."""
        obstacle = obstacle_to_fixed_shapes(self._reader, self._columns, self._max_length, self._preprocessors)
        if obstacle:
            raise UserError(f"{obstacle}", "set fixed_shapes=0", hparam="fixed_shapes", value=count)
        windows = (self._window_examples(self._reader_of(0), 0, window) for window in range(self._order.windows))
        lengths = next((lengths for indices, lengths in windows if len(indices)), None)
        if lengths is None:
            raise self._all_too_long()
        longest = self._sequences.longest
        # Rounding up must not exceed `max_length`: the model may have no positions beyond it.
        widest = longest | {name: max(longest[name], self._max_length or 0) for name in self._sequences.limited}
        return FixedShapes.choose(lengths, count, longest, self._batch_size, multiple, widest)

    def _window_examples(
        self, reader: SplitReader, epoch: int, window: int, limit: int | None = None
    ) -> tuple[np.ndarray, Arrays]:
        """Returns the examples of a window that are short enough, and their lengths; `limit` is the curriculum's."""
        indices = self._order.indices(epoch, window)
        lengths = self._sequences.of(indices, reader)
        if self._target_is_class:
            lengths = self._sequences.clipped(lengths)
        most = self._max_length if limit is None else limit
        if most is not None and (self.skipped or limit is not None or (self.resized and not self._target_is_class)):
            keep = self._sequences.most(lengths) <= most
            indices, lengths = indices[keep], {name: counts[keep] for name, counts in lengths.items()}
        return indices, lengths

    def _check_curriculum(self) -> None:
        """Raises UserError if no example is short enough for the start of the curriculum."""
        if self._curriculum is None:
            return
        shortest, limited = min((most.min() for most in self._all_most()), default=0), self._sequences.limited
        if shortest > self._curriculum.first or not limited:
            found = f"the shortest has {shortest}" if limited else "it has no sequences of ids"
            raise UserError(
                f"no {self._reader.split} example of {self._reader.problem} is so short ({found})",
                "set it higher, or to 0",
                hparam="curriculum_length",
                value=self._curriculum.first,
            )

    def _all_most(self) -> Iterator[np.ndarray]:
        """Yields the length of each stored example's longest limited sequence, in blocks."""
        return map(self._sequences.most, self._sequences.in_blocks() if self._sequences.limited else ())

    @property
    def longest(self) -> int:
        """Length of the longest stored sequence to which `max_length` applies, including those that are skipped."""
        stored = [self._sequences.columns[name] for name in self._sequences.limited]
        return max((self._reader.longest[name] for name in stored), default=0)

    def _count_longer(self) -> int:
        if self._max_length is None or self.longest <= self._max_length:
            return 0
        count = len(self._reader)
        longer = sum(int((most > self._max_length).sum()) for most in self._all_most())
        if longer == count and not self._target_is_class:
            raise UserError(
                f"max_length {self._max_length}: all {count:,} {self._reader.split} examples of "
                f"{self._reader.problem} are longer",
                f"set max_length higher (the longest has {self.longest})",
            )
        return longer
