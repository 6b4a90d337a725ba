"""docs/scale.md: its job files start workers that train together, and its table agrees with its formula."""

import gzip
import json
import os
import re
import subprocess
import sys

import pytest

from t2t.checkpoints.store import CheckpointStore
from tests.readme import ROOT, block, execute, shortened

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


@pytest.mark.slow
def test_two_processes_as_shown(tmp_path):
    done = execute("bash", shortened(block("workers", page=PAGE)), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 replica(s) x 1 step(s)" in done.stderr
    assert CheckpointStore(tmp_path / "run/checkpoints").latest() == 6


STAND_IN = """
import sys
from t2t.cli import trainer
from t2t.cli.common import parse
from t2t.training.cluster import find_cluster

values = parse(trainer.build_flags(), ["t2t-trainer", *sys.argv[1:]], "")
found = find_cluster(values.worker_hosts, values.worker_index)
print(values.problem, found.index, *found.addresses, file=open("started", "a"))
"""
"""A fake trainer that only records its worker index."""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A folder with a fake virtual environment and fake programs of a cluster."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "trainer.py").write_text(STAND_IN)
    program(tmp_path, "t2t-trainer", f'{sys.executable} {tmp_path}/trainer.py "$@" && exit "${{TRAINER_STATUS:-0}}"')
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


# === Data ===


@pytest.fixture
def corpus(tmp_path):
    """Three pairs of training files and one pair of dev files."""
    (tmp_path / "corpus").mkdir()
    for name in ("part-0", "part-1", "part-2", "dev"):
        for side in ("en", "de"):
            lines = (f"{side} {name} {number}" for number in range(40))
            (tmp_path / f"corpus/{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_filters(corpus):
    for number in range(3):
        (corpus / f"corpus/part-{number}.scores").write_text("0.4\n0.6\n" * 20)
    for side in ("en", "de"):
        (corpus / f"corpus/part-1.{side}").write_text((corpus / f"corpus/part-0.{side}").read_text())
    done = execute("bash", block("filters", page=PAGE), corpus)
    assert done.returncode == 0, done.stderr
    assert re.search(r"dropped \(20 duplicates, \d+ not taken by weight, 60 with a score below 0.5\)", done.stderr)


def test_duplicates_of_an_array_job(corpus):
    (corpus / "corpus/part-2.en").write_text((corpus / "corpus/part-0.en").read_text())
    (corpus / "corpus/part-2.de").write_text((corpus / "corpus/part-0.de").read_text())
    done = execute("bash", block("filter-tasks", page=PAGE), corpus)
    assert done.returncode == 0, done.stderr
    assert "the same array job again" in done.stderr
    assert "train: 80 examples written; 40 dropped (40 duplicates)" in done.stderr


def test_files_by_a_pattern_and_tasks_of_an_array_job_give_the_same(corpus):
    for name in ("patterns", "tasks"):
        done = execute("bash", block(name, page=PAGE), corpus)
        assert done.returncode == 0, done.stderr
    assert "train: 120 examples written" in done.stderr
    assert [path.name for path in (corpus / "shared").iterdir() if path.name != "tmp"] == ["text2text_files"]


def test_tasks_that_start_together_wait_for_one_plan(corpus):
    lines = [line for line in block("tasks", page=PAGE).splitlines() if line.startswith("t2t-datagen")]
    tasks = [line for line in lines if "--shard" in line]
    script = "\n".join(
        [*(f"{task} & tasks[{n}]=$!" for n, task in enumerate(tasks)), "wait ${tasks[0]}", "wait ${tasks[1]}"]
    )
    done = execute("bash", f"{script}\n{lines[-1]}\n{lines[-1]}", corpus)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is learnt from") == 1
    assert done.stderr.count("is there already: 120 train, 40 dev examples; nothing to do") == 1
    assert sorted(path.name for path in (corpus / "shared").iterdir()) == ["text2text_files"]


@pytest.mark.slow
def test_apache_beam_gives_the_same(corpus):
    for name in ("patterns", "beam"):
        done = execute("bash", block(name, page=PAGE), corpus)
        assert done.returncode == 0, done.stderr
    assert "counters of Apache Beam: 160 examples read, 160 examples written" in done.stderr


DATAGEN = """
import sys
from t2t.cli import datagen
from t2t.cli.common import parse

values = parse(datagen.build_flags(), ["t2t-datagen", *sys.argv[1:]], "")
print(values.problem, values.shard or "merge" * values.merge, values.train_source, file=open("started", "a"))
"""
"""A fake command that only records what it was asked to do."""


@pytest.fixture
def node(machine):
    (machine / "datagen.py").write_text(DATAGEN)
    program(machine, "t2t-datagen", f'{sys.executable} {machine}/datagen.py "$@"')
    return machine


def test_slurm_makes_the_shards_and_merges_them(node, monkeypatch):
    job = ["bash", "-c", block("datagen.sbatch", "write", PAGE)]
    for task in ("0", "99", ""):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        assert subprocess.run(job, check=False).returncode == 0
    parts = ("0/100", "99/100", "merge")
    assert started(node) == [f"text2text_files {part} corpus/part-*.en" for part in parts]


def test_kubernetes_makes_the_shards(node, monkeypatch):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(block("datagen.yaml", "write", PAGE))["spec"]
    assert (job["completionMode"], job["completions"]) == ("Indexed", 100)
    (container,) = job["template"]["spec"]["containers"]
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "99")
    assert subprocess.run(container["command"], check=False).returncode == 0
    assert started(node) == ["text2text_files 99/100 /mnt/t2t/corpus/part-*.en"]


# === Decoding ===


@pytest.mark.slow
def test_shards_as_shown(tmp_path):
    """Follows the page's first example, whose run decodes the shards."""
    (tmp_path / "a.en").write_text("one hundred and seven\ntwelve\n\nthree\n")
    done = execute("bash", shortened(block("workers", page=PAGE)) + block("shards", page=PAGE), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.de").read_text().count("\n") == 4
    by_one = (tmp_path / "a.de").read_bytes()
    (tmp_path / "a.de").unlink()
    done = execute("bash", block("beam-decode", page=PAGE), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.de").read_bytes() == by_one
    assert not list(tmp_path.glob("a.de.*"))


DECODER = """
import sys
from t2t.cli import decoder
from t2t.cli.common import parse

values = parse(decoder.build_flags(), ["t2t-decoder", *sys.argv[1:]], "")
print(values.output_dir, values.decode_to_file, values.shard or "merge" * values.merge, file=open("started", "a"))
"""
"""A fake decoder that only records what it was asked to do."""


@pytest.fixture
def decoding_machine(machine):
    """The folder of `machine` with a fake decoder."""
    (machine / "decoder.py").write_text(DECODER)
    program(machine, "t2t-decoder", f'exec {sys.executable} {machine}/decoder.py "$@"')
    return machine


def test_tasks_of_an_array_are_shards_and_a_job_without_tasks_merges(decoding_machine, monkeypatch):
    job = block("decode.sbatch", "write", PAGE)
    (last,) = re.findall(r"--array=0-(\d+)", job)
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "1")  # of an array that reruns one missing task
    for task in (last, ""):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        assert subprocess.run(["bash", "-c", job], check=False).returncode == 0
    assert started(decoding_machine) == [f"run a.de {last}/{int(last) + 1}", "run a.de merge"]


def test_indexes_of_a_job_are_shards(decoding_machine, monkeypatch):
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load(block("decode.yaml", "write", PAGE))["spec"]
    assert job["completionMode"] == "Indexed"
    monkeypatch.setenv("JOB_COMPLETION_INDEX", str(job["completions"] - 1))
    (container,) = job["template"]["spec"]["containers"]
    assert subprocess.run(container["command"], check=False).returncode == 0
    assert started(decoding_machine) == [f"/mnt/t2t/run /mnt/t2t/a.de {job['completions'] - 1}/{job['completions']}"]


@pytest.mark.exhaustive
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
    done = execute("bash", shortened(block("back-translation", page=PAGE)), tmp_path)
    assert done.returncode == 0, done.stderr
    tagged = (tmp_path / "raw/back.train.nl").read_text().split("\n")
    assert len(tagged) == 32, "a line for each line, and no more"
    assert tagged[0] == ""
    assert all(line.startswith("<bt> ") for line in tagged[1:31] if line)
    record = json.loads((tmp_path / "both/run.json").read_text())
    assert record["problem"] == "my_news-my_news_back"
    done = execute("bash", block("back-translation-one", page=PAGE), tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "all.sv").read_text() == "".join(swedish) + (tmp_path / "raw/back.train.sv").read_text()
