"""What must hold of every model: `t2t.check_model`, and the first call of a plug-in's model before it trains.

`t2t.check_model` tells whether a model computes in training what it computes in decoding, for those who write one.

Legend: B batch, T target length, D width, V vocabulary, N rows decoded together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.files.paths import StrPath
from t2t.hparams.base import HParams
from t2t.registry import MODELS
from t2t.registry.overrides import PluginError, described, plugin_errors
from t2t.runs.arguments import checks_arguments
from t2t.runs.config import RunConfig
from t2t.runs.names import build_hparams, check_family
from t2t.runs.startup import load_plugins_quietly
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

_VOCABULARY = 20
_SPECS = {
    FeatureKind.TOKENS: FeatureSpec(
        kind=FeatureKind.TOKENS, vocab_size=_VOCABULARY, word_starts="00" + "1" * (_VOCABULARY - 2)
    ),
    FeatureKind.LABEL: FeatureSpec(kind=FeatureKind.LABEL, vocab_size=5),
    FeatureKind.IMAGE: FeatureSpec(kind=FeatureKind.IMAGE, shape=(32, 32, 3)),
    FeatureKind.AUDIO: FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=16000),
    FeatureKind.REAL: FeatureSpec(kind=FeatureKind.REAL, shape=(4,)),
    FeatureKind.VIDEO: FeatureSpec(kind=FeatureKind.VIDEO, shape=(16, 16, 1)),
}
_LENGTHS = {INPUTS: (5, 3, 7), TARGETS: (4, 6, 2)}
_PADDING = 3
"""More padding than necessary, in units of `_LENGTHS`."""


@checks_arguments()
def check_model(
    model: str, hparams_set: str, *, hparams: str | Mapping[str, Any] = "", t2t_usr_dir: StrPath | None = None
) -> None:
    """Checks what training and decoding rely on in a model, with random weights and examples.

    For each kind of inputs and targets that the model accepts: every weight exists after construction, and the weights
    are all that a model remembers; without a seed there is no dropout; padding and the other examples of a batch change
    nothing; no prediction depends on later targets; and decoding step by step, in beams that are reordered, gives the
    logits of the full forward pass.

    Args:
        model: its name.
        hparams_set: name of an hparams set of its family; a small one is checked in seconds.
        hparams: overrides of the set, as in `train`.
        t2t_usr_dir: folder of the plug-in that defines them.

    Raises:
        UserError: an unknown name; or one of these does not hold, and which.
    """
    load_plugins_quietly(t2t_usr_dir)
    from t2t.backends import backend
    from t2t.backends.base import FLOAT32

    backend().apply_precision(FLOAT32)
    config = RunConfig.given({"model": model, "hparams_set": hparams_set, "hparams": hparams})
    model_class, values = MODELS.get(model), build_hparams(config)[0].freeze()
    check_family(model, hparams_set, model_class, values)
    for source, target in itertools.product(model_class.accepts_inputs, model_class.accepts_targets):
        kinds = {TARGETS: target} if source is None else {INPUTS: source, TARGETS: target}
        spec = ProblemSpec(name="check", features={name: _SPECS[kind] for name, kind in kinds.items()})
        _ModelCheck(model_class, values, spec).run()


class _ModelCheck:
    """The checks of a model of one spec.

    Args:
        model_class: that of the model.
        hparams: of the model.
        spec: of the examples.
    """

    def __init__(self, model_class: type[Any], hparams: HParams, spec: ProblemSpec):
        from t2t.models.creation import all_weights_exist

        self._model_class, self._hparams, self._spec = model_class, hparams, spec
        self._rng = np.random.default_rng(0)
        self.model = self._new(1)
        self.features = self._examples(_PADDING)
        self.keep = self._keep(self.features)
        with all_weights_exist(self.model):
            self.full = self._logits(self.model, self.features)

    def run(self) -> None:
        """Raises UserError for the first check that fails."""
        self._check_seeds()
        self._check_weights()
        if self.model.autoregressive:
            self._check_later_targets()
        self._check_padding()
        if self.model.autoregressive:
            self._check_steps()
        elif INPUTS in self.features and not self.model.mask_predicts:
            alone = self._logits(self.model, {INPUTS: self.features[INPUTS]})
            cut = alone[:, : self.full.shape[1]]
            self._compare("targets change logits", cut, self.full, "read no more than their number, or decode them")

    def _new(self, seed: int) -> Any:
        """Returns a model whose weights differ from their initial values, so that zeros among these hide nothing."""
        import keras

        from t2t.models.creation import create_model

        keras.utils.set_random_seed(seed)
        model = create_model(self._model_class, self._hparams, self._spec, "float32")
        for variable in model.trainable_variables:
            noise = self._rng.normal(0.0, 0.1, variable.shape)
            variable.assign(np.asarray(variable) + noise.astype(variable.dtype))
        return model

    def _check_weights(self) -> None:
        weights = {variable.path: np.asarray(variable) for variable in self.model.variables}
        other = self._new(2)
        if sorted(weights) != sorted(variable.path for variable in other.variables):
            raise self._error("a second one has weights of other paths; name each layer")
        for variable in other.variables:
            variable.assign(weights[variable.path])
        self._compare(
            "another one with the same weights gives other logits", self._logits(other, self.features), self.full,
            "keep each layer in an attribute, so that Keras finds its weights, and nothing else that calls change",
        )  # fmt: skip

    def _check_seeds(self) -> None:
        for seed, which in ((None, "without a"), (np.array([3, 5], np.uint32), "with the same")):
            first, second = (self._logits(self.model, self.features, seed) for _ in range(2))
            self._compare(f"a second call {which} seed gives other logits", second, first, "draw from the seed only")

    def _check_padding(self) -> None:
        narrow = self._examples(0)
        found = self._logits(self.model, narrow)
        self._compare(
            "more padding changes logits", found[self._keep(narrow)], self.full[self.keep],
            "mask what is padding, see keep of the modalities",
        )  # fmt: skip
        for row in (1, 2):  # the shortest input and the longest
            alone = self._logits(self.model, {name: array[row : row + 1] for name, array in self.features.items()})
            self._compare(
                "the other examples of a batch change logits", alone[0][self.keep[row]], self.full[row][self.keep[row]],
                "compute each row by itself",
            )  # fmt: skip

    def _check_later_targets(self) -> None:
        length = 6
        targets_BT = self._rng.integers(2, _VOCABULARY, (3, length), np.int32)
        changed = np.repeat(targets_BT[None], length + 1, axis=0)  # the last one stays as it is
        for position in range(length):
            changed[position, :, position] = 2 + (targets_BT[:, position] - 1) % (_VOCABULARY - 2)
        features = {name: np.concatenate([array] * (length + 1)) for name, array in self.features.items()}
        found = self._logits(self.model, {**features, TARGETS: changed.reshape(-1, length)})
        found = found.reshape(length + 1, 3, length, -1)
        for position in range(length):
            before = (slice(None), slice(position + 1))
            self._compare(
                f"the target at position {position} changes logits of earlier ones or its own", found[position][before],
                found[-1][before], "mask later positions, e.g. with span=CAUSAL",
            )  # fmt: skip

    def _check_steps(self) -> None:
        """Decodes two beams of each example, which change places in between."""
        length, changes_at = 6, 3
        targets_NT = self._rng.integers(2, _VOCABULARY, (6, length), np.int32)
        repeated = {name: np.repeat(array, 2, axis=0) for name, array in self.features.items()}
        full_NTV = self._logits(self.model, {**repeated, TARGETS: targets_NT})
        encoded = self.model.encode(as_tensors(self.features))
        cache, last_N = self.model.init_cache(encoded, 6, length, 2), np.zeros(6, np.int32)
        for position in range(length):
            if position == changes_at:
                cache = self.model.reorder_cache(cache, as_tensors(np.array([[1, 0]] * 3, np.int32)))
                targets_NT, full_NTV = (array[[1, 0, 3, 2, 5, 4]] for array in (targets_NT, full_NTV))
                last_N = targets_NT[:, position - 1]
            logits_NV, cache = self.model.decode_step(as_tensors(last_N), position, cache, encoded)
            reordered = ", after the beams were reordered" if position >= changes_at else ""
            self._compare(
                f"decoding at position {position}{reordered} gives other logits than the full forward pass",
                as_array(logits_NV), full_NTV[:, position], "compute the same from the cache",
            )  # fmt: skip
            last_N = targets_NT[:, position]

    def _logits(self, model: Any, features: Features, seed: np.ndarray | None = None) -> np.ndarray:
        return as_array(model(as_tensors(features), seed=None if seed is None else as_tensors(seed)))

    def _compare(self, what: str, found: np.ndarray, expected: np.ndarray, cure: str) -> None:
        """Raises UserError if logits differ, or are not finite."""
        worst = float(np.abs(found - expected).max(initial=0.0))
        if not worst <= TOLERANCE * max(1.0, float(np.abs(expected).max(initial=0.0))):
            raise self._error(f"{what}, by up to {worst:.2g}; {cure}")

    def _error(self, text: str) -> UserError:
        kinds = " to ".join(str(self._spec.features[name].kind) for name in sorted(self._spec.features))
        return UserError(f"model {type(self.model).__name__}, {kinds}: {text}")

    def _examples(self, padding: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(4)  # the same examples with any padding
        return {name: random_column(spec, _LENGTHS[name], padding, rng) for name, spec in self._spec.features.items()}

    def _keep(self, features: Features) -> np.ndarray:
        """Returns which logits are of data: (B, T) bool of tokens, (B,) of classes."""
        targets = features[TARGETS]
        return targets != 0 if targets.ndim > 1 else np.ones(len(targets), bool)


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
            raise PluginError(f"{own}: without a seed, a second call gives other logits", "draw from the seed only")
        if is_causal and (difference := np.abs(logits[0, :-1] - logits[1, :-1]).max()) > least:
            raise PluginError(
                f"{own}: a target changes logits of earlier ones or its own, by up to {difference:.2g}, so that the "
                "model would learn to copy targets",
                "mask later positions, e.g. with span=CAUSAL",
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
            f"{own}: for targets of shape {tuple(targets.shape)} it gives hidden states of {found}", f"return {needed}"
        )
    width = model.hparams.output_size
    if len(targets.shape) == 2 and tuple(hidden.shape[1:]) != (targets.shape[1], width):
        raise PluginError(
            f"{own}: for targets of shape {tuple(targets.shape)} it gives hidden states of shape {tuple(hidden.shape)}",
            f"return (B, T, D) with T={targets.shape[1]} and D={width}",
        )
    logits, size = as_array(model.logits(body)), model.spec.targets.vocab_size
    if model.spec.targets.kind in (FeatureKind.TOKENS, FeatureKind.LABEL) and logits.shape[-1] != size:
        raise PluginError(f"{own}: its logits have shape {logits.shape}", f"the last axis must have the {size} ids")
    if np.isnan(logits).any():
        raise PluginError(f"{own}: its logits are nan before any training", "look for a log or a division by 0")
    loss = model.loss_sum(body, targets)
    if not (isinstance(loss, tuple) and [len(getattr(one, "shape", (0, 0))) for one in loss] == [0, 0]):
        raise PluginError(f"{own}: its loss_sum does not return two scalars", "return the sum of losses and the number")
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
