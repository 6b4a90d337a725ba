"""Functions that are traced once, and called by each replica with its own values.

If the graph held a full update for every replica, it would grow with their number, and so would its memory and the time
to the first update. Calling one function from each replica is not enough: by default TensorFlow processes the function
again at each call, to infer shapes, and again on each device, to optimize it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from t2t.errors import UserError

Attribute = tf.compat.v1.AttrValue


class ReplicaFunction:
    """A function of tensors and variables; it must not capture any others.

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
                f"training reads {len(captured)} tensors or variables besides the model's, which other replicas would "
                f"share; make each a weight of a layer with add_weight, or compute it in call"
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
