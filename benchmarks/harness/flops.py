"""Number of operations of a Transformer's matrix products, computed from its sizes.

A product of (m, k) and (k, n) takes 2 m k n operations. Letters: B rows of a batch, S source length, T target length,
D width, F inner width, V vocabulary.
"""

from benchmarks.harness.configs import Config

BACKWARD_AND_FORWARD = 3
"""The backward pass has two products for each forward product of the same size."""


def update_flops(config: Config, vocab_size: int, rows: int, source: int, target: int) -> int:
    """Returns the number of operations of the forward and backward pass of a batch, padding included."""
    d, f = config.width, config.inner
    on_source, on_target = rows * source, rows * target
    encoder = on_source * (4 * d * d + 2 * source * d + 2 * d * f)
    decoder = (
        on_target * (4 * d * d + 2 * target * d)  # self-attention
        + on_target * (2 * d * d + 2 * source * d) + on_source * 2 * d * d  # attention to the source
        + on_target * 2 * d * f
    )  # fmt: skip
    return BACKWARD_AND_FORWARD * 2 * (config.layers * (encoder + decoder) + on_target * d * vocab_size)
