"""`python -m tests.commands.server ADDRESS`: imports everything, runs nothing, and forks a process for each client.

It ends when its standard input does. It has one thread, as a forked process lacks all others: TensorFlow starts its
threads with the first operation, and the one of OpenBLAS is not started here.
"""

import array
import contextlib
import functools
import gc
import importlib
import json
import os
import random
import resource
import runpy
import selectors
import signal
import socket
import sys
import time
import types
from typing import Any

MODULES = (
    "t2t.cli.decoder", "t2t.cli.trainer", "t2t.cli.eval", "t2t.cli.exporter", "t2t.inference.files.decoding",
    "t2t.inference.model_engine", "t2t.models.transformer", "t2t.runs.loading", "t2t.runs.describing",
    "t2t.runs.loading", "t2t.runs.training",
)  # fmt: skip
"""What most commands import."""


def main(address: str) -> None:
    """Serves until standard input ends; in a forked process, runs what a client asked for."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from t2t.runs.startup import prepare_framework

    prepare_framework()
    for module in MODULES:
        importlib.import_module(module)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads} threads: processes that are forked now would lack all but one"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(address)
        listening.listen()
        gc.collect()
        gc.freeze()  # processes would copy the pages of all objects, only to find that none is garbage
        os.write(1, b"!")
        request = Server(listening).serve()
    if request is None:
        os._exit(0)
    run(request)


def run(request: dict[str, Any]) -> None:
    """Becomes the process that a client asked for."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for name, limits in request["limits"]:
        resource.setrlimit(getattr(resource, name), tuple(limits))
    time.tzset()
    random.seed()
    sys.modules["numpy"].random.seed()
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", *sys.path)]
    _run_python(*request["arguments"])


def _run_python(kind: str, *rest: str) -> None:
    """Does what `python` does with these arguments: a path, `-` for standard input, `-c` or `-m`."""
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-m":
        sys.argv = list(rest)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    name, folder = {"-": ("<stdin>", ""), "-c": ("<string>", "")}.get(kind, (kind, os.path.dirname(kind)))
    text = sys.stdin.read() if kind == "-" else rest[0] if kind == "-c" else _read(kind)
    sys.argv = [kind, *rest[kind == "-c" :]]
    sys.path.insert(0, folder)
    program.__dict__.update(__file__=name, __builtins__=__builtins__)
    exec(compile(text, name, "exec"), program.__dict__)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class Server:
    """Forks a process for each client, and tells the client how it ended.

    Args:
        listening: where clients connect.
    """

    def __init__(self, listening: socket.socket):
        self._listening = listening
        self._processes: dict[int, tuple[int, socket.socket]] = {}  # pid and client by pidfd
        self._events = selectors.DefaultSelector()
        self._events.register(0, selectors.EVENT_READ, self._end)
        self._events.register(listening, selectors.EVENT_READ, self._start)

    def serve(self) -> dict[str, Any] | None:
        """Returns the request in each process that is forked; None in this one, when standard input ends."""
        while True:
            for key, _ in self._events.select():
                if key.data == self._end:
                    return self._end()
                if (request := key.data()) is not None:
                    return request

    def _start(self) -> dict[str, Any] | None:
        client, _ = self._listening.accept()
        request, files = _receive(client)
        pid = os.fork()
        if pid == 0:
            _take(files)
            client.close()
            self._events.close()
            return request
        for file in files:
            os.close(file)
        process = os.pidfd_open(pid)
        self._processes[process] = pid, client
        self._events.register(process, selectors.EVENT_READ, functools.partial(self._ended, process))
        self._events.register(client, selectors.EVENT_READ, functools.partial(self._left, process))
        _send(client, pid)
        return None

    def _ended(self, process: int) -> None:
        pid, client = self._processes.pop(process)
        self._events.unregister(process)
        self._events.unregister(client)
        os.close(process)
        _send(client, os.waitpid(pid, 0)[1])
        client.close()

    def _left(self, process: int) -> None:
        """Kills the process of a client that has been killed."""
        if process in self._processes:
            os.kill(self._processes[process][0], signal.SIGKILL)

    def _end(self) -> None:
        for pid, _ in self._processes.values():
            os.kill(pid, signal.SIGKILL)


def _send(client: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the client may have been killed
        client.sendall(number.to_bytes(4, "big"))


def _receive(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns what a client asks for, and its standard input and outputs."""
    files = array.array("i")
    size, ancillary, _, _ = client.recvmsg(4, socket.CMSG_SPACE(3 * files.itemsize))
    for _, _, data in ancillary:
        files.frombytes(data)
    wanted = int.from_bytes(size, "big")
    return json.loads(client.recv(wanted, socket.MSG_WAITALL)), list(files)


def _take(files: list[int]) -> None:
    """Makes a client's files this process's own, and its signals those of a new process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.setpgid(0, 0)  # signals to a client's group reach the client, which forwards them
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells ignore in background jobs


if __name__ == "__main__":
    main(sys.argv[1])
