"""What a training run will be, before it begins: a line each, how much memory it needs and what it costs."""

import numpy as np

from t2t.constants import TRAIN
from t2t.runs.training import TrainingRun
from t2t.training.cost import update_cost
from t2t.training.memory import MemoryEstimate, estimate


def memory(run: TrainingRun) -> MemoryEstimate:
    """Returns what an update needs."""
    hparams = run.resolved.hparams
    slots = len(run.step.optimizer.variables) // max(len(run.model.trainable_variables), 1) + bool(hparams.ema_decay)
    largest = max(run.largest_batches(), key=lambda batch: sum(array.nbytes for array in batch.values()))
    return estimate(run.model, largest, slots, run.plan.micro_batches > 1)


def cost(run: TrainingRun) -> str:
    """Returns what the run's updates take, in floating-point operations, for sequences of the data's mean lengths."""
    reader, columns = run.data.readers[TRAIN], run.data.problem.columns
    names = columns or {name: name for name in reader.features}
    means = {name: float(reader.lengths(stored).mean()) for name, stored in names.items() if reader.is_sequence(stored)}
    longer = np.maximum.reduce([reader.lengths(names[name]) for name in means]).mean() if means else 1.0
    example = {name: np.zeros((1, round(mean)), np.int32) for name, mean in means.items()}
    example |= {name: reader.single(np.zeros(1, int), stored) for name, stored in names.items() if name not in means}
    flops, loops = update_cost(run.model, example)
    an_update = flops * _padded_tokens(run) / longer
    return (
        f"{an_update * run.plan.train_steps:.2g} floating-point operations in matrix products for "
        f"{run.plan.train_steps:,} updates, {an_update:.2g} each"
        + ("; what the model does in loops, step by step, is not counted and comes on top" if loops else "")
    )


def _padded_tokens(run: TrainingRun) -> int:
    """Returns the padded tokens a side (the examples, where there is no sequence) of an update."""
    return run.resolved.hparams.batch_size * run.step.replicas * run.plan.micro_batches


def describe(run: TrainingRun) -> list[str]:
    """Returns what is about to run, a line each."""
    hparams, request = run.resolved.hparams, run.resolved.request
    changed = hparams.difference(run.resolved.named_set)
    reader = run.data.readers[TRAIN]
    unit = "padded tokens per side" if any(map(reader.is_sequence, reader.features)) else "examples"
    per_update = _padded_tokens(run)
    lines = [
        f"problem {request.problem}, model {request.model}, hparams set {request.hparams_set}",
        "changed hparams: " + (", ".join(_change(k, *values) for k, values in changed.items()) or "none"),
        f"data_dir {request.data_folder}, output_dir {request.output_folder}, random_seed {run.settings.seed}",
        f"data: {len(reader):,} training examples"
        + (f", {run.batches.skipped:,} of them longer than max_length={hparams.max_length} and skipped"
           if run.batches.skipped else ""),
        f"parameters: {run.model.count_params():,}; {hparams.precision} on {_devices(run)}",
        f"{run.plan.train_steps:,} updates, {hparams.learning_rate_schedule} schedule, learning rate "
        f"{max(map(run.plan.rate, _landmarks(run))):.3g} at most; best checkpoint by {run.best_metric}",
        f"batch_size={hparams.batch_size} {unit} per replica per step; {run.step.replicas} replica(s) x "
        f"{run.plan.micro_batches} step(s) = {per_update:,} an update",
    ]  # fmt: skip
    return lines + [f"plug-in {p.name} ({p.kind}): {', '.join(p.registered) or 'registered nothing'}"
                    for p in run.resolved.plugins]  # fmt: skip


def _change(name: str, old, new) -> str:
    unit = " padded tokens per side" if name.endswith("batch_size") else ""
    return f"{name}={new}{unit} (was {old})"


def _devices(run: TrainingRun) -> str:
    return ", ".join(device.split("/device:")[-1] for device in run.strategy.extended.worker_devices)


def _landmarks(run: TrainingRun) -> set[int]:
    """Updates among which the learning rate is largest."""
    last = max(run.plan.train_steps, 1)
    return {1, last, min(last, max(run.resolved.hparams.learning_rate_warmup_steps, 1))}
