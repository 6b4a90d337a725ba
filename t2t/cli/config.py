"""`--config`: a run described by a TOML file. Keys are flags, the table [hparams] is `--hparams`.

problem = "translate_ende_numbers"
train_steps = 1300

[hparams]
batch_size = 2048

One file serves all commands that take --config: each ignores the keys of the others, and those that it reads only for
other tasks. Flags on the command line override the file; hparams given there override those of the file one by one, and
drop those that they leave unread.
"""

import importlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from absl import flags

from t2t.cli.flags import RUN, describe_flag_error, flag_group, has_flag, is_of_file
from t2t.errors import ArgumentError, UnknownNameError, UserError, ask_for, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.paths import local_path
from t2t.hparams.override import drop_overrides, format_overrides, join_overrides, meant_by, merge_overrides

HPARAMS = "hparams"
_COMMANDS = ("trainer", "tune", "datagen", "decoder", "eval")
"""Modules of the commands that take --config."""
_NEVER = ("config", "print_config", "help", "registry_help")
"""Flags that no file sets."""
_KINDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "multi string": ((str, list), "text, or a list of texts"),
}
"""Kind of flag -> its value types in TOML, and their name in messages; all other kinds take text."""


def define_config_flag(values: flags.FlagValues, excluded: tuple[str, ...] = ()) -> None:
    """Defines --config. Flags in `excluded` have another meaning than the trainer's, or none; files do not set them."""
    with flag_group(values, RUN) as define:
        define.string("config", "", "TOML file with flags, name = value, and a table [hparams]; flags on the command "
                      "line override it.")  # fmt: skip
    values["config"].excluded = excluded


def apply_config(values: flags.FlagValues) -> None:
    """Sets flags that are not on the command line from the --config file.

    Raises:
        UserError: no such file, invalid TOML, an unknown key, or a value of the wrong type.
    """
    if values.config:
        fill_from_file(values, local_path(values.config), values["config"].excluded)


def fill_from_file(values: flags.FlagValues, path: Path, excluded: tuple[str, ...] = ()) -> None:
    """Does the same as `apply_config` for the file `path`; keys in `excluded` are ignored."""
    text, found = read_config(path)
    given = {getattr(values[name], "alias_of", name) for name in values if values[name].present}
    others: set[str] | None = None
    for key, value in found.items():
        if key in excluded and key in values:
            continue
        if key in _NEVER or not has_flag(values, key) or hasattr(values[key], "alias_of"):
            others = _all_flags() if others is None else others
            if key not in others:
                near = _did_you_mean(key, others, found)
                raise UnknownNameError(
                    f"{_place(path, text, key)}: {key} is not a flag",
                    f"{near}keys are flags of t2t-trainer and other commands, and the table [hparams]",
                )
        elif key == HPARAMS:
            _fill_hparams(values, path, text, value)
        elif key not in given:
            _fill(values[key], _place(path, text, key), value)


def _did_you_mean(key: str, known_flags: Iterable[str], found: Mapping[str, Any]) -> str:
    """Proposes flags and hparams in place of a key that is no flag, in a file with the keys `found`."""
    from t2t.runs.names import hparam_names  # which many commands do not need

    known = {hparam: f"{hparam} in [hparams]" for hparam in hparam_names(found.get("hparams_set", ""))}
    known |= {flag: flag for flag in known_flags}
    return ask_for([known[one] for one in ([key] if key in known else meant_by(key, known))])


def read_config(path: Path) -> tuple[str, dict[str, Any]]:
    """Returns the text and the keys of a --config file; raises UserError if it is missing, or not TOML."""
    if not path.is_file():
        raise UserError("there is no such file", "check the path", option="config", value=path)
    try:
        with os_errors_as_machine_errors(f"cannot read {path}"):
            text = path.read_text(encoding="utf-8-sig")  # which Windows editors begin with a mark
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML and of UTF-8
        found = re.fullmatch(r"(.*) \(at (line \d+, column \d+)\)", one_line(error))
        place, why = (f"{path}, {found[2]}", found[1]) if found else (path, one_line(error))
        raise UserError(f"{place}: it is not TOML: {why}", "write name = value, text in quotes") from error


def _place(path: Path, text: str, *keys: str) -> str:
    """Returns the location of a key, or of one in a table, for messages: the file, and its line if it is found."""
    place, keys_left = str(path), list(keys)
    for number, line in enumerate(text.split("\n"), start=1):
        if keys_left and re.match(rf'\s*\[?\s*["\']?{re.escape(keys_left[0])}["\']?\s*[=\].]', line):
            place = f"{path}, line {number}"
            del keys_left[0]
    return place


