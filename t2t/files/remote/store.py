"""Access to the objects of a store by address, through fsspec. Only `t2t.files.remote.agent` uses it.

fsspec supports each kind of store (S3, GCS, Azure, HDFS, ...) by a separate package; none of them needs TensorFlow.
"""

import contextlib
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import fsspec
from fsspec.callbacks import Callback

from t2t.files.atomic import REMEDIES
from t2t.files.remote.failures import (
    CREDENTIALS,
    FAILED,
    LOCAL,
    NO_BUCKET,
    PACKAGE,
    REFUSED,
    UNANSWERED,
    StoreError,
)

T = TypeVar("T")
R = TypeVar("R")

RETRY_FOR_S = 60.0
_WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_THREADS = 8
"""Files that are transferred at once."""


_CREDENTIAL_ERRORS = (
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError",
    "RefreshError", "TokenRetrievalError", "ClientAuthenticationError",
)  # fmt: skip
"""Names of error classes in the packages of stores."""
_IDENTITIES = ("ETag", "etag", "generation", "md5Hash", "mtime", "created", "LastModified", "last_modified")
"""Keys of fsspec's info on an object whose values change with its content, the most reliable first."""

Entry = dict[str, Any]
"""Description of an object: `size` in bytes, and `id`, which changes with the content."""


