"""A model's folder: JSON files, and tensors in safetensors or PyTorch files, whole or in shards."""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from t2t.checkpoints.arrays import Arrays, parse_arrays
from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import MOST_BYTES, PLAIN_NAME, check_inside
from t2t.formats.importer import Settings
from t2t.formats.pytorch import parse_pytorch
from t2t.formats.tensors import Tensors

_READERS: Mapping[str, Callable[[bytes], Arrays]] = {
    "model.safetensors": parse_arrays,
    "pytorch_model.bin": parse_pytorch,
}
"""Tensor files, the preferred one first, and their parsers; `<name>.index.json` lists shards."""


class ModelFolder:
    """A folder with the files of a model, as written by `save_pretrained` or another toolkit."""

    def __init__(self, path: Path):
        self.path = path

    def has(self, name: str) -> bool:
        """Returns whether the folder has a file."""
        return (self.path / name).is_file()

    def read(self, name: str, most: int | None = None) -> bytes:
        """Returns the content of a file.

        Raises:
            UserError: the file is missing, is outside the folder, or has more than `most` bytes.
        """
        path = self.path / name
        if not path.is_file():
            raise UserError(f"no {name} there", "copy all files of the model", option="model_dir", value=self.path)
        check_inside(self.path, path)
        with os_errors_as_machine_errors(f"cannot read {path}"):
            if most is not None and path.stat().st_size > most:
                raise UserError(f"{path} has {path.stat().st_size:,} bytes, more than any such file", "get it again")
            return path.read_bytes()

    def read_text(self, name: str, most: int | None = None) -> str:
        """Returns the text of a file; raises UserError as `read`, or if it is not UTF-8."""
        try:
            return self.read(name, most).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path / name} is not UTF-8 ({error.reason})", "get it again") from None

    def read_json(self, name: str, kind: type = dict) -> Any:
        """Returns the object, or list, in a JSON file; raises UserError if it is missing or contains another type."""
        content = self.read(name, MOST_BYTES)
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self.path / name} is not JSON ({one_line(error)})", "get it again") from error
        if not isinstance(values, kind):
            wanted = "names with values" if kind is dict else "a list"
            raise UserError(f"{self.path / name} holds {type(values).__name__}, not {wanted}", "get it again")
        return values

    @functools.cached_property
    def config(self) -> Settings:
        """The content of `config.json`."""
        return self.read_settings("config.json")

    @functools.cached_property
    def generation_config(self) -> Settings:
        """Search settings from `generation_config.json`, or in older folders from `config.json`."""
        name = "generation_config.json"
        return self.read_settings(name) if self.has(name) else self.config

    def read_settings(self, name: str) -> Settings:
        """Returns the settings in a JSON file; raises UserError as `read_json`."""
        return Settings(self.read_json(name), self.path / name)

    def read_tensors(self) -> Tensors:
        """Returns the tensors of the model; nothing in the files is executed.

        Raises:
            UserError: there is no supported tensor file, or it is damaged.
        """
        for name, parse in _READERS.items():
            if self.has(name):
                return Tensors(self.parse(name, parse), str(self.path / name))
            if self.has(f"{name}.index.json"):
                return Tensors(self._parse_shards(f"{name}.index.json", parse), str(self.path / f"{name}.index.json"))
        raise UserError(
            "no weights there",
            f"the files that can be read are {', '.join(_READERS)}, or the shards that <name>.index.json lists",
            option="model_dir",
            value=self.path,
        )

    def parse(self, name: str, parse: Callable[[bytes], Arrays]) -> Arrays:
        """Returns the tensors of a file; raises UserError if it is missing, or if `parse` raises ValueError."""
        try:
            return parse(self.read(name))
        except ValueError as error:
            raise UserError(f"{self.path / name}: {one_line(error)}", "get the file again") from error

    def _parse_shards(self, name: str, parse: Callable[[bytes], Arrays]) -> Arrays:
        shards = self.read_json(name).get("weight_map")
        if not isinstance(shards, dict) or not all(PLAIN_NAME.match(str(file)) for file in shards.values()):
            raise UserError(f"{self.path / name} has no weight_map of tensors to files next to it", "get it again")
        arrays: Arrays = {}
        for file in sorted(set(shards.values())):
            arrays |= self.parse(file, parse)
        return arrays
