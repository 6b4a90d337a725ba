"""Measures training on a GPU: our update and PyTorch's, and a run of Multi30k from its text to its score.

    KERAS_BACKEND=jax python -m benchmarks gpu --folder=FOLDER --data=MULTI30K

Our side is the update of `t2t-trainer`, on TensorFlow with XLA (the default on a GPU) and without, or on JAX, with
`fused_attention` and without. PyTorch is compiled and uses its fused attention. Both sides train on the same batch,
without padding, in bfloat16 with float32 weights. `precision`, `tensorfloat32` and `fused` in the file of `--json`
describe the arithmetic of each side.

Each finished measurement is stored in FOLDER, with all of them as tables in `page.md`, and the same command continues
after an interruption. Name a new folder for other code or another machine. Without a GPU everything runs on the CPU; to
try that, use `--config=tiny --steps=2 --batch_size=256`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu import multi30k
from benchmarks.gpu.sizes import SIZES
from benchmarks.harness.flags import chosen
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.processes import ROOT
from benchmarks.harness.rows import Row, row, table, unavailable, write_json
from t2t.errors import MachineError
from t2t.files.atomic import write_atomically

WORK = "training on a GPU"
OURS, TORCH = "benchmarks.gpu.our_step", "benchmarks.gpu.torch_step"
FACTS = (
    "device", "precision", "tensorfloat32", "fused", "flops", "matrix_flops", "peak_memory_mb", "parameters",
    "versions",
)  # fmt: skip
"""Fields of a side's result that are copied to the rows."""


def main(argv: list[str]) -> int:
    """Runs what is not finished, and writes the tables; returns the exit status."""
    arguments = _parser().parse_args(argv)
    names = chosen(arguments.config, SIZES, "--config")
    with tempfile.TemporaryDirectory(prefix="t2t-gpu-") as scratch:
        return _measure_all(names, arguments, (arguments.folder or Path(scratch)).expanduser().absolute())


def _measure_all(names: list[str], arguments: argparse.Namespace, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [one for name in names for one in _compare(name, arguments, folder)]
    lines = ["# Training on a GPU", "", describe_machine(), "", *table(rows)]
    if arguments.data is not None:
        lines += ["", "## Multi30k", "", *multi30k.train(arguments.data, folder / "multi30k", arguments.train_steps)]
    print("\n".join(lines))
    write_atomically(folder / "page.md", ("\n".join(lines) + "\n").encode())
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
    add("--folder", type=Path, help="folder of the results; a second call measures only what is missing in it")
    add("--data", type=Path, help="folder of Multi30k's files, to train on as well")
    add("--train_steps", type=int, default=8000, help="updates of that training; default 8000, the published recipe's")
    add("--json", type=Path, help="file to write the rows to")
    return parser


def _compare(name: str, arguments: argparse.Namespace, folder: Path) -> list[Row]:
    """Returns the rows of a configuration; the sides use the card one at a time."""
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    job = {"config": SIZES[name], **{k: getattr(arguments, k) for k in ("length", "vocab_size", "steps", "turns")}}
    job |= {"rows": max(1, arguments.batch_size // arguments.length), "backend": backend}
    variants = {"jax": {"xla": True}, "jax+cudnn": {"xla": True, "fused_attention": True}}
    if backend != "jax":
        variants = {f"xla={one}": {"xla": one == "on"} for one in arguments.xla.split(",")}
    jobs = {f"{name}, {variant}": {**job, "rules": rules} for variant, rules in variants.items()}
    ours = {variant: _measure(OURS, variant, one, folder) for variant, one in jobs.items()}
    lacking = [one for one in jobs if ours[one]["fused"] != jobs[one]["rules"].get("fused_attention", False)]
    peer = _peer(name, job, folder) if arguments.peers == "torch" else {}
    missing = [unavailable(WORK, name, "torch", peer.pop("reason"))] if "reason" in peer else []
    missing += [unavailable(WORK, variant, "cudnn", "this device has no fused attention") for variant in lacking]
    measured = {variant: one for variant, one in jobs.items() if variant not in lacking}
    return [found for variant, one in measured.items() for found in _rows(variant, one, ours[variant], peer)] + missing


def _peer(name: str, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    try:
        return _measure(TORCH, f"{name}, torch", {k: v for k, v in job.items() if k != "backend"}, folder)
    except MachineError as error:
        return {"reason": str(error)}


def _measure(module: str, name: str, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the figures of a side, from its file in the folder or from a process that measures them now.

    Raises:
        MachineError: it failed; the message has its last line of standard error.
    """
    record = folder / f"{name.replace(', ', '-')}.json"
    known = json.loads(record.read_text()) if record.is_file() else {}
    if known.get("job") == job:
        return known["figures"]
    result = folder / "result.json"
    result.unlink(missing_ok=True)
    (folder / "job.json").write_text(json.dumps({**job, "result": str(result)}))
    print(f"== {name}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", module, str(folder / "job.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode or not result.is_file():
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise MachineError(f"{module} ended with status {done.returncode}: {said[-1].strip()[:200]}")
    figures = json.loads(result.read_text())
    write_atomically(record, (json.dumps({"job": job, "figures": figures}, indent=1) + "\n").encode())
    return figures


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
