"""A trained model as notebooks of Tensor2Tensor use it: made of a set, filled from a checkpoint, asked by `infer`."""

import contextlib
import contextvars
import functools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.checkpoints.run_dir import RunDir
from t2t.compat.tensor2tensor.text_encoder import EOS_ID, PAD_ID, strip_ids
from t2t.errors import UserError
from t2t.formats.importer import TENSOR2TENSOR
from t2t.registry import MODELS
from t2t.runs.importing import import_run
from t2t.runs.names import request_import
from t2t.runs.trained_api import load

_CHECKPOINT: contextvars.ContextVar[str] = contextvars.ContextVar("checkpoint", default="")
_OF_RUNS = "checkpoints"
"""Folder of a run of this project in which its checkpoints lie."""


@contextlib.contextmanager
def restored(path: Any) -> Iterator[None]:
    """Context in which models answer with the weights of a checkpoint: a run, or a checkpoint of Tensor2Tensor."""
    token = _CHECKPOINT.set(os.fspath(path) if path else "")
    try:
        yield
    finally:
        _CHECKPOINT.reset(token)


class TrainedModel:
    """What `registry.model(name)` makes of hparams and a mode."""

    registered_name: ClassVar[str] = ""

    def __init__(self, hparams: Any, mode: str = "", *unused: Any, **unused_too: Any):
        self.hparams, self.mode = hparams, mode

    def infer(
        self, features: Any, decode_length: int = 50, beam_size: int = 1, top_beams: int = 1, alpha: float = 0.0,
        **unused: Any,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Returns the outputs for ids of inputs, (B, S) or with more axes of size 1, as ids (B, T) with their ends.

        Raises:
            UserError: it is not called with the weights of a checkpoint, or several outputs are asked for.
        """
        path = _CHECKPOINT.get()
        if not path:
            raise UserError(
                "infer: the model has no weights",
                "call it in `with tf.contrib.eager.restore_variables_on_create(path)`, a run or a checkpoint of "
                "Tensor2Tensor",
            )
        if top_beams != 1:
            raise UserError(
                f"infer: top_beams={top_beams}, and it gives one output", "t2t.load(run).translate gives more"
            )
        inputs = np.asarray(features["inputs"])
        rows = [strip_ids(row.tolist(), (PAD_ID, EOS_ID)) for row in inputs.reshape(len(inputs), -1)]
        how = {"beam_size": beam_size, "alpha": alpha, "extra_length": decode_length}
        found = _translator(path, self.registered_name, self.hparams).translate_ids(rows, **how)
        outputs = [[*strip_ids(output[0].ids, (EOS_ID,)), EOS_ID] for output in found]
        longest = max(map(len, outputs))
        return {"outputs": np.asarray([[*ids, *[PAD_ID] * (longest - len(ids))] for ids in outputs])}


def trained_model(name: str) -> type[TrainedModel]:
    """Returns the class of a model; raises UserError for a name that does not exist."""
    MODELS.entry(name)
    return type(name, (TrainedModel,), {"registered_name": name})


@functools.lru_cache(maxsize=2)
def _loaded(run: str) -> Any:
    return load(run)


def _translator(path: str, model: str, hparams: Any) -> Any:
    run = path.partition(f"{os.sep}{_OF_RUNS}")[0]
    # Folders of Tensor2Tensor's checkpoints may have that name, too.
    is_own = run.startswith("zoo:") or RunDir.exists(Path(run)) or os.path.isdir(path)
    return _loaded(run if is_own else _imported(path, hparams))


def _imported(path: str, hparams: Any) -> str:
    """Returns the run that a checkpoint of Tensor2Tensor becomes: in a temporary folder, until this process ends."""
    problem = hparams.get("problem")
    if problem is None:
        raise UserError(f"{path}: its problem is unknown", "call create_hparams(..., problem_name=...)")
    if path not in _IMPORTED:
        folder = _temporary()
        theirs, vocabulary = folder / "theirs", folder / "vocabulary"
        theirs.mkdir()
        for file in Path(path).parent.iterdir():
            (theirs / file.name).symlink_to(file.resolve())
        if not (theirs / "hparams.json").exists():  # as of the checkpoints that were published
            (theirs / "hparams.json").write_text(json.dumps(hparams.values(), default=str), encoding="utf-8")
        vocabulary.write_bytes(problem.feature_encoders(hparams.get("data_dir"))["targets"].own.to_bytes())
        step = path.rpartition("-")[2]
        import_run(
            request_import(
                TENSOR2TENSOR, theirs, problem.name, output_dir=folder / "run", vocab_file=vocabulary,
                step=int(step) if step.isdigit() else None,
            )
        )  # fmt: skip
        _IMPORTED[path] = str(folder / "run")
    return _IMPORTED[path]


def _temporary() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="t2t-notebook-")
    _FOLDERS.append(folder)  # removed with this process
    return Path(folder.name)


_IMPORTED: dict[str, str] = {}
"""Checkpoint of Tensor2Tensor -> its run."""
_FOLDERS: list[Any] = []
