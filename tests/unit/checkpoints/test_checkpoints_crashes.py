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
from tests.errors import refused

OPERATIONS = (
    *((os, name) for name in ("fsync", "rename", "replace", "mkdir", "chmod", "unlink", "rmdir")),
    (shutil, "rmtree"), (arrays_module, "save_file"),
)  # fmt: skip
"""All that change the disk."""


class Killed(BaseException):
    """Simulates the death of the process; not an Exception, so that handlers of errors do not catch it."""


def arrays(value):
    return {"model": {"w": np.full(4, value)}, "optimizer": {"m": np.full(4, -value)}}


def save(store, step, value=None):
    value = step / 100 if value is None else value
    store.save(step, **arrays(value), state={"value": value})


def state_of(store):
    """Loads and verifies every checkpoint; returns the value of each, the latest step and the best one."""
    values = {}
    for which in [*store.steps(), *store.names()]:
        loaded = store.load(which)
        values[which] = loaded.state["value"]
        assert (loaded.model["w"] == values[which]).all()
    best, latest = store.best(), store.latest()
    assert latest == (latest and store.load("latest").step)
    return values, latest, best and best.step


def leftovers(store):
    return [path.name for path in store.folder.iterdir() if path.name.startswith(".")]


def save_average(store, value):
    store.save_named("averaged", 200, model={"w": np.full(4, value)}, state={"value": value})


def prepare_two(store):
    save(store, 100)
    save(store, 200)
    store.mark_best(100, "bleu", 30.0)


def prepare_average(store):
    prepare_two(store)
    save_average(store, 1.5)


def prepare_four(store):
    for step in (100, 200, 300, 400):
        save(store, step)
    store.mark_best(200, "bleu", 30.0)


TWO = {100: 1.0, 200: 2.0}
FOUR = {100: 1.0, 200: 2.0, 300: 3.0, 400: 4.0}
ACTIONS = {
    "the first save": (
        lambda store: None, lambda store: save(store, 100),
        # Between the renaming of the folder and that of the pointer, the pointer does not exist.
        [({}, None, None), ({100: 1.0}, 100, None)],
    ),
    "a save": (
        prepare_two, lambda store: save(store, 300),
        # Between the two renames the new checkpoint exists, but the pointer still names the previous one.
        [(TWO, 200, 100), ({**TWO, 300: 3.0}, 200, 100), ({**TWO, 300: 3.0}, 300, 100)],
    ),
    "replacing": (
        prepare_two, lambda store: save(store, 200, value=5.0),
        [(TWO, 200, 100), ({**TWO, 200: 5.0}, 200, 100)],
    ),
    "averaging again": (
        prepare_average, lambda store: save_average(store, 2.5),
        [({**TWO, "averaged": 1.5}, 200, 100), ({**TWO, "averaged": 2.5}, 200, 100)],
    ),
    "pruning": (
        prepare_four, lambda store: store.prune(1),
        [({step: FOUR[step] for step in FOUR if step not in gone}, 400, 200)
         for gone in ((), (100,), (300,), (100, 300))],
    ),
    "marking the best": (
        prepare_two, lambda store: store.mark_best(200, "bleu", 31.0),
        [(TWO, 200, 100), (TWO, 200, 200)],
    ),
}  # fmt: skip
"""By name: what is there before, what is done, and all states that may be found after an interruption, in order."""


@pytest.mark.parametrize("error", [Killed(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))], ids=["killed", "full"])
@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_interrupted_anywhere_leaves_what_was_before_or_after_it(tmp_path, before_calls, action, error):
    """Interrupts each operation on the disk in turn; a process that was killed does none after it."""
    prepare, act, states = ACTIONS[action]
    prepared = CheckpointStore(tmp_path / "prepared/checkpoints")
    prepared.folder.parent.mkdir()
    prepare(prepared)
    for stage in range(1000):
        store = CheckpointStore(tmp_path / str(stage) / "checkpoints")
        shutil.copytree(prepared.folder.parent, store.folder.parent, copy_function=os.link)
        left = [stage]

        def interrupt(name, *args, left=left):
            left[0] -= 1
            if left[0] == -1 or (left[0] < 0 and isinstance(error, Killed)):
                if name == "save_file":
                    args[1].write_bytes(b"half of i")
                raise error

        finished = True
        with before_calls(interrupt, *OPERATIONS):
            try:
                act(store)
            except (Killed, MachineError):
                finished = False
        found = state_of(store)
        assert found in states
        if isinstance(error, OSError) and "save" in action and store.folder.exists():
            assert not leftovers(store)  # leftovers would keep the disk full
        act(store)
        assert state_of(store) == states[-1]
        save(store, 500)
        assert store.load("latest").step == 500
        assert not leftovers(store)
        if finished:
            assert found == states[-1]
            assert stage > 2
            return
    pytest.fail("the action never ends")


def test_files_reach_the_disk_before_the_name_and_the_name_before_the_pointer(tmp_path, before_calls):
    store = CheckpointStore(tmp_path / "checkpoints")
    save(store, 1)
    done = []

    def record(name, *args):
        target = args[-1] if name != "fsync" else os.readlink(f"/proc/self/fd/{args[0]}")
        done.append((name, os.path.basename(target)))

    with before_calls(record, (os, "fsync"), (os, "rename"), (os, "replace")):
        save(store, 2)
    files = ["checksums.json", "model.safetensors", "optimizer.safetensors", "state.json"]
    assert sorted(done[:4]) == [("fsync", name) for name in files]
    assert done[4:] == [
        ("fsync", ".tmp-step-00000002"), ("rename", "step-00000002"), ("fsync", "checkpoints"),
        ("fsync", ".tmp-latest.json"), ("replace", "latest.json"), ("fsync", "checkpoints"),
    ]  # fmt: skip


def test_a_file_that_cannot_grow_and_a_folder_that_cannot_be_made_are_the_machines_fault(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    prepare_two(store)
    before = state_of(store)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with refused("step-00000300", "ulimit", by=MachineError):
            store.save(300, model={"w": np.zeros(1 << 20)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert state_of(store) == before
    assert not leftovers(store)
    (tmp_path / "file").write_text("")
    with refused("step-00000001", tmp_path / "file", by=MachineError):
        CheckpointStore(tmp_path / "file" / "checkpoints").save(1, model={})


def test_trainer_and_averager_leave_each_others_unfinished_work_alone(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints")
    prepare_two(store)
    for name in (".tmp-step-00000300", ".tmp-averaged", ".tmp-averaged-last-5"):
        (store.folder / name).mkdir()
    save(store, 400)
    assert sorted(leftovers(store)) == [".tmp-averaged", ".tmp-averaged-last-5"]
    store.save_named("averaged", 400, model={})
    assert leftovers(store) == [".tmp-averaged-last-5"]
