import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import t2t
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reader import SplitReader
from t2t.data.shard_job import seed_of
from t2t.data.worker_pool import WorkerPool
from t2t.errors import MachineError, UserError
from t2t.problems.array_inputs import Audio2Class
from tests.generated import texts


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_data_says_what_the_problem_yields(listed_class, tmp_path):
    train, dev = [("1 2 3", "3 2 1"), ("7", "7 7")], [("4", "5")]
    manifest = generate(listed_class(train, dev), tmp_path, tmp_path, workers=1)
    assert manifest == read_manifest(tmp_path / "listed")
    assert texts(tmp_path / "listed", "train") == train
    assert texts(tmp_path / "listed", "dev") == dev
    assert manifest.split("train").columns["inputs"].items == 6  # 1 2 3 and 7, each with its end of sequence


def test_shards_and_chunks_do_not_show(digits_class, digits_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.data.encoding.CHUNK", 7)
    generate(digits_class(), tmp_path, tmp_path, seed=7, workers=1, most_bytes=100)
    assert len(read_manifest(tmp_path / "digits").split("train").shards) > 20
    for split in ("train", "dev"):
        assert texts(tmp_path / "digits", split) == texts(digits_folder, split)


def test_the_seed_decides_and_splits_differ(digits_class, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(digits_class(), tmp_path / name, tmp_path, seed=seed, workers=1)
    folders = [tmp_path / name / "digits" for name in "abc"]
    assert contents(folders[0]) == contents(folders[1])
    assert texts(folders[0], "train") != texts(folders[2], "train")
    assert texts(folders[0], "train")[:30] != texts(folders[0], "dev")
    assert seed_of(1, "train") == 0xED9925A8922C876F  # printf 1/train | sha256sum


def test_generating_again_touches_nothing_and_says_so(digits_class, tmp_path, log_lines):
    generate(digits_class(), tmp_path, tmp_path, workers=1)
    folder = tmp_path / "digits"
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]}
    log_lines.clear()
    manifest = generate(digits_class(), tmp_path, tmp_path, workers=1)
    assert manifest == read_manifest(folder)
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]} == before
    assert log_lines.messages == [f"{folder} is there already: 200 train, 30 dev examples; nothing to do"]
    assert [path.name for path in tmp_path.iterdir()] == ["digits"]


def test_other_data_is_refused_and_kept(digits_class, tmp_path):
    generate(digits_class(), tmp_path, tmp_path, seed=1, workers=1)
    before = contents(tmp_path / "digits")
    with pytest.raises(UserError, match=r"\(seed: asked 2, found 1\); choose another --data_dir, delete that folder"):
        generate(digits_class(), tmp_path, tmp_path, seed=2, workers=1)
    with pytest.raises(UserError, match=r"vocab_kind: asked 'byte', found 'token'"):
        generate(digits_class(vocab_kind="byte"), tmp_path, tmp_path, seed=1, workers=1)
    assert contents(tmp_path / "digits") == before


def test_folder_of_something_else_is_refused_and_kept(digits_class, tmp_path):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"holds no manifest\.json, so it is not generated data; delete it or choose"):
        generate(digits_class(), tmp_path, tmp_path, workers=1)
    assert (tmp_path / "digits" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("place", ["data", "data/digits"])
def test_a_file_in_the_place_of_a_folder_is_found_before_the_work(digits_class, tmp_path, monkeypatch, place):
    monkeypatch.setattr("t2t.data.generate.WorkerPool", None)
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("years of work")
    with pytest.raises(UserError, match=rf"{place}: that is a file, and a folder goes there; move it or choose ano"):
        generate(digits_class(), tmp_path / "data", tmp_path, workers=1)
    assert (tmp_path / place).read_text() == "years of work"


@pytest.mark.parametrize("target", ["scratch", "nowhere"])
def test_a_link_in_the_place_of_a_folder_is_found_before_the_work(digits_class, tmp_path, monkeypatch, target):
    monkeypatch.setattr("t2t.data.generate.WorkerPool", None)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "digits").symlink_to(target)
    said = rf"digits: that is a link to {target}, and a folder goes there; remove the link or choose another --data_dir"
    with pytest.raises(UserError, match=said):
        generate(digits_class(), tmp_path, tmp_path, workers=1)
    assert {path.name for path in tmp_path.iterdir()} == {"scratch", "digits"}


