"""Operations of the matrix products of a Transformer, by hand from its sizes.

A product of (m, k) and (k, n) takes 2 m k n. Letters: B rows of a batch, S source length, T target length, D width,
F inner width, V vocabulary.
"""

from benchmarks.harness.configs import Config

BACKWARD_AND_FORWARD = 3
"""The backward pass takes two products of the size of each forward one."""


def update_flops(config: Config, vocab_size: int, rows: int, source: int, target: int) -> int:
    """Returns the operations of forward and backward pass of a batch, padding included."""
    d, f = config.width, config.inner
    on_source, on_target = rows * source, rows * target
    encoder = on_source * (4 * d * d + 2 * source * d + 2 * d * f)
    decoder = (
        on_target * (4 * d * d + 2 * target * d)  # attention to itself
        + on_target * (2 * d * d + 2 * source * d) + on_source * 2 * d * d  # to the source
        + on_target * 2 * d * f
    )  # fmt: skip
    return BACKWARD_AND_FORWARD * 2 * (config.layers * (encoder + decoder) + on_target * d * vocab_size)
