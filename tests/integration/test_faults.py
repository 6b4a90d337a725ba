"""`python -m tests.faults`: its counts, one injection into each command, damage to any file; more are run by hand."""

import contextlib
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t.cli import decoder, trainer
from tests.errors import refused
from tests.faults import __main__ as harness
from tests.faults import damage
from tests.faults.damage import rows
from tests.faults.damaged import READERS, kind_of
from tests.faults.jobs import Job, differences, made_in
from tests.faults.process import clock
from tests.faults.report import Row, write_json
from tests.in_process import call

ROOT = Path(__file__).parents[2]
KILLS = ("generation, a clock that jumps", "training, SIGTERM", "decoding, SIGKILL", "merging, SIGKILL")
OTHERS = ("generation, SIGINT", "generation, a second process", "stored training, SIGKILL", "bad text")


def survived(tmp_path, faults):
    """Injects each fault once; returns the names of all rows."""
    rows = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--times=1", f"--json={rows}", "--only", *faults],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(rows.read_text())
    assert all(row["injected"] == row["survived"] for row in found), done.stdout
    assert [row["injected"] for row in found[:2]] == [1] * 2
    return [row["fault"] for row in found]


@pytest.mark.slow  # that real processes which are killed at any moment are resumed to the same bytes
def test_commands_survive_signals(tmp_path):
    assert survived(tmp_path, KILLS) == list(KILLS)


@pytest.mark.exhaustive  # the same of other faults; all of them are injected by hand
def test_other_faults_are_survived(tmp_path):
    names = survived(tmp_path, OTHERS)
    assert sorted(names[:3]) == sorted(OTHERS[:3])
    assert all(name.startswith("bad text, ") for name in names[3:])
    assert len(names) > 10


def test_a_checkpoint_of_a_signal_near_the_end_is_kept_in_the_place_of_another():
    def made(*updates, weights="same"):
        return {f"run/checkpoints/step-{update:08d}/model.safetensors": weights for update in updates}

    assert differences(made(3, 12, 15), made(3, 13, 15)) == differences(made(3, 12, 15), made(3, 12, 14, 15)) == ""
    for found in (made(3, 7, 12, 15), made(3, 15), made(12, 13, 15), made(3, 13, 15, weights="other")):
        assert differences(made(3, 12, 15), found)


def test_rows_say_what_was_survived(tmp_path):
    row = Row("training, SIGKILL")
    row.add("", 2.0)
    row.add("/out: latest.json other", 3.0)
    assert re.fullmatch(r"training, SIGKILL +2 +1 +2\.5\n    /out: latest\.json other", str(row))
    assert re.fullmatch(
        r"full disk +0 +0 +mounting is not allowed here\n    not injected: 1 of 1",
        str(Row("full disk", note="mounting is not allowed here")),
    )
    assert "not injected: 1 of 1" in str(Row("full disk"))
    write_json([row], tmp_path / "rows.json")
    (read,) = json.loads((tmp_path / "rows.json").read_text())
    assert (read["fault"], read["injected"], read["survived"]) == ("training, SIGKILL", 2, 1)


def test_folders_are_told_apart_by_everything_but_the_time(tmp_path):
    def fill(name, created, loss, speed):
        run = tmp_path / name / "run"
        run.mkdir(parents=True)
        (run / "lock").write_text(name)
        (run / "run.json").write_text(json.dumps({"problem": "a", "created": created}))
        lines = [{"step": 2, "time": speed, "train/loss": speed}, {"step": 2, "time": speed, "dev/loss": loss}]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return run

    one, other = fill("one", "1970", 3.0, 8), fill("other", "2038", 3.0, 9)
    assert differences(made_in(one), made_in(other)) == ""
    (other / "checkpoints").mkdir()
    assert differences(made_in(one), made_in(other)) == "checkpoints/ left over"
    assert "metrics.jsonl other" in differences(made_in(one), made_in(fill("third", "1970", 3.1, 8)))
    (other / "run.json").unlink()
    assert differences(made_in(one), made_in(other)) == "checkpoints/ left over, run.json missing"


# === Faults that do not happen ===
class Unharmed:
    """A process that ends normally, whatever is done to it."""

    def __init__(self, log):
        self.log, self.ended = log, False
        log.write_text("done\n")

    def send(self, number=0):
        """Does nothing."""

    end = send

    def wait(self, seconds=0.0):
        """Returns exit status 0."""
        self.ended = True
        return 0

    def waited(self, until, seconds=0.0):
        """Does not wait."""
        return True


