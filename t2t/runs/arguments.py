"""Checks the arguments of the Python functions; makes error messages name arguments instead of flags."""

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, ParamSpec, TypeVar

from t2t.errors import ArgumentError, T2TError, UnknownArgumentError, UserError, ask_for
from t2t.files.paths import is_unknown_home, with_addresses
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import format_overrides, meant_by
from t2t.registry import PROBLEMS
from t2t.runs.config import RunConfig

P = ParamSpec("P")
R = TypeVar("R")

FUNCTIONS = {
    "t2t-datagen": "t2t.generate_data",
    "t2t-trainer": "t2t.train",
    "t2t-decoder": "t2t.load",
    "t2t-eval": "t2t.evaluate",
    "t2t-exporter": "t2t.export_model",
    "t2t-shortlist": "t2t.learn_shortlist",
    "t2t-distill": "t2t.distill",
    "t2t-tune": "t2t.tune",
}
"""Command -> function."""

RENAMED = {
    "problems": "problem",
    "decode_beam_size": "beam_size",
    "decode_alpha": "alpha",
    "decode_extra_length": "extra_length",
    "decode_length_penalty": "length_penalty",
    "decode_coverage_penalty": "coverage_penalty",
}
"""Flag -> argument or hparam, where their names differ."""

_TAKES: dict[str, list[str]] = {}
"""Function -> its arguments."""

_MENTION = re.compile(
    r"\b(?P<command>t2t-[a-z]+)(?P<flags>(?: --\w+(?:=[^\s,;)]*[^\s,;:.)])?)*)"
    r"|(?<![\w/-])--(?P<name>[a-z]\w*)(?P<end>[=/]?)"
)
"""A command with flags, or a flag alone, as the texts of errors mention them."""


@dataclass(frozen=True)
class PythonDoor:
    """Writes an error for who has called a function with the arguments `takes`: it names arguments and functions."""

    takes: frozenset[str]

    def __call__(self, error: T2TError) -> str:
        """Returns the message of an error."""
        text = error.message(self._argument(error.option), self.spell)
        return with_addresses(text) if isinstance(error, UserError) else text

    def spell(self, text: str) -> str:
        """Returns a text with the options and commands that it mentions as arguments and functions."""
        return _MENTION.sub(self._spell, text) if "--" in text or "t2t-" in text else text

    def _spell(self, mention: re.Match) -> str:
        if mention["command"]:
            return self._call(mention) or mention[0]
        name, end = mention["name"], mention["end"]
        if name == "registry_help":
            return f"t2t-trainer {mention[0]}" if end else "t2t.registered"
        argument = self._argument(name)
        return argument + (end or "=") if argument else mention[0]

    def _argument(self, option: str) -> str:
        """Returns the name of an option as an argument; "" for an option that only commands have."""
        name = option if option in self.takes else RENAMED.get(option, option)
        declared = {field.name for section in (RunConfig, DecodeHParams) for field in fields(section)}
        known = option in self.takes or any(name in taken for taken in _TAKES.values()) or name in declared
        return name if known or name in _problem_options() else ""

    def _call(self, mention: re.Match) -> str:
        """Returns a command as the call of a function; "" if there is none that takes all of its flags."""
        function = FUNCTIONS.get(mention["command"])
        flags = [flag.removeprefix("--").partition("=") for flag in mention["flags"].split()]
        given = [(RENAMED.get(name, name), value) for name, _, value in flags]
        if not function or not {name for name, _ in given} <= {*_TAKES.get(function, ())}:
            return ""
        values = ", ".join(f"{name}={value!r}" for name, value in given)
        return f"{function}({values})" if values else function


