"""Batches for evaluation: each example of a split exactly once.

Letters: B rows of a batch.
"""

from collections.abc import Mapping

import numpy as np

from t2t.data.reading.batch_arrays import Arrays, read_batch
from t2t.data.reading.batching import LADDER_STEP, Batch, cut_batches, width_ladder
from t2t.data.reading.preprocessors import mask_rows
from t2t.data.reading.reader import SequenceLengths, SplitReader, checked_columns
from t2t.problems.preprocessors import TokenMasking


class EvalBatches:
    """Batches that hold each example of a split exactly once, sorted by length; may be iterated many times.

    Args:
        reader: of the split.
        batch_size: padded tokens per side, or examples if no feature is a sequence.
        columns: as in `TrainingBatches`.
        limit: number of examples to use, from the first; None for all.
        max_length: longer sequences of ids are cut to it, keep their end of sequence and are counted in `shortened`;
            None to cut none. Audio may have any length.
        ladder_step: ratio of neighbouring widths, see `width_ladder`.
        masking: hides tokens of each example, always the same ones, see `Problem.masking`; None for none.
    """

    def __init__(
        self,
        reader: SplitReader,
        batch_size: int,
        *,
        columns: Mapping[str, str] | None = None,
        limit: int | None = None,
        max_length: int | None = None,
        ladder_step: float = LADDER_STEP,
        masking: TokenMasking | None = None,
    ):
        self._reader, self._masking = reader, masking
        self._columns = checked_columns(reader, columns)
        sequences = SequenceLengths(reader, self._columns, max_length)
        indices = np.arange(min(len(reader), len(reader) if limit is None else limit))
        lengths = sequences.of(indices)
        self.shortened = 0
        """Examples with a sequence that was cut."""
        if max_length is not None and sequences.limited:
            self.shortened = int((sequences.most(lengths) > max_length).sum())
        ladder = width_ladder(max(sequences.longest.values(), default=1), ladder_step)
        self._batches = cut_batches(indices, sequences.clipped(lengths), batch_size, ladder)

    def extremes(self) -> list[Arrays]:
        """Returns the batches that need most memory: the one with the longest sequence, and the one with most rows."""
        widest = max(self._batches, key=lambda batch: max(batch.widths.values(), default=0))
        most_rows = max(self._batches, key=lambda batch: len(batch.indices))
        chosen = [widest] if widest is most_rows else [widest, most_rows]
        return [self._read(batch) for batch in chosen]

    def __len__(self) -> int:
        """Number of batches."""
        return len(self._batches)

    def batches_with(self, examples: np.ndarray) -> list[Batch | None]:
        """Returns the batch that holds each example; None for one that is not evaluated."""
        return [next((one for one in self._batches if example in one.indices), None) for example in examples.tolist()]

    def __getitem__(self, number: int) -> tuple[np.ndarray, Arrays]:
        """Returns the examples' indices in the split, (B,) int64, and the batch; raises IndexError after the last."""
        batch = self._batches[number]
        return batch.indices, self._read(batch)

    def _read(self, batch: Batch) -> Arrays:
        arrays = read_batch(self._reader, batch, self._columns)
        if self._masking is not None:
            mask_rows(arrays, batch.indices, self._masking, seed=0, epoch=0)  # the same in every evaluation
        return arrays
