"""Exports a run to LiteRT, formerly TensorFlow Lite, for small devices: one file with a signature for each graph."""

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from t2t.errors import one_line
from t2t.export.formats import FLOAT16, FLOAT32
from t2t.export.graph_script import LITERT_FILE
from t2t.export.litert_axes import expand_new_axes
from t2t.export.step_graphs import GraphExport, TracedGraph

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
