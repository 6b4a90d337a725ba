"""Data in an object store: the manifest is uploaded last, nothing twice, and all machines read the same data."""

import logging

import pytest

from t2t.data.array_tasks import generate_part, merge
from t2t.data.generate import generate
from t2t.data.manifest import MANIFEST_NAME, read_manifest
from t2t.data.mirrored import fetch_data, refresh
from t2t.data.reader import SplitReader
from t2t.errors import MachineError, UserError
from t2t.files.paths import local_path
from t2t.files.remote import mirror
from t2t.files.remote.store import Store
from t2t.runs.names import get_problem
from tests.stores import memory_store

DATA = "memory://b/data"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr("t2t.files.remote.owners.SETTLE_S", 0.01)
    with memory_store(monkeypatch, tmp_path / "cache") as opened:
        yield opened


def generated(problem, seed=7):
    return generate(problem, DATA, local_path(DATA) / "tmp", seed=seed, workers=1, most_examples=60)


def stored(store):
    return {name.removeprefix("b/data/digits/"): store.files.cat("/" + name) for name in store.names("b/data/digits")}


def in_folder(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".verified.json"}


def opened(splits=("train", "dev")):
    folder = local_path(DATA) / "digits"
    refresh(folder)
    manifest = read_manifest(folder)
    fetch_data(folder, manifest, splits)
    for split in splits:
        SplitReader(folder, manifest, split).verify()
    return folder


def test_the_store_gets_the_same_bytes_and_the_manifest_last(store, digits_class, digits_folder, monkeypatch):
    order = []
    put = Store._put
    monkeypatch.setattr(Store, "_put", lambda self, file, at: (order.append(at), put(self, file, at))[1])
    generated(digits_class())
    assert stored(store) == in_folder(digits_folder)
    order = [address for address in order if "/digits/" in address]
    assert order[-1] == f"{DATA}/digits/{MANIFEST_NAME}"
    assert len(order) == len(in_folder(digits_folder))
    assert store.names() == [f"b/data/digits/{name}" for name in sorted(in_folder(digits_folder))]  # no lock is left


def test_another_machine_reads_them(store, digits_class, digits_folder, tmp_path, monkeypatch):
    generated(digits_class())
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "other"))
    folder = opened(("dev",))
    assert {name.partition("-")[0] for name in in_folder(folder)} == {"dev", MANIFEST_NAME, "vocab.shared.token.tokens"}
    opened()
    assert in_folder(folder) == in_folder(digits_folder)


def test_what_was_read_once_is_read_here(store, digits_class, monkeypatch):
    generated(digits_class())
    folder = opened()
    monkeypatch.setattr(Store, "_get", None)
    assert opened() == folder


def test_a_damaged_copy_is_fetched_again(store, digits_class, digits_folder):
    generated(digits_class())
    folder = opened()
    damaged = next(folder.glob("train-*.values.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    opened()
    assert in_folder(folder) == in_folder(digits_folder)


def test_damage_in_the_store_is_said(store, digits_class, tmp_path, monkeypatch):
    generated(digits_class())
    (name,) = store.names("b/data/digits/dev-00000-of-00001.inputs.values")
    store.files.pipe("/" + name, b"x" * len(store.files.cat("/" + name)))
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "other"))
    with pytest.raises(UserError, match=r"inputs.values.npy is corrupt"):
        opened()


def test_an_interrupted_upload_goes_on_without_generating_again(store, digits_class, digits_folder, monkeypatch):
    monkeypatch.setattr(mirror, "_BATCH", 1)
    put, sent = Store._put, []

    def failing(self, file, address):
        if "/digits/" in address:
            sent.append(address)
            if len(sent) > 5:
                raise OSError("the store is gone")
        return put(self, file, address)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_put", failing)
        with pytest.raises(MachineError):
            generated(digits_class())
    assert MANIFEST_NAME not in stored(store)
    before = set(stored(store))
    sent.clear()
    monkeypatch.setattr(Store, "_put", lambda self, file, address: (sent.append(address), put(self, file, address))[1])
    monkeypatch.setattr(digits_class, "generate_samples", None)
    generated(digits_class())
    assert stored(store) == in_folder(digits_folder)
    assert not before & {address.rpartition("/")[2] for address in sent}


def test_an_upload_of_other_data_makes_room(store, digits_class, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("t2t.data.generate.publish_data", lambda *args: None)  # killed before uploading
        generated(digits_class(), seed=1)
    manifest = generated(digits_class(), seed=2)
    assert manifest.seed == 2
    assert stored(store)[MANIFEST_NAME] == (local_path(DATA) / "digits" / MANIFEST_NAME).read_bytes()


def test_data_that_the_store_has_is_not_made_again(store, digits_class, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="t2t")
    generated(digits_class())
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "other"))
    generated(digits_class())
    assert caplog.messages[-1].endswith("data/digits is there already: 200 train, 30 dev examples; nothing to do")
    with pytest.raises(UserError, match=r"seed: asked 2, found 7"):
        generated(digits_class(), seed=2)


def test_data_that_was_deleted_from_the_store_is_made_again(store, digits_class):
    generated(digits_class(), seed=1)
    store.files.rm("/b/data/digits", recursive=True)
    assert generated(digits_class(), seed=2).seed == 2


def test_two_machines_do_not_generate_at_once(store, digits_class, tmp_path, monkeypatch):
    lock = local_path(DATA) / ".digits.lock"
    lock.parent.mkdir(parents=True)
    with mirror.exclusive(lock):
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / "other"))
        with pytest.raises(UserError, match=r"digits is being generated by another process \(\d+ on .*\); wait for it"):
            generated(digits_class())
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / "cache"))
    generated(digits_class())


@pytest.mark.parametrize(
    ("options", "tasks", "examples"),
    [({}, (1, 0, 2), 60), ({"filter_duplicates": "source"}, (1, 0, 2, 2, 1, 0), 40)],
)
def test_tasks_of_several_machines_make_the_data_together(store, tmp_path, monkeypatch, options, tasks, examples):
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
        monkeypatch.setenv("T2T_CACHE", str(tmp_path / f"machine {task}"))
        generate_part(problem(), DATA, tmp_path / "tmp", 0, task, 3)
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "merging"))
    merge(problem(), DATA, tmp_path / "tmp", 0)
    found = {name.rpartition("/")[2]: store.files.cat("/" + name) for name in store.names("b/data")}
    assert found == in_folder(tmp_path / "local/text2text_files")
