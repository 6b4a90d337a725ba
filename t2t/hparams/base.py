"""A set of hparams: a dataclass that inherits the fields of all sections; model families add their own.

hparams = TransformerHParams(hidden_size=512, batch_size=4096)
hparams.hidden_size = 1024            # while it is being built
smaller = hparams.replace(num_heads=4)
smaller.freeze()                      # done when a run is resolved; from here on it is read-only

At the end are recipes and learning rates that the sets of several models share, without model sizes.
"""

import dataclasses
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

from t2t.errors import UnknownNameError, UserError
from t2t.hparams.field import coerce, complaint, wrong_declaration
from t2t.hparams.groups import (
    BatchHParams,
    DecodeHParams,
    EveryModelHParams,
    MixtureHParams,
    ObjectiveHParams,
    OptimizerHParams,
    ScheduleHParams,
    TrainHParams,
)
from t2t.hparams.override import (
    assigned_names,
    did_you_mean,
    drop_overrides,
    merge_overrides,
    parse_overrides,
    pick_overrides,
)
from t2t.registry.overrides import PluginError, check_dataclass, check_overrides, described

_MODEL = "model"
"""Section of all fields that are in none of the sections below."""
_SECTIONS = {
    "objective": ObjectiveHParams, "schedule": ScheduleHParams, "optimization": OptimizerHParams,
    "batch": BatchHParams, "mixture": MixtureHParams, "train": TrainHParams, "decode": DecodeHParams,
}  # fmt: skip
_ATOMS = (bool, int, float, str)
"""Types whose values stay as they are where the default of their field is of the same type."""
_SECTION_OF = {field.name: key for key, section in _SECTIONS.items() for field in dataclasses.fields(section)}


