"""Problems of sound, from recordings made here."""

import itertools
import random
import wave

import numpy as np
import pytest

from t2t.data.eval_batches import EvalBatches
from t2t.data.extremes import extreme_batches
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.data.training_batches import TrainingBatches
from t2t.errors import UserError
from t2t.files.paths import with_addresses
from t2t.problems.base import Source
from t2t.runs.names import get_problem
from t2t.specs.features import FeatureKind
from tests.stores import memory_store


def record(path, samples, rate=16_000, level=1000):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(np.full(samples, level, "<i2").tobytes())


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


def open_split(problem, tmp_path, split):
    folder = tmp_path / "data" / problem.name
    return SplitReader(folder, read_manifest(folder), split)


def test_recordings_to_text_the_whole_way(recordings, tmp_path):
    problem = get_problem("speech_files", recordings)
    manifest = generate(problem, tmp_path / "data", tmp_path, workers=1)
    assert manifest.splits["train"].examples == 2
    assert manifest.splits["train"].dropped == {"longer than 20 s": 1, "with an empty side": 1}
    assert (manifest.spec.inputs.kind, manifest.spec.inputs.sample_rate) == (FeatureKind.AUDIO, 16_000)
    assert manifest.spec.targets.vocab_size == 258
    reader = open_split(problem, tmp_path, "train")
    values, lengths = reader.read(np.array([1, 0]), "inputs")
    assert lengths.tolist() == [801, 1600]
    np.testing.assert_array_equal(problem.read_input(tmp_path / "sound/b.wav"), values[:801])
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, np.repeat([1000, 8192], [801, 1600]).astype(np.float32) / 2**15)