def test_a_link_to_finished_data_is_used(digits_class, digits_folder, tmp_path):
    (tmp_path / "digits").symlink_to(digits_folder)
    assert generate(digits_class(), tmp_path, tmp_path, seed=7, workers=1) == read_manifest(digits_folder)
    assert (tmp_path / "digits").is_symlink()


def test_a_folder_of_data_that_is_a_link_is_filled(digits_class, tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "data").symlink_to("scratch")
    generate(digits_class(), tmp_path / "data", tmp_path, workers=1)
    assert (tmp_path / "scratch/digits").is_dir()


def test_empty_folder_is_filled(digits_class, tmp_path):
    (tmp_path / "digits").mkdir()
    assert generate(digits_class(), tmp_path, tmp_path, workers=1).split("dev").examples == 30


def test_unfit_training_examples_are_dropped_and_counted(listed_class, tmp_path, log_lines):
    good = [("1", "2")] * 6
    long = " ".join("1" * 10)
    train = [*good, ("", "1"), ("1", " \t "), (long, "1"), ("1", long), *good]
    dev = [("", "1"), (long, "1")]
    problem = listed_class(train, dev, repaired={"NUL removed": 2})
    problem.max_length = 10  # ten digits and the end of sequence are eleven
    manifest = generate(problem, tmp_path, tmp_path, workers=1)
    record = manifest.split("train")
    assert texts(tmp_path / "listed", "train") == good * 2
    assert record.examples == 12
    assert record.dropped == {"with an empty side": 2, "longer than 10 ids": 2}
    assert record.mended == {"NUL removed": 2}
    assert texts(tmp_path / "listed", "dev") == dev
    assert manifest.split("dev").dropped == {}
    assert (
        "train: 12 examples written; 4 dropped (2 longer than 10 ids, 2 with an empty side); repaired: 2 NUL removed"
        in log_lines.messages
    )
    assert "vocabulary of inputs, targets: token, 13 ids" in log_lines.messages


def test_a_sequence_of_exactly_the_limit_is_kept(listed_class, tmp_path):
    problem = listed_class([("1 2 3", "1")])
    problem.max_length = 4
    assert generate(problem, tmp_path, tmp_path, workers=1).split("train").examples == 1


