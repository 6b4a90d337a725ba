"""Raw formats, written by their definitions and read back; resampling is compared with other programs."""

import gzip
import io
import os
import pickle
import struct
import sys
import tarfile
import zipfile

import numpy as np
import pytest
import soundfile
from PIL import Image

from t2t.features.audio import read_audio, resampled
from t2t.features.image import png_file, read_image, resized
from t2t.problems import cifar
from t2t.problems.archives import find_first_existing, read_members
from t2t.problems.mnist import read_idx
from tests.errors import refused
from tests.raw_files import idx, write_wav


def test_idx_plain_and_packed(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(idx(images))
    (tmp_path / "b").write_bytes(gzip.compress(idx(images)))
    for name in "ab":
        np.testing.assert_array_equal(read_idx(tmp_path / name, axes=3), images)


@pytest.mark.parametrize(("content", "axes", "names"), [
    (idx(np.zeros(3, np.uint8)), 3, "00 01 03"),
    (idx(np.zeros((2, 2), np.uint8))[:-1], 2, "3 2 x"),
    (gzip.compress(idx(np.zeros(3, np.uint8)), mtime=0)[:-9], 1, "gzip"),
    (None, 1, ""),
])  # fmt: skip
def test_idx_that_is_none_is_named(tmp_path, content, axes, names):
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with refused(tmp_path / "a", *names.split()):
        read_idx(tmp_path / "a", axes=axes)


@pytest.fixture
def pictures():
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (4, 32, 32, 3), np.uint8), np.array([3, 0, 9, 1], np.uint8)


def planes(images):
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def test_cifar_binary(pictures):
    images, labels = pictures
    content = np.concatenate([labels[:, None], planes(images)], axis=1).tobytes()
    found = cifar.read_binary(content, 1, "a.bin")
    np.testing.assert_array_equal(found[0], images)
    np.testing.assert_array_equal(found[1], labels)
    coarse = np.concatenate([np.zeros((4, 1), np.uint8), labels[:, None], planes(images)], axis=1).tobytes()
    np.testing.assert_array_equal(cifar.read_binary(coarse, 2, "a.bin")[1], labels)
    with refused("a.bin:", "12,291", "3,073"):
        cifar.read_binary(content[:-1], 1, "a.bin")


def test_cifar_pickles_of_every_protocol_and_by_python_2_as_the_originals_are(pictures):
    """Strings of Python 2 are bytes; its numpy is `numpy.core`."""
    images, labels = pictures
    state = b"(I1\n(I%d\nI3072\ntcnumpy\ndtype\n(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\n" % len(images)
    raw = planes(images).tobytes()
    data = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR" + state
    data += b"T" + struct.pack("<i", len(raw)) + raw + b"tb"
    original = b"\x80\x02}(S'data'\n" + data + b"S'labels'\n](" + b"".join(b"I%d\n" % one for one in labels) + b"eu."
    batch = {b"data": planes(images), b"labels": labels.tolist(), b"batch_label": b"1"}
    for content in (original, *(pickle.dumps(batch, protocol) for protocol in range(5))):
        found = cifar.read_python(content, "labels", "data_batch_1")
        np.testing.assert_array_equal(found[0], images)
        np.testing.assert_array_equal(found[1], labels)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("harmed",)


@pytest.mark.parametrize(("content", "name"), [
    (pickle.dumps(Harmful()), "posix.mkdir,"),
    (pickle.dumps({b"data": Harmful(), b"labels": []}), "posix.mkdir,"),
    (b'cbuiltins\neval\n(S\'__import__("os").mkdir("harmed")\'\ntR.', "builtins.eval,"),
    (b"", "CIFAR"),
    (b"\x80\x04", "CIFAR"),
    *((pickle.dumps(found), "CIFAR") for found in ([1], {b"data": b"", b"labels": []}, {b"data": 1})),
])  # fmt: skip
def test_another_pickle_is_named_and_runs_no_code(tmp_path, monkeypatch, content, name):
    monkeypatch.chdir(tmp_path)
    with refused("batch:", name):
        cifar.read_python(content, "labels", "batch")
    assert not (tmp_path / "harmed").exists()


