"""Load of a server: each client keeps its connection and waits for the response before it sends the next request."""

import dataclasses
import http.client
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.harness.child import Others
from benchmarks.harness.processes import ROOT
from t2t.errors import MachineError

_SERVING = re.compile(r"serving at http://127\.0\.0\.1:(\d+)")
_LONGEST_WAIT_S = 120.0

PAUSE_S = 0.25
"""Pause of a client after a response other than 200, in seconds."""


@dataclasses.dataclass
class Load:
    """Requests and responses of one period of load."""

    seconds: float
    others: float = 0.0
    """Mean number of cores that processes other than clients and server kept busy."""
    asked: int = 0
    """Number of requests."""
    statuses: Counter = dataclasses.field(default_factory=Counter)
    """HTTP status -> number of responses; 0 stands for connections that broke."""
    waits: dict[int, list[float]] = dataclasses.field(default_factory=dict)
    """HTTP status -> latency of each response, in seconds."""
    texts: dict[str, Counter] = dataclasses.field(default_factory=dict)
    """Text -> the translations returned for it, with counts."""

    @property
    def lost(self) -> int:
        """Number of requests without a response."""
        return self.asked - sum(count for status, count in self.statuses.items() if status)

    def percentile(self, percent: float, status: int = 200) -> float:
        """Returns a percentile of the latencies of responses with a status, in milliseconds; NaN if there is none."""
        waits = sorted(self.waits.get(status, []))
        return 1000 * waits[min(len(waits) - 1, int(len(waits) * percent / 100))] if waits else math.nan


class Server:
    """Runs `t2t-server`, or another command that serves, on a free port; a context manager that stops it on exit.

    Args:
        command: name of the command.
        flags: its flags.

    Raises:
        MachineError: it exited before it started to serve.
    """

    def __init__(self, command: str, *flags: str):
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "bin" / command), "--port=0", *flags],
            stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := _SERVING.search(line):
                self.port = int(found[1])
                break
        else:
            raise MachineError(f"{command} did not begin: {''.join(said[-3:]).strip()}")
        self._rest = threading.Thread(target=self.process.stderr.read)  # or the server would block on a full pipe
        self._rest.start()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error) -> None:
        self.process.terminate()
        self.process.wait(_LONGEST_WAIT_S)
        self._rest.join()
        self.process.stderr.close()


def ask_for(port: int, texts: Sequence[str], clients: int, seconds: float) -> Load:
    """Lets `clients` threads request translations of the texts, in rotation, for some seconds; returns the load."""
    found = Load(seconds)
    lock, start, others = threading.Lock(), time.perf_counter(), Others()

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LONGEST_WAIT_S)
        place = number * len(texts) // clients
        while time.perf_counter() - start < seconds:
            text = texts[place % len(texts)]
            place += 1
            began = time.perf_counter()
            status, translation = _ask(connection, text)
            wait = time.perf_counter() - began
            with lock:
                found.asked += 1
                found.statuses[status] += 1
                found.waits.setdefault(status, []).append(wait)
            if status != 200:
                time.sleep(PAUSE_S)
                continue
            with lock:
                found.texts.setdefault(text, Counter())[translation] += 1
        connection.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.seconds, found.others = time.perf_counter() - start, others.cores()
    return found


def _ask(connection: http.client.HTTPConnection, text: str) -> tuple[int, str]:
    try:
        body = json.dumps({"text": text})
        connection.request("POST", "/translate", body, {"content-type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
    except (OSError, http.client.HTTPException):
        connection.close()
        return 0, ""
    return response.status, answer.get("text", "")
