"""Flags of plug-ins and of the list of names."""

from absl import flags

from t2t.cli.common import ALL
from t2t.cli.help import NAMES, flag_group
from t2t.registry.plugins import load_plugins
from t2t.runs.listing import registry_listing
from t2t.runs.startup import quietly


def define_plugin_flags(values: flags.FlagValues) -> None:
    """--t2t_usr_dir and --registry_help."""
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("registry_help", None, "Lists all names with one line each, numbered ones together; =TEXT for "
                      "those that contain it, =hparams for the fields of hparams sets.")  # fmt: skip


def define_usr_dir_flag(values: flags.FlagValues) -> None:
    """--t2t_usr_dir."""
    with flag_group(values, NAMES) as define:
        define.string("t2t_usr_dir", "", "Folder of a plug-in: a package that registers names.")


def lists_registry(values: flags.FlagValues) -> bool:
    """Loads the plug-ins; prints the names and returns True if --registry_help asks for them."""
    with quietly():
        load_plugins(values.t2t_usr_dir or None)
    if values.registry_help is None:
        return False
    print(registry_listing(values.registry_help.replace(ALL, "")))
    return True
