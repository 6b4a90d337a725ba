"""Exports a run to LiteRT, formerly TensorFlow Lite, for small devices: one file with a signature for each graph.

Its converter turns a slice with new axes, `x[:, None]`, into a reshape, which only works with at most one unknown size.
So these slices are rewritten first, as operations that it supports for any unknown sizes.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t.errors import one_line
from t2t.formats.graph_script import LITERT_FILE
from t2t.formats.parity import FLOAT16, FLOAT32
from t2t.formats.step_graphs import GraphExport, TracedGraph

_LACKING = re.compile(r"^(?:TF Select|Flex|Custom) ops: (.+)$", re.M)
"""Matches the converter's list of TensorFlow operations that the runtime does not have."""


class LiteRtExport(GraphExport):
    """Writes `model.tflite`, which only uses the runtime's built-in operations.

    The converter rounds weights: float16 for storage only; int8 with a scale per matrix row, multiplied as integers
    with inputs that are quantized dynamically.
    """

    format, needs, others = "litert", "ai-edge-litert", "saved_model or onnx"
    grows = False  # the runtime does not support tensors of size 0, the initial growing state

    def convert(self, graphs: Mapping[str, TracedGraph], folder: Path) -> None:
        """Writes one file with all graphs, which share their weights; see the base class."""
        module = tf.Module()
        module.weights = [variable.value for variable in self._model.variables]
        with tempfile.TemporaryDirectory() as scratch:
            tf.saved_model.save(module, scratch, signatures={name: graph.concrete for name, graph in graphs.items()})
            expand_new_axes(Path(scratch))
            converter = tf.lite.TFLiteConverter.from_saved_model(scratch, signature_keys=list(graphs))
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            if self.job.quantization != FLOAT32:
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            if self.job.quantization == FLOAT16:
                converter.target_spec.supported_types = [tf.float16]
            try:
                content = converter.convert()
            except Exception as error:  # any error of the converter
                raise self.cannot_hold("the graphs", _reason(error)) from error
        (folder / LITERT_FILE).write_bytes(content)

    def describe_files(self) -> str:
        """See the base class."""
        return f"`{LITERT_FILE}` is a model of LiteRT (TensorFlow Lite), weights in {self.job.quantization}, with the"


def _reason(error: Exception) -> str:
    if lacking := _LACKING.search(str(error)):
        return f"its runtime has no {lacking[1]}"
    return f"{type(error).__name__}: {one_line(error)}"


def expand_new_axes(folder: Path) -> None:
    """Rewrites the functions of a SavedModel in place: slices that only add axes become `ExpandDims`."""
    file, saved = folder / "saved_model.pb", SavedModel()
    saved.ParseFromString(file.read_bytes())
    for graph in saved.meta_graphs:
        for function in graph.graph_def.library.function:
            constants = {node.name: node for node in function.node_def if node.op == "Const"}
            for node in list(function.node_def):
                if node.op == "StridedSlice" and (axes := _new_axes(node, constants)):
                    function.node_def.extend(_expansions(node, axes))
                    function.node_def.remove(node)
    file.write_bytes(saved.SerializeToString())


def _new_axes(node: tf.compat.v1.NodeDef, constants: dict[str, tf.compat.v1.NodeDef]) -> list[int]:
    """Returns the axes that a slice adds, in the order of adding; empty if the slice does anything else."""
    # Indexing a protobuf map with a missing key would add it.
    named = {name: f"{name}_mask" for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    masks = {name: node.attr[key].i if key in node.attr else 0 for name, key in named.items()}
    strides = constants.get(node.input[3].partition(":")[0])
    if not masks["new_axis"] or masks["shrink_axis"] or strides is None:
        return []
    count = tf.make_ndarray(strides.attr["value"].tensor).size
    whole = masks["new_axis"] | masks["ellipsis"] | masks["begin"] & masks["end"]
    if whole != 2**count - 1 or not np.all(tf.make_ndarray(strides.attr["value"].tensor) == 1):
        return []
    added = [i for i in range(count) if masks["new_axis"] >> i & 1]
    ellipsis = masks["ellipsis"].bit_length() - 1 if masks["ellipsis"] else count
    # Axes after an ellipsis are counted from the end and added last one first, so that later ones do not shift them.
    return [i for i in added if i < ellipsis] + [i - count for i in reversed(added) if i > ellipsis]


def _expansions(node: tf.compat.v1.NodeDef, axes: list[int]) -> Iterator[tf.compat.v1.NodeDef]:
    """Yields the nodes that add the axes one by one; the last one takes the name of the slice."""
    given = node.input[0]
    for number, axis in enumerate(axes, start=1):
        constant = tf.compat.v1.NodeDef(name=f"{node.name}/axis_{number}", op="Const")
        constant.attr["dtype"].type = tf.int32.as_datatype_enum
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(axis, tf.int32))
        name = node.name if number == len(axes) else f"{node.name}/expanded_{number}"
        expansion = tf.compat.v1.NodeDef(name=name, op="ExpandDims", input=[given, f"{constant.name}:output:0"])
        expansion.attr["T"].CopyFrom(node.attr["T"])
        expansion.attr["Tdim"].type = tf.int32.as_datatype_enum
        yield from (constant, expansion)
        given = f"{name}:output:0"
