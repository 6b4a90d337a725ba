"""Compares training: target tokens per second, memory, time to the first update, share of the matrix rate.

Every side trains on the same batches in the same order with the same learning rates, from its own random weights.
`loss` rows have the training loss of the last measured update: cross-entropy of a target token with label smoothing of
0.1. Tensor2Tensor subtracts the least possible value of that, 1.25 nats with 10,000 pieces. `best` rows compare the
best variant of each program. If the processor multiplies bfloat16, we also train in 16 bits, and so do peers that can;
our float32 is compared with theirs, our 16 bits with the better of both.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.flags import Setting, build_parser, settings
from benchmarks.harness.flops import update_flops
from benchmarks.harness.prepared import prepare
from benchmarks.harness.processes import run
from benchmarks.harness.rows import OURS, Row, best_variants, compared, row, unavailable
from benchmarks.harness.turns import Figures, Turns
from benchmarks.peers import TRAINING
from t2t.files.processor import multiplies_bfloat16

WORK = "training"
SEED = 1
OURS_16 = f"{OURS}_bfloat16"
"""Our side with `precision=mixed_bfloat16`."""

SCHEDULE = "learning_rate_schedule=inverse_sqrt,learning_rate=0.002,learning_rate_warmup_steps=100"
"""The learning rate of all sides, so that their losses compare; the drivers of the peers set the same."""
MOST_LOSS = 1.5
"""Maximum ratio of a peer's loss to ours. Losses are not equal since initial weights, dropout and norms differ."""


def main(argv: list[str]) -> int:
    """Runs the comparison; returns its exit status."""
    in_16_bits = multiplies_bfloat16()
    peers = {name: peer for name, peer in TRAINING.items() if in_16_bits or not peer.in_16_bits}
    parser = build_parser(WORK, __doc__, peers)
    parser.add_argument("--steps", type=int, help="measured updates in a turn; default: set by --config")
    parser.add_argument("--warm", type=int, help="warm-up updates before them; default: set by --config")
    arguments = parser.parse_args(argv)
    setting = settings(arguments, steps=arguments.steps, warm=arguments.warm)
    job = training_job(setting)
    more = [setting.ours(WORK, OURS_16, overrides=f"{job['overrides']},precision=mixed_bfloat16")] * in_16_bits
    sides, missing = setting.sides(WORK, peers, *more)
    batches = Batches(job, setting)
    taken = setting.take_turns(sides, {**job, **batches.facts})
    _check_losses(taken)
    failed = [unavailable(WORK, setting.config.name, one.name, one.failure) for one in taken if one.failure]
    return setting.finish([*_rows(setting, taken, batches), *missing, *failed])


def training_job(setting: Setting) -> dict[str, Any]:
    """Generates the data and returns the job of all sides."""
    config = setting.config
    prepared = prepare(setting.corpus(), setting.home, setting.arguments.vocab_size)
    return {
        "config": config.to_dict(),
        "overrides": f"{config.overrides()},{SCHEDULE}",
        "seed": SEED,
        "warm": config.warm,
        "steps": config.steps,
        "count": config.warm + config.steps,
        "data_dir": str(prepared.data_dir),
        "output_dir": str(setting.scratch / "run"),
        "batches": str(setting.scratch / "batches.npz"),
    }


class Batches:
    """The batches that all sides train on: the first ones of our input pipeline."""

    def __init__(self, job: dict[str, Any], setting: Setting):
        ours = setting.ours("batches")
        self.facts = run(ours, job, setting.scratch, setting.conditions)
        """`vocab_size`, `parameters` and `padded`: for each batch, positions of inputs and targets with our padding."""
        arrays = np.load(job["batches"])
        measured = range(job["warm"], job["count"])
        targets = [arrays[f"targets_{number}"] for number in measured]
        inputs = [arrays[f"inputs_{number}"] for number in measured]
        self.tokens = sum(int((ids != 0).sum()) for ids in targets)
        """Number of target tokens of the measured batches, without padding."""
        self.all_tokens = sum(int((arrays[f"targets_{number}"] != 0).sum()) for number in range(job["count"]))
        """Number of target tokens of all batches, warm-up included."""
        positions = sum(self.facts["padded"][number]["targets"] for number in measured)
        self.padding = 1.0 - self.tokens / positions
        """Share of padding in the target positions of the measured batches."""
        self.flops = sum(
            update_flops(setting.config, self.facts["vocab_size"], len(target), source.shape[1], target.shape[1])
            for source, target in zip(inputs, targets, strict=True)
        )
        """Number of operations of the measured updates."""


