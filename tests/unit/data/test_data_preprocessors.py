"""Preprocessing between reading and batching: its result depends only on (seed, epoch, example)."""

import itertools

import numpy as np
import pytest

from t2t.data.generation.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reading.batch_arrays import extreme_batches
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.preprocessors import PreprocessingPool, generator_of
from t2t.data.reading.reader import SplitReader
from t2t.data.reading.training_batches import Curriculum, TrainingBatches
from t2t.problems.array_inputs import Image2Class
from t2t.problems.preprocessors import Preprocessor, RandomCrop, RandomFlip, TokenMasking
from t2t.problems.text_problems import Text2Text
from t2t.registry.overrides import PluginError
from tests.errors import refused
from tests.generated import Other, Parity, Repeated, epoch_of, examples_of, same_arrays

BOTH = (Other(features=("targets",)), Repeated(features=("inputs", "targets")))


class Numbered(Image2Class):
    """Images filled with a value for each example, plus 1 in the left column; no two are alike."""

    name = "numbered"
    image_shape = (4, 6, 1)
    class_labels = ("a", "b")

    def generate_samples(self, split, source):
        for number in range(40 if split == "train" else 5):
            image = np.full(self.image_shape, 4 * number + 1, np.uint8)
            image[:, 0] += 1
            yield {"inputs": image, "targets": "ab"[number % 2]}

    def preprocessors(self):
        return RandomCrop(padding=1), RandomFlip()


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    generate(Numbered(), folder, folder, workers=1)
    return SplitReader(folder / "numbered", read_manifest(folder / "numbered"), "train")


@pytest.fixture
def make(digits_train):
    """Returns a function that makes training batches with preprocessors and other settings."""

    def made(preprocessors=BOTH, **changes):
        settings = {"seed": 3, "batch_size": 120, "window": 70, **changes}
        return TrainingBatches(digits_train, preprocessors=preprocessors, **settings)

    return made


def rows_of(batches, number=0):
    """Returns the examples of an epoch without padding, in their order."""
    rows = (row for batch in epoch_of(batches, number) for row in zip(batch["inputs"], batch["targets"], strict=True))
    found = [tuple(tuple(ids[ids > 0].tolist()) for ids in row) for row in rows]
    return [row for row in found if row != ((), ())]


def check_the_same_in_any_batch(make, expected, **options):
    """Checks that the examples of an epoch are the expected, whatever the batches, and depend on epoch and seed."""
    assert sorted(rows_of(make(**options))) == sorted(expected)
    assert sorted(rows_of(make(batch_size=400, window=200, **options))) == sorted(expected)
    assert sorted(rows_of(make(batch_size=90, window=33, fixed_shapes=6, max_length=40, **options))) == sorted(expected)
    assert sorted(rows_of(make(**options), 1)) != sorted(expected)
    assert sorted(rows_of(make(seed=4, **options))) != sorted(expected)


