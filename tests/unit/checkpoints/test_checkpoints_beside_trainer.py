"""Loading while a trainer saves and prunes: at any moment a complete checkpoint is loaded."""

import errno
import io
import itertools
import os

import numpy as np
import pytest

from t2t.checkpoints.checkpoint import DamagedCheckpointError
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError


class Trainer:
    """Saves and prunes just before the reader's n-th opening of a file or listing of a folder, or before each.

    Args:
        patch: pytest's monkeypatch.
        folder: of the checkpoints.
        stage: number of the operation; None for each.
        keep: number of checkpoints to keep.
        same: whether it saves the same step again, as a run that fell back to an earlier checkpoint.
    """

    def __init__(self, patch, folder, stage=None, keep=1, same=False):
        self.store, self.step, self.same, self.keep = CheckpointStore(folder), 200, same, keep
        self.stage, self.seen, self.is_at_work = stage, 0, False
        save(self.store, 100, 200)
        for module, name in ((io, "open"), (os, "listdir"), (os, "scandir")):
            patch.setattr(module, name, self.wrap(getattr(module, name)))

    def wrap(self, real):
        def wrapped(path=".", *args, **options):
            if not self.is_at_work and str(self.store.folder) in str(path):
                self.seen += 1
                if self.stage in (None, self.seen):
                    self.is_at_work = True
                    self.save_next()
                    self.is_at_work = False
            return real(path, *args, **options)

        return wrapped

    def save_next(self):
        self.step += 0 if self.same else 100
        save(self.store, self.step, version=self.seen)
        self.store.prune(self.keep)


def save(store, *steps, version=0):
    for step in steps:
        arrays = {"w": np.array([step, version])}
        store.save(step, model=arrays, optimizer=arrays, ema=arrays, state={"version": version})
        store.mark_best(step, "bleu", float(step))


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("which", ["latest", "best", "run"])
def test_whenever_the_trainer_saves_a_whole_checkpoint_is_read(tmp_path, monkeypatch, caplog, which, same):
    for stage in itertools.count(1):
        folder = tmp_path / str(stage) / "checkpoints"
        with monkeypatch.context() as patch:
            trainer = Trainer(patch, folder, stage, same=same)
            loaded = CheckpointStore(folder).load(which if which != "run" else str(folder.parent))
        if trainer.seen < stage:
            break
        assert loaded.step in (200, trainer.step)
        for arrays in (loaded.model, loaded.optimizer, loaded.ema):
            assert arrays["w"].tolist() == [loaded.step, loaded.state["version"]]
    assert stage > 6, "pointer, folder, checksums, state and three parts were read"
    assert not caplog.records, "nothing was damaged, and nothing is missing"


def test_a_step_that_is_pruned_meanwhile_is_answered_with_those_there_are(tmp_path, monkeypatch):
    Trainer(monkeypatch, tmp_path, stage=3)
    with pytest.raises(UserError, match=r"checkpoint '200': there is none; .* holds steps 300; give latest, best"):
        CheckpointStore(tmp_path).load(200)


def test_a_trainer_that_is_always_faster_ends_the_attempts(tmp_path, monkeypatch):
    trainer = Trainer(monkeypatch, tmp_path)
    with pytest.raises(DamagedCheckpointError, match=r"is missing; restore it from a copy .* holds steps \d+$"):
        CheckpointStore(tmp_path).load("best")
    assert 10 <= trainer.seen < 100


def test_a_file_that_another_machine_removed_is_looked_for_again(tmp_path, monkeypatch):
    save(CheckpointStore(tmp_path), 200)
    real, failed = io.open, []

    def stale(path, *args, **options):
        if str(path).endswith("model.safetensors") and not failed:
            failed.append(path)
            save(CheckpointStore(tmp_path), 300)
            CheckpointStore(tmp_path).prune(1)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(io, "open", stale)
    assert CheckpointStore(tmp_path).load().step == 300
