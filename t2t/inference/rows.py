"""Cuts, weighs, batches and pads the rows of ids that a model reads.

Legend: B rows of a batch, S length.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from t2t.data.reading.batching import Ladder, cut_batches
from t2t.errors import UserError, memory_errors_as_machine_errors
from t2t.hparams.groups import DecodeHParams
from t2t.inference.model_facts import ModelFacts
from t2t.specs.constants import EOS_ID, INPUTS
from t2t.specs.features import FeatureKind

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")

NOT_FINITE = "the model gives no finite probabilities: its weights hold NaN or infinity; use an earlier checkpoint"
"""Error message for NaN or infinite outputs."""

USUAL_LONGEST = 1024
"""Default limit of input ids: attention memory grows with their square."""

OUTPUT_SHARE = 8
"""Output positions that count as one input id in the size of a batch."""


def max_sequence_ids(model: ModelFacts, hparams: DecodeHParams) -> int:
    """Returns the maximum number of ids of a sequence that is decoded or evaluated, end of sequence included."""
    asked = hparams.max_input_length or max(USUAL_LONGEST, model.hparams.max_length)
    return min(model.longest_sequence or asked, asked)


def describe_max_ids(model: ModelFacts, hparams: DecodeHParams) -> str:
    """Describes `max_sequence_ids` and the setting it comes from, for messages."""
    longest = max_sequence_ids(model, hparams)
    has_positions = longest == model.longest_sequence
    return f"the {longest:,} ids that {'the model has positions for' if has_positions else 'max_input_length allows'}"


def memory_errors(batch_BS: np.ndarray, hypotheses: int):
    """Returns a context that turns out-of-memory errors into a MachineError with the batch's size and a remedy."""
    rows, width = batch_BS.shape[:2]
    half = max(1, rows * width * hypotheses // 2)
    cure = "make beam_size, extra_length or max_input_length smaller"
    if rows > 1:
        cure = f"halve it with decode_batch_size={half}, or {cure}"
    return memory_errors_as_machine_errors(
        f"a batch of {rows} x {width} ids with {hypotheses} hypothes{'is' if hypotheses == 1 else 'es'} each", cure
    )


Row = Sequence[int] | np.ndarray
"""An input: ids, or an array if it is not text."""

Batched = tuple[np.ndarray, np.ndarray]
"""Indices of rows, and the rows, padded."""


def cut_rows(
    model: ModelFacts, sentences: Sequence[Row], hparams: DecodeHParams, behind: Sequence[int] = ()
) -> list[Row]:
    """Cuts inputs to what the model takes, with a warning, and appends end of sequence and the ids `behind`.

    If the model has no inputs, rows are prefixes: nothing is appended, and they keep their ends. Inputs that are not
    text stay unchanged.
    """
    if not reads_ids(model):
        return list(sentences)
    longest = max_sequence_ids(model, hparams) - 1 - len(behind)
    too_long = sum(len(ids) > longest for ids in sentences)
    if too_long:
        log.warning(
            "%d of %d inputs were cut to %s, end of sequence included",
            too_long, len(sentences), describe_max_ids(model, hparams),
        )  # fmt: skip
    end = [] if model.spec.inputs is None else [EOS_ID, *behind]
    has_inputs = model.spec.inputs is not None
    return [[*cut_row(ids, longest, has_inputs), *end] for ids in sentences]


def cut_row(ids: Row, longest: int, has_inputs: bool) -> Row:
    """Returns ids cut to `longest`: an input keeps its beginning; what a language model continues keeps its end."""
    return ids[:longest] if has_inputs else ids[max(len(ids) - longest, 0) :]


def check_lengths(model: ModelFacts, targets: Sequence[Sequence[int]], hparams: DecodeHParams) -> None:
    """Raises UserError if a target, which has no end of sequence, is longer than the model takes."""
    longest = max_sequence_ids(model, hparams)
    for number, ids in enumerate(targets, start=1):
        if len(ids) + 1 > longest:
            raise UserError(
                f"target {number} of {len(targets)}: it has {len(ids) + 1} ids with end of sequence, more than "
                f"{describe_max_ids(model, hparams)}; a target that is cut has another probability, so give a shorter "
                f"one"
            )


def reads_ids(model: ModelFacts) -> bool:
    """Returns whether a model reads ids: as inputs, or as prefixes of outputs."""
    return model.spec.inputs is None or model.spec.inputs.kind == FeatureKind.TOKENS


def positions_in(model: "SequenceModel") -> Callable[[Row], int]:
    """Returns a function that counts the vectors of an embedded input."""
    return len if reads_ids(model) else lambda row: model.source_embedding.positions_of(len(row))


def row_sizes(rows: Sequence[Row], extra_length: int = 0, size_of: Callable[[Row], int] = len) -> np.ndarray:
    """Returns the size of each row in ids, (rows,) int: its own length, or an eighth of its longest output's.

    With short inputs and long outputs, the caches fill the memory.

    Args:
        rows: ids, or other inputs.
        extra_length: by how many ids an output may be longer than its row.
        size_of: returns the number of ids or vectors that the model reads of a row.
    """
    return np.array([max(size, (size + extra_length) // OUTPUT_SHARE, 1) for size in map(size_of, rows)])


def batches_of(rows: Sequence[Row], sizes: np.ndarray, most: int) -> list[Batched]:
    """Returns (indices of rows, rows padded to (B, S)) pairs, the longest first: if memory runs out, it does at once.

    Args:
        rows: ids, or other inputs.
        sizes: of each, see `row_sizes`.
        most: maximum ids in a batch, padding included.
    """
    batches = cut_batches(np.arange(len(rows)), {INPUTS: sizes}, max(most, 1), Ladder(int(sizes.max()), 1.0))
    return [(batch.indices, padded([rows[i] for i in batch.indices])) for batch in reversed(batches)]


def padded(rows: Sequence[Row]) -> np.ndarray:
    """Returns (B, S) int32 of rows of ids, zero padded, at least one column wide.

    For arrays (S, ...) it returns (B, S, ...) of their dtype.
    """
    first = rows[0] if rows else None
    shape, dtype = (first.shape[1:], first.dtype) if isinstance(first, np.ndarray) else ((), np.dtype(np.int32))
    batch = np.zeros((len(rows), max([1, *map(len, rows)]), *shape), dtype)
    for place, row in zip(batch, rows, strict=True):
        place[: len(row)] = row
    return batch
