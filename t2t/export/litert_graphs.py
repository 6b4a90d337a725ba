"""A run as a model of LiteRT, formerly TensorFlow Lite, for small devices: one file, each graph a signature of it."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from t2t.errors import one_line
from t2t.export.formats import FLOAT16, FLOAT32
from t2t.export.graph_script import LITERT_FILE
from t2t.export.litert_axes import expand_new_axes
from t2t.export.step_graphs import Graph, GraphExport

_LACKING = re.compile(r"^(?:TF Select|Flex|Custom) ops: (.+)$", re.M)
"""In the converter's message: operations of TensorFlow that the runtime does not have."""


class LiteRtExport(GraphExport):
    """`model.tflite` of the runtime's own operations alone.

    Rounded weights are the converter's: float16 as they are stored; int8 a scale for each row of a matrix, whose
    products with inputs, rounded as they come, are of whole numbers.
    """

    format, needs, others = "litert", "ai-edge-litert", "saved_model or onnx"
    grows = False  # its runtime hands out no tensors of size 0, with which a state that grows begins

    def convert(self, graphs: Mapping[str, Graph], folder: Path) -> None:
        """Writes one file of all graphs, which share their weights; see the base class."""
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
            except Exception as error:  # whatever the converter says
                raise self.cannot_hold("the graphs", _reason(error)) from error
        (folder / LITERT_FILE).write_bytes(content)

    def describe_files(self) -> str:
        """See the base class."""
        return f"`{LITERT_FILE}` is a model of LiteRT (TensorFlow Lite), weights in {self.job.quantization}, with the"


def _reason(error: Exception) -> str:
    if lacking := _LACKING.search(str(error)):
        return f"its runtime has no {lacking[1]}"
    return f"{type(error).__name__}: {one_line(error)}"