def test_members_of_folders_and_archives_have_the_same_paths(tmp_path):
    files = {"set/a.txt": b"1", "set/in/b.txt": b"2", "set/c.bin": b"3"}
    (tmp_path / "set" / "in").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with tarfile.open(tmp_path / "set.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "set", "./set")
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    for place in ("set", "set.tar.gz", "set.zip"):
        found = read_members(tmp_path / place, lambda name: name.endswith(".txt"))
        assert found == {"set/a.txt": b"1", "set/in/b.txt": b"2"}
    assert find_first_existing(tmp_path, ["no", "set.zip", "set"]) == tmp_path / "set.zip"
    assert find_first_existing(tmp_path, ["no", "x" * 300]) is None
    (tmp_path / "bad.tar.gz").write_bytes((tmp_path / "set.tar.gz").read_bytes()[:60])
    for name in ("bad.tar.gz", "none.tar.gz"):
        with refused(f"{tmp_path / name}:"):
            read_members(tmp_path / name, lambda _: True)
    before = set(tmp_path.parent.iterdir())
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("../out.txt")
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    assert read_members(tmp_path / "a.tar", lambda name: name.endswith("out.txt")) == {"../out.txt": b"x"}
    assert set(tmp_path.parent.iterdir()) == before, "an archive is not unpacked on disk"


@pytest.mark.parametrize("size", [(7, 5), (31, 12), (40, 50), (20, 20), (1, 1)])
def test_resizing_is_tensorflows(size):
    import tensorflow as tf

    image = np.random.default_rng(1).integers(0, 256, (20, 31, 3), np.uint8)
    expected = tf.image.resize(image, size, method="bilinear", antialias=True).numpy()
    np.testing.assert_allclose(resized(image, *size), expected, atol=1.01)  # rounded once for each side


def test_cropping_keeps_the_middle():
    image = np.zeros((4, 8, 1), np.uint8)
    image[:, 2:6] = 9
    assert (resized(image, 4, 4, fit="crop") == 9).all()
    assert (resized(image.transpose(1, 0, 2), 4, 4, fit="crop") == 9).all()
    assert (resized(image, 2, 2, fit="crop") == 9).all()
    assert resized(image, 4, 4).min() < 9
    with refused("image_fit", "'stretch':", "squash,", "crop"):
        resized(image, 4, 4, fit="stretch")


def test_wav_of_every_width_and_of_two_channels(tmp_path):
    numbers = np.array([0, 64, -64, 127, -128])
    packed = {
        1: (numbers + 128).astype(np.uint8).tobytes(),
        2: (numbers * 2**8).astype("<i2").tobytes(),
        3: b"".join(struct.pack("<i", int(one) * 2**24)[1:] for one in numbers),
        4: (numbers * 2**24).astype("<i4").tobytes(),
    }
    for width, content in packed.items():
        write_wav(tmp_path / "a.wav", content, rate=8000, width=width)
        waveform, rate = read_audio(tmp_path / "a.wav")
        assert (rate, waveform.dtype) == (8000, np.float32)
        np.testing.assert_array_equal(waveform, numbers / 128)
    write_wav(tmp_path / "a.wav", np.array([100, 300, -50, 50], "<i2").tobytes(), channels=2)
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav")[0] * 2**15, [200, 0])  # the mean of the channels


def test_sound_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    for name in ("a.wav", "x" * 300):
        with refused(tmp_path / name):
            read_audio(tmp_path / name)
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    with refused(tmp_path / "a.wav", "WAV,", "FLAC,"):
        read_audio(tmp_path / "a.wav")
    for value in (np.nan, np.inf, -np.inf, 1e300):
        soundfile.write(tmp_path / "b.wav", np.array([0.5, value, 0.5]), 16_000, subtype="DOUBLE")
        with refused("b.wav:", "infinite"):
            read_audio(tmp_path / "b.wav")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with refused("soundfile"):
        read_audio(tmp_path / "a.wav")


@pytest.mark.parametrize("kind", ["flac", "ogg", "mp3"])
def test_compressed_sound_is_read(kind, tmp_path):
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 16_000).astype(np.float32)
    soundfile.write(tmp_path / f"a.{kind}", tone, 16_000)
    waveform, rate = read_audio(tmp_path / f"a.{kind}")
    assert rate == 16_000
    np.testing.assert_allclose(waveform[2000:6000], tone[2000:6000], atol=1e-4 if kind == "flac" else 0.05)


