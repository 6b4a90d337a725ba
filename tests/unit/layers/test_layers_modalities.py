"""Modalities, compared with explicit formulas: images, sound, vectors, clips, and the prediction of classes.

Legend: B batch, T or F frames, Y rows, X columns, N samples, M bands, C channels, P positions, D width.
"""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.base import HParams
from t2t.layers.masks import mean_of_kept
from t2t.layers.modalities.audio import LogMelAudio, log_mel, mel_bands, normalised
from t2t.layers.modalities.base import Bottom, ClassLabel, RealValues, RealVectors, TokenSoftmax
from t2t.layers.modalities.image import SmallImage, XceptionImage, standardised
from t2t.layers.modalities.selection import build_modalities
from t2t.layers.modalities.video import LargeTubeletVideo, PixelVideo, TubeletVideo
from t2t.layers.mode import in_mode
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.registry import MODALITIES
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import numpy, randomise, tiny_hparams
from tests.errors import refused
from tests.reference.transformer import sinusoid
from tests.registrations import registered

RATE = 1000
"""Samples a second: frames of 25 samples every 10, padded to 32."""


def sound(length, seed=0):
    return np.random.default_rng(seed).normal(0.0, 0.2, (1, length)).astype(np.float32)


# === Images ===
def test_an_image_is_given_mean_zero_and_variance_one():
    images = np.random.default_rng(1).integers(0, 256, (2, 5, 4, 3)).astype(np.uint8)
    found = numpy(standardised(images, "float32"))
    values = images.astype(float).reshape(2, -1)
    expected = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    np.testing.assert_allclose(found.reshape(2, -1), expected, rtol=1e-4, atol=1e-5)
    plain = numpy(standardised(np.full((1, 5, 4, 3), 77, np.uint8), "float32"))
    np.testing.assert_allclose(plain, 0.0, atol=1e-3)


def test_a_small_image_is_one_convolution_of_its_pixels_read_row_by_row():
    bottom = SmallImage(FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1)), 2)
    bottom.build()
    randomise(bottom)
    images = np.random.default_rng(2).integers(0, 256, (1, 3, 4, 1)).astype(np.uint8)
    x = np.pad(numpy(standardised(images, "float32"))[0, :, :, 0], 1)
    kernel, bias = (numpy(v) for v in bottom.network.variables)
    expected = [
        [(x[row : row + 3, column : column + 3, None] * kernel[:, :, 0]).sum((0, 1)) + bias for column in range(4)]
        for row in range(3)
    ]
    np.testing.assert_allclose(numpy(bottom(images))[0], np.reshape(expected, (12, 2)), rtol=1e-4, atol=1e-5)
    assert bottom.keep(images).shape == (1, 12)


@pytest.mark.parametrize(("shape", "positions"), [((64, 48, 3), 12), ((33, 17, 1), 6)])
def test_the_entry_flow_gives_a_vector_for_16_by_16_pixels(shape, positions):
    bottom = XceptionImage(FeatureSpec(kind=FeatureKind.IMAGE, shape=shape), 8)
    bottom.build()
    images = np.random.default_rng(3).integers(0, 256, (2, *shape)).astype(np.uint8)
    assert bottom(images).shape == (2, positions, 8)
    assert bottom.keep(images).shape == (2, positions)


# === Sound ===
@pytest.mark.parametrize("for_converters", [False, True])
def test_log_mel_energies_are_those_of_the_formula(for_converters):
    samples = sound(78)
    with in_mode(for_converters=for_converters):
        found = numpy(log_mel(samples, RATE))
    assert found.shape == (1, 8, 80)
    padded = np.pad(samples[0], (0, 40)).astype(float)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(25) / 25)
    angles = np.exp(-2j * np.pi * np.outer(np.arange(17), np.arange(25)) / 32)
    for frame in range(8):
        power = np.abs(angles @ (padded[frame * 10 : frame * 10 + 25] * window)) ** 2
        expected = np.log(power @ mel_bands(RATE, 32) + 1e-6)
        np.testing.assert_allclose(found[0, frame], expected, rtol=1e-3, atol=1e-3)


