"""Hparams with several values drawn, each valid alone: they are refused together, or make a model that computes.

Legend: B batch, T target length, V vocabulary.
"""

import zlib

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.models.creation import create_model
from t2t.registry import MODELS
from t2t.specs import POSITIONS
from tests.builders import numpy, padded, randomise, seed, tokens_spec
from tests.conformance.model_cases import features_of, spec_of
from tests.small_models import NAMES, small_hparams, takes

QUICK, DRAWS, CHANGES = {"transformer": 2, "evolved_transformer": 1, "byte_net": 1}, 12, 4
"""Sets of the default tests, of the exhaustive tests for each model, and values drawn for each set."""
BASES = {
    "resnet": {"num_hidden_layers": 6},
    "transformer_cmlm": {"decode_method": "mask_predict"},
    "universal_transformer": {"num_decoder_layers": 0},
}
NUMBERS = {int: (0, 1, 2, 3, 4, 5, 6, 8, 9, 12), float: (0.0, 0.1, 0.5, 1.0, 2.0), bool: (False, True)}
OF_OTHER_SECTIONS = {"packed_length": (0, 20), "precision": ("float32", "mixed_bfloat16", "mixed_float16")}
"""Hparams of other sections that change what a model computes."""
CASES = [
    pytest.param(name, number, marks=() if number < QUICK.get(name, 0) else pytest.mark.exhaustive)
    for name in NAMES
    for number in range(DRAWS)
]


def drawn(name, number, spec):
    """Returns the first set that is valid, of those with random values; the same in every process."""
    model_class, rng = MODELS.get(name), np.random.default_rng([zlib.crc32(name.encode()), number])
    base = small_hparams(model_class, BASES.get(name, {}))
    of_model = {one: value for one, value in base.to_dict()["model"].items() if type(value) in NUMBERS or value}
    for _ in range(1000):
        changes = {}
        for one in map(str, rng.choice([*of_model, *OF_OTHER_SECTIONS], CHANGES, replace=False)):
            rules, kind = base.field_of(one).metadata, type(getattr(base, one))
            values = OF_OTHER_SECTIONS.get(one) or rules["choices"] or NUMBERS.get(kind, (getattr(base, one),))
            changes[one] = values[rng.integers(len(values))]
            if condition := rules["used_when"]:
                changes[condition.field] = condition.values[rng.integers(len(condition.values))]
        try:
            hparams = base.replace(**changes).freeze()
            model_class.check_hparams(hparams)
            model_class.check_new(hparams, base, spec)
            return changes, create_model(model_class, hparams, spec, hparams.precision)
        except UserError:
            continue
    raise AssertionError(f"no set of {name} is valid")


def packed(features):
    """Returns rows that each hold an example and one more."""
    made = {}
    for name, ids in features.items():
        pairs = [[row[row != 0] for row in rows] for rows in zip(ids, ids[::-1], strict=True)]
        made[name] = padded([np.concatenate(pair) for pair in pairs])
        made[POSITIONS[name]] = padded([np.concatenate([np.arange(len(row)) for row in pair]) for pair in pairs])
    return made


@pytest.mark.parametrize(("name", "number"), CASES)
@pytest.mark.filterwarnings("ignore:You are using a softmax over axis")  # over a single key
def test_a_set_of_values_that_are_valid_is_refused_or_computes(name, number):
    model_class = MODELS.get(name)
    is_of_texts = takes(model_class, tokens_spec())
    kinds = (model_class.accepts_inputs[0], model_class.accepts_targets[0])
    changes, model = drawn(name, number, tokens_spec(tells_words=True) if is_of_texts else spec_of(*kinds))
    print(changes)  # if it fails
    features = features_of(randomise(model))
    given = packed(features) if model.hparams.packed_length else features
    loss, _ = model.loss_sum(model.body(given, seed=seed(1, 2)), given["targets"])
    full = numpy(model(features))
    assert np.isfinite(float(loss))
    assert np.isfinite(full).all()
    if not model.autoregressive:
        return
    encoded, targets = model.encode(features), features["targets"]
    cache, last = model.init_cache(encoded, 3, 8), np.zeros(3, np.int32)
    for position in range(targets.shape[1]):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last = targets[:, position]
        found, expected = (array[last != 0] for array in (numpy(logits), full[:, position]))
        assert np.isfinite(found).all()
        if model.hparams.precision == "float32":
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
