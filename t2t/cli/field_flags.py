"""Flags that stand for a field of a dataclass: type, default, bounds and help are the field's."""

import dataclasses
from typing import Any

from absl import flags

_OWN = object()


def define_field_flag(
    values: flags.FlagValues,
    name: str,
    owner: type,
    field_name: str,
    *,
    default: Any = _OWN,
    text: str = "",
    more: str = "",
) -> None:
    """Defines a flag for a field that `t2t.hparams.field.param` has made.

    Args:
        values: where.
        name: of the flag.
        owner: the dataclass.
        field_name: of the field.
        default: of the flag, None for one that is unset; left out for the field's.
        text: the help, where the field's own line will not do.
        more: what the help says beyond the field's line.
    """
    field = next(one for one in dataclasses.fields(owner) if one.name == field_name)
    rules, kind = field.metadata, type(field.default)
    text = text or f"{rules['doc'].removesuffix('.')}{_condition(rules['used_when'])}{more}."
    default = field.default if default is _OWN else default
    if rules["choices"]:
        flags.DEFINE_enum(name, default, rules["choices"], text, flag_values=values)
    elif kind in (int, float):
        define = flags.DEFINE_integer if kind is int else flags.DEFINE_float
        define(name, default, text, rules["minimum"], rules["maximum"], flag_values=values)
    else:
        (flags.DEFINE_boolean if kind is bool else flags.DEFINE_string)(name, default, text, flag_values=values)


def _condition(used_when: Any) -> str:
    return f" (with {used_when})" if used_when else ""
