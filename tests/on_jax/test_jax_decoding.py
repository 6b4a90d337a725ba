"""JAX decodes, scores and evaluates as TensorFlow does, without TensorFlow installed."""

import importlib
import pkgutil
import shlex
import shutil
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import t2t
from t2t.backends import check_tensorflow
from t2t.backends.jax.backend import JaxBackend
from t2t.search.settings import SearchSettings
from tests.errors import refused
from tests.on_jax.decoding_cases import CASES, MANY, SOURCES, TERMS, constrained, decoded, tiny
from tests.readme import ROOT, block

PAGE = ROOT / "docs/jax.md"
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
    model, other, settings = tiny(), tiny(seed=2), SearchSettings(beam_size=2)
    before = decoded(model, settings, SOURCES[:3])
    for variable, value in zip(model.variables, other.variables, strict=True):
        variable.assign(value)
    after, expected = decoded(model, settings, SOURCES[:3]), decoded(other, settings, SOURCES[:3])
    assert any((before[key].shape != after[key].shape) or (before[key] != after[key]).any() for key in before)
    for key, value in expected.items():
        np.testing.assert_array_equal(after[key], value)


@pytest.fixture
def compiled(caplog):
    """Returns a function that calls another, and returns the programs that were compiled, and its result."""
    caplog.set_level("DEBUG", logger="t2t")

    def call(function, *args):
        caplog.clear()
        found = function(*args)
        return [record.args[0] for record in caplog.records if record.msg.startswith("XLA compiles")], found

    return call


def test_on_accelerators_batches_do_not_shrink_and_need_fewer_programs(monkeypatch, compiled):
    programs, expected = compiled(decoded, tiny(), SearchSettings(beam_size=2), MANY)
    assert {"a search", "the choice of sentences"} < set(programs)
    monkeypatch.setattr(JaxBackend, "on_accelerators", lambda self: True)
    fewer, found = compiled(decoded, tiny(), SearchSettings(beam_size=2), MANY)
    assert "the choice of sentences" not in fewer
    assert fewer.count("a search") < programs.count("a search")
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", TERMS)
def test_constraints_of_one_kind_share_programs(kind, compiled):
    """That they find what they find alone is a case above."""
    programs, _ = compiled(constrained, kind)
    assert sorted(programs) == ["a search", "its result", "the beginning of a search", "the weights of its steps"]


def test_copies_on_several_devices_and_of_several_each_give_what_one_gives(tmp_path):
    shutil.copytree(GOLDEN_RUN / "run", tmp_path / "run")
    texts = (GOLDEN_RUN / "lines").read_text().strip().split("\n") * 3
    expected = t2t.load(tmp_path / "run").translate(texts)
    for shards, copies in ((1, 4), (2, 2)):
        translator = t2t.load(tmp_path / "run", worker_cpu=4, weight_shards=shards)
        names = translator.engine.devices
        assert len(set(names)) == len(names) == copies
        for found, wanted in zip(translator.translate(texts), expected, strict=True):
            assert found[0].text == wanted[0].text
            assert found[0].log_prob == pytest.approx(wanted[0].log_prob, abs=1e-4)


def test_commands_of_the_page_decode_and_evaluate_a_run(tmp_path, monkeypatch, capsys):
    """With a run that TensorFlow trained; the outputs are the same as TensorFlow's."""
    shutil.copytree(GOLDEN_RUN / "run", tmp_path / "run")
    shutil.copytree(GOLDEN_RUN / "data", tmp_path / "data")
    shutil.copy(GOLDEN_RUN / "lines", tmp_path / "source.txt")
    monkeypatch.chdir(tmp_path)
    for line in block("jax", page=PAGE).splitlines():
        engine, command, *flags = shlex.split(line)
        assert engine == "KERAS_BACKEND=jax"
        assert importlib.import_module(f"t2t.cli.{command.removeprefix('t2t-')}").main([command, *flags]) == 0
    assert Path("output.txt").read_bytes() == (GOLDEN_RUN / "decodes").read_bytes()
    assert "teacher_forced/loss" in capsys.readouterr().out


def test_scores_of_a_run_are_those_of_tensorflow():
    translator = t2t.load(GOLDEN_RUN / "run")
    assert translator.engine.name == "JAX"
    pairs = [(GOLDEN_RUN / name).read_text(encoding="utf-8").splitlines() for name in ("lines", "decodes")]
    expected = [float(line) for line in (GOLDEN_RUN / "scores").read_text().splitlines()]
    assert translator.score(list(zip(*pairs, strict=True))) == pytest.approx(expected, abs=1e-4)


def test_exports_are_refused():
    with refused("KERAS_BACKEND=jax:"):
        check_tensorflow("exports are made by TensorFlow")


def test_lower_floors_do_not_need_tensorflow():
    names = [module.name for module in pkgutil.walk_packages(t2t.__path__, "t2t.")]
    for name in names:
        if name.split(".")[1] in LOWER_FLOORS:
            importlib.import_module(name)
    assert not [name for name in sys.modules if name.partition(".")[0] == "tensorflow"]
