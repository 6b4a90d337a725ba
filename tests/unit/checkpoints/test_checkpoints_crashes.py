"""An interrupted save leaves either the state before it or the state after it."""

import errno
import os
import resource
import shutil

import numpy as np
import pytest

import t2t.checkpoints.arrays as arrays_module
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import MachineError


class Killed(BaseException):
    """Simulates the death of the process; not an Exception, so that handlers of errors do not catch it."""


class Interrupter:
    """Raises at the n-th operation that changes the disk; `Killed` is raised at all later ones, too."""

    def __init__(self, patch, stage: int, error: BaseException):
        self.left, self.error = stage, error
        for module, name in (
            (os, "fsync"), (os, "rename"), (os, "replace"), (os, "mkdir"), (os, "chmod"), (os, "unlink"), (os, "rmdir"),
            (shutil, "rmtree"), (arrays_module, "save_file"),
        ):  # fmt: skip
            patch.setattr(module, name, self.wrap(name, getattr(module, name)))

    def wrap(self, name, real):
        def wrapped(*args, **options):
            self.left -= 1
            if self.left == -1 or (self.left < 0 and isinstance(self.error, Killed)):
                if name == "save_file":
                    args[1].write_bytes(b"half of i")
                raise self.error
            return real(*args, **options)

        return wrapped


def arrays(value):
    return {
        "model": {"w": np.full(4, value)},
        "optimizer": {"m": np.full(4, -value)},
        "ema": {"w": np.full(4, value / 2)},
    }


def state_of(folder):
    """Loads and verifies every checkpoint; returns all contents, the latest step and the best one."""
    store = CheckpointStore(folder)
    best = store.best()
    contents = {
        which: (loaded.step, loaded.state, float(loaded.model["w"][0]))
        for which in [*store.steps(), *store.names()]
        for loaded in [store.load(which)]
    }
    return contents, store.load("latest").step, best and best.step


def interrupt_everywhere(tmp_path, monkeypatch, prepare, action, error):
    """Runs `action` interrupted at each of its disk operations in turn; yields the resulting stores."""
    for stage in range(1000):
        store = CheckpointStore(tmp_path / str(stage) / "checkpoints")
        prepare(store)
        before = state_of(store.folder)
        with monkeypatch.context() as patch:
            Interrupter(patch, stage, error)
            try:
                action(store)
            except (Killed, MachineError):
                finished = False
            else:
                finished = True
        yield store, before, state_of(store.folder), finished
        if finished:
            return
    raise AssertionError("the action never ends")


def prepare_two(store):
    store.save(100, **arrays(1.0), state={"at": 100})
    store.save(200, **arrays(2.0), state={"at": 200})
    store.mark_best(100, "bleu", 30.0)


def leftovers(store):
    return [path.name for path in store.folder.iterdir() if path.name.startswith(".")]