def test_more_than_half_unfit_stops_the_job(listed_class, tmp_path):
    half = [("1", "1"), ("", "1")] * 10
    assert generate(listed_class(half), tmp_path / "half", tmp_path, workers=1).split("train").examples == 10
    with pytest.raises(
        UserError,
        match=r"more than half of the training data of listed is unfit: 11 of 20 examples; 10 dropped "
        r"\(10 with an empty side\); repaired: 1 invalid UTF-8 replaced; check the raw files",
    ):
        generate(listed_class(half, repaired={"invalid UTF-8 replaced": 1}), tmp_path, tmp_path, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["half"]


def unfit_from(start, drawn, spoil):
    """Yields good pairs, then from index `start` on the pair `spoil`; appends each index to `drawn`."""
    for number in range(60_000):
        drawn.append(number)
        yield spoil if number >= start else ("1", "2")


@pytest.mark.parametrize("start", [0, 6000])
def test_a_hopeless_job_stops_early(listed_class, tmp_path, start):
    drawn = []
    with pytest.raises(UserError) as raised:
        generate(listed_class(unfit_from(start, drawn, ("", "1"))), tmp_path, tmp_path, workers=1)
    first = max(10_000, 2 * start + 1000)
    assert str(raised.value) == (
        f"more than half of the training data of listed is unfit so far: {first - start:,} of the first {first:,} "
        f"examples; {first - start:,} dropped ({first - start:,} with an empty side); check the raw files and their "
        f"encoding, or the problem's max_length; if only their beginning is so, shuffle them"
    )
    assert len(drawn) == first
    assert list(tmp_path.iterdir()) == []


def repairing(base, share):
    """A problem that repairs both sides of a fraction of its training examples, the first of every ten."""

    class Repairing(base):
        def generate_samples(self, split, source):
            for number, sample in enumerate(super().generate_samples(split, source)):
                if split == "train" and number % 10 < 10 * share:
                    source.tally["invalid UTF-8 replaced"] += 2
                yield sample

    return Repairing


def test_repaired_examples_count_on_the_way_too(listed_class, tmp_path):
    with pytest.raises(
        UserError, match=r"unfit so far: 6,000 of the first 10,000 examples; repaired: 12,000 invalid UTF-8 rep"
    ):
        generate(repairing(listed_class, 0.6)(unfit_from(10**6, [], ())), tmp_path, tmp_path, workers=1)


@pytest.mark.parametrize("enough_to_judge", [20, 10_000])
def test_an_example_that_is_repaired_on_both_sides_counts_once(listed_class, tmp_path, monkeypatch, enough_to_judge):
    monkeypatch.setattr("t2t.data.shard_job.ENOUGH_TO_JUDGE", enough_to_judge)
    monkeypatch.setattr("t2t.data.encoding.CHUNK", 20)
    rows = [("1", "2")] * 100
    train = generate(repairing(listed_class, 0.5)(rows), tmp_path / "half", tmp_path, workers=1).split("train")
    assert (train.examples, train.mended) == (100, {"invalid UTF-8 replaced": 100})
    first = min(enough_to_judge, 100)
    with pytest.raises(UserError, match=rf"unfit[a-z ]*: {first * 6 // 10} of (the first )?{first} examples; repaired"):
        generate(repairing(listed_class, 0.6)(rows), tmp_path / "more", tmp_path, workers=1)


def test_an_example_that_is_repaired_and_dropped_counts_once(listed_class, tmp_path):
    rows = ([("", "2")] * 4 + [("1", "2")] * 6) * 10
    train = generate(repairing(listed_class, 0.4)(rows), tmp_path, tmp_path, workers=1).split("train")
    assert (train.examples, train.dropped) == (60, {"with an empty side": 40})


def test_all_that_can_be_dropped_leaves_something(listed_class, tmp_path):
    with pytest.raises(UserError, match=r"unfit: 1 of 1 examples; 1 dropped \(1 with an empty side\); check the raw"):
        generate(listed_class([("", "1")]), tmp_path, tmp_path, workers=1)


def test_unknown_words_are_counted_by_split_and_feature(listed_class, tmp_path, log_lines):
    train = [("1 2 3", "3 x 1"), ("7", "y"), ("", "z"), ("8 9", "9 8")]  # the third is dropped and not counted
    manifest = generate(listed_class(train, [("4 x", "5")]), tmp_path, tmp_path, workers=1)
    assert manifest.split("train").unknown == {"targets": 2}
    assert manifest.split("dev").unknown == {"inputs": 1}
    assert read_manifest(tmp_path / "listed") == manifest
    warned = [record.getMessage() for record in log_lines.records if record.levelname == "WARNING"]
    assert warned == [
        f"{what} stand for unknown words, which a model can neither tell apart nor write; raise --vocab_size, or "
        f"choose a --vocab_kind that spells every word (sentencepiece, subword, byte)"
        for what in ("dev: 50.00% of the ids of inputs (1)", "train: 33.33% of the ids of targets (2)")
    ]


def test_a_few_unknown_words_are_no_warning(listed_class, tmp_path, log_lines):
    manifest = generate(listed_class([("1 2 3 4", "x")] + [("1", "1 2")] * 50), tmp_path, tmp_path, workers=1)
    assert manifest.split("train").unknown == {"targets": 1}
    assert "train: 0.99% of the ids of targets (1) stand for unknown words" in log_lines.messages
    assert not [record for record in log_lines.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("vocab_kind", ["byte", "token"])
def test_data_without_unknown_words_says_nothing_of_them(listed_class, tmp_path, vocab_kind):
    rows = [("1 2", "x" if vocab_kind == "byte" else "3")]
    manifest = generate(listed_class(rows, vocab_kind=vocab_kind), tmp_path, tmp_path, workers=1)
    assert manifest.split("train").unknown == {}
    assert "unknown" not in (tmp_path / "listed" / "manifest.json").read_text()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_a_value_that_is_not_finite_is_refused_by_its_sample(tmp_path, value):
    class Sounds(Audio2Class):
        name, class_labels = "sounds", ("a", "b")

        def generate_samples(self, split, source):
            for number in range(40):
                waveform = np.zeros(5 + number)
                waveform[3] = value if (split, number) == ("train", 35) else 0.5
                yield {"inputs": waveform, "targets": "ab"[number % 2]}

    with pytest.raises(
        UserError,
        match=r"problem sounds: sample 36 of split 'train' has a value in 'inputs' that is not finite \(nan or infi"
        r"nite\); correct the recording or file that it comes from, or leave the sample out",
    ):
        generate(Sounds(), tmp_path, tmp_path, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_a_beginning_that_is_bad_enough_but_not_hopeless_goes_on(listed_class, tmp_path):
    rows = [("", "1")] * 5000 + [("1", "2")] * 5500
    assert generate(listed_class(rows), tmp_path, tmp_path, workers=1).split("train").examples == 5500


@pytest.mark.parametrize("split", ["train", "dev"])
def test_empty_split_is_an_error(listed_class, tmp_path, split):
    rows = {"train": [("1", "1")], "dev": [("1", "1")]} | {split: []}
    with pytest.raises(UserError, match=f"split '{split}' of listed is empty: no example came out of its raw data"):
        generate(listed_class(**rows), tmp_path, tmp_path, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_crash_leaves_nothing(digits_class, tmp_path):
    class Crashing(digits_class):
        def generate_samples(self, split, source):
            for number, sample in enumerate(super().generate_samples(split, source)):
                if split == "train" and number == 150:
                    raise RuntimeError("power cut")
                yield sample

    with pytest.raises(RuntimeError, match="power cut"):
        generate(Crashing(), tmp_path, tmp_path, workers=1, most_examples=20)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_do_not_write_the_same_data(digits_class, tmp_path):
    refusals = []

    class Twice(digits_class):
        def generate_samples(self, split, source):
            with pytest.raises(UserError) as refusal:
                generate(digits_class(), tmp_path, tmp_path, workers=1)
            refusals.append(str(refusal.value))
            yield from super().generate_samples(split, source)

    generate(Twice(), tmp_path, tmp_path, workers=1)
    wanted = f"{tmp_path}/digits is being generated by another process"
    assert len(set(refusals)) == 1
    assert refusals[0].startswith(f"{wanted} ({os.getpid()} on ")
    assert refusals[0].endswith("); wait for it, or choose another --data_dir")
    assert len(texts(tmp_path / "digits", "train")) == 200


def test_full_disk_is_a_fault_of_the_machine(digits_class, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match=r"cannot write .*: No space left on device; free some space there"):
        generate(digits_class(), tmp_path, tmp_path, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_place_is_a_fault_of_the_machine(digits_class, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        MachineError,
        match=r"cannot write .*file/data: Not a directory .*; a part of that path is a file",
    ):
        generate(digits_class(), tmp_path / "file" / "data", tmp_path, workers=1)


def test_an_example_without_a_declared_feature_is_refused(digits_class, tmp_path):
    class Half(digits_class):
        def encode_samples(self, samples):
            return [{"inputs": example["inputs"]} for example in super().encode_samples(samples)]

    with pytest.raises(UserError, match="problem digits: an example lacks feature 'targets'; correct its encode_samp"):
        generate(Half(), tmp_path, tmp_path, workers=1)


def test_a_wrong_sample_is_named_by_its_place_in_the_split(listed_class, tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.data.encoding.CHUNK", 7)
    with pytest.raises(
        UserError, match=r"problem listed: sample 17 of split 'train' .* has None for 'targets', of type"
    ):
        generate(listed_class([("1", "2")] * 16 + [("1", None)] * 9), tmp_path, tmp_path, workers=1)
    with pytest.raises(UserError, match=r"problem listed: sample 2 of split 'dev' .* has bytes for 'inputs' \(b'1'\)"):
        generate(listed_class([("1", "2")], [("1", "2"), (b"1", "2")]), tmp_path, tmp_path, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_told_the_examples_read(digits_class, tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.data.encoding.CHUNK", 90)
    told = []
    generate(digits_class(), tmp_path, tmp_path, workers=1, progress=lambda split, read: told.append((split, read)))
    assert told == [("dev", 30), ("train", 90), ("train", 180), ("train", 200)]


def test_checks_come_after_the_workers_and_before_the_work(digits_class, tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(digits_class, "build_encoders", lambda *_: events.append("vocabulary"))
    monkeypatch.setattr("t2t.data.generate.WorkerPool", lambda *_: events.append("workers") or WorkerPool(*_))

    def refuse():
        events.append("check")
        raise UserError("another model")

    with pytest.raises(UserError, match="another model"):
        generate(digits_class(), tmp_path, tmp_path, workers=1, once_forked=refuse)
    assert events == ["workers", "check"]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    generate(digits_class(), tmp_path, tmp_path, workers=1)
    generate(digits_class(), tmp_path, tmp_path, workers=1, once_forked=refuse)  # nothing to do
    assert events == ["workers", "check"]


SCRIPT = """
import os, sys, threading
from pathlib import Path
from t2t.data import encoding
from t2t.data.generate import generate
from t2t.errors import T2TError
from t2t.problems.text_problems import Text2Text

encoding.CHUNK = 50
parent = os.getpid()

class Digits(Text2Text):
    name = "digits"
    vocabulary = tuple("0123456789")
    max_length = 15
    dies = ""

    def generate_samples(self, split, source):
        for number in range(3000):
            if self.dies == "parent" and split == "train" and number == 2000:
                os._exit(9)
            digits = source.rng.choices(self.vocabulary, k=source.rng.randint(0, 20))
            yield {"inputs": " ".join(digits), "targets": " ".join(reversed(digits)), **self.faulty(split, number)}

    def faulty(self, split, number):
        return {"targets": 7} if self.dies == "sample" and split == "train" and number >= 1234 else {}

    def encode_samples(self, samples):
        (out / f"encoder-{os.getpid() == parent}").touch()
        if self.dies == "worker":
            os._exit(9)
        return super().encode_samples(samples)

out, workers = Path(sys.argv[1]), int(sys.argv[2])
problem = Digits()
problem.dies = sys.argv[3]
try:
    generate(problem, out, out, seed=5, workers=workers)
except T2TError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
assert "tensorflow" not in sys.modules
assert threading.active_count() == 1
"""


def run_script(out, workers, dies=""):
    """Runs `SCRIPT` in a fresh process: a process with TensorFlow or threads does not fork."""
    out.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(SCRIPT), out, str(workers), dies],
        env={**os.environ, "PYTHONPATH": str(Path(t2t.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_bytes_do_not_depend_on_the_number_of_workers(tmp_path):
    for workers in (1, 3):
        done = run_script(tmp_path / str(workers), workers)
        assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "1").iterdir()} == {"digits", "encoder-True"}
    assert {path.name for path in (tmp_path / "3").iterdir()} == {"digits", "encoder-False"}
    assert contents(tmp_path / "1" / "digits") == contents(tmp_path / "3" / "digits")


def test_killed_process_leaves_no_data_and_the_next_run_cleans_up(tmp_path):
    assert run_script(tmp_path, 2, dies="parent").returncode == 9
    assert not (tmp_path / "digits").exists()
    assert (tmp_path / ".digits.partial").exists()
    assert run_script(tmp_path, 2).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"digits", "encoder-False"}
    SplitReader(tmp_path / "digits", read_manifest(tmp_path / "digits"), "train").verify()


def test_a_wrong_sample_comes_out_of_a_worker_as_the_same_line(tmp_path):
    said = {workers: run_script(tmp_path / str(workers), workers, dies="sample") for workers in (1, 3)}
    assert {workers: (done.returncode, done.stderr) for workers, done in said.items()} == dict.fromkeys(
        (1, 3),
        (2, "problem digits: sample 1,235 of split 'train' (keys: inputs, targets) has 7 for 'targets', of type int; "
            "it must be a dict with a str for 'inputs' and 'targets'; correct its generate_samples\n"),
    )  # fmt: skip
    assert (tmp_path / "3" / "encoder-False").exists()


def test_dead_worker_is_a_fault_of_the_machine(tmp_path):
    done = run_script(tmp_path, 2, dies="worker")
    assert done.returncode == 1
    assert "a process that encodes the data died, most likely for want of memory; free some memory" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if "encoder" not in path.name] == []
