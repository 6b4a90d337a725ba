"""Data in several shards: the same bytes whatever makes them, interrupted or not; finished shards are kept."""

import contextlib
import functools
import importlib
import os
import random
import shutil
import sys
from collections import UserList

import pytest

from t2t.data.generation import array_tasks
from t2t.data.generation.array_tasks import merge, parse_task
from t2t.data.generation.data_folder import partial_folder
from t2t.data.generation.generate import generate
from t2t.data.generation.plan import read_plan, seed_of
from t2t.data.generation.shard_job import shard_folder
from t2t.data.manifest import read_manifest
from t2t.errors import MachineError
from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.problems.base import Source
from tests.errors import refused
from tests.generated import contents, texts

TRAIN_SHARDS = [("train", shard) for shard in range(5)]
DEV_SHARDS = [("dev", shard) for shard in range(2)]
EVERY_SHARD = DEV_SHARDS + TRAIN_SHARDS

generate_part = functools.partial(array_tasks.generate_part, workers=1)
"""In this process: problems of tests record the shards that are requested of them."""


@pytest.fixture(scope="module")
def by_one_process(sharded_class, tmp_path_factory):
    """A data folder that one process filled without an interruption; read-only."""
    folder = tmp_path_factory.mktemp("wanted")
    generate(sharded_class(), folder, folder, seed=3, workers=1)
    return folder


@pytest.fixture(scope="module")
def wanted(by_one_process):
    return contents(by_one_process / "sharded")


def test_the_shards_come_in_their_order_each_with_chance_of_its_own(sharded_class, by_one_process, tmp_path):
    expected = []
    for shard in range(5):
        source = Source(tmp_path, random.Random(seed_of(3, f"train/{shard}")), shard=shard, shards=5)
        expected.append([tuple(sample.values()) for sample in sharded_class().generate_samples("train", source)])
    assert texts(by_one_process / "sharded") == [pair for part in expected for pair in part]
    assert expected[0][:20] != expected[1][:20]
    assert [shard.examples for shard in read_manifest(by_one_process / "sharded").split("train").shards] == [300]


@pytest.mark.parametrize(("most", "examples"), [
    ({"most_examples": 30}, [30, 10, 30, 20, 30, 30, 30, 30, 10, 30, 30, 20]),  # large shards have several files
    ({"most_examples": 1000}, [150, 70, 80]),  # up to 62 examples are few, so that these files are joined
    ({"most_bytes": 16 * 1500}, [90, 60, 70, 80]),  # as are up to 1,500 bytes
])  # fmt: skip
def test_files_hold_what_they_may(sharded_class, by_one_process, tmp_path, most, examples):
    generate(sharded_class(), tmp_path, tmp_path, seed=3, workers=1, **most)
    shards = read_manifest(tmp_path / "sharded").split("train").shards
    assert [shard.examples for shard in shards] == examples
    assert shards[1].offsets["inputs"].name == f"train-00001-of-{len(shards):05d}.inputs.offsets.npy"
    assert texts(tmp_path / "sharded") == texts(by_one_process / "sharded")


class CrashError(Exception):
    """An error raised by the tests."""


def stopping(base, shard, stop):
    """A problem that calls `stop` in a training shard; it seems to be defined in the same module as `base`."""

    class Sharded(base):
        def sample(self, source, split, number):
            if (split, number) == ("train", shard):
                stop()
            return super().sample(source, split, number)

    Sharded.__module__ = base.__module__
    return Sharded()


def crash_at(shard, seed=3):
    """Returns an interruption: a crash of the generation in a training shard."""

    def crash():
        raise CrashError

    def interrupt(problem_class, data, tmp):
        with pytest.raises(CrashError):
            generate(stopping(problem_class, shard, crash), data, tmp, seed=seed, workers=1)

    return interrupt


def obstructed(name):
    """Returns an interruption when all shards are made: a folder stands where a file or folder is to go."""

    def interrupt(problem_class, data, tmp):
        obstacle = data / name
        problem = stopping(problem_class, 4, lambda: (obstacle / "x").mkdir(parents=True, exist_ok=True))
        with refused(obstacle.parent, by=MachineError):
            generate(problem, data, tmp, seed=3, workers=1)
        shutil.rmtree(obstacle)

    return interrupt


def damaging(damage):
    """Returns an interruption after which a finished shard is damaged."""

    def interrupt(problem_class, data, tmp):
        crash_at(4)(problem_class, data, tmp)
        place = shard_folder(partial_folder(data / "sharded"), "train", 1)
        damage(place / "record.json", next(iter(place.glob("*.values.npy"))))

    return interrupt


def change_record(record, file):
    record.write_text(record.read_text().replace('"examples": 50', '"examples": 51', 1))


def cut_file(record, file):
    file.write_bytes(file.read_bytes()[:-1])


def remove_file(record, file):
    file.unlink()


