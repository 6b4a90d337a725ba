"""A run as graphs of ONNX, a file each."""

import logging
from collections.abc import Mapping
from pathlib import Path

from t2t.errors import one_line
from t2t.export.graph_script import open_onnx
from t2t.export.step_graphs import Graph, GraphExport

OPSET = 18


class OnnxExport(GraphExport):
    """`begin.onnx` and `step.onnx`, or `model.onnx`."""

    format, needs, others = "onnx", "onnxruntime", "saved_model"

    def convert(self, graphs: Mapping[str, Graph], folder: Path) -> None:
        """Writes a file for each graph; see the base class."""
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        for name, graph in graphs.items():
            file = folder / f"{name}.onnx"
            try:
                converted, _ = tf2onnx.convert.from_function(graph.traced, graph.signature, opset=OPSET)
                open_onnx(converted.SerializeToString())  # the converter keeps unknown operations
            except Exception as error:  # whatever the converter says, or the runtime of what it has left
                raise self.cannot_hold(file.name, f"{type(error).__name__}: {one_line(error)}") from error
            file.write_bytes(converted.SerializeToString())

    def describe_files(self) -> str:
        """See the base class."""
        return f"The `.onnx` files hold graphs of ONNX, opset {OPSET},"
