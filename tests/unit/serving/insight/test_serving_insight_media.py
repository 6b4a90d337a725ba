"""Pictures and sounds of pages, decoded by other libraries, equal the original data."""

import base64
import io
import wave
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from t2t.serving.insight.media import LONGEST_SIDE, MOST_SECONDS, media_of, output_media
from t2t.specs.features import FeatureKind, FeatureSpec


def content(media, kind):
    start, _, data = media["url"].partition(";base64,")
    assert start == f"data:{kind}"
    return io.BytesIO(base64.b64decode(data))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_the_image(channels):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    media = media_of(image, FeatureSpec(kind=FeatureKind.IMAGE, shape=image.shape))
    shown = np.asarray(Image.open(content(media, "image/png")))
    assert np.array_equal(shown.reshape(image.shape), image)


def test_a_large_picture_is_sent_smaller_and_other_channels_by_their_mean():
    image = np.full((2 * LONGEST_SIDE, 10, 2), (10, 30), np.uint8)
    shown = np.asarray(Image.open(content(media_of(image, FeatureSpec(kind=FeatureKind.IMAGE)), "image/png")))
    assert shown.shape == (LONGEST_SIDE, 5)
    assert (shown == 20).all()


def test_a_clip_is_some_of_its_frames_beside_each_other():
    clip = np.arange(15, dtype=np.uint8)[:, None, None, None] * np.ones((15, 4, 3, 1), np.uint8)
    media = media_of(clip, FeatureSpec(kind=FeatureKind.VIDEO, shape=(4, 3, 1)))
    shown = np.asarray(Image.open(content(media, "image/png")))
    assert shown[0, ::3].tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert media["note"] == "8 of 15 frames"


def test_a_sound_is_its_samples_and_a_long_one_is_cut():
    waveform = np.sin(np.arange(100 * (MOST_SECONDS + 1)), dtype=np.float32)
    media = media_of(waveform, FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=100))
    with wave.open(content(media, "audio/wav")) as file:
        assert (file.getframerate(), file.getnframes()) == (100, 100 * MOST_SECONDS)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    np.testing.assert_allclose(samples / 32767, waveform[: len(samples)], atol=1e-4)
    assert media["note"] == f"the first {MOST_SECONDS:g} s"


def test_an_output_is_what_the_decoder_would_write():
    problem = SimpleNamespace(output_suffix=".wav", output_file=lambda text: text.encode())
    assert content(output_media(problem, "a b"), "audio/wav").read() == b"a b"
    assert output_media(SimpleNamespace(output_suffix=""), "a b") is None
