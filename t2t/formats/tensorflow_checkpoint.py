"""Reads TensorFlow checkpoints: variables by name, or by the attribute path that leads to them."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"
_SLOT = "/.OPTIMIZER_SLOT/"


def find_checkpoint(folder: Path, step: int | None, stem: str) -> Path:
    """Returns the prefix of a checkpoint's files, `<folder>/<stem>-<step>`, by default for the latest step.

    Raises:
        UserError: no checkpoint, or none of that step.
    """
    pattern = re.compile(rf"{re.escape(stem)}-(\d+)\.index")
    with os_errors_as_machine_errors(f"cannot read {folder}"):
        steps = sorted(int(found[1]) for path in folder.iterdir() if (found := pattern.fullmatch(path.name)))
    if not steps:
        raise UserError(
            f"no checkpoint {stem}-<step>.index there", "copy all files of the run", option="model_dir", value=folder
        )
    if step is not None and step not in steps:
        raise UserError(
            f"{folder} has checkpoints of steps {', '.join(map(str, steps))}", "ask for one", option="step", value=step
        )
    return folder / f"{stem}-{steps[-1] if step is None else step}"


def read_variables(prefix: Path) -> dict[str, np.ndarray]:
    """Returns the variables of a checkpoint by name; raises UserError if a file is missing or damaged."""
    return _read(prefix, lambda reader: _variables(reader, reader.get_variable_to_shape_map()))


def read_objects(prefix: Path, root: str, attributes: Collection[str]) -> dict[str, np.ndarray]:
    """Returns the variables of an object in a checkpoint by attribute path, such as `encoder/layers/0/kernel`.

    A variable reachable by several paths is returned under each; an unreachable one under its own name. Optimizer state
    is omitted.

    Args:
        prefix: prefix of the checkpoint's files.
        root: name of the object in the checkpoint.
        attributes: attributes to follow, besides list indices; they must not form a cycle.

    Raises:
        UserError: a file is missing or damaged, or the checkpoint is not object-based.
    """

    def read(reader: Any) -> dict[str, np.ndarray]:
        names = [name for name in reader.get_variable_to_shape_map() if name.startswith(f"{root}/")]
        variables = _variables(reader, [name for name in names if _SLOT not in name and name.endswith(_ENDING)])
        graph = TrackableObjectGraph.FromString(reader.get_tensor(_GRAPH))
        start = next(child.node_id for child in graph.nodes[0].children if child.local_name == root)
        paths = _paths(graph, start, attributes)
        reached = set(paths.values())
        return {path: variables[name] for path, name in paths.items()} | {
            name.removesuffix(_ENDING): array for name, array in variables.items() if name not in reached
        }

    return _read(prefix, read)


def _paths(graph: TrackableObjectGraph, start: int, attributes: Collection[str]) -> dict[str, str]:
    """Returns path -> name of each variable below a node."""
    found: dict[str, str] = {}
    waiting = [("", start)]
    while waiting:
        path, number = waiting.pop()
        node = graph.nodes[number]
        if names := [one.checkpoint_key for one in node.attributes if one.checkpoint_key.endswith(_ENDING)]:
            found[path] = names[0]
        for child in node.children:
            if child.local_name in attributes or child.local_name.isdecimal():
                waiting.append((f"{path}/{child.local_name}".lstrip("/"), child.node_id))
    return found


def _variables(reader: Any, names: Collection[str]) -> dict[str, np.ndarray]:
    return {name: np.asarray(reader.get_tensor(name)) for name in sorted(names)}


def _read(prefix: Path, read: Any) -> dict[str, np.ndarray]:
    try:
        found: dict[str, np.ndarray] = read(tf.train.load_checkpoint(str(prefix)))
        return found
    except Exception as error:  # TensorFlow's reader raises many kinds of errors for damaged files
        raise UserError(
            f"checkpoint {prefix}: a file of it is missing or damaged ({one_line(error)})",
            f"copy all of {prefix.name}.index and {prefix.name}.data-* again",
        ) from error
