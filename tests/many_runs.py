"""Writes many run directories as training would, without training: records, metrics and checkpoint pointers."""

import json
import math
from pathlib import Path

import numpy as np

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.hparams.transformer import transformer_tiny
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.vocabulary_files import describe_encoders

EVERY = 10
"""Updates between two log steps."""
SPEC = ProblemSpec(
    name="translate_ende_numbers",
    features={name: FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=100) for name in ("inputs", "targets")},
)


def create_run(folder, problem: str, spec=None, encoders=None, step: int = 0, **fields) -> RunDir:
    """Writes the record of a Transformer's run and its vocabularies; with a `step`, also a dummy checkpoint."""
    record = RunRecord(
        problem=problem, model="transformer", hparams_set="transformer_tiny", spec=spec or ProblemSpec(name=problem),
        vocabularies=describe_encoders(encoders or {}), **{"hparams": transformer_tiny().to_dict(), **fields},
    )  # fmt: skip
    run = RunDir.create(folder, record, encoders or {})
    if step:
        CheckpointStore(run.checkpoints_folder).save(step, model={"a": np.zeros(1)}, state={"seed": 0, "data": {}})
    return run


def write_run(folder: Path, points: int, seed: int = 0, steps: int | None = None, **hparams) -> RunDir:
    """Writes a run with `points` log steps of training, and an evaluation after every twentieth."""
    values = transformer_tiny().replace(train_steps=steps or points * EVERY, **hparams)
    overrides = ",".join(f"{name}={value}" for name, value in hparams.items())
    own = {"hparams": values.to_dict(), "overrides": overrides, "versions": {"t2t": "0.1"}}
    run = create_run(folder, SPEC.name, SPEC, **own)
    rng = np.random.default_rng(seed)
    noise = rng.normal(0, 0.05, (points, 3))
    lines = []
    for place in range(points):
        done = (place + 1) / points
        step, time = (place + 1) * EVERY, 1.8e9 + 3.0 * place
        loss = 2 + 6 * math.exp(-done * (4 + seed % 5)) + noise[place, 0]
        figures = {
            "train/loss": loss, "train/grad_norm": 1 + noise[place, 1], "train/learning_rate": 1e-3 * min(1, 10 * done),
            "train/padding": 0.05 + 0.01 * noise[place, 1], "train/tokens_per_second": 5000 + 900 * noise[place, 2],
            "train/tokens_per_update": 4000 + 100 * noise[place, 1],
        }  # fmt: skip
        lines.append({"step": step, "time": time, **figures})
        if place % 20 == 19:
            score = 30 * (1 - math.exp(-done * (3 + seed % 4))) + noise[place, 1]
            lines.append({"step": step, "time": time + 1, "dev/bleu": score, "dev/teacher_forced/loss": loss - 0.3})
    run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def write_runs(folder: Path, count: int, points: int) -> None:
    """Writes runs `group_<g>/run_<n>` that differ in a few hparams."""
    for number in range(count):
        changes = {"learning_rate": 0.001 * (1 + number % 7), "num_heads": 1 << number % 3}
        write_run(folder / f"group_{number % 5}" / f"run_{number:02d}", points, number, **changes)
