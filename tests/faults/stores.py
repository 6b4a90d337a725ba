"""Jobs that write to an object store: an S3 server in this process that can fail and return outdated lists."""

import dataclasses
import functools
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.faults.bench import Bench, complaint
from tests.faults.jobs import Job, Made, made_in
from tests.faults.process import Command
from tests.stores import CREDENTIALS, s3

BUCKET = "faults"
NAMES = ("stored generation", "stored training", "stored export")
FAILING_SHARE = 0.15
"""Fraction of requests that fail while the store is failing."""
HANG_S = 1.0
LAG_S = 3.0
"""Age in seconds of the lists that a lagging store returns."""

_NOT_COMPARED = ("t2t_export.json", "README.md")
"""Files of an export that contain speeds."""


class Server:
    """An S3 server; `trouble` maps a request's WSGI environment to an error status, or to None for the usual answer."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self.trouble: Callable[[dict[str, Any]], int | None] = lambda environment: None
        self.lists_lag = False
        self.injected = 0
        self._lists: dict[str, list[tuple[float, tuple]]] = {}
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._server.port}"}
        s3(self.environment).create_bucket(Bucket=BUCKET)

    def close(self) -> None:
        """Stops the server."""
        self._server.shutdown()

    def _answer(self, environment: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        if status := self.trouble(environment):
            self.injected += 1
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
            start_response(f"{status} Failed", [("Content-Type", "application/xml")])
            return [b"<Error><Code>InternalError</Code><Message>failed</Message></Error>"]
        if self.lists_lag and "list-type" in environment.get("QUERY_STRING", ""):
            return self._lagging(environment, start_response)
        return self._app(environment, start_response)

    def _lagging(self, environment: dict[str, Any], start_response: Callable) -> Iterable[bytes]:
        """Repeats the answer to the same request of at least LAG_S seconds ago, else the oldest one."""
        told: list = []
        content = b"".join(self._app(environment, lambda *head: told.append(head[:2])))
        key, now = environment["QUERY_STRING"], time.monotonic()
        answers = self._lists.setdefault(key, [])
        answers.append((now, (told[0], content)))
        old = [answer for at, answer in answers if now - at >= LAG_S]
        head, body = old[-1] if old else answers[0][1]
        self.injected += body != content
        start_response(*head)
        return [body]


@functools.cache
def shared_server() -> Server:
    """Returns the object store; it is started once and lives as long as this process."""
    return Server()


@dataclasses.dataclass(frozen=True)
class StoredJob(Job):
    """A job that writes to the store, below the name of its folder; the folder itself holds the mirror."""

    @property
    def server(self) -> "Server":
        """The store of all jobs."""
        return shared_server()

    @property
    def _kind(self) -> str:
        return self.name.partition(" ")[2]

    @property
    def module(self) -> str:
        """The command's module."""
        commands = {"generation": "datagen", "training": "trainer", "export": "exporter"}
        return f"t2t.cli.{commands[self._kind]}"

    @property
    def is_cold_only(self) -> bool:
        """Whether its processes always start cold."""
        return self._kind == "generation"

    def command(self, out: Path) -> Command:
        """Returns the command that makes everything below `s3://faults/<name of out>`."""
        make = {"generation": self._generation, "training": self._training, "export": self._export}[self._kind]
        command = make(out)
        address = f"s3://{BUCKET}/{out.name}"
        flags = tuple(flag.replace(str(out), address) for flag in command.flags)
        environment = {**self.server.environment, "T2T_CACHE": str(out / "cache")}
        return dataclasses.replace(command, flags=flags, environment=tuple(environment.items()))

    def _export(self, out: Path) -> Command:
        flags = (
            f"--output_dir={self.materials / 'run'}", f"--export_dir={out / 'served'}", "--format=ctranslate2",
            f"--parity_file={self.materials / 'lines'}", "--parity_lines=5",
        )  # fmt: skip
        return Command("t2t-exporter", flags, self.module)

    def keep_as_material(self, out: Path) -> None:
        """Does nothing: no later job needs the results."""

    def made(self, out: Path) -> Made:
        """Returns the objects below the folder's name, in the form of `made_in`."""
        client, prefix = s3(self.server.environment), f"{out.name}/"
        with tempfile.TemporaryDirectory() as folder:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
            for one in [entry for page in pages for entry in page.get("Contents", [])]:
                path = Path(folder, one["Key"].removeprefix(prefix))
                path.parent.mkdir(parents=True, exist_ok=True)
                content = client.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
                path.write_bytes(b"" if path.name in _NOT_COMPARED else content)
            return made_in(Path(folder))


def failing(bench: Bench) -> str | None:
    """Runs a job on a store that answers some requests with 500 and others, after a delay, with 503."""
    server, rng = bench.job.server, bench.rng  # type: ignore[attr-defined]
    lock = threading.Lock()

    def trouble(environment: dict[str, Any]) -> int | None:
        with lock:
            fails, hangs = rng.random() < FAILING_SHARE, rng.random() < 0.2
        if fails and hangs:
            time.sleep(HANG_S)
        return (503 if hangs else 500) if fails else None

    server.trouble = trouble
    return _on_trouble(bench)


def lagging(bench: Bench) -> str | None:
    """Runs a job on a store that returns outdated lists; the job is killed once and resumed."""
    bench.job.server.lists_lag = True  # type: ignore[attr-defined]
    return _on_trouble(bench, kills=True)


def down(bench: Bench) -> str | None:
    """Runs a job on a store that fails permanently after some requests, then resumes it on a working store."""
    server = bench.job.server  # type: ignore[attr-defined]
    allowed = [bench.rng.randint(0, 40)]

    def trouble(environment: dict[str, Any]) -> int | None:
        allowed[0] -= 1
        return 500 if allowed[0] < 0 else None

    server.trouble, before, out = trouble, server.injected, bench.folder()
    try:
        process = bench.start(out)
        status = process.wait()
    finally:
        server.trouble = lambda environment: None
    if server.injected == before or not status:
        return None
    return complaint(process, status, 1, "the store does not answer") or bench.go_on(out)


def _on_trouble(bench: Bench, kills: bool = False) -> str | None:
    server = bench.job.server  # type: ignore[attr-defined]
    before = server.injected
    try:
        if kills:
            out, process = bench.start_and_wait()
            process.end()
        else:
            out = bench.folder()
        wrong = bench.go_on(out)
    finally:
        server.trouble, server.lists_lag = lambda environment: None, False
    return wrong if wrong or server.injected > before else None


def injections(job: str) -> dict[str, Callable[[Bench], str | None]]:
    """Returns the store faults of a job, by name; only training lists objects that it has written."""
    found = {"a store that fails at times": failing, "a store that is down": down}
    return {**found, "lists that lag behind": lagging} if job == "stored training" else found
