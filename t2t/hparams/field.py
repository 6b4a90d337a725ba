"""Fields of hparams and settings: type, bounds, description and condition of use."""

import dataclasses
import math
import sys
from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.registry import Registry

LARGEST = 2**31 - 1
"""Upper bound of all integers without their own: sizes of tensors have 32 bits."""


@dataclasses.dataclass(frozen=True)
class UsedWhen:
    """Condition of a field that is only read while another field has one of some values."""

    field: str
    values: tuple[Any, ...]
    registry: Registry[Any] | None = None
    """Of the names that the other field takes: those of plug-ins may read every field."""

    def holds(self, hparams: Any) -> bool:
        """Returns whether the other field has one of the values."""
        return self.allows(getattr(hparams, self.field))

    def allows(self, value: Any) -> bool:
        """Returns whether a value of the other field is one of the values."""
        return value in self.values or (self.registry is not None and self.registry.is_of_plugin(value))

    def __str__(self) -> str:
        return f"{self.field}={'|'.join(map(str, self.values))}"


def param(
    default: Any,
    doc: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[Any, ...] | Registry[Any] | None = None,
    used_when: UsedWhen | None = None,
    only_trains: bool = False,
    only_shapes: bool | tuple[Any, ...] = False,
) -> Any:
    """Declares a dataclass field with its one-line description (unit included), bounds and condition of use.

    Args:
        default: its value if no other is given; it decides the type.
        doc: the description.
        minimum: smallest value.
        maximum: largest value.
        choices: all values, or the registry of all names.
        used_when: condition of use.
        only_trains: of a model's field, whether it affects training, but not the outputs of a trained model.
        only_shapes: of a model's field, whether it only decides which weights there are and their shapes, and weights
            of the same name and shape compute the same with any value. Then a warm start may come from a checkpoint of
            another value. A tuple has the values for which this holds, as other values only add weights to theirs.
    """
    metadata = {
        "doc": doc, "minimum": minimum, "maximum": maximum, "choices": choices, "used_when": used_when,
        "only_trains": only_trains, "only_shapes": only_shapes,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


def wrong_declaration(owner: type) -> str:
    """Returns what is wrong with the declaration of a field of a dataclass, and what to write; '' if nothing is."""
    return next(filter(None, (_wrong_declaration(field, owner) for field in dataclasses.fields(owner))), "")


def _wrong_declaration(field: dataclasses.Field[Any], owner: type) -> str:
    kind, rules = type(field.default), field.metadata
    hint = getattr(field.type, "__name__", str(field.type))
    example = f'{field.name}: {hint} = param(..., "what it means, with its unit.")'
    if "doc" not in rules:
        return f"field {field.name} is not declared with param; write {example}"
    if kind not in (bool, int, float, str, tuple):
        return f"field {field.name} has a default of type {kind.__name__}; give a bool, int, float, str or tuple"
    if field.type is float and kind is int:
        return f"field {field.name} is a float and its default {field.default} is an int; write {field.default}.0"
    if isinstance(rules["choices"], str):
        return f"field {field.name} has the choices {rules['choices']!r}, a str; give a tuple of them"
    condition = rules["used_when"]
    if condition and not (isinstance(condition, UsedWhen) and hasattr(owner, condition.field)):
        return f"field {field.name} has used_when={condition}; give UsedWhen(another field, a tuple of its values)"
    return complaint(field, field.default)


def redeclared(owner: type, name: str, **changes: Any) -> Any:
    """Declares a dataclass field of a base class `owner` again; `changes` are arguments of `param`."""
    field = next(field for field in dataclasses.fields(owner) if field.name == name)
    return dataclasses.field(default=field.default, metadata={**field.metadata, **changes})


def training_fraction(default: float, doc: str) -> Any:
    """Declares a fraction below 1 that only affects training, such as a dropout rate; see `param`."""
    return param(default, doc, minimum=0.0, maximum=0.99, only_trains=True)


def coerce(field: dataclasses.Field[Any], value: Any, what: str = "hparam") -> Any:
    """Returns `value` with the type of the field's default; an int may stand for a float, a list for a tuple.

    Elements of a tuple have the type of those of the default.

    Raises:
        UserError: the value has another type; the message calls the field `what`, e.g. `setting`.
    """
    asked, doc = f"{what} {field.name}={value!r}", field.metadata["doc"]
    if not isinstance(field.default, tuple) or not isinstance(value, list | tuple):
        return _coerce(type(field.default), value, f"{asked}: it is", doc)
    if not field.default:
        return tuple(value)
    kind = type(field.default[0])
    return tuple(_coerce(kind, element, f"{asked}: an element is", doc) for element in value)


def _coerce(kind: type, value: Any, found: str, doc: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value) if abs(value) <= sys.float_info.max else math.inf  # which no field takes
    if type(value) is not kind:
        raise UserError(f"{found} not of type {kind.__name__}", f"{doc}")
    return value


def complaint(field: dataclasses.Field[Any], value: Any, what: str = "hparam") -> str:
    """Returns an error text for an invalid value of the right type, or an empty string; `what` as in `coerce`.

    Bounds and choices are those of each element of a tuple.
    """
    asked = f"{what} {field.name}={value!r}: "
    elements = value if isinstance(value, tuple) else (value,)
    return next(filter(None, (_complaint(field.metadata, element, asked) for element in elements)), "")


def _complaint(rules: Mapping[str, Any], value: Any, asked: str) -> str:
    if rules["choices"] is not None and value not in rules["choices"]:
        if isinstance(rules["choices"], Registry):
            return asked + rules["choices"].unknown(value)
        return asked + f"use one of {', '.join(map(str, rules['choices']))}"
    if isinstance(value, float) and not math.isfinite(value):
        return asked + f"it is a finite number; {rules['doc']}"
    if type(value) is int and abs(value) > LARGEST and rules["maximum"] is None:
        return asked + f"it is at most {LARGEST:,}; {rules['doc']}"
    if rules["minimum"] is not None and value < rules["minimum"]:
        return asked + f"it is at least {rules['minimum']}; {rules['doc']}"
    if rules["maximum"] is not None and value > rules["maximum"]:
        return asked + f"it is at most {rules['maximum']}; {rules['doc']}"
    return ""


def unread_complaints(hparams: Any, allowed: Mapping[str, tuple[Any, ...]], why: str) -> list[str]:
    """Returns error texts for hparams with values that nothing reads.

    Args:
        hparams: a set.
        allowed: name -> values that have an effect, the default first.
        why: nothing reads the others.
    """
    return [
        f"hparam {name}={value}: {why}; choose {name}={' or '.join(map(str, values)).lower()}"
        for name, values in allowed.items()
        if (value := getattr(hparams, name)) not in values
    ]


def check_values(instance: Any, what: str) -> None:
    """Coerces the values of the `param` fields of a dataclass to their types, even if it is frozen, and checks them.

    Raises:
        UserError: a value of another type or out of bounds; messages call the fields `what`, e.g. `setting`.
    """
    wrong = []
    for field in (one for one in dataclasses.fields(instance) if "doc" in one.metadata):
        value = coerce(field, getattr(instance, field.name), what)
        object.__setattr__(instance, field.name, value)
        wrong.append(complaint(field, value, what))
    if any(wrong):
        raise UserError("; ".join(filter(None, wrong)))
