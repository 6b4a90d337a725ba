"""Our side's network, batches and clock, whatever the backend."""

import time

import numpy as np

from benchmarks.harness.configs import Config
from benchmarks.harness.flops import update_flops

SEED = 1
PRECISION = "mixed_bfloat16"
"""Of our side, as the hparam has it."""


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
    """Returns the operations of one update's matrix products."""
    config = Config(name="gpu", **job["config"], batch_size=0, warm=0, steps=0, sentences=0)
    return update_flops(config, job["vocab_size"], job["rows"], job["length"], job["length"])


def turn_seconds(job, update, wait):
    """Returns the seconds of each turn of updates, after one turn that is not measured.

    Args:
        job: with `turns` and `steps`.
        update: makes an update, given its number, perhaps without waiting for it.
        wait: waits for all updates made.
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
    """Returns operations a second of the best of some products of square matrices.

    Args:
        multiply: multiplies them, perhaps without waiting.
        wait: waits for all products.
        side: rows and columns.
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
    """Returns a size of matrices that keeps a device busy, and a processor not for minutes."""
    return 8192 if "gpu" in device.lower() or "cuda" in device.lower() else 512
