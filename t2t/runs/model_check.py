"""`t2t.check_model`: whether a model computes in training what it computes in decoding, for those who write one.

Legend: B batch, T target length, V vocabulary, N rows decoded together.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.registry import MODELS
from t2t.runs.api import StrPath
from t2t.runs.arguments import as_overrides, as_path, as_text, checks_arguments
from t2t.runs.config import RunConfig
from t2t.runs.first_call import TOLERANCE, Features, as_array, as_tensors, random_column
from t2t.runs.names import build_hparams, check_family
from t2t.runs.startup import load_plugins_quietly
from t2t.specs.constants import INPUTS, TARGETS
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
    load_plugins_quietly(as_path("t2t_usr_dir", t2t_usr_dir))
    from t2t.backends.base import FLOAT32
    from t2t.backends.choice import backend

    backend().apply_precision(FLOAT32)
    model, hparams_set = as_text("model", model), as_text("hparams_set", hparams_set)
    config = RunConfig(model=model, hparams_set=hparams_set, hparams=as_overrides(hparams))
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
        from t2t.models.base import all_weights_exist

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

        from t2t.models.base import create_model

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
