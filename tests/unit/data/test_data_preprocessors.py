"""Preprocessing between reading and batching: its result depends only on (seed, epoch, example)."""

import numpy as np
import pytest

from t2t.data.curriculum import Curriculum
from t2t.data.eval_batches import EvalBatches
from t2t.data.extremes import extreme_batches
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.preprocessors import generator_of
from t2t.data.reader import SplitReader
from t2t.data.training_batches import TrainingBatches
from t2t.problems.array_inputs import Image2Class
from t2t.problems.masking import TokenMasking
from t2t.problems.preprocessors import Preprocessor, RandomCrop, RandomFlip
from tests.errors import refused
from tests.generated import Other, Parity, Repeated, epoch_of

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


def rows_of(batch):
    rows = zip(*(batch[name] for name in sorted(batch)), strict=True)
    return [tuple(tuple(ids[ids > 0].tolist()) for ids in row) for row in rows]


def images_by_number(batches, number):
    return {int(image.max()) // 4: image for batch in epoch_of(batches, number) for image in batch["inputs"]}


def test_the_generator_is_a_function_of_each_of_its_four_numbers():
    def first(*key):
        return generator_of(*key).integers(2**63)

    assert first(1, 2, 3, 4) == first(1, 2, 3, 4)
    keys = [(1, 2, 3, 4), (0, 2, 3, 4), (1, 0, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0), (12, 3, 4, 0), (1, 23, 4, 0)]
    assert len({first(*key) for key in keys}) == len(keys)


@pytest.mark.parametrize("preprocessors", [BOTH, BOTH[:1], BOTH[1:]])
def test_what_an_example_becomes_is_the_same_in_any_batch_and_order(digits_train, preprocessors):
    def one_epoch(number, seed=3, **kwargs):
        batches = TrainingBatches(digits_train, seed=seed, preprocessors=preprocessors, **kwargs)
        return sorted(row for batch in epoch_of(batches, number) for row in rows_of(batch) if row != ((), ()))

    first = one_epoch(0, batch_size=120, window=70)
    assert first == one_epoch(0, batch_size=400, window=200)
    assert first == one_epoch(0, batch_size=90, window=33, fixed_shapes=4, max_length=40)
    assert first != one_epoch(1, batch_size=120, window=70)
    assert first != one_epoch(0, seed=4, batch_size=120, window=70)
    # Reference: each example through the list of preprocessors, those that change lengths first.
    expected = []
    for number in range(len(digits_train)):
        one = {name: digits_train.read(np.array([number]), name)[0].astype(np.int32) for name in ("inputs", "targets")}
        steps = sorted(enumerate(preprocessors), key=lambda step: not step[1].changes_lengths)
        for place, step in steps:
            one |= step({name: one[name] for name in step.features}, generator_of(3, 0, number, place))
        expected.append((tuple(one["inputs"].tolist()), tuple(one["targets"].tolist())))
    assert first == sorted(expected)


@pytest.mark.parametrize("most", [12, 21])  # 21: no stored example is longer
def test_what_has_become_longer_than_max_length_is_skipped(digits_train, most):
    whole = TrainingBatches(digits_train, seed=3, batch_size=120, window=70, preprocessors=BOTH)
    batches = TrainingBatches(digits_train, seed=3, batch_size=120, window=70, max_length=most, preprocessors=BOTH)
    rows = [row for batch in epoch_of(whole) for row in rows_of(batch)]
    expected = sorted(row for row in rows if max(map(len, row)) <= most)
    assert len(expected) < len(digits_train) - batches.skipped  # some are skipped only after preprocessing
    assert sorted(row for batch in epoch_of(batches) for row in rows_of(batch)) == expected


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


def test_the_largest_batches_reckon_with_what_may_become_of_the_lengths(digits_train):
    batches = TrainingBatches(
        digits_train, seed=3, batch_size=240, max_length=60, preprocessors=(Repeated(features=("targets",)),)
    )
    assert batches.resized == {"targets"}
    extremes = extreme_batches(digits_train, None, 240, 60, None, batches.resized)
    widest = max(extremes, key=lambda batch: batch["targets"].shape[1])
    assert widest["targets"].shape == (4, 60)
    assert widest["inputs"].shape == (4, 21)  # the longest stored length
    assert max(batch["targets"].shape[0] for batch in extremes) == 200


def test_swapped_and_copied_sides_are_of_one_changed_example(digits_train):
    def rows(columns):
        batches = TrainingBatches(digits_train, seed=3, batch_size=900, columns=columns, preprocessors=BOTH)
        return [row for batch in epoch_of(batches) for row in rows_of(batch)]

    plain = rows(None)
    assert sorted((b, a) for a, b in plain) == sorted(rows({"inputs": "targets", "targets": "inputs"}))
    copied = rows({"inputs": "targets", "targets": "targets"})
    assert all(a == b for a, b in copied)
    assert sorted(b for _, b in plain) == sorted(b for _, b in copied)


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


def test_evaluation_reads_examples_as_they_are_stored(images):
    for indices, batch in EvalBatches(images, 16):
        assert np.array_equal(batch["inputs"], images.read(indices, "inputs")[0])


@pytest.mark.parametrize(
    ("make", "about"),
    [
        (lambda ids: ids[:-1], ["changes_lengths"]),
        (lambda ids: np.full_like(ids, 77), [77, "preprocessors"]),
        (lambda ids: np.full_like(ids, 5), [1, "preprocessors"]),
        (lambda ids: ids.astype(float), ["float64", "preprocessors"]),
    ],
)
def test_what_a_preprocessor_must_not_make_is_said(digits_train, make, about):
    class Wrong(Preprocessor):
        def __call__(self, example, rng):
            made = make(example["inputs"])
            return {"inputs": made if len(made) == len(example["inputs"]) else np.append(made[:-1], 1)}

    with refused(*about):
        epoch_of(TrainingBatches(digits_train, seed=3, batch_size=120, preprocessors=(Wrong(),)))


def test_a_preprocessor_of_a_feature_that_is_not_there_is_refused(images):
    with refused("'input'", "inputs", "targets"):
        next(TrainingBatches(images, seed=1, batch_size=4, preprocessors=(RandomFlip(features=("input",)),)))


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        *(({**changes, "max_length": 25}, "max_length=25")
          for changes in ({}, {"fixed_shapes": 4}, {"curriculum": Curriculum(25, 25, 9)})),
        ({"curriculum": Curriculum(5, 60, 9), "max_length": 60}, "curriculum_length=5"),
    ],
    ids=str,
)  # fmt: skip
def test_examples_none_of_which_is_short_enough_afterwards_are_refused(digits_train, changes, about):
    class Long(Preprocessor):
        changes_lengths = True

        def __call__(self, example, rng):
            return {"inputs": np.insert(example["inputs"], 0, [4] * 30)}

    sizes = {"batch_size": 60, "window": 70, **changes}
    with refused("preprocessors", "digits", 200, about):
        next(TrainingBatches(digits_train, seed=3, **sizes, preprocessors=(Long(),)))


