"""Options of problems, which users set on the command line."""

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.files.paths import join_names, local_path, named_files, with_addresses
from t2t.hparams.field import complaint
from t2t.registry.overrides import check_overrides


def file_option(many: bool = False) -> Any:
    """Declares an option that is the path of a raw file; empty by default.

    Relative paths are made absolute, so that they are valid in another working directory. If `Problem.raw_files`
    includes the file, data depends on its content and not on its path.

    Args:
        many: whether several files may be named, see `named_files`; the option is then a comma-separated list.
    """
    return dataclasses.field(default="", metadata={_FILE: True, _MANY: many})


_FILE, _MANY = "file", "many"
_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    int: ((int,), "a whole number"),
    float: ((float, int), "a number"),
    bool: ((bool,), "True or False"),
}
"""Type of an option -> the types of its values, and their name in messages."""


@functools.lru_cache(maxsize=64)
def _listed(names: str) -> list[Path]:
    """Returns the files in the value of an option; its patterns have been replaced, and are not matched again."""
    return named_files(names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """Base class of the options of a problem, set on the command line and stored with the data and with the run."""

    def __init_subclass__(cls) -> None:
        check_overrides(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            kinds, allowed = _KINDS.get(kind, ((type(value),), ""))
            if type(value) not in kinds and not isinstance(value, Path):
                several = ", several files separated by commas" if field.metadata.get(_MANY) else ""
                raise UserError(
                    f"problem option {field.name}={value!r}: it is of type {type(value).__name__}",
                    f"give {allowed}{several}",
                )
            if "minimum" in field.metadata and (wrong := complaint(field, value, "problem option")):
                raise UserError(wrong)
        for field in dataclasses.fields(self):
            if field.metadata.get(_FILE) and (value := getattr(self, field.name)):
                found = join_names(named_files(value)) if field.metadata[_MANY] else str(local_path(value).absolute())
                object.__setattr__(self, field.name, found)

    @classmethod
    def file_names(cls) -> tuple[str, ...]:
        """Returns the names of the options that are paths of files, see `file_option`."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get(_FILE))

    @classmethod
    def training_names(cls) -> tuple[str, ...]:
        """Returns the names of the options that only training reads; generated data does not depend on them."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get("only_trains"))

    def paths(self, name: str) -> list[Path]:
        """Returns the files that an option names; empty if it is not set."""
        value = getattr(self, name)
        return list(_listed(value)) if value else []

    def numbered_paths(self, name: str) -> dict[str, Path]:
        """Returns the files that an option names, by the option's name; several are numbered, e.g. `train_file 1`."""
        paths = self.paths(name)
        return {name if len(paths) == 1 else f"{name} {number}": path for number, path in enumerate(paths, 1)}

    def changed(self) -> dict[str, Any]:
        """Returns the options that differ from their defaults; files of object stores by their addresses."""
        defaults, files = type(self)(), self.file_names()
        changed = {k: v for k, v in dataclasses.asdict(self).items() if v != getattr(defaults, k)}
        return {k: with_addresses(v) if k in files else v for k, v in changed.items()}

    def of_data(self) -> dict[str, Any]:
        """Returns the changed options that generated data depends on, without those that only training reads."""
        return {name: value for name, value in self.changed().items() if name not in self.training_names()}


def named_numbers(flag: str, text: str) -> dict[str, float]:
    """Parses registered names with a number each: `capitals=0.3,digits=2`.

    Raises:
        UserError: the text has another form, or a name twice.
    """
    pairs = [part.strip().partition("=") for part in text.split(",")] if text else []
    try:
        found = {name.strip(): float(number) for name, _, number in pairs}
    except ValueError:
        found = {}
    if len(found) < len(pairs) or not all(map(math.isfinite, found.values())):
        raise UserError(
            f"{flag}={text}: it is not a list of names, each once with a number", "write such as name=0.3,other=2"
        )
    return found