def test_mel_bands_are_triangles_that_overlap_by_half():
    """8,000 samples a second: 0 to 4,000 Hz are 0 to 2,146.06 mel; with 3 bands, edges every 536.5 mel."""
    bands = mel_bands(8000, 8000, 3)
    peaks = 700 * (10 ** (np.array([1, 2, 3]) * 2146.0645 / 4 / 2595) - 1)
    np.testing.assert_allclose(bands.argmax(0), peaks, atol=1)
    np.testing.assert_allclose(bands[round(peaks[0]) : round(peaks[2])].sum(1), 1.0, atol=1e-5)
    assert bands[0].sum() == bands[-1].sum() == 0.0


def test_bands_are_normalised_over_the_frames_that_are_kept():
    x = np.random.default_rng(4).normal(3.0, 2.0, (1, 6, 2)).astype(np.float32)
    keep = np.array([[True] * 4 + [False] * 2])
    found = numpy(normalised(x, keep))
    kept = x[:, :4].astype(float)
    expected = (kept - kept.mean(1, keepdims=True)) / np.sqrt(kept.var(1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(found[:, :4], expected, rtol=1e-4, atol=1e-5)
    assert not found[:, 4:].any()


def test_sound_gives_a_position_for_four_frames_and_ends_where_the_zeros_begin():
    bottom = LogMelAudio(FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=RATE), 8)
    bottom.build()
    samples = np.pad(sound(95), ((0, 0), (0, 205)))
    samples[0, 40:60] = 0.0  # silence within
    assert numpy(bottom(samples)).shape == (1, 8, 8)
    np.testing.assert_array_equal(bottom.keep(samples), [[True] * 3 + [False] * 5])
    np.testing.assert_array_equal(bottom.keep(np.zeros((1, 80), np.float32)), [[True, False]])


# === Vectors and classes ===
def test_vectors_go_through_one_dense_layer_and_end_where_the_zeros_begin():
    bottom = RealVectors(FeatureSpec(kind=FeatureKind.REAL, shape=(3,)), 2)
    bottom.build()
    bottom.kernel.assign([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    bottom.bias.assign([0.5, 0.0])
    x = np.array([[[1, 2, 3], [0, 0, 0], [4, 0, 0], [0, 0, 0]]], np.float32)
    np.testing.assert_allclose(numpy(bottom(x))[0], [[4.5, 7.0], [0.5, 0.0], [4.5, 0.0], [0.5, 0.0]])
    np.testing.assert_array_equal(bottom.keep(x), [[True, True, True, False]])


def test_the_loss_of_vectors_is_half_the_squared_error_of_those_that_are_data():
    top = RealValues(FeatureSpec(kind=FeatureKind.REAL, shape=(2,)), 2)
    top.build()
    top.kernel.assign(np.eye(2))
    targets = np.array([[[1, 2], [3, 4], [0, 0]]], np.float32)
    loss, count = top.loss_sum(np.array([[[1, 0], [0, 4], [9, 9]]], np.float32), targets)
    assert (float(loss), float(count)) == (0.5 * (4 + 9), 2.0)


# === Choosing ===
def a_spec(inputs, targets=FeatureKind.TOKENS):
    features = {
        "inputs": FeatureSpec(kind=inputs, vocab_size=9, shape=(4, 4, 1)),
        "targets": FeatureSpec(kind=targets, vocab_size=9),
    }
    return ProblemSpec(name="any", features=features)


def test_a_modality_of_a_plug_in_is_used_where_it_is_named():
    class Edges(Bottom):
        kinds = frozenset({FeatureKind.IMAGE})

    with registered(MODALITIES, "edges", Edges):
        modalities = build_modalities(a_spec(FeatureKind.IMAGE), HParams(input_modality="edges"), "float32")
    assert type(modalities.source) is Edges
    assert type(build_modalities(a_spec(FeatureKind.IMAGE), HParams(), "float32").source) is SmallImage


@pytest.mark.parametrize(
    ("side", "name", "named"),
    [
        ("input_modality", "log_mel_audio", "image audio"),
        ("input_modality", "class_label", "image label"),
        ("target_modality", "small_image", "tokens image"),
        ("target_modality", "token_softmacks", "token_softmax"),
    ],
)
def test_a_modality_that_does_not_fit_is_refused(side, name, named):
    with refused(f"'{name}'", *named.split()):
        build_modalities(a_spec(FeatureKind.IMAGE), HParams(**{side: name}), "float32")


# === 16-bit activations ===
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", [FeatureKind.TOKENS, FeatureKind.LABEL])
def test_logits_of_16_bit_states_are_float32_so_that_none_tie_and_the_best_is_the_best(dtype, kind):
    """Against numpy's float32 product of the same 16-bit numbers; rounded logits tie for the first place."""
    half = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}[dtype]
    top_class = TokenSoftmax if kind == FeatureKind.TOKENS else ClassLabel
    top = top_class(FeatureSpec(kind=kind, vocab_size=5000), 64, dtype=f"mixed_{dtype}")
    top.build()
    rng = np.random.default_rng(0)
    weights = rng.normal(size=top.weights[0].shape)
    top.weights[0].assign(weights)
    hidden = rng.normal(size=(400, 64)).astype(half)
    for decode_weights in (None, top.decode_weights()):
        logits = top(tf.constant(hidden), decode_weights)
        assert logits.dtype == tf.float32
        rounded = weights.astype(np.float32).astype(half).astype(np.float32)
        exact = hidden.astype(np.float32) @ (rounded.T if kind == FeatureKind.TOKENS else rounded)
        np.testing.assert_array_equal(np.argmax(logits, axis=1), np.argmax(exact, axis=1))
        first, second = np.sort(logits, axis=1)[:, -1:-3:-1].T
        assert (first > second).all()


@pytest.mark.parametrize(("dtype", "count"), [("bfloat16", 1027), ("float16", 3001)])
def test_a_mean_of_many_16_bit_positions_counts_them_all(dtype, count):
    """bfloat16 cannot represent every integer above 256, float16 above 2,048."""
    x = tf.cast(tf.ones((1, count, 3)) * [1.0, 3.0, 24.0], dtype)
    found = mean_of_kept(x, tf.ones((1, count), tf.bool))
    assert found.dtype == dtype
    np.testing.assert_array_equal(tf.cast(found, tf.float32), [[1.0, 3.0, 24.0]])


@pytest.mark.parametrize("through", ["bottom", "model"])
def test_sound_is_not_rounded_before_its_energies_are_computed(through):
    """Or what is the same after rounding would give the same."""
    feature = FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=RATE)
    label = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3)
    spec = ProblemSpec(name="sounds", features={"inputs": feature, "targets": label})
    model = randomise(TransformerEncoder(tiny_hparams(num_hidden_layers=1), spec, dtype="mixed_bfloat16"))
    samples = tf.constant(1.0 + 0.005 * sound(100))
    rounded = tf.cast(tf.cast(samples, "bfloat16"), "float32")
    found, other = (
        numpy(model.source_embedding(given) if through == "bottom" else model({"inputs": given}))
        for given in (samples, rounded)
    )
    assert (found != other).any()