def test_fixed_shapes_of_lengths_without_bound_are_refused(digits_train):
    with refused("fixed_shapes=4", "inputs", "targets"):
        TrainingBatches(digits_train, seed=3, batch_size=60, fixed_shapes=4, preprocessors=BOTH)


def masked_epoch(digits_train, number=0, seed=3, **kwargs):
    """Returns inputs and targets of each example of an epoch, without padding."""
    columns, masking = {"inputs": "targets", "targets": "targets"}, TokenMasking(vocab_size=13, mask_id=2)
    batches = TrainingBatches(digits_train, seed=seed, columns=columns, masking=masking, **kwargs)
    rows = []
    for batch in epoch_of(batches, number):
        for inputs, targets in zip(batch["inputs"], batch["targets"], strict=True):
            length = (inputs != 0).sum()
            assert not targets[length:].any()
            rows.append((tuple(inputs[:length].tolist()), tuple(targets[:length].tolist())))
    return sorted(row for row in rows if row != ((), ()))


def test_tokens_are_hidden_by_a_function_of_seed_epoch_and_example(digits_train):
    first = masked_epoch(digits_train, batch_size=120, window=70)
    assert first == masked_epoch(digits_train, batch_size=400, window=200)
    assert first == masked_epoch(digits_train, batch_size=90, window=33, fixed_shapes=6, max_length=40)
    assert first != masked_epoch(digits_train, 1, batch_size=120, window=70)
    assert first != masked_epoch(digits_train, seed=4, batch_size=120, window=70)
    masking, expected = TokenMasking(vocab_size=13, mask_id=2), []
    for number in range(len(digits_train)):
        ids = digits_train.read(np.array([number]), "targets")[0].astype(np.int32)
        expected.append(tuple(tuple(x.tolist()) for x in masking(ids, generator_of(3, 0, number, "masking"))))
    assert first == sorted(expected)


def test_evaluation_hides_the_same_tokens_whenever_it_reads_them(digits_train):
    columns, masking = {"inputs": "targets", "targets": "targets"}, TokenMasking(vocab_size=13, mask_id=2)
    found = EvalBatches(digits_train, 120, columns=columns, masking=masking)
    again = EvalBatches(digits_train, 400, columns=columns, masking=masking)
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
