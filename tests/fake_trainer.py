"""A fake `t2t-trainer` for tests with many runs: it writes run directories with metrics computed from the hparams.

It supports the features that the tuner relies on: metrics of evaluations, resuming after a kill, SIGTERM, exit status.
"""

import math
import os
import signal
import sys
import time
from pathlib import Path

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.hparams.override import parse_overrides
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

EVERY, LAST = 10, 50
SPEC = ProblemSpec(name="digits", features={"targets": FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=10)})


def bleu(learning_rate: float, seed: int, update: int) -> float:
    """Returns the reported BLEU: best at a rate of 0.004, and higher with more updates."""
    return 90 - 20 * abs(math.log10(learning_rate / 0.004)) + update / 10 + seed / 100


def main(argv: list[str]) -> int:
    flags = dict(argument.removeprefix("--").partition("=")[::2] for argument in argv)
    folder = Path(flags["output_dir"])
    known = {"learning_rate": 0.1, "num_heads": 2, "hidden_size": 0}
    chosen = {**known, **parse_overrides(flags["hparams"], known, known)}
    if chosen["num_heads"] == 3:
        print("t2t-trainer: error: three heads fail", file=sys.stderr)
        return 2
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    record = RunRecord(problem="digits", model="fake", hparams_set="fake", hparams={}, spec=SPEC)
    run = RunDir.open(folder) if RunDir.exists(folder) else RunDir.create(folder, record, {})
    done = max((line["step"] for line in run.metrics()), default=0)
    with (folder / "starts").open("a") as starts:
        starts.write(f"{done}\n")
    for update in range(done + EVERY, LAST + 1, EVERY):
        time.sleep(float(os.environ.get("FAKE_SECONDS", "0.05")))
        if stopped:
            return 128 + stopped[0]
        run.append_metrics(update, {"dev/bleu": bleu(chosen["learning_rate"], int(flags["random_seed"]), update)})
        (folder / "checkpoints" / f"step-{update:08d}").mkdir(parents=True, exist_ok=True)
        while not (done or stopped) and update == int(os.environ.get("FAKE_HOLD", "0")):
            time.sleep(0.01)  # until a signal comes
    return 0
