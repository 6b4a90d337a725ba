import numpy as np
import pytest

from t2t.problems.preprocessors import RandomCrop, RandomFlip, RandomResizedCrop, SubwordSampling
from t2t.problems.text_problems import Text2Text
from t2t.runs.names import get_problem
from t2t.text.byte import ByteEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
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
def test_a_crop_by_hand(place, expected):
    cropped = RandomCrop(padding=1)({"inputs": IMAGE}, Draws(place))["inputs"]
    assert cropped.dtype == np.uint8
    assert cropped[:, :, 0].tolist() == expected


@pytest.mark.parametrize(("drawn", "expected"), [(0.4, [[3, 2, 1], [6, 5, 4]]), (0.5, [[1, 2, 3], [4, 5, 6]])])
def test_a_flip_by_hand(drawn, expected):
    assert RandomFlip()({"inputs": IMAGE}, Draws(drawn))["inputs"][:, :, 0].tolist() == expected


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


def test_where_no_part_fits_an_image_stays_whole():
    np.testing.assert_array_equal(RandomResizedCrop()({"inputs": IMAGE}, Parts(area=9.0))["inputs"], IMAGE)


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
    for wrong, allowed in (("1", "float"), (1.5, 1.0), (-0.1, 0.0)):
        with refused(f"subword_sampling={wrong!r}", allowed):
            Sampled(subword_sampling=wrong)
