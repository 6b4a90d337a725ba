"""Problems that declare their features."""

import random

import numpy as np
import pytest

from t2t.data.columns import SEQUENCES
from t2t.data.generation.generate import generate
from t2t.data.generation.problem_settings import declared_by
from t2t.data.manifest import load_encoders
from t2t.data.reading.reader import SplitReader
from t2t.features import Audio, Image, Label, Text, Tree, Vector
from t2t.problems.base import Finished, Problem, Source, declared_spec, nominal_spec
from t2t.specs import TRAIN
from t2t.specs.features import FeatureKind
from tests.errors import refused

DIRECTIONS = {"up": (0.0, 1.0), "down": (0.0, -1.0), "left": (-1.0, 0.0)}


class Strokes(Problem):
    """Directions of strokes."""

    name = "strokes"
    features = {"inputs": Vector(2), "targets": Text(words=tuple(DIRECTIONS))}
    metrics = ("accuracy",)

    def generate_samples(self, split, source):
        for _ in range(30 if split == TRAIN else 5):
            names = source.rng.choices(list(DIRECTIONS), k=source.rng.randint(1, 4))
            yield {"inputs": np.array([DIRECTIONS[name] for name in names]), "targets": " ".join(names)}


class Wide(Strokes):
    features = {"inputs": Vector(3), "targets": Text("byte")}


class Parsed(Problem):
    """Sentences of one word to trees."""

    name = "parsed"
    features = {"inputs": Text("byte"), "targets": Tree()}

    def generate_samples(self, split, source):
        yield {"inputs": "runs", "targets": "S VBZ /S" if split == TRAIN else "S NN /S"}


def test_vectors_and_words_the_whole_way_and_back(tmp_path):
    manifest = generate(Strokes(), tmp_path, tmp_path, workers=1)
    spec, folder = manifest.spec, tmp_path / "strokes"
    assert (spec.inputs.kind, spec.inputs.shape) == (FeatureKind.REAL, (2,))
    assert (spec.targets.vocab_size, spec.shared_vocabulary) == (6, False)
    assert nominal_spec(Strokes()).inputs == declared_spec(Strokes()).inputs == spec.inputs
    problem, reader = Strokes().with_encoders(load_encoders(folder, manifest)), SplitReader(folder, manifest, "dev")
    targets, lengths = reader.read(np.arange(5), "targets")
    inputs, _ = reader.read(np.arange(5), "inputs")
    assert inputs.dtype == np.float32
    for ids in np.split(targets, np.cumsum(lengths)[:-1]):
        names = problem.decode_target(ids.tolist()).split()
        np.testing.assert_array_equal(inputs[: len(names)], [DIRECTIONS[name] for name in names])
        inputs = inputs[len(names) :]
    assert generate(Strokes(), tmp_path, tmp_path, workers=1) == manifest
    with refused(tmp_path / "strokes", "features"):
        generate(Wide(), tmp_path, tmp_path, workers=1)


def test_settings_of_features_are_of_the_data_and_options_change_those_of_free_text():
    recorded = declared_by(Strokes())["features"]
    assert recorded["inputs"]["channels"] == 2
    assert recorded["targets"]["words"] == list(DIRECTIONS)
    assert Wide(vocab_size=300).features["targets"].size == 300
    assert Strokes(vocab_kind="byte").features["targets"].vocabulary == "byte"
    assert Parsed(vocab_size=300).features["targets"].size == Tree().size
    with refused("'vocabulary'", "Strokes"):
        Strokes(vocabulary="byte")
    with refused("'words'"):
        Text("words")


def test_outputs_are_read_with_a_vocabulary():
    with refused("tokens", "with_encoders"):
        Strokes().decode_target([3])


@pytest.mark.parametrize(("value", "names"), [
    (np.zeros((3, 4)), "4 'inputs'"), (np.zeros(3), "'inputs' (length, 2)"), (np.zeros((3, 2), int), "'inputs'"),
    ([[0.0, 1.0]], "'inputs'"),
])  # fmt: skip
def test_what_is_wrong_with_vectors_is_named(value, names):
    fault = Strokes().sample_fault({"inputs": value, "targets": "up"})
    assert all(name in fault for name in (*names.split(), "'targets'"))
    assert Strokes().sample_fault({"inputs": np.zeros((1, 2)), "targets": "up"}) == ""


def test_a_tree_lists_the_labels_of_all_splits_and_finishes_outputs(tmp_path):
    problem = Parsed()
    problem.with_encoders(problem.build_encoders(Source(tmp_path, random.Random(0))))
    labels = problem.encoders["targets"]
    assert [labels.piece(number) for number in range(3, labels.vocab_size)] == ["/S", "S", "VBZ", "NN"]
    assert problem.finishes
    assert problem.finish("runs", "S VBZ /S") == Finished("(TOP (S (VBZ runs)))")
    assert problem.read_target("(S (VBZ runs))", "runs") == "S VBZ /S"
    assert problem.constraint("runs").words == 1
    assert problem.spec().targets.word_starts == "0000011"


@pytest.mark.parametrize(
    "feature", [Text("byte"), Label(("a", "b")), Image((2, 3, 1)), Audio(8000), Vector(4)], ids=repr
)
def test_a_feature_says_what_a_model_must_know_before_there_is_data(feature):
    spec = feature.nominal_spec(feature.fixed_encoder())
    assert spec.kind == feature.kind
    assert bool(spec.vocab_size) == (feature.fixed_encoder() is not None)
    assert bool(spec.shape) == (feature.kind in (FeatureKind.IMAGE, FeatureKind.REAL))
    assert (feature.kind in SEQUENCES) != (feature.kind in (FeatureKind.IMAGE, FeatureKind.LABEL))
