"""Object stores for tests: one in the memory of this process, and a local S3 server."""

import contextlib
import uuid

import fsspec

from t2t.files.remote import agent, client
from t2t.files.remote.failures import UNANSWERED
from t2t.files.remote.store import Store

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


class MemoryStore:
    """`memory://`, accessed in this process.

    Attributes:
        requests: all messages to the store, e.g. `{"op": "put", "args": [[[file, address], ...]]}`.
        intercept: called with each message; what it returns is the response, unless it is None.
        moves: what moved or removed objects, as (operation, address).
        failing: operations that fail.
    """

    def __init__(self, renew_s=0.05, takeover_s=30.0, settle_s=0.01):
        self.notes, self.requests, self.moves, self.failing = [], [], [], set()
        self.store = Store(lambda: self.notes.append({"alive": True}))
        self.owners = agent.Owners(
            Store(), lambda text: self.notes.append({"note": text}), renew_s, takeover_s, settle_s
        )
        self.files = fsspec.filesystem("memory")
        self.intercept = lambda message: None

    def send(self, message):
        self.requests.append(message)
        addressed = {"get": lambda pair: pair[0], "put": lambda pair: pair[1], "remove": lambda address: address}
        if message["op"] in addressed:
            self.moves += [(message["op"], addressed[message["op"]](one)) for one in message["args"][0]]
        if message["op"] in self.failing:
            return {"error": UNANSWERED, "text": "the store is gone", "address": ""}
        return self.intercept(message) or agent.answer(self.store, self.owners, message)

    def transfers(self, op, below=""):
        """Returns the addresses that were uploaded (`put`) or downloaded (`get`), in order."""
        pairs = [pair for message in self.requests if message["op"] == op for pair in message["args"][0]]
        return [address for pair in pairs for address in pair if address.startswith("memory://") and below in address]

    def clear(self):
        self.files.store.clear()
        self.files.pseudo_dirs[:] = [""]

    def names(self, prefix=""):
        return sorted(name.lstrip("/") for name in self.files.store if name.lstrip("/").startswith(prefix))


@contextlib.contextmanager
def memory_store(monkeypatch, cache):
    """Yields an in-memory store that this process uses, with its mirror in a folder."""
    store = MemoryStore()
    store.clear()
    monkeypatch.setenv("T2T_CACHE", str(cache))
    monkeypatch.setattr(client, "_send", store.send)
    yield store
    store.owners.close()
    store.clear()


@contextlib.contextmanager
def failing_uploads(monkeypatch, name):
    """Within the block, uploads of files of a name fail, in a store that this process accesses itself."""
    put = Store._put

    def failing(self, file, address):
        if address.endswith(f"/{name}"):
            raise OSError("the store is gone")
        return put(self, file, address)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_put", failing)
        yield


@contextlib.contextmanager
def s3_server():
    """Yields the environment variables with which commands use a local S3 server."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}
    finally:
        server.stop()


@contextlib.contextmanager
def bucket(environment, monkeypatch, cache):
    """Yields the address of a new bucket that commands in this process can use."""
    for name, value in {**environment, "T2T_CACHE": str(cache)}.items():
        monkeypatch.setenv(name, value)
    client._close()  # the client of another test has another environment
    name = f"b{uuid.uuid4().hex[:12]}"
    s3(environment).create_bucket(Bucket=name)
    yield f"s3://{name}"
    client._close()


def s3(environment):
    """Returns a client of the server that does not go through t2t."""
    import boto3

    keys = {
        "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
        "region_name": environment["AWS_DEFAULT_REGION"],
    }
    return boto3.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"], **keys)


def objects(environment, address):
    """Returns name -> content of the objects below an address of a bucket."""
    name, _, prefix = address.removeprefix("s3://").partition("/")
    client_ = s3(environment)
    found = client_.list_objects_v2(Bucket=name, Prefix=prefix).get("Contents", [])
    return {one["Key"]: client_.get_object(Bucket=name, Key=one["Key"])["Body"].read() for one in found}
