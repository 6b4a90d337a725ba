"""Problems of sound, from recordings made here: as inputs, as mu-law codes and as targets."""

import io
import itertools
import math
import random
import wave

import numpy as np
import pytest
import soundfile

from t2t.data.generation.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reading.batch_arrays import extreme_batches
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.reader import SplitReader
from t2t.data.reading.training_batches import TrainingBatches
from t2t.features.audio import mu_law_codes, mu_law_waveform, read_audio, wav_file
from t2t.files.paths import with_addresses
from t2t.problems.base import Source, read_input
from t2t.runs.names import get_hparams, get_problem
from t2t.specs.features import FeatureKind
from tests.errors import refused
from tests.raw_files import write_files, write_wav
from tests.stores import memory_store


def record(path, samples, rate=16_000, level=1000):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_wav(path, np.full(samples, level), rate)


@pytest.fixture
def recordings(tmp_path):
    """Two recordings to learn from, of 0.1 and 0.05 seconds, one of 30 seconds, one of none, and two for dev."""
    lines = {"train": [], "dev": []}
    for split, name, samples, said in [
        ("train", "a", 1600, "yes no"), ("train", "b", 801, "no"), ("train", "long", 480_000, "no"),
        ("train", "none", 0, "no"), ("dev", "c", 1600, "yes"), ("dev", "d", 320, "no"),
    ]:  # fmt: skip
        record(tmp_path / "sound" / f"{name}.wav", samples, level={"a": 8192}.get(name, 1000))
        lines[split].append(f"sound/{name}.wav\t{said}\n")
    for split, of_split in lines.items():
        (tmp_path / split).write_text("".join(of_split))
    return {f"{split}_file": str(tmp_path / split) for split in lines}


@pytest.fixture
def generated(recordings, tmp_path):
    """Returns a function that generates the data of a problem, and returns its manifest and readers by split."""

    def make(name="speech_files"):
        manifest = generate(get_problem(name, recordings), tmp_path / "data", tmp_path, workers=1)
        folder = tmp_path / "data" / name
        return manifest, {split: SplitReader(folder, read_manifest(folder), split) for split in ("train", "dev")}

    return make


def test_recordings_to_text_the_whole_way(generated, tmp_path):
    manifest, readers = generated()
    assert manifest.splits["train"].examples == 2
    assert manifest.splits["train"].dropped == {"longer than 20 s": 1, "with an empty side": 1}
    assert (manifest.spec.inputs.kind, manifest.spec.inputs.sample_rate) == (FeatureKind.AUDIO, 16_000)
    assert manifest.spec.targets.vocab_size == 258
    values, lengths = readers["train"].read(np.array([1, 0]), "inputs")
    assert lengths.tolist() == [801, 1600]
    np.testing.assert_array_equal(read_input(get_problem("speech_files"), tmp_path / "sound/b.wav"), values[:801])
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, np.repeat([1000, 8192], [801, 1600]).astype(np.float32) / 2**15)
    record(tmp_path / "slow.wav", 800, rate=8000)
    slow, array = get_problem("speech_files").features["inputs"].encode([tmp_path / "slow.wav", np.zeros(5)])
    assert slow.shape == (1600,), "other rates are resampled"
    assert array.dtype == np.float32


def test_recordings_in_a_store_are_downloaded_with_their_folder(recordings, tmp_path, monkeypatch):
    options = {name: path.replace(str(tmp_path), "memory://b/mine") for name, path in recordings.items()}
    with memory_store(monkeypatch, tmp_path / "cache") as store:
        store.files.put(str(tmp_path), "/b/mine", recursive=True)
        with refused(1, "--tmp_dir") as raised:
            generate(get_problem("speech_files", options), tmp_path / "data", tmp_path, workers=1)
        said = with_addresses(str(raised.value))
        assert all(f"memory://b/mine{file}" in said for file in ("/dev,", "/sound/c.wav,", ""))
        manifest = generate(get_problem("speech_files", options), tmp_path / "data", "memory://b/mine", workers=1)
    assert (manifest.splits["train"].examples, manifest.splits["dev"].examples) == (2, 2)


