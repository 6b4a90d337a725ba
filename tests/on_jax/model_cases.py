"""Every registered model: two updates, and a search if it is autoregressive, on the current Keras backend."""

import functools
from unittest import mock

import numpy as np
from keras import ops

from t2t.registry import MODELS
from t2t.search.settings import SearchSettings
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.builders import batch, randomise, tokens_spec
from tests.kinds import SPECS as KINDS
from tests.kinds import column
from tests.on_jax.decoding_cases import SOURCES, decoded
from tests.on_jax.training_cases import trained
from tests.small_models import NAMES, VARIANTS, small_hparams, takes

SPECS = {"inputs": tokens_spec(), "no inputs": tokens_spec(inputs=0)}
NOT_THE_SAME = ("multi_model, audio to label", "shake_shake, image to label")
"""Cases that differ between backends: logarithms of small sound energies by 1e-4; random weights of branches."""


def computed(model_class, hparams, spec):
    """Returns weights and figures of two updates and, for autoregressive models, the outputs of a beam search."""
    build = functools.partial(model_class, hparams, spec)
    found = _trained_without_noise(build, _batch)
    if model_class.autoregressive:
        sources = SOURCES if spec.inputs else [row[:-1] for row in SOURCES]
        searched = decoded(randomise(build(), 3), SearchSettings(beam_size=2), sources[:4])
        found |= {f"output {key}": value for key, value in searched.items()}
    return found


def learnt(model_class, source, target):
    """Returns weights and figures of two updates."""
    spec = ProblemSpec(name="kinds", features={"inputs": KINDS[source], "targets": KINDS[target]})
    build = functools.partial(model_class, small_hparams(model_class, {}), spec)

    def examples(update, part):
        return {"inputs": column(source, 10 * update + part), "targets": column(target, 5 + 10 * update + part)}

    return _trained_without_noise(build, examples)


def _trained_without_noise(build, examples):
    """Leaves out the random noise of experts' gates, which differs between backends."""
    with mock.patch("keras.random.normal", _no_noise):
        return trained(build, "sgd", rate=1e-3, updates=2, examples=examples)


def _no_noise(shape, dtype=None, seed=None):
    return ops.zeros(shape, dtype)


def _batch(update, part):
    """Always of one shape, since each shape is compiled."""
    rng = np.random.default_rng([update, part])
    return batch(100 * update + part, tuple(rng.integers(1, 8, 3)), tuple(rng.integers(1, 8, 3)), widths=(8, 8))


def _cases():
    """Yields the default variant of each model, and each other variant of the first model that supports it.

    Models that mask random targets are left out, since the masks differ between backends; `decoding_cases` has one.
    """
    seen = set()
    for name in NAMES:
        model_class = MODELS.get(name)
        for variant, changes in VARIANTS.items():
            hparams = small_hparams(model_class, changes)
            specs = {what: spec for what, spec in SPECS.items() if takes(model_class, spec)}
            if model_class.mask_predicts or hparams is None or not specs or (variant in seen and variant != "default"):
                continue
            seen.add(variant)
            what, spec = next(iter(specs.items()))
            yield f"{name}, {variant}, {what}", functools.partial(computed, model_class, hparams, spec)


def _of_kinds():
    """Yields other pairs of kinds with the first model that accepts them, and all models without tokens to tokens."""
    seen = set()
    for name in NAMES:
        model_class = MODELS.get(name)
        sources, targets = model_class.accepts_inputs, model_class.accepts_targets
        pairs = [(source, target) for source in sources for target in targets if source is not None]
        others = [pair for pair in pairs if pair != (FeatureKind.TOKENS, FeatureKind.TOKENS)]
        for pair in others:
            if pair not in seen or (pair == pairs[0] and others == pairs):
                seen.add(pair)
                yield f"{name}, {pair[0]} to {pair[1]}", functools.partial(learnt, model_class, *pair)


CASES = {name: case for name, case in (*_cases(), *_of_kinds()) if name not in NOT_THE_SAME}
"""Functions that return arrays by name, keyed by the name of the case."""
