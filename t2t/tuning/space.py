"""The search space of Optuna for ranges of hparams, and the hparams for its choices."""

import itertools
import random
from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.ranges import FLOAT, Range, RangedHParams

_DIGITS = 4
"""Significant digits of a chosen real number; more would not matter and are hard to read."""


def suggest(trial: optuna.trial.Trial, ranged: RangedHParams) -> dict[str, Any]:
    """Returns the hparams of a trial by name, without those that nothing reads in it."""

    def choose(one: Range) -> Any:
        if not one.is_interval:
            return trial.suggest_categorical(one.name, one.values)
        (smallest, largest), is_log = one.values, one.scale != RangedHParams.LINEAR_SCALE
        if one.kind != FLOAT:
            return _mirrored(one, trial.suggest_int(one.name, smallest, largest, log=is_log))
        value = _mirrored(one, trial.suggest_float(one.name, smallest, largest, log=is_log))
        return min(max(float(f"{value:.{_DIGITS}g}"), smallest), largest)

    return ranged.choose(choose)


def _mirrored(one: Range, value: Any) -> Any:
    """Mirrors a value within its range if the scale is reversed, with small steps at the upper end."""
    return sum(one.values) - value if one.scale == RangedHParams.REVERSE_LOG_SCALE else value


class FixedSampler(BaseSampler):
    """Chooses the given values of hparams, by name; another sampler chooses the rest."""

    def __init__(self, ranged: RangedHParams, values: Mapping[str, Any], other: BaseSampler):
        self._chosen = {name: _mirrored(ranged.ranges[name], value) for name, value in values.items()}
        self._other = other

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, BaseDistribution]:
        """Returns an empty dict: each hparam is chosen independently."""
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: dict[str, BaseDistribution]) -> dict[str, Any]:
        """Returns an empty dict, see `infer_relative_search_space`."""
        return {}

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: BaseDistribution) -> Any:
        """Returns the given value, or the other sampler's."""
        if param_name in self._chosen:
            return self._chosen[param_name]
        return self._other.sample_independent(study, trial, param_name, param_distribution)


def own_values(ranged: RangedHParams, hparams: HParams) -> dict[str, Any]:
    """Returns those values of a set that lie in their ranges, by name."""
    values = {name: getattr(hparams, name) for name in ranged.ranges}
    return {name: value for name, value in values.items() if ranged.ranges[name].holds(value)}


def grid(ranged: RangedHParams, seed: int) -> list[dict[str, Any]]:
    """Returns all combinations, without values that nothing reads, shuffled by the seed.

    Raises:
        UserError: a range of real numbers, or of more than a thousand whole ones.
    """
    values = []
    for one in ranged.ranges.values():
        if one.kind == FLOAT or (one.is_interval and one.values[1] - one.values[0] >= 1000):
            raise UserError(
                f"{one} has too many values to try them all",
                "give rhp.set_discrete a few, or choose another sampler",
                option="sampler",
                value="grid",
            )
        values.append(range(one.values[0], one.values[1] + 1) if one.is_interval else one.values)

    def read_ones(chosen: tuple[Any, ...]) -> dict[str, Any]:
        by_name = dict(zip(ranged.ranges, chosen, strict=True))
        return ranged.choose(lambda one: by_name[one.name])

    combinations = list({tuple(one.items()): one for one in map(read_ones, itertools.product(*values))}.values())
    random.Random(seed).shuffle(combinations)
    return combinations