# === Clips ===

SHAPE = (6, 9, 2)
"""Two rows and three columns of tubelets, those at the edges not full."""
WIDTH = 16


def clip(frames, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (1, frames, *SHAPE)).astype(np.uint8)


def video(modality=TubeletVideo):
    bottom = modality(FeatureSpec(kind=FeatureKind.VIDEO, shape=SHAPE), WIDTH)
    bottom.build()
    return randomise(bottom)


def value(frames, place):
    """A standardised intensity; 0 beyond the clip and its frames."""
    frame, row, column, channel = place
    if frame >= len(frames) or row >= SHAPE[0] or column >= SHAPE[1]:
        return 0.0
    x = frames[frame] / 255.0
    return (x[row, column, channel] - x.mean()) / x.std()


@pytest.mark.parametrize(("modality", "patch"), [(TubeletVideo, 4), (LargeTubeletVideo, 16)])
@pytest.mark.parametrize("frames", [4, 3, 1])
def test_a_tubelet_is_a_dense_layer_of_its_intensities_with_sinusoids_of_time_row_and_column(modality, patch, frames):
    bottom, given = video(modality), clip(frames)
    kernel, bias = (numpy(variable) for variable in bottom.projection.variables)
    expected, places = [], [(down, across) for down in range(0, 6, patch) for across in range(0, 9, patch)]
    for time in range(0, frames, 2):
        for top, left in places:
            values = [
                value(given[0].astype(float), (time + f, top + y, left + x, c))
                for f, y, x, c in np.ndindex(2, patch, patch, 2)
            ]
            waves = np.concatenate([sinusoid(time, WIDTH // 2), sinusoid(top, WIDTH // 4), sinusoid(left, WIDTH // 4)])
            expected.append(np.array(values) @ kernel + bias + waves)
    found = numpy(bottom(given))
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-4)
    assert bottom.positions_of(frames) == len(expected)
    assert numpy(bottom.keep(given)).all()


@pytest.mark.parametrize("frames", [4, 3])
def test_frames_of_padding_change_no_vector_and_are_not_kept(frames):
    bottom, given = video(), clip(frames)
    padded = np.pad(given, ((0, 0), (0, 4), (0, 0), (0, 0), (0, 0)))
    count = bottom.positions_of(frames)
    np.testing.assert_allclose(numpy(bottom(padded))[:, :count], numpy(bottom(given)), rtol=1e-5, atol=1e-6)
    assert numpy(bottom.keep(padded))[0].tolist() == [1.0] * count + [0.0] * (bottom.positions_of(frames + 4) - count)


def test_black_frames_count_as_padding_at_the_end_alone():
    bottom, given = video(), clip(6)
    given[:, 2:4] = 0
    assert numpy(bottom.keep(given)).all()
    given[:, 4:] = 0
    assert numpy(bottom.keep(given))[0].tolist() == [1.0] * 6 + [0.0] * 12
    assert numpy(bottom.keep(np.zeros_like(given)))[0].tolist() == [1.0] * 6 + [0.0] * 12


def test_clips_are_read_as_tubelets_unless_another_modality_is_named():
    features = {
        "inputs": FeatureSpec(kind=FeatureKind.VIDEO, shape=SHAPE),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3),
    }
    spec = ProblemSpec(name="clips", features=features)
    for changes, modality in (({}, TubeletVideo), ({"input_modality": "large_tubelet_video"}, LargeTubeletVideo)):
        assert type(build_modalities(spec, HParams(hidden_size=8, **changes), "float32").source) is modality
    with refused("hidden_size=12"):
        build_modalities(spec, HParams(hidden_size=12), "float32")


def test_pixels_have_the_last_frames_that_hold_data_and_black_ones_before_them():
    bottom, given = video(PixelVideo), clip(6)
    given = np.concatenate([given, given])
    given[1, 3:] = 0
    found = numpy(bottom.last_frames(given))
    assert found.shape == (2, 6, 9, 8)
    for row, frames in ((0, [given[0, frame] for frame in range(2, 6)]), (1, [0 * given[1, 0], *given[1, :3]])):
        for number, frame in enumerate(frames):
            np.testing.assert_array_equal(found[row, ..., 2 * number : 2 * number + 2], frame)
    assert not numpy(bottom.last_frames(0 * given)).any()


def test_a_pixel_is_a_convolution_of_the_last_frames_and_blocks_row_by_row():
    bottom, given = video(PixelVideo), clip(4)
    images = numpy(bottom.last_frames(given))[0]
    x = np.pad((images - images.mean()) / images.std(), ((3, 3), (3, 3), (0, 0)))
    kernel, bias = (numpy(variable) for variable in bottom.first.variables)
    grid = np.array(
        [
            [np.einsum("yxc,yxcd->d", x[row : row + 7, column : column + 7], kernel) + bias for column in range(9)]
            for row in range(6)
        ]
    )
    for block in bottom.blocks:
        grid = numpy(block(grid[None].astype(np.float32)))[0]
    np.testing.assert_allclose(numpy(bottom(given))[0], grid.reshape(54, WIDTH), rtol=1e-3, atol=1e-3)
    assert bottom.positions_of(4) == 54
    assert numpy(bottom.keep(given)).shape == (1, 54)
