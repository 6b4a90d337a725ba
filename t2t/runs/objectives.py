"""The objective of a training run, by its hparams."""

import logging
from collections.abc import Sequence

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.inference.output_constraints import constrains_outputs
from t2t.models.base import SequenceModel
from t2t.runs.data import OpenData
from t2t.runs.sampled_candidates import SampledCandidates
from t2t.specs.features import FeatureKind
from t2t.training.objectives import Likelihood, ScheduledSampling
from t2t.training.sampled_objectives import build_sampled_objective

log = logging.getLogger("t2t")


def build_objective(model: SequenceModel, data: Sequence[OpenData], hparams: HParams, run_seed: int) -> Likelihood:
    """Returns the objective of a run.

    Args:
        model: of all of its problems.
        data: of its problems.
        hparams: of the run.
        run_seed: of the run.

    Raises:
        UserError: a model or problem that cannot be trained so, or no such metric.
    """
    names = [one.problem.name for one in data]
    if hparams.objective == "likelihood":
        if not hparams.scheduled_sampling_prob:
            return Likelihood()
        asked = f"hparam scheduled_sampling_prob={hparams.scheduled_sampling_prob}"
        _check_writes(model, names, asked)
        return ScheduledSampling(hparams.scheduled_sampling_prob, hparams.scheduled_sampling_warmup_steps)
    asked = f"hparam objective={hparams.objective}"
    _check_writes(model, names, asked)
    for one in data:
        if one.problem.spec().inputs is None:
            raise UserError(
                f"{asked}: {one.problem.name} has no inputs for which outputs could be sampled; leave it out"
            )
        if constrains_outputs(one.problem, model.for_problem(one.problem.name), hparams):
            log.info(
                "%s: samples are the model's own, among them outputs that %s does not allow; decoding keeps to those "
                "that it allows",
                asked,
                one.problem.name,
            )
    problems = {one.problem.name if len(data) > 1 else "": one.problem for one in data}
    return build_sampled_objective(hparams, SampledCandidates(model, problems, hparams, run_seed))


def _check_writes(model: SequenceModel, problems: Sequence[str], asked: str) -> None:
    """Raises UserError where the model does not write the targets of a problem token by token."""
    for name in problems:
        view = model.for_problem(name)
        if not view.autoregressive or view.spec.targets.kind != FeatureKind.TOKENS:
            raise UserError(
                f"{asked}: {type(model).__name__} does not write the targets of {name} token by token; leave it out"
            )
