"""Trains a tiny model for long, with evaluations and checkpoints, to detect leaks of memory, files or threads."""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness.corpus import open_corpus
from benchmarks.harness.machine import machine
from benchmarks.harness.prepared import prepare
from benchmarks.harness.processes import Conditions, Side, run
from t2t.files.atomic import write_atomically

MODEL = (
    "hidden_size=16,filter_size=32,num_heads=2,num_hidden_layers=1,batch_size=64,max_length=64,shuffle_window=200,"
    "beam_size=2,extra_length=4,learning_rate_warmup_steps=100"
)
PAIRS, PIECES = 400, 600


def main(argv: list[str]) -> int:
    """Trains and prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--updates", type=int, default=20_000, help="number of updates")
    parser.add_argument(
        "--every", type=int, default=500, help="updates between two evaluations, each with a checkpoint"
    )
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="t2t-soak-"))
    try:
        held = _train(folder, arguments.updates, arguments.every)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| updates | MB resident | open files | threads |\n|---|---|---|---|")
    for one in held:
        print(f"| {one['update']:,} | {one['resident_mb']:,.0f} | {one['files']} | {one['threads']} |")
    grows = growth(held)
    print(f"\nfrom update {held[len(held) // 2]['update']:,} on: {grows:+.2f} MB in a thousand updates")
    if arguments.json:
        found = {"held": held, "mb_in_a_thousand_updates": grows, "machine": machine()}
        write_atomically(arguments.json, (json.dumps(found, indent=1) + "\n").encode())
    return 0


def growth(held: list[dict]) -> float:
    """Returns the growth of resident memory in MB per 1,000 updates: the slope of a line fitted to the second half."""
    later = held[len(held) // 2 :]
    slope, _ = np.polyfit([one["update"] for one in later], [one["resident_mb"] for one in later], 1)
    return 1000 * float(slope)


def _train(folder: Path, updates: int, every: int) -> list[dict]:
    prepared = prepare(open_corpus(None, folder, PAIRS), folder, PIECES)
    job = {
        "data_dir": str(prepared.data_dir), "output_dir": str(folder / "run"), "overrides": MODEL, "seed": 1,
        "updates": updates, "every": every,
    }  # fmt: skip
    conditions = Conditions(threads=2, timeout=24 * 3600)
    return run(Side("t2t", Path(sys.executable), "benchmarks.ours.soak"), job, folder, conditions)["held"]
