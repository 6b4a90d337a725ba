import random

import numpy as np
import pytest

from t2t.problems.preprocessors import (
    RandomCrop,
    RandomFlip,
    RandomResizedCrop,
    SubwordSampling,
    TextPreprocessor,
    TokenMasking,
)
from t2t.problems.samples import Source
from t2t.problems.text_problems import Text2Text, TextOptions
from t2t.runs.names import get_problem
from t2t.text.byte import ByteEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.subword_build import ESCAPE_CHARACTERS
from t2t.text.words import TokenEncoder
from tests.errors import refused


class Draws:
    """A random generator with fixed values."""

    def __init__(self, *given):
        self.given = iter(given)

    def integers(self, high, size):
        assert (high, size) == (3, 2)
        return np.array(next(self.given))

    def random(self):
        return next(self.given)


IMAGE = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)[:, :, None]


@pytest.mark.parametrize(("place", "expected"), [
    ((0, 0), [[0, 0, 0], [0, 1, 2]]), ((1, 1), [[1, 2, 3], [4, 5, 6]]), ((2, 1), [[4, 5, 6], [0, 0, 0]]),
])  # fmt: skip
def test_a_crop_and_a_flip_by_hand(place, expected):
    cropped = RandomCrop(padding=1)({"inputs": IMAGE}, Draws(place))["inputs"]
    assert cropped.dtype == np.uint8
    assert cropped[:, :, 0].tolist() == expected
    for drawn, flipped in ((0.4, [[3, 2, 1], [6, 5, 4]]), (0.5, [[1, 2, 3], [4, 5, 6]])):
        assert RandomFlip()({"inputs": IMAGE}, Draws(drawn))["inputs"][:, :, 0].tolist() == flipped


def test_places_and_flips_are_equally_likely():
    rng = np.random.default_rng(0)
    crops = [RandomCrop(padding=1)({"inputs": IMAGE}, rng)["inputs"].tobytes() for _ in range(1800)]
    assert len(set(crops)) == 9
    assert all(150 < crops.count(one) < 250 for one in set(crops))
    flips = [RandomFlip()({"inputs": IMAGE}, rng)["inputs"][0, 0, 0] for _ in range(1000)]
    assert 430 < flips.count(3) < 570


class Parts:
    """A fake generator that draws a square of a quarter of the area, and then its position."""

    def __init__(self, *place, area=0.25):
        self.uniforms, self.places = iter([area, 0.0] * 10), iter(place)

    def uniform(self, low, high):
        return next(self.uniforms)

    def integers(self, high):
        assert high == 3
        return next(self.places)


@pytest.mark.parametrize(("place", "value"), [((0, 0), 10), ((0, 2), 20), ((2, 0), 30), ((2, 2), 40)])
def test_a_part_of_an_image_is_resized_to_its_size(place, value):
    quarters = np.repeat(np.repeat(np.array([[10, 20], [30, 40]], np.uint8), 2, axis=0), 2, axis=1)[:, :, None]
    part = RandomResizedCrop()({"inputs": quarters}, Parts(*place))["inputs"]
    assert part.dtype == np.uint8
    np.testing.assert_array_equal(part, np.full((4, 4, 1), value))
    whole = RandomResizedCrop()({"inputs": IMAGE}, Parts(area=9.0))["inputs"]
    np.testing.assert_array_equal(whole, IMAGE)  # where no part fits


def test_parts_have_the_areas_and_proportions_that_they_may_have():
    """Pixel values count rows and columns in steps of two, so that a resized part reveals its original size."""
    grid = np.stack(np.meshgrid(np.arange(100) * 2, np.arange(100) * 2, indexing="ij"), axis=-1).astype(np.uint8)
    rng, sizes = np.random.default_rng(0), []
    for _ in range(300):
        part = RandomResizedCrop()({"inputs": grid}, rng)["inputs"].astype(int)
        sizes.append([(np.ptp(part[..., axis]) + 2) / 2 for axis in (0, 1)])
    heights, widths = np.array(sizes).T
    areas, proportions = heights * widths / 100**2, widths / heights
    assert 0.07 < areas.min() < 0.15
    assert 0.85 < areas.max() <= 1.0
    assert 0.7 < proportions.min() < 0.8
    assert 1.25 < proportions.max() < 1.43