def test_batches_count_audio_by_ten_milliseconds_and_pad_it_with_zeros(generated):
    """801 samples are 6 frames of 160, 1,600 are 10; limits on ids do not bear on them."""
    reader = generated()[1]["train"]
    batches = TrainingBatches(reader, seed=1, batch_size=20, max_length=7, ladder_step=1.0)
    (batch, _) = next(batches)
    assert batch["inputs"].shape == (2, 1600)
    assert batch["inputs"].dtype == np.float32
    short = batch["inputs"][batch["inputs"][:, 900] == 0][0]
    assert (short[:801] == np.float32(1000 / 2**15)).all()
    assert not short[801:].any()
    assert batch["targets"].shape == (2, 7)
    (one, _), (other, _) = (next(TrainingBatches(reader, seed=s, batch_size=19, ladder_step=1.0)) for s in (1, 2))
    assert {one["inputs"].shape, other["inputs"].shape} <= {(1, 960), (1, 1600)}
    skipping = TrainingBatches(reader, seed=1, batch_size=20, max_length=4, ladder_step=1.0)
    assert skipping.skipped == 1
    assert next(skipping)[0]["inputs"].shape == (1, 960)
    evaluated = list(EvalBatches(reader, 20, max_length=5, ladder_step=1.0))
    assert [batch["inputs"].shape for _, batch in evaluated] == [(2, 1600)]
    shaped = TrainingBatches(reader, seed=1, batch_size=20, fixed_shapes=1)
    assert next(shaped)[0]["inputs"].shape == (2, 1600)

    extreme = extreme_batches(reader, None, 40, 256)
    assert [{name: array.shape for name, array in batch.items()} for batch in extreme] == [
        {"inputs": (2, 1600), "targets": (2, 7)}, {"inputs": (2, 480), "targets": (2, 3)},
    ]  # fmt: skip
    assert extreme[0]["inputs"].dtype == np.float32
    assert extreme[0]["inputs"].all()


def test_recordings_to_classes(generated, recordings, tmp_path):
    (tmp_path / "train").write_text("sound/a.wav\tyes\nsound/b.wav\tno\n")
    manifest, readers = generated("speech_classify_files")
    assert (manifest.spec.targets.kind, manifest.spec.targets.vocab_size) == (FeatureKind.LABEL, 2)
    assert readers["dev"].single(np.arange(2), "targets").tolist() == [1, 0]
    (batch, _) = next(TrainingBatches(readers["train"], seed=1, batch_size=20, max_length=2))
    assert sorted(batch["targets"].tolist()) == [0, 1]
    (tmp_path / "dev").write_text("sound/c.wav\tperhaps\n")
    with refused("/dev,", 1, "'perhaps'", "(no,", "yes)"):
        generate(get_problem("speech_classify_files", recordings), tmp_path / "other", tmp_path, workers=1)


@pytest.mark.parametrize("name", ["sound/x.wav", "yes " * 75 + "yes"], ids=["path", "columns swapped"])
def test_a_recording_that_is_not_there_is_named_with_its_line(recordings, source, name):
    (source.tmp_dir / "train").write_text(f"sound/a.wav\tyes\n\n{name}\tno\n")
    with refused(source.tmp_dir / "train", "3,", source.tmp_dir / name.split()[0]):
        list(get_problem("speech_files", recordings).generate_samples("train", source))


def test_changed_transcripts_of_librispeech_are_noticed(tmp_path):
    problem = get_problem("librispeech_clean_small")
    assert problem.raw_files(tmp_path) == {}
    names = [f"{part}/1/2/1-2.trans.txt" for part in ("train-clean-100", "dev-clean", "test-clean")]
    for name in names:
        transcripts = tmp_path / "LibriSpeech" / name
        record(transcripts.with_name("1-2-0000.wav"), 800)
        transcripts.write_text("1-2-0000 ONE\n")
    manifest = generate(problem, tmp_path / "data", tmp_path, workers=1)
    assert list(manifest.raw_files) == names
    transcripts.write_text("1-2-0000 TWO\n")
    with refused("librispeech_clean_small", "/test-clean/1/2/1-2.trans.txt"):
        generate(problem, tmp_path / "data", tmp_path, workers=1)


@pytest.fixture
def sharded(parts_of):
    """Returns a function that returns the samples of each shard of a split, which are together those of the split."""

    def parts(name, split):
        *shards, together = parts_of(get_problem(name), split)
        of_shards = list(itertools.chain(*shards))
        assert [sample["targets"] for sample in of_shards] == [sample["targets"] for sample in together]
        return shards

    return parts


def test_librispeech_is_sharded_by_twenty_files_of_transcripts_and_common_voice_by_a_thousand_lines(tmp_path, sharded):
    for part, chapters in (("dev-clean", 41), ("dev-other", 3)):
        for chapter in range(chapters):
            folder = f"LibriSpeech/{part}/1/{chapter:02d}"
            write_files(tmp_path, {f"{folder}/a.wav": b"", f"{folder}/1.trans.txt": f"a {part} {chapter}\n"})
    assert [len(samples) for samples in sharded("librispeech", "dev")] == [20, 20, 1, 3]
    rows = "".join(f"x\ta.mp3\tSentence {number}.\n" for number in range(1500))
    columns = "client_id\tpath\tsentence\n"
    write_files(tmp_path, {f"en/{split}.tsv": f"{columns}{rows}" for split in ("train", "dev", "test")})
    write_files(tmp_path, {"en/clips/a.wav": b""})
    assert [len(samples) for samples in sharded("common_voice", "train")] == [999, 501]  # after the line of columns


