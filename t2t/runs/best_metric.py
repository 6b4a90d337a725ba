"""Which figure picks the best checkpoint of a run."""

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.metrics import higher_is_better, is_text_metric
from t2t.metrics.token import FIGURES, LABEL
from t2t.models.base import SequenceModel
from t2t.problems.base import Problem
from t2t.registry import METRICS
from t2t.runs.evaluation import decodes
from t2t.runs.settings import Settings


def resolve_best_metric(hparams: HParams, problem: Problem, model: SequenceModel, settings: Settings) -> str:
    """Returns the full name of the figure that picks the best checkpoint; the label of a figure may be left out.

    Raises:
        UserError: no such figure, a text metric of a model that does not decode, or early stopping without evaluations.
    """
    name = hparams.best_metric or next(iter(problem.metrics), "loss")
    if name in FIGURES and name not in METRICS:
        name = LABEL + name
    higher_is_better(name)  # raises for an unknown one
    if is_text_metric(name) and not decodes(model):
        raise UserError(
            f"hparam best_metric={name}: {problem.name} has no inputs to decode; choose a teacher-forced figure, e.g. "
            f"{LABEL}loss"
        )
    if hparams.early_stopping_steps and not settings.evaluates_dev:
        raise UserError(
            f"hparam early_stopping_steps={hparams.early_stopping_steps}: this run does not evaluate; leave it out "
            f"or train with --schedule=continuous_train_and_eval and --eval_steps above 0"
        )
    return name
