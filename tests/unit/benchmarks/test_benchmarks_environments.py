"""Virtual environments of peers: built once, never left half-built, and a reason if they cannot be built."""

import json

import pytest

from benchmarks.harness.environments import Environment, UnavailableError, find_python, interpreter_of
from benchmarks.harness.processes import ROOT
from benchmarks.peers import DATAGEN, DECODING, ENVIRONMENTS, TRAINING
from tests.errors import refused

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