def tasks_of(numbers, count):
    """Returns an interruption: of an array job of `count` tasks only some have been run, in this order."""

    def interrupt(problem_class, data, tmp):
        for number in numbers:
            generate_part(problem_class(), data, tmp, 3, number, count)
            assert not (data / "sharded").exists()

    return interrupt


def take_shard_of_another_plan(problem_class, data, tmp):
    crash_at(1)(problem_class, data, tmp)
    crash_at(1, seed=4)(problem_class, tmp / "other", tmp)
    other, place = (shard_folder(partial_folder(one / "sharded"), "train", 0) for one in (tmp / "other", data))
    shutil.rmtree(place)
    shutil.copytree(other, place)


def hold_a_shard(problem_class, data, tmp):
    """Another process makes the shard of a task, which is left to it."""
    generate_part(problem_class(), data, tmp, 3, 0, 7)
    place = shard_folder(partial_folder(data / "sharded"), "train", 2)
    with exclusive_lock(lock_beside(place)), refused("'train'", place, os.getpid()):
        generate_part(problem_class(), data, tmp, 3, 4, 7)


INTERRUPTIONS = {
    "none": (lambda *_: None, EVERY_SHARD),
    "a crash": (crash_at(3), TRAIN_SHARDS[3:]),
    "a crash of another generation": (crash_at(3, seed=4), EVERY_SHARD),
    "a shard of another plan": (take_shard_of_another_plan, TRAIN_SHARDS),
    "a changed record": (damaging(change_record), [("train", 1), ("train", 4)]),
    "a cut file": (damaging(cut_file), [("train", 1), ("train", 4)]),
    "a missing file": (damaging(remove_file), [("train", 1), ("train", 4)]),
    "the manifest cannot be written": (obstructed(".sharded.partial/manifest.json"), []),
    "the data cannot be published": (obstructed("sharded"), []),
    "half of the tasks": (tasks_of([1], 2), [("dev", 0), ("train", 0), ("train", 2), ("train", 4)]),
    "another process": (hold_a_shard, EVERY_SHARD[1:]),
    "all tasks are done": (tasks_of([1, 2, 0], 3), []),
}


@pytest.mark.parametrize("before", INTERRUPTIONS)
def test_whatever_was_before_the_rest_is_made_and_the_data_is_the_same(sharded_class, wanted, tmp_path, before):
    interrupt, expected = INTERRUPTIONS[before]
    interrupt(sharded_class, tmp_path / "data", tmp_path)
    problem = sharded_class()
    generate(problem, tmp_path / "data", tmp_path, seed=3, workers=1)
    assert problem.asked == expected
    assert contents(tmp_path / "data/sharded") == wanted
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["sharded"]


@pytest.mark.parametrize("count", [1, 3, 9])
def test_tasks_in_any_order_make_the_same_each_shard_once(sharded_class, wanted, tmp_path, count):
    asked = UserList()

    def make():
        problem = sharded_class()
        problem.asked = asked
        return problem

    tasks_of(random.Random(count).sample(range(count), count), count)(make, tmp_path / "data", tmp_path)
    assert sorted(asked) == EVERY_SHARD
    merge(make(), tmp_path / "data", tmp_path, 3)
    assert contents(tmp_path / "data/sharded") == wanted
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["sharded"]


def test_a_crash_says_how_much_is_kept_and_where(sharded_class, tmp_path, log_lines):
    crash_at(3)(sharded_class, tmp_path, tmp_path)
    (kept,) = [message for message in log_lines.messages if str(partial_folder(tmp_path / "sharded")) in message]
    assert kept.startswith("5 of 7 ")
    log_lines.clear()
    generate(sharded_class(), tmp_path, tmp_path, seed=4, workers=1)
    (warned,) = [record.getMessage() for record in log_lines.records if record.levelname == "WARNING"]
    assert warned.startswith("5 ")
    assert "seed" in warned


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
    sys.modules.pop(file.stem)
    assert texts(tmp_path / "data/changing", "dev") == [("a", "a")] * 2


def test_tasks_and_merging_leave_finished_data_and_remove_what_a_killed_process_left(
    sharded_class, by_one_process, wanted, tmp_path
):
    folder = shutil.copytree(by_one_process, tmp_path / "wanted") / "sharded"
    (folder / "work/train-00000").mkdir(parents=True)
    problem = sharded_class()
    for again in (lambda: generate_part(problem, tmp_path / "wanted", tmp_path, 3, 0, 2),
                  lambda: merge(problem, tmp_path / "wanted", tmp_path, 3)):  # fmt: skip
        again()
        assert {path.name for path in folder.iterdir()} == wanted.keys()
    assert problem.asked == []
    assert contents(folder) == wanted


