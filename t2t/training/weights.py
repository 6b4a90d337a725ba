"""Reads all state that training changes from the device, and writes it back, by name."""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import keras
import numpy as np

from t2t.checkpoints.adapters import merge_adapters
from t2t.checkpoints.compatibility import require_exact
from t2t.errors import UserError
from t2t.training.step import UpdateStep

Arrays = dict[str, np.ndarray]


def model_arrays(step: UpdateStep) -> Arrays:
    """Returns the model's weights, or only its adapters where these are trained, by variable path."""
    return {v.path: np.asarray(v) for v in step.saved}


def optimizer_arrays(step: UpdateStep) -> Arrays:
    """Returns the optimizer's slots and the loss scale by name."""
    variables = _slots(step.optimizer) | {v.name: v for v in step.loss_scale.variables}
    arrays = {name: np.asarray(v) for name, v in variables.items()}
    # JAX counts in 32 bits, but a checkpoint must not depend on the engine.
    return {name: a.astype(np.int64) if a.dtype.kind == "i" else a for name, a in arrays.items()}


def _slots(optimizer: keras.optimizers.Optimizer) -> dict[str, keras.Variable]:
    """Returns the optimizer's variables by name, without the learning rate, which is assigned before each update.

    Keras's Adafactor gives the slots of weights with the same name equal names; these are numbered in order.
    """
    variables = [v for v in optimizer.variables if v.path != optimizer.learning_rate.path]
    times = Counter(v.path for v in variables)
    numbers: dict[str, Iterator[int]] = {path: itertools.count() for path in times}
    return {v.path if times[v.path] == 1 else f"{v.path}/{next(numbers[v.path])}": v for v in variables}


def ema_arrays(step: UpdateStep) -> Arrays | None:
    """Returns the moving averages of the trained weights by variable path; None if none are kept."""
    if not step.ema:
        return None
    return {v.path: np.asarray(mean) for v, mean in zip(step.trained, step.ema, strict=True)}


def restore(
    step: UpdateStep,
    model: Mapping[str, np.ndarray],
    optimizer: Mapping[str, np.ndarray] | None,
    ema: Mapping[str, np.ndarray] | None,
    source: str,
) -> None:
    """Assigns arrays to the variables, after checking every name and shape.

    Raises:
        UserError: a variable is missing, unexpected or of another shape; all are named and nothing has changed.
    """
    require_exact(model, {v.path: tuple(v.shape) for v in step.saved}, source)
    if optimizer is not None:
        current = optimizer_arrays(step)
        require_exact(optimizer, {name: value.shape for name, value in current.items()}, f"{source} (optimizer)")
    _assign(step.saved, model)
    if optimizer is not None:
        for name, variable in _slots(step.optimizer).items():
            variable.assign(optimizer[name])
        for variable in step.loss_scale.variables:
            variable.assign(optimizer[variable.name])
    for mean, variable in zip(step.ema, step.trained, strict=False):
        mean.assign((ema or model)[variable.path])


def slots_of_weights(step: UpdateStep) -> dict[str, dict[str, keras.Variable]]:
    """Returns path -> slot name -> slot, for each weight that is trained.

    Raises:
        UserError: a slot of the optimizer belongs to no weight by its name and shape.
    """
    weights = {v.path.replace("/", "_"): v for v in step.trained}
    found: dict[str, dict[str, keras.Variable]] = {v.path: {} for v in weights.values()}
    for name, slot in _slots(step.optimizer).items():
        if slot is step.optimizer.iterations:
            continue
        owner = max((flat for flat in weights if name.partition("/")[2].startswith(f"{flat}_")), key=len, default="")
        if not owner or slot.shape != weights[owner].shape:
            raise UserError(
                f"optimizer {step.optimizer.name}: its slot {name} does not belong to a weight by its name and shape",
                "start with empty slots",
            )
        found[weights[owner].path][name] = slot
    return found


def assign_model(model, arrays: Mapping[str, np.ndarray]) -> None:
    """Assigns the variables of a model that `arrays` names."""
    _assign(model.variables, arrays)


def _assign(variables: Sequence[keras.Variable], arrays: Mapping[str, np.ndarray]) -> None:
    for variable in variables:
        if variable.path in arrays:
            variable.assign(arrays[variable.path])


@contextlib.contextmanager
def evaluated_weights(step: UpdateStep) -> Iterator[None]:
    """Context manager in which the model has the weights that its checkpoints decode with.

    These are the moving averages if the step keeps them; adapters are merged into the weights of their base.
    """
    evaluated = ema_arrays(step) or {}
    if step.adapters is not None:
        base = {v.path: np.asarray(v) for v in step.adapters.weights}
        factors = {v.path: np.asarray(v) for v in step.adapters.variables}
        evaluated = merge_adapters(base, factors | evaluated, step.adapters.scale)
    if not evaluated:
        yield
        return
    own = {v.path: np.asarray(v) for v in step.model.variables if v.path in evaluated}
    assign_model(step.model, evaluated)
    try:
        yield
    finally:
        assign_model(step.model, own)
