"""Functions that TensorFlow compiles: of models, on each device with a copy of the weights; of replicas; their cost."""

import contextvars
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t.backends.base import Batch, CompiledFunction, ComputeCost
from t2t.errors import UserError
from t2t.layers.mode import Kernels, current_mode, in_mode
from t2t.models.adapted import AdaptedModel
from t2t.models.base import SequenceModel

current_copy: contextvars.ContextVar[int] = contextvars.ContextVar("device", default=0)
"""Index of the device that this thread uses."""


def copies_of(model: SequenceModel) -> list[list[tf.Variable]]:
    """Returns the weights of a model on each device of this process: one list, or one for each replica."""
    values = [variable.value for variable in model.variables]
    if not values or not isinstance(values[0], tf.distribute.DistributedValues):
        return [values]
    local = values[0].distribute_strategy.experimental_local_results
    return [list(copies) for copies in zip(*map(local, values), strict=True)]


class TensorFlowFunction(CompiledFunction):
    """A function in a graph of unknown sizes; on each device, it reads the copy of the weights that lies there.

    The model is traced once however many devices there are.
    """

    def __init__(self, function: Callable, signature: Sequence[Any], model: SequenceModel | None):
        if isinstance(model, AdaptedModel):
            function = model.with_adapters(function)
        signature = tensor_specs(list(signature))
        copies = [] if model is None else copies_of(model)
        if model is None or len(copies) == 1:
            self._on_devices = [_traced(function, signature)]
            return
        variables = model.variables

        def of_weights(weights, *tensors):
            mapping = list(zip(variables, weights, strict=True))
            # Otherwise Keras would initialize all pending variables of the process at the end of the scope.
            with keras.StatelessScope(state_mapping=mapping, initialize_variables=False):
                return function(*tensors)

        weights = [tf.TensorSpec(v.shape, v.dtype) for v in variables]
        shared = _traced(of_weights, [weights, *signature])

        def on_device(own: list[tf.Variable]) -> Callable:
            return lambda *tensors: shared([weight.read_value() for weight in own], *tensors)

        self._on_devices = [_traced(on_device(own), signature) for own in copies]

    def __call__(self, *tensors):
        """Takes tensors or arrays and returns tensors; runs on the device of the thread, see `Backend.use_device`."""
        on_device = self._on_devices[current_copy.get() if len(self._on_devices) > 1 else 0]
        given = map(_as_tensor, tf.nest.flatten(tensors))
        # The usual call also compares them with the signature, which takes longer than a short function.
        found = on_device.inference_fn.call_flat(*given, *on_device.captured_inputs)
        return keras.tree.pack_sequence_as(on_device.structured_outputs, found)

    @property
    def outputs(self) -> Any:
        """See the base class."""
        return tf.nest.map_structure(
            lambda spec: keras.KerasTensor(spec.shape, spec.dtype.name), self._on_devices[0].structured_outputs
        )


def tensor_specs(signature: Any) -> Any:
    """Returns the TensorSpecs of a structure of `keras.KerasTensor`, or of TensorSpecs."""
    return tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape, spec.dtype), signature)


def _as_tensor(value: Any) -> Any:
    return value if tf.is_tensor(value) else tf.constant(value)


class _StepKernels(Kernels):
    """Operations of a decoding step for CPUs: as few as possible, and on few positions those of Eigen, not of oneDNN.

    oneDNN makes a program for each shape, and there is one more key at each step.
    """

    def product(self, x_TC, y, transposed: bool = False):
        """See the base class."""
        if x_TC.shape[-2] != 1:
            return super().product(x_TC, y, transposed)
        # TensorFlow replaces versions 1 and 2 of this operation by oneDNN's, but not this one.
        return tf.raw_ops.BatchMatMulV3(x=x_TC, y=y, Tout=x_TC.dtype, adj_y=transposed)

    def softmax(self, scores_TS):
        """See the base class."""
        if scores_TS.shape[-2] != 1:
            return super().softmax(scores_TS)
        powers_TS = tf.exp(scores_TS - tf.reduce_max(scores_TS, axis=-1, keepdims=True))
        return powers_TS / tf.reduce_sum(powers_TS, axis=-1, keepdims=True)

    def exchange(self, x_BTHC):
        """See the base class."""
        if x_BTHC.dtype != tf.float32 or None in x_BTHC.shape[1:3] or 1 in x_BTHC.shape[1:3]:
            return super().exchange(x_BTHC)
        return tf.bitcast(super().exchange(tf.bitcast(x_BTHC, tf.int32)), tf.float32)  # oneDNN moves only floats

    def take_rows(self, x, rows_J):
        """See the base class."""
        return tf.gather(x, rows_J)  # Keras allows negative indices, which are five more operations

    def take_beams(self, x, beams_BJ):
        """See the base class."""
        return tf.gather(x, beams_BJ, batch_dims=1)


def _traced(function: Callable, signature: Sequence[Any]) -> Any:
    """Traces a function of tensors into a graph of its own, which has no gradients."""
    mode = current_mode()
    on_cpu = not mode.for_converters and not tf.config.list_physical_devices("GPU")
    with in_mode(gradients=False, kernels=_StepKernels() if on_cpu else mode.kernels), tf.init_scope():
        return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()


# === Functions that every replica calls ===

Attribute = tf.compat.v1.AttrValue


