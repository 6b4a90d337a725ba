"""Ranges of hparams for a search, defined with Tensor2Tensor's interface; those of the Transformer are at the end.

@register_ranged_hparams
def my_range(rhp):
    rhp.set_float("learning_rate", 0.01, 0.1, scale=rhp.LOG_SCALE)
    rhp.set_discrete("num_heads", [2, 4, 8])
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.field import UsedWhen, coerce, complaint
from t2t.registry import register_ranged_hparams

FLOAT, INT, DISCRETE, CATEGORICAL = "float", "int", "discrete", "categorical"


@dataclasses.dataclass(frozen=True)
class Range:
    """The allowed values of one hparam."""

    name: str
    kind: str
    """`float`, `int`, `discrete` or `categorical`."""
    values: tuple[Any, ...]
    """Smallest and largest value for `float` and `int`; all values for the other kinds."""
    scale: int
    """Scale of `float` and `int`: one of the constants of `RangedHParams`."""
    used_when: UsedWhen | None = None
    """Condition on another hparam with a range; None for none. `RangedHParams.check` sets it."""

    @property
    def is_interval(self) -> bool:
        """Whether the range is an interval, of kind `float` or `int`."""
        return self.kind in (FLOAT, INT)

    def holds(self, value: Any) -> bool:
        """Returns whether a value is in the range."""
        return self.values[0] <= value <= self.values[1] if self.is_interval else value in self.values

    def __str__(self) -> str:
        if not self.is_interval:
            return f"{self.name} of {', '.join(map(str, self.values))}"
        scale = {RangedHParams.LOG_SCALE: ", log scale", RangedHParams.REVERSE_LOG_SCALE: ", reverse log scale"}
        return f"{self.name} from {self.values[0]} to {self.values[1]}{scale.get(self.scale, '')}"


class RangedHParams:
    """Ranges by hparam name; each may be set only once."""

    LINEAR_SCALE, LOG_SCALE, REVERSE_LOG_SCALE = 1, 2, 3
    """Uniform; uniform in the logarithm; like the logarithm, but finest at the upper end."""

    def __init__(self) -> None:
        self.ranges: dict[str, Range] = {}

    def set_float(self, name: str, min_val: float, max_val: float, scale: int | None = None) -> None:
        """Sets a range of real numbers, both ends included."""
        self._add_interval(FLOAT, name, float(min_val), float(max_val), scale)

    def set_int(self, name: str, min_val: int, max_val: int, scale: int | None = None) -> None:
        """Sets a range of integers, both ends included."""
        if not (type(min_val) is int and type(max_val) is int):
            raise UserError(f"range of {name}: {min_val} to {max_val} are not whole numbers", "use set_float")
        self._add_interval(INT, name, min_val, max_val, scale)

    def set_discrete(self, name: str, feasible_points: Sequence[float]) -> None:
        """Sets a range of some ordered numbers."""
        wrong = [point for point in feasible_points if isinstance(point, bool | str)]
        if wrong:
            raise UserError(f"range of {name}: {wrong[0]!r} is not a number", "use set_categorical")
        self._add(Range(name, DISCRETE, tuple(sorted(feasible_points)), self.LINEAR_SCALE))

    def set_categorical(self, name: str, categories: Sequence[Any]) -> None:
        """Sets a range of some values without an order: texts, booleans or numbers."""
        if isinstance(categories, str):
            raise UserError(f"range of {name}: {categories!r} is one text", f"give a list: [{categories!r}, ...]")
        self._add(Range(name, CATEGORICAL, tuple(categories), self.LINEAR_SCALE))

    def check(self, hparams: HParams) -> None:
        """Finds the conditions of ranges on each other.

        Raises:
            UserError: `hparams` lacks one of the names, does not allow a value of its range, or never reads it.
        """
        if not self.ranges:
            raise UserError("the range of hparams is empty", "set one, e.g. by rhp.set_float")
        for one in list(self.ranges.values()):
            field = hparams.field_of(one.name)
            self._check_is_read(one, field.metadata["used_when"], hparams)
            wrong = [complaint(field, coerce(field, value)) for value in one.values]
            if text := "; ".join(filter(None, wrong)):
                raise UserError(f"range of {one}: {text}")

    def _check_is_read(self, one: Range, condition: UsedWhen | None, hparams: HParams) -> None:
        """Keeps the condition of a range on another; raises UserError if it never holds."""
        if condition is None:
            return
        other = self.ranges.get(condition.field)
        if other is None and not condition.holds(hparams):
            found = f"while {condition.field}={getattr(hparams, condition.field)}"
        elif other and not (any(map(other.holds, condition.values)) or any(map(condition.allows, other.values))):
            found = f"with {other}"
        else:
            self.ranges[one.name] = dataclasses.replace(one, used_when=condition if other else None)
            return
        raise UserError(f"range of {one}: nothing reads it {found}", f"it is read with {condition}")

    def choose(self, pick: Callable[[Range], Any]) -> dict[str, Any]:
        """Returns the value that `pick` chooses from each range, by name, without those that nothing reads then."""
        found: dict[str, Any] = {}
        for one in sorted(self.ranges.values(), key=self._depth):
            if one.used_when is None or one.used_when.allows(found.get(one.used_when.field)):
                found[one.name] = pick(one)
        return {name: found[name] for name in self.ranges if name in found}

    def _depth(self, one: Range) -> int:
        """Returns how many other ranges decide, one by the next, whether a range is read."""
        return 0 if one.used_when is None else 1 + self._depth(self.ranges[one.used_when.field])

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns name -> [kind, values, scale], as plain JSON."""
        return {one.name: [one.kind, list(one.values), one.scale] for one in self.ranges.values()}

    def _add_interval(self, kind: str, name: str, smallest: Any, largest: Any, scale: int | None) -> None:
        scale = scale or self.LINEAR_SCALE
        if scale not in (self.LINEAR_SCALE, self.LOG_SCALE, self.REVERSE_LOG_SCALE):
            raise UserError(
                f"range of {name}: there is no scale {scale!r}", "use rhp.LINEAR_SCALE, LOG_SCALE or REVERSE_LOG_SCALE"
            )
        if not (smallest < largest and math.isfinite(smallest) and math.isfinite(largest)):
            raise UserError(f"range of {name}: from {smallest} to {largest} holds nothing", "put the smaller one first")
        if scale != self.LINEAR_SCALE and smallest <= 0:
            raise UserError(f"range of {name}: its logarithmic scale begins at {smallest}", "begin above 0")
        self._add(Range(name, kind, (smallest, largest), scale))

    def _add(self, one: Range) -> None:
        if one.name in self.ranges:
            raise UserError(f"range of {one.name} is set twice", "keep one")
        if not one.values or len(set(one.values)) < len(one.values):
            raise UserError(f"range of {one.name}: it has the values {list(one.values)}", "give values, each once")
        self.ranges[one.name] = one


