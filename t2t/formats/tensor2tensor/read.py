"""Reads a run of Tensor2Tensor: its settings, its weights and the state of Adam; every variable is accounted for."""

import functools
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.importer import ForeignRun, ImportRequest
from t2t.formats.tensor2tensor.hparams import read_hparams, translate
from t2t.formats.tensor2tensor.mapping import RELATIVE_KEYS, TARGET_SPACE, Place, network_name, parse_name
from t2t.formats.tensorflow_checkpoint import find_checkpoint, read_variables
from t2t.hparams.transformer import TransformerHParams
from t2t.problems.vocabularies import text_names
from t2t.text.vocabulary_files import read_vocabulary

_TARGET_SPACES = (
    (r"ende.*char", 7), (r"ende.*bpe", 9), (r"ende.*_rev|enfr.*_rev", 3), (r"ende", 8),
    (r"enfr.*char", 5), (r"enfr", 6), (r"parsing.*char", 14), (r"parsing", 15), (r"enzh", 16),
)  # fmt: skip
"""Patterns of Tensor2Tensor's problem names, with their row of its target space table; 0 is the generic one."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a Tensor2Tensor folder and its vocabulary.

    The defaults are the problem in `flags.txt`, the latest step, and the problem's target space.

    Raises:
        UserError: a file is missing or damaged, the network differs from the Transformer here, or a variable is
            unused.
    """
    assert request.vocab_file is not None, "the format needs it"
    values = read_hparams(request.model_dir)
    problem, encoder = request.problem, read_vocabulary(request.vocab_file)
    problem = problem.with_encoders(dict.fromkeys(text_names(problem.stored), encoder))
    space = request.target_space_id
    if space is None:
        space = next((number for pattern, number in _TARGET_SPACES if re.search(pattern, problem.name)), 0)
    variables = read_variables(find_checkpoint(request.model_dir, request.step, "model.ckpt"))
    names = filter(None, map(network_name, variables))
    has_bias = any(re.search(r"attention/.*(?:_transform|/[qkv])(?:_single)?/bias$", name) for name in names)
    hparams, warnings = translate(values, attention_bias=has_bias)
    _check_masks(values, variables)
    hparams.target_space_embedding = any(name.endswith("target_space_embedding/kernel") for name in variables)
    return ForeignRun(
        problem=problem,
        hparams=hparams,
        **convert(variables, hparams, space),
        origin=f"the checkpoint in {request.model_dir}",
        settings=f"its hparams.json and {request.vocab_file}",
        notes=(f"target space {space}",),
        warnings=warnings,
    )


def _check_masks(values: Mapping[str, Any], variables: Mapping[str, np.ndarray]) -> None:
    """Raises UserError for an encoder whose attention is only defined for keys up to the query."""
    kind = values.get("self_attention_type")
    if kind == "dot_product_relative_v2" and any("body/encoder/" in name for name in variables):
        raise UserError(
            f"self_attention_type={kind!r} in an encoder: what it computed there depended on the padding of batches",
            "only decoders of that attention, and dot_product_unmasked_relative_v2, can be imported",
        )


_SLOT = re.compile(r"(.+)/([A-Za-z][\w-]*)")
_ADAM = {"Adam": "momentum", "Adam_1": "velocity"}
_COUNTERS = re.compile(r"global_step|(?:losses_avg|train_stats)/.+|(?:.+/)?beta[12]_power")


def convert(variables: Mapping[str, np.ndarray], hparams: TransformerHParams, target_space_id: int) -> dict[str, Any]:
    """Sorts the variables of a checkpoint into weights, moments of Adam, and counters, as fields of a `ForeignRun`.

    `target_space_id` is the problem's row of the target space table.

    Raises:
        UserError: unknown variables, all of which are named, or missing shards of a table.
    """
    rename = functools.partial(_rename_variables, hparams, target_space_id)
    network: Arrays = {}
    slots: dict[str, Arrays] = {}
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
            f"{', '.join(sorted(unknown))}",
            "only plain Transformers can be imported",
        )
    adam = all(slots.get(slot, {}).keys() == network.keys() for slot in _ADAM)
    moments = {ours: rename(slots[theirs]) for theirs, ours in _ADAM.items()} if adam else {}
    left = [f"{name}/{slot}" for slot, of in slots.items() for name in of if not (adam and slot in _ADAM)]
    return {
        "step": int(variables.get("global_step", 0)),
        "weights": rename(network),
        "moments": moments,
        "tensors": len(network),
        "unused": dict.fromkeys(sorted([*counters, *left]), "counters and slots"),
    }


