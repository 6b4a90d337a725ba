"""Finds the checkpoint of a warm start."""

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import LATEST, CheckpointStore
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.runs.run_checks import check_checkpoint


def find_source(source: str) -> tuple[CheckpointStore, str]:
    """Returns the checkpoint store of a run or checkpoint folder, and the checkpoint's name in it.

    Raises:
        UserError: there is no checkpoint.
    """
    store, which = CheckpointStore(local_path(source)), source
    if RunDir.exists(source):
        store, which = CheckpointStore(RunDir.open(source).checkpoints_folder), LATEST
    try:
        check_checkpoint(store, which)
    except UserError as error:
        raise UserError(f"--warm_start_from={source}: {error}") from error
    return store, which


def absolute_path(path: str) -> str:
    """Returns a path as records have it."""
    return str(local_path(path).resolve())
