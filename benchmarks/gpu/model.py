"""Network, batch and timing of our side, shared by all backends; PyTorch uses the same batch and timing."""

import time

import numpy as np

from benchmarks.harness.configs import Config
from benchmarks.harness.flops import update_flops

SEED = 1
PRECISION = "mixed_bfloat16"
"""Precision of our side, a value of the hparam of that name."""


def build_model(job):
    """Returns the Transformer of a job in mixed bfloat16."""
    from t2t.hparams.transformer import transformer_base
    from t2t.models.transformer import Transformer
    from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

    sizes = job["config"]
    hparams = transformer_base().replace(
        hidden_size=sizes["width"], filter_size=sizes["inner"], num_hidden_layers=sizes["layers"],
        num_heads=sizes["heads"], layer_prepostprocess_dropout=sizes["dropout"],
    )  # fmt: skip
    feature = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=job["vocab_size"])
    spec = ProblemSpec(name="gpu", features={"inputs": feature, "targets": feature}, shared_vocabulary=True)
    return Transformer(hparams, spec, dtype=PRECISION)


def batch(job):
    """Returns seeded ids without padding, {"inputs", "targets"}: (rows, length) int32."""
    random = np.random.default_rng(SEED)
    shape = (job["rows"], job["length"])
    return {name: random.integers(3, job["vocab_size"], shape, dtype=np.int32) for name in ("inputs", "targets")}


def flops(job):
    """Returns the number of operations of the matrix products of one update."""
    config = Config(name="gpu", **job["config"], batch_size=0, warm=0, steps=0, sentences=0)
    return update_flops(config, job["vocab_size"], job["rows"], job["length"], job["length"])


def turn_seconds(job, update, wait):
    """Returns the seconds of each turn, after one warm-up turn that is not measured.

    Args:
        job: `turns`, and `steps`, the updates of a turn.
        update: function that starts the update of a given number, counted from 1; it need not wait for the result.
        wait: function that waits for all started updates.
    """
    seconds, number = [], 0
    for _ in range(job["turns"] + 1):
        wait()
        began = time.perf_counter()
        for _ in range(job["steps"]):
            number += 1
            update(number)
        wait()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def matrix_rate(multiply, wait, side=8192):
    """Returns the peak rate of square matrix products, in operations per second: the best of six series of ten.

    Args:
        multiply: function that starts one product; it need not wait for the result.
        wait: function that waits for all started products.
        side: number of rows and of columns.
    """
    best = float("inf")
    for _ in range(6):
        wait()
        began = time.perf_counter()
        for _ in range(10):
            multiply()
        wait()
        best = min(best, time.perf_counter() - began)
    return 10 * 2 * side**3 / best


def side_for(device):
    """Returns a matrix size that keeps a GPU busy, or one that does not take minutes on a CPU."""
    return 8192 if "gpu" in device.lower() or "cuda" in device.lower() else 512
