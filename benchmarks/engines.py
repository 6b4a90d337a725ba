"""Compares TensorFlow and JAX as backends of our models: training and decoding, each as the commands use it.

Both train on the same examples, from different random weights. JAX uses a few fixed batch shapes, the default of new
runs on JAX, and the rate of each side counts the tokens of its own batches. The time to the first update includes
compilation. Both decode the same file twice with the same weights: `first_pass` includes JAX's compilation.
"""

import importlib.util
from pathlib import Path
from typing import Any

from benchmarks.decoding import decoding_job
from benchmarks.harness.flags import Setting, build_parser, settings
from benchmarks.harness.processes import SideError
from benchmarks.harness.rows import OURS, Row, compared, row, unavailable
from benchmarks.harness.turns import Turns
from benchmarks.training import training_job

WORK = "engines"
JAX = f"{OURS}_jax"
"""Our side with `KERAS_BACKEND=jax`."""


def main(argv: list[str]) -> int:
    """Runs the comparison; returns its exit status."""
    parser = build_parser(WORK, __doc__, {})
    parser.add_argument("--steps", type=int, help="measured updates in a turn; default: set by --config")
    parser.add_argument("--warm", type=int, help="warm-up updates before them; default: set by --config")
    parser.add_argument(
        "--run",
        type=Path,
        help="run directory of a trained model; default: train one for --config=tiny, else use random weights",
    )
    parser.add_argument(
        "--train_steps", type=int, help="updates to train for; 1 = random weights, outputs of fixed lengths"
    )
    parser.add_argument("--beams", default="4,1", help="beam sizes")
    parser.add_argument("--sentences", type=int, help="sentences to decode; default: set by --config")
    parser.add_argument("--batch", type=int, default=32, help="sentences per batch")
    arguments = parser.parse_args(argv)
    setting = settings(arguments, steps=arguments.steps, warm=arguments.warm, sentences=arguments.sentences)
    if importlib.util.find_spec("jaxlib") is None:
        reason = "JAX is not installed; pip install -e '.[jax]'"
        return setting.finish([unavailable(WORK, setting.config.name, JAX, reason)])
    return setting.finish([*_training(setting), *_decoding(setting)])


def _taken(setting: Setting, module: str, job: dict[str, Any]) -> list[Turns]:
    """Runs both sides; returns the turns of TensorFlow and of JAX.

    Raises:
        SideError: one of them failed.
    """
    taken = setting.take_turns([setting.ours(module), setting.ours(f"{module}_jax", JAX)], job, module)
    if taken[1].failure:
        raise SideError(taken[1].failure)
    return taken


def _training(setting: Setting) -> list[Row]:
    taken = _taken(setting, "training", training_job(setting))
    name, steps = setting.config.name, setting.config.steps
    return [
        *compared("training", name, taken, lambda f: f["tokens_per_update"] * steps / sum(f["update_seconds"]),
                  unit="target tokens/s"),
        *compared("training.first_update", name, taken, lambda f: f["seconds_to_first_update"], unit="s",
                  better="lower"),
        *compared("training.peak_memory", name, taken, lambda f: f["peak_memory_mb"], unit="MB", better="lower"),
        *compared("training.loss", name, taken, lambda f: f["loss"], unit="nats a token", better="lower"),
    ]  # fmt: skip


def _decoding(setting: Setting) -> list[Row]:
    job = decoding_job(setting)
    taken = _taken(setting, "decoding", job)
    name, count = setting.config.name, len(job["sentences"])
    rows: list[Row] = []
    for beam in job["beams"]:
        for key, of_pass in (("seconds", ""), ("first", ".first_pass")):
            rows += compared(f"decoding.beam{beam}{of_pass}", name, taken,
                             lambda f, b=str(beam), p=key: count / f["searches"][b][p], unit="sentences/s")  # fmt: skip
        rows.append(row(f"decoding.beam{beam}.same", name, [_same(taken, str(beam))], unit="of the outputs"))
    return rows


def _same(taken: list[Turns], beam: str) -> float:
    """Returns the share of outputs that are identical on both backends."""
    ours, jax = (side.figures[0]["searches"][beam]["outputs"] for side in taken)
    return sum(one == other for one, other in zip(ours, jax, strict=True)) / len(ours)