def checks_arguments(others: Collection[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates an API function: arguments are checked by their annotations, and errors name arguments, not flags.

    A text, path, whole number, dict of options or overrides arrives as `as_text`, `as_path` and the like return it.
    `others` are the names that the function takes as `**kwargs`; without them, it checks these names itself.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        known = [name for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD]
        takes_any = not others and len(known) < len(signature.parameters)
        known += [name for name in others if name not in known]
        _TAKES[f"t2t.{function.__name__}"] = known
        door = PythonDoor(frozenset(known))

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in () if takes_any else kwargs:
                if name not in known:
                    raise unknown_argument(function.__name__, name, known)
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise ArgumentError(f"t2t.{function.__name__}: {error}", f"it takes {', '.join(known)}") from None
            bound.apply_defaults()
            try:
                for name, value in bound.arguments.items():
                    bound.arguments[name] = _checked(signature.parameters[name], value)
                return function(*bound.args, **bound.kwargs)
            except T2TError as error:
                error.door = error.door or door
                raise

        return call

    return decorate


def unknown_argument(function: str, name: str, known: Collection[str]) -> UnknownArgumentError:
    """Returns the error for an argument that a function does not have; `known` are those that it has."""
    from t2t.runs.names import hparam_names

    asked = f"t2t.{function}: there is no argument {name!r}; "
    hparams = hparam_names() if "hparams" in known else []
    if name in hparams:
        return UnknownArgumentError(f"{asked}it is an hparam", f"give hparams={{{name!r}: ...}}")
    if "problem_options" in known and name in _problem_options():
        return UnknownArgumentError(f"{asked}it is an option of the problem", f"give problem_options={{{name!r}: ...}}")
    meant = [RENAMED[name]] if RENAMED.get(name) in known else meant_by(name, [*known, *hparams])
    near = ask_for([one if one in known else f"hparams={{{one!r}: ...}}" for one in meant])
    return UnknownArgumentError(f"{asked}{near}it takes {', '.join(known)}")


def _problem_options() -> set[str]:
    return {field.name for entry in PROBLEMS.entries() if entry.value for field in fields(entry.value.options_class)}


_PATHS = ("data_dir", "tmp_dir", "output_dir", "t2t_usr_dir", "warm_start_from")
_MINIMUM = {"weight_shards": 1, "n_best": 1, "parity_lines": 1}
"""Of whole numbers; of others it is 0."""


def _checked(parameter: inspect.Parameter, value: Any) -> Any:
    """Returns an argument in the form that the annotation of its parameter, a text, says; see `checks_arguments`."""
    name, kind = parameter.name, parameter.annotation
    if parameter.kind is parameter.VAR_KEYWORD:
        return {key: as_path(key, one) if key in _PATHS else one for key, one in value.items()}
    if kind == "str":
        return as_text(name, value)
    if kind in ("StrPath", "StrPath | None"):
        return as_path(name, value, "a folder" if parameter.default is parameter.empty else "")
    if kind == "int" or (kind == "int | None" and value is not None):
        return as_integer(name, value, _MINIMUM.get(name, 0))
    if kind == "StrPath | int":
        is_step = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if is_step else as_path(name, value, "a step, latest, best or averaged")
    if kind == "str | Mapping[str, Any]":
        return as_overrides(value)
    return as_options(name, value) if kind == "Mapping[str, Any] | None" else value


def as_path(name: str, value: Any, what: str = "") -> str:
    """Returns a path as text, empty for None.

    Raises:
        ArgumentError: neither text nor a `pathlib.Path`, an unknown home folder, or empty although `what`, its
            description for the message, is given.
    """
    try:
        path = "" if value is None else os.fspath(value)
    except TypeError:
        path = b""
    if isinstance(path, bytes) or "\0" in path:
        raise ArgumentError("it is not a path", "give text or a pathlib.Path", option=name, value=value)
    if is_unknown_home(path):
        raise ArgumentError("there is no home folder of that name", "write the path without ~", option=name, value=path)
    if what and not path:
        raise ArgumentError("not given", f"name {what}", option=name)
    return path


def as_text(name: str, value: Any) -> str:
    """Returns text; raises ArgumentError for anything else."""
    if not isinstance(value, str):
        raise ArgumentError(f"it is of type {type(value).__name__}", "give text", option=name, value=value)
    return value


def as_integer(name: str, value: Any, minimum: int = 0) -> int:
    """Returns an integer; raises ArgumentError for anything else and for less than the minimum."""
    whole = value.item() if hasattr(value, "item") else value  # numpy scalars
    if type(whole) is not int or whole < minimum:
        raise ArgumentError(f"it is not a whole number of at least {minimum}", "give one", option=name, value=value)
    return whole


def as_options(name: str, value: Any) -> dict[str, Any]:
    """Returns a dict with str keys, empty for None; raises ArgumentError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ArgumentError("it is not a dict of names and values", "give one", option=name, value=value)
    return dict(value)


def as_overrides(value: Any) -> str:
    """Returns overrides of hparams, given as text or a dict, as text; raises ArgumentError for anything else."""
    if isinstance(value, Mapping):
        return format_overrides(value)
    if not isinstance(value, str | None):
        raise ArgumentError(
            "it is neither a dict nor text",
            "give a dict, or text such as 'batch_size=512,num_heads=4'",
            option="hparams",
            value=value,
        )
    return value or ""
