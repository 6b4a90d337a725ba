"""The Image Transformer against the Transformer in numpy, whose positions see what loops over pixels say.

Legend: B batch, T length of an image and its end, D width.
"""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.image_transformer import ImageTransformerHParams
from t2t.models.image_transformer import ImageTransformer
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import numpy, padded, randomise, rows, tokens_spec, weights_of
from tests.reference import transformer as reference

LENGTHS = (30, 7)
SMALL = {
    "hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 2, "max_length": 32, "img_len": 3,
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


class Reference(reference.Transformer):
    """One image of 3 pixels of two intensities a row, with a class or a vector for each pixel of a clip."""

    def __init__(self, weights, hparams, words, pixels=()):
        shape = reference.Architecture(heads=2, encoder_layers=0, decoder_layers=2, norm=hparams.norm_position)
        super().__init__(weights, shape)
        self.kind, self.words, self.pixels = hparams.dec_attention_type, words, pixels

    def place(self, x, position):
        """Half of the channels are of the row, half of the place in it; the class is the mean of its words."""
        x = x + np.concatenate([reference.sinusoid(place, 4) for place in divmod(position, 6)])
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


@pytest.mark.parametrize("inputs", [0, 7], ids=["no class", "classes"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_the_reference_and_so_are_those_of_steps(kind, inputs):
    model, features = image_transformer(kind, inputs), features_of(inputs)
    targets = features["targets"]
    encoded = model.encode(features)
    cache, last, steps = model.init_cache(encoded, 2, None), np.zeros(2, np.int32), []
    for position in range(30):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last = targets[:, position]
        steps.append(numpy(logits))
    for found in (numpy(model(features)), np.stack(steps, axis=1)):
        for row, length in enumerate(LENGTHS):
            words = [word for word in features["inputs"][row].tolist() if word] if inputs else []
            by_hand = Reference(weights_of(model), model.hparams, words)
            expected = by_hand.logits(None, targets[row, :length].tolist())
            np.testing.assert_allclose(found[row, :length], expected, rtol=2e-3, atol=2e-4)


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
    encoded = model.encode(features)
    cache, last, steps = model.init_cache(encoded, 2, None), np.zeros(2, np.int32), []
    for position in range(35):
        logits, cache = model.decode_step(last, position, cache, encoded)
        last = features["targets"][:, position]
        steps.append(numpy(logits))
    for found in (numpy(model(features)), np.stack(steps, axis=1)):
        for row, (length, kept) in enumerate(((35, 6), (7, 2))):
            pixels = numpy(model.source_embedding(frames[row : row + 1, :kept]))[0]
            assert len(pixels) == 15
            by_hand = Reference(weights_of(model), model.hparams, [], pixels)
            expected = by_hand.logits(None, features["targets"][row, :length].tolist())
            np.testing.assert_allclose(found[row, :length], expected, rtol=2e-3, atol=2e-4)


def test_clips_are_read_pixel_by_pixel_alone():
    message = (
        "input_modality=tubelet_video: model ImageTransformer reads clips as a vector for each pixel; leave it empty"
    )
    with pytest.raises(UserError, match=message):
        clip_model(input_modality="tubelet_video")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dec_attention_type": "local_2d", "memory_rows": 9}, "memory_rows=9: what is seen around a rectangle is at"),
        ({"dec_attention_type": "local_2d", "query_columns": 4}, "query_columns=4; make one larger or the other small"),
        ({"hidden_size": 6, "num_heads": 2}, "hidden_size=6: half of it tells rows and half columns"),
        (
            {"positions": "learned"},
            "positions=learned: positions of images are sinusoidal, relative, rotary, relative_",
        ),
        (
            {"positions": "words"},
            "positions=words: positions of images are sinusoidal, relative, rotary, relative_bias",
        ),
        ({"num_encoder_layers": 2}, "num_encoder_layers=2: an Image Transformer has no encoder; choose num_encoder"),
        ({"input_end": False}, "input_end=False: an Image Transformer has no encoder; choose input_end=true"),
        ({"target_space_embedding": True}, r"target_space_embedding=True: .* choose target_space_embedding=false"),
        ({"self_attention_window": 4}, "self_attention_window=4: nothing reads it while dec_attention_type=local_1d"),
    ],
)
def test_hparams_that_do_not_go_together(changes, message):
    with pytest.raises(UserError, match=message):
        ImageTransformerHParams(**changes).freeze()
