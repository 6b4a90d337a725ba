"""The first call of a model of a plug-in, before it trains: what training relies on and a run can check in a second.

Legend: B batch, T target length, D width.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from t2t.registry.overrides import PluginError, described, plugin_errors
from t2t.specs.constants import TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec

_POSITIONS = 5
"""Targets of an example."""
_SAMPLES_PER_POSITION = 1000
"""Length of audio for each position."""
TOLERANCE = 1e-3
"""Largest difference of logits, relative to the largest logit if that is above 1."""

Features = Mapping[str, np.ndarray]


def check_first_call(model: Any) -> None:
    """Checks a new model of a plug-in with two small random examples, before it trains.

    Its outputs and loss have the shapes that training needs, no call creates weights, and no logits depend on later
    targets. `check_model` checks more.

    Raises:
        UserError: one of these does not hold, or the code of the model fails.
    """
    from t2t.models.creation import all_weights_exist

    for member in model.spec.members or (model.spec,):
        view, own = model.for_problem(member.name), described(type(model))
        rng = np.random.default_rng(0)
        features = {name: random_column(one, (_POSITIONS,) * 2, 0, rng) for name, one in member.features.items()}
        is_causal = view.autoregressive and member.targets.kind == FeatureKind.TOKENS and member.targets.vocab_size > 3
        if is_causal:  # two examples that differ in the target before the last one
            features = {name: np.repeat(array[:1], 2, axis=0) for name, array in features.items()}
            features[TARGETS][:, -2] = (2, 3)
        with plugin_errors(type(model), "fails in its first call"), all_weights_exist(model):
            logits = _call_once(view, as_tensors(features), own)
            again = _call_once(view, as_tensors(features), own)
        least = TOLERANCE * max(1.0, float(np.abs(logits).max()))
        if np.abs(logits - again).max() > least:
            raise PluginError(f"{own}: without a seed, a second call gives other logits; draw from the seed only")
        if is_causal and (difference := np.abs(logits[0, :-1] - logits[1, :-1]).max()) > least:
            raise PluginError(
                f"{own}: a target changes logits of earlier ones or its own, by up to {difference:.2g}, so that the "
                f"model would learn to copy targets; mask later positions, e.g. with span=CAUSAL"
            )


def _call_once(model: Any, features: Features, own: str) -> np.ndarray:
    """Returns the logits of a batch; raises PluginError for outputs that training cannot use."""
    from t2t.layers.mode import without_costs

    targets = features[TARGETS]
    body = model.body(features, seed=None)
    hidden = without_costs(body)
    if not hasattr(hidden, "shape") or len(hidden.shape) != len(targets.shape) + 1:
        found = f"shape {tuple(hidden.shape)}" if hasattr(hidden, "shape") else f"type {type(hidden).__name__}"
        needed = "(B, T, D)" if len(targets.shape) > 1 else "(B, D)"
        raise PluginError(
            f"{own}: for targets of shape {tuple(targets.shape)} it gives hidden states of {found}; return {needed}"
        )
    width = model.hparams.output_size
    if len(targets.shape) == 2 and tuple(hidden.shape[1:]) != (targets.shape[1], width):
        raise PluginError(
            f"{own}: for targets of shape {tuple(targets.shape)} it gives hidden states of shape "
            f"{tuple(hidden.shape)}; return (B, T, D) with T={targets.shape[1]} and D={width}"
        )
    logits, size = as_array(model.logits(body)), model.spec.targets.vocab_size
    if model.spec.targets.kind in (FeatureKind.TOKENS, FeatureKind.LABEL) and logits.shape[-1] != size:
        raise PluginError(f"{own}: its logits have shape {logits.shape}; the last axis must have the {size} ids")
    if np.isnan(logits).any():
        raise PluginError(f"{own}: its logits are nan before any training; look for a log or a division by 0")
    loss = model.loss_sum(body, targets)
    if not (isinstance(loss, tuple) and [len(getattr(one, "shape", (0, 0))) for one in loss] == [0, 0]):
        raise PluginError(f"{own}: its loss_sum must return two scalars, the sum of losses and the number of targets")
    return logits


def random_column(spec: FeatureSpec, lengths: tuple[int, ...], padding: int, rng: np.random.Generator) -> np.ndarray:
    """Returns random examples of a feature, padded with zeros."""
    if spec.kind == FeatureKind.LABEL:
        return rng.integers(0, spec.vocab_size, len(lengths), np.int32)
    if spec.kind == FeatureKind.IMAGE:
        return rng.integers(0, 256, (len(lengths), *spec.shape), np.uint8)
    unit = _SAMPLES_PER_POSITION if spec.kind == FeatureKind.AUDIO else 1
    rows = [np.asarray(row) for row in _rows(spec, [unit * length for length in lengths], rng)]
    column = np.zeros((len(rows), unit * (max(lengths) + padding), *spec.shape), rows[0].dtype)
    for place, row in zip(column, rows, strict=True):
        place[: len(row)] = row
    return column


def _rows(spec: FeatureSpec, lengths: list[int], rng: np.random.Generator) -> Iterator[np.ndarray]:
    for length in lengths:
        if spec.kind == FeatureKind.TOKENS:
            yield np.array([*rng.integers(2, spec.vocab_size, length - 1), 1], np.int32)
        elif spec.kind == FeatureKind.VIDEO:
            yield rng.integers(1, 256, (length, *spec.shape), np.uint8)
        else:
            yield rng.uniform(-1.0, 1.0, (length, *spec.shape)).astype(np.float32)


def as_tensors(values: Any) -> Any:
    """Returns a structure of arrays as tensors."""
    import keras

    return keras.tree.map_structure(keras.ops.convert_to_tensor, values)


def as_array(tensor: Any) -> np.ndarray:
    """Returns a tensor as an array."""
    import keras

    return keras.ops.convert_to_numpy(tensor)
