"""Every registered model that writes tokens: two updates, and a search, by whichever engine Keras has."""

import functools
from unittest import mock

import numpy as np
from keras import ops

from t2t.decoding.settings import SearchSettings
from t2t.registry import MODELS
from tests.builders import batch, randomise, tokens_spec
from tests.on_jax.decoding_cases import SOURCES, decoded
from tests.on_jax.training_cases import trained
from tests.small_models import NAMES, VARIANTS, small_hparams, takes

SPECS = {"inputs": tokens_spec(), "no inputs": tokens_spec(inputs=0)}


def computed(model_class, hparams, spec):
    """Weights and figures of two updates, and the outputs of a beam search where the model writes one by one."""
    build = functools.partial(model_class, hparams, spec)
    with mock.patch("keras.random.normal", _no_noise):  # of experts' gates; each engine has its own
        found = trained(build, "sgd", rate=1e-3, updates=2, examples=_batch)
    if model_class.autoregressive:
        sources = SOURCES if spec.inputs else [row[:-1] for row in SOURCES]
        searched = decoded(randomise(build(), 3), SearchSettings(beam_size=2), sources[:4])
        found |= {f"output {key}": value for key, value in searched.items()}
    return found


def _no_noise(shape, dtype=None, seed=None):
    return ops.zeros(shape, dtype)


def _batch(update, part):
    """Of one shape: each is compiled."""
    rng = np.random.default_rng([update, part])
    return batch(100 * update + part, tuple(rng.integers(1, 8, 3)), tuple(rng.integers(1, 8, 3)), widths=(8, 8))


def _cases():
    """Each model as it is by default, and each variant of the first model that has it.

    Without those that draw which targets they hide, by each engine's own generator: the cases of decoding have one.
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


CASES = dict(_cases())
"""Name to a function that returns arrays by name."""