# === Errors ===
def test_a_wrong_sample_is_named_by_its_shard_and_a_number_of_shards_that_is_none_is_refused(sharded_class, tmp_path):
    class Wrong(sharded_class):
        def sample(self, source, split, shard):
            return {**super().sample(source, split, shard), **({"targets": 7} if shard == 1 else {})}

    with refused("'dev'", "1", "2", "sharded", "'targets'", "7"):
        generate(Wrong(), tmp_path / "wrong", tmp_path, workers=1)
    for shards in (0, "4", True, None):
        problem = sharded_class()
        problem.parts = {"train": shards, "dev": 1}
        with refused("shards", repr(shards)):
            generate(problem, tmp_path / "none", tmp_path, workers=1)
        assert not list(tmp_path.glob("none/*"))


def test_an_empty_shard_is_no_empty_split(sharded_class, tmp_path):
    class Empty(sharded_class):
        def generate_samples(self, split, source):
            return super().generate_samples(split, source) if source.shard == 1 else iter(())

    generate(Empty(), tmp_path, tmp_path, workers=1)
    assert len(texts(tmp_path / "sharded")) == 50


def unfit(base, bad, most=0):
    """A problem in which all examples of the training shards in `bad` have an empty side; of `most` examples each."""

    class Unfit(base):
        def generate_samples(self, split, source):
            if split == "dev" or source.shard not in bad:
                return super().generate_samples(split, source)
            self.asked.append((split, source.shard))
            return iter([{"inputs": "", "targets": "1"}] * (most or 40 + 10 * source.shard))

    return Unfit()


@pytest.mark.parametrize(("bad", "fails"), [((0, 1), False), ((3, 4), False), ((2, 3, 4), True)])
def test_whether_a_corpus_is_fit_is_judged_over_all_shards(sharded_class, tmp_path, bad, fails):
    with refused("sharded", 210, 300) if fails else contextlib.nullcontext():
        generate(unfit(sharded_class, bad), tmp_path, tmp_path, workers=1)


@pytest.mark.parametrize(
    "made_before", [[], TRAIN_SHARDS, TRAIN_SHARDS[2:], TRAIN_SHARDS[:1], TRAIN_SHARDS[1:3]], ids=len
)
def test_a_corpus_whose_first_shards_are_unfit_stops_whatever_was_made_before(sharded_class, tmp_path, made_before):
    """The first two shards have the 10,000 examples after which a corpus is judged."""
    problem = unfit(sharded_class, (0, 1), most=5000)
    for place in made_before:
        generate_part(problem, tmp_path, tmp_path, 0, EVERY_SHARD.index(place), len(EVERY_SHARD))
    for _ in range(2):
        with refused("10,000"):
            generate(problem, tmp_path, tmp_path, workers=1)
    assert {*problem.asked} == {*DEV_SHARDS, *TRAIN_SHARDS[:2], *made_before}


@pytest.mark.parametrize("text", ["3", "-1/4", "a/b", "4/4", "0/0"])
def test_tasks_are_counted_from_0_and_one_that_is_none_is_refused(text):
    with refused(f"--shard={text}"):
        parse_task(text)
    assert parse_task("0/1") == (0, 1)
    assert parse_task("07/100") == (7, 100)


def test_merging_before_all_shards_are_there_names_them_and_what_makes_them(sharded_class, tmp_path, wanted):
    with refused("--merge", "sharded", tmp_path, "--shard=K/N"):
        merge(sharded_class(), tmp_path / "data", tmp_path, 3)
    tasks_of([0], 2)(sharded_class, tmp_path / "data", tmp_path)
    with refused("3", "7", "dev", "train", "--shard=1/7", "--shard=3/7", "--shard=5/7"):
        merge(sharded_class(), tmp_path / "data", tmp_path, 3)
    tasks_of([1, 3, 5], 7)(sharded_class, tmp_path / "data", tmp_path)
    merge(sharded_class(), tmp_path / "data", tmp_path, 3)
    assert contents(tmp_path / "data/sharded") == wanted


def test_shards_that_are_made_otherwise_than_asked_are_kept(sharded_class, wanted, tmp_path):
    tasks_of([0], 1)(sharded_class, tmp_path, tmp_path)
    for others in (lambda: merge(sharded_class(), tmp_path, tmp_path, 4),
                   lambda: generate_part(sharded_class(), tmp_path, tmp_path, 4, 0, 1)):  # fmt: skip
        with refused(tmp_path / ".sharded.partial", "seed", 4, 3):
            others()
    merge(sharded_class(), tmp_path, tmp_path, 3)
    assert contents(tmp_path / "sharded") == wanted


def test_a_task_whose_generation_another_process_finishes_says_so(sharded_class, tmp_path):
    class Finishing(sharded_class):
        def generate_samples(self, split, source):
            yield from super().generate_samples(split, source)
            if (split, source.shard) == ("dev", 1):
                (partial_folder(tmp_path / "sharded") / "work/plan.json").unlink()

    with refused(partial_folder(tmp_path / "sharded")):
        generate_part(Finishing(), tmp_path, tmp_path, 3, 0, 1)
