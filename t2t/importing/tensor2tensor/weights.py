"""Tensor2Tensor's variables as weights of ours, each accounted for by name.

Legend: D width, K channels of all keys, U channels of all values, V vocabulary.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from t2t.errors import UserError
from t2t.importing.tensor2tensor.names import TARGET_SPACE, Place, network_name, parse_name

Arrays = dict[str, np.ndarray]

_SLOT = re.compile(r"(.+)/([A-Za-z][\w-]*)")
_ADAM = {"Adam": "momentum", "Adam_1": "velocity"}
_COUNTERS = re.compile(r"global_step|(?:losses_avg|train_stats)/.+|(?:.+/)?beta[12]_power")


@dataclass(frozen=True)
class Converted:
    """What a checkpoint of theirs comes to, by path of our variables, without the model's name."""

    step: int
    """Updates done."""
    weights: Arrays
    moments: dict[str, Arrays]
    """Adam's first (`momentum`) and second moment (`velocity`); empty where another optimizer, or none, was saved."""
    variables: int
    """Number of variables of theirs that became weights."""
    unused: tuple[str, ...]
    """Names of the counters and slots that have no place here."""


@dataclass(frozen=True)
class Layout:
    """What telling packed variables apart takes."""

    key_channels: int
    """K."""
    value_channels: int
    """U."""
    target_space_id: int
    """Which row of the table of target spaces the problem has."""


def convert(variables: Mapping[str, np.ndarray], layout: Layout) -> Converted:
    """Sorts every variable of a checkpoint into weights, moments of Adam, and counters.

    Args:
        variables: arrays by their names, from a checkpoint.
        layout: of the network.

    Raises:
        UserError: variables that no part of the Transformer here is like, all named, or parts of a table missing.
    """
    network: dict[str, np.ndarray] = {}
    slots: dict[str, dict[str, np.ndarray]] = {}
    counters, unknown = [], []
    for name, array in variables.items():
        inner = network_name(name)
        if inner and parse_name(inner):
            network[inner] = array
        elif inner and (found := _SLOT.fullmatch(inner)) and parse_name(found[1]):
            slots.setdefault(found[2], {})[found[1]] = array
        elif _COUNTERS.fullmatch(name):
            counters.append(name)
        else:
            unknown.append(name)
    if unknown:
        raise UserError(
            f"the checkpoint has {len(unknown)} variables that the Transformer here has no place for: "
            f"{', '.join(sorted(unknown))}; only plain Transformers can be imported"
        )
    adam = all(slots.get(slot, {}).keys() == network.keys() for slot in _ADAM)
    moments = {ours: _rename_variables(slots[theirs], layout) for theirs, ours in _ADAM.items()} if adam else {}
    left = [f"{name}/{slot}" for slot, of in slots.items() for name in of if not (adam and slot in _ADAM)]
    return Converted(
        step=int(variables.get("global_step", 0)),
        weights=_rename_variables(network, layout),
        moments=moments,
        variables=len(network),
        unused=tuple(sorted([*counters, *left])),
    )


def _rename_variables(variables: Mapping[str, np.ndarray], layout: Layout) -> Arrays:
    """Returns arrays by our paths."""
    arrays: Arrays = {}
    tables: dict[str, dict[int, np.ndarray]] = {}
    for name, array in variables.items():
        place = parse_name(name)
        assert place is not None, "only variables that have one are here"
        if place.shard is not None:
            tables.setdefault(place.paths[0], {})[place.shard] = array
        elif place.paths == (TARGET_SPACE,):
            arrays[TARGET_SPACE] = _row(array, layout.target_space_id)
        else:
            arrays |= zip(place.paths, _unpacked(name, array, place, layout), strict=True)
    _check_tables(variables)
    return arrays | {path: np.concatenate([shards[i] for i in sorted(shards)]) for path, shards in tables.items()}


def _row(table: np.ndarray, number: int) -> np.ndarray:
    if not 0 <= number < len(table):
        raise UserError(f"--target_space_id={number}: the checkpoint's table has rows 0 to {len(table) - 1}; name one")
    return table[number]


def _unpacked(name: str, array: np.ndarray, place: Place, layout: Layout) -> list[np.ndarray]:
    """Returns the parts of a variable side by side; kernels of convolutions one wide lose their dimensions of 1."""
    if array.ndim > 2:
        array = array.reshape([*(n for n in array.shape[:-2] if n != 1), *array.shape[-2:]])
    if len(place.paths) == 1:
        return [array]
    is_value = [path.rsplit("/", 1)[-1].startswith("value") for path in place.paths]
    widths = [layout.value_channels if value else layout.key_channels for value in is_value]
    if array.shape[-1] != sum(widths):
        raise UserError(
            f"variable {name} of the checkpoint has {array.shape[-1]} columns; hparams.json asks for "
            f"{' + '.join(map(str, widths))}; they are not of one run"
        )
    return np.split(array, np.cumsum(widths)[:-1], axis=-1)


def _check_tables(names: Iterable[str]) -> None:
    """Demands that every table is whole and that all have one vocabulary."""
    shards: dict[str, list[int]] = {}
    sizes: set[int] = set()
    for name in names:
        place = parse_name(name)
        assert place is not None, "only variables that have one are here"
        if place.shard is not None:
            shards.setdefault(place.paths[0], []).append(place.shard)
            if place.vocab_size is not None:
                sizes.add(place.vocab_size)
    if len(sizes) > 1:
        raise UserError(
            f"the checkpoint has tables for vocabularies of {' and '.join(map(str, sorted(sizes)))} ids; only runs "
            f"with one vocabulary for both sides can be imported"
        )
    for path, numbers in shards.items():
        if sorted(numbers) != list(range(len(numbers))):
            missing = sorted(set(range(max(numbers) + 1)) - set(numbers))
            raise UserError(
                f"the checkpoint's {path} lacks blocks {', '.join(f'weights_{n}' for n in missing) or 'of rows'}; "
                f"copy all of its files again"
            )
