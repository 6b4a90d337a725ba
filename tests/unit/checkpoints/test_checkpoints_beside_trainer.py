"""Loading while a trainer saves and prunes: at any moment a complete checkpoint is loaded."""

import errno
import io
import itertools
import os

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import DamagedCheckpointError
from t2t.checkpoints.store import CheckpointStore
from tests.errors import refused


class Trainer:
    """Saves and prunes just before the reader's n-th opening of a file or listing of a folder, or before each.

    Args:
        folder: of the checkpoints.
        stage: number of the operation; None for each.
        keep: number of checkpoints to keep.
        same: whether it saves the same step again, as a run that fell back to an earlier checkpoint.
    """

    def __init__(self, folder, stage=None, keep=1, same=False):
        self.store, self.step, self.same, self.keep = CheckpointStore(folder), 200, same, keep
        self.stage, self.seen, self.is_at_work = stage, 0, False
        save(self.store, 100, 200)

    def __call__(self, name, path=".", *args):
        if self.is_at_work or str(self.store.folder) not in str(path):
            return
        self.seen += 1
        if self.stage in (None, self.seen):
            self.is_at_work = True
            self.step += 0 if self.same else 100
            save(self.store, self.step, version=self.seen)
            self.store.prune(self.keep)
            self.is_at_work = False


def save(store, *steps, version=0):
    for step in steps:
        arrays = {"w": np.array([step, version])}
        store.save(step, model=arrays, optimizer=arrays, ema=arrays, state={"version": version})
        store.mark_best(step, "bleu", float(step))


READING = ((io, "open"), (os, "listdir"), (os, "scandir"))


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("which", ["latest", "best", "run"])
def test_whenever_the_trainer_saves_a_whole_checkpoint_is_read(tmp_path, before_calls, caplog, which, same):
    for stage in itertools.count(1):
        folder = tmp_path / str(stage) / "checkpoints"
        trainer = Trainer(folder, stage, same=same)
        with before_calls(trainer, *READING):
            loaded = CheckpointStore(folder).load(which if which != "run" else str(folder.parent))
        if trainer.seen < stage:
            break
        assert loaded.step in (200, trainer.step)
        for arrays in (loaded.model, loaded.optimizer, loaded.ema):
            assert arrays["w"].tolist() == [loaded.step, loaded.state["version"]]
    assert stage > 6, "pointer, folder, checksums, state and three parts were read"
    assert not caplog.records, "nothing was damaged, and nothing is missing"


def test_a_step_that_is_pruned_meanwhile_is_answered_with_those_there_are(tmp_path, before_calls):
    with before_calls(Trainer(tmp_path, stage=3), *READING), refused("'200'", 300):
        CheckpointStore(tmp_path).load(200)


def test_a_trainer_that_is_always_faster_ends_the_attempts(tmp_path, before_calls):
    trainer = Trainer(tmp_path)
    with before_calls(trainer, *READING), refused(tmp_path, by=DamagedCheckpointError):
        CheckpointStore(tmp_path).load("best")
    assert 10 <= trainer.seen < 100


def test_a_file_that_another_machine_removed_is_looked_for_again(tmp_path, before_calls):
    save(CheckpointStore(tmp_path), 200)
    failed = []

    def stale(name, path, *args):
        if str(path).endswith("model.safetensors") and not failed:
            failed.append(path)
            save(CheckpointStore(tmp_path), 300)
            CheckpointStore(tmp_path).prune(1)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

    with before_calls(stale, (io, "open")):
        assert CheckpointStore(tmp_path).load().step == 300
    assert failed