class Store:
    """Reads and writes objects; retries after temporary failures, with growing waits.

    Args:
        alive: called at most once a second during transfers, and before each retry.
        waits_s: seconds between attempts, about.
        retry_for_s: no retry is made later than so many seconds after the first attempt.

    Raises:
        StoreError: by every method.
    """

    def __init__(
        self,
        alive: Callable[[], None] = lambda: None,
        waits_s: Sequence[float] = _WAITS_S,
        retry_for_s: float = RETRY_FOR_S,
    ):
        self._alive, self._waits_s, self._retry_for_s = alive, waits_s, retry_for_s
        self._systems: dict[str, Any] = {}

    def info(self, addresses: Sequence[str]) -> list[Entry | None]:
        """Returns the entry of each object, None for one that does not exist."""
        return _each(self._info, addresses)

    def find(self, address: str) -> dict[str, Entry]:
        """Returns the entries of all objects below an address, by their names relative to it."""

        def find(system: Any, path: str) -> dict[str, Entry]:
            prefix = path.rstrip("/") + "/"
            found = system.find(path, detail=True)
            return {name.removeprefix(prefix): _entry(one) for name, one in found.items() if name.startswith(prefix)}

        return self._retried(address, find) or {}

    def get(self, pairs: Sequence[tuple[str, str]]) -> list[Entry | None]:
        """Copies objects to files, by (address, path); returns their entries, None for one that does not exist.

        Each file appears complete or not at all.
        """
        return _each(lambda pair: self._get(*pair), pairs)

    def put(self, pairs: Sequence[tuple[str, str]]) -> list[Entry]:
        """Copies files to objects, by (path, address); returns their entries."""
        return _each(lambda pair: self._put(*pair), pairs)

    def remove(self, addresses: Sequence[str]) -> None:
        """Removes objects; ignores those that do not exist."""
        _each(self._remove, addresses)

    def read(self, address: str) -> bytes | None:
        """Returns the content of a small object, None if it does not exist."""
        content: bytes | None = self._retried(address, lambda system, path: system.cat_file(path))
        return content

    def write(self, address: str, content: bytes) -> None:
        """Makes or replaces a small object."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            self._put(file.name, address)

    def _info(self, address: str) -> Entry | None:
        def info(system: Any, path: str) -> Entry | None:
            found = system.info(path)
            return _entry(found) if found.get("type") == "file" else None

        return self._retried(address, info)

    def _get(self, address: str, file: str) -> Entry | None:
        target = Path(file)
        temporary = target.with_name(f".tmp-{target.name}.{os.getpid()}")

        def get(system: Any, path: str) -> Entry:
            entry = _entry(system.info(path))
            system.get_file(path, str(temporary), callback=_callback(self._alive))
            if (size := temporary.stat().st_size) != entry["size"]:
                raise OSError(f"{size:,} of {entry['size']:,} bytes came")
            return entry

        with _local_failures():
            target.parent.mkdir(parents=True, exist_ok=True)
        try:
            entry = self._retried(address, get)
            if entry is not None:
                with _local_failures():
                    os.replace(temporary, target)
            return entry
        finally:
            temporary.unlink(missing_ok=True)

    def _put(self, file: str, address: str) -> Entry:
        def put(system: Any, path: str) -> Entry:
            with _local_failures():
                size = os.stat(file).st_size
            system.put_file(file, path, callback=_callback(self._alive))
            entry = _entry(system.info(path))
            if entry["size"] < size:  # a log may have grown since
                raise OSError(f"{entry['size']:,} of {size:,} bytes arrived")
            return entry

        entry = self._retried(address, put)
        if entry is None:
            raise StoreError(NO_BUCKET, "", address)
        return entry

    def _remove(self, address: str) -> None:
        self._retried(address, lambda system, path: system.rm_file(path))

    def _open(self, address: str) -> tuple[Any, str]:
        """Returns the file system of an address, and the path in it."""
        root = "/".join(address.split("/")[:3])
        if root not in self._systems:
            self._systems[root] = fsspec.core.url_to_fs(address, use_listings_cache=False)[0]
        system = self._systems[root]
        system.invalidate_cache()
        return system, system._strip_protocol(address)

    def _retried(self, address: str, call: Callable[[Any, str], R]) -> R | None:
        """Returns the result of a call with the file system and the path in it, retried; None if there is no object.

        Raises:
            StoreError: it failed permanently, or too often.
        """
        started = time.monotonic()
        for wait in (*self._waits_s, None):
            try:
                return call(*self._open(address))
            except FileNotFoundError:
                return None
            except StoreError:
                raise
            except Exception as error:
                failure = _failure(error, address)
                passed = time.monotonic() - started
                if failure.kind != UNANSWERED or wait is None or passed + wait > self._retry_for_s:
                    raise failure from error
            self._alive()
            time.sleep(wait * random.uniform(0.5, 1.5))
        raise AssertionError("the last attempt returns or raises")


def _each(call: Callable[[T], R], items: Sequence[T]) -> list[R]:
    with ThreadPoolExecutor(_THREADS) as pool:
        futures = [pool.submit(call, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _callback(alive: Callable[[], None]) -> Any:
    """Returns the callback that fsspec calls during transfers."""
    last_report = [time.monotonic()]

    def moved(*_: Any, **__: Any) -> None:
        if time.monotonic() - last_report[0] > 1:
            last_report[0] = time.monotonic()
            alive()

    return Callback(hooks={"moved": moved})


def _entry(info: dict[str, Any]) -> Entry:
    identity = next((f"{name}={info[name]}" for name in _IDENTITIES if info.get(name)), "")
    return {"size": info["size"], "id": f"{info['size']} {identity}"}


@contextlib.contextmanager
def _local_failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _local(error) from error


def _failure(error: Exception, address: str) -> StoreError:
    """Converts an error of a store's package to a `StoreError`."""
    name, text = type(error).__name__, _text(error)
    if isinstance(error, OSError) and error.errno in REMEDIES and error.filename:
        return _local(error)
    if name in _CREDENTIAL_ERRORS:
        return StoreError(CREDENTIALS, text, address)
    if isinstance(error, PermissionError):
        return StoreError(REFUSED, text, address)
    if isinstance(error, ImportError):
        return StoreError(PACKAGE, text, address)
    if isinstance(error, NotImplementedError | ValueError | TypeError | AttributeError):
        return StoreError(FAILED, f"{name}: {text}", address)
    return StoreError(UNANSWERED, text if isinstance(error, OSError) and text != name else f"{name}: {text}", address)


def _local(error: OSError) -> StoreError:
    text = error.strerror or _text(error)
    return StoreError(LOCAL, text, errno=error.errno, filename=str(error.filename))


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
