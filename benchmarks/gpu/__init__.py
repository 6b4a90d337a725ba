"""Compares training on a GPU with PyTorch: tokens per second and share of the card's matrix rate.

    KERAS_BACKEND=jax python -m benchmarks gpu --config=base,big

By default our side uses TensorFlow and the project's own update, with XLA (the default of `t2t-trainer` on a GPU) and
without. With `KERAS_BACKEND=jax` it uses a minimal update on JAX; the models use only `keras.ops`. PyTorch is compiled
and uses its fused attention. Both sides train on the same batch, without padding, in bfloat16 with float32 weights.
`precision` and `tensorfloat32` in the file of `--json` describe the arithmetic of each side. Without a GPU everything
runs on the CPU; to try that, use `--config=tiny --steps=2 --batch_size=256`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu.sizes import SIZES
from benchmarks.harness.processes import ROOT
from benchmarks.harness.rows import Row, print_table, row, unavailable, write_json
from t2t.errors import MachineError, UnknownNameError, did_you_mean

WORK = "training on a GPU"
SIDES = {"torch": "benchmarks.gpu.torch_step"}
FACTS = (
    "device", "precision", "tensorfloat32", "flops", "matrix_flops", "peak_memory_mb", "parameters", "versions",
)  # fmt: skip
"""Fields of a side's result that are copied to the rows."""


def main(argv: list[str]) -> int:
    """Runs the comparison; returns its exit status."""
    arguments = _parser().parse_args(argv)
    names = [name for name in arguments.config.split(",") if name]
    for name in names:
        if name not in SIZES:
            near = did_you_mean(name, SIZES)
            raise UnknownNameError(f"--config={arguments.config}: no {name!r}; {near}there are {', '.join(SIZES)}")
    rows = [one for name in names for one in _compare(name, arguments)]
    print_table(rows)
    if arguments.json:
        write_json(rows, arguments.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--config", default="base,big", help=f"sizes of the model: some of {', '.join(SIZES)}; default base,big")
    add("--batch_size", type=int, default=25_600, help="target tokens of a batch; default 25600, the paper's")
    add("--length", type=int, default=32, help="tokens of each sequence; default 32")
    add("--vocab_size", type=int, default=37_000, help="pieces of the joint vocabulary; default 37000, the paper's")
    add("--steps", type=int, default=20, help="measured updates in a turn; default 20")
    add("--turns", type=int, default=3, help="measured turns; default 3")
    add(
        "--xla",
        default="on,off",
        choices=("on", "off", "on,off"),
        help="whether XLA compiles TensorFlow's update; default on,off",
    )
    add("--peers", default="torch", help="torch, or empty to measure only this project")
    add("--json", type=Path, help="file to write the rows to")
    return parser


def _compare(name: str, arguments: argparse.Namespace) -> list[Row]:
    """Returns the rows of a configuration; the sides use the card one at a time."""
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    job = {"config": SIZES[name], **{k: getattr(arguments, k) for k in ("length", "vocab_size", "steps", "turns")}}
    job["rows"] = max(1, arguments.batch_size // arguments.length)
    jobs = {name: job}
    if backend == "tensorflow":
        jobs = {f"{name}, xla={one}": {**job, "xla": one == "on"} for one in arguments.xla.split(",")}
    ours = {variant: _measure(f"benchmarks.gpu.{backend}_step", one) for variant, one in jobs.items()}
    peer = _peer(job) if arguments.peers == "torch" else {}
    missing = [unavailable(WORK, name, "torch", peer.pop("reason"))] if "reason" in peer else []
    return [found for variant, one in jobs.items() for found in _rows(variant, one, ours[variant], peer)] + missing


def _peer(job: dict[str, Any]) -> dict[str, Any]:
    try:
        return _measure(SIDES["torch"], job)
    except MachineError as error:
        return {"reason": str(error)}


def _measure(module: str, job: dict[str, Any]) -> dict[str, Any]:
    """Runs a side in a separate process; returns its figures.

    Raises:
        MachineError: it failed; the message has its last line of standard error.
    """
    with tempfile.TemporaryDirectory(prefix="t2t-gpu-") as folder:
        result = Path(folder, "result.json")
        Path(folder, "job.json").write_text(json.dumps({**job, "result": str(result)}))
        command = [sys.executable, "-m", module, str(Path(folder, "job.json"))]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode or not result.is_file():
            said = done.stderr.strip().splitlines() or ["it said nothing"]
            raise MachineError(f"{module} ended with status {done.returncode}: {said[-1].strip()[:200]}")
        return json.loads(result.read_text())


def _rows(name: str, job: dict[str, Any], ours: dict[str, Any], peer: dict[str, Any]) -> list[Row]:
    """Returns rows for tokens per second and share of the matrix rate, with the peer's figures if it ran."""
    tokens = job["rows"] * job["length"]

    def rates(figures):
        return [tokens * job["steps"] / seconds for seconds in figures.get("turn_seconds", ())]

    def shares(figures):
        return [ours["flops"] * job["steps"] / s / ours["matrix_flops"] for s in figures.get("turn_seconds", ())]

    facts = {k: ours[k] for k in FACTS}
    common = {"peer": "torch" if peer else None, "job": job, **facts, "theirs_figures": peer}
    return [
        row(WORK, name, rates(ours), theirs=rates(peer), unit="target tokens/s", **common),
        row("share of the card's matrix rate", name, shares(ours), theirs=shares(peer), unit="", **common),
    ]