def images_by_number(batches, number):
    return {int(image.max()) // 4: image for batch in epoch_of(batches, number) for image in batch["inputs"]}


def test_the_generator_is_a_function_of_each_of_its_four_numbers():
    def first(*key):
        return generator_of(*key).integers(2**63)

    assert first(1, 2, 3, 4) == first(1, 2, 3, 4)
    keys = [(1, 2, 3, 4), (0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0), (12, 3, 4, 0), (1, 23, 4, 0)]
    assert len({first(*key) for key in keys}) == len(keys)


@pytest.mark.parametrize("preprocessors", [BOTH, BOTH[:1], BOTH[1:]])
def test_what_an_example_becomes_is_the_same_in_any_batch_and_order(digits_train, make, preprocessors):
    """Reference: each example through the list of preprocessors, those that change lengths first."""
    expected = []
    for number, (inputs, targets) in enumerate(examples_of(digits_train)):
        one = {"inputs": np.array(inputs, np.int32), "targets": np.array(targets, np.int32)}
        for place, step in sorted(enumerate(preprocessors), key=lambda step: not step[1].changes_lengths):
            one |= step({name: one[name] for name in step.features}, generator_of(3, 0, number, place))
        expected.append((tuple(one["inputs"].tolist()), tuple(one["targets"].tolist())))
    check_the_same_in_any_batch(make, expected, preprocessors=preprocessors)


class Words(Text2Text):
    """120 training examples of a few words each."""

    name = "words"

    def generate_samples(self, split, source):
        for number in range(120 if split == "train" else 5):
            words = source.rng.choices(["lowest", "newer", "widest", "lower"], k=number % 4)
            yield {"inputs": " ".join(words), "targets": " ".join([*words, "new"])}


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """Returns a function that makes batches with sampled subwords, by some number of processes."""
    folder = tmp_path_factory.mktemp("data")
    problem = Words(vocab_kind="sentencepiece", vocab_size=275, subword_sampling=0.3)
    generate(problem, folder, folder, workers=1)
    manifest = read_manifest(folder / "words")
    problem.with_encoders(load_encoders(folder / "words", manifest))
    reader, preprocessors = SplitReader(folder / "words", manifest, "train"), problem.preprocessors()

    def made(processes):
        return TrainingBatches(
            reader, seed=1, batch_size=60, window=50, preprocessors=preprocessors, processes=processes
        )

    return made


def test_processes_sample_the_same_subwords_wherever_training_goes_on(sampled, log_lines):
    alone, helped = sampled(0), sampled(2)
    for epoch in (0, 1, 0):  # the last is not what was prepared
        pairs = list(zip(epoch_of(alone, epoch), epoch_of(helped, epoch), strict=True))
        assert pairs
        assert all(same_arrays(one, other) for one, other in pairs)
    assert [record.levelname for record in log_lines.records] == ["INFO"], "they are started once, and none fails"


@pytest.mark.parametrize("step", [RandomCrop(features=("x",)), type("Local", (Other,), {})(features=("x",))])
def test_if_processes_fail_what_they_were_to_do_is_known_to_be_left(step):
    """The first raises an error where there are no images; the second cannot be sent."""
    pool, rows = PreprocessingPool([(0, step)], processes=2), (np.arange(6, dtype=np.int32), np.array([1, 2, 3]))
    for _ in range(2):
        assert (
            pool.finish((0, 0), np.arange(3), lambda part: {"x": (rows[0][: len(part)], rows[1][: len(part)])}) is None
        )


@pytest.mark.parametrize("most", [12, 21])  # 21: no stored example is longer
def test_what_has_become_longer_than_max_length_is_skipped(digits_train, make, most):
    expected = sorted(row for row in rows_of(make()) if max(map(len, row)) <= most)
    batches = make(max_length=most)
    assert len(expected) < len(digits_train) - batches.skipped  # some are skipped only after preprocessing
    assert sorted(rows_of(batches)) == expected


def test_an_example_of_a_class_that_has_become_too_long_is_cut(tmp_path):
    problem = Parity()
    problem.numbers = range(100, 150)
    generate(problem, tmp_path, tmp_path, workers=1)
    reader = SplitReader(tmp_path / "parity", read_manifest(tmp_path / "parity"), "train")
    batches = TrainingBatches(reader, seed=0, batch_size=64, max_length=5, preprocessors=(Repeated(most=9),))
    found = epoch_of(batches)
    assert sum(len(batch["targets"]) for batch in found) == 50
    assert max(batch["inputs"].shape[1] for batch in found) == 5
    assert all((batch["inputs"] == 1).sum() == len(batch["targets"]) for batch in found)  # each row ends


def test_the_largest_batches_reckon_with_what_may_become_of_the_lengths(digits_train, make):
    batches = make((Repeated(features=("targets",)),), batch_size=240, max_length=60)
    assert batches.resized == {"targets"}
    extremes = extreme_batches(digits_train, None, 240, 60, None, batches.resized)
    widest = max(extremes, key=lambda batch: batch["targets"].shape[1])
    assert widest["targets"].shape == (4, 60)
    assert widest["inputs"].shape == (4, 21)  # the longest stored length
    assert max(batch["targets"].shape[0] for batch in extremes) == 200


def test_swapped_and_copied_sides_are_of_one_changed_example(make):
    plain = rows_of(make())
    assert sorted((b, a) for a, b in plain) == sorted(rows_of(make(columns={"inputs": "targets", "targets": "inputs"})))
    copied = rows_of(make(columns={"inputs": "targets", "targets": "targets"}))
    assert sorted((b, b) for _, b in plain) == sorted(copied)


def test_images_are_moved_and_flipped_otherwise_in_each_epoch(images):
    batches = TrainingBatches(images, seed=1, batch_size=16, preprocessors=Numbered().preprocessors())
    first, second = images_by_number(batches, 0), images_by_number(batches, 1)
    assert len(first) == 40
    assert all(image.shape == (4, 6, 1) for image in first.values())
    assert sum(not np.array_equal(first[n], second[n]) for n in first) > 20
    again = TrainingBatches(images, seed=1, batch_size=7, preprocessors=Numbered().preprocessors())
    other = images_by_number(again, 0)
    assert all(np.array_equal(first[n], other[n]) for n in first)
    # By hand: what the two draw, from the generators of their places in the list.
    for number, image in zip(range(40), images.read(np.arange(40), "inputs")[0], strict=True):
        top, left = generator_of(1, 0, number, 0).integers(3, size=2)
        moved = np.pad(image, ((1, 1), (1, 1), (0, 0)))[top : top + 4, left : left + 6]
        if generator_of(1, 0, number, 1).random() < 0.5:
            moved = moved[:, ::-1]
        assert np.array_equal(first[number], moved)
    for indices, batch in EvalBatches(images, 16):
        assert np.array_equal(batch["inputs"], images.read(indices, "inputs")[0]), "as they are stored"


@pytest.mark.parametrize(("spoil", "about"), [
    (lambda ids: ids[:-1], ["changes_lengths"]),
    (lambda ids: np.full_like(ids, 77), [77, "preprocessors"]),
    (lambda ids: np.full_like(ids, 5), [1, "preprocessors"]),
    (lambda ids: ids.astype(float), ["float64", "preprocessors"]),
])  # fmt: skip
def test_what_a_preprocessor_must_not_make_is_said(make, spoil, about):
    class Wrong(Preprocessor):
        def __call__(self, example, rng):
            made = spoil(example["inputs"])
            return {"inputs": made if len(made) == len(example["inputs"]) else np.append(made[:-1], 1)}

    with refused(*about):
        epoch_of(make((Wrong(),)))


def test_features_that_are_not_there_and_fixed_shapes_of_lengths_without_bound_are_refused(images, make):
    with refused("'input'", "inputs", "targets"):
        next(TrainingBatches(images, seed=1, batch_size=4, preprocessors=(RandomFlip(features=("input",)),)))
    with refused("fixed_shapes=4", "inputs", "targets"):
        make(fixed_shapes=4)


@pytest.mark.parametrize(("changes", "about"), [
    *(({**changes, "max_length": 25}, "max_length=25")
      for changes in ({}, {"fixed_shapes": 4}, {"curriculum": Curriculum(25, 25, 9)})),
    ({"curriculum": Curriculum(5, 60, 9), "max_length": 60}, "curriculum_length=5"),
], ids=str)  # fmt: skip
def test_examples_none_of_which_is_short_enough_afterwards_are_refused(make, changes, about):
    class Long(Preprocessor):
        changes_lengths = True

        def __call__(self, example, rng):
            return {"inputs": np.insert(example["inputs"], 0, [4] * 30)}

    with refused("preprocessors", "digits", 200, about):
        next(make((Long(),), batch_size=60, **changes))


MASKED = {
    "columns": {"inputs": "targets", "targets": "targets"},
    "masking": TokenMasking(vocab_size=13, mask_id=2),
}


def test_tokens_are_hidden_by_a_function_of_seed_epoch_and_example(digits_train, make):
    expected = []
    for number, (ids,) in enumerate(examples_of(digits_train, "targets")):
        hidden = MASKED["masking"](np.array(ids, np.int32), generator_of(3, 0, number, "masking"))
        expected.append(tuple(tuple(row[row > 0].tolist()) for row in hidden))
    check_the_same_in_any_batch(make, expected, preprocessors=(), **MASKED)
    for batch in epoch_of(make((), **MASKED)):
        assert not batch["targets"][batch["inputs"] == 0].any()


def test_evaluation_hides_the_same_tokens_whenever_it_reads_them(digits_train):
    found, again = (EvalBatches(digits_train, batch_size, **MASKED) for batch_size in (120, 400))
    examples = [
        {
            int(number): (tuple(inputs[inputs != 0]), tuple(np.flatnonzero(targets)))
            for numbers, batch in batches
            for number, inputs, targets in zip(numbers, batch["inputs"], batch["targets"], strict=True)
        }
        for batches in (found, again)
    ]
    assert examples[0] == examples[1]
    assert len(examples[0]) == len(digits_train)


CALLS = itertools.count()
"""Something that no seed decides, and that is never twice the same."""


class Careless(Preprocessor):
    """Does what its `mistake` says, one that the author of a plug-in may make."""

    mistake = ""

    def __call__(self, example, rng):
        if self.mistake == "draws elsewhere":
            return {name: np.append(np.full(next(CALLS), 3, ids.dtype), ids) for name, ids in example.items()}
        if self.mistake == "changes what it is given":
            for ids in example.values():
                ids[:] = 9
        return None if self.mistake == "returns nothing" else example


@pytest.mark.parametrize(
    ("mistake", "about"),
    [("draws elsewhere", "rng"), ("changes what it is given", "Careless"), ("returns nothing", "None;")],
)
def test_a_mistake_of_a_plug_in_shows_in_its_first_example(make, mistake, about):
    step = type("Careless", (Careless,), {"mistake": mistake, "changes_lengths": True, "__module__": __name__})()
    with refused("test_data_preprocessors.py", about, by=PluginError):
        rows_of(make(preprocessors=[step]))
