"""Flags of plug-ins: their folder, the options of their problems (`--digits=4`), the listing of registered names."""

import dataclasses
from collections.abc import Iterable

from absl import flags

from t2t.cli.help import DATA, NAMES, flag_group
from t2t.registry import PROBLEMS
from t2t.runs.startup import load_plugins_quietly

ALL = "*"
"""Value of `--registry_help` without a value."""


def define_plugin_flags(values: flags.FlagValues) -> None:
    """Defines --t2t_usr_dir and --registry_help."""
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("registry_help", None, "Lists all registered names, one a line, numbered ones together; =TEXT "
                      "for those that contain TEXT, =hparams for the fields of all hparams sets, =SET for those of "
                      "one set.")  # fmt: skip


def define_usr_dir_flag(values: flags.FlagValues) -> None:
    """Defines --t2t_usr_dir."""
    with flag_group(values, NAMES) as define:
        define.string("t2t_usr_dir", "", "Folder of a plug-in: a package that registers names.")


def lists_registry(values: flags.FlagValues) -> bool:
    """Loads the plug-ins; prints the names and returns True if --registry_help asks for them."""
    load_plugins_quietly(values.t2t_usr_dir)
    if values.registry_help is None:
        return False
    from t2t.runs.listing import registry_listing  # which most commands do not need

    print(registry_listing(values.registry_help.replace(ALL, "")))
    return True


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
