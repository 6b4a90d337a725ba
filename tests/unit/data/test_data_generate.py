import contextlib
import errno
import io
import os

import numpy as np
import pytest
import sentencepiece

from t2t.data.generation.generate import ReadingProgress, generate
from t2t.data.generation.plan import seed_of
from t2t.data.manifest import read_manifest
from t2t.errors import MachineError, UserError
from t2t.problems.array_inputs import Audio2Class
from tests.errors import refused
from tests.generated import contents, texts


def make(problem, folder, **settings):
    """Generates data of a problem by one process."""
    return generate(problem, folder, folder, workers=1, **settings)


def test_data_says_what_the_problem_yields_and_shards_and_chunks_do_not_show(
    digits_class, digits_folder, tmp_path, listed_class
):
    problem = digits_class()
    problem.chunk_size = 7
    make(problem, tmp_path, seed=7, most_bytes=100)
    assert len(read_manifest(tmp_path / "digits").split("train").shards) > 20
    for split in ("train", "dev"):
        assert texts(tmp_path / "digits", split) == texts(digits_folder, split)
    train, dev = [("1 2 3", "3 2 1"), ("7", "7 7")], [("4", "5")]
    manifest = make(listed_class(train, dev), tmp_path)
    assert manifest == read_manifest(tmp_path / "listed")
    assert texts(tmp_path / "listed", "train") == train
    assert texts(tmp_path / "listed", "dev") == dev
    assert manifest.split("train").columns["inputs"].items == 6  # 1 2 3 and 7, each with its end of sequence


def test_the_seed_decides_splits_differ_and_progress_is_told(digits_class, digits_folder, tmp_path):
    problem, told = digits_class(), []
    problem.chunk_size = 90
    make(problem, tmp_path, progress=lambda split, read: told.append((split, read)))
    assert told == [("dev", 30), ("train", 90), ("train", 180), ("train", 200)]
    for seed in (7, 8):
        make(digits_class(), tmp_path / f"{seed}", seed=seed, most_examples=60)
    assert contents(tmp_path / "7/digits") == contents(digits_folder)
    train = texts(digits_folder, "train")
    assert train != texts(tmp_path / "8/digits", "train")
    assert train[:30] != texts(digits_folder, "dev")
    assert seed_of(1, "train") == 0xED9925A8922C876F  # printf 1/train | sha256sum


def test_generating_again_touches_nothing_and_says_so(digits_class, tmp_path, log_lines):
    make(digits_class(), tmp_path)
    folder = tmp_path / "digits"
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]}
    log_lines.clear()
    assert make(digits_class(), tmp_path) == read_manifest(folder)
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]} == before
    assert len(log_lines.messages) == 1
    assert all(word in log_lines.text for word in (str(folder), "200 train", "30 dev"))
    assert [path.name for path in tmp_path.iterdir()] == ["digits"]


def test_other_data_is_refused_and_kept(digits_class, digits_folder):
    before = contents(digits_folder)
    with refused("seed", 2, 7, "--data_dir"):
        make(digits_class(), digits_folder.parent, seed=2)
    with refused("vocab_kind", "'byte'", "'token'"):
        make(digits_class(vocab_kind="byte"), digits_folder.parent, seed=7)
    assert contents(digits_folder) == before


OBSTACLES = {
    "another folder": lambda top: ((top / "data/digits").mkdir(parents=True), (top / "data/digits/a.tex").touch()),
    "a file for data": lambda top: (top / "data").write_text("years of work"),
    "a file": lambda top: ((top / "data").mkdir(), (top / "data/digits").write_text("years of work")),
    "a link": lambda top: ((top / "data/scratch").mkdir(parents=True), (top / "data/digits").symlink_to("scratch")),
    "a broken link": lambda top: ((top / "data").mkdir(), (top / "data/digits").symlink_to("nowhere")),
}


