"""Sound as mu-law codes, and recordings as targets, from files made here."""

import io
import math
import random
import wave

import numpy as np
import pytest
import soundfile

from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.problems.base import Source
from t2t.problems.formats.audio import mu_law_codes, mu_law_waveform, read_audio, wav_file
from t2t.runs.names import get_hparams, get_problem
from tests.errors import refused

RATE = 8000


def tone(samples, level=0.5):
    return (level * np.sin(np.arange(samples) / 7)).astype(np.float32)


@pytest.fixture
def recordings(tmp_path):
    """Options with two recordings to learn from, one of 21 seconds, and one for dev, 8,000 samples a second."""
    lines = {"train": [], "dev": []}
    for split, name, samples, text in [
        ("train", "a", 800, "one"), ("train", "b", 401, "two"), ("train", "long", 21 * RATE, "one"),
        ("dev", "c", 300, "two"),
    ]:  # fmt: skip
        (tmp_path / f"{name}.wav").write_bytes(wav_file(tone(samples), RATE))
        lines[split].append(f"{name}.wav\t{text}\n")
    for split, of_split in lines.items():
        (tmp_path / split).write_text("".join(of_split))
    return {f"{split}_file": str(tmp_path / split) for split in lines} | {"sample_rate": RATE}


def with_encoders(problem):
    return problem.with_encoders(problem.build_encoders(Source(None, random.Random(0))))


# === Mu-law ===


def test_codes_by_hand():
    """f(0.5) = ln 128.5 / ln 256 = 0.87571, which is 239.2 of 255; f(-0.01) = -ln 3.55 / ln 256 = -0.22847, 98.4."""
    found = mu_law_codes(np.array([-1.0, 0.0, 1.0, 0.5, -0.01, 7.0, -7.0]))
    assert found.tolist() == [0, 128, 255, 239, 98, 255, 0]
    assert found.dtype == np.uint8


def test_waveforms_by_hand():
    """Code 191 is y = 2 * 191 / 255 - 1 = 0.498; (256^0.498 - 1) / 255 = 0.05814."""
    found = mu_law_waveform(np.array([0, 191, 255]))
    np.testing.assert_allclose(found, [-1.0, (256 ** (127 / 255) - 1) / 255, 1.0], rtol=1e-6)


def test_every_code_comes_back_and_quiet_samples_are_kept_finest():
    codes = np.arange(256)
    levels = mu_law_waveform(codes)
    np.testing.assert_array_equal(mu_law_codes(levels), codes)
    assert (np.diff(levels) > 0).all()
    x = np.linspace(-1, 1, 10_001)
    error = np.abs(mu_law_waveform(mu_law_codes(x)) - x)
    # Half a step of f, 1 / 255, times the slope of its inverse, (1 + 255 |x|) ln(256) / 255.
    assert (error <= 1.02 / 255 * (1 + 255 * np.abs(x)) * math.log(256) / 255 + 1e-6).all()


def test_a_wav_file_holds_what_it_was_made_of():
    waveform = np.array([-1.0, -0.25, 0.0, 0.5, 1.0, 3.0], np.float32)
    content = wav_file(waveform, 11_025)
    with wave.open(io.BytesIO(content)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (11_025, 1, 2)
        assert np.frombuffer(file.readframes(6), "<i2").tolist() == [-32767, -8192, 0, 16384, 32767, 32767]


# === The problem ===


def test_recordings_the_whole_way_to_codes_and_back_to_a_file(recordings, tmp_path, caplog):
    caplog.set_level("INFO", "t2t")
    problem = get_problem("speech_generate_files", recordings)
    manifest = generate(problem, tmp_path / "data", tmp_path, workers=1)
    assert manifest.splits["train"].examples == 2
    assert manifest.splits["train"].dropped == {"longer than 160001 ids": 1}
    assert "259" in caplog.text
    assert "--vocab_size" not in caplog.text, "a size that nobody asked for is not named"
    folder = tmp_path / "data" / problem.name
    reader = SplitReader(folder, read_manifest(folder), "train")
    values, lengths = reader.read(np.array([0, 1]), "targets")
    assert lengths.tolist() == [801, 402]
    problem = with_encoders(problem)
    assert problem.encoders["inputs"].decode(reader.read(np.array([1]), "inputs")[0]) == "two"
    heard = tmp_path / "heard.wav"
    heard.write_bytes(problem.output_file(problem.decode_target(values[:801].tolist())))
    waveform, rate = read_audio(heard)
    assert rate == RATE
    written, _ = read_audio(tmp_path / "a.wav")
    np.testing.assert_allclose(waveform, mu_law_waveform(mu_law_codes(written)), atol=2**-15)
    np.testing.assert_allclose(waveform, tone(800), atol=0.02)


def test_the_rate_is_an_option_and_the_limit_follows_it():
    usual, slower = get_problem("speech_generate_files"), get_problem("speech_generate_files", {"sample_rate": 4000})
    assert (usual.sample_rate, usual.max_length) == (16_000, 320_001)
    assert (slower.sample_rate, slower.max_length) == (4000, 80_001)
    with refused("sample_rate=-1:"):
        get_problem("speech_generate_files", {"sample_rate": -1})


def test_what_is_no_code_is_left_out_of_a_file(recordings):
    content = get_problem("speech_generate_files", recordings).output_file("255 <unk> 0")
    with wave.open(io.BytesIO(content)) as file:
        assert np.frombuffer(file.readframes(9), "<i2").tolist() == [32767, -32767]


def test_a_recording_with_samples_that_are_no_numbers_is_named(recordings, tmp_path):
    soundfile.write(tmp_path / "b.wav", np.array([0.0, np.nan], np.float32), RATE, subtype="FLOAT")
    with refused("b.wav:", "nan"):
        generate(get_problem("speech_generate_files", recordings), tmp_path / "data", tmp_path, workers=1)


@pytest.mark.parametrize(("name", "rate", "seconds"), [("wavenet", 16_000, 5), ("wavenet_tiny", 8000, 2)])
def test_sets_take_and_write_sound_as_long_as_they_say(name, rate, seconds):
    hparams = get_hparams(name)
    longest = rate * seconds
    assert (hparams.max_length, hparams.extra_length) == (longest + 1, longest)
    assert hparams.batch_size >= hparams.max_length
