"""Data in an object store: the manifest is uploaded last, nothing twice, and all machines read the same data."""

import pytest

from t2t.data.generation.array_tasks import generate_part, merge
from t2t.data.generation.data_folder import fetch_data, refresh
from t2t.data.generation.generate import generate
from t2t.data.manifest import MANIFEST_NAME, read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.errors import MachineError
from t2t.files.paths import local_path
from t2t.files.remote import mirror
from t2t.files.remote.failures import UNANSWERED
from t2t.runs.names import get_problem
from tests.errors import refused
from tests.generated import contents
from tests.stores import memory_store

DATA = "memory://b/data"


@pytest.fixture
def store(tmp_path, monkeypatch):
    with memory_store(monkeypatch, tmp_path / "cache") as opened:
        yield opened


@pytest.fixture
def on_machine(tmp_path, monkeypatch):
    """Returns a function that makes this process one of another machine: its cache is another one."""
    return lambda name: monkeypatch.setenv("T2T_CACHE", str(tmp_path / name))


def generated(problem, seed=7, most_examples=60):
    return generate(problem, DATA, local_path(DATA) / "tmp", seed=seed, workers=1, most_examples=most_examples)


def stored(store):
    return {name.removeprefix("b/data/digits/"): store.files.cat("/" + name) for name in store.names("b/data/digits")}


def in_folder(folder):
    return {name: content for name, content in contents(folder).items() if name != ".verified.json"}


def opened(splits=("train", "dev")):
    folder = local_path(DATA) / "digits"
    refresh(folder)
    manifest = read_manifest(folder)
    fetch_data(folder, manifest, splits)
    for split in splits:
        SplitReader(folder, manifest, split).verify()
    return folder


def test_the_store_gets_the_same_bytes_and_the_manifest_last(store, digits_class, digits_folder):
    generated(digits_class())
    wanted = in_folder(digits_folder)
    assert stored(store) == wanted
    order = store.transfers("put", "/digits/")
    assert order[-1] == f"{DATA}/digits/{MANIFEST_NAME}"
    assert len(order) == len(wanted)
    assert store.names() == [f"b/data/digits/{name}" for name in sorted(wanted)]  # no lock is left


def test_another_machine_reads_what_it_needs_once_and_a_damaged_copy_again(
    store, digits_class, digits_folder, on_machine
):
    generated(digits_class())
    on_machine("other")
    folder = opened(("dev",))
    assert {name.partition("-")[0] for name in in_folder(folder)} == {"dev", MANIFEST_NAME, "vocab.shared.token.tokens"}
    opened()
    assert in_folder(folder) == in_folder(digits_folder)
    store.requests.clear()
    assert opened() == folder
    assert store.transfers("get") == []
    asked = [address for message in store.requests if message["op"] == "info" for address in message["args"][0]]
    assert sorted(asked) == [f"{DATA}/digits/{name}" for name in (MANIFEST_NAME, "vocab.shared.token.tokens")]
    damaged = next(folder.glob("train-*.values.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    opened()
    assert in_folder(folder) == in_folder(digits_folder)
    (name,) = store.names("b/data/digits/dev-00000-of-00001.inputs.values")
    store.files.pipe("/" + name, b"x" * len(store.files.cat("/" + name)))
    on_machine("another")
    with refused("inputs.values.npy"):  # which is damaged in the store
        opened()


def gone(message):
    """The response of a store that does not accept the data's files."""
    if message["op"] == "put" and "/digits/" in message["args"][0][0][1]:
        return {"error": UNANSWERED, "text": "gone", "address": DATA}
    return None


def test_an_interrupted_upload_goes_on_without_generating_again(store, digits_class, tmp_path):
    """The data has 94 files, which are uploaded 64 at a time."""
    generate(digits_class(), tmp_path / "local", tmp_path, seed=7, workers=1, most_examples=10)
    store.intercept = lambda message: gone(message) if store.transfers("put", "/digits/")[64:] else None
    with refused(DATA, by=MachineError):
        generated(digits_class(), most_examples=10)
    before = set(stored(store))
    assert len(before) == 64
    assert MANIFEST_NAME not in before
    store.intercept = lambda message: None
    store.requests.clear()

    class Digits(digits_class):
        def generate_samples(self, split, source):
            pytest.fail("generated again")

    Digits.__module__ = digits_class.__module__
    generated(Digits(), most_examples=10)
    assert stored(store) == in_folder(tmp_path / "local/digits")
    assert not before & {address.rpartition("/")[2] for address in store.transfers("put")}


def test_an_upload_of_other_data_makes_room(store, digits_class):
    store.intercept = gone
    with refused(DATA, by=MachineError):
        generated(digits_class(), seed=1)
    store.intercept = lambda message: None
    assert generated(digits_class(), seed=2).seed == 2
    assert stored(store)[MANIFEST_NAME] == (local_path(DATA) / "digits" / MANIFEST_NAME).read_bytes()


def test_data_is_made_only_if_the_store_has_none_and_no_other_machine_makes_it(
    store, digits_class, on_machine, log_lines
):
    lock = local_path(DATA) / ".digits.lock"
    lock.parent.mkdir(parents=True)
    with mirror.exclusive(lock):
        on_machine("other")
        with refused("digits", "wait"):
            generated(digits_class())
        on_machine("cache")
    generated(digits_class())
    on_machine("other")
    log_lines.clear()
    generated(digits_class())
    assert len(log_lines.messages) == 1
    assert "200 train, 30 dev" in log_lines.text
    with refused("seed", 2, 7):
        generated(digits_class(), seed=2)
    store.files.rm("/b/data/digits", recursive=True)
    assert generated(digits_class(), seed=2).seed == 2


@pytest.mark.parametrize(("options", "tasks", "examples"), [
    ({}, (1, 0, 2), 60), ({"filter_duplicates": "source"}, (1, 0, 2, 2, 1, 0), 40),
])  # fmt: skip
def test_tasks_of_several_machines_make_the_data_together(store, tmp_path, on_machine, options, tasks, examples):
    """Each task and the merging process have separate caches and share only the store."""
    for name in ("a", "b", "c", "dev"):
        for side in ("source", "target"):
            lines = (f"{n} {name if n < 10 or name == 'dev' else 'all'}\n" for n in range(20))
            (tmp_path / f"{name}.{side}").write_text("".join(lines))
    files = {f"train_{side}": str(tmp_path / f"[abc].{side}") for side in ("source", "target")}
    files |= {f"dev_{side}": str(tmp_path / f"dev.{side}") for side in ("source", "target")}

    def problem():
        return get_problem("text2text_files", {**files, **options, "vocab_kind": "token"})

    manifest = generate(problem(), tmp_path / "local", tmp_path / "tmp", workers=1)
    assert manifest.split("train").examples == examples
    for task in tasks:
        on_machine(f"machine {task}")
        generate_part(problem(), DATA, tmp_path / "tmp", 0, task, 3, workers=1)
    on_machine("merging")
    merge(problem(), DATA, tmp_path / "tmp", 0)
    found = {name.rpartition("/")[2]: store.files.cat("/" + name) for name in store.names("b/data")}
    assert found == in_folder(tmp_path / "local/text2text_files")
