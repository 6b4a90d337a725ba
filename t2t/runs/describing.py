"""Describes a training run before it begins: settings, memory, cost."""

import functools

import numpy as np

from t2t.data.columns import batch_dtype, item_shape, length_unit
from t2t.data.lengths import BLOCK, lengths_of_all
from t2t.data.pipeline import checked_columns, sequences_of
from t2t.hparams.base import HParams
from t2t.runs.names import Request, Resolved
from t2t.runs.parts import Part
from t2t.runs.training import TrainingRun
from t2t.specs.constants import TRAIN
from t2t.training.cost import update_cost
from t2t.training.freezing import frozen_line
from t2t.training.memory import MemoryEstimate, estimate
from t2t.training.schedules import learning_rate


def memory(run: TrainingRun) -> MemoryEstimate:
    """Returns the memory of an update, of several problems the largest."""
    hparams = run.resolved.hparams
    slots = len(run.step.optimizer.variables) // max(len(run.model.trainable_variables), 1) + bool(hparams.ema_decay)
    estimates = []
    for part in run.parts:
        largest = max(part.largest_batches(), key=lambda batch: sum(array.nbytes for array in batch.values()))
        estimates.append(estimate(part.model, largest, slots, run.plan.micro_batches > 1))
    return max(estimates, key=lambda found: found.total)


def cost(run: TrainingRun) -> str:
    """Describes the floating-point operations of the run's updates for sequences of mean length."""
    costs = [_part_cost(part) for part in run.parts]
    loops = any(loops for _, loops in costs)
    of_each = [flops * _padded_tokens(run, part) for part, (flops, _) in zip(run.parts, costs, strict=True)]
    an_update = sum(share * flops for share, flops in zip(run.schedule.shares, of_each, strict=True))
    return (
        f"{an_update * run.plan.train_steps:.2g} floating-point operations in matrix products for "
        f"{run.plan.train_steps:,} updates, {an_update:.2g} each"
        + ("; what the model does in loops, step by step, is not counted and comes on top" if loops else "")
    )


def _part_cost(part: Part) -> tuple[float, bool]:
    """Returns the operations of an update per padded token a side, and whether loops are left out."""
    reader, lengths = part.data.readers[TRAIN], _sample_lengths(part)
    example = {}
    for name, stored in checked_columns(reader, part.data.problem.columns).items():
        if name in lengths:
            spec = reader.features[stored]
            length = round(lengths[name].mean() * length_unit(spec))
            example[name] = np.zeros((1, length, *item_shape(spec)), batch_dtype(spec))
        else:
            example[name] = reader.single(np.zeros(1, int), stored)
    flops, loops = update_cost(part.model, example)
    return flops / _mean_of_longer(lengths), loops


def _sample_lengths(part: Part) -> dict[str, np.ndarray]:
    """Returns the lengths of the sequences of the first training examples."""
    reader = part.data.readers[TRAIN]
    sequences = sequences_of(reader, checked_columns(reader, part.data.problem.columns))
    return lengths_of_all(reader, sequences, np.arange(min(len(reader), BLOCK)))


def _mean_of_longer(lengths: dict[str, np.ndarray]) -> float:
    """Returns the mean length of the longer side of an example; 1 without sequences."""
    return float(np.maximum.reduce(list(lengths.values())).mean()) if lengths else 1.0


def _padded_tokens(run: TrainingRun, part: Part) -> int:
    """Returns the padded tokens a side of an update; examples if there are no sequences."""
    return part.hparams.batch_size * run.step.replicas * run.plan.micro_batches


def describe(run: TrainingRun) -> list[str]:
    """Returns a line for each aspect of a run."""
    hparams, request = run.resolved.hparams, run.resolved.request
    best = run.parts[0].best_metric if len(run.parts) == 1 else "the mean over the problems"
    lines = [
        names_line(request),
        changes_line(run.resolved),
        f"data_dir {request.data_folder}, output_dir {request.output_folder}, random_seed {run.settings.seed}",
        *(_data_line(run, part) for part in run.parts),
        f"parameters: {run.model.count_params():,}; {hparams.precision} on {devices_of(run.strategy)}",
        *([frozen_line(run.model, hparams.frozen_weights)] if hparams.frozen_weights else []),
        f"{updates_line(hparams)}; best checkpoint by {best}",
        *(_batch_line(run, part) for part in run.parts),
    ]
    return lines + [f"plug-in {p.name} ({p.kind}): {', '.join(p.registered) or 'registered nothing'}"
                    for p in run.resolved.plugins]  # fmt: skip


def names_line(request: Request) -> str:
    """Describes the names of a request."""
    return f"problem {request.problem}, model {request.model}, hparams set {request.hparams_set}"


def changes_line(resolved: Resolved) -> str:
    """Describes the changes of the hparams from the named set."""
    changed = resolved.hparams.difference(resolved.named_set)
    return "changed hparams: " + (", ".join(_change(name, *values) for name, values in changed.items()) or "none")


def updates_line(hparams: HParams) -> str:
    """Describes the number of updates and the learning rate."""
    last = max(hparams.train_steps, 1)
    landmarks = {1, last, min(last, max(hparams.learning_rate_warmup_steps, 1))}
    rate = functools.partial(learning_rate, hparams, hidden_size=hparams.hidden_size)
    highest = max(rate(update, train_steps=hparams.train_steps) for update in landmarks)
    schedule = f"{hparams.learning_rate_schedule} schedule"
    return f"{hparams.train_steps:,} updates, {schedule}, learning rate {highest:.3g} at most"


def devices_of(strategy) -> str:
    """Returns the devices of a `tf.distribute.Strategy`."""
    return ", ".join(device.split("/device:")[-1] for device in strategy.extended.worker_devices)


def _data_line(run: TrainingRun, part: Part) -> str:
    share = run.schedule.shares[run.parts.index(part)]
    return f"data{_which(part)}: {len(part.data.readers[TRAIN]):,} training examples" + (
        f"; {share:.1%} of the updates, best by {part.best_metric}" if part.name else ""
    )


def _batch_line(run: TrainingRun, part: Part) -> str:
    lengths, padded = _sample_lengths(part), _padded_tokens(run, part)
    unit = "padded tokens per side" if lengths else "examples"
    examples = f", about {padded / _mean_of_longer(lengths):,.0f} example(s)" if lengths else ""
    return (
        f"batch_size{_which(part)}={part.hparams.batch_size} {unit} per replica per step; {run.step.replicas} "
        f"replica(s) x {run.plan.micro_batches} step(s) = {padded:,} an update{examples}"
    )


def _which(part: Part) -> str:
    return f" of {part.name}" if part.name else ""


def _change(name: str, old, new) -> str:
    unit = " padded tokens per side" if name.endswith("batch_size") else ""
    return f"{name}={new}{unit} (was {old})"
