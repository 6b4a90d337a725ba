"""Times training updates with a job's sizes, on seeded random ids without padding."""

import json
import socket
import subprocess
import sys
import time

import numpy as np

from benchmarks.harness.child import Others, peak_memory_mb, read_job, versions, write_result
from t2t.backends.cluster import ALONE, Cluster
from t2t.hparams.groups import OptimizerHParams
from t2t.hparams.transformer import transformer_base
from t2t.runs.startup import prepare_framework
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec


def main():
    """Writes the seconds of the first update, which includes tracing, those of each later update, and peak memory."""
    job = read_job()
    workers, others = start_workers(job), Others()
    step, features = build_step(job)
    seconds = []
    for number in range(1, job["steps"] + 2):
        began = time.perf_counter()
        float(step([features], number, 1e-4).loss_sum)
        seconds.append(time.perf_counter() - began)
    busy = others.cores()
    for worker in workers:
        worker.wait()
    if job["worker"]:
        return
    write_result(
        job,
        first_update_seconds=seconds[0],
        update_seconds=seconds[1:],
        others=busy,
        peak_memory_mb=peak_memory_mb(),
        versions=versions("tensorflow", "keras"),
    )


def start_workers(job):
    """Starts the other workers if the job has several; sets their addresses, `job["hosts"]`; returns the processes."""
    if job["worker"] or job["workers"] == 1:
        return []
    sockets = [socket.create_server(("localhost", 0)) for _ in range(job["workers"])]
    job["hosts"] = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    workers = []
    for worker in range(1, job["workers"]):
        path = f"{sys.argv[1]}.worker{worker}"
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**job, "worker": worker}, file)
        workers.append(subprocess.Popen([sys.executable, "-m", "benchmarks.ours.growth", path]))
    return workers


def build_step(job):
    """Returns the training step of a job, and a batch for each replica of this process."""
    prepare_framework()
    from t2t.backends import backend
    from t2t.models.transformer import Transformer
    from t2t.training.optimizers import build_optimizer
    from t2t.training.step import UpdateStep

    sizes, length, vocab_size = job["config"], job["length"], job["vocab_size"]
    hparams = transformer_base().replace(
        hidden_size=sizes["width"], filter_size=sizes["inner"], num_hidden_layers=sizes["layers"],
        num_heads=sizes["heads"], layer_prepostprocess_dropout=sizes["dropout"], max_length=length,
    )  # fmt: skip
    feature = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=vocab_size)
    spec = ProblemSpec(name="growth", features={"inputs": feature, "targets": feature}, shared_vocabulary=True)
    cluster = Cluster(tuple(job["hosts"]), job["worker"]) if job["workers"] > 1 else ALONE
    devices = backend().devices(worker_cpu=job["replicas"], cluster=cluster)
    with devices.scope():
        model = Transformer(hparams, spec)
        optimizer = build_optimizer(OptimizerHParams())
    random, shape = np.random.default_rng(1), (max(1, sizes["batch_size"] // length), length)
    features = [
        {name: random.integers(3, vocab_size, shape, dtype=np.int32) for name in ("inputs", "targets")}
        for _ in range(job["replicas"])
    ]
    return UpdateStep(model, optimizer, devices, run_seed=1), features


if __name__ == "__main__":
    main()
