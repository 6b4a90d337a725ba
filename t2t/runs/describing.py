"""Describes a training run before it begins: settings, memory, cost."""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

import keras
import numpy as np

from t2t.backends import backend
from t2t.backends.base import policy_of
from t2t.checkpoints.store import CheckpointStore
from t2t.data.columns import batch_dtype, length_unit
from t2t.data.generation.data_folder import data_folder
from t2t.data.reading.reader import BLOCK, SequenceLengths, batch_unit, checked_columns
from t2t.errors import memory_errors_as_machine_errors
from t2t.hparams.base import HParams
from t2t.hparams.override import assigned_names
from t2t.layers.adapters import Adapters
from t2t.models.base import SequenceModel
from t2t.models.creation import create_model
from t2t.problems.base import Problem
from t2t.runs.config import RunConfig
from t2t.runs.data import find_missing_data, joined_spec, nominal_specs
from t2t.runs.decisions import DECIDED, decide_precision
from t2t.runs.evaluation import first_examples
from t2t.runs.objectives import widest_rows
from t2t.runs.resolving import ResolvedRun
from t2t.runs.starting import check_start
from t2t.runs.trained_problems import TrainedProblem
from t2t.runs.training import TrainingRun
from t2t.specs import DEV, TRAIN
from t2t.specs.features import FeatureKind, ProblemSpec
from t2t.training.callbacks.progress import time_line
from t2t.training.cost import MemoryEstimate, estimate, memory_limit, update_cost, used_memory
from t2t.training.optimizers import build_optimizer
from t2t.training.schedules import learning_rate
from t2t.training.trained_weights import adapters_line, build_adapters, freeze_weights, frozen_line
from t2t.training.trainer import Trainer

_TIMED, _ENOUGH_SECONDS = 2, 10.0
"""Updates that a dry run times, fewer once these take so long."""
_BATCH_SIZES = frozenset({"batch_size", "effective_batch_size"})


def memory(run: TrainingRun) -> MemoryEstimate:
    """Estimates the memory of an update; with several problems, the largest."""
    hparams = run.hparams
    slots = len(run.step.optimizer.variables) // max(len(run.step.trained), 1) + bool(hparams.ema_decay)
    estimates = []
    for part in run.parts:
        batches = [widest_rows(batch, part.model, hparams) for batch in part.warm_up_batches()]
        largest = max(batches, key=lambda batch: sum(array.nbytes for array in batch.values()))
        estimates.append(estimate(part.model, largest, slots, run.plan.micro_batches > 1, run.step.adapters))
    return max(estimates, key=lambda found: found.total)


def _operations(run: TrainingRun) -> str:
    """Describes the floating-point operations of the run's updates for sequences of mean length."""
    costs = [_part_cost(part) for part in run.parts]
    loops = any(loops for _, loops in costs)
    of_each = [flops * _padded_tokens(run, part) for part, (flops, _) in zip(run.parts, costs, strict=True)]
    an_update = sum(share * flops for share, flops in zip(run.schedule.shares, of_each, strict=True))
    return (
        f"{an_update * run.plan.train_steps:.2g} floating-point operations in matrix products, on any machine"
        + ("; what the model does in loops, step by step, is not counted and comes on top" if loops else "")
        + ("; sampling comes on top" if run.hparams.rows_per_example > 1 else "")
    )


def _part_cost(part: TrainedProblem) -> tuple[float, bool]:
    """Returns the operations of an update per padded token on a side, and whether those in loops are left out."""
    reader, lengths = part.data.readers[TRAIN], _sample_lengths(part)
    example = {}
    for name, stored in checked_columns(reader, part.data.problem.columns).items():
        if name in lengths:
            spec = reader.features[stored]
            length = round(lengths[name].mean() * length_unit(spec))
            example[name] = np.zeros((1, length, *spec.shape), batch_dtype(spec))
        else:
            example[name] = reader.single(np.zeros(1, int), stored)
    flops, loops = update_cost(part.model, example)
    passes = 4 / 3 if part.hparams.scheduled_sampling_prob else 1  # a second forward pass; backward costs two
    return flops * passes * part.hparams.rows_per_example / _mean_of_longer(lengths), loops


def _sample_lengths(part: TrainedProblem) -> dict[str, np.ndarray]:
    """Returns the lengths of the sequences of the first training examples."""
    reader = part.data.readers[TRAIN]
    sequences = SequenceLengths(reader, checked_columns(reader, part.data.problem.columns))
    return sequences.of(np.arange(min(len(reader), BLOCK)))


