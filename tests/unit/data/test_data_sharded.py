"""Data in several shards: the same bytes whoever makes them, and no finished shard is made again."""

import contextlib
import importlib
import os
import random
import shutil
import subprocess
import sys
from collections import UserList
from pathlib import Path

import numpy as np
import pytest

import t2t
from t2t.data.array_tasks import generate_part, merge, parse_task
from t2t.data.data_folder import partial_folder
from t2t.data.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.plan import read_plan
from t2t.data.reader import SplitReader
from t2t.data.shard_job import seed_of, shard_folder
from t2t.errors import UserError
from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.problems.base import Source

TRAIN_SHARDS = [("train", shard) for shard in range(5)]
DEV_SHARDS = [("dev", shard) for shard in range(2)]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def inputs(folder, split):
    """What the inputs of a split are, as text."""
    manifest = read_manifest(folder)
    reader = SplitReader(folder, manifest, split)
    reader.verify()
    values, lengths = reader.read(np.arange(len(reader)), "inputs")
    encoder = load_encoders(folder, manifest)["inputs"]
    return [encoder.decode(ids) for ids in np.split(values, np.cumsum(lengths)[:-1])]


@pytest.fixture
def wanted(sharded_class, tmp_path):
    """What one process makes."""
    generate(sharded_class(), tmp_path / "wanted", tmp_path, seed=3, workers=1)
    return contents(tmp_path / "wanted/sharded")


def test_the_shards_come_in_their_order_each_with_chance_of_its_own(sharded_class, wanted, tmp_path):
    found = inputs(tmp_path / "wanted/sharded", "train")
    expected = []
    for shard in range(5):
        source = Source(tmp_path, random.Random(seed_of(3, f"train/{shard}")), shard=shard, shards=5)
        expected.append([sample["inputs"] for sample in sharded_class().generate_samples("train", source)])
    assert found == [text for part in expected for text in part]
    assert expected[0][:20] != expected[1][:20]
    shards = read_manifest(tmp_path / "wanted/sharded").split("train").shards
    assert [shard.examples for shard in shards] == [40, 50, 60, 70, 80]
    assert sorted(file.name for file in shards[3].files())[0] == "train-00003-of-00005.inputs.offsets.npy"


def test_nothing_is_left_but_the_data(wanted, tmp_path):
    assert sorted(path.name for path in (tmp_path / "wanted").iterdir()) == ["sharded"]
    assert {name.partition(".")[0].partition("-")[0] for name in wanted} == {"dev", "manifest", "train", "vocab"}


def test_large_shards_have_several_files(sharded_class, tmp_path):
    generate(sharded_class(), tmp_path, tmp_path, seed=3, workers=1, most_examples=30)
    record = read_manifest(tmp_path / "sharded").split("dev")
    assert [shard.examples for shard in record.shards] == [30, 10, 30, 20]
    generate(sharded_class(), tmp_path / "few", tmp_path, seed=3, workers=1, most_bytes=200)
    assert inputs(tmp_path / "few/sharded", "train") == inputs(tmp_path / "sharded", "train")


@pytest.mark.parametrize("tasks", [1, 3, 9])
def test_tasks_in_any_order_make_the_same(sharded_class, wanted, tmp_path, tasks):
    order = random.Random(tasks).sample(range(tasks), tasks)
    for task in order:
        generate_part(sharded_class(), tmp_path / "data", tmp_path, 3, task, tasks)
        assert not (tmp_path / "data/sharded").exists()
    merge(sharded_class(), tmp_path / "data", tmp_path, 3)
    assert contents(tmp_path / "data/sharded") == wanted
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["sharded"]


def test_each_shard_falls_to_one_task(sharded_class, tmp_path):
    asked = UserList()
    for task in range(3):
        problem = sharded_class()
        problem.asked = asked
        generate_part(problem, tmp_path, tmp_path, 3, task, 3)
    assert sorted(asked) == DEV_SHARDS + TRAIN_SHARDS


class CrashError(Exception):
    """Of the tests' own."""