@pytest.mark.parametrize("obstacle", OBSTACLES)
def test_what_is_in_the_way_is_found_before_the_work_and_kept(digits_class, tmp_path, obstacle):
    class Working(digits_class):
        def build_encoders(self, source):
            pytest.fail("generation has started")

    OBSTACLES[obstacle](tmp_path)
    before = {path: (path.lstat().st_ino, path.is_symlink() and path.readlink()) for path in tmp_path.rglob("*")}
    with refused(tmp_path / ("data" if obstacle == "a file for data" else "data/digits"), "--data_dir"):
        make(Working(), tmp_path / "data")
    found = {path: (path.lstat().st_ino, path.is_symlink() and path.readlink()) for path in tmp_path.rglob("*")}
    assert found == before


def test_links_to_finished_data_and_to_a_folder_of_data_and_empty_folders_are_used(
    digits_class, digits_folder, tmp_path
):
    (tmp_path / "digits").symlink_to(digits_folder)
    assert make(digits_class(), tmp_path, seed=7) == read_manifest(digits_folder)
    assert (tmp_path / "digits").is_symlink()
    (tmp_path / "scratch/digits").mkdir(parents=True)
    (tmp_path / "data").symlink_to("scratch")
    make(digits_class(), tmp_path / "data")
    assert len(texts(tmp_path / "scratch/digits", "dev")) == 30


# === Unfit examples ===
def test_unfit_training_examples_are_dropped_and_counted(listed_class, tmp_path, log_lines):
    good = [("1", "2")] * 6 + [("1 2 3 4 5 6 7 8 9", "1")]  # nine digits and the end of sequence are ten
    long = " ".join("1" * 10)
    train = [*good, ("", "1"), ("1", " \t "), (long, "1"), ("1", long), *good]
    dev = [("", "1"), (long, "1")]
    problem = listed_class(train, dev, repaired={"NUL removed": 2})
    problem.max_length = 10
    manifest = make(problem, tmp_path)
    record = manifest.split("train")
    assert texts(tmp_path / "listed", "train") == good * 2
    assert record.examples == 14
    assert record.dropped == {"with an empty side": 2, "longer than 10 ids": 2}
    assert record.mended == {"NUL removed": 2}
    assert texts(tmp_path / "listed", "dev") == dev
    assert manifest.split("dev").dropped == {}
    assert "(2 longer than 10 ids, 2 with an empty side)" in log_lines.text
    assert "2 NUL removed" in log_lines.text


def unfit_from(start, drawn, end=60_000):
    """Yields good pairs, then from index `start` on pairs with an empty side; appends each index to `drawn`."""
    for number in range(end):
        drawn.append(number)
        yield ("", "1") if number >= start else ("1", "2")


def test_a_hopeless_job_stops_early_and_one_whose_beginning_is_bad_goes_on(listed_class, tmp_path):
    for start in (0, 6000):
        drawn, first = [], max(10_000, 2 * start + 1000)
        with refused("listed", f"{first - start:,}", f"{first:,}", "max_length"):
            make(listed_class(unfit_from(start, drawn)), tmp_path)
        assert len(drawn) == first
        assert list(tmp_path.iterdir()) == []
    rows = [("", "1")] * 5000 + [("1", "2")] * 5500
    assert make(listed_class(rows), tmp_path).split("train").examples == 5500


def repairing(base, share):
    """A problem that repairs both sides of a fraction of its training examples, the first of every ten."""

    class Repairing(base):
        def generate_samples(self, split, source):
            for number, sample in enumerate(super().generate_samples(split, source)):
                if split == "train" and number % 10 < 10 * share:
                    source.tally["invalid UTF-8 replaced"] += 2
                yield sample

    return Repairing


