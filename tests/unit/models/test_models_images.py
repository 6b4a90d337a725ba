"""Models of images against independent ones in numpy.

Legend: B batch, T length of an image and its end, Y rows, X columns, D width.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.image_transformer import ImageTransformerHParams
from t2t.models.classics.resnet import Resnet, ResnetHParams
from t2t.models.classics.shake_shake import ShakeBlock, ShakeShake, ShakeShakeHParams, mix_branches
from t2t.models.image_transformer import ImageTransformer
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import numpy, padded, randomise, rows, tokens_spec, weights_of
from tests.errors import refused
from tests.models import dropout_seed, stepwise
from tests.reference import resnet as reference
from tests.reference import transformer

# === The Image Transformer, whose positions see what loops over pixels say ===

LENGTHS = (30, 7)
SMALL = {
    "hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 1, "max_length": 32, "img_len": 3,
    "num_channels": 2, "layer_prepostprocess_dropout": 0.0,
}  # fmt: skip
KINDS = {
    "blocks of a sequence": {"block_length": 4},
    "rectangles": {
        "dec_attention_type": "local_2d", "query_rows": 2, "query_columns": 2, "memory_rows": 1, "memory_columns": 1,
    },
    "all": {"dec_attention_type": "full"},
    "blocks of a sequence, pre-norm": {"block_length": 4, "norm_position": "pre"},
}  # fmt: skip


class Reference(transformer.Transformer):
    """One image of 3 pixels of two intensities a row, with a class or a vector for each pixel of a clip."""

    def __init__(self, weights, hparams, words, pixels=()):
        shape = transformer.Architecture(heads=2, encoder_layers=0, decoder_layers=1, norm=hparams.norm_position)
        super().__init__(weights, shape)
        self.kind, self.words, self.pixels = hparams.dec_attention_type, words, pixels

    def place(self, x, position):
        """Half of the channels are of the row, half of the place in it; the class is the mean of its words."""
        x = x + np.concatenate([transformer.sinusoid(place, 4) for place in divmod(position, 6)])
        if self.words:
            x = x + sum(self.embed("source_embedding", word) for word in self.words) / len(self.words)
        if len(self.pixels):
            x = x + self.pixels[min(position // 2, len(self.pixels) - 1)]
        return x

    def places(self, position, count, causal, is_self):
        return [other for other in range(position + 1) if self.sees(position, other)]

    def sees(self, position, other):
        if self.kind == "full":
            return True
        if self.kind == "local_1d":
            return other // 4 in (position // 4, position // 4 - 1)
        (row, place), (other_row, other_place) = divmod(position, 6), divmod(other, 6)
        column, other_column = place // 2, other_place // 2
        top, left = row // 2 * 2, column // 2 * 2
        return top - 1 <= other_row < top + 2 and left - 1 <= other_column < left + 2 + 1


def image_transformer(kind, inputs):
    hparams = ImageTransformerHParams(**SMALL, **KINDS[kind])
    return randomise(ImageTransformer(hparams, tokens_spec(inputs=inputs, shared=False)))


def features_of(inputs):
    rng = np.random.default_rng(3)
    features = {"targets": padded(rows(rng, LENGTHS))}
    return features | {"inputs": padded(rows(rng, (2, 3), inputs))} if inputs else features


def assert_same_logits_and_steps(model, features, expected):
    """Compares the logits of each row with those of `expected(row)`, also those of decoding steps."""
    whole = numpy(model(features)), stepwise(model, features, features["targets"])
    for row, target in enumerate(features["targets"]):
        target = target[target != 0].tolist()
        wanted = expected(row).logits(None, target)
        for found in whole:
            np.testing.assert_allclose(found[row, : len(target)], wanted, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize(("kind", "inputs"), [*((kind, 7) for kind in KINDS), ("rectangles", 0)])
def test_logits_are_those_of_the_reference_and_so_are_those_of_steps(kind, inputs):
    model, features = image_transformer(kind, inputs), features_of(inputs)
    words = [[word for word in row if word] for row in features.get("inputs", np.zeros((2, 1), int)).tolist()]
    assert_same_logits_and_steps(model, features, lambda row: Reference(weights_of(model), model.hparams, words[row]))


def clip_model(**changes):
    features = {
        "inputs": FeatureSpec(kind=FeatureKind.VIDEO, shape=(5, 3, 2)),
        "targets": FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=13),
    }
    hparams = ImageTransformerHParams(**SMALL, **KINDS["blocks of a sequence"], **changes)
    return randomise(ImageTransformer(hparams, ProblemSpec(name="clips", features=features)))


def test_a_clip_adds_a_vector_to_each_pixel_in_steps_too_and_its_padding_changes_nothing():
    """Of targets that are longer than the image, too: what follows has the vector of the last pixel."""
    model, frames = clip_model(), np.random.default_rng(5).integers(1, 256, (2, 6, 5, 3, 2)).astype(np.uint8)
    frames[1, 2:] = 0
    features = {"inputs": frames, "targets": padded(rows(np.random.default_rng(3), (35, 7)))}

    def expected(row):
        pixels = numpy(model.source_embedding(frames[row : row + 1, : (6, 2)[row]]))[0]
        assert len(pixels) == 15
        return Reference(weights_of(model), model.hparams, [], pixels)

    assert_same_logits_and_steps(model, features, expected)


def test_clips_are_read_pixel_by_pixel_alone():
    with refused("input_modality=tubelet_video", "ImageTransformer"):
        clip_model(input_modality="tubelet_video")


# === Residual networks: pixels to logits ===

SPEC = ProblemSpec(
    name="pictures",
    features={
        "inputs": FeatureSpec(kind=FeatureKind.IMAGE, shape=(9, 8, 3)),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=5),
    },
)
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 9, 8, 3)).astype(np.uint8)


def stem(weights, stride=1):
    """The first convolution on standardised pixels."""
    own = reference.part(weights, "source_embedding/convolution")
    return reference.convolve(reference.standardised(PIXELS), own["kernel"], stride, own.get("bias", 0.0))


def resnet_by_hand(weights, hparams, trains):
    norm, pre = reference.part(weights, "norm"), hparams.preactivation
    x = stem(weights, 2 if hparams.input_modality == "strided_image" else 1)
    x = x if pre else reference.relu(reference.batch_norm(x, norm, trains))
    if hparams.stem_pooling:
        x = pooled(x)
    for stage, size in enumerate(hparams.layer_sizes):
        for i in range(size):
            own = reference.part(weights, f"stage_{stage}_block_{i}")
            block = reference.Block(own, 2 if stage and not i else 1, trains)
            x = block.preactivated(x) if pre else block.postactivated(x)
    x = reference.relu(reference.batch_norm(x, norm, trains)) if pre else x
    return reference.classify(weights, x)


def pooled(x):
    """The largest of 3 x 3 around every second position."""
    rows, columns = (-(-side // 2) for side in x.shape[1:3])
    found = np.zeros((len(x), rows, columns, x.shape[-1]))
    for r in range(rows):
        for c in range(columns):
            found[:, r, c] = x[:, max(2 * r - 1, 0) : 2 * r + 2, max(2 * c - 1, 0) : 2 * c + 2].max((1, 2))
    return found


def check(model, expected, trains):
    found = numpy(model({"inputs": PIXELS}, seed=dropout_seed(1) if trains else None))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("trains", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("preactivation", [False, True], ids=["2015", "2016"])
@pytest.mark.parametrize("block_fn", ["residual", "bottleneck"])
def test_logits_are_those_of_the_reference(block_fn, preactivation, trains):
    large = {"input_modality": "strided_image", "stem_pooling": True} if block_fn == "bottleneck" else {}
    sizes = {"hidden_size": 4, "layer_sizes": (1, 2), "block_fn": block_fn}
    hparams = ResnetHParams(**sizes, preactivation=preactivation, **large)
    model = randomise(Resnet(hparams, SPEC))
    check(model, resnet_by_hand(weights_of(model), hparams, trains), trains)


def test_shake_shake_evaluates_as_the_reference():
    hparams = ShakeShakeHParams(hidden_size=4, num_hidden_layers=14)
    model = randomise(ShakeShake(hparams, SPEC))
    weights = weights_of(model)
    x = reference.batch_norm(stem(weights), reference.part(weights, "norm"), trains=False)
    for stage in range(3):
        for i in range(2):
            own = reference.part(weights, f"stage_{stage}_block_{i}")
            x = reference.shake_block(x, own, 2 if stage and not i else 1, trains=False)
    check(model, reference.classify(weights, reference.relu(x)), trains=False)


# === Shake-Shake blocks ===
NORMAL = np.random.default_rng(0).normal(size=(64, 5, 4, 4)).astype(np.float32)


def shake_block(name="block"):
    block = ShakeBlock(4, 1, name=name)
    block.build((None, None, None, 4))
    return randomise(block)


def test_a_sum_has_one_weight_forwards_and_another_backwards():
    """0.25 * 4 + 0.75 * 8 = 7; gradients 0.6 and 0.4."""
    first, second = tf.Variable(4.0), tf.Variable(8.0)
    with tf.GradientTape() as tape:
        found = mix_branches(first, second, 0.25, 0.6)
    assert float(found) == 7.0
    np.testing.assert_allclose(tape.gradient(found, [first, second]), [0.6, 0.4], rtol=1e-6)


def parts(block, x):
    """The two branches and the shortcut, by loops and with moments of the batch."""
    weights = weights_of(block)
    first, second = (reference.shake_block(x, weights, 1, trains=True, share=share) for share in (1.0, 0.0))
    return first - x, second - x


def shares(block, x, seed):
    """The weight of the first branch for each image, found from the sum by least squares."""
    first, second = parts(block, x)
    mixed = numpy(block(x, seed=dropout_seed(seed))) - x - second
    difference = first - second
    found = (mixed * difference).sum((1, 2, 3)) / (difference**2).sum((1, 2, 3))
    np.testing.assert_allclose(mixed, found[:, None, None, None] * difference, rtol=1e-2, atol=1e-2)
    return found


def test_in_training_each_image_has_its_own_uniform_weight_which_seed_and_place_decide():
    block, x = shake_block(), NORMAL
    found = shares(block, x, seed=1)
    assert 0.0 <= found.min() < 0.15 < 0.85 < found.max() <= 1.0
    assert abs(found.mean() - 0.5) < 0.2
    np.testing.assert_array_equal(shares(block, x, seed=1), found)
    assert np.abs(shares(block, x, seed=2) - found).max() > 0.3
    assert np.abs(shares(shake_block("other"), x, seed=1) - found).max() > 0.3


def test_the_gradient_has_weights_of_its_own():
    """The offset of a branch's last norm adds to every position: its gradient is the weight times their number."""
    block, x = shake_block(), NORMAL
    forwards = shares(block, x, seed=1)
    offsets = [branch.norms[1].beta.value for branch in block.branches]
    for image in range(3):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(block(x, seed=dropout_seed(1))[image, ..., 0])
        first, second = (float(gradient[0]) / 20 for gradient in tape.gradient(total, offsets))
        np.testing.assert_allclose(first + second, 1.0, rtol=1e-5)
        assert 0.0 <= first <= 1.0
        assert abs(first - forwards[image]) > 1e-3