def crashing(base, shard, error=CrashError):
    """A problem whose training breaks off in a shard; it is of the same file as the other."""

    class Sharded(base):
        def sample(self, source, split, number):
            if (split, number) == ("train", shard):
                raise error("crash")
            return super().sample(source, split, number)

    Sharded.__module__ = base.__module__
    return Sharded()


def test_finished_shards_are_kept_after_a_crash(sharded_class, wanted, tmp_path, log_lines):
    with pytest.raises(CrashError):
        generate(crashing(sharded_class, 3), tmp_path / "data", tmp_path, seed=3, workers=1)
    partial = partial_folder(tmp_path / "data/sharded")
    assert f"5 of 7 shards are finished and kept in {partial}; the same command makes the others" in (
        log_lines.messages
    )
    problem = sharded_class()
    generate(problem, tmp_path / "data", tmp_path, seed=3, workers=1)
    assert problem.asked == TRAIN_SHARDS[3:]
    assert "resuming: 5 of 7 shards are finished" in log_lines.messages
    assert contents(tmp_path / "data/sharded") == wanted


def test_another_generation_removes_what_one_has_left(sharded_class, wanted, tmp_path):
    with pytest.raises(CrashError):
        generate(crashing(sharded_class, 3), tmp_path / "data", tmp_path, seed=4, workers=1)
    problem = sharded_class()
    generate(problem, tmp_path / "data", tmp_path, seed=3, workers=1)
    assert problem.asked == DEV_SHARDS + TRAIN_SHARDS
    assert contents(tmp_path / "data/sharded") == wanted


@pytest.mark.parametrize("damage", ["record", "file", "missing"])
def test_a_damaged_shard_is_made_again(sharded_class, wanted, tmp_path, damage):
    with pytest.raises(CrashError):
        generate(crashing(sharded_class, 4), tmp_path / "data", tmp_path, seed=3, workers=1)
    place = shard_folder(partial_folder(tmp_path / "data/sharded"), "train", 1)
    record, file = place / "record.json", next(iter(place.glob("*.values.npy")))
    if damage == "record":
        record.write_text(record.read_text().replace('"examples": 50', '"examples": 51', 1))
    elif damage == "file":
        file.write_bytes(file.read_bytes()[:-1])
    else:
        file.unlink()
    problem = sharded_class()
    generate(problem, tmp_path / "data", tmp_path, seed=3, workers=1)
    assert problem.asked == [("train", 1), ("train", 4)]
    assert contents(tmp_path / "data/sharded") == wanted


def test_a_shard_of_another_plan_is_made_again(sharded_class, wanted, tmp_path):
    for seed in (4, 3):
        with pytest.raises(CrashError):
            generate(crashing(sharded_class, 1), tmp_path / str(seed), tmp_path, seed=seed, workers=1)
    places = [shard_folder(partial_folder(tmp_path / name / "sharded"), "train", 0) for name in "43"]
    shutil.rmtree(places[1])
    shutil.copytree(*places)
    problem = sharded_class()
    generate(problem, tmp_path / "3", tmp_path, seed=3, workers=1)
    assert problem.asked == TRAIN_SHARDS
    assert contents(tmp_path / "3/sharded") == wanted


PLUGIN = """
from t2t.problems.text_problems import Text2Text

class Changing(Text2Text):
    name, vocabulary = "changing", ("a", "b")

    def shards(self, split, source):
        return 2

    def generate_samples(self, split, source):
        if (split, source.shard) == ("train", 1):
            raise RuntimeError("crash")
        yield {"inputs": "a", "targets": "b"}
"""


def test_shards_of_a_plugin_that_has_been_corrected_are_made_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "changing_plugin.py"
    file.write_text(PLUGIN)
    with pytest.raises(RuntimeError):
        generate(importlib.import_module(file.stem).Changing(), tmp_path / "data", tmp_path, workers=1)
    assert read_plan(partial_folder(tmp_path / "data/changing"))
    file.write_text(PLUGIN.replace('raise RuntimeError("crash")', "pass").replace('"targets": "b"', '"targets": "a"'))
    sys.modules.pop(file.stem)
    importlib.invalidate_caches()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    generate(importlib.import_module(file.stem).Changing(), tmp_path / "data", tmp_path, workers=1)
    folder = tmp_path / "data/changing"
    reader = SplitReader(folder, read_manifest(folder), "dev")
    assert len(reader) == 2
    assert reader.read(np.arange(2), "inputs")[0].tolist() == reader.read(np.arange(2), "targets")[0].tolist()


