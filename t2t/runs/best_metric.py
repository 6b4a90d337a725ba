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
    """Returns the full name of the figure that a run's evaluations give and that picks its best checkpoint.

    Raises:
        UserError: there is no such figure, the model writes nothing that could be scored by it, or training is to end
            by evaluations that are not made.
    """
    name = _full_name(hparams.best_metric, problem.metrics)
    higher_is_better(name)
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


def _full_name(asked: str, declared: tuple[str, ...]) -> str:
    """Returns the name with its label.

    Teacher-forced figures may be asked for without their label; where a text metric has the same name, that is meant.
    """
    name = asked or (declared[0] if declared else "loss")
    if name in METRICS or name.startswith(LABEL):
        return name
    return LABEL + name if name in FIGURES else name
