"""Programs measured in turns, in environments of their own."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.harness import child
from benchmarks.harness.environments import Environment, UnavailableError, find_python, interpreter_of
from benchmarks.harness.processes import ROOT, Conditions, Side, SideError
from benchmarks.harness.turns import take_turns
from benchmarks.peers import DATAGEN, DECODING, ENVIRONMENTS, TRAINING
from tests.errors import refused

DRIVER = """
import json, os, sys
from benchmarks.harness.child import read_job, write_result
job = read_job()
with open(job["log"], "a") as file:
    file.write(job["name"] + "\\n")
if job.get("fails"):
    sys.exit("it has no such wheel")
count = sum(line.strip() == job["name"] for line in open(job["log"]))
write_result(job, number=count, others=job["others"][count - 1] if "others" in job else 0.0,
             threads=[job["threads"], os.environ["OMP_NUM_THREADS"], len(os.sched_getaffinity(0))])
"""
ONE_THREAD = Conditions(threads=1, timeout=600)


@pytest.fixture
def side(tmp_path, monkeypatch):
    (tmp_path / "fake_driver.py").write_text(DRIVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    log = str(tmp_path / "calls")
    return lambda name, **options: Side(
        name, Path(sys.executable), "fake_driver", {"name": name, "log": log, **options}
    )


def calls(tmp_path):
    return (tmp_path / "calls").read_text().split()


def test_order_and_threads(side, tmp_path):
    taken = take_turns([side("a"), side("b")], {}, 2, tmp_path / "jobs", ONE_THREAD)
    assert calls(tmp_path) == ["a", "b", "a", "b"]
    assert [[figures["number"] for figures in one.figures] for one in taken] == [[1, 2], [1, 2]]
    assert taken[1].figures[0]["threads"] == [1, "1", 1]
    assert taken[0].figures[0]["peak_memory_mb"] > 1


def test_a_peer_that_fails_takes_part_no_more_and_time_is_limited(side, tmp_path):
    taken = take_turns([side("a"), side("b", fails=True)], {}, 2, tmp_path / "jobs", ONE_THREAD)
    assert calls(tmp_path) == ["a", "b", "a"]
    assert taken[1].figures == []
    assert taken[1].failure.startswith("b ended with status 1: it has no such wheel")
    with refused("a", by=SideError):
        take_turns([side("a")], {}, 1, tmp_path / "jobs", Conditions(threads=1, timeout=0.001))


def test_our_own_failure_ends_it(side, tmp_path):
    with refused("a", 1, by=SideError):
        take_turns([side("a", fails=True), side("b")], {}, 2, tmp_path / "jobs", ONE_THREAD)


def test_disturbed_turns_are_taken_anew_and_the_quietest_counts(side, tmp_path):
    noisy = side("a", others=[0.9, 0.3, 0.5, 0.0])
    again = Conditions(threads=1, timeout=600, again=2)
    taken = take_turns([noisy], {}, 2, tmp_path / "jobs", again)
    assert [(figures["number"], figures["others"]) for figures in taken[0].figures] == [(2, 0.3), (4, 0.0)]


def test_clock_leaves_out_the_first_updates():
    """Updates end at 1, 10, 15 and 16 s, two of them warm-up."""
    ends = iter([1.0, 10.0, 15.0, 16.0])
    clock = child.Clock({"warm": 2, "steps": 2}, now=lambda: next(ends), age=lambda: 7.0)
    done = []
    while not clock.done:
        clock.tick()
        done.append(clock.done)
    assert done == [False, False, False, True]
    figures = clock.figures()
    assert figures["seconds_to_first_update"] == 7.0
    assert figures["update_seconds"] == [5.0, 1.0]


def test_results_are_whole(tmp_path):
    job = {"result": str(tmp_path / "result.json")}
    child.write_result(job, a=1, peak_memory_mb=3.0)
    assert json.loads((tmp_path / "result.json").read_text()) == {"a": 1, "peak_memory_mb": 3.0}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


# === Virtual environments of peers: built once, never left half-built, and a reason if they cannot be built ===
PEER = Environment("peer", ("3.11",), (("one==1",), ("--no-deps", "two==2")))
MAKES = """#!/bin/sh
echo "$@" >> {calls}
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""
FAILS = """#!/bin/sh
if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit 0; fi
echo "noise" >&2
echo "ERROR: No matching distribution found for one==1" >&2
exit 1
"""


@pytest.fixture
def interpreter_by(tmp_path):
    """Returns a function that builds the environment with a script in place of the interpreter."""

    def build(text):
        script = tmp_path / "python"
        script.write_text(text.format(calls=tmp_path / "calls"))
        script.chmod(0o755)
        return interpreter_of(PEER, tmp_path, lambda versions: script)

    return build


def test_is_made_once(interpreter_by, tmp_path):
    made = interpreter_by(MAKES)
    assert made == tmp_path / "environments" / f"peer-{PEER.digest}" / "bin" / "python"
    assert interpreter_by(MAKES) == made
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"-m venv {made.parents[1]}",
        "-m pip install --quiet one==1",
        "-m pip install --quiet --no-deps two==2",
    ]
    assert json.loads((made.parents[1] / "ready.json").read_text())["packages"] == [["one==1"], ["--no-deps", "two==2"]]
    changed = Environment("peer", ("3.11",), (("one==2",), ("--no-deps", "two==2")))
    assert changed.folder(tmp_path) != PEER.folder(tmp_path), "other pins are another environment"


def test_failure_names_the_reason_and_is_tried_again(interpreter_by):
    with refused("peer", "one==1", by=UnavailableError):
        interpreter_by(FAILS)
    assert interpreter_by(MAKES).is_file()


def test_interpreters_that_are_not_there_or_do_not_run_are_passed_over(monkeypatch, tmp_path):
    shim = tmp_path / "python3.1"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with refused("3.1", "3.2", "PATH", by=UnavailableError):
        find_python(("3.1", "3.2"))


@pytest.mark.parametrize("peers", [TRAINING, DECODING, DATAGEN])
def test_every_peer_has_a_driver_and_pins(peers):
    for peer in peers.values():
        assert (ROOT / "benchmarks" / "peers" / f"{peer.module}.py").is_file()
        if peer.environment:
            packages = [name for command in ENVIRONMENTS[peer.environment].packages for name in command]
            assert any("==" in name for name in packages)