@pytest.mark.parametrize(("name", "expected"), [
    ("image_imagenet", [RandomResizedCrop(), RandomFlip()]),
    ("image_imagenet64", [RandomCrop(padding=8), RandomFlip()]),
    ("image_imagenet32", [RandomCrop(padding=4), RandomFlip()]),
    *((name, [RandomCrop(padding=4), RandomFlip()]) for name in ("image_cifar10", "image_cifar100")),
    *((name, []) for name in ("image_cifar10_plain", "image_cifar100_plain")),
])  # fmt: skip
def test_images_are_cut_or_moved_and_flipped_unless_they_are_plain(name, expected):
    problem = get_problem(name)
    assert list(problem.preprocessors()) == expected
    assert problem.class_labels == get_problem(name.removesuffix("_plain")).class_labels


def test_text_is_sampled_where_the_option_says_so():
    encoder = SentencePieceEncoder.build(["the cat sat on the mat"] * 20, 290)

    class Sampled(Text2Text):
        name = "sampled"

        def generate_samples(self, split, source):
            return iter(())

    both = {"inputs": ByteEncoder(), "targets": encoder}
    assert list(Sampled().with_encoders(both).preprocessors()) == []
    problem = Sampled(subword_sampling=0.5).with_encoders(both)
    assert problem.options.changed() == {"subword_sampling": 0.5}
    assert problem.options.of_data() == {}  # the data is the same
    (sampling,) = problem.preprocessors()
    assert isinstance(sampling, SubwordSampling)
    assert repr(sampling) == "SubwordSampling(features=('targets',), alpha=0.5)"
    ids = np.array([*encoder.encode("the cat"), 1], np.int32)
    made = [sampling({"targets": ids}, np.random.default_rng(n))["targets"] for n in range(20)]
    assert {encoder.decode(one) for one in made} == {"the cat"}
    assert len({one.tobytes() for one in made}) > 1
    with refused("subword_sampling:", "sentencepiece", "byte"):
        Sampled(subword_sampling=0.5).with_encoders(dict.fromkeys(both, ByteEncoder())).preprocessors()
    for wrong, allowed in (("1", "number"), (1.5, 1.0), (-0.1, 0.0)):
        with refused(f"subword_sampling={wrong!r}", allowed):
            Sampled(subword_sampling=wrong)


# === Words hidden for masked language models ===
MASKING = TokenMasking(vocab_size=1000, mask_id=2)


class MaskingDraws:
    """A random generator with fixed values."""

    def choice(self, places, size, replace):
        assert (places.tolist(), size, replace) == ([0, 1, 2, 3, 4], 4, False)
        return np.array([4, 0, 2, 3])

    def random(self, size):
        return np.array([0.79, 0.8, 0.89, 0.9])

    def integers(self, low, high, size):
        assert (low, high, size) == (2, 1000, 4)
        return np.array([70, 71, 72, 73])


def test_eighty_ten_and_ten_by_hand():
    """Of five tokens four are chosen, in this order: below 0.8 hidden, below 0.9 exchanged, from there on kept."""
    ids = np.array([10, 11, 12, 13, 14, 1, 0, 0], np.int32)
    inputs, targets = TokenMasking(vocab_size=1000, mask_id=2, rate=0.7)(ids, MaskingDraws())
    assert inputs.tolist() == [71, 11, 72, 13, 2, 1, 0, 0]
    assert targets.tolist() == [10, 0, 12, 13, 14, 0, 0, 0]
    assert inputs.dtype == targets.dtype == np.int32
    assert ids.tolist() == [10, 11, 12, 13, 14, 1, 0, 0]


def test_fifteen_percent_are_chosen_and_of_these_the_shares_become_what_the_paper_says():
    """20,000 chosen tokens, within five standard deviations; a random token equals the original once in a thousand."""
    rng, chosen = np.random.default_rng(0), 20_000
    ids = np.append(rng.integers(3, 1000, round(chosen / 0.15)), 1)
    inputs, targets = MASKING(ids, rng)
    places = targets != 0
    assert places.sum() == chosen
    assert (targets[places] == ids[places]).all()
    assert (inputs[~places] == ids[~places]).all()
    hidden, kept = (inputs[places] == 2).sum(), (inputs[places] == ids[places]).sum()
    assert abs(hidden / chosen - 0.8) < 5 * (0.8 * 0.2 / chosen) ** 0.5
    assert abs(kept / chosen - 0.1) < 5 * (0.1 * 0.9 / chosen) ** 0.5


