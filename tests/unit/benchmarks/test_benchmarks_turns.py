"""Programs measured in turns: their order, failures, and turns disturbed by other processes."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.harness import child
from benchmarks.harness.processes import Conditions, Side, SideError
from benchmarks.harness.turns import take_turns
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


def test_a_peer_that_fails_takes_part_no_more(side, tmp_path):
    taken = take_turns([side("a"), side("b", fails=True)], {}, 2, tmp_path / "jobs", ONE_THREAD)
    assert calls(tmp_path) == ["a", "b", "a"]
    assert taken[1].figures == []
    assert taken[1].failure.startswith("b ended with status 1: it has no such wheel")


def test_our_own_failure_ends_it(side, tmp_path):
    with refused("a", 1, by=SideError):
        take_turns([side("a", fails=True), side("b")], {}, 2, tmp_path / "jobs", ONE_THREAD)


def test_disturbed_turns_are_taken_anew_and_the_quietest_counts(side, tmp_path):
    noisy = side("a", others=[0.9, 0.3, 0.5, 0.0])
    again = Conditions(threads=1, timeout=600, again=2)
    taken = take_turns([noisy], {}, 2, tmp_path / "jobs", again)
    assert [(figures["number"], figures["others"]) for figures in taken[0].figures] == [(2, 0.3), (4, 0.0)]


def test_time_limit(side, tmp_path):
    with refused("a", by=SideError):
        take_turns([side("a")], {}, 1, tmp_path / "jobs", Conditions(threads=1, timeout=0.001))


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
