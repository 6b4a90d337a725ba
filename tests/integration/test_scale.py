"""docs/scale.md: its job files start workers that train together, and its table agrees with its formula."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from t2t.checkpoints.store import CheckpointStore
from tests.integration.test_workers import free_addresses
from tests.readme import ROOT, block, shortened, succeed

PAGE = ROOT / "docs/scale.md"
RING_GB = {"8": (8, 300), "64": (8, 12.5), "512": (64, 12.5)}
"""Number of GPUs -> (members of the slowest ring, GB/s of its links)."""


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


STAND_IN = """
import importlib, sys
from t2t.cli.common import parse
from t2t.backends.cluster import find_cluster

name, *flags = sys.argv[1:]
values = parse(importlib.import_module(f"t2t.cli.{name}").build_flags(), [name, *flags], "")
if name == "trainer":
    found = find_cluster(values.worker_hosts, values.worker_index)
    told = values.problem, found.index, *found.addresses
elif name == "datagen":
    told = values.problem, values.shard or "merge" * values.merge, values.train_source
else:
    told = values.output_dir, values.decode_to_file, values.shard or "merge" * values.merge
print(*told, file=open("started", "a"))
"""
"""Fake commands, which only record their worker or their part of the work."""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with a fake virtual environment, fake commands and fake programs of a cluster."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    for name in ("trainer", "datagen", "decoder"):
        fails = '[ -z "$TRAINER_STATUS" ] || exit "$TRAINER_STATUS"'
        program(tmp_path, f"t2t-{name}", f'{fails}\nexec {sys.executable} {tmp_path}/stand_in.py {name} "$@"')
    (tmp_path / ".venv/bin/activate").write_text(f"PATH={tmp_path}/.venv/bin:$PATH\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program(folder, name, text):
    path = folder / ".venv/bin" / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def started(folder):
    return sorted((folder / "started").read_text().splitlines())


def test_ssh_starts_each_worker_on_its_machine(machine, monkeypatch):
    program(machine, "ssh", 'echo "$1" >> hosts; shift; exec bash -c "$*"')
    (machine / "train.sh").write_text(block("train.sh", "write", PAGE))
    command = ["bash", "train.sh", "a:2222 b:2223", "--problem=wsj_parsing", "--output_dir=run"]
    assert subprocess.run(command, check=False).returncode == 0
    assert sorted((machine / "hosts").read_text().split()) == ["a", "b"]
    assert started(machine) == ["wsj_parsing 0 a:2222 b:2223", "wsj_parsing 1 a:2222 b:2223"]
    monkeypatch.setenv("TRAINER_STATUS", "138")
    assert subprocess.run(command, check=False).returncode == 138


def test_slurm_starts_each_task_and_is_asked_again_when_a_worker_is_lost(machine, monkeypatch):
    program(machine, "scontrol", '[ "$1" = show ] && echo n1 || echo "$*" >> asked')
    program(machine, "srun", (
        "shift; export SLURM_STEP_NODELIST=n1 'SLURM_STEP_TASKS_PER_NODE=2' SLURMD_NODENAME=n1\n"
        'SLURM_PROCID=1 SLURM_LOCALID=1 "$@" & SLURM_PROCID=0 SLURM_LOCALID=0 "$@"; status=$?; wait; exit $status'
    ))  # fmt: skip
    job = ["bash", "-c", block("train.sbatch", "write", PAGE)]
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert subprocess.run(job, check=False).returncode == 0
    assert started(machine) == [f"wmt_ende_tokens_32k {index} n1:12321 n1:12322" for index in (0, 1)]
    assert not (machine / "asked").exists()
    monkeypatch.setenv("TRAINER_STATUS", "138")
    assert subprocess.run(job, check=False).returncode == 138
    assert (machine / "asked").read_text() == "requeue 7\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("datagen.sbatch", "text2text_files {} corpus/part-*.en"),
        ("decode.sbatch", "run a.de {}"),
        ("datagen.yaml", "text2text_files {} /mnt/t2t/corpus/part-*.en"),
        ("decode.yaml", "/mnt/t2t/run /mnt/t2t/a.de {}"),
    ],
)
def test_tasks_of_jobs_are_shards_and_a_job_of_slurm_without_tasks_merges(machine, monkeypatch, name, expected):
    text = block(name, "write", PAGE)
    if name.endswith(".sbatch"):
        command, count = ["bash", "-c", text], 1 + int(re.search(r"--array=0-(\d+)", text)[1])
        monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "1")  # of an array that reruns one missing task
    else:
        job = pytest.importorskip("yaml").safe_load(text)["spec"]
        assert job["completionMode"] == "Indexed"
        command, count = job["template"]["spec"]["containers"][0]["command"], job["completions"]
    tasks = [str(count - 1)] + [""] * name.endswith(".sbatch")
    for task in tasks:
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID" if name.endswith(".sbatch") else "JOB_COMPLETION_INDEX", task)
        assert subprocess.run(command, check=False).returncode == 0
    assert started(machine) == [expected.format(part) for part in (f"{count - 1}/{count}", "merge")][: len(tasks)]


# === Commands ===
@pytest.fixture
def corpus(tmp_path):
    """Three pairs of training files and one pair of dev files."""
    (tmp_path / "corpus").mkdir()
    for name in ("part-0", "part-1", "part-2", "dev"):
        for side in ("en", "de"):
            lines = (f"{side} {name} {number}" for number in range(40))
            (tmp_path / f"corpus/{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def copy_part(folder, one, other):
    for side in ("en", "de"):
        shutil.copy(folder / f"corpus/part-{one}.{side}", folder / f"corpus/part-{other}.{side}")


def test_filters(corpus):
    for number in range(3):
        (corpus / f"corpus/part-{number}.scores").write_text("0.4\n0.6\n" * 20)
    copy_part(corpus, 0, 1)
    printed = succeed(block("filters", page=PAGE), corpus).stderr
    assert re.search(r"dropped \(20 duplicates, \d+ not taken by weight, 60 with a score below 0.5\)", printed)


def test_duplicates_of_an_array_job(corpus):
    copy_part(corpus, 0, 2)
    printed = succeed(block("filter-tasks", page=PAGE), corpus).stderr
    assert "the same array job again" in printed
    assert "train: 80 examples written; 40 dropped (40 duplicates)" in printed


def test_files_by_a_pattern_and_tasks_of_an_array_job_give_the_same_also_if_tasks_start_together(corpus):
    for name in ("patterns", "tasks"):
        printed = succeed(block(name, page=PAGE), corpus).stderr
    assert "train: 120 examples written" in printed
    assert [path.name for path in (corpus / "shared").iterdir() if path.name != "tmp"] == ["text2text_files"]
    shutil.rmtree(corpus / "shared")
    lines = [line for line in block("tasks", page=PAGE).splitlines() if line.startswith("t2t-datagen")]
    tasks = [f"{line} & tasks[{n}]=$!" for n, line in enumerate(line for line in lines if "--shard" in line)]
    script = "\n".join([*tasks, "wait ${tasks[0]}", "wait ${tasks[1]}", lines[-1], lines[-1]])
    printed = succeed(script, corpus).stderr
    assert printed.count("is learnt from") == 1
    assert printed.count("is there already: 120 train, 40 dev examples; nothing to do") == 1
    assert sorted(path.name for path in (corpus / "shared").iterdir()) == ["text2text_files"]


@pytest.mark.slow  # that the page's command of Apache Beam runs
def test_apache_beam_gives_the_same(corpus):
    for name in ("patterns", "beam"):
        printed = succeed(block(name, page=PAGE), corpus).stderr
    assert "counters of Apache Beam: 160 examples read, 160 examples written" in printed


@pytest.mark.slow  # that the page's workers train one run, which shards and Apache Beam decode alike
def test_two_processes_and_shards_as_shown(tmp_path):
    text = shortened(block("workers", page=PAGE))
    for address in set(re.findall(r"localhost:\d+", text)):  # another program may have the ports of the page
        text = text.replace(address, free_addresses(1)[0])
    printed = succeed(text, tmp_path).stderr
    assert "2 replicas x 1 step" in printed
    assert CheckpointStore(tmp_path / "run/checkpoints").latest() == 6
    (tmp_path / "a.en").write_text("one hundred and seven\ntwelve\n\nthree\n")
    succeed(block("shards", page=PAGE), tmp_path)
    by_one = (tmp_path / "a.de").read_bytes()
    assert by_one.count(b"\n") == 4
    (tmp_path / "a.de").unlink()
    succeed(block("beam-decode", page=PAGE), tmp_path)
    assert (tmp_path / "a.de").read_bytes() == by_one
    assert not list(tmp_path.glob("a.de.*"))


@pytest.mark.exhaustive  # that back-translated text is tagged and learned beside the other
def test_back_translation_as_shown(tmp_path):
    """Each training is six updates of a tiny model; a line of the monolingual text is empty."""
    (tmp_path / "my_news").mkdir()
    (tmp_path / "raw").mkdir()
    (tmp_path / "my_news/__init__.py").write_text(block("my_news/__init__.py", "write", PAGE))
    swedish = [f"god morgon {n}\n" for n in range(100)]
    sides = {"nl": [f"goede morgen {n}\n" for n in range(100)], "sv": swedish}
    for language, text in sides.items():
        (tmp_path / f"raw/news.train.{language}.gz").write_bytes(gzip.compress("".join(text).encode()))
        (tmp_path / f"raw/news.dev.{language}").write_text("".join(text[:20]))
    (tmp_path / "raw/back.train.sv").write_text("\n" + "".join(swedish[:30]))
    succeed(shortened(block("back-translation", page=PAGE)), tmp_path)
    tagged = (tmp_path / "raw/back.train.nl").read_text().split("\n")
    assert len(tagged) == 32, "a line for each line, and no more"
    assert tagged[0] == ""
    assert all(line.startswith("<bt> ") for line in tagged[1:31] if line)
    record = json.loads((tmp_path / "both/run.json").read_text())
    assert record["problem"] == "my_news-my_news_back"
    succeed(block("back-translation-one", page=PAGE), tmp_path)
    assert (tmp_path / "all.sv").read_text() == "".join(swedish) + (tmp_path / "raw/back.train.sv").read_text()