@pytest.mark.parametrize("place", ["write_manifest", "publish"])
def test_a_crash_while_shards_are_merged_costs_no_shard(sharded_class, wanted, tmp_path, place):
    module = "t2t.data.merging" if place == "write_manifest" else "t2t.data.generate"

    def crash(*arguments):
        raise CrashError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{module}.{place}", crash)
        with pytest.raises(CrashError):
            generate(sharded_class(), tmp_path / "data", tmp_path, seed=3, workers=1)
    problem = sharded_class()
    generate(problem, tmp_path / "data", tmp_path, seed=3, workers=1)
    assert problem.asked == []
    assert contents(tmp_path / "data/sharded") == wanted


def test_what_a_process_leaves_that_was_killed_at_the_very_end_goes(sharded_class, wanted, tmp_path):
    folder = tmp_path / "wanted/sharded"
    (folder / "work/train-00000").mkdir(parents=True)
    generate(sharded_class(), tmp_path / "wanted", tmp_path, seed=3, workers=1)
    assert contents(folder) == wanted


# === Errors ===


def test_a_wrong_sample_is_named_by_its_shard(sharded_class, tmp_path):
    class Wrong(sharded_class):
        def sample(self, source, split, shard):
            return {**super().sample(source, split, shard), **({"targets": 7} if shard == 1 else {})}

    with pytest.raises(
        UserError, match=r"split 'dev', shard 1 of 2: problem sharded: sample 1 of split 'dev' .* has 7"
    ):
        generate(Wrong(), tmp_path, tmp_path, workers=1)


@pytest.mark.parametrize("shards", [0, "4", True, None])
def test_a_number_of_shards_that_is_none_is_refused(sharded_class, tmp_path, shards):
    problem = sharded_class()
    problem.parts = {"train": shards, "dev": 1}
    with pytest.raises(UserError) as raised:
        generate(problem, tmp_path, tmp_path, workers=1)
    assert str(raised.value) == (
        f"problem sharded: shards returned {shards!r} for split 'train'; it must return a whole number, 1 or more"
    )
    assert list(tmp_path.iterdir()) == []


class Unfit:
    """Mixed into `Sharded`: all examples of some shards are empty."""

    bad = ()

    def sample(self, source, split, shard):
        sample = super().sample(source, split, shard)
        return {**sample, "inputs": ""} if split == "train" and shard in self.bad else sample


@pytest.mark.parametrize(("bad", "fails"), [((0, 1), False), ((3, 4), False), ((2, 3, 4), True)])
def test_whether_a_corpus_is_fit_is_judged_over_all_shards(sharded_class, tmp_path, bad, fails):
    problem = type("Bad", (Unfit, sharded_class), {"bad": bad})()
    said = r"more than half of the training data of sharded is unfit: 210 of 300 examples"
    with pytest.raises(UserError, match=said) if fails else contextlib.nullcontext():
        generate(problem, tmp_path, tmp_path, workers=1)


