"""Several processes make the same bytes as one, and what is left of a process that dies is made complete."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import t2t
from tests.generated import contents

SCRIPT = """
import os, sys, threading
from pathlib import Path
from t2t.data.generation.generate import generate
from t2t.errors import T2TError
from t2t.problems.text_problems import Text2Text

parent = os.getpid()

class Words(Text2Text):
    name, vocab_kind, vocab_sample_bytes, chunk_size, max_length = "words", "token", 4000, 50, 8

    def shards(self, split, source):
        return shard_count if split == "train" else 1

    def generate_samples(self, split, source):
        mark(f"{split} read")
        for number in range(300):
            faulty = dies if (split, source.shard, number) == ("train", shard_count * 2 // 3, 234) else ""
            if faulty == "reading" and self.encoders:
                os._exit(9)
            if faulty == "error" and self.encoders:
                raise KeyError("mine")
            words = [str(source.rng.randint(0, 99)) for _ in range(source.rng.randint(0, 9))]
            yield {"inputs": " ".join(words), "targets": 7 if faulty == "sample" else " ".join(sorted(words))}

    def encode_samples(self, samples):
        mark("encoded")
        if dies == "encoding":
            os._exit(9)
        return super().encode_samples(samples)

def mark(what):
    (out / f"{what} by {'parent' if os.getpid() == parent else 'worker'}").touch()

out, workers, shard_count, dies = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
# A process with a second thread does not fork: the workers are forked before.
start_thread = threading.Thread(target=threading.Event().wait, daemon=True).start
try:
    generate(Words(), out, out, seed=5, workers=workers, once_forked=start_thread)
except T2TError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
assert "tensorflow" not in sys.modules
assert threading.active_count() == 2
"""


def run_script(out, workers, shard_count, dies=""):
    """Runs `SCRIPT` in a fresh process: a process with TensorFlow or threads does not fork."""
    out.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, out, str(workers), str(shard_count), dies],
        env={**os.environ, "PYTHONPATH": str(Path(t2t.__file__).parents[1])},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def by_one(tmp_path_factory):
    """The folders in which one process generates data of one shard, and of six."""
    folders = {shard_count: tmp_path_factory.mktemp("one") for shard_count in (1, 6)}
    for shard_count, folder in folders.items():
        done = run_script(folder, 1, shard_count)
        assert (done.returncode, done.stderr) == (0, "")
    return folders


def marks(folder):
    return {path.name for path in folder.iterdir() if " by " in path.name}


def test_processes_take_chunks_of_one_shard_or_else_shards_and_bytes_do_not_depend_on_them(by_one, tmp_path):
    for shard_count, folder in by_one.items():
        assert marks(folder) == {"train read by parent", "dev read by parent", "encoded by parent"}
        done = run_script(tmp_path / str(shard_count), 3, shard_count)
        assert (done.returncode, done.stderr) == (0, "")
        assert contents(tmp_path / str(shard_count) / "words") == contents(folder / "words")
    assert marks(tmp_path / "1") == {"train read by parent", "dev read by parent", "encoded by worker"}
    assert marks(tmp_path / "6") == {"train read by worker", "dev read by parent", "encoded by worker"}


@pytest.mark.parametrize(("shard_count", "dies", "status"), [
    (1, "reading", 9), (1, "encoding", 1), (6, "reading", 1), (6, "error", 1),
])  # fmt: skip
def test_a_process_that_dies_leaves_no_data_but_finished_shards(by_one, tmp_path, shard_count, dies, status):
    done = run_script(tmp_path, 2, shard_count, dies)
    assert done.returncode == status
    assert ("'mine'" in done.stderr) == (dies == "error")
    assert not (tmp_path / "words").exists()
    partial = tmp_path / ".words.partial"
    assert partial.exists() == (dies != "encoding")
    if shard_count > 1:
        kept = {path.name for path in (partial / "work").glob("*-0000?")}
        assert "dev-00000" in kept
        # Two processes take the shards in turn: when one begins with 4, the other may still be at one of those before.
        assert len(kept & {f"train-{number:05}" for number in range(4)}) >= 3
        assert "train-00004" not in kept
    if dies in ("encoding", "error"):
        return  # nothing is left to go on with, or the same as from a process that died while it was reading
    assert run_script(tmp_path, 2, shard_count).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} - marks(tmp_path) == {"words"}
    assert contents(tmp_path / "words") == contents(by_one[shard_count] / "words")


def test_a_wrong_sample_comes_out_of_a_worker_as_one_line(tmp_path):
    done = run_script(tmp_path, 3, 1, "sample")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in ("words", "'train'", "235", "'targets'"))
