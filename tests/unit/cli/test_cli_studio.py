"""`t2t-trainer --studio`: the pages of a run in training end with it and do not affect it."""

import json
import logging
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from t2t.checkpoints.run_dir import lock_run
from t2t.cli.studio import ShowStudio
from tests.many_runs import write_run
from tests.readme import ROOT
from tests.waiting import wait_until


@pytest.fixture
def run(tmp_path):
    (tmp_path / "data").mkdir()
    return write_run(tmp_path / "run", 3, steps=1000)


def address_in(texts):
    return next((found[1] for text in texts if (found := re.search(r"studio at (http://127\.0\.0\.1:\d+)", text))), "")


def ask(address):
    with urllib.request.urlopen(f"{address}/insight/runs") as answer:
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
    with pytest.raises(urllib.error.URLError):
        ask(address)


def test_a_studio_that_cannot_begin_is_a_warning(run, tmp_path, caplog):
    show = ShowStudio(tmp_path / "nowhere", tmp_path / "data")
    with caplog.at_level(logging.INFO, "t2t"):
        show.on_train_begin()
        wait_until(lambda: caplog.records, "the reason is said")
        show.on_train_end()
        show = ShowStudio(run.path, tmp_path / "data", python=str(tmp_path / "no_python"))
        show.on_train_begin()
        show.on_train_end()
    first, second = [record.message for record in caplog.records]
    assert first.startswith("t2t-insight: error: ")
    assert "nowhere" in first
    assert "no_python" in second


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
        except urllib.error.URLError:
            return True
        return False

    wait_until(is_gone, "the pages are gone")
