"""Exports a run as ONNX graphs, one file each."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import one_line
from t2t.formats.graph_script import open_onnx
from t2t.formats.step_graphs import GraphExport, TracedGraph

OPSET = 18


class OnnxExport(GraphExport):
    """`begin.onnx` and `step.onnx`, or `model.onnx`."""

    format, needs, others = "onnx", "onnxruntime", "saved_model"
    grows = True

    def convert(self, graphs: Mapping[str, TracedGraph], folder: Path) -> None:
        """Writes a file for each graph; see the base class."""
        import tf2onnx

        logging.getLogger("tf2onnx").setLevel(logging.ERROR)
        for name, graph in graphs.items():
            file = folder / f"{name}.onnx"
            try:
                handlers: dict[str, Any] = {"Erfc": (_convert_erfc, [])}
                converted, _ = tf2onnx.convert.from_function(
                    graph.traced, graph.signature, opset=OPSET, custom_op_handlers=handlers
                )
                open_onnx(converted.SerializeToString())  # fails on operations that the converter left unconverted
            except Exception as error:  # any error of the converter or the runtime
                raise self.cannot_hold(file.name, f"{type(error).__name__}: {one_line(error)}") from error
            file.write_bytes(converted.SerializeToString())

    def describe_files(self) -> str:
        """See the base class."""
        return f"The `.onnx` files hold graphs of ONNX, opset {OPSET},"


def _convert_erfc(graph: Any, node: Any, name: str, _: Any) -> None:
    """Converts Erfc, which GELU uses and tf2onnx does not support, to 1 - erf(x)."""
    kind, shape = graph.get_dtype(node.output[0]), graph.get_shape(node.output[0])
    graph.remove_node(node.name)
    one = graph.make_const(f"{name}/one", np.array(1.0, np.float32))
    erf = graph.make_node("Erf", [node.input[0]], name=f"{name}/erf", shapes=[shape], dtypes=[kind])
    both = [one.output[0], erf.output[0]]
    graph.make_node("Sub", both, name=name, outputs=node.output, shapes=[shape], dtypes=[kind])
