"""A set of hparams: typed sections behind one flat set of names.

hparams = transformer_base()
hparams.hidden_size = 1024            # while it is being built
smaller = hparams.replace(num_heads=4)
smaller.freeze()                      # the composition root does this; from here on it is read only
"""

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from t2t.errors import UnknownNameError, UserError, did_you_mean
from t2t.hparams.field import coerce, complaint
from t2t.hparams.override import parse_overrides
from t2t.hparams.sections import (
    BatchHParams,
    DecodeHParams,
    MixtureHParams,
    ModelHParams,
    OptimizerHParams,
    ScheduleHParams,
    TrainHParams,
)


class HParams:
    """Sections `model`, `schedule`, `optimization`, `batch`, `mixture`, `train`, `decode`; each field by its name."""

    def __init__(self, model: ModelHParams):
        sections = {
            "model": copy.copy(model),
            "schedule": ScheduleHParams(),
            "optimization": OptimizerHParams(),
            "batch": BatchHParams(),
            "mixture": MixtureHParams(),
            "train": TrainHParams(),
            "decode": DecodeHParams(),
        }
        object.__setattr__(self, "_sections", sections)
        object.__setattr__(self, "_fields", _index(sections))
        object.__setattr__(self, "_frozen", False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._sections:
            return self._sections[name]
        return getattr(self._section_of(name), name)

    def __setattr__(self, name: str, value: Any) -> None:
        section = self._section_of(name)
        if self._frozen:
            raise UserError(f"hparam {name}={value!r}: the run has been resolved; use replace({name}=...) for a copy")
        setattr(section, name, coerce(self._fields[name][1], value))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._sections, *self._fields]

    def __copy__(self) -> "HParams":
        return self._mutable_copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> "HParams":
        return self._mutable_copy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HParams) and self.to_dict() == other.to_dict()

    def replace(self, **values: Any) -> "HParams":
        """Returns a copy, not frozen, with some values changed."""
        changed = self._mutable_copy()
        for name, value in values.items():
            setattr(changed, name, value)
        return changed

    def override(self, text: str) -> "HParams":
        """Returns a copy changed as `--hparams` says, e.g. `num_heads=4,batch_size=1024`.

        Where that leaves a value of the set that nothing reads any more, e.g. `beam_size` after `decode_method=greedy`,
        the value goes back to its default.
        """
        types = {name: field.default for name, (_, field) in self._fields.items()}
        found = parse_overrides(text, types, dict(self.items()))
        changed = self.replace(**found)
        for name, (_, field) in self._fields.items():
            condition = field.metadata["used_when"]
            if condition and condition.field in found and name not in found and not condition.holds(changed):
                setattr(changed, name, field.default)
        return changed

    def freeze(self) -> "HParams":
        """Validates everything, refuses changes from here on, and returns itself.

        Raises:
            UserError: values out of bounds, values that do not fit together, values that nothing reads; all at once.
        """
        wrong = [text for text in map(self._complaint, self._fields) if text] + self.model.complaints()
        if wrong:
            raise UserError("; ".join(wrong))
        object.__setattr__(self, "_frozen", True)
        return self

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yields every name with its value."""
        return ((name, getattr(self, name)) for name in self._fields)

    def document(self, name: str) -> str:
        """Returns the one line that says what a field means."""
        self._section_of(name)
        doc: str = self._fields[name][1].metadata["doc"]
        return doc

    def difference(self, other: "HParams") -> dict[str, tuple[Any, Any]]:
        """Returns name -> (other's value, own value) where they differ."""
        theirs = dict(other.items())
        return {name: (theirs.get(name), value) for name, value in self.items() if theirs.get(name) != value}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Returns section -> field -> value, plain JSON but for tuples."""
        return {key: dataclasses.asdict(section) for key, section in self._sections.items()}

    @classmethod
    def from_dict(cls, data: dict[str, dict[str, Any]], model: type[ModelHParams]) -> "HParams":
        """Reads what `to_dict` wrote; a field that did not exist then has its default.

        Raises:
            UnknownNameError: the data holds a field that this version does not know.
        """
        hparams = cls(model())
        for values in data.values():
            for name, value in values.items():
                setattr(hparams, name, value)
        return hparams

    def _mutable_copy(self) -> "HParams":
        fresh = HParams(self.model)
        for key, section in self._sections.items():
            fresh._sections[key] = copy.copy(section)
        object.__setattr__(fresh, "_fields", _index(fresh._sections))
        return fresh

    def _section_of(self, name: str) -> Any:
        if name not in self._fields:
            raise UnknownHParamError(
                f"hparam {name!r} does not exist; {did_you_mean(name, self._fields)}"
                f"there are {len(self._fields)}: see --registry_help=hparams"
            )
        return self._sections[self._fields[name][0]]

    def _complaint(self, name: str) -> str:
        field, value = self._fields[name][1], getattr(self, name)
        condition = field.metadata["used_when"]
        if condition and value != field.default and not condition.holds(self):
            return (
                f"hparam {name}={value!r}: nothing reads it while {condition.field}={getattr(self, condition.field)}; "
                f"it is read with {condition}"
            )
        return complaint(field, value)


class UnknownHParamError(UnknownNameError, AttributeError):
    """No field of that name; also an AttributeError, so that hasattr and copy work as Python expects."""


def _index(sections: dict[str, Any]) -> dict[str, tuple[str, dataclasses.Field[Any]]]:
    fields: dict[str, tuple[str, dataclasses.Field[Any]]] = {}
    for key, section in sections.items():
        for field in dataclasses.fields(section):
            if field.name in sections:
                raise UserError(f"hparam {field.name!r} has the name of a section; rename it")
            if field.name in fields:
                raise UserError(
                    f"hparam {field.name!r} is in two sections, {fields[field.name][0]} and {key}; rename one"
                )
            fields[field.name] = (key, field)
    return fields