@pytest.mark.parametrize(("length", "expected"), [(0, 0), (1, 1), (3, 1), (10, 2), (20, 3)])
def test_one_token_is_chosen_at_least_where_there_is_one(length, expected):
    ids = np.array([*range(5, 5 + length), 1, 0, 0])
    inputs, targets = MASKING(ids, np.random.default_rng(1))
    assert (targets != 0).sum() == expected
    assert inputs[length:].tolist() == [1, 0, 0]


def test_the_variant_reads_the_targets_twice_and_hides_them():
    problem = get_problem("text2text_files_masked").with_encoders(
        {"inputs": TokenEncoder(("a",)), "targets": TokenEncoder(("b", "c"))}
    )
    assert problem.columns == {"inputs": "targets", "targets": "targets"}
    assert problem.spec().inputs == problem.spec().targets
    assert problem.spec().shared_vocabulary
    assert problem.metrics == ("neg_log_perplexity", "accuracy")
    assert problem.masking() == TokenMasking(vocab_size=5, mask_id=2)
    assert problem.base.masking() is None


def test_a_vocabulary_whose_every_id_may_occur_is_refused():
    pieces = ["<pad>_", "<EOS>_", *sorted(ESCAPE_CHARACTERS)]
    problem = get_problem("languagemodel_files_masked").with_encoders({"targets": SubwordEncoder(pieces)})
    with refused("languagemodel_files_masked:", "subword", "--vocab_kind=sentencepiece,", "byte", "token"):
        problem.masking()
    # Bytes have no unknown word, but one that texts do not have.
    problem = get_problem("languagemodel_files_masked").with_encoders({"targets": ByteEncoder()})
    assert problem.masking() == TokenMasking(vocab_size=258, mask_id=2)
    assert ByteEncoder().encode("\0") == [2]
    with refused("text2text_files_masked_rev:", "_masked"):
        get_problem("text2text_files_masked_rev")  # what is hidden is not swapped


# === Sources of samples ===
@pytest.fixture
def origin(tmp_path):
    return Source(tmp_path, random.Random(1), work_dir=tmp_path)


def test_what_is_cached_is_computed_once_in_a_generation(origin, tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return [["a", 1, None]]

    other = origin.each_shard(3)[2]
    assert [each.cached("train-parts", compute) for each in (origin, origin.fork(), other)] == [[["a", 1, None]]] * 3
    assert origin.cached("dev-parts", compute) == [["a", 1, None]]
    assert len(calls) == 2
    apart = Source(tmp_path, random.Random(1))
    assert apart.cached("train-parts", compute) == [["a", 1, None]]
    assert len(calls) == 3
    path = tmp_path / "train-parts.json"  # which is damaged
    path.write_text(path.read_text().replace("1", "3", 1))
    assert [origin.cached("train-parts", lambda: [4]) for _ in range(2)] == [[4], [4]]


def test_each_shard_has_chance_of_its_own_that_follows_from_the_seed(tmp_path):
    def draws(seed):
        return [each.rng.random() for each in Source(tmp_path, random.Random(seed)).each_shard(4)]

    assert draws(1) == draws(1)
    assert len({*draws(1), *draws(2)}) == 8
    assert [each.shard for each in Source(tmp_path, random.Random(1)).each_shard(4)] == [0, 1, 2, 3]


class Louder(TextPreprocessor):
    """Writes all in capitals."""

    def change(self, text, rng):
        return text.upper() + "!"


def test_changes_of_images_are_no_changes_of_texts():
    problem = get_problem("classify_files", {"preprocessors": "random_flip=1"})
    with refused("--preprocessors:", "RandomFlip"):
        problem.with_encoders({"inputs": ByteEncoder()}).preprocessors()


def test_named_changes_come_before_sampling_and_change_inputs_or_every_text_of_a_problem_without_them():
    options = TextOptions(preprocessors="random_flip=1,random_crop=2", subword_sampling=0.5)
    assert options.random_changes() == [("random_flip", 1.0), ("random_crop", 2.0), ("subword_sampling", 0.5)]
    found = [
        Louder.of_texts(dict.fromkeys(names, ByteEncoder()), 1.0) for names in (("inputs", "targets"), ("targets",))
    ]
    assert [one.features for one in found] == [("inputs",), ("targets",)]
    ids = ByteEncoder().encode_ended(["small", "SMALL!"])
    np.testing.assert_array_equal(found[0]({"inputs": ids[0]}, np.random.default_rng(0))["inputs"], ids[1])