ERRORS = [Killed(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]


@pytest.mark.parametrize("error", ERRORS, ids=["killed", "disk full"])
def test_a_save_interrupted_anywhere(tmp_path, monkeypatch, error):
    new = (300, {"at": 300}, 3.0)
    stages = 0
    for store, before, after, finished in interrupt_everywhere(
        tmp_path, monkeypatch, prepare_two, lambda s: s.save(300, **arrays(3.0), state={"at": 300}), error
    ):
        stages += 1
        complete = {**before[0], 300: new}
        # between the two renames the new checkpoint exists, but the pointer still names the previous one
        assert after in [before, (complete, 200, 100), (complete, 300, 100)]
        assert not finished or after == (complete, 300, 100)
        if isinstance(error, OSError):
            assert not leftovers(store)  # leftovers would keep the disk full
        store.save(400, **arrays(4.0), state={"at": 400})
        contents, latest, _ = state_of(store.folder)
        assert (contents[400], latest) == ((400, {"at": 400}, 4.0), 400)
        assert not leftovers(store)
    assert stages > 12


@pytest.mark.parametrize("error", ERRORS, ids=["killed", "disk full"])
def test_replacing_a_checkpoint_interrupted_anywhere(tmp_path, monkeypatch, error):
    new = (200, {"at": "again"}, 5.0)
    for store, before, after, finished in interrupt_everywhere(
        tmp_path, monkeypatch, prepare_two, lambda s: s.save(200, **arrays(5.0), state={"at": "again"}), error
    ):
        replaced = ({**before[0], 200: new}, 200, 100)
        assert after in [before, replaced]
        assert not finished or after == replaced
        store.save(300, **arrays(3.0), state={})
        assert state_of(store.folder)[0][200] == after[0][200]
        assert not leftovers(store)


@pytest.mark.parametrize("error", ERRORS, ids=["killed", "disk full"])
def test_averaging_again_interrupted_anywhere(tmp_path, monkeypatch, error):
    def prepare(store):
        prepare_two(store)
        store.save_named("averaged", 200, model={"w": np.full(4, 1.5)}, state={})

    for store, before, after, finished in interrupt_everywhere(
        tmp_path, monkeypatch, prepare, lambda s: s.save_named("averaged", 300, model={"w": np.full(4, 2.5)}), error
    ):
        replaced = ({**before[0], "averaged": (300, {}, 2.5)}, 200, 100)
        assert after in [before, replaced]
        assert not finished or after == replaced
        store.save_named("averaged", 400, model={"w": np.full(4, 3.5)})
        assert state_of(store.folder)[0]["averaged"] == (400, {}, 3.5)
        assert not leftovers(store)


@pytest.mark.parametrize("error", ERRORS, ids=["killed", "disk full"])
def test_pruning_interrupted_anywhere(tmp_path, monkeypatch, error):
    def prepare(store):
        for step in (100, 200, 300, 400):
            store.save(step, **arrays(step), state={})
        store.mark_best(200, "bleu", 30.0)

    for store, before, after, finished in interrupt_everywhere(
        tmp_path, monkeypatch, prepare, lambda s: s.prune(1), error
    ):
        assert after[1:] == (400, 200)
        assert {400: before[0][400], 200: before[0][200]}.items() <= after[0].items() <= before[0].items()
        assert not finished or after[0].keys() == {200, 400}
        assert store.prune(1) == [step for step in (100, 300) if step in after[0]]
        store.save(500, **arrays(5.0), state={})
        assert not leftovers(store)


@pytest.mark.parametrize("error", ERRORS, ids=["killed", "disk full"])
def test_marking_the_best_interrupted_anywhere(tmp_path, monkeypatch, error):
    for _, before, after, finished in interrupt_everywhere(
        tmp_path, monkeypatch, prepare_two, lambda s: s.mark_best(200, "bleu", 31.0), error
    ):
        assert after in [before, (before[0], 200, 200)]
        assert not finished or after[2] == 200


@pytest.mark.parametrize("error", ERRORS, ids=["killed", "disk full"])
def test_the_first_save_interrupted_anywhere_leaves_none_or_all(tmp_path, monkeypatch, error):
    for stage in range(1000):
        store = CheckpointStore(tmp_path / str(stage) / "checkpoints")
        (tmp_path / str(stage)).mkdir()
        with monkeypatch.context() as patch:
            Interrupter(patch, stage, error)
            try:
                store.save(100, **arrays(1.0), state={"at": 100})
            except (Killed, MachineError):
                finished = False
            else:
                finished = True
        assert store.latest() in (None, 100)
        if store.latest():
            assert state_of(store.folder) == ({100: (100, {"at": 100}, 1.0)}, 100, None)
        if finished:
            assert store.latest() == 100
            return


def test_files_reach_the_disk_before_the_name_and_the_name_before_the_pointer(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path / "checkpoints")
    store.save(1, **arrays(1.0))
    done = []

    def record(name):
        real = getattr(os, name)

        def wrapped(*args):
            target = args[-1] if name != "fsync" else os.readlink(f"/proc/self/fd/{args[0]}")
            done.append((name, os.path.basename(target)))
            return real(*args)

        monkeypatch.setattr(os, name, wrapped)

    for name in ("fsync", "rename", "replace"):
        record(name)
    store.save(2, **arrays(2.0))
    files = ["checksums.json", "ema.safetensors", "model.safetensors", "optimizer.safetensors", "state.json"]
    assert sorted(done[:5]) == [("fsync", name) for name in files]
    assert done[5:] == [
        ("fsync", ".tmp-step-00000002"), ("rename", "step-00000002"), ("fsync", "checkpoints"),
        ("fsync", ".tmp-latest.json"), ("replace", "latest.json"), ("fsync", "checkpoints"),
    ]  # fmt: skip


def test_a_file_that_cannot_grow_is_the_machines_fault(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    prepare_two(store)
    before = state_of(store.folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(MachineError, match=r"cannot save checkpoint step-00000300 in .*: File too large .*ulimit"):
            store.save(300, model={"w": np.zeros(1 << 20)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert state_of(store.folder) == before
    assert not leftovers(store)


def test_a_folder_that_cannot_be_made_is_the_machines_fault(tmp_path):
    (tmp_path / "file").write_text("")
    store = CheckpointStore(tmp_path / "file" / "checkpoints")
    with pytest.raises(
        MachineError, match=r"cannot save checkpoint step-00000001 in .*: Not a directory .*choose another"
    ):
        store.save(1, model={})


def test_trainer_and_averager_leave_each_others_unfinished_work_alone(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    prepare_two(store)
    for name in (".tmp-step-00000300", ".tmp-averaged", ".tmp-averaged-last-5"):
        (store.folder / name).mkdir()
    store.save(400, **arrays(4.0))
    assert sorted(leftovers(store)) == [".tmp-averaged", ".tmp-averaged-last-5"]
    store.save_named("averaged", 400, model={})
    assert leftovers(store) == [".tmp-averaged-last-5"]