class UnharmedBench:
    """Replaces `Bench`: nothing is prepared, started or mounted; its processes produce the expected results."""

    def __init__(self, job, folder, seed=0):
        self.job, self._folder = job, folder
        self.rng, self.turns, self._numbers = random.Random(seed), itertools.count(), itertools.count()
        self.wanted, self.bytes = {}, 10_000

    def prepare(self):
        """Does nothing."""

    def folder(self):
        """An empty one."""
        out = self._folder / f"out-{next(self._numbers)}"
        out.mkdir(parents=True)
        return out

    def start(self, out, cold=False, **believed):
        """Returns a process that has ended."""
        return Unharmed(out.with_name(out.name + ".log"))

    def start_and_wait(self, cold=False, **believed):
        """Returns a folder and a process."""
        out = self.folder()
        return out, self.start(out)

    def go_on(self, out, keep=False, **believed):
        """Reports no error."""
        return ""

    def clocks_jumped(self, out):
        """Returns False."""
        return False

    def mounted(self, *arguments):
        """Changes nothing, as `remount` does."""
        return contextlib.nullcontext()

    remount = mounted


@pytest.mark.parametrize("fault", harness.faults(Job("training", Path())))
def test_a_fault_that_does_not_happen_is_not_survived(fault, tmp_path):
    """If a signal, a full or read-only disk, a clock jump or an obstacle has no effect, nothing counts as survived."""
    job = Job("training", tmp_path / "materials")
    row = harness._row(UnharmedBench(job, tmp_path), f"training, {fault}", harness.faults(job)[fault], 3)
    assert row.survived == 0
    assert not row.passed


def test_the_harness_fails_if_nothing_was_injected(tmp_path, capsys):
    def run(*flags):
        nothing = {"bench_of": UnharmedBench, "faults_of": lambda job: {"nothing": lambda bench: None}}
        assert harness.main([*flags], parent=tmp_path, **nothing) == 1
        return capsys.readouterr().out

    assert run("--times=2", "--only", "nothing").count("    not injected: 2 of 2\n") == len(harness.JOBS)
    assert "not injected: no fault is called no such fault" in run("--only", "no such fault")
    run("--only", "nothing", "--skip", "nothing")


def test_a_clock_jumps_after_it_was_read_once(tmp_path):
    before = time.time
    with clock(1e6, tmp_path / "mark"):
        assert abs(time.time() - before()) < 1e5
        assert not (tmp_path / "mark").exists()
        assert time.time() - before() > 9e5
        assert (tmp_path / "mark").exists()
    assert time.time is before


def test_a_file_that_is_not_damaged_proves_nothing(tmp_path):
    rows = damage.rows(tmp_path, kinds=damage.VOCAB_KINDS[:1], damage=lambda folder, contents: None)
    assert rows
    assert all(row.injected == 0 < row.wanted and not row.passed for row in rows)


# === Any damage to a file of a run or of data is detected before the file is used ===
@pytest.mark.slow  # some thousand damages; the unit tests of checkpoints, data and records damage one of each kind
def test_every_damage_to_every_file_is_noticed(tmp_path):
    found = rows(tmp_path)
    assert [failure for row in found for failure in row.failures] == []
    assert all(row.injected == row.survived > 0 for row in found)
    assert {row.fault.partition(": ")[2] for row in found} == set(READERS)


def test_a_new_kind_of_file_must_say_who_reads_it(tiny_run):
    """All files of a trained run and its data have readers."""
    for folder, name in ((tiny_run.output_dir, "run"), (tiny_run.data_dir, "data")):
        for file in folder.rglob("*"):
            if file.is_file():
                kind_of(f"{name}/{file.relative_to(folder).as_posix()}")
    with refused("run/news.json", "READERS", by=LookupError):
        kind_of("run/news.json")


@pytest.mark.slow  # that training from the checkpoint before a damaged one leads to the same weights
def test_commands_go_on_from_the_checkpoint_before_a_damaged_one(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    lost = run / "checkpoints/step-00000040/model.safetensors"
    whole = lost.read_bytes()
    lost.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    (tmp_path / "lines").write_text("1 2 3\n4 5 6 7\n")
    warning = f"checkpoint {lost.parent} is damaged: {lost.name} "
    for name in ("latest", "20"):
        files = {"decode_from_file": tmp_path / "lines", "decode_to_file": tmp_path / name}
        printed = call(decoder, output_dir=run, checkpoint=name, **files).err
        assert (warning in printed) == (name == "latest")
    assert (tmp_path / "latest").read_bytes() == (tmp_path / "20").read_bytes()
    assert warning in call(trainer, *tiny_run.train_flags, output_dir=run, train_steps=40).err
    assert lost.read_bytes() == whole
