"""The client process for object stores: answers, an error when it hangs, and its end with the parent process."""

import os
import signal
import subprocess
import sys

import pytest

from t2t.errors import MachineError
from t2t.files.remote import client
from tests.errors import refused
from tests.waiting import is_alive, wait_until

ABSENT = {"op": "info", "args": [["memory://b/absent"]]}


@pytest.fixture(scope="module")
def agent():
    started = client.Agent()
    yield started
    started.close()


def test_it_answers_also_with_failures(agent, tmp_path):
    (tmp_path / "x").write_text("one")
    (entry,) = agent.ask({"op": "put", "args": [[[str(tmp_path / "x"), "memory://b/x"]]]})["result"]
    assert entry["size"] == 3
    agent.ask({"op": "get", "args": [[["memory://b/x", str(tmp_path / "y")]]]})
    assert (tmp_path / "y").read_text() == "one"
    assert list(agent.ask({"op": "find", "args": ["memory://b"]})["result"]) == ["x"]
    answer = agent.ask({"op": "find", "args": ["nothing://b"]})
    assert answer["error"] == "failed"
    assert "nothing" in answer["text"]


def test_it_leaves_signals_to_its_own_and_passes_over_an_answer_that_nobody_waited_for(agent):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        agent.ask(ABSENT)
        os.kill(agent._process.pid, number)
    assert agent.ask(ABSENT)["result"] == [None]
    agent._process.stdin.write(b'{"op": "find", "args": ["memory://b"], "number": -1}\n')
    assert agent.ask(ABSENT)["result"] == [None]


def test_one_that_hangs_is_left_and_one_that_has_ended_is_said_to_have():
    agent = client.Agent(silent_s=0.01)
    os.kill(agent._process.pid, signal.SIGSTOP)
    with refused("0.01", by=MachineError):
        agent.ask(ABSENT)
    assert agent._process.returncode == -signal.SIGKILL
    with refused(by=MachineError):
        agent.ask(ABSENT)
    agent.close()


OWNER = """
import os, signal
from t2t.files.remote import client
assert client.request("info", ["memory://b/x"]) == [None]
child = os.fork()
if not child:
    os._exit(0 if client._agent is None else 1)
assert os.waitpid(child, 0)[1] == 0
assert client.request("info", ["memory://b/x"]) == [None]
print(client._agent._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_not_a_forked_process_s_and_ends_with_its_own_that_is_killed():
    done = subprocess.run([sys.executable, "-c", OWNER], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until(lambda: not is_alive(int(done.stdout)), "its end")
