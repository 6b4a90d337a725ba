"""Defining the flags of commands, and the text of `--help`.

The help shows the usage of a command, then its flags in groups, wrapped to fit a terminal.
"""

import contextlib
import dataclasses
import functools
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from absl import flags

from t2t.errors import one_line
from t2t.files.paths import ZOO_VARIABLE
from t2t.registry import Registry
from t2t.runs.arguments import RENAMED

WIDTH = 100
"""Columns of the longest line."""

LONGEST_S = 1e9
"""Upper bound of flags that are times, in seconds: some waits fail beyond 2^63 ns."""

NAMES, RUN, FILES, DATA, TRAINING, WARM_START = "Names", "Run", "Files", "Data", "Training", "Warm start"
ACTION, OUTPUT, DECODING, MACHINE = "What to do", "Output", "Decoding", "Machine"
FILTERS = "Filters of training data"
_ORDER = (NAMES, RUN, FILES, ACTION, DATA, FILTERS, TRAINING, WARM_START, OUTPUT, DECODING, MACHINE)
"""Shared headings in the order of the help; headings of a single command follow."""

_KINDS = ("boolean", "enum", "float", "integer", "list", "multi_string", "string")
_REPEATED = re.compile(r";\s+repeat this option to specify a list of values")
_FIXED_SPACE = "\u00a0"
_OWN = object()

_OF_RUNS = {"output_dir", "runs", "folder", "warm_start_from"}
"""Flags that name runs, which may be in a zoo."""
ALL = "*"
"""Value of `--registry_help` without a value."""


@contextlib.contextmanager
def flag_group(values: flags.FlagValues, heading: str) -> Iterator[SimpleNamespace]:
    """Puts the flags defined in a `with` block under a help heading; yields absl's DEFINE functions, `.string(...)`."""
    before = set(values)
    yield SimpleNamespace(
        **{kind: functools.partial(getattr(flags, f"DEFINE_{kind}"), flag_values=values) for kind in _KINDS}
    )
    for name in set(values) - before:
        values[name].heading = heading


def command_flags(define: Callable[[flags.FlagValues], None]) -> Callable[[], flags.FlagValues]:
    """Decorator that turns a function which defines a command's flags into `build_flags() -> FlagValues`."""

    @functools.wraps(define)
    def build_flags() -> flags.FlagValues:
        values = flags.FlagValues()
        define(values)
        if _OF_RUNS & set(values):
            with flag_group(values, RUN) as group:
                group.string("zoo_dir", "", "Folders in which a run that is named zoo:NAME is looked for before the "
                             f"package, with commas between them; empty for those of the variable {ZOO_VARIABLE}."
                             )  # fmt: skip
        return values

    return build_flags


def define_field_flag(
    values: flags.FlagValues, name: str, owner: type, default: Any = _OWN, text: str = "", more: str = ""
) -> None:
    """Defines a flag for the field of `owner` with the name `name`, or `RENAMED[name]`, made by `param`.

    `default` and `text`, the help, override those of the field; `more` is appended to the field's help.
    """
    field = next(one for one in dataclasses.fields(owner) if one.name == RENAMED.get(name, name))
    rules, kind = field.metadata, type(field.default)
    condition = f" (with {rules['used_when']})" if rules["used_when"] else ""
    text = text or f"{rules['doc'].removesuffix('.')}{condition}{more}."
    default = field.default if default is _OWN else default
    if rules["choices"] and not isinstance(rules["choices"], Registry):  # whose names come with plug-ins
        flags.DEFINE_enum(name, default, rules["choices"], text, flag_values=values)
    elif kind in (int, float):
        define = flags.DEFINE_integer if kind is int else flags.DEFINE_float
        define(name, default, text, rules["minimum"], rules["maximum"], flag_values=values)
    else:
        (flags.DEFINE_boolean if kind is bool else flags.DEFINE_string)(name, default, text, flag_values=values)
        values[name].registry = rules["choices"]  # see `common.check_names`


def define_alias(name: str, original: str, flag_values: flags.FlagValues) -> None:
    """Gives a flag a second name."""
    flags.DEFINE_alias(name, original, flag_values=flag_values)
    flag_values[name].alias_of = original


def define_usr_dir_flag(values: flags.FlagValues) -> None:
    """Defines --t2t_usr_dir."""
    with flag_group(values, NAMES) as define:
        define.string("t2t_usr_dir", "", "Folder of a plug-in: a package that registers names.")


def is_given(flag: flags.Flag) -> bool:
    """Returns whether a flag is on the command line or in the --config file, even with its default, or was changed."""
    return bool(flag.present) or flag.value != flag.default


def given_values(values: flags.FlagValues, names: Iterable[str]) -> dict[str, Any]:
    """Returns name -> value of those flags that the command has, with an effect, and that are given."""
    return {name: values[name].value for name in names if has_flag(values, name) and is_given(values[name])}


def describe_flag_error(error: flags.Error) -> str:
    """Returns the message of absl about a wrong value in plain words."""
    text = re.sub(r"invalid literal for int\(\) with base \d+: .*", "it is not a whole number", one_line(error))
    return re.sub("could not convert string to float: .*", "it is not a number", text)


def has_flag(values: flags.FlagValues, name: str) -> bool:
    """Returns whether a command has a flag with an effect."""
    return name in values and not hasattr(values[name], "unused")


def is_of_file(flag: flags.Flag) -> bool:
    """Returns whether the --config file, and not the command line, has set a flag."""
    return getattr(flag, "set_by_file", False)


def help_text(values: flags.FlagValues, name: str, usage: str) -> str:
    """Returns the usage of a command and its flags by group, in the order of definition.

    In the usage, %s is the command's name. Paragraphs with an indented line are kept as they are; others are wrapped.
    """
    paragraphs = [
        paragraph if "\n " in f"\n{paragraph}" else textwrap.fill(paragraph, WIDTH, break_on_hyphens=False)
        for paragraph in usage.strip().replace("%s", name).split("\n\n")
    ]
    return "\n\n".join([*paragraphs, *_groups(values), *_unused(values)])


def _unused(values: flags.FlagValues) -> Iterator[str]:
    """Yields one paragraph that lists the flags of `t2t.cli.tensor2tensor`, if there are any."""
    if names := [f"--{name}" for name in values if hasattr(values[name], "unused") and values[name].name == name]:
        text = f"Flags of Tensor2Tensor that do nothing here, and say what to do instead: {', '.join(names)}."
        yield textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _groups(values: flags.FlagValues) -> Iterator[str]:
    by_heading: dict[str, list[str]] = {heading: [] for heading in _ORDER}
    second_names = {name: flag.alias_of for name in values if hasattr(flag := values[name], "alias_of")}
    for name in values:
        if values[name].name != name or name in second_names or name == "help":
            continue
        if hasattr(values[name], "unused"):
            continue
        also = [second for second, original in second_names.items() if original == name]
        by_heading.setdefault(values[name].heading, []).append(_describe_flag(values[name], also))
    for heading, described in by_heading.items():
        if described:
            yield "\n".join([f"{heading}:", *described])


def _describe_flag(flag: flags.Flag, second_names: list[str]) -> str:
    text = f"--{flag.name}: {_REPEATED.sub(' May be given several times.', flag.help)}"
    notes = [f"also --{name}" for name in second_names]
    if flag.default not in (None, "", [], False):
        notes.append(f"default: {flag.default}")
    if notes:
        text += f" ({', '.join(notes)})".replace(": ", f":{_FIXED_SPACE}")
    filled = textwrap.fill(
        text, WIDTH, initial_indent="  ", subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
    )
    return filled.replace(_FIXED_SPACE, " ")
