"""Who writes a folder of an object store, where there are no locks: an object with a number that its owner renews.

An owner is known by a nonce. Another process that finds its object watches it: once it has not changed for the time of
a takeover, by the watcher's own clock, its owner counts as gone, and is replaced. No two clocks are compared. An owner
that was replaced finds another nonce in its object before it writes anything else, and stops.
"""

import contextlib
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from t2t.files.atomic import LockedError, open_locked
from t2t.files.remote.failures import LOST, StoreError
from t2t.files.remote.store import Store

SETTLE_S = 0.5
"""Seconds between writing an object and reading it, in which one of two that write it at once replaces the other's."""
_AGENT_ENDS_S = 60.0
"""Seconds that the agent of a killed process is waited for."""


class Owners:
    """The folders that a process owns."""

    def __init__(self, store: Store, note: Callable[[str], None], renew_s: float, takeover_s: float):
        self._store, self._note = store, note
        self._renew_s, self._takeover_s = renew_s, takeover_s
        self._lock = threading.Lock()
        self._owned: dict[str, dict[str, Any]] = {}
        self._local: dict[str, BinaryIO] = {}
        self._closed = threading.Event()

    def own(self, address: str, cache: str, pid: int, lock: str) -> str:
        """Becomes the owner of the folder that an object of this address is in.

        Args:
            address: of the object.
            cache: tells the caches of machines apart. Who asks holds the local lock of the same name, so that an owner
                from the same cache has ended.
            pid: of the process that asks.
            lock: file of this machine that is locked as long as this process lives: the agent of an owner that was
                killed may still move a file.

        Returns:
            Empty, or who owns it.
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
        time.sleep(SETTLE_S)
        now = self._read(address) or {}
        if now.get("nonce") != mine["nonce"]:
            return _described(now)
        with self._lock:
            self._owned[address] = mine
        threading.Thread(target=self._renew, args=(address, mine), daemon=True).start()
        return ""

    def check(self, addresses: Iterable[str]) -> None:
        """Checks, before objects are written, that what is owned above them still is.

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
        """Gives up what is owned."""
        with self._lock:
            mine, held = self._owned.pop(address, None), self._local.pop(address, None)
        try:
            if mine and (self._read(address) or {}).get("nonce") == mine["nonce"]:
                self._store.remove([address])
        finally:
            if held:
                held.close()

    def close(self) -> None:
        """Gives up all that is owned."""
        self._closed.set()
        for address in list(self._owned):
            with contextlib.suppress(StoreError):
                self.release(address)

    def _is_abandoned(self, address: str, found: dict[str, Any]) -> bool:
        """Watches an owner's object; returns whether it was not renewed for the time of a takeover, or is gone."""
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
    """Returns a locked file of this machine, None where another agent keeps it for long."""
    for _ in range(round(_AGENT_ENDS_S / 0.1)):
        with contextlib.suppress(LockedError):
            return open_locked(Path(path))
        time.sleep(0.1)
    return None


def _described(owner: dict[str, Any]) -> str:
    return f"{owner.get('pid', 'of unknown number')} on {owner.get('host', 'an unknown machine')}"
