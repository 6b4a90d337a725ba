"""Reads the settings in a fairseq checkpoint as data: an `argparse.Namespace`, or since 0.10.1 a tree of them.

Namespaces, OmegaConf's containers and enums are records of the restricted reader; no class is loaded.
"""

import re
from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.importing.pytorch import PlainValues, Record

KNOWN = (
    "argparse", "omegaconf", "fairseq", "typing", "collections", "builtins", "__builtin__", "enum", "pathlib", "numpy",
    "torch", "_codecs",
)  # fmt: skip
"""Packages whose objects a checkpoint may contain."""
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_MOST_NESTED = 20
_MOST_BYTES = 1 << 24
"""Largest size of settings, see `PlainValues`; there are some hundred."""


def read_settings(checkpoint: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the settings of task and model by name.

    Raises:
        UserError: there are no settings; the message names the file with `where`.
        ValueError: they repeat shared values too often.
    """
    values = PlainValues(_MOST_BYTES)
    tree = _plain(checkpoint.get("cfg"), values) or {"model": _plain(checkpoint.get("args"), values)}
    model, task = (tree.get(name) if isinstance(tree, dict) else None for name in ("model", "task"))
    if not isinstance(model, dict):
        raise UserError(f"{where}: it holds no settings of a model, neither cfg nor args; give a checkpoint of fairseq")
    task = task if isinstance(task, dict) else {}
    settings = {**task, **model}
    if "_name" in task:
        settings["task"] = task["_name"]
    settings.setdefault("arch", model.get("_name"))
    return {name: _resolve(value, tree) for name, value in settings.items()}


def _plain(value: Any, values: PlainValues, depth: int = 0) -> Any:
    """Replaces records by plain values: dictionaries, lists, strings and numbers; None for anything else."""
    if depth > _MOST_NESTED:
        return None
    values.count(value)
    if isinstance(value, Record):
        state = value.state if isinstance(value.state, dict) else {}
        if value.name == "argparse.Namespace":
            return _plain(state, values, depth + 1)
        if value.name.startswith("omegaconf."):
            return _plain(state.get("_content", state.get("_val")), values, depth + 1)
        return _plain(value.arguments[0], values, depth + 1) if len(value.arguments) == 1 else None  # an enum or a path
    if isinstance(value, dict):
        return {str(name): _plain(item, values, depth + 1) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, values, depth + 1) for item in value]
    return value if isinstance(value, str | int | float | bool) else None


def _resolve(value: Any, tree: Mapping[str, Any]) -> Any:
    """Resolves references such as `${model.decoder.embed_dim}`; other values are returned unchanged."""
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    place: Any = tree
    for name in found[1].split("."):
        place = place.get(name) if isinstance(place, dict) else None
    return place