def _rename_variables(hparams: TransformerHParams, target_space_id: int, variables: Mapping[str, np.ndarray]) -> Arrays:
    """Returns the arrays by our paths."""
    arrays: Arrays = {}
    tables: dict[str, dict[int, np.ndarray]] = {}
    sizes = set()
    for name, array in variables.items():
        place = parse_name(name)
        assert place is not None, "only variables that have one are here"
        if place.shard is not None:
            tables.setdefault(place.paths[0], {})[place.shard] = array
            sizes.add(place.vocab_size)
        elif place.paths == (TARGET_SPACE,):
            if not 0 <= target_space_id < len(array):
                raise UserError(
                    f"the checkpoint's table has rows 0 to {len(array) - 1}",
                    "name one",
                    option="target_space_id",
                    value=target_space_id,
                )
            arrays[TARGET_SPACE] = array[target_space_id]
        elif place.paths[0].endswith(RELATIVE_KEYS):
            arrays[place.paths[0]] = _of_each_head(array, place.paths[0].startswith("decoder"), hparams)
        else:
            parts = _unpacked(name, array, place, hparams.key_channels, hparams.value_channels)
            arrays |= zip(place.paths, parts, strict=True)
    _check_tables({path: sorted(shards) for path, shards in tables.items()}, sizes)
    return arrays | {path: np.concatenate([rows for _, rows in sorted(of.items())]) for path, of in tables.items()}


def _of_each_head(vectors: np.ndarray, causal: bool, hparams: TransformerHParams) -> np.ndarray:
    """Returns vectors of distances, (H, R, K/H), for each head; a decoder never reads those of keys after the query."""
    vectors = vectors if vectors.ndim > 2 else np.repeat(vectors[None], hparams.num_heads, axis=0)
    return vectors[:, : hparams.relative_keys] if causal else vectors


def _unpacked(name: str, array: np.ndarray, place: Place, key_channels: int, value_channels: int) -> list[np.ndarray]:
    """Splits a variable into its packed parts; kernels of 1-wide convolutions lose their axes of size 1."""
    if array.ndim > 2:
        array = array.reshape([*(n for n in array.shape[:-2] if n != 1), *array.shape[-2:]])
    if len(place.paths) == 1:
        return [array]
    widths = [value_channels if "/value_" in path else key_channels for path in place.paths]
    if array.shape[-1] != sum(widths):
        raise UserError(
            f"variable {name} of the checkpoint has {array.shape[-1]} columns; hparams.json asks for "
            f"{' + '.join(map(str, widths))}",
            "they are not of one run",
        )
    return np.split(array, np.cumsum(widths)[:-1], axis=-1)


def _check_tables(shards: Mapping[str, list[int]], sizes: Collection[Any]) -> None:
    """Raises UserError unless every table has all its shards and all tables have one vocabulary size."""
    if len(sizes) > 1:
        raise UserError(
            f"the checkpoint has tables for vocabularies of {' and '.join(map(str, sorted(sizes)))} ids",
            "only runs with one vocabulary for both sides can be imported",
        )
    for path, numbers in shards.items():
        if numbers != list(range(len(numbers))):
            missing = sorted(set(range(max(numbers) + 1)) - set(numbers))
            raise UserError(
                f"the checkpoint's {path} lacks blocks {', '.join(f'weights_{n}' for n in missing) or 'of rows'}",
                "copy all of its files again",
            )