def _mean_of_longer(lengths: dict[str, np.ndarray]) -> float:
    """Returns the mean length of the longer side of an example; 1 without sequences."""
    return float(np.maximum.reduce(list(lengths.values())).mean()) if lengths else 1.0


def _padded_tokens(run: TrainingRun, part: TrainedProblem) -> int:
    """Returns the padded tokens on a side of an update; examples if there are no sequences."""
    return part.hparams.batch_size * run.step.replicas * run.plan.micro_batches


def describe(run: TrainingRun) -> list[str]:
    """Returns a line for each aspect of a run."""
    hparams, config = run.hparams, run.config
    best = run.parts[0].best_metric
    if len(run.parts) > 1:
        best = f"the mean over the problems of {hparams.best_metric or 'the loss per token'}"
    shapes = f"at most {hparams.fixed_shapes} shapes for a problem" if hparams.fixed_shapes else "any shapes"
    if hparams.packed_length:
        shapes = f"one shape, of rows of {hparams.packed_length} ids"
    return [
        *_names_lines(run.resolved, hparams, [_unit(part) for part in run.parts]),
        f"data_dir {config.data_folder}, output_dir {config.output_folder}, random_seed {config.random_seed}",
        *(_data_line(run, part) for part in run.parts),
        f"parameters: {run.model.count_params():,}; {hparams.precision} on {', '.join(run.devices.names)}",
        *_untrained_lines(run.model, run.step.adapters, hparams),
        f"{_updates_line(hparams)}; best checkpoint by {best}",
        *(_batch_line(run, part) for part in run.parts),
        *([f"XLA compiles the forward and backward pass: batches of {shapes}"] if run.step.xla else []),
        *(
            f"plug-in {plugin.name} ({plugin.kind}): {', '.join(plugin.registered) or 'registered nothing'}"
            for plugin in run.resolved.plugins
        ),
    ]


def _names_lines(resolved: ResolvedRun, hparams: HParams, units: Iterable[str]) -> list[str]:
    """Returns the names, and what differs from the named set; `units` are those of the batches of each problem."""
    config = resolved.config
    named, unit = assigned_names(config.hparams), " or ".join(dict.fromkeys(units))
    changes = [
        f"{name}={new}{f' {unit}' if unit and name in _BATCH_SIZES else ''} (was {old})"
        for name, (old, new) in hparams.difference(resolved.named_set).items()
        if name in named or name not in DECIDED
    ]
    return [
        f"problem {config.problem}, model {config.model}, hparams set {config.hparams_set}",
        f"changed hparams: {', '.join(changes) or 'none'}",
    ]


def _untrained_lines(model: SequenceModel, adapters: Adapters | None, hparams: HParams) -> list[str]:
    """Describes adapters or frozen weights, if there are any."""
    if adapters is not None:
        return [adapters_line(model, adapters, hparams.lora_targets)]
    return [frozen_line(model, hparams.frozen_weights)] if hparams.frozen_weights else []


def _updates_line(hparams: HParams) -> str:
    last = max(hparams.train_steps, 1)
    landmarks = {1, last, min(last, max(hparams.learning_rate_warmup_steps, 1))}
    highest = max(learning_rate(hparams, update) for update in landmarks)
    schedule = f"{hparams.learning_rate_schedule} schedule"
    return f"{hparams.train_steps:,} updates, {schedule}, learning rate {highest:.3g} at most"


def _data_line(run: TrainingRun, part: TrainedProblem) -> str:
    share = run.schedule.shares[run.parts.index(part)]
    distilled = part.data.manifest.distilled
    line = f"data{_which(part)}: {len(part.data.readers[TRAIN]):,} training examples"
    if distilled:
        line += f", targets distilled from {distilled.teacher['model']} {distilled.teacher['hparams_set']}"
    line += f"; {share:.1%} of the updates, best by {part.best_metric}" if part.name else ""
    if run.config.evaluates:
        read = len(first_examples(part.data, DEV, part.hparams, run.config.eval_steps))
        if read < (there_are := len(part.data.readers[DEV])):
            line += f"; evaluations read {read:,} of {there_are:,} dev examples, and these choose the best checkpoint"
    return line


def _batch_line(run: TrainingRun, part: TrainedProblem) -> str:
    lengths, padded = _sample_lengths(part), _padded_tokens(run, part)
    replicas, steps = run.step.replicas, run.plan.micro_batches
    examples = ""
    if lengths:
        most = len(part.data.readers[TRAIN]) * replicas * steps  # no batch has an example twice
        count = round(min(most, padded / _mean_of_longer(lengths)))
        examples = f", about {count:,} example{'s' * (count != 1)}"
    return (
        f"batch_size{_which(part)}={part.hparams.batch_size} {_unit(part)} per replica per step; {replicas:,} "
        f"replica{'s' * (replicas != 1)} x {steps:,} step{'s' * (steps != 1)} = {padded:,} an update{examples}"
    )


