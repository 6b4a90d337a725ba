"""The client process for object stores: answers, an error when it hangs, and its end with the parent process."""

import os
import signal
import subprocess
import sys

import pytest

from t2t.errors import MachineError
from t2t.files.remote import client
from tests.waiting import is_alive, wait_until


@pytest.fixture
def agent():
    started = client.Agent()
    yield started
    started.close()


def test_it_answers(agent, tmp_path):
    (tmp_path / "x").write_text("one")
    (entry,) = agent.ask({"op": "put", "args": [[[str(tmp_path / "x"), "memory://b/x"]]]})["result"]
    assert entry["size"] == 3
    agent.ask({"op": "get", "args": [[["memory://b/x", str(tmp_path / "y")]]]})
    assert (tmp_path / "y").read_text() == "one"
    assert list(agent.ask({"op": "find", "args": ["memory://b"]})["result"]) == ["x"]


def test_an_answer_that_nobody_waited_for_is_passed_over(agent):
    agent._process.stdin.write(b'{"op": "find", "args": ["memory://b"], "number": -1}\n')
    assert agent.ask({"op": "info", "args": [["memory://b/x"]]})["result"] == [None]


def test_failures_are_answers(agent):
    answer = agent.ask({"op": "find", "args": ["nothing://b"]})
    assert answer["error"] == "failed"
    assert "nothing" in answer["text"]


def test_it_leaves_signals_to_its_own(agent):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        agent.ask({"op": "info", "args": [["memory://b/x"]]})
        os.kill(agent._process.pid, number)
    assert agent.ask({"op": "info", "args": [["memory://b/x"]]})["result"] == [None]


def test_one_that_hangs_is_left(monkeypatch):
    agent = client.Agent()
    agent.ask({"op": "info", "args": [["memory://b/x"]]})
    monkeypatch.setattr(client, "SILENT_S", 0.2)
    os.kill(agent._process.pid, signal.SIGSTOP)
    with pytest.raises(
        MachineError, match=r"^the object store has not answered for 0\.2 s; see that it can be reached"
    ):
        agent.ask({"op": "info", "args": [["memory://b/x"]]})
    assert agent._process.returncode == -signal.SIGKILL
    agent.close()


def test_one_that_has_ended_is_said_to_have():
    agent = client.Agent()
    agent.kill()
    with pytest.raises(
        MachineError, match=r"^the process that talks to object stores has ended; run the command again"
    ):
        agent.ask({"op": "info", "args": [["memory://b/x"]]})
    agent.close()


def test_it_ends_with_a_process_that_is_killed(tmp_path):
    code = (
        "import os, signal\n"
        "from t2t.files.remote import client\n"
        "client.request('info', ['memory://b/x'])\n"
        "print(client._agent._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: not is_alive(int(done.stdout)), "its end")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # pytest has threads
def test_a_forked_process_has_one_of_its_own(monkeypatch):
    monkeypatch.setattr(client, "_agent", client.Agent())
    own = client._agent
    assert client.request("info", ["memory://b/x"]) == [None]
    child = os.fork()
    if not child:
        os._exit(0 if client._agent is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.request("info", ["memory://b/x"]) == [None]
    own.close()
