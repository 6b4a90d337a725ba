"""Flags of plug-ins and of the listing of registered names."""

from absl import flags

from t2t.cli.common import ALL
from t2t.cli.help import NAMES, flag_group
from t2t.runs.listing import registry_listing
from t2t.runs.startup import load_plugins_quietly


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
    print(registry_listing(values.registry_help.replace(ALL, "")))
    return True
