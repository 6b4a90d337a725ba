"""Checks that the settings in a config.json have values that our networks support."""

import math
from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.formats.folder import ModelFolder
from t2t.formats.importer import unknown_values


def check_settings(folder: ModelFolder, allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises UserError if settings in the file have values that are not allowed; the message names all of them."""
    if wrong := unknown_values(folder.config, allowed):
        raise UserError(
            f"{folder.path / 'config.json'} describes another network than the models here: {'; '.join(wrong)}; it "
            f"cannot be imported"
        )


def need(folder: ModelFolder, name: str, kind: type = int) -> Any:
    """Returns a setting; raises UserError if it is missing or has the wrong type."""
    value = folder.config.get(name)
    if type(value) is not kind:
        raise UserError(
            f"{folder.path / 'config.json'} has {name}={value!r}; it must be of type {kind.__name__}; get it again"
        )
    return value


def need_size(folder: ModelFolder, name: str, default: int | None = None) -> int:
    """Returns a whole number above 0, or the default if it is missing; raises UserError for anything else."""
    if default is not None and folder.config.get(name) is None:
        return default
    size: int = need(folder, name)
    if size < 1:
        raise UserError(f"{folder.path / 'config.json'} has {name}={size}; it must be above 0; get it again")
    return size


def number_of(folder: ModelFolder, values: Mapping[str, Any], name: str, default: float) -> float:
    """Returns a numeric setting, or the default if it is missing; raises UserError for other types."""
    value = values.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not math.isfinite(value):
        raise UserError(
            f"--model_dir={folder.path}: its configuration has {name}={value!r}, which is no number; get it again"
        )
    return float(value)
