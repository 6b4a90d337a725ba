"""`t2t-insight` and the pages of a run in training: examples that it has no use for, plots of runs, their end."""

import http.client
import json
import logging
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from t2t.checkpoints.run_dir import lock_run
from t2t.cli import insight
from t2t.cli.studio import ShowStudio
from t2t.data.generation.generate import generate
from t2t.registry import PROBLEMS
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from tests.errors import refused
from tests.in_process import call, check_refused, refuses
from tests.letters import Letters, Moods
from tests.many_runs import create_run, write_run
from tests.readme import ROOT
from tests.registrations import registered
from tests.waiting import LIMIT_S, wait_until


class Said(Letters):
    """Letters to letters of no language."""

    name, vocabulary, target = "said", ("a", "b"), "b a"

    def generate_samples(self, split, source):
        yield {"inputs": "a b", "targets": self.target}


class Judged(Moods):
    """Letters to classes."""

    name, vocabulary, target = "judged", ("a", "b"), "good"
    generate_samples = Said.generate_samples


@pytest.mark.parametrize(
    ("kind", "language", "about"),
    [(Said, "de", ["--target_language=de:", "said"]), (Judged, "", ["judged:"])],
)
def test_examples_in_another_language_or_of_no_text(kind, language, about, tmp_path):
    values, folder = insight.build_flags(), tmp_path / "data"
    values(["t2t-insight", f"--data_dir={folder}", f"--target_language={language}"])
    generate(kind(), folder, tmp_path, seed=1, workers=1)
    with registered(PROBLEMS, kind.name, kind):
        problem = open_data(RunConfig(problem=kind.name, data_dir=str(folder)), kind()).problem
        run = create_run(tmp_path / "run", kind.name, problem.spec(), problem.encoders)
        with refused(*about):
            insight._examples(values, run, "dev", 2)


# === `t2t-insight --plot` of folders in which not every run can be drawn ===
@pytest.fixture
def folder(tmp_path):
    """Three runs: one with figures, one without, one with a damaged record."""
    write_run(tmp_path / "drawn", 3)
    write_run(tmp_path / "young", 0)
    damaged = write_run(tmp_path / "damaged", 3)
    (damaged.path / "run.json").write_text("{")
    return tmp_path


def test_runs_without_curves_are_left_out_with_a_warning_but_one_must_have_some(folder):
    damaged, young = call(insight, folder, plot=folder / "x.png").err.splitlines()
    assert damaged.startswith(f"warning: damaged is not drawn: {folder}/damaged/run.json ")
    assert young.startswith(f"warning: young is not drawn: {folder}/young ")
    assert (folder / "x.png").read_bytes()[1:4] == b"PNG"
    (folder / "drawn/metrics.jsonl").write_text("")
    refuses(insight, f"--plot={folder}/y.png:", folder, plot=folder / "y.png")
    assert not (folder / "y.png").exists()


@pytest.mark.parametrize(("name", "file"), [("young", "metrics.jsonl"), ("damaged", "run.json")])
@pytest.mark.parametrize("flag", ["", "--output_dir="])
def test_a_run_that_is_named_is_drawn_or_refused(folder, name, file, flag):
    named = [folder / "drawn", f"{flag}{folder / name}", f"--plot={folder}/x.png"]
    check_refused(insight, *named, about=f"{folder / name} {file}")
    assert not (folder / "x.png").exists()


# === `t2t-trainer --studio`: the pages of a run in training end with it and do not affect it ===
@pytest.fixture
def run(tmp_path):
    (tmp_path / "data").mkdir()
    return write_run(tmp_path / "run", 3, steps=1000)


# A server that has ended refuses a connection; one that ends now resets it, or cuts its answer short.
NOT_SERVED = (urllib.error.URLError, ConnectionError, TimeoutError, http.client.HTTPException)


def address_in(texts):
    return next((found[1] for text in texts if (found := re.search(r"studio at (http://127\.0\.0\.1:\d+)", text))), "")


def ask(address):
    with urllib.request.urlopen(f"{address}/insight/runs", timeout=LIMIT_S) as answer:
        return json.load(answer)["runs"]


def test_a_run_is_served_while_it_trains(run, tmp_path, caplog):
    show = ShowStudio(run.path, tmp_path / "data")
    with caplog.at_level(logging.INFO, "t2t"), lock_run(run.path):
        show.on_train_begin()
        wait_until(lambda: address_in(record.message for record in caplog.records), "the address is said")
        address = address_in(record.message for record in caplog.records)
        (row,) = ask(address)
        show.on_train_end()
    assert (row["run"], row["state"], row["step"]) == ("run", "training", 30)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    with pytest.raises(NOT_SERVED):
        ask(address)


def test_a_studio_that_cannot_begin_is_a_warning(run, tmp_path, caplog):
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho Traceback >&2\necho "ImportError: $PYTHONPATH" >&2\n')
    fake.chmod(0o755)
    show = ShowStudio(tmp_path / "nowhere", tmp_path / "data")
    with caplog.at_level(logging.INFO, "t2t"):
        show.on_train_begin()
        wait_until(lambda: caplog.records, "the reason is said")
        show.on_train_end()
        show = ShowStudio(run.path, tmp_path / "data", python=str(tmp_path / "no_python"))
        show.on_train_begin()
        show.on_train_end()
        show = ShowStudio(run.path, tmp_path / "data", python=str(fake))
        show.on_train_begin()
        wait_until(lambda: caplog.records[2:], "the reason is said")
        show.on_train_end()
    first, second, third = [record.message for record in caplog.records]
    assert first.startswith("t2t-insight: error: ")
    assert "nowhere" in first
    assert "no_python" in second
    assert third.startswith(f"ImportError: {ROOT}")


KILLED = """
import os, signal, sys, time
from t2t.cli.common import logging_to_stderr
from t2t.cli.studio import ShowStudio

with logging_to_stderr():
    ShowStudio(sys.argv[1], sys.argv[2]).on_train_begin()
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_it_ends_with_a_training_that_is_killed(run, tmp_path):
    command = [sys.executable, "-c", KILLED, str(run.path), str(tmp_path / "data")]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    with subprocess.Popen(command, **pipes) as trainer:
        address = address_in(iter(trainer.stderr.readline, ""))
        assert len(ask(address)) == 1
        trainer.stdin.write("\n")
        trainer.stdin.flush()
        trainer.wait()

    def is_gone():
        try:
            ask(address)
        except NOT_SERVED:
            return True
        return False

    wait_until(is_gone, "the pages are gone")