class ReplicaFunction:
    """A function of tensors and variables, traced once and called by each replica with its own; it captures no others.

    If the graph held a full update for every replica, it would grow with their number, and so would its memory and the
    time to the first update. Calling one function from each replica is not enough: by default TensorFlow processes the
    function again at each call, to infer shapes, and again on each device, to optimize it.

    No argument of a call should be a constant: TensorFlow makes a copy of the function for each call that has one.

    Args:
        function: traced once, outside other functions.
        arguments: nested structure of tensor specs, and of the variables of any one replica.
        xla: whether XLA compiles it, one program for each shape of its tensors.

    Raises:
        UserError: the function captures others, e.g. in a layer of a plug-in.
    """

    def __init__(self, function: Callable, arguments: Sequence[Any], xla: bool = False):
        # If inlined, the calls of all replicas would be optimized as one large graph.
        attributes = {"_noinline": True}
        compiled = tf.function(function, autograph=False, jit_compile=xla or None, experimental_attributes=attributes)
        self.traced = compiled.get_concrete_function(*arguments)
        self._xla = xla
        if captured := self.traced.captured_inputs:
            raise UserError(
                f"training reads {len(captured)} tensors or variables that are not the model's, which replicas would "
                "share",
                "make each a weight of a layer with add_weight, or compute it in call",
            )

    def __call__(self, *arguments):
        """Calls it within the graph of another function; `arguments` must match those that it was traced with."""
        inputs = [x.handle if isinstance(x, tf.Variable) else x for x in tf.nest.flatten(arguments)]
        results = tf.nest.flatten(self.traced.structured_outputs)
        types = [result.dtype for result in results]
        graph = tf.compat.v1.get_default_graph()
        self.traced.add_to_graph(graph)
        call = graph.create_op("StatefulPartitionedCall", inputs, types, attrs=self._attributes(inputs, types))
        for tensor, result in zip(call.outputs, results, strict=True):
            tensor.set_shape(result.shape)
        return tf.nest.pack_sequence_as(self.traced.structured_outputs, call.outputs)

    def _attributes(self, inputs: Sequence[tf.Tensor], types: Sequence[tf.DType]) -> dict[str, Any]:
        """Returns the attributes of a call; they disable work that need not be repeated at each call."""
        config = tf.compat.v1.ConfigProto()
        optimizer = config.graph_options.rewrite_options
        optimizer.meta_optimizer_iterations = optimizer.ONE  # not two: the calling graph's optimizer also sees it
        options = tf.config.optimizer.get_experimental_options()
        optimizer.disable_meta_optimizer = options.get("disable_meta_optimizer", False)
        attributes = {
            "f": Attribute(func=tf.compat.v1.NameAttrList(name=self.traced.function_def.signature.name)),
            "Tin": _list_of([tensor.dtype for tensor in inputs]),
            "Tout": _list_of(types),
            "config_proto": Attribute(s=config.SerializeToString()),
            "_disable_call_shape_inference": Attribute(b=True),
        }
        return attributes | ({"_XlaMustCompile": Attribute(b=True)} if self._xla else {})


def _list_of(types: Sequence[tf.DType]) -> Any:
    return Attribute(list=Attribute.ListValue(type=[dtype.as_datatype_enum for dtype in types]))


# === The cost of a forward pass, counted from its graph, which is traced and never run ===


def _graph(forward: Callable, batch: Batch) -> tf.Graph:
    """Returns the graph of a function of features and seed; only the batch's shapes and dtypes matter."""
    signature = {name: tf.TensorSpec(array.shape, array.dtype) for name, array in batch.items()}
    function = tf.function(lambda features: forward(features, tf.zeros((2,), tf.int64)), autograph=False)
    return function.get_concrete_function(signature).graph


_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
_FREE = frozenset({"Const", "ReadVariableOp", "Placeholder", "Identity", "Reshape", "NoOp", "StridedSlice", "Shape"})
"""Operations whose outputs are not counted as memory."""


def forward_cost(model: SequenceModel, batch: Batch) -> ComputeCost:
    """Returns the cost of all logits of a batch: the products of the training loss, none of them in a loop."""
    with in_mode(blockwise_attention=False):
        graph = _graph(lambda features, seed: model(features, seed=seed), batch)
    in_loops = (node.op for body in graph.as_graph_def().library.function for node in body.node_def)
    return ComputeCost(
        sum(_operation_flops(op) for op in graph.get_operations()),
        any(op in (*_PRODUCTS, *_CONVOLUTIONS) for op in in_loops),
    )


def forward_bytes(model: SequenceModel, batch: Batch) -> int:
    """Returns the total bytes of the intermediate tensors of a batch's training loss."""
    graph = _graph(lambda features, seed: model.loss_sum(model.body(features, seed=seed), features["targets"]), batch)
    outputs = (tensor for op in graph.get_operations() if op.type not in _FREE for tensor in op.outputs)
    return sum(math.prod(t.shape) * t.dtype.size for t in outputs if t.shape.is_fully_defined() and t.dtype.size)


def _operation_flops(op: tf.Operation) -> int:
    if op.type in _PRODUCTS:
        rows_last = op.get_attr("transpose_a" if op.type == "MatMul" else "adj_x")
        inner = op.inputs[0].shape[-2 if rows_last else -1]
    elif op.type in ("Conv2D", "Conv3D"):
        inner = math.prod(op.inputs[1].shape[:-1])
    elif op.type == "DepthwiseConv2dNative":
        inner = math.prod(op.inputs[1].shape[:2])
    else:
        return 0
    return 2 * math.prod(op.outputs[0].shape) * inner
