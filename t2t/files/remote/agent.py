"""The agent: a process that talks to object stores for one process of t2t.

It is a separate process for three reasons: packages of stores start threads, which would keep the main process from
forking workers; if a store hangs, the agent can be killed; and it renews ownership while the main process is busy.

Requests are lines of JSON on standard input. Responses are lines of JSON on standard output: `{"result": ...}` or
`{"error": kind, ...}`, perhaps after lines `{"alive": true}` and `{"note": text}`. It ends with its standard input.

A process owns a folder, since stores have no locks, by an object that it keeps renewing. The object has a nonce that
identifies the owner, and a counter of renewals. Another process that finds the object watches it: if it does not change
for the takeover time, by the watcher's clock, the watcher replaces its owner. So no two clocks are compared. A replaced
owner finds another nonce in the object before its next write, and stops.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from t2t.files.atomic import LockedError, open_locked
from t2t.files.remote.failures import FAILED, LOST, StoreError
from t2t.files.remote.store import Store

SETTLE_S = 0.5
"""Seconds between writing an object and reading it back; if two processes write it at once, one replaces the other."""
_AGENT_ENDS_S = 60.0
"""Seconds to wait for the agent of a killed process to end."""


class Owners:
    """The folders that a process owns."""

    def __init__(
        self,
        store: Store,
        note: Callable[[str], None],
        renew_s: float,
        takeover_s: float,
        settle_s: float = SETTLE_S,
    ):
        self._store, self._note = store, note
        self._renew_s, self._takeover_s, self._settle_s = renew_s, takeover_s, settle_s
        self._lock = threading.Lock()
        self._owned: dict[str, dict[str, Any]] = {}
        self._local: dict[str, BinaryIO] = {}
        self._closed = threading.Event()

    def own(self, address: str, cache: str, pid: int, lock: str) -> str:
        """Becomes the owner of the folder that contains the object of this address.

        Args:
            address: of the object.
            cache: id of the cache folder of the calling process. The caller holds the local lock of the same name, so
                an owner with the same cache has ended.
            pid: of the calling process.
            lock: local file to lock while this process lives; the agent of a killed owner, which may still be
                transferring a file, holds it too.

        Returns:
            An empty string, or a description of the present owner.
        """
        held = _locked(lock)
        if held is None:
            return f"of unknown number on {socket.gethostname()}"
        with contextlib.ExitStack() as stack:
            stack.enter_context(held)
            if owner := self._claim(address, cache, pid):
                return owner
            stack.pop_all()
        with self._lock:
            self._local[address] = held
        return ""

    def _claim(self, address: str, cache: str, pid: int) -> str:
        found = self._read(address)
        if found is not None and found.get("cache") != cache and not self._is_abandoned(address, found):
            return _described(found)
        mine = {"nonce": uuid.uuid4().hex, "host": socket.gethostname(), "pid": pid, "cache": cache, "renewals": 0}
        self._write(address, mine)
        time.sleep(self._settle_s)
        now = self._read(address) or {}
        if now.get("nonce") != mine["nonce"]:
            return _described(now)
        with self._lock:
            self._owned[address] = mine
        threading.Thread(target=self._renew, args=(address, mine), daemon=True).start()
        return ""

    def check(self, addresses: Iterable[str]) -> None:
        """Checks, before objects are written, that this process still owns those of its folders that contain them.

        Raises:
            StoreError: another process has taken over.
        """
        with self._lock:
            owned = dict(self._owned)
        folders = {address.rpartition("/")[0] + "/": address for address in owned}
        for folder, address in folders.items():
            if any(one.startswith(folder) for one in addresses):
                self._check_own(address, owned[address])

    def release(self, address: str) -> None:
        """Gives up the ownership of a folder, if it is owned."""
        with self._lock:
            mine, held = self._owned.pop(address, None), self._local.pop(address, None)
        try:
            if mine and (self._read(address) or {}).get("nonce") == mine["nonce"]:
                self._store.remove([address])
        finally:
            if held:
                held.close()

    def close(self) -> None:
        """Gives up all owned folders."""
        self._closed.set()
        for address in list(self._owned):
            with contextlib.suppress(StoreError):
                self.release(address)

    def _is_abandoned(self, address: str, found: dict[str, Any]) -> bool:
        """Watches an owner's object; returns whether it is not renewed for the takeover time, or is removed."""
        self._note(f"{address} says that {_described(found)} is at work; watching it for {self._takeover_s:g} s")
        started = time.monotonic()
        while time.monotonic() - started < self._takeover_s:
            time.sleep(min(self._renew_s / 2, self._takeover_s / 4))
            now = self._read(address)
            if now != found:
                return now is None
        return True

    def _renew(self, address: str, mine: dict[str, Any]) -> None:
        while not self._closed.wait(self._renew_s):
            with self._lock:
                if self._owned.get(address) is not mine:
                    return
                with contextlib.suppress(StoreError):  # the next renewal may succeed
                    self._check_own(address, mine)
                    mine["renewals"] += 1
                    self._write(address, mine)

    def _check_own(self, address: str, mine: dict[str, Any]) -> None:
        now = self._read(address) or {}
        if now.get("nonce") != mine["nonce"]:
            raise StoreError(LOST, _described(now), address)

    def _read(self, address: str) -> dict[str, Any] | None:
        content = self._store.read(address)
        if content is None:
            return None
        with contextlib.suppress(ValueError):
            found = json.loads(content)
            if isinstance(found, dict):
                return found
        return {}

    def _write(self, address: str, owner: dict[str, Any]) -> None:
        self._store.write(address, json.dumps(owner).encode())


def _locked(path: str) -> BinaryIO | None:
    """Locks a local file and returns it; None if another agent keeps it locked for `_AGENT_ENDS_S`."""
    for _ in range(round(_AGENT_ENDS_S / 0.1)):
        with contextlib.suppress(LockedError):
            return open_locked(Path(path))
        time.sleep(0.1)
    return None


def _described(owner: dict[str, Any]) -> str:
    return f"{owner.get('pid', 'of unknown number')} on {owner.get('host', 'an unknown machine')}"


def answer(store: Store, owners: Owners, request: dict[str, Any]) -> dict[str, Any]:
    """Returns the response to a request: the name of a method of `Store` or `Owners`, and its arguments."""
    op, args = request["op"], request["args"]
    try:
        if op == "put":
            owners.check([address for _, address in args[0]])
        if op == "remove":
            owners.check(args[0])
        return {"result": getattr(owners if op in ("own", "release") else store, op)(*args)}
    except StoreError as error:
        return {"error": error.kind, "text": str(error), "address": error.address, **error.details}
    except Exception as error:
        return {"error": FAILED, "text": f"{type(error).__name__}: {error}", "address": ""}


def main() -> None:
    """Handles the requests on standard input."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the main process decides when to end
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # prints of packages must not mix with the responses
    say = _writer(answers)
    renew_s, takeover_s = map(float, sys.argv[1:])
    store = Store(lambda: say({"alive": True}))
    owners = Owners(Store(), lambda text: say({"note": text}), renew_s, takeover_s)
    for line in sys.stdin:
        request = json.loads(line)
        say({**answer(store, owners, request), "number": request["number"]})
    owners.close()


def _writer(file: TextIO) -> Callable[[dict[str, Any]], None]:
    lock = threading.Lock()

    def write(message: dict[str, Any]) -> None:
        with lock, contextlib.suppress(OSError):  # the main process was killed; ownership is still given up
            file.write(json.dumps(message) + "\n")
            file.flush()

    return write


if __name__ == "__main__":
    main()
