"""The agent: a process that talks to object stores for one process of t2t.

It is a separate process for three reasons: packages of stores start threads, which would keep the main process from
forking workers; if a store hangs, the agent can be killed; and it renews ownership while the main process is busy.

Requests are lines of JSON on standard input. Responses are lines of JSON on standard output: `{"result": ...}` or
`{"error": kind, ...}`, perhaps after lines `{"alive": true}` and `{"note": text}`. It ends with its standard input.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from t2t.files.remote.failures import FAILED, StoreError
from t2t.files.remote.owners import SETTLE_S, Owners
from t2t.files.remote.store import Store


class StoreService:
    """Handles requests.

    Args:
        say: called with messages to send before the response.
        renew_s: seconds between renewals of an owner.
        takeover_s: seconds without a renewal after which an owner counts as gone.
        settle_s: see `SETTLE_S`.
    """

    def __init__(
        self,
        say: Callable[[dict[str, Any]], None],
        renew_s: float,
        takeover_s: float,
        settle_s: float = SETTLE_S,
    ):
        self._store = Store(lambda: say({"alive": True}))
        self._owners = Owners(Store(), lambda text: say({"note": text}), renew_s, takeover_s, settle_s)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the response to a request: the name of a method of `Store` or `Owners`, and its arguments."""
        try:
            return {"result": self._call(request["op"], request["args"])}
        except StoreError as error:
            return {"error": error.kind, "text": str(error), "address": error.address, **error.details}
        except Exception as error:
            return {"error": FAILED, "text": f"{type(error).__name__}: {error}", "address": ""}

    def _call(self, op: str, args: list[Any]) -> Any:
        if op in ("own", "release"):
            return getattr(self._owners, op)(*args)
        if op == "put":
            self._owners.check([address for _, address in args[0]])
        if op == "remove":
            self._owners.check(args[0])
        return getattr(self._store, op)(*args)

    def close(self) -> None:
        """Gives up all ownership; called when the main process has ended."""
        self._owners.close()


def main() -> None:
    """Handles the requests on standard input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the main process decides when to end
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # prints of packages must not mix with the responses
    say = _writer(answers)
    service = StoreService(say, *map(float, sys.argv[1:]))
    for line in sys.stdin:
        request = json.loads(line)
        say({**service.answer(request), "number": request["number"]})
    service.close()


def _writer(file: TextIO) -> Callable[[dict[str, Any]], None]:
    lock = threading.Lock()

    def write(message: dict[str, Any]) -> None:
        with lock, contextlib.suppress(OSError):  # the main process was killed; ownership is still given up
            file.write(json.dumps(message) + "\n")
            file.flush()

    return write


if __name__ == "__main__":
    main()