def test_librispeech_is_sharded_as_tfds_has_it(tmp_path, sharded, prepared_tfds):
    def example(text):
        speech = np.array([0, 2**14, -(2**15)])
        return {"speech": speech, "text": text, "speaker_id": 1, "chapter_id": 1, "id": text}

    prepared_tfds(tmp_path, "librispeech", {"test_clean": [example("A")], "test_other": [example("B"), example("C")]})
    shards = sharded("librispeech", "test")
    assert len(shards) >= 2
    samples = list(itertools.chain(*shards))
    assert [sample["inputs"].tolist() for sample in samples] == [[0.0, 0.5, -1.0]] * 3
    assert sorted(sample["targets"] for sample in samples) == ["A", "B", "C"]


# === Recordings as targets ===
RATE = 8000


def tone(samples, level=0.5):
    return (level * np.sin(np.arange(samples) / 7)).astype(np.float32)


@pytest.fixture
def loud_recordings(tmp_path):
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
def test_mu_law_by_hand_every_code_comes_back_and_quiet_samples_are_kept_finest():
    """f(0.5) = ln 128.5 / ln 256 = 0.87571, which is 239.2 of 255; f(-0.01) = -ln 3.55 / ln 256 = -0.22847, 98.4.

    Code 191 is y = 2 * 191 / 255 - 1 = 0.498; (256^0.498 - 1) / 255 = 0.05814.
    """
    codes = mu_law_codes(np.array([-1.0, 0.0, 1.0, 0.5, -0.01, 7.0, -7.0]))
    assert (codes.tolist(), codes.dtype) == ([0, 128, 255, 239, 98, 255, 0], np.uint8)
    waveform = mu_law_waveform(np.array([0, 191, 255]))
    np.testing.assert_allclose(waveform, [-1.0, (256 ** (127 / 255) - 1) / 255, 1.0], rtol=1e-6)
    codes = np.arange(256)
    levels = mu_law_waveform(codes)
    np.testing.assert_array_equal(mu_law_codes(levels), codes)
    assert (np.diff(levels) > 0).all()
    x = np.linspace(-1, 1, 10_001)
    error = np.abs(mu_law_waveform(mu_law_codes(x)) - x)
    # Half a step of f, 1 / 255, times the slope of its inverse, (1 + 255 |x|) ln(256) / 255.
    assert (error <= 1.02 / 255 * (1 + 255 * np.abs(x)) * math.log(256) / 255 + 1e-6).all()


# === The problem ===
def test_recordings_the_whole_way_to_codes_and_back_to_a_file(loud_recordings, tmp_path, caplog):
    caplog.set_level("INFO", "t2t")
    problem = get_problem("speech_generate_files", loud_recordings)
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
    heard.write_bytes(problem.features["targets"].output_file(problem.decode_target(values[:801].tolist())))
    waveform, rate = read_audio(heard)
    assert rate == RATE
    written, _ = read_audio(tmp_path / "a.wav")
    np.testing.assert_allclose(waveform, mu_law_waveform(mu_law_codes(written)), atol=2**-15)
    np.testing.assert_allclose(waveform, tone(800), atol=0.02)


def test_the_rate_is_an_option_whose_limit_follows_it_and_samples_that_are_no_numbers_are_named(
    loud_recordings, tmp_path
):
    usual, slower = get_problem("speech_generate_files"), get_problem("speech_generate_files", {"sample_rate": 4000})
    assert (usual.sample_rate, usual.max_length) == (16_000, 320_001)
    assert (slower.sample_rate, slower.max_length) == (4000, 80_001)
    with refused("sample_rate=-1:"):
        get_problem("speech_generate_files", {"sample_rate": -1})
    soundfile.write(tmp_path / "b.wav", np.array([0.0, np.nan], np.float32), RATE, subtype="FLOAT")
    with refused("b.wav:", "nan"):
        generate(get_problem("speech_generate_files", loud_recordings), tmp_path / "data", tmp_path, workers=1)


def test_a_wav_file_holds_what_it_was_made_of_and_nothing_that_is_no_code(loud_recordings):
    problem = get_problem("speech_generate_files", loud_recordings)
    for content, rate, values in (
        (wav_file(np.array([-1.0, -0.25, 0.0, 0.5, 1.0, 3.0], np.float32), 11_025), 11_025,
         [-32767, -8192, 0, 16384, 32767, 32767]),
        (problem.features["targets"].output_file("255 <unk> 0"), RATE, [32767, -32767]),
    ):  # fmt: skip
        with wave.open(io.BytesIO(content)) as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (rate, 1, 2)
            assert np.frombuffer(file.readframes(9), "<i2").tolist() == values


@pytest.mark.parametrize(("name", "rate", "seconds"), [("wavenet", 16_000, 5), ("wavenet_tiny", 8000, 2)])
def test_sets_take_and_write_sound_as_long_as_they_say(name, rate, seconds):
    hparams = get_hparams(name)
    longest = rate * seconds
    assert (hparams.max_length, hparams.extra_length) == (longest + 1, longest)
    assert hparams.batch_size >= hparams.max_length
