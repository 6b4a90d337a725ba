"""Commands that start warm are processes like any other; every command also starts as users start it."""

import os
import signal
import subprocess
import sys

import pytest

from tests.commands import ROOT, python, warm
from tests.waiting import LIMIT_S

imports_tensorflow = pytest.mark.slow
REPORT = """
import json, os, resource, signal, sys
mask = os.umask(0)
files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
interrupted = signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(json.dumps([sys.argv, os.getcwd(), os.environ["FRUIT"], mask, files, sys.stdin.read(), interrupted, __name__]))
sys.exit(3)
"""


@imports_tensorflow
@pytest.mark.parametrize("start", [lambda *words: [sys.executable, *words], python], ids=["cold", "warm"])
def test_a_process_is_what_its_caller_makes_it(start, tmp_path):
    words = [*start("-c", REPORT), "--a=b", "c d"]
    shell = ["bash", "-c", 'umask 027; ulimit -n 100; exec "$@"', "bash", *words]
    done = subprocess.run(
        shell, cwd=tmp_path, env={**os.environ, "FRUIT": "fig"}, input="text", capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert done.stderr == ""
    assert done.stdout == f'[["-c", "--a=b", "c d"], "{tmp_path}", "fig", {0o027}, 100, "text", true, "__main__"]\n'
    (tmp_path / "sitecustomize.py").write_text("print('Python starts', flush=True)")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(start("-c", "print('here')"), env=environment, capture_output=True, text=True)
    assert done.stdout == "Python starts\nhere\n", done.stderr


@imports_tensorflow
def test_a_warm_process_ends_with_its_client_and_the_client_as_it_ends():
    waiting = python("-c", "import time; print('here', flush=True); time.sleep(1000)")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen(waiting, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout.readline() == "here\n"
            process.send_signal(number)
            assert process.stdout.read() == "", "the pipe closes as soon as both have ended"
            assert process.wait(LIMIT_S) == -number
    for number in (signal.SIGTERM, signal.SIGKILL):
        itself = python("-c", f"import os; os.kill(os.getpid(), {int(number)})")
        assert subprocess.run(itself, check=False).returncode == -number


@imports_tensorflow
def test_a_command_that_starts_warm_says_what_a_cold_one_says(tmp_path):
    stand_ins, environment = warm()
    said = []
    for command in ([sys.executable, ROOT / "bin/t2t-decoder"], [stand_ins / "t2t-decoder"]):
        done = subprocess.run(
            [*command, f"--output_dir={tmp_path}"], env=environment, capture_output=True, text=True, cwd=tmp_path
        )
        said.append((done.returncode, done.stdout, done.stderr))
    assert said[0] == said[1]
    assert said[0][0] == 2


@pytest.mark.parametrize("command", sorted(path.name for path in (ROOT / "bin").iterdir()))
def test_every_command_starts(command, tmp_path):
    done = subprocess.run([ROOT / "bin" / command, "--help"], capture_output=True, text=True, cwd=tmp_path, env={
        "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)
    })  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "\n  --" in done.stdout, "the flags are listed"