def test_a_corpus_whose_first_shards_are_unfit_stops_early(sharded_class, tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.data.local_shards.ENOUGH_TO_JUDGE", 60)
    problem = type("Bad", (Unfit, sharded_class), {"bad": (0, 1)})()
    with pytest.raises(UserError, match=r"unfit so far: 90 of the first 90 examples; .*; if only their beginning is"):
        generate(problem, tmp_path, tmp_path, workers=1)
    assert problem.asked == DEV_SHARDS + TRAIN_SHARDS[:2]


def test_an_empty_shard_is_no_empty_split(sharded_class, tmp_path):
    class Empty(sharded_class):
        def generate_samples(self, split, source):
            return super().generate_samples(split, source) if source.shard == 1 else iter(())

    generate(Empty(), tmp_path, tmp_path, workers=1)
    assert len(inputs(tmp_path / "sharded", "train")) == 50


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3", "--shard=3: it must be K/N, the number of this task, counted from 0, and how many tasks there are, such "
              "as --shard=0/100"),
        ("-1/4", "--shard=-1/4: it must be K/N, "),
        ("a/b", "--shard=a/b: it must be K/N, "),
        ("4/4", "--shard=4/4: there is no such task: 4 are counted from 0 to 3; give one of them"),
        ("0/0", "--shard=0/0: there is no such task: 0 are counted from 0; give one of them"),
    ],
)  # fmt: skip
def test_a_task_that_is_none_is_refused(text, said):
    with pytest.raises(UserError) as raised:
        parse_task(text)
    assert str(raised.value).startswith(said)


def test_tasks_are_counted_from_0():
    assert parse_task("0/1") == (0, 1)
    assert parse_task("07/100") == (7, 100)


def test_merging_before_all_shards_are_there_names_them_and_what_makes_them(sharded_class, tmp_path, wanted):
    with pytest.raises(UserError) as raised:
        merge(sharded_class(), tmp_path / "data", tmp_path, 3)
    assert str(raised.value) == (
        f"--merge: there are no shards of sharded in {tmp_path}/data; make them first, with the same flags and "
        f"--shard=K/N in place of --merge"
    )
    generate_part(sharded_class(), tmp_path / "data", tmp_path, 3, 0, 2)
    with pytest.raises(UserError) as raised:
        merge(sharded_class(), tmp_path / "data", tmp_path, 3)
    assert str(raised.value) == (
        "3 of the 7 shards of sharded are not made yet: dev 1, train 1, train 3; make them with the same flags and "
        "--shard=1/7, --shard=3/7, --shard=5/7, or all that are missing here without --shard and --merge"
    )
    for task in (1, 3, 5):
        problem = sharded_class()
        generate_part(problem, tmp_path / "data", tmp_path, 3, task, 7)
        assert len(problem.asked) == 1
    merge(sharded_class(), tmp_path / "data", tmp_path, 3)
    assert contents(tmp_path / "data/sharded") == wanted


def test_what_is_missing_may_be_made_here(sharded_class, tmp_path, wanted):
    generate_part(sharded_class(), tmp_path / "data", tmp_path, 3, 1, 2)
    problem = sharded_class()
    generate(problem, tmp_path / "data", tmp_path, seed=3, workers=1)
    assert problem.asked == [("dev", 0), ("train", 0), ("train", 2), ("train", 4)]
    assert contents(tmp_path / "data/sharded") == wanted


def test_shards_that_are_made_otherwise_than_asked_are_kept(sharded_class, tmp_path):
    generate_part(sharded_class(), tmp_path, tmp_path, 3, 0, 1)
    for others in (lambda: merge(sharded_class(), tmp_path, tmp_path, 4),
                   lambda: generate_part(sharded_class(), tmp_path, tmp_path, 4, 0, 1)):  # fmt: skip
        with pytest.raises(UserError) as raised:
            others()
        assert str(raised.value) == (
            f"the shards in {tmp_path}/.sharded.partial are made otherwise than asked (seed: asked 4, found 3); give "
            f"the flags, files and version that they are made with, or delete that folder and make them again with "
            f"--shard=K/N"
        )
    merge(sharded_class(), tmp_path, tmp_path, 3)


def test_a_shard_that_another_process_makes_is_left_to_it(sharded_class, tmp_path, wanted):
    generate_part(sharded_class(), tmp_path / "data", tmp_path, 3, 0, 7)
    place = shard_folder(partial_folder(tmp_path / "data/sharded"), "train", 2)
    with exclusive_lock(lock_beside(place)), pytest.raises(UserError) as raised:
        generate_part(sharded_class(), tmp_path / "data", tmp_path, 3, 4, 7)
    assert str(raised.value).startswith(
        f"split 'train', shard 2 of 5: {place} is being generated by another process ({os.getpid()} on "
    )
    assert str(raised.value).endswith("); wait for it")
    generate(sharded_class(), tmp_path / "data", tmp_path, seed=3, workers=1)
    assert contents(tmp_path / "data/sharded") == wanted