def test_more_than_half_unfit_stops_the_job_in_the_end_or_on_the_way(listed_class, tmp_path):
    half = [("1", "1"), ("", "1")] * 10
    assert make(listed_class(half), tmp_path / "half").split("train").examples == 10
    with refused("listed", 11, 20, 10, "UTF-8"):
        make(listed_class(half, repaired={"invalid UTF-8 replaced": 1}), tmp_path)
    with refused("listed", "6,000", "10,000", "12,000"):
        make(repairing(listed_class, 0.6)(unfit_from(10**6, [])), tmp_path)
    with refused("listed", 1):
        make(listed_class([("", "1")]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["half"]


def test_long_examples_that_are_a_tenth_and_have_more_than_half_of_all_ids_stop_the_job(
    listed_class, tmp_path, log_lines
):
    """With the end of sequence, a short pair has 4 ids and a long one 302."""
    short, long = ("1", "1"), ("1", " ".join("1" * 299))
    for rows, share in (([short] * 100 + [long], "43.0%"), ([short] * 25 + [long] * 2, "85.8%")):
        log_lines.clear()
        record = make(listed_class(rows), tmp_path / share).split("train")
        assert record.dropped == {"longer than 256 ids": rows.count(long)}
        assert f"{share} of all ids" in log_lines.text
    with refused("listed", 906, "1,006", "max_length"):
        make(listed_class([short] * 25 + [long] * 3), tmp_path / "many")


def test_an_example_that_is_repaired_on_both_sides_or_dropped_as_well_counts_once(listed_class, tmp_path):
    rows = [("1", "2")] * 100
    train = make(repairing(listed_class, 0.5)(rows), tmp_path / "half").split("train")
    assert (train.examples, train.mended) == (100, {"invalid UTF-8 replaced": 100})
    with refused(60, 100):
        make(repairing(listed_class, 0.6)(rows), tmp_path / "more")
    rows = ([("", "2")] * 4 + [("1", "2")] * 6) * 10
    train = make(repairing(listed_class, 0.4)(rows), tmp_path / "dropped").split("train")
    assert (train.examples, train.dropped) == (60, {"with an empty side": 40})


@pytest.mark.parametrize("split", ["train", "dev"])
def test_empty_split_is_an_error(listed_class, tmp_path, split):
    rows = {"train": [("1", "1")], "dev": [("1", "1")]} | {split: []}
    with refused(f"'{split}'", "listed"):
        make(listed_class(**rows), tmp_path)
    assert list(tmp_path.iterdir()) == []


# === Unknown words ===
def warnings(log_lines):
    return [record.getMessage() for record in log_lines.records if record.levelname == "WARNING"]


def test_unknown_words_are_counted_by_split_and_feature(listed_class, tmp_path, log_lines):
    train = [("1 2 3", "3 x 1"), ("7", "y"), ("", "z"), ("8 9", "9 8")]  # the third is dropped and not counted
    manifest = make(listed_class(train, [("4 x", "5")]), tmp_path)
    assert manifest.split("train").unknown == {"targets": 2}
    assert manifest.split("dev").unknown == {"inputs": 1}
    assert read_manifest(tmp_path / "listed") == manifest
    for warning, about in zip(warnings(log_lines), (("dev", "50.00%", "inputs"), ("train", "33.33%", "targets")),
                              strict=True):  # fmt: skip
        assert all(word in warning for word in (*about, "--vocab_size", "--vocab_kind"))
    log_lines.clear()
    manifest = make(listed_class([("1 2 3 4", "x")] + [("1", "1 2")] * 50), tmp_path / "few")
    assert manifest.split("train").unknown == {"targets": 1}
    assert "0.99%" in log_lines.text
    assert not warnings(log_lines), "of a few"


@pytest.mark.parametrize("vocab_kind", ["byte", "token"])
def test_data_without_unknown_words_says_nothing_of_them(listed_class, tmp_path, vocab_kind):
    rows = [("1 2", "x" if vocab_kind == "byte" else "3")]
    assert make(listed_class(rows, vocab_kind=vocab_kind), tmp_path).split("train").unknown == {}
    assert "unknown" not in (tmp_path / "listed" / "manifest.json").read_text()


def test_texts_whose_characters_a_vocabulary_replaces_are_counted_and_named(listed_class, tmp_path, log_lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ein haus"] * 9), model_writer=model, model_type="bpe", vocab_size=270,
        hard_vocab_limit=False, byte_fallback=True, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
        normalization_rule_name="nfkc_cf", remove_extra_whitespaces=False,
    )  # fmt: skip
    (tmp_path / "folded.spm").write_bytes(model.getvalue())
    train = [("Ein Haus", "ein haus"), ("ein", "EIN"), ("Haus", "ein  haus"), ("", "Ein")]  # the last is dropped
    manifest = make(listed_class(train, [("ein", "Ein")], vocab_file=str(tmp_path / "folded.spm")), tmp_path)
    assert manifest.split("train").normalized == {"inputs": 2, "targets": 1}
    assert manifest.split("dev").normalized == {"targets": 1}
    assert read_manifest(tmp_path / "listed") == manifest
    for warning, about in zip(warnings(log_lines), (("dev", "targets", "1"), ("train", "inputs", "2"),
                              ("train", "targets", "1")), strict=True):  # fmt: skip
        assert all(word in warning for word in about)


# === Wrong samples ===
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_value_that_is_not_finite_is_refused_by_its_sample(tmp_path, value):
    class Sounds(Audio2Class):
        name, class_labels = "sounds", ("a", "b")

        def generate_samples(self, split, source):
            for number in range(40):
                waveform = np.zeros(5 + number)
                waveform[3] = value if (split, number) == ("train", 35) else 0.5
                yield {"inputs": waveform, "targets": "ab"[number % 2]}

    with refused("sounds", 36, "'train'", "'inputs'", "finite"):
        make(Sounds(), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("train", "dev", "about"), [
    ([("1", "2")] * 16 + [("1", None)] * 9, [], (17, "'train'", "None", "'targets'")),
    ([("1", "2")], [("1", "2"), (b"1", "2")], (2, "'dev'", "bytes", "'inputs'", "(b'1')")),
])  # fmt: skip
def test_a_wrong_sample_is_named_by_its_place_in_the_split(listed_class, tmp_path, train, dev, about):
    problem = listed_class(train, dev or [("1", "1")])
    problem.chunk_size = 7
    with refused("listed", *about):
        make(problem, tmp_path)
    assert list(tmp_path.iterdir()) == []


# === Failures and other processes ===
def test_crash_leaves_nothing(listed_class, tmp_path):
    class Half(listed_class):
        def encode_samples(self, samples):
            return [{"inputs": example["inputs"]} for example in super().encode_samples(samples)]

    def rows():
        yield from [("1", "2")] * 150
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make(listed_class(rows()), tmp_path, most_examples=20)
    with refused("listed", "'targets'", "encode_samples"):
        make(Half([("1", "2")]), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_do_not_write_the_same_data(digits_class, tmp_path):
    class Twice(digits_class):
        def generate_samples(self, split, source):
            with refused(tmp_path / "digits", os.getpid(), "--data_dir"):
                make(digits_class(), tmp_path)
            yield from super().generate_samples(split, source)

    make(Twice(), tmp_path)
    assert len(texts(tmp_path / "digits", "train")) == 200


def test_a_full_disk_and_an_unwritable_place_are_faults_of_the_machine(digits_class, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with refused(tmp_path, by=MachineError):
        make(digits_class(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with refused(tmp_path / "file/data", by=MachineError):
        make(digits_class(), tmp_path / "file/data")


def test_checks_come_before_the_work_and_only_if_there_is_work(digits_class, digits_folder, tmp_path):
    """That they come after the workers are forked is part of `test_data_processes.py`."""

    class Working(digits_class):
        def build_encoders(self, source):
            pytest.fail("generation has started")

    def refuse():
        raise UserError("--model")

    with refused("--model"):
        make(Working(), tmp_path, once_forked=refuse)
    assert list(tmp_path.iterdir()) == []
    make(digits_class(), digits_folder.parent, seed=7, once_forked=refuse)  # nothing to do


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


def test_each_thing_that_is_read_has_a_bar_of_its_own_on_a_terminal_and_a_short_job_says_nothing_elsewhere(
    capsys, log_lines
):
    with contextlib.redirect_stderr(Terminal()) as screen:
        shown = ReadingProgress()
        for what, read in (("vocabulary", 10), ("dev", 2), ("dev", 5), ("train", 1)):
            shown.show(what, read)
        shown.close()
    left = [line.rpartition("\r")[2] for line in screen.getvalue().split("\n")[:-1]]
    assert [line.split(" examples")[0] for line in left] == ["vocabulary: 10.0", "dev: 5.00", "train: 1.00"]
    shown = ReadingProgress()
    for read in range(1000):
        shown.show("train", read)
    shown.close()
    assert log_lines.messages == []
    assert capsys.readouterr().err == ""
