"""The files of a Marian model: the archive of tensors and settings, `decoder.yml`, and vocabularies."""

import functools
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.trust import check_inside
from t2t.formats.marian.mapping import SETTINGS
from t2t.formats.marian.yaml import parse_settings

_VOCABULARIES = (".yml", ".yaml", ".json", ".spm")
_MOST_UNPACKED = 16
"""Most bytes that a byte of an archive may unpack to; weights hardly become smaller by compression."""
_OTHER = ("decoder.yml", ".npz.yml", ".progress.yml", "config.yml", "source.spm", "target.spm")
"""Endings of files that are not vocabularies."""


class ModelFiles:
    """A folder with a model. If there are several candidates, `decoder.yml` or `<model>.decoder.yml` names its files.

    Raises:
        UserError: no model, several models, or a model that is not .npz.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        names = [path.name for path in folder.glob("*decoder.yml")]
        self._decoder_yml = "decoder.yml" if "decoder.yml" in names else names[0] if len(names) == 1 else ""
        self.model = self._find("models", sorted(path.name for path in folder.glob("*.npz")), 1)[0]
        if not self.model.endswith(".npz"):
            raise UserError(f"{folder / self.model}: models that can be imported are .npz; convert it to one")

    @functools.cached_property
    def decoder(self) -> Mapping[str, Any]:
        """Search settings from decoder.yml; empty without that file."""
        return self._parse(self._decoder_yml, self.read(self._decoder_yml)) if self._decoder_yml else {}

    @functools.cached_property
    def archive(self) -> Arrays:
        """The arrays of the model, including its settings."""
        content = self.read(self.model)
        try:
            return _arrays(content)
        except Exception as error:  # damage raises many kinds
            raise UserError(f"{self.folder / self.model}: it is damaged ({one_line(error)}); get it again") from error

    @functools.cached_property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the network."""
        if SETTINGS not in self.archive:
            raise UserError(f"{self.folder / self.model} has no {SETTINGS}, which describes its network; get it again")
        return self._parse(f"{self.model} ({SETTINGS})", self.archive[SETTINGS].tobytes().rstrip(b"\0"))

    def vocabularies(self) -> list[str]:
        """Returns the names of the vocabularies of source and target; raises UserError if they are ambiguous."""
        paths = sorted(path.name for path in self.folder.iterdir() if path.suffix in _VOCABULARIES)
        return self._find("vocabs", [name for name in paths if not name.endswith(_OTHER)], 2)

    def has(self, name: str) -> bool:
        """Returns whether the folder has a file."""
        return (self.folder / name).is_file()

    def read(self, name: str) -> bytes:
        """Returns the content of a file; raises UserError if it is missing or outside the folder."""
        path = self.folder / name
        if not path.is_file():
            raise UserError(f"--model_dir={self.folder}: no {name} there; copy all files of the model")
        check_inside(self.folder, path)
        with os_errors_as_machine_errors(f"cannot read {path}"):
            return path.read_bytes()

    def read_text(self, name: str) -> str:
        """Returns the text of a file; raises UserError as `read`, or if it is not UTF-8."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{self.folder / name} is not UTF-8 ({error.reason}); get it again") from None

    def _find(self, what: str, found: list[str], count: int) -> list[str]:
        """Returns the file names listed in decoder.yml, without folders, or else the only candidate, for all uses."""
        listed = self.decoder.get(what)
        if isinstance(listed, list) and len(listed) == count and all(isinstance(name, str) for name in listed):
            return [name.rpartition("/")[2] for name in listed]
        if listed:
            raise UserError(f"{self.folder / self._decoder_yml}: {what} are {listed}; a translator has {count}")
        if len(found) != 1:
            raise UserError(
                f"--model_dir={self.folder}: of {', '.join(found) or 'no files'} it is not clear which are the {what}; "
                f"name {count} in a decoder.yml there, as Marian writes it next to a model"
            )
        return found * count

    def _parse(self, name: str, content: bytes) -> dict[str, Any]:
        try:
            return parse_settings(content.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self.folder / name}: {one_line(error)}; get it again") from error


def _arrays(content: bytes) -> Arrays:
    """Returns the arrays of an npz archive; nothing is unpickled, and memory is bound by the size of the archive."""
    archive, arrays = zipfile.ZipFile(io.BytesIO(content)), Arrays()
    if sum(info.file_size for info in archive.infolist()) > _MOST_UNPACKED * len(content):
        raise ValueError(f"it unpacks to more than {_MOST_UNPACKED} times its size")
    for info in archive.infolist():
        with archive.open(info) as file:  # numpy reads as much as the header of an array says, in small blocks
            array = np.lib.format.read_array(file, allow_pickle=False)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{info.filename} has values of type {array.dtype}, not numbers")
        arrays[info.filename.removesuffix(".npy")] = array
    return arrays
