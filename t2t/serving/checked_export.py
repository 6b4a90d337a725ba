"""Loads a SavedModel after checking its operations.

A SavedModel is a program, and TensorFlow runs parts of it while loading. So its file is first parsed as data. Only
operations that compute are allowed, in the graph and in every function. The save and restore nodes of every SavedModel
are removed, since TensorFlow reads the weights without them. The checked content, written to a copy, is what is loaded.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the tokenizer operations)
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from t2t.errors import UserError
from t2t.files.trust import check_inside
from t2t.serving.allowed_operations import ALLOWED_OPERATIONS

_GRAPH, _WEIGHTS = "saved_model.pb", "variables"
_OBJECTS = {"bare_concrete_function", "captured_tensor", "constant", "function", "resource", "user_object", "variable"}
_USER_OBJECTS = {"_generic_user_object", "signature_map", "trackable_list_wrapper"}
_REGISTERED = {"", "tf.StaticHashTable", "tf.TrackableConstant"}
"""Allowed kinds of objects in an export, and allowed names of registered TensorFlow classes."""


def load_checked(folder: Path) -> Any:
    """Returns the loaded SavedModel of a folder; no part of it runs before the check.

    Raises:
        UserError: it contains something that may do more than compute; the message names it.
        OSError, ValueError: the files are damaged.
    """
    for path in (folder / _GRAPH, folder / _WEIGHTS, *(folder / _WEIGHTS).glob("*")):
        check_inside(folder, path)
    content = _checked(folder, (folder / _GRAPH).read_bytes())
    with tempfile.TemporaryDirectory(prefix="t2t-export-") as copy:
        Path(copy, _GRAPH).write_bytes(content)
        os.symlink((folder / _WEIGHTS).resolve(), Path(copy, _WEIGHTS))
        return tf.saved_model.load(copy)


def _checked(folder: Path, content: bytes) -> bytes:
    """Returns a SavedModel without the nodes that save and restore; raises as `load_checked`."""
    try:
        model = SavedModel.FromString(content)
    except Exception as error:  # DecodeError, which only protobuf exports
        raise ValueError("it is no SavedModel") from error
    if len(model.meta_graphs) != 1 or not model.meta_graphs[0].HasField("object_graph_def"):
        raise _refusal(folder, "a graph of TensorFlow 1")
    graph = model.meta_graphs[0]
    _remove_saver(graph)
    if found := next(_forbidden(graph), None):
        raise _refusal(folder, found)
    return model.SerializeToString()


def _refusal(folder: Path, found: str) -> UserError:
    return UserError(
        f"{folder}: it has {found}, which no export of t2t-exporter has; it may do more than compute, e.g. read or "
        f"write files, and is not loaded; serve an export whose origin you know, or export its run again"
    )


def _remove_saver(graph: Any) -> None:
    """Removes the save and restore nodes, and the functions that they call."""
    names = {graph.saver_def.save_tensor_name.partition(":")[0], graph.saver_def.restore_op_name}
    nodes = [node for node in graph.graph_def.node if node.name in names]
    called = {name for node in nodes for name in _called_functions(node)}
    for node in nodes:
        graph.graph_def.node.remove(node)
    functions = graph.graph_def.library.function
    for function in [one for one in functions if one.signature.name in called]:
        functions.remove(function)
    graph.ClearField("saver_def")


def _forbidden(graph: Any) -> Iterator[str]:
    """Yields a description of each forbidden part of a graph."""
    functions = {function.signature.name: function for function in graph.graph_def.library.function}
    nodes = [("the graph", node) for node in graph.graph_def.node]
    nodes += [(f"function {name}", node) for name, function in functions.items() for node in function.node_def]
    for place, node in nodes:
        if node.op not in ALLOWED_OPERATIONS:
            yield f"the operation {node.op!r} ({place})"
        for name in _called_functions(node):
            if name not in functions:
                yield f"a call of {name!r}, which is not among its functions ({place})"
    if len(functions) != len(graph.graph_def.library.function):
        yield "two functions of one name"
    if graph.asset_file_def:
        yield f"the asset {graph.asset_file_def[0].filename!r}"
    for node in graph.object_graph_def.nodes:
        kind = node.WhichOneof("kind")
        if kind not in _OBJECTS or (kind == "user_object" and node.user_object.identifier not in _USER_OBJECTS):
            yield f"an object of kind {node.user_object.identifier or kind!r}"
        if node.registered_name not in _REGISTERED or node.registered_saver or node.saveable_objects:
            yield f"an object of class {node.registered_name or node.registered_saver or 'with its own saver'!r}"


def _called_functions(node: Any) -> Iterator[str]:
    functions = (function for value in node.attr.values() for function in (value.func, *value.list.func))
    return (function.name for function in functions if function.name)
