"""docs/scale.md: its files start workers that train together, its table is its formula."""

import os
import re
import subprocess

import pytest

from t2t.checkpoints.store import CheckpointStore
from tests.integration.test_workers import TRAINER, free_addresses
from tests.readme import ROOT, block, execute, shortened

PAGE = ROOT / "docs/scale.md"
RING_GB = {"8": (8, 300), "64": (8, 12.5), "512": (64, 12.5)}
"""GPUs to the members of the ring that bounds them, and GB/s of its links."""


def test_the_table_is_the_formula():
    rows = re.findall(
        r"^\| [a-z].* \| (\d+) \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$", PAGE.read_text(), re.M
    )
    assert len(rows) == 5
    for row in rows:
        millions, seconds, *shown = map(float, row)
        for percent, (members, bandwidth) in zip(shown, RING_GB.values(), strict=True):
            reducing = 2 * (members - 1) / members * 4 * millions * 1e6 / (bandwidth * 1e9)
            assert percent == round(100 * seconds / (seconds + reducing), 1)


def test_the_job_of_kubernetes_starts_the_trainer():
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(block("train.yaml", "write", PAGE))
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    assert (container["name"], container["command"][0]) == ("tensorflow", "t2t-trainer")
    assert worker["restartPolicy"] == "ExitCode", "a status above 127 restarts"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with an environment to activate, and programs that stand for those of a cluster."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    program(tmp_path, "t2t-trainer", f'exec {TRAINER[0]} -c "{TRAINER[2]}" "$@"')
    (tmp_path / ".venv/bin/activate").write_text(f"PATH={tmp_path}/.venv/bin:$PATH\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(folder, name, text):
    path = folder / ".venv/bin" / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def short_flags(tiny_run, folder):
    own = [flag for flag in tiny_run.train_flags if not flag.startswith("--worker_cpu")]
    return [*own, f"--output_dir={folder / 'run'}", "--train_steps=4"]


@pytest.mark.slow
def test_two_processes_as_shown(tmp_path):
    done = execute("bash", shortened(block("workers", page=PAGE)), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 replica(s) x 1 step(s)" in done.stderr
    assert CheckpointStore(tmp_path / "run/checkpoints").latest() == 6


@pytest.mark.slow
def test_ssh_starts_each_worker_on_its_machine(machine, tiny_run):
    program(machine, "ssh", 'echo "on $1" >> hosts; shift; exec bash -c "$*"')
    (machine / "train.sh").write_text(block("train.sh", "write", PAGE))
    command = ["bash", "train.sh", " ".join(free_addresses(2)), *short_flags(tiny_run, machine)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (machine / "hosts").read_text() == "on localhost\n" * 2
    assert CheckpointStore(machine / "run/checkpoints").latest() == 4


@pytest.mark.slow
def test_slurm_starts_each_task_and_is_asked_again_when_the_time_is_up(machine, tiny_run):
    program(machine, "scontrol", '[ "$1" = show ] && echo localhost || echo "$*" >> asked')
    program(machine, "srun", (
        "shift; export SLURM_STEP_NODELIST=localhost 'SLURM_STEP_TASKS_PER_NODE=2' SLURMD_NODENAME=localhost\n"
        'SLURM_PROCID=1 SLURM_LOCALID=1 "$@" & SLURM_PROCID=0 SLURM_LOCALID=0 "$@"; status=$?; wait; exit $status'
    ))  # fmt: skip
    text = block("train.sbatch", "write", PAGE)
    job, flags = re.subn(r" --problem=.* --output_dir=run", " " + " ".join(short_flags(tiny_run, machine)), text)
    assert flags == 1
    done = subprocess.run(["bash", "-c", job], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert CheckpointStore(machine / "run/checkpoints").latest() == 4
    assert not (machine / "asked").exists()
    program(machine, "srun", "exit 143")
    done = subprocess.run(["bash", "-c", job], env={**os.environ, "SLURM_JOB_ID": "7"}, check=False)
    assert done.returncode == 143
    assert (machine / "asked").read_text() == "requeue 7\n"