@dataclasses.dataclass(kw_only=True)
class HParams(
    EveryModelHParams, ObjectiveHParams, ScheduleHParams, OptimizerHParams, BatchHParams, MixtureHParams, TrainHParams,
    DecodeHParams,
):  # fmt: skip
    """Hparams of every run; base class of the model families, keyword-only dataclasses that add fields with `param`."""

    _frozen = False

    def __init_subclass__(cls) -> None:
        check_overrides(cls)
        for name in inspect.get_annotations(cls):
            if name in _SECTION_OF:
                raise UserError(f"hparam {name!r} is in two sections, model and {_SECTION_OF[name]}", "rename one")
            if hasattr(HParams, name) and name not in _fields(HParams):
                raise UserError(f"hparam {name!r} has the name of a method", "rename it")

    if not TYPE_CHECKING:  # type checkers see the constructor and the fields of a dataclass

        def __new__(cls, **values):
            """Suggests the nearest name for a misspelt field."""
            for name in values:
                _field(cls, name)
            return super().__new__(cls)

        def __setattr__(self, name, value):
            field = self.field_of(name)
            if self._frozen:
                asked = f"hparam {name}={value!r}"
                raise UserError(f"{asked}: the run has been resolved", f"use replace({name}=...) for a copy")
            if value is not field.default and not type(value) is type(field.default) in _ATOMS:
                value = coerce(field, value)
            object.__setattr__(self, name, value)

    def __copy__(self) -> Self:
        return self.replace()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.replace()

    @classmethod
    def of(cls, other: "HParams", **values: Any) -> Self:
        """Returns a set of this class with the values of another one, of a base class, and some changed."""
        return cls(**dict(other.items())).replace(**values)

    def replace(self, **values: Any) -> Self:
        """Returns an unfrozen copy with some values changed."""
        changed = dataclasses.replace(self)
        for name, value in values.items():
            setattr(changed, name, value)
        return changed

    def override(self, text: str) -> Self:
        """Returns a copy changed by a text in the syntax of `--hparams`, e.g. `num_heads=4,batch_size=1024`.

        Values of the set that are no longer used after the change, e.g. `beam_size` after `decode_method=greedy`, are
        reset to their defaults.
        """
        fields = _fields(type(self))
        found = parse_overrides(text, {name: field.default for name, field in fields.items()}, dict(self.items()))
        changed = self.replace(**found)
        for name, field in fields.items():
            condition = field.metadata["used_when"]
            if condition and condition.field in found and name not in found and not condition.holds(changed):
                setattr(changed, name, field.default)
        return changed

    @classmethod
    def merge(cls, earlier: str, later: str) -> str:
        """Merges two texts for `override` into one.

        Assignments in `later` replace those in `earlier`, and drop those that they leave unread, as `override` resets
        values of the set.

        Raises:
            UserError: `later` has a value of a wrong type, or an element that a list in `earlier` does not have.
        """
        fields, changed = _fields(cls), assigned_names(later)
        for name in sorted(assigned_names(earlier) - changed):
            condition = fields[name].metadata["used_when"] if name in fields else None
            if condition and condition.field in changed:
                defaults = {condition.field: fields[condition.field].default}
                chosen = parse_overrides(pick_overrides(later, condition.field), defaults, defaults)
                if not condition.allows(chosen[condition.field]):
                    earlier = drop_overrides(earlier, name)
        return merge_overrides(earlier, later)

    def freeze(self) -> Self:
        """Validates all values, makes the set read-only, and returns it.

        Raises:
            UserError: values out of bounds, inconsistent values, values without effect; one message for all of them.
        """
        wrong = [text for text in map(self._complaint, _fields(type(self))) if text]
        wrong = wrong or self.complaints()  # which compute with values that are valid alone
        if wrong:
            raise UserError("; ".join(wrong))
        object.__setattr__(self, "_frozen", True)
        return self

    def image_complaint(self, problem: str, shape: tuple[int, int, int]) -> str:
        """Returns an error text if images (height, width, channels) of a problem cannot be generated, else ''."""
        return ""

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields every name with its value, section by section."""
        return ((name, getattr(self, name)) for name in _fields(type(self)))

    def field_of(self, name: str) -> dataclasses.Field[Any]:
        """Returns the dataclass field with a name; its metadata is set by `param`."""
        return _field(type(self), name)

    def document(self, name: str) -> str:
        """Returns the one-line description of a field."""
        return str(self.field_of(name).metadata["doc"])

    def difference(self, other: "HParams") -> dict[str, tuple[Any, Any]]:
        """Returns name -> (other's value, own value) of the fields that differ."""
        theirs = dict(other.items())
        return {name: (theirs.get(name), value) for name, value in self.items() if theirs.get(name) != value}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Returns section -> field -> value, plain JSON except for tuples; fields of a model family are in `model`."""
        found: dict[str, dict[str, Any]] = {key: {} for key in (_MODEL, *_SECTIONS)}
        for name, value in self.items():
            found[_SECTION_OF.get(name, _MODEL)][name] = value
        return found

    @classmethod
    def from_dict(cls, data: dict[str, dict[str, Any]]) -> Self:
        """Builds a set from the result of `to_dict`; missing fields have their defaults.

        Raises:
            UnknownNameError: the data has a field that this version does not know.
        """
        return cls(**{name: value for values in data.values() for name, value in values.items()})

    def complaint(self, name: str) -> str:
        """Returns an error text if the value of a field is out of its bounds, else ''."""
        return complaint(self.field_of(name), getattr(self, name))

    def _complaint(self, name: str) -> str:
        field, value = _fields(type(self))[name], getattr(self, name)
        if value == field.default:  # which `wrong_declaration` has checked
            return ""
        condition = field.metadata["used_when"]
        if condition and not condition.holds(self):
            return (
                f"hparam {name}={value!r}: nothing reads it while {condition.field}={getattr(self, condition.field)}; "
                f"it is read with {condition}"
            )
        return self.complaint(name)


class UnknownHParamError(UnknownNameError, AttributeError):
    """No field of that name; also an AttributeError, as Python raises for unknown attributes."""


_FIELDS: dict[type, dict[str, dataclasses.Field[Any]]] = {}


def _fields(owner: type[HParams]) -> dict[str, dataclasses.Field[Any]]:
    """Returns the fields by name, section by section; raises PluginError for wrong declarations of a plug-in."""
    if owner not in _FIELDS:
        check_dataclass(owner)
        if wrong := wrong_declaration(owner):
            raise PluginError(f"{described(owner)}: {wrong}")
        order = [_MODEL, *_SECTIONS]
        fields = sorted(dataclasses.fields(owner), key=lambda field: order.index(_SECTION_OF.get(field.name, _MODEL)))
        _FIELDS[owner] = {field.name: field for field in fields}
    return _FIELDS[owner]


def _field(owner: type[HParams], name: str) -> dataclasses.Field[Any]:
    fields = _fields(owner)
    if name not in fields:
        raise UnknownHParamError(
            f"hparam {name!r} does not exist",
            f"{did_you_mean(name, fields)}there are {len(fields)}: see --registry_help=hparams",
        )
    return fields[name]


# === Recipes of training and decoding ===

Set = TypeVar("Set", bound=HParams)


def for_multi30k(hparams: Set) -> Set:
    """Returns the set with the batches, number of updates, averaging and search of all Multi30k sets.

    They are those of the Transformer of Wu et al. 2021 (section 4), so that models are comparable.
    """
    return hparams.replace(
        max_length=256,
        label_smoothing=0.1,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="inverse_sqrt",
        batch_size=4900,
        effective_batch_size=9800,  # padded tokens of the longer side: about 8,192 target tokens, as in the paper
        train_steps=1500,
        ema_decay=0.99,  # evens out the last hundred updates, as averaging checkpoints does
        beam_size=5,  # search as published: beam 5, log-probability by token
        alpha=1.0,
        length_penalty="power",
    )


def for_copying(hparams: Set) -> Set:
    """Returns the set with a recipe to learn copying and reversing short sequences in a minute on two cores.

    Outputs are either right or wrong, so there is no dropout, label smoothing or beam search.
    """
    return hparams.replace(
        max_length=256,
        dropout=0.0,
        label_smoothing=0.0,
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="linear",
        learning_rate=0.003,
        learning_rate_warmup_steps=100,
        clip_grad_norm=1.0,
        batch_size=1024,
        train_steps=1000,
        beam_size=1,
    )


# === Tensor2Tensor's learning rates, with the factors that its code applies and its hparams do not show ===
# Source: `legacy_learning_rate_schedule` in its utils/learning_rate.py; its composed schedules have no such factors.
_ADAM = 0.002
"""Factor of every schedule with the Adam optimizer."""


def noam_rate(rate: float) -> float:
    """Converts a rate of Tensor2Tensor's schedule `noam` to our `learning_rate`, the factor of the paper's formula."""
    return rate * (5000.0 * _ADAM)


def adam_rate(rate: float) -> float:
    """Converts a rate of any other legacy schedule to our `learning_rate`, the rate after warm-up."""
    return rate * _ADAM