def _rows(setting: Setting, taken: list[Turns], batches: Batches) -> list[Row]:
    name = setting.config.name
    ours = taken[0]
    _check_same_batches(ours, batches, setting)
    for turn, figures in enumerate(ours.figures):
        for side in taken:
            if side.figures:
                side.figures[turn]["matrix_flops"] = figures["matrix_flops"]

    def rate(figures: Figures) -> float:
        return batches.tokens / sum(figures["update_seconds"])

    facts = {"unit": "target tokens/s", "parameters": _parameters(taken, batches)}
    best = [compared(f"{WORK}.best", name, sides, rate, **facts) for sides in _rivals(taken, rate)]
    return [
        *itertools.chain.from_iterable(best),
        *compared(WORK, name, taken, rate, **facts),
        *compared(f"{WORK}.matrix_share", name, taken,
                  lambda f: batches.flops / sum(f["update_seconds"]) / f["matrix_flops"],
                  unit="of the matrix rate", gigaflops=[f["matrix_flops"] / 1e9 for f in ours.figures]),
        *compared(f"{WORK}.peak_memory", name, taken, lambda f: f["peak_memory_mb"], unit="MB", better="lower"),
        *compared(f"{WORK}.first_update", name, taken, lambda f: f["seconds_to_first_update"], unit="s",
                  better="lower"),
        *compared(f"{WORK}.loss", name, taken, lambda f: f["loss"], unit="nats a token", better="lower"),
        row(f"{WORK}.padding", name, [batches.padding], unit="of target positions", better="lower"),
    ]  # fmt: skip


def _rivals(taken: list[Turns], rate: Callable[[Figures], float]) -> list[list[Turns]]:
    """Returns our sides, each with the best variant of each peer: float32 with float32, 16 bits with either."""
    programs = {name: peer.module for name, peer in TRAINING.items()}
    peers = [one for one in taken if one.name in TRAINING]
    in_float32 = [one for one in peers if not TRAINING[one.name].in_16_bits]
    rivals = {OURS: in_float32, OURS_16: peers}
    return [[one, *best_variants(rivals[one.name], programs, rate)] for one in taken if one.name in rivals]


def _check_same_batches(ours: Turns, batches: Batches, setting: Setting) -> None:
    """Checks that our run trained on as many target tokens as the batches of the others have."""
    updates = setting.config.warm + setting.config.steps
    for figures in ours.figures:
        found = figures["tokens_per_update"] * updates
        if not abs(found - batches.all_tokens) <= 0.5:  # also catches NaN
            raise AssertionError(f"our run trained on {found} target tokens, the others on {batches.all_tokens}")


def _check_losses(taken: list[Turns]) -> None:
    """Disqualifies a peer whose last loss is too high: it does not train the same model on the same task."""
    ours = taken[0].figures[0]["loss"]
    for peer in taken[1:]:
        losses = peer.of(lambda figures: figures["loss"])
        if not all(loss <= MOST_LOSS * ours for loss in losses):  # also catches NaN
            peer.failure, peer.figures = f"its last loss is {losses[0]:.3g} nats a token, ours {ours:.3g}", []


def _parameters(taken: list[Turns], batches: Batches) -> dict[str, int]:
    """Returns the number of trainable weights of each side."""
    ours = batches.facts["parameters"]
    return {side.name: side.figures[0].get("parameters", ours) for side in taken if side.figures}
