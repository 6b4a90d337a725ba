"""Tensor2Tensor's `HParams`: values by name, to be read and changed by attribute."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from t2t.errors import UnknownNameError, did_you_mean
from t2t.hparams.override import parse_overrides
from t2t.registry import HPARAMS

_OWN = ("_values", "own_set", "changed")
"""Attributes that are no hparams, which a copy lacks until it is complete."""


class Tensor2TensorHParams:
    """Values by name.

    Args:
        model_structure: unused, as in Tensor2Tensor.
        values: name -> value.
    """

    def __init__(self, model_structure: Any = None, **values: Any):
        self.__dict__["_values"] = dict(values)
        self.__dict__["own_set"] = ""
        """Name of the set of this project that these values began with; empty for Tensor2Tensor's Transformer."""
        self.__dict__["changed"] = set()
        """Names of the values that were changed or added since."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in _OWN:
            raise AttributeError(name)
        if name not in self._values:
            known = did_you_mean(name, self._values)
            raise UnknownNameError(
                f"hparam {name!r} is not in this set of Tensor2Tensor", f"{known}add it by add_hparam"
            )
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        getattr(self, name)
        self._values[name] = value
        self.changed.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __deepcopy__(self, memo: Any) -> "Tensor2TensorHParams":
        copied = self.__copy__()
        copied.__dict__["_values"] = copy.deepcopy(self._values, memo)
        return copied

    def __copy__(self) -> "Tensor2TensorHParams":
        copied = Tensor2TensorHParams(**self._values)
        copied.__dict__["own_set"], copied.__dict__["changed"] = self.own_set, set(self.changed)
        return copied

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a value."""
        self._values[name] = value
        self.changed.add(name)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a value."""
        setattr(self, name, value)

    def del_hparam(self, name: str) -> None:
        """Removes a value."""
        self._values.pop(name, None)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or the default if there is none of that name."""
        return self._values.get(key, default)

    def values(self) -> dict[str, Any]:
        """Returns name -> value."""
        return dict(self._values)

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> "Tensor2TensorHParams":
        """Changes values, and returns the set."""
        for name, value in values_dict.items():
            setattr(self, name, value)
        return self

    def parse(self, values: str) -> "Tensor2TensorHParams":
        """Changes values by a text `name=value,name=value`, and returns the set."""
        return self.override_from_dict(parse_overrides(values, self._values, self._values))


HParams = Tensor2TensorHParams
"""The name that plug-ins know."""


def from_own_set(name: str) -> Callable[[], Tensor2TensorHParams]:
    """Returns the function of a set whose values are those of a set of this project."""

    def make() -> Tensor2TensorHParams:
        hparams = Tensor2TensorHParams(**dict(HPARAMS.get(name)().items()))
        hparams.__dict__["own_set"] = name
        return hparams

    make.__doc__ = f"The set {name}."
    return make
