"""Virtual environments of peers: built once, never left half-built, and a reason if they cannot be built."""

import json
import os

import pytest

from benchmarks.harness import environments
from benchmarks.harness.environments import Environment, UnavailableError, find_python, interpreter_of
from benchmarks.harness.processes import ROOT
from benchmarks.peers import DATAGEN, DECODING, ENVIRONMENTS, TRAINING

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
def python(tmp_path, monkeypatch):
    """Replaces the interpreter that builds environments by a script."""

    def put(text):
        script = tmp_path / "python"
        script.write_text(text.format(calls=tmp_path / "calls"))
        script.chmod(0o755)
        monkeypatch.setattr(environments, "find_python", lambda versions: script)

    return put


def test_is_made_once(python, tmp_path):
    python(MAKES)
    made = interpreter_of(PEER, tmp_path)
    assert made == tmp_path / "environments" / f"peer-{PEER.digest}" / "bin" / "python"
    assert interpreter_of(PEER, tmp_path) == made
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"-m venv {made.parents[1]}",
        "-m pip install --quiet one==1",
        "-m pip install --quiet --no-deps two==2",
    ]
    assert json.loads((made.parents[1] / "ready.json").read_text())["packages"] == [["one==1"], ["--no-deps", "two==2"]]


def test_other_pins_are_another_environment(tmp_path):
    changed = Environment("peer", ("3.11",), (("one==2",), ("--no-deps", "two==2")))
    assert changed.folder(tmp_path) != PEER.folder(tmp_path)


def test_failure_names_the_reason_and_is_tried_again(python, tmp_path):
    python(FAILS)
    with pytest.raises(UnavailableError, match=r"^installing peer failed: ERROR: No matching distribution .* one==1$"):
        interpreter_of(PEER, tmp_path)
    python(MAKES)
    assert interpreter_of(PEER, tmp_path).is_file()


def test_no_interpreter(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"^no Python 3.1 or 3.2 on PATH or in pyenv's folder; install one$"):
        find_python(("3.1", "3.2"))


def test_names_on_path_that_do_not_run_are_passed_over(monkeypatch, tmp_path):
    shim = tmp_path / "python3.1"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(UnavailableError):
        find_python(("3.1",))


@pytest.mark.parametrize("peers", [TRAINING, DECODING, DATAGEN])
def test_every_peer_has_a_driver_and_pins(peers):
    for peer in peers.values():
        assert (ROOT / "benchmarks" / "peers" / f"{peer.module}.py").is_file()
        if peer.environment:
            packages = [name for command in ENVIRONMENTS[peer.environment].packages for name in command]
            assert any("==" in name for name in packages)
