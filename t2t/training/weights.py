"""Reads everything that training changes from the device, and writes it back, by name."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping

import keras
import numpy as np

from t2t.checkpoints.transfer import require_exact
from t2t.errors import UserError
from t2t.training.step import UpdateStep

Arrays = dict[str, np.ndarray]


def model_arrays(step: UpdateStep) -> Arrays:
    """Returns the model's weights by variable path."""
    return {v.path: np.asarray(v) for v in step.model.variables}


def optimizer_arrays(step: UpdateStep) -> Arrays:
    """Returns the optimizer's slots and the loss scale by name."""
    slots = {name: np.asarray(v) for name, v in _slots(step.optimizer).items()}
    return slots | {v.name.split(":")[0]: v.numpy() for v in step.loss_scale.variables}


def _slots(optimizer: keras.optimizers.Optimizer) -> dict[str, keras.Variable]:
    """Returns the optimizer's variables by name, without the learning rate, which is assigned before each update.

    Keras's Adafactor calls the slots of all weights of one name alike, so equal names are numbered in their order.
    """
    variables = [v for v in optimizer.variables if v.path != optimizer.learning_rate.path]
    times = Counter(v.path for v in variables)
    numbers: dict[str, Iterator[int]] = {path: itertools.count() for path in times}
    return {v.path if times[v.path] == 1 else f"{v.path}/{next(numbers[v.path])}": v for v in variables}


def ema_arrays(step: UpdateStep) -> Arrays | None:
    """Returns the moving average of the trained weights by variable path; None where there is none."""
    if not step.ema:
        return None
    return {v.path: mean.numpy() for v, mean in zip(step.model.trainable_variables, step.ema, strict=True)}


def restore(
    step: UpdateStep,
    model: Mapping[str, np.ndarray],
    optimizer: Mapping[str, np.ndarray] | None,
    ema: Mapping[str, np.ndarray] | None,
    source: str,
) -> None:
    """Puts arrays back, after every name and shape has been checked.

    Raises:
        UserError: a variable is missing, unexpected or of another shape; all are named and nothing has changed.
    """
    require_exact(model, {v.path: tuple(v.shape) for v in step.model.variables}, source)
    if optimizer is not None:
        current = optimizer_arrays(step)
        require_exact(optimizer, {name: value.shape for name, value in current.items()}, f"{source} (optimizer)")
    assign_model(step.model, model)
    if optimizer is not None:
        for name, variable in _slots(step.optimizer).items():
            variable.assign(optimizer[name])
        for variable in step.loss_scale.variables:
            variable.assign(optimizer[variable.name.split(":")[0]])
    for mean, variable in zip(step.ema, step.model.trainable_variables, strict=False):
        mean.assign((ema or model)[variable.path])


def slots_of_weights(step: UpdateStep) -> dict[str, dict[str, keras.Variable]]:
    """Returns the optimizer's slots by their names, for the path of each weight that is trained.

    Raises:
        UserError: an optimizer one of whose slots is of no weight by its name.
    """
    weights = {v.path.replace("/", "_"): v for v in step.model.trainable_variables}
    found: dict[str, dict[str, keras.Variable]] = {v.path: {} for v in weights.values()}
    for name, slot in _slots(step.optimizer).items():
        if slot is step.optimizer.iterations:
            continue
        owner = max((flat for flat in weights if name.partition("/")[2].startswith(f"{flat}_")), key=len, default="")
        if not owner or slot.shape != weights[owner].shape:
            raise UserError(
                f"optimizer {step.optimizer.name}: its slot {name} has not the form of a weight, and cannot go with "
                f"one; begin with empty slots"
            )
        found[weights[owner].path][name] = slot
    return found


def assign_model(model, arrays: Mapping[str, np.ndarray]) -> None:
    """Assigns the variables of a model that `arrays` names."""
    for variable in model.variables:
        if variable.path in arrays:
            variable.assign(arrays[variable.path])


@contextlib.contextmanager
def averaged_weights(step: UpdateStep) -> Iterator[None]:
    """Gives the model its moving average, where it keeps one, within a `with` block."""
    averages = ema_arrays(step)
    if averages is None:
        yield
        return
    own = model_arrays(step)
    assign_model(step.model, averages)
    try:
        yield
    finally:
        assign_model(step.model, own)
