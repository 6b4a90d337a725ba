"""What a model reads: checks of texts, ids and arrays; cutting, batching and padding them. Loads no Keras.

Legend: B rows of a batch, S length.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from t2t.data.reading.batching import cut_batches, width_ladder
from t2t.errors import ArgumentError, UserError, memory_errors_as_machine_errors
from t2t.features.feature import shown
from t2t.files.lines import without_surrogates
from t2t.hparams.groups import DecodeHParams
from t2t.specs import EOS_ID, INPUTS, PAD_ID
from t2t.specs.features import FeatureKind, ProblemSpec

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel


class ModelFacts(Protocol):
    """What decoding must know about a model before it runs; every `SequenceModel` has these attributes."""

    hparams: Any
    spec: ProblemSpec
    autoregressive: bool

    @property
    def longest_sequence(self) -> int | None:
        """See `SequenceModel.longest_sequence`."""


@dataclasses.dataclass
class LazyModel:
    """An autoregressive model that is built when first needed, since another engine may serve all requests."""

    hparams: Any
    spec: ProblemSpec
    longest_sequence: int | None
    weights: Mapping[str, np.ndarray]
    """By variable path."""
    build: Callable[[], "SequenceModel"]
    """Returns the model with these weights, the same one each time."""
    autoregressive: bool = True


def max_answers(model: ModelFacts) -> int:
    """Returns how many hypotheses per input a model has that predicts in one pass: its classes, else 1."""
    return model.spec.targets.vocab_size if model.spec.targets.kind == FeatureKind.LABEL else 1


log = logging.getLogger("t2t")

NOT_FINITE = ("the model gives no finite probabilities: its weights hold NaN or infinity", "use an earlier checkpoint")
"""What an error says about NaN or infinite outputs."""

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
                f"{describe_max_ids(model, hparams)}",
                "a target that is cut has another probability, so give a shorter one",
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
    batches = cut_batches(np.arange(len(rows)), {INPUTS: sizes}, max(most, 1), width_ladder(int(sizes.max()), 1.0))
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


def check_prefix(model: ModelFacts, hparams: DecodeHParams, prefix: Sequence[int]) -> None:
    """Raises UserError if an output cannot begin with these ids, or there are too many of them."""
    longest = max_sequence_ids(model, hparams) - 1
    check_ids(model, prefix, "a beginning")
    if len(prefix) >= longest:
        raise UserError(
            f"a beginning with {len(prefix)} ids: an output may begin with fewer than {longest}", "give a shorter one"
        )


def check_ids(model: ModelFacts, ids: Sequence[int], what: str) -> None:
    """Raises UserError if no output has these ids before end of sequence; `what` they are begins the message."""
    size = model.spec.targets.vocab_size
    wrong = [token for token in ids if not PAD_ID < token < size or token == EOS_ID]
    if wrong:
        without_end = ", and leave out the end of sequence" if wrong[0] == EOS_ID else ""
        raise UserError(
            f"{what} with id {wrong[0]}: it may hold ids from 2 to {size - 1}",
            f"take them from a vocabulary or a beam{without_end}",
        )


def check_inputs(model: ModelFacts, sentences: Sequence[Row], name: str) -> None:
    """Raises UserError if an input holds padding or an id that its vocabulary lacks; arrays are not checked.

    Inputs are beginnings of outputs for a model without inputs. They may hold end of sequence, as examples may.
    """
    read = model.spec.inputs or model.spec.targets
    if read.kind != FeatureKind.TOKENS:
        return
    for number, ids in enumerate(sentences):
        wrong = [token for token in ids if not PAD_ID < token < read.vocab_size]
        if wrong:
            raise UserError(
                f"{name}[{number}]: an input with id {wrong[0]}: it may hold ids from 1 to {read.vocab_size - 1}",
                "take them from `encode`",
            )


def check_takes_prefixes(model: ModelFacts) -> None:
    """Raises UserError if the model supports no prefixes: it has no inputs, or is not autoregressive."""
    if model.spec.inputs is None or not model.autoregressive:
        why = "continues its inputs" if model.spec.inputs is None else "answers at once"
        raise UserError(f"prefixes of outputs: a model of {model.spec.name} {why}", "leave them out")


def as_texts(texts: Iterable[str], name: str = "texts") -> list[str]:
    """Returns texts as a list, halves of surrogate pairs replaced, and NULs removed, as those of files are.

    Raises:
        ArgumentError: a single text instead of several, or an item that is not text.
    """
    found = _as_list(texts, name, "a list of texts")
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise ArgumentError(f"{name}[{index}]={shown(text)}: it is of type {type(text).__name__}", "give text")
    return [without_surrogates(text).replace("\0", "") for text in found]


def as_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Returns the sources and the targets of pairs of texts.

    Raises:
        ArgumentError: an item is not a pair of texts.
    """
    sources, targets = [], []
    for index, pair in enumerate(_as_list(pairs, "pairs", "a list of pairs (source, target)")):
        if isinstance(pair, str) or not isinstance(pair, Iterable) or len(both := list(pair)) != 2:
            raise ArgumentError(f"pairs[{index}]={shown(pair)}: it is not a pair of texts", "give (source, target)")
        sources.append(both[0])
        targets.append(both[1])
    return as_texts(sources, "sources"), as_texts(targets, "targets")


def check_rows(rows: Any, name: str) -> None:
    """Raises ArgumentError unless `rows` is a list of rows: lists of ids, or arrays."""
    if not isinstance(rows, Sequence | np.ndarray) or isinstance(rows, str):
        raise ArgumentError(f"{name}={rows!r:.60}: it is of type {type(rows).__name__}", "give a list of lists of ids")
    for index, row in enumerate(rows):
        if not isinstance(row, Sequence | np.ndarray) or isinstance(row, str):
            raise ArgumentError(
                f"{name}[{index}]={row!r:.60}: it is of type {type(row).__name__}", "give a list of ids"
            )


def _as_list(values: Any, name: str, wanted: str) -> list[Any]:
    if isinstance(values, str):
        raise ArgumentError(f"{name}={values!r:.60}: it is one text", f"give {wanted}, e.g. [text]")
    if not isinstance(values, Iterable):
        raise ArgumentError(f"{name}={values!r:.60}: it is of type {type(values).__name__}", f"give {wanted}")
    return list(values)