# === Ranges, for `t2t-tune --hparams_range` ===


@register_ranged_hparams
def transformer_base_range(rhp: RangedHParams) -> None:
    """Rate, warm-up and Adam's betas around transformer_base: Tensor2Tensor's range of this name."""
    # Rates are factors on the paper's formula here; there is no initializer_gain, and Adam reads no weight_decay.
    rhp.set_float("learning_rate", 0.3, 3.0, scale=rhp.LOG_SCALE)
    rhp.set_discrete("learning_rate_warmup_steps", [1000, 2000, 4000, 8000, 16000])
    rhp.set_float("optimizer_adam_beta1", 0.85, 0.95)
    rhp.set_float("optimizer_adam_beta2", 0.97, 0.99)


@register_ranged_hparams
def transformer_quickstart_range(rhp: RangedHParams) -> None:
    """How transformer_quickstart learns: rate, warm-up, batch, dropout, smoothing; the network stays as it is."""
    rhp.set_float("learning_rate", 0.001, 0.016, scale=rhp.LOG_SCALE)
    rhp.set_discrete("learning_rate_warmup_steps", [25, 50, 100, 200])
    rhp.set_discrete("batch_size", [1024, 2048])
    rhp.set_discrete("layer_prepostprocess_dropout", [0.0, 0.05, 0.1])
    rhp.set_discrete("label_smoothing", [0.0, 0.05, 0.1])
    rhp.set_float("optimizer_adam_beta2", 0.95, 0.999)
