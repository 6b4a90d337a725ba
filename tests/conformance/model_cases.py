"""Small models of every registered class, in the variants of its hparams and on the kinds of features that it accepts.

A case is a model class, hparams and the spec of a problem.
"""

import numpy as np
import pytest

from t2t.registry import MODELS
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.builders import batch, tokens_spec
from tests.kinds import SPECS, column
from tests.small_models import NAMES, VARIANTS, small_hparams, takes

CACHES = (
    "default", "a window, vectors of each head", "a recurrent decoder", "relative positions",
    "rotary positions, shared keys, gates, other norms", "relative biases, no biases of maps",
    "several rows and steps", "adaptive computation time",
    "projected cells, experts in two levels",
)  # fmt: skip
"""Variants whose decoding caches have different contents."""
TEXTS = {"inputs": tokens_spec(), "no inputs": tokens_spec(inputs=0)}
QUICK = {
    "transformer": ("default", "a recurrent decoder"),
    "universal_transformer": ("default", "adaptive computation time"),
    "others": ("default",),
}
"""Variants of each model in the default tests; the exhaustive tests have all."""
QUICK_KINDS = ("transformer", "conv_s2s", "lstm_seq2seq_attention", "slice_net", "multi_model")
"""Models whose cases with token targets are in the default tests; those of other models are slow."""


def text_cases(autoregressive=None, variants=tuple(VARIANTS), quick=QUICK):
    """Yields cases of tokens, with and without inputs."""
    for name in NAMES:
        model_class = MODELS.get(name)
        if autoregressive not in (None, model_class.autoregressive):
            continue
        for variant_name in variants:
            hparams = small_hparams(model_class, VARIANTS[variant_name])
            for spec_name, spec in TEXTS.items():
                if hparams is not None and takes(model_class, spec):
                    marks = () if variant_name in quick.get(name, quick["others"]) else pytest.mark.exhaustive
                    has_both = takes(model_class, TEXTS["inputs"]) and name != "transformer"
                    if not marks and spec is TEXTS["no inputs"] and has_both:
                        marks = pytest.mark.slow  # the default tests have the model with inputs
                    case = (model_class, hparams, spec)
                    yield pytest.param(case, id=f"{name}, {variant_name}, {spec_name}", marks=marks)


def kind_cases():
    """Yields cases of images, clips, sound, texts and others."""
    tokens = FeatureKind.TOKENS
    for name in NAMES:
        model_class = MODELS.get(name)
        for source in model_class.accepts_inputs:
            for target in model_class.accepts_targets:
                if source is not None and (source, target) != (tokens, tokens):
                    marks = pytest.mark.exhaustive
                    is_first = target == model_class.accepts_targets[0]
                    if is_first and (name == "transformer" or source in (tokens, FeatureKind.IMAGE)):
                        marks = () if name in QUICK_KINDS or target != tokens else pytest.mark.slow
                    case = (model_class, small_hparams(model_class, {"max_length": 32}), spec_of(source, target))
                    yield pytest.param(case, id=f"{name}, {source} to {target}", marks=marks)


def spec_of(source, target):
    kinds = {"targets": target} | ({"inputs": source} if source else {})
    return ProblemSpec(name="kinds", features={name: SPECS[kind] for name, kind in kinds.items()})


def features_of(model, wide=False, **changes):
    """Returns features of three examples, with more padding than necessary if `wide`; `changes` are those of tokens."""
    kinds = {name: feature.kind for name, feature in model.spec.features.items()}
    if is_of_texts(model):
        features = batch(**changes, widths=(9, 8) if wide else (0, 0))
        return {name: features[name] for name in kinds}
    widths = {"inputs": 333 * wide, "targets": 11 * wide}
    return {name: column(kind, 1 + (name == "targets"), widths[name]) for name, kind in kinds.items()}


def is_of_texts(model):
    return all(feature.kind == FeatureKind.TOKENS for feature in model.spec.features.values())


def data_of(features):
    """Mask of the rows, or rows and positions, of the logits that are not padding."""
    targets = features["targets"]
    return targets != 0 if targets.ndim > 1 else np.ones(len(targets), bool)
