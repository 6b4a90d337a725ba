"""The coverage penalty: hypotheses that attend too little to some words of the source rank lower.

Wu et al. 2016 (arXiv:1609.08144), equation 14: adds beta * sum_i log(min(sum_j p_ij, 1)) to a score, where p_ij is the
attention weight of output token j on source position i.

Legend: B sentences, N rows of their hypotheses, S source length, H heads, Q rows of a sentence (N = B * Q).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from t2t.errors import UserError
from t2t.layers.beams import reorder_rows, repeat_for_beams
from t2t.layers.masks import looks_at_source
from t2t.layers.mode import Record, in_mode
from t2t.search.step import StepFn

_UNSEEN = 1e-6
"""Initial coverage of a position, so that logarithms are finite; where nothing may attend, it is 0 throughout."""


class CoveredState(NamedTuple):
    """State of a step function, with each hypothesis's coverage of the source positions."""

    state: Any
    coverage: Any
    """(N, S) float32: sum_j p_ij; 0 at positions that nothing may attend to."""


def start_coverage(state: Any, keep_BS: Any, rows_per_sentence: int) -> CoveredState:
    """Returns the state before the first step; `keep_BS` is bool, True where the source may be attended to."""
    return CoveredState(state, repeat_for_beams(_UNSEEN * ops.cast(keep_BS, "float32"), rows_per_sentence))


def covering(step_fn: StepFn, beta: float) -> StepFn:
    """Wraps a step function so that it tracks coverage in a `CoveredState` and returns a `NextToken` with the penalty.

    Raises:
        UserError: nothing in a step attends to the source.
    """

    def step(ids_N: Any, position: Any, covered: CoveredState) -> tuple[Any, CoveredState]:
        record: Record = {}
        with in_mode(record=record):
            found, state = step_fn(ids_N, position, covered.state)
        coverage_NS = covered.coverage + _source_attention(record, beta)
        return found._replace(coverage=beta * log_coverage(coverage_NS)), CoveredState(state, coverage_NS)

    return step


def reorder_covered(reorder: Callable[[Any, Any], Any]) -> Callable[[CoveredState, Any], CoveredState]:
    """Returns a function that reorders the beams of a `CoveredState`, from one that reorders those of its state."""
    return lambda covered, beams: CoveredState(reorder(covered.state, beams), reorder_rows(covered.coverage, beams))


def log_coverage(coverage_NS: Any) -> Any:
    """Returns sum_i log(min(coverage_i, 1)), (N,) float32, over the positions that may be attended to."""
    logs_NS = ops.log(ops.minimum(coverage_NS, 1.0))
    return ops.sum(ops.where(coverage_NS >= _UNSEEN, logs_NS, 0.0), axis=-1)


def _source_attention(record: Record, beta: float) -> Any:
    """Returns p_ij of one step, (N, S): the mean over the heads of all layers that attend to the source."""
    weights_BHQS = [weights for path, calls in record.items() if looks_at_source(path) for weights in calls]
    if not weights_BHQS:
        raise UserError(
            "no layer of the model attends to its inputs, so that nothing tells what an output has covered",
            "use coverage_penalty=0, or a model with attention to its inputs",
            hparam="coverage_penalty",
            value=beta,
        )
    means_BQS = sum(ops.mean(weights, axis=1) for weights in weights_BHQS) / len(weights_BHQS)
    return ops.reshape(means_BQS, (-1, ops.shape(means_BQS)[-1]))
