"""Removal of duplicates, compared with a set of all texts; independent of shards, processes and interruptions."""

import random
import subprocess
import sys
from collections import UserList

import pytest

from t2t.data.generation import duplicates
from t2t.data.generation.array_tasks import generate_part, merge
from t2t.data.generation.data_folder import partial_folder
from t2t.data.generation.duplicates import mark_samples
from t2t.data.generation.generate import generate
from t2t.data.generation.plan import GenerationJob, read_plan
from t2t.data.manifest import read_manifest
from t2t.errors import MachineError
from t2t.problems.text_problems import Text2Text
from tests.errors import refused
from tests.generated import contents, texts


class Repeating(Text2Text):
    """A problem with given pairs of digits, in consecutive shards."""

    name = "repeating"
    vocabulary = tuple("0123456789")
    chunk_size = 5

    def __init__(self, pairs, shard_count=1, **options):
        super().__init__(**options)
        self._pairs, self._shard_count = pairs, shard_count
        self.passes = UserList()  # not a plain value, so not an option of the problem

    def shards(self, split, source):
        return self._shard_count if split == "train" else 1

    def generate_samples(self, split, source):
        self.passes.append((split, source.shard))
        pairs = self._pairs if split == "train" else [("1", "2")] * 3
        if source.shards > 1:
            bounds = [len(pairs) * number // source.shards for number in (source.shard, source.shard + 1)]
            pairs = pairs[slice(*bounds)]
        for inputs, targets in pairs:
            yield {"inputs": inputs, "targets": targets}


@pytest.fixture(scope="module")
def pairs():
    """Few different texts, so that most pairs repeat an earlier one, some with other white space."""
    rng = random.Random(3)
    texts = [" ".join(rng.choices("0123456789", k=rng.randint(1, 2))) for _ in range(8)]
    return [(rng.choice(texts), rng.choice(["", " "]) + rng.choice(texts)) for _ in range(300)]


@pytest.fixture(autouse=True)
def small_blocks(data_blocks):
    data_blocks(7)


def firsts(pairs, key):
    """Returns the pairs whose `key` no earlier pair has."""
    seen, kept = set(), []
    for inputs, targets in pairs:
        pair = " ".join(inputs.split()), " ".join(targets.split())
        if key(pair) not in seen:
            kept.append(pair)
        seen.add(key(pair))
    return kept


@pytest.mark.parametrize(("compared", "key", "reason"), [
    ("pair", lambda pair: pair, "duplicates"),
    ("source", lambda pair: pair[0], "with a duplicate source"),
    ("target", lambda pair: pair[1], "with a duplicate target"),
])  # fmt: skip
@pytest.mark.parametrize("shard_count", [1, 4])
def test_the_first_of_equal_samples_is_kept(pairs, tmp_path, compared, key, reason, shard_count):
    problem = Repeating(pairs, shard_count, filter_duplicates=compared)
    record = generate(problem, tmp_path, tmp_path, workers=1).split("train")
    expected = firsts(pairs, key)
    assert texts(tmp_path / "repeating") == expected
    assert record.dropped == {reason: len(pairs) - len(expected)}
    assert texts(tmp_path / "repeating", "dev") == [("1", "2")] * 3


@pytest.mark.parametrize("shard_count", [1, 4])
def test_processes_and_array_tasks_give_the_same_bytes(pairs, tmp_path, shard_count, log_lines):
    problem = Repeating(pairs, shard_count, filter_duplicates="pair", filter_min_words=2)
    for workers in (1, 2):
        generate(problem, tmp_path / str(workers), tmp_path, workers=workers)
    run_tasks(problem, tmp_path / "tasks", tmp_path)
    assert not (tmp_path / "tasks" / "repeating").exists()
    assert "--filter_duplicates" in log_lines.text
    run_tasks(problem, tmp_path / "tasks", tmp_path)
    merge(problem, tmp_path / "tasks", tmp_path, seed=0)
    expected = contents(tmp_path / "1" / "repeating")
    assert contents(tmp_path / "2" / "repeating") == expected
    assert contents(tmp_path / "tasks" / "repeating") == expected
    record = read_manifest(tmp_path / "1" / "repeating").split("train")
    assert record.examples + sum(record.dropped.values()) == len(pairs)
    assert set(record.dropped) == {"duplicates", "with fewer than 2 words"}


def run_tasks(problem, data_dir, tmp_dir):
    for task in range(3):
        generate_part(problem, data_dir, tmp_dir, 0, task, 3, workers=1)


def test_merging_says_what_is_missing_after_the_first_array_job(pairs, tmp_path):
    problem = Repeating(pairs, 4, filter_duplicates="pair")
    generate_part(problem, tmp_path, tmp_path, 0, 0, 2, workers=1)
    with refused(4, 5, "repeating", "train"):
        merge(problem, tmp_path, tmp_path, seed=0)
    partial = partial_folder(tmp_path / "repeating")
    plan = read_plan(partial)
    with refused(partial, "'train',"):
        duplicates.find_duplicates(plan, partial)
    with refused(partial):
        next(mark_samples(iter([]), GenerationJob(plan, problem, partial, tmp_path), 0))


def test_what_another_filter_drops_makes_no_later_sample_a_duplicate(tmp_path):
    pairs = [("1 2", "3"), ("1 2", "4 5"), ("1 2", "6 7")]
    problem = Repeating(pairs, filter_duplicates="source", filter_min_words=2)
    record = generate(problem, tmp_path, tmp_path, workers=1).split("train")
    assert texts(tmp_path / "repeating") == [("1 2", "4 5")]
    assert record.dropped == {"with a duplicate source": 1, "with fewer than 2 words": 1}


def test_an_interrupted_generation_goes_on_with_the_digests_it_has(pairs, tmp_path):
    """A file that stands where the duplicates go is the interruption."""
    problem = Repeating(pairs, 4, filter_duplicates="pair")
    generate(problem, tmp_path / "b", tmp_path, workers=1)
    partial = partial_folder(tmp_path / "a" / "repeating")

    class Obstructed(Repeating):
        def generate_samples(self, split, source):
            yield from super().generate_samples(split, source)
            if (split, source.shard) == ("train", 3):
                (partial / "work/duplicates").write_text("")

    Obstructed.__module__, Obstructed.__qualname__ = Repeating.__module__, Repeating.__qualname__
    with refused(partial / "work/duplicates", by=MachineError):
        generate(Obstructed(pairs, 4, filter_duplicates="pair"), tmp_path / "a", tmp_path, workers=1)
    assert duplicates.missing_digests(read_plan(partial), partial) == []
    (partial / "work/duplicates").unlink()
    problem.passes.clear()
    generate(problem, tmp_path / "a", tmp_path, workers=1)
    assert problem.passes == [("train", shard) for shard in range(4)]  # the second pass, and no first
    assert contents(tmp_path / "a" / "repeating") == contents(tmp_path / "b" / "repeating")


def test_what_has_no_digests_and_samples_that_change_between_the_passes_are_refused(tmp_path):
    class Growing(Repeating):
        def generate_samples(self, split, source):
            yield from super().generate_samples(split, source)
            self._pairs.append(("1", "2"))

    class Alone(Repeating):
        text_features = ("targets",)

    pairs = [("1", "1"), ("2", "2"), ("3", "3")]
    for problem, about in (
        (Repeating([("", "1")] * 2, filter_duplicates="pair"), ["repeating", 2]),
        (Growing(pairs, filter_duplicates="pair"), ["generate_samples", 4]),
        (Alone([], filter_duplicates="source"), ["--filter_duplicates=source", "inputs", "--filter_duplicates=target"]),
    ):
        with refused(*about):
            generate(problem, tmp_path, tmp_path, workers=1)


ON_A_FULL_DISK = """
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from t2t.data.generation import duplicates
from t2t.errors import MachineError

class Digests:
    samples = 3_000_000

    def read(self, group):
        entries = np.zeros(0 if group else self.samples, duplicates.ENTRY)
        entries["sample"] = np.arange(len(entries))
        return entries

duplicates._ShardDigests.open_all = lambda plan, folder: [Digests()]
folder = Path(sys.argv[1])
(folder / "work").mkdir()
try:
    duplicates.find_duplicates(SimpleNamespace(shards={"train": 1}, fingerprint="plan"), folder)
except MachineError as error:
    print(error)
"""


def test_a_full_disk_is_an_error_and_not_a_signal(tmp_path):
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1" && shift && "$@"'
    mounted = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh", str(tmp_path)]
    try:
        subprocess.run([*mounted, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        [*mounted, sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "work" / "duplicates") in done.stdout
