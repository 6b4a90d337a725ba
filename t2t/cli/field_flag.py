"""Defines a flag from a dataclass field, with its type, bounds and help text."""

import dataclasses
from typing import Any

from absl import flags

from t2t.registry import Registry
from t2t.runs.arguments import RENAMED

_OWN = object()


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