@pytest.mark.parametrize(
    ("rate", "wanted"), [(8000, 16000), (44100, 16000), (48000, 16000), (16000, 8000), (11025, 16000)]
)
def test_resampling_keeps_a_tone_and_drops_what_does_not_fit(rate, wanted):
    """A tone is the same function of time at both rates; one above the new Nyquist frequency is silence."""

    def tone(frequency, at):
        return np.sin(2 * np.pi * frequency * np.arange(at // 4) / at).astype(np.float32)

    low = 0.4 * min(rate, wanted)
    found = resampled(tone(low, rate), rate, wanted)
    assert abs(len(found) - wanted // 4) <= 1
    inside = slice(200, min(len(found), wanted // 4) - 200)
    np.testing.assert_allclose(found[inside], tone(low, wanted)[inside], atol=2e-3)
    if rate > wanted:
        high = resampled(tone(0.5 * (0.5 * wanted + 0.5 * rate), rate), rate, wanted)
        assert np.abs(high[inside]).max() < 1e-3
    ones = np.ones(1000, np.float32)
    np.testing.assert_allclose(resampled(ones, rate, wanted)[150:-150], 1, atol=1e-4)
    assert resampled(ones, rate, rate) is ones
    assert len(resampled(ones[:0], rate, wanted)) == 0


# === Image files ===
def test_an_image_file_gives_its_pixels_made_grey_or_coloured(tmp_path):
    """Grey is 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601)."""
    for channels in (1, 3):
        image = np.random.default_rng(0).integers(0, 256, (5, 4, channels)).astype(np.uint8)
        (tmp_path / "a.png").write_bytes(png_file(image))
        np.testing.assert_array_equal(read_image(tmp_path / "a.png", channels), image)
    colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)
    (tmp_path / "colours.png").write_bytes(png_file(colours))
    np.testing.assert_array_equal(read_image(tmp_path / "colours.png", 1), [[[76], [150], [29]]])
    grey = np.array([[[0], [9], [255]]], np.uint8)
    (tmp_path / "grey.png").write_bytes(png_file(grey))
    np.testing.assert_array_equal(read_image(tmp_path / "grey.png", 3), grey.repeat(3, axis=2))


@pytest.mark.parametrize(("channels", "opaque"), [(2, [7, 255]), (4, [7, 7, 7, 255])])
def test_channels_of_opacity_are_read(tmp_path, channels, opaque):
    (tmp_path / "grey.png").write_bytes(png_file(np.array([[[7]]], np.uint8)))
    np.testing.assert_array_equal(read_image(tmp_path / "grey.png", channels), [[opaque]])
    image = np.random.default_rng(0).integers(0, 256, (5, 4, channels)).astype(np.uint8)
    Image.fromarray(image).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", channels), image)


@pytest.mark.parametrize(("name", "dtype"), [("a.png", "<u2"), ("a.tif", "<u2"), ("b.tif", ">u2"), ("a.pgm", "<i4")])
def test_of_sixteen_bits_the_high_byte_is_read(tmp_path, name, dtype):
    grey = np.array([[0, 255], [256, 65535]])
    Image.fromarray(grey.astype(dtype)).save(tmp_path / name)
    expected = np.array([[[0], [0]], [[1], [255]]])
    np.testing.assert_array_equal(read_image(tmp_path / name, 1), expected)
    np.testing.assert_array_equal(read_image(tmp_path / name, 3), expected.repeat(3, axis=2))


def test_image_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "a.png").write_bytes(png_file(np.zeros((50, 50, 3), np.uint8)))
    with refused("a.png:", 1, 4, 5):
        read_image(tmp_path / "a.png", 5)
    for dtype in ("<i4", "<f4"):
        Image.fromarray(np.ones((2, 2), dtype)).save(tmp_path / "a.tif")
        with refused("a.tif:", 8):
            read_image(tmp_path / "a.tif", 1)
    for content in (b"no image", (tmp_path / "a.png").read_bytes()[:60]):
        (tmp_path / "b.png").write_bytes(content)
        with refused("b.png:"):
            read_image(tmp_path / "b.png", 1)
    for name in ("c.png", "x" * 300):
        with refused(tmp_path / name):
            read_image(tmp_path / name, 1)