def test_a_task_whose_generation_another_process_finishes_says_so(sharded_class, tmp_path):
    class Finishing(sharded_class):
        def generate_samples(self, split, source):
            yield from super().generate_samples(split, source)
            if (split, source.shard) == ("dev", 1):
                (partial_folder(tmp_path / "sharded") / "work/plan.json").unlink()

    with pytest.raises(UserError, match=r"partial does not hold the plan of this generation any more: another process"):
        generate_part(Finishing(), tmp_path, tmp_path, 3, 0, 1)


def test_tasks_and_merging_leave_finished_data(sharded_class, wanted, tmp_path, log_lines):
    problem = sharded_class()
    generate_part(problem, tmp_path / "wanted", tmp_path, 3, 0, 2)
    merge(problem, tmp_path / "wanted", tmp_path, 3)
    assert problem.asked == []
    assert sum("is there already" in message for message in log_lines.messages) == 2


# === Processes ===

SCRIPT = """
import os, random, sys
from pathlib import Path
from t2t.data import encoding
from t2t.data.generate import generate
from t2t.errors import T2TError
from t2t.problems.text_problems import Text2Text

encoding.CHUNK = 50
parent = os.getpid()

class Words(Text2Text):
    name, vocab_kind, vocab_sample_bytes = "words", "token", 4000
    dies = ""

    def shards(self, split, source):
        return {"train": 6, "dev": 1}[split]

    def generate_samples(self, split, source):
        here = "parent" if os.getpid() == parent else "worker"
        (out / f"{split}-{here}").touch()
        for number in range(300):
            if (split, source.shard, number) == ("train", 4, 250) and self.encoders:
                if self.dies == "worker":
                    os._exit(9)
                if self.dies == "error":
                    raise KeyError("mine")
            words = [str(source.rng.randint(0, 99)) for _ in range(source.rng.randint(1, 9))]
            yield {"inputs": " ".join(words), "targets": " ".join(sorted(words))}

out, workers = Path(sys.argv[1]), int(sys.argv[2])
problem = Words()
problem.dies = sys.argv[3]
try:
    generate(problem, out, out, seed=5, workers=workers)
except T2TError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
"""


def run_script(out, workers, dies=""):
    """Runs `SCRIPT` in a fresh process: one that holds TensorFlow or threads does not fork."""
    out.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, out, str(workers), dies],
        env={**os.environ, "PYTHONPATH": str(Path(t2t.__file__).parents[1])},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_bytes_do_not_depend_on_the_number_of_processes_which_take_whole_shards(tmp_path):
    for workers in (1, 3):
        done = run_script(tmp_path / str(workers), workers)
        assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "1").iterdir()} == {"words", "train-parent", "dev-parent"}
    assert {path.name for path in (tmp_path / "3").iterdir()} == {"words", "train-worker", "dev-parent"}
    assert contents(tmp_path / "1/words") == contents(tmp_path / "3/words")


@pytest.mark.parametrize(("dies", "status", "said"), [
    ("worker", 1, "a process that encodes the data died, most likely for want of memory; free some memory"),
    ("error", 1, "KeyError: 'mine'"),
])  # fmt: skip
def test_a_process_that_dies_leaves_the_shards_that_are_finished(tmp_path, dies, status, said):
    done = run_script(tmp_path / "killed", 2, dies=dies)
    assert done.returncode == status
    assert said in done.stderr
    kept = {path.name for path in (tmp_path / "killed/.words.partial/work").glob("*-0000?")}
    assert {"dev-00000", "train-00000"} <= kept
    assert "train-00004" not in kept
    assert run_script(tmp_path / "killed", 2).returncode == 0
    assert run_script(tmp_path / "whole", 1).returncode == 0
    assert contents(tmp_path / "killed/words") == contents(tmp_path / "whole/words")