def _which(part: TrainedProblem) -> str:
    return f" of {part.name}" if part.name else ""


def _unit(part: TrainedProblem) -> str:
    """Returns what the batch size of a problem counts."""
    reader = part.data.readers[TRAIN]
    return batch_unit(reader.features[name] for name in checked_columns(reader, part.data.problem.columns).values())


def dry_run_lines(resolved: ResolvedRun) -> Iterator[str]:
    """Describes a run in lines; without generated data, assumes nominal vocabulary sizes.

    Raises:
        UserError: a wrong name or value, different data, or a problem whose features are known only from its data.
        MachineError: an update does not fit into memory.
    """
    config = resolved.config
    check_start(resolved)
    if missing := find_missing_data(config):
        with memory_errors_as_machine_errors("the model", "make it smaller"):
            yield from _nominal_lines(resolved, missing)
        return
    run = TrainingRun(resolved)
    yield from describe(run)
    if (count := len(config.cluster.addresses)) > 1:
        yield f"workers: {count}, each as described; an update has the batches of all"
    estimated = memory(run)
    yield f"memory: {estimated}"
    yield f"computation: {_operations(run)}"
    done = max(CheckpointStore(config.output_folder / "checkpoints").steps(), default=0)
    last, limit = run.plan.train_steps, memory_limit()
    if not run.devices.are_gpus and estimated.total * len(run.step.own) > limit:
        yield f"training: not timed, as it may need more than the {limit / 2**30:,.1f} GiB of memory here"
    elif done < last:
        yield time_line(_seconds(run), done, last, config.evaluates, used_memory(run.devices))


def _seconds(run: TrainingRun) -> float:
    """Returns the mean seconds of the first updates, which change the weights of this process and nothing else."""
    trainer = Trainer(run.step, run.batches, {}, run.plan)
    for part in run.parts:
        trainer.warm_up(part.warm_up_batches()[:1], part.name)  # the most memory
    seconds = [trainer.time_update()]
    while len(seconds) < _TIMED and sum(seconds) < _ENOUGH_SECONDS:
        seconds.append(trainer.time_update())
    return fmean(seconds)


def _nominal_lines(resolved: ResolvedRun, missing: Sequence[str]) -> list[str]:
    config = resolved.config
    hparams = decide_precision(resolved.hparams, backend().multiplies_bfloat16())
    problems, specs = resolved.problems, nominal_specs(config)
    devices = backend().devices(config.worker_gpu, config.worker_cpu, weight_shards=config.weight_shards)
    keras.utils.set_random_seed(config.random_seed)
    model = create_model(resolved.model_class, hparams, joined_spec(specs), policy_of(hparams.precision))
    freeze_weights(model, hparams.frozen_weights)
    adapters = build_adapters(model, hparams)
    optimizer = build_optimizer(hparams)
    added = adapters.variables if adapters else []
    optimizer.build(added or model.trainable_variables)
    weights = sum(math.prod(v.shape) * 4 for v in [*model.variables, *added, *optimizer.variables])
    return [
        *_names_lines(resolved, hparams, [batch_unit(spec.features.values()) for spec in specs]),
        *(_vocabulary_line(config, *one, one[0].name in missing) for one in zip(problems, specs, strict=True)),
        f"parameters: {model.count_params():,}; {hparams.precision} on {', '.join(devices.names)}",
        *_untrained_lines(model, adapters, hparams),
        _updates_line(hparams),
        f"memory: about {weights / 2**20:,.0f} MiB on each replica for weights and optimizer; that of activations, and "
        f"what training costs, depend on the lengths of the data: make them with t2t-datagen "
        f"--problem={config.problem} --data_dir={config.data_folder}",
    ]


def _vocabulary_line(config: RunConfig, problem: Problem, spec: ProblemSpec, is_missing: bool) -> str:
    """Describes the assumed vocabulary sizes of a problem."""
    sizes = {name: f.vocab_size for name, f in spec.features.items() if f.kind == FeatureKind.TOKENS}
    if len(set(sizes.values())) == 1:
        found = f"vocabulary of {next(iter(sizes.values())):,}, its nominal size; "
    else:
        found = ", ".join(f"vocabulary of {name} of {size:,}" for name, size in sizes.items())
        found += ", their nominal sizes; " if sizes else ""
    folder = data_folder(config.data_folder, problem)
    return f"data of {problem.name}: {found}{'no data at' if is_missing else 'others are missing; not read:'} {folder}"
