"""What every search shares: the step function it drives, limits on length, and the buffer it writes to.

Legend: B sentences, K hypotheses of each, N = B * K rows in sentence-major order, V vocabulary,
T longest allowed length.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from t2t.errors import UserError

StepFn = Callable[[Any, Any, Any], tuple[Any, Any]]
"""`step_fn(ids, position, state) -> (log_probs, state)`: one token for every row.

ids: (N,) int32, the last token of each row, at first the start id.
position: () int32, how many tokens have been produced; 0 at first.
state: a nested structure of tensors, each with N as its first axis; () for none. Structure, shapes, dtypes stay.
log_probs: (N, V) float, natural logarithms, at most 0; -inf forbids a token.

Beam search reorders every tensor of the state at every step, at the cost of one copy. What is the same for all
rows of a sentence (projected encoder keys and values, masks) belongs not into the state but into the closure of
`step_fn`, where it is never copied. Rows that are done are still passed in and what comes back for them is ignored.
"""


def check_sizes(*, rows_per_sentence: int, vocab_size: int = 2) -> None:
    """Raises UserError where a search of these sizes makes no sense."""
    if rows_per_sentence < 1:
        raise UserError(f"beam size or number of samples {rows_per_sentence}: it must be at least 1")
    if vocab_size < 2:
        raise UserError(f"vocabulary of {vocab_size} ids: a search needs at least end of sequence and one more id")


def step_limits(max_steps: Any, batch_size: Any, buffer_steps: int | None = None) -> tuple[Any, Any]:
    """Returns the limit of each sentence and the width of the buffer that holds them all.

    Args:
        max_steps: most tokens of a hypothesis, end of sequence included: one int, or (B,) int32, one a sentence;
            a limit below 1 in a tensor counts as 1, since a hypothesis has at least one token.
        batch_size: B, int or () int32.
        buffer_steps: fixed T; longer limits are cut to it. Needed where shapes must be known when compiling (XLA);
            otherwise T is the largest limit.

    Returns:
        limits, (B,) int32, and T, an int where it is known beforehand, else () int32.
    """
    for name, number in (("max_steps", max_steps), ("buffer_steps", buffer_steps)):
        if isinstance(number, int) and number < 1:
            raise UserError(f"{name} {number}: a hypothesis has at least one token; ask for 1 or more")
    limits_B = ops.broadcast_to(ops.cast(ops.convert_to_tensor(max_steps), "int32"), (batch_size,))
    limits_B = ops.maximum(limits_B, 1)
    if buffer_steps is not None:
        return ops.minimum(limits_B, buffer_steps), buffer_steps
    return limits_B, max_steps if isinstance(max_steps, int) else ops.max(limits_B)


def write_column(ids: Any, step: Any, tokens: Any) -> Any:
    """Returns ids (..., T) with `tokens` (...) written at position `step`, () int32."""
    here_T = ops.equal(ops.arange(ops.shape(ids)[-1], dtype="int32"), step)
    return ops.where(here_T, ops.expand_dims(tokens, -1), ids)


def row_start_ids(start_ids: Any, batch_size: Any, rows_per_sentence: int) -> Any:
    """Returns (B, K) int32 start ids from one id for all, or (B,) int32, one a sentence."""
    start_ids_B = ops.broadcast_to(ops.cast(ops.convert_to_tensor(start_ids), "int32"), (batch_size,))
    return ops.broadcast_to(ops.expand_dims(start_ids_B, 1), (batch_size, rows_per_sentence))
