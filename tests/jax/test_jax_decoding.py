"""JAX decodes, scores and evaluates as TensorFlow does, where TensorFlow is not installed."""

import importlib
import pkgutil
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import t2t
from t2t.decoding.settings import SearchSettings
from tests.builders import tiny_transformer
from tests.jax.decoding_cases import CASES, SOURCES, decoded

GOLDEN_RUN = Path(__file__).parents[1] / "golden/runs/0.1.0"
LOWER_FLOORS = (
    "errors", "files", "registry", "specs", "text", "hparams", "problems", "data", "layers", "models", "decoding",
    "metrics", "checkpoints",
)  # fmt: skip


def test_the_engine_is_jax():
    assert keras.backend.backend() == "jax"


@pytest.mark.parametrize("name", CASES)
def test_as_tensorflow(name, check_same):
    check_same(name, CASES[name]())


def test_weights_count_as_they_are_at_each_call():
    model, settings = tiny_transformer(), SearchSettings(beam_size=2)
    before = decoded(model, settings, SOURCES[:3])
    other = tiny_transformer(seed=2)
    for variable, value in zip(model.variables, other.variables, strict=True):
        variable.assign(value)
    after, expected = decoded(model, settings, SOURCES[:3]), decoded(other, settings, SOURCES[:3])
    assert any((before[key].shape != after[key].shape) or (before[key] != after[key]).any() for key in before)
    for key, value in expected.items():
        np.testing.assert_array_equal(after[key], value)


def test_a_run_is_loaded_and_decoded_with():
    translator = t2t.load(GOLDEN_RUN / "run")
    lines = (GOLDEN_RUN / "lines").read_text(encoding="utf-8").splitlines()
    assert translator.engine.name == "JAX"
    assert [found[0].text for found in translator.translate(lines)] != []


def test_lower_floors_do_not_need_tensorflow():
    names = [module.name for module in pkgutil.walk_packages(t2t.__path__, "t2t.")]
    for name in names:
        if name.split(".")[1] in LOWER_FLOORS:
            importlib.import_module(name)
    assert not [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]