def _all_flags() -> set[str]:
    """Returns the names of the flags of all commands that take --config, except flags without an effect."""
    found: set[str] = set()
    for module in _COMMANDS:
        values = importlib.import_module(f"t2t.cli.{module}").build_flags()
        found |= {name for name in values if has_flag(values, name) and not hasattr(values[name], "alias_of")}
    return found.difference(_NEVER)


def _fill(flag: flags.Flag, place: str, value: Any) -> None:
    types, allowed = _KINDS.get(flag.flag_type(), ((str,), "text"))
    elements = value if isinstance(value, list) else [value]
    if type(value) not in types or any(type(element) not in types for element in elements):
        found = json.dumps(value, default=str)
        raise UserError(f"{place}: {flag.name} = {found}: it is not {allowed}", f"write {allowed}")
    try:
        for element in elements:
            flag.parse(element)
    except flags.Error as error:
        raise UserError(f"{place}: {describe_flag_error(error)}", "see --help") from error
    flag.set_by_file = True


def unset_of_file(values: flags.FlagValues, names: Iterable[str]) -> None:
    """Unsets those of the flags that the --config file has set; for flags that the command's task does not read."""
    for name in names:
        if is_of_file(values[name]):
            values[name].unparse()
            values[name].set_by_file = False


def refuse_flags(values: flags.FlagValues, names: Iterable[str], why: str) -> None:
    """Raises UserError if one of these flags, which would have no effect, was given; `why` is the reason.

    Those that the --config file has set are unset instead, as the file may be for other tasks as well.
    """
    names = list(names)
    unset_of_file(values, names)
    given = [f"--{name}" for name in names if values[name].present]
    if given:
        raise UserError(f"{', '.join(given)}: {why}", f"leave {'it' if len(given) == 1 else 'them'} out")


def _fill_hparams(values: flags.FlagValues, path: Path, text: str, value: Any) -> None:
    """Keeps hparams of the file, a table or text, for `given_hparams`; those of a file read before override them."""
    found = value if isinstance(value, list) else [value]
    places = [_place(path, text, HPARAMS)] * len(found)
    if isinstance(value, dict):
        found, places = [], [_place(path, text, HPARAMS, name) for name in value]
        for place, (name, one) in zip(places, value.items(), strict=True):
            try:
                found.append(format_overrides({name: one}))
            except ArgumentError as error:
                raise error.at(place) from error
    elif not all(isinstance(one, str) for one in found):
        raise UserError(
            f"{_place(path, text, HPARAMS)}: hparams = {value!r}: it is not a table",
            "write [hparams] and name = value below",
        )
    values[HPARAMS].places = [*getattr(values[HPARAMS], "places", ()), *zip(found, places, strict=True)]
    values[HPARAMS].of_file = merge_overrides(join_overrides(found), hparams_of_file(values))


def hparams_of_file(values: flags.FlagValues) -> str:
    """Returns the hparams of the --config file, in the syntax of `--hparams`."""
    return getattr(values[HPARAMS], "of_file", "")


def check_hparams_of_file(values: flags.FlagValues, hparams_set: str, replaced: Iterable[str]) -> None:
    """Raises UserError for hparams of the --config file that a set does not take; the message says where they are.

    Those whose names are `replaced` do not count.
    """
    from t2t.runs.names import check_override  # which many commands do not need

    for text, place in getattr(values[HPARAMS], "places", ()):
        for name in replaced:
            text = drop_overrides(text, name)
        try:
            check_override(hparams_set, text)
        except UserError as error:
            raise error.at(place) from error


def given_flags(values: flags.FlagValues, excluded: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns name -> value of the flags that differ from their defaults, except --hparams and those in `excluded`."""
    return {
        name: values[name].value
        for name in values
        if values[name].name == name
        and has_flag(values, name)
        and not hasattr(values[name], "alias_of")
        and name not in (*_NEVER, HPARAMS, "decode_hparams", *excluded)  # --decode_hparams has already set other flags
        and values[name].value != values[name].default
    }


def format_config(found: Mapping[str, Any], hparams: Mapping[str, Any], origins: Mapping[str, str] = {}) -> str:
    """Formats flags and hparams as the text of a --config file.

    `origins` says of a flag, or of `hparams.NAME`, where its value is from; it becomes a comment.

    Raises:
        UserError: text that is not valid Unicode, which TOML cannot represent.
    """

    def line(name: str, value: Any, table: str = "") -> str:
        origin = origins.get(table + name)
        return f"{name} = {_toml(name, value)}" + (f"  # {origin}" if origin else "")

    lines = [line(name, value) for name, value in found.items()]
    if hparams:
        lines += ["", f"[{HPARAMS}]", *(line(name, value, f"{HPARAMS}.") for name, value in hparams.items())]
    return "\n".join(lines) + "\n"


def _toml(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(name, element) for element in value)}]"
    text = str(value)
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UserError("it is not valid Unicode, which TOML needs", "use another name", option=name, value=text)
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
