"""Functions of a model that run on each device with a copy of its weights."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t.inference.backend import ModelFunction
from t2t.inference.tensorflow.search_signatures import tensor_specs
from t2t.layers.mode import held, in_mode
from t2t.models.adapted import AdaptedModel
from t2t.models.base import SequenceModel

_current: contextvars.ContextVar[int] = contextvars.ContextVar("device", default=0)
"""Index of the device that this thread uses."""


def copies_of(model: SequenceModel) -> list[list[tf.Variable]]:
    """Returns the weights of a model on each device of this process: one list, or one for each replica."""
    values = [variable.value for variable in model.variables]
    if not values or not isinstance(values[0], tf.distribute.DistributedValues):
        return [values]
    local = values[0].distribute_strategy.experimental_local_results
    return [list(copies) for copies in zip(*map(local, values), strict=True)]


def devices_of(model: SequenceModel) -> list[str]:
    """Returns the names of the devices with a copy of a model's weights; `[""]` if there is one copy."""
    copies = copies_of(model)
    return [weights[0].device for weights in copies] if len(copies) > 1 else [""]


@contextlib.contextmanager
def use_device(number: int, name: str) -> Iterator[None]:
    """Context in which this thread runs functions on a device."""
    with held(_current, number), tf.device(name) if name else contextlib.nullcontext():
        yield


class TensorFlowFunction(ModelFunction):
    """A function in a graph of unknown sizes; on each device, it reads the copy of the weights that lies there.

    The model is traced once however many devices there are.
    """

    def __init__(self, model: SequenceModel, function: Callable, signature: Sequence[Any]):
        if isinstance(model, AdaptedModel):
            function = model.with_adapters(function)
        signature = tensor_specs(list(signature))
        copies = copies_of(model)
        if len(copies) == 1:
            self._on_devices = [traced(function, signature)]
            return
        variables = model.variables

        def of_weights(weights, *tensors):
            mapping = list(zip(variables, weights, strict=True))
            # Otherwise Keras would initialize all pending variables of the process at the end of the scope.
            with keras.StatelessScope(state_mapping=mapping, initialize_variables=False):
                return function(*tensors)

        weights = [tf.TensorSpec(v.shape, v.dtype) for v in variables]
        shared = traced(of_weights, [weights, *signature])

        def on_device(own: list[tf.Variable]) -> Callable:
            return lambda *tensors: shared([weight.read_value() for weight in own], *tensors)

        self._on_devices = [traced(on_device(own), signature) for own in copies]

    def __call__(self, *tensors):
        """Takes tensors or arrays and returns tensors; runs on the device of the thread, see `use_device`."""
        return self._on_devices[_current.get()](*tf.nest.map_structure(_as_tensor, tensors))

    @property
    def structured_outputs(self) -> Any:
        """The TensorSpecs of the results."""
        return self._on_devices[0].structured_outputs


def _as_tensor(value: Any) -> Any:
    return value if tf.is_tensor(value) else tf.constant(value)


def traced(function: Callable, signature: Sequence[Any]) -> Any:
    """Traces a function of tensors into a graph, which has no gradients."""
    with in_mode(gradients=False):
        return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