def test_recordings_in_a_store_are_downloaded_with_their_folder(recordings, tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.files.remote.owners.SETTLE_S", 0.01)
    options = {name: path.replace(str(tmp_path), "memory://b/mine") for name, path in recordings.items()}
    with memory_store(monkeypatch, tmp_path / "cache") as store:
        store.files.put(str(tmp_path), "/b/mine", recursive=True)
        with pytest.raises(UserError) as raised:
            generate(get_problem("speech_files", options), tmp_path / "data", tmp_path, workers=1)
        assert with_addresses(str(raised.value)) == (
            "memory://b/mine/dev, line 1, names memory://b/mine/sound/c.wav, which is not on this machine; of an "
            "object store, the lists and all of --tmp_dir are downloaded; give --tmp_dir=memory://b/mine"
        )
        manifest = generate(get_problem("speech_files", options), tmp_path / "data", "memory://b/mine", workers=1)
    assert (manifest.splits["train"].examples, manifest.splits["dev"].examples) == (2, 2)


def test_batches_count_audio_by_ten_milliseconds_and_pad_it_with_zeros(recordings, tmp_path):
    """801 samples are 6 frames of 160, 1,600 are 10; limits on ids do not bear on them."""
    problem = get_problem("speech_files", recordings)
    generate(problem, tmp_path / "data", tmp_path, workers=1)
    reader = open_split(problem, tmp_path, "train")
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


def test_extreme_batches_are_as_wide_as_real_ones(recordings, tmp_path):
    problem = get_problem("speech_files", recordings)
    generate(problem, tmp_path / "data", tmp_path, workers=1)
    batches = extreme_batches(open_split(problem, tmp_path, "train"), None, 40, 256)
    assert [{name: array.shape for name, array in batch.items()} for batch in batches] == [
        {"inputs": (2, 1600), "targets": (2, 7)}, {"inputs": (2, 480), "targets": (2, 3)},
    ]  # fmt: skip
    assert batches[0]["inputs"].dtype == np.float32
    assert batches[0]["inputs"].all()


def test_recordings_to_classes(recordings, tmp_path):
    (tmp_path / "train").write_text("sound/a.wav\tyes\nsound/b.wav\tno\n")
    problem = get_problem("speech_classify_files", recordings)
    manifest = generate(problem, tmp_path / "data", tmp_path, workers=1)
    assert (manifest.spec.targets.kind, manifest.spec.targets.vocab_size) == (FeatureKind.LABEL, 2)
    reader = open_split(problem, tmp_path, "dev")
    assert reader.single(np.arange(2), "targets").tolist() == [1, 0]
    (batch, _) = next(TrainingBatches(open_split(problem, tmp_path, "train"), seed=1, batch_size=20, max_length=2))
    assert sorted(batch["targets"].tolist()) == [0, 1]
    (tmp_path / "dev").write_text("sound/c.wav\tperhaps\n")
    with pytest.raises(
        UserError, match=r"dev, line 1, has class 'perhaps', which is none of the training file's \(no, yes\)"
    ):
        generate(get_problem("speech_classify_files", recordings), tmp_path / "other", tmp_path, workers=1)


def test_other_rates_are_resampled(tmp_path):
    record(tmp_path / "a.wav", 800, rate=8000)
    problem = get_problem("speech_files")
    assert problem.input_array(tmp_path / "a.wav").shape == (1600,)
    assert problem.input_array(np.zeros(5)).dtype == np.float32


@pytest.mark.parametrize("name", ["sound/x.wav", "yes " * 75 + "yes"], ids=["path", "columns swapped"])
def test_a_recording_that_is_not_there_is_named_with_its_line(recordings, tmp_path, name):
    (tmp_path / "train").write_text(f"sound/a.wav\tyes\n\n{name}\tno\n")
    with pytest.raises(UserError) as raised:
        list(get_problem("speech_files", recordings).generate_samples("train", Source(tmp_path, random.Random(0))))
    assert str(raised.value) == (
        f"{tmp_path}/train, line 3, names {tmp_path}/{name}, which is not there; a line is the path of a "
        f"recording, a TAB and what is said in it; correct the file"
    )


def test_samples_of_another_form_are_told():
    problem = get_problem("speech_files")
    wanted = (
        "a waveform is the pathlib.Path of an audio file, or a numpy array (samples,) of float in [-1, 1] at 16000 Hz"
    )
    assert problem.sample_fault({"inputs": "a.wav", "targets": "a"}) == f"has 'a.wav' for 'inputs'; {wanted}"
    assert "'inputs'" in problem.sample_fault({"inputs": np.zeros(3, int), "targets": "a"})
    assert "no 'targets'" in problem.sample_fault({"inputs": np.zeros(3)})
    assert problem.sample_fault({"inputs": np.zeros(3), "targets": "a"}) == ""


def test_librispeech_of_its_own_folder(tmp_path, drawn):
    for part, text in (
        ("train-clean-100", "ONE"),
        ("dev-clean", "TWO"),
        ("dev-other", "THREE"),
        ("test-clean", "FOUR"),
    ):
        folder = tmp_path / "LibriSpeech" / part / "1" / "2"
        record(folder / "1-2-0000.wav", 10)
        (folder / "1-2-0001.flac").write_bytes(b"")
        (folder / "1-2.trans.txt").write_text(f"1-2-0000 {text} WORD\n1-2-0001 {text} MORE\n")
    found = drawn("librispeech", "dev")
    assert [sample["targets"] for sample in found] == ["TWO WORD", "TWO MORE", "THREE WORD", "THREE MORE"]
    assert [sample["inputs"].name for sample in found][:2] == ["1-2-0000.wav", "1-2-0001.flac"]
    assert len(drawn("librispeech_clean_small", "train")) == 2
    assert len(drawn("librispeech_clean", "dev")) == 2
    with pytest.raises(UserError, match=r"librispeech: .*/train-clean-360 has no transcripts .*; unpack"):
        drawn("librispeech", "train")
    (tmp_path / "LibriSpeech/dev-clean/1/2/1-2-0001.flac").unlink()
    with pytest.raises(UserError, match=r"trans.txt: 1-2-0001.wav or .flac is not there; unpack the archive again"):
        drawn("librispeech", "dev")


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
    with pytest.raises(
        UserError, match=r"librispeech_clean_small was made when .*/test-clean/1/2/1-2.trans.txt held som"
    ):
        generate(problem, tmp_path / "data", tmp_path, workers=1)


def test_librispeech_through_tfds(tmp_path, drawn, prepared_tfds):
    example = {
        "speech": np.array([0, 2**14, -(2**15)]), "text": "HELLO", "speaker_id": 1, "chapter_id": 1, "id": "1-1-0",
    }  # fmt: skip
    prepared_tfds(tmp_path, "librispeech", {"test_clean": [example], "test_other": [example]})
    first, _ = drawn("librispeech", "test")
    assert (first["inputs"].tolist(), first["targets"]) == ([0.0, 0.5, -1.0], "HELLO")


def test_a_vocabulary_is_learnt_from_all_transcripts_however_long_the_sound_is(tmp_path, prepared_tfds):
    examples = [
        {"speech": np.full(1600, n), "text": f"WORD {n}", "speaker_id": 1, "chapter_id": 1, "id": f"1-1-{n}"}
        for n in range(8)
    ]  # fmt: skip
    prepared_tfds(tmp_path, "librispeech", {"train_clean100": examples})
    source = Source(tmp_path, random.Random(0), enough_bytes=8 * len("WORD 0"))
    found = get_problem("librispeech_clean_small").generate_samples("train", source)
    assert {sample["targets"] for sample in found} == {f"WORD {n}" for n in range(8)}
    assert source.skipped == 0


def every_shard(problem, split, tmp_path):
    """Returns the samples of each shard of a split."""
    whole = Source(tmp_path, random.Random(0))
    count = problem.shards(split, whole)
    return [
        list(problem.generate_samples(split, Source(tmp_path, random.Random(0), shard=shard, shards=count)))
        for shard in range(count)
    ]


def test_librispeech_is_sharded_by_twenty_files_of_transcripts_in_each_part(tmp_path, drawn):
    for part, chapters in (("dev-clean", 41), ("dev-other", 3)):
        for chapter in range(chapters):
            folder = tmp_path / "LibriSpeech" / part / "1" / f"{chapter:02d}"
            folder.mkdir(parents=True)
            (folder / "a.wav").write_bytes(b"")
            (folder / "1.trans.txt").write_text(f"a {part} {chapter}\n")
    shards = every_shard(get_problem("librispeech"), "dev", tmp_path)
    assert [len(samples) for samples in shards] == [20, 20, 1, 3]
    assert list(itertools.chain(*shards)) == drawn("librispeech", "dev")


def test_librispeech_is_sharded_as_tfds_has_it(tmp_path, drawn, prepared_tfds):
    def example(text):
        return {"speech": np.zeros(1, np.int64), "text": text, "speaker_id": 1, "chapter_id": 1, "id": text}

    prepared_tfds(tmp_path, "librispeech", {"test_clean": [example("A")], "test_other": [example("B"), example("C")]})
    shards = every_shard(get_problem("librispeech"), "test", tmp_path)
    texts = [[sample["targets"] for sample in samples] for samples in shards]
    assert len(texts) >= 2
    whole = [sample["targets"] for sample in drawn("librispeech", "test")]
    assert list(itertools.chain(*texts)) == whole
    assert sorted(whole) == ["A", "B", "C"]


def test_common_voice_is_sharded_by_a_thousand_lines(tmp_path, drawn):
    (tmp_path / "en" / "clips").mkdir(parents=True)
    (tmp_path / "en" / "clips" / "a.wav").write_bytes(b"")
    rows = "".join(f"x\ta.mp3\tSentence {number}.\n" for number in range(1500))
    for split in ("train", "dev", "test"):
        (tmp_path / "en" / f"{split}.tsv").write_text(f"client_id\tpath\tsentence\n{rows}")
    shards = every_shard(get_problem("common_voice"), "train", tmp_path)
    assert [len(samples) for samples in shards] == [999, 501]  # the names of the columns are a line, too
    assert list(itertools.chain(*shards)) == drawn("common_voice", "train")


@pytest.mark.parametrize("place", ["en", "cv-corpus-9.0/en"])
def test_common_voice(tmp_path, drawn, place):
    folder = tmp_path / place
    record(folder / "clips" / "one.wav", 10)
    (folder / "clips" / "two.mp3").write_bytes(b"")
    for split in ("train", "dev", "test"):
        rows = f'client_id\tpath\tsentence\tup\nx\tone.mp3\tA "quoted {split}.\t1\ny\ttwo.mp3\tAnother.\t2\n'
        (folder / f"{split}.tsv").write_text(rows)
    found = drawn("common_voice", "dev")
    assert [(sample["inputs"].name, sample["targets"]) for sample in found] == [
        ("one.wav", 'A "quoted dev.'), ("two.mp3", "Another."),
    ]  # fmt: skip
    (folder / "clips" / "two.mp3").unlink()
    with pytest.raises(UserError, match=r"dev.tsv: clips/two.mp3 is not there"):
        drawn("common_voice", "dev")
    (folder / "dev.tsv").write_text("path\twords\na\tb\n")
    with pytest.raises(UserError, match=r"dev.tsv: columns path, words; it needs path and sentence"):
        drawn("common_voice", "dev")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("", ", line 3, has '' as its path, which must name a file in clips; correct the file"),
        ("/", ", line 3, has '/' as its path, which must name a file in clips; correct the file"),
        ("x" * 300, f": clips/{'x' * 300} is not there; unpack the archive again"),
    ],
)
def test_paths_of_common_voice_that_name_no_file(tmp_path, drawn, path, said):
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "train.tsv").write_text(f"sentence\tpath\n\nOne.\t{path}\n")
    with pytest.raises(UserError) as raised:
        drawn("common_voice", "train")
    assert str(raised.value) == f"{tmp_path}/en/train.tsv{said}"


def test_rows_of_common_voice_end_only_with_their_lines(tmp_path, drawn):
    (tmp_path / "en" / "clips").mkdir(parents=True)
    (tmp_path / "en" / "clips" / "a.wav").write_bytes(b"")
    rows = b"path\tsentence\r\na\tOne\rtwo.\r\n\na\tThree.\n"
    (tmp_path / "en" / "train.tsv").write_bytes(rows)
    assert [sample["targets"] for sample in drawn("common_voice", "train")] == ["One\rtwo.", "Three."]
    (tmp_path / "en" / "train.tsv").write_bytes(rows + b"a\n")
    with pytest.raises(UserError, match=r"train.tsv: columns path; it needs path and sentence"):
        drawn("common_voice", "train")
