"""Checks the settings of a config.json that must have one value for a network to be one of ours."""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.importing.huggingface.folder import ModelFolder
from t2t.importing.known_values import unknown_values


def check_settings(folder: ModelFolder, allowed: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises UserError where a setting that the file has is none of the allowed values; the message names all."""
    if wrong := unknown_values(folder.config, allowed):
        raise UserError(
            f"{folder.path / 'config.json'} describes another network than the models here: {'; '.join(wrong)}; it "
            f"cannot be imported"
        )


def check_equal(folder: ModelFolder, *names: str) -> None:
    """Raises UserError unless the settings, which are one hparam here, have one value."""
    values = {name: folder.config.get(name) for name in names}
    if len(set(values.values())) > 1:
        given = " and ".join(f"{name}={value!r}" for name, value in values.items())
        raise UserError(f"{folder.path / 'config.json'} has {given}; the models here have one value for both")


def need(folder: ModelFolder, name: str, kind: type = int) -> Any:
    """Returns a setting; raises UserError if it is missing or of another type."""
    value = folder.config.get(name)
    if type(value) is not kind:
        raise UserError(
            f"{folder.path / 'config.json'} has {name}={value!r}; it must be of type {kind.__name__}; get it again"
        )
    return value


def number_of(folder: ModelFolder, values: Mapping[str, Any], name: str, default: float) -> float:
    """Returns a number among settings, the default where there is none; raises UserError for anything else."""
    value = values.get(name)
    if value is None:
        return default
    if type(value) not in (int, float):
        raise UserError(
            f"--model_dir={folder.path}: its configuration has {name}={value!r}, which is no number; get it again"
        )
    return float(value)
