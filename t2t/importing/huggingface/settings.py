"""Checks that the settings in a config.json have values that our networks support."""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.importing.huggingface.folder import ModelFolder
from t2t.importing.known_values import unknown_values


def check_settings(folder: ModelFolder, allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises UserError if settings in the file have values that are not allowed; the message names all of them."""
    if wrong := unknown_values(folder.config, allowed):
        raise UserError(
            f"{folder.path / 'config.json'} describes another network than the models here: {'; '.join(wrong)}; it "
            f"cannot be imported"
        )


def check_equal(folder: ModelFolder, *names: str) -> None:
    """Raises UserError unless the settings, which share one hparam here, have the same value."""
    values = {name: folder.config.get(name) for name in names}
    if len(set(values.values())) > 1:
        given = " and ".join(f"{name}={value!r}" for name, value in values.items())
        raise UserError(f"{folder.path / 'config.json'} has {given}; the models here have one value for both")


def need(folder: ModelFolder, name: str, kind: type = int) -> Any:
    """Returns a setting; raises UserError if it is missing or has the wrong type."""
    value = folder.config.get(name)
    if type(value) is not kind:
        raise UserError(
            f"{folder.path / 'config.json'} has {name}={value!r}; it must be of type {kind.__name__}; get it again"
        )
    return value


def number_of(folder: ModelFolder, values: Mapping[str, Any], name: str, default: float) -> float:
    """Returns a numeric setting, or the default if it is missing; raises UserError for other types."""
    value = values.get(name)
    if value is None:
        return default
    if type(value) not in (int, float):
        raise UserError(
            f"--model_dir={folder.path}: its configuration has {name}={value!r}, which is no number; get it again"
        )
    return float(value)
