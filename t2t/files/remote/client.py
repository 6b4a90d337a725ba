"""Client of the agent, the process that talks to object stores; turns its failures into errors for the user."""

import atexit
import contextlib
import itertools
import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from typing import Any

from t2t.errors import MachineError
from t2t.files.remote.failures import to_error

RENEW_S = 10.0
"""Seconds between renewals of an owner."""
TAKEOVER_S = 60.0
"""Seconds without a renewal after which another process takes over."""
SILENT_S = 180.0
"""Seconds without a sign of life after which a store counts as hanging."""

log = logging.getLogger("t2t")


class Agent:
    """The agent process. It handles one request at a time; threads wait for each other."""

    def __init__(self, silent_s: float = SILENT_S) -> None:
        self._silent_s = silent_s
        command = [sys.executable, "-m", "t2t.files.remote.agent", str(RENEW_S), str(TAKEOVER_S)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C reaches only this process
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        )
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._unread = b""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the answer to a request.

        Raises:
            MachineError: the process has ended, or gave no sign of life for `silent_s`.
        """
        assert self._process.stdin is not None
        with self._lock:
            number = next(self._numbers)
            try:
                self._process.stdin.write(json.dumps({**request, "number": number}).encode() + b"\n")
                self._process.stdin.flush()
                while True:
                    message: dict[str, Any] = json.loads(self._line())
                    if "note" in message:
                        log.info("%s", message["note"])
                    elif message.pop("number", None) == number:  # an earlier one may have been interrupted
                        return message
            except (BrokenPipeError, EOFError) as error:
                raise MachineError(
                    "the process that talks to object stores has ended", "run the command again"
                ) from error

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        file, until = self._process.stdout.fileno(), time.monotonic() + self._silent_s
        while b"\n" not in self._unread:
            if not select.select([file], [], [], max(0.0, until - time.monotonic()))[0]:
                self.kill()
                raise MachineError(
                    f"the object store has not answered for {self._silent_s:g} s",
                    "see that it can be reached and run the same command again",
                )
            if not (read := os.read(file, 1 << 16)):
                raise EOFError
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def close(self) -> None:
        """Ends the process, which then releases the folders that it owns."""
        self.disown()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()
        self._process.wait()

    def disown(self) -> None:
        """Closes this side of the pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


_agent: Agent | None = None


def request(op: str, *args: Any) -> Any:
    """Returns the result of a method of `t2t.files.remote.store.Store` or `t2t.files.remote.agent.Owners`.

    Raises:
        UserError: there is no such bucket, or a package is not installed.
        MachineError: no credentials, no permission, no answer, or another process has taken over.
        OSError: a file of this machine cannot be read or written.
    """
    answer = _send({"op": op, "args": args})
    if "error" in answer:
        raise to_error(answer.pop("error"), **answer)
    return answer["result"]


def _send(message: dict[str, Any]) -> dict[str, Any]:
    global _agent
    if _agent is None:
        _agent = Agent()
    try:
        return _agent.ask(message)
    except MachineError:
        _agent = None
        raise


def _close() -> None:
    global _agent
    if _agent is not None:
        _agent.close()
        _agent = None


def _forget() -> None:
    """Lets go of the parent's agent in a forked process, which starts its own agent when it needs one."""
    global _agent
    if _agent is not None:
        _agent.disown()
        _agent._process.returncode = 0  # it is not a child of this process
        _agent = None


atexit.register(_close)
os.register_at_fork(after_in_child=_forget)
