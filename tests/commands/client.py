"""`client.py NAME ARGUMENTS...`: runs `python` or a command in a process that a server forks.

It starts in a few milliseconds, since it imports little. Where it has no server, or one whose imports have seen other
environment variables, it starts a real one instead.
"""

import array
import json
import os
import resource
import signal
import socket
import sys

SERVER = "T2T_TESTS_COMMANDS"
"""Environment variable with the address of a server, and the variables that its imports have seen, as JSON."""
IMPORT_VARIABLES = (
    "TF_CPP_", "TF_ENABLE_", "TF_XLA_", "KERAS_", "XLA_", "JAX_", "OMP_", "PYTHON", "LD_", "LC_", "CUDA_",
)  # fmt: skip
"""Beginnings of the names of environment variables that imports read, so that each of their values needs a server."""
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
LIMITS = ("RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_CPU", "RLIMIT_NPROC", "RLIMIT_CORE")


def seen_by_imports(environment: dict[str, str]) -> dict[str, str]:
    """Returns the variables of an environment that imports read."""
    found = {name: value for name, value in environment.items() if name.startswith(IMPORT_VARIABLES)}
    found.pop("PYTHONPATH", None)  # which the server adds to that of the process
    return found


def main() -> None:
    """Runs the command of this process's arguments; ends as it ends."""
    root, name, arguments = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), *_command()
    if name != "python":
        arguments = [os.path.join(root, "bin", name), *arguments]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    address, seen = json.loads(os.environ.get(SERVER, '["", {}]'))
    try:
        if seen != seen_by_imports(dict(os.environ)) or _has_site_code():
            raise OSError("another environment")
        server.connect(address)
    except OSError:
        os.execv(sys.executable, [sys.executable, *arguments])
    _forward(status := _Status(server))
    request = {
        "arguments": arguments,
        "environment": {one: value for one, value in os.environ.items() if one != SERVER},
        "folder": os.getcwd(),
        "umask": _umask(),
        "limits": [(one, resource.getrlimit(getattr(resource, one))) for one in LIMITS],
    }
    text = json.dumps(request).encode()
    files = array.array("i", [0, 1, 2])
    server.sendmsg([len(text).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    server.sendall(text)
    status.wait()


def _has_site_code() -> bool:
    """Returns whether Python runs code of a folder of PYTHONPATH when it starts."""
    return any(os.path.isfile(f"{folder}/sitecustomize.py") for folder in os.environ.get("PYTHONPATH", "").split(":"))


class _Status:
    """The pid and the exit status that a server sends, four bytes each."""

    def __init__(self, server: socket.socket):
        self._server, self.pid = server, 0

    def wait(self) -> None:
        """Ends this process as the other one ends."""
        self.pid = self._number()
        for number in _early:
            os.kill(self.pid, number)
        os.close(0)
        os.close(1)  # so that a reader sees the end when the other process closes it
        status = self._number()
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) != signal.SIGKILL:
                signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.kill(os.getpid(), os.WTERMSIG(status))
            signal.pause()
        os._exit(os.WEXITSTATUS(status))

    def _number(self) -> int:
        received = self._server.recv(4, socket.MSG_WAITALL)
        if len(received) < 4:
            raise SystemExit("the server of commands has ended")
        return int.from_bytes(received, "big")


_early: list[int] = []
"""Signals that came before there was a process."""


def _forward(status: _Status) -> None:
    def send(number: int, frame: object) -> None:
        if status.pid:
            os.kill(status.pid, number)
        else:
            _early.append(number)

    for name in FORWARDED:
        if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
            signal.signal(getattr(signal, name), send)


def _command() -> tuple[str, list[str]]:
    return sys.argv[1], sys.argv[2:]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


if __name__ == "__main__":
    main()
