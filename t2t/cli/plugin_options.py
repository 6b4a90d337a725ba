"""Flags for the options of plug-ins' problems, which exist once the plug-in is loaded: `--digits=4`, `digits = 4`."""

import dataclasses
from collections.abc import Iterable

from absl import flags

from t2t.cli.help import DATA, flag_group
from t2t.registry import PROBLEMS
from t2t.runs.startup import load_plugins_quietly


def define_plugin_options(values: flags.FlagValues, names: Iterable[str], usr_dir: str) -> None:
    """Loads the plug-ins and defines flags for the options of their problems, if one of `names` is no flag yet.

    Args:
        values: of a command.
        names: of flags, on the command line or in a file.
        usr_dir: value of --t2t_usr_dir; may be empty.

    Raises:
        UserError: a plug-in failed to import, or the folder is not a package.
    """
    unknown = {name for name in names if name not in values and name.removeprefix("no") not in values}
    if not unknown or "t2t_usr_dir" not in values:
        return
    registered = [entry for plugin in load_plugins_quietly(usr_dir) for entry in plugin.registered]
    for name in (entry.removeprefix("problem:") for entry in registered if entry.startswith("problem:")):
        options = getattr(PROBLEMS.get(name), "options_class", None)
        for field in dataclasses.fields(options) if dataclasses.is_dataclass(options) else ():
            if field.name not in values:
                _define(values, field, name)


def plugin_option_names(values: flags.FlagValues) -> list[str]:
    """Returns the names of the flags that `define_plugin_options` has defined."""
    return [name for name in values if getattr(values[name], "is_plugin_option", False)]


def _define(values: flags.FlagValues, field: dataclasses.Field, problem: str) -> None:
    kinds = {bool: "boolean", int: "integer", float: "float"}
    text = field.metadata.get("doc", "").removesuffix(".") or "An option"
    with flag_group(values, DATA) as define:
        getattr(define, kinds.get(type(field.default), "string"))(field.name, field.default, f"{text} (of {problem}).")
    values[field.name].is_plugin_option = True
