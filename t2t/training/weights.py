"""Everything that training changes, out of the device's memory and back into it, by name."""

import contextlib
from collections.abc import Iterator, Mapping

import numpy as np

from t2t.checkpoints.transfer import require_exact
from t2t.training.step import UpdateStep

Arrays = dict[str, np.ndarray]


def model_arrays(step: UpdateStep) -> Arrays:
    """Returns the model's weights by variable path."""
    return {v.path: np.asarray(v) for v in step.model.variables}


def optimizer_arrays(step: UpdateStep) -> Arrays:
    """Returns the optimizer's slots and the loss scale by name."""
    rate = step.optimizer.learning_rate.path  # a function of the update, assigned before each
    slots = {v.path: np.asarray(v) for v in step.optimizer.variables if v.path != rate}
    return slots | {v.name.split(":")[0]: v.numpy() for v in step.loss_scale.variables}


def ema_arrays(step: UpdateStep) -> Arrays | None:
    """Returns the moving average of the trained weights by variable path; None where there is none."""
    if not step.ema:
        return None
    return {v.path: mean.numpy() for v, mean in zip(step.model.trainable_variables, step.ema, strict=True)}


def restore(step: UpdateStep, model: Arrays, optimizer: Arrays | None, ema: Arrays | None, source: str) -> None:
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
        for variable in step.optimizer.variables:
            if variable.path in optimizer:
                variable.assign(optimizer[variable.path])
        for variable in step.loss_scale.variables:
            variable.assign(optimizer[variable.name.split(":")[0]])
    for mean, variable in zip(step.ema, step.model.trainable_variables, strict=False):
        mean.assign((ema or model)[variable.path])


def assign_model(model, arrays: Mapping[str, np.ndarray]) -> None:
    """Gives every variable of a model that `arrays` names its value."""
    for variable in model.variables:
        if variable.path in arrays:
            variable.assign(arrays[variable.path])


@contextlib.contextmanager
def averaged_weights(step: UpdateStep) -> Iterator[None]:
    """Gives the model its moving average, where it keeps one, for the length of a `with` block."""
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
