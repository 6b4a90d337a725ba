"""The text of `t2t-trainer --dry_run`, with or without data."""

import math
from collections.abc import Sequence

import keras

from t2t.data.generate import data_folder
from t2t.problems.base import Problem
from t2t.runs.data import find_missing_data, nominal_specs
from t2t.runs.describing import changes_line, cost, describe, devices_of, memory, names_line, updates_line
from t2t.runs.names import Request, Resolved, problems_of, resolve
from t2t.runs.recording import joined_spec
from t2t.runs.settings import Settings
from t2t.runs.training import TrainingRun
from t2t.specs.features import FeatureKind, ProblemSpec
from t2t.training.distribute import build_strategy
from t2t.training.freezing import freeze_weights, frozen_line
from t2t.training.optimizers import build_optimizer


def dry_run_lines(request: Request, settings: Settings) -> list[str]:
    """Describes a run, a line each; without data, for vocabularies of nominal sizes.

    Raises:
        UserError: a wrong name or value, other data, or a problem whose features are known from its data alone.
    """
    resolved = resolve(request)
    if missing := find_missing_data(resolved.request):
        return _nominal_lines(resolved, settings, missing)
    run = TrainingRun.from_request(request, settings)
    return [*describe(run), f"memory: {memory(run)}", f"training: about {cost(run)}"]


def _nominal_lines(resolved: Resolved, settings: Settings, missing: Sequence[str]) -> list[str]:
    hparams, request = resolved.hparams, resolved.request
    problems, specs = problems_of(request), nominal_specs(request)
    strategy = build_strategy(settings.worker_gpu, settings.worker_cpu)
    keras.utils.set_random_seed(settings.seed)
    model = resolved.model_class(hparams, joined_spec(specs), dtype=hparams.precision)
    freeze_weights(model, hparams.frozen_weights)
    optimizer = build_optimizer(hparams)
    optimizer.build(model.trainable_variables)
    weights = sum(math.prod(v.shape) * 4 for v in [*model.variables, *optimizer.variables])
    return [
        names_line(request),
        changes_line(resolved),
        *(_vocabulary_line(request, *one, one[0].name in missing) for one in zip(problems, specs, strict=True)),
        f"parameters: {model.count_params():,}; {hparams.precision} on {devices_of(strategy)}",
        *([frozen_line(model, hparams.frozen_weights)] if hparams.frozen_weights else []),
        updates_line(hparams),
        f"memory: about {weights / 2**20:,.0f} MiB on each replica for weights and optimizer; that of activations, and "
        f"what training costs, depend on the lengths of the data: make them with t2t-datagen "
        f"--problem={request.problem} --data_dir={request.data_folder}",
    ]


def _vocabulary_line(request: Request, problem: Problem, spec: ProblemSpec, is_missing: bool) -> str:
    """Describes the assumed vocabulary sizes of a problem."""
    sizes = {name: f.vocab_size for name, f in spec.features.items() if f.kind == FeatureKind.TOKENS}
    if len(set(sizes.values())) == 1:
        found = f"vocabulary of {next(iter(sizes.values())):,}, its nominal size; "
    else:
        found = ", ".join(f"vocabulary of {name} of {size:,}" for name, size in sizes.items())
        found += ", their nominal sizes; " if sizes else ""
    folder = data_folder(request.data_folder, problem)
    return f"data of {problem.name}: {found}{'no data at' if is_missing else 'others are missing; not read:'} {folder}"
