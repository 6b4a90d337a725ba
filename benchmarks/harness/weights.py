"""The weights of a trained run, in a file that the peers' drivers read.

Legend: V vocabulary, D width.
"""

from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError

LONGEST = 1024
"""Positions that are told apart."""

_NEEDED = {
    "norm_position": "post",
    "activation": "relu",
    "positions": "sinusoidal",
    "sinusoid_layout": "interleaved",
    "shared_embedding": True,
    "shared_embedding_and_softmax_weights": True,
    "target_space_embedding": False,
}
"""What the drivers build for every peer."""


def export(run_dir: Path, file: Path) -> dict[str, Any]:
    """Writes a run's latest weights by variable path, without the model's name, and `positions`, (LONGEST, D).

    Args:
        run_dir: of a Transformer.
        file: the .npz to write.

    Returns:
        its sizes, as `Config.to_dict` names them, `vocab_size`, `epsilon` of the norms, and its `hparams`.

    Raises:
        UserError: no run, or a network that the drivers do not build.
    """
    run = RunDir.open(str(run_dir))
    hparams = run.record.hparams["model"]
    # Older runs lack fields that were added since with these values for a default.
    other = [f"{name}={hparams[name]}" for name, value in _NEEDED.items() if hparams.get(name, value) != value]
    if run.record.model != "transformer" or other:
        raise UserError(
            f"--run={run_dir}: the peers build a Transformer with {', '.join(f'{n}={v}' for n, v in _NEEDED.items())}; "
            f"found {', '.join([run.record.model, *other])}; name a run of transformer_base's kind"
        )
    weights = CheckpointStore(run.checkpoints_folder).load_model("latest").weights
    plain = {path.partition("/")[2]: array for path, array in weights.items()}
    table = plain["target_embedding/table"]
    np.savez(file, positions=sinusoids(LONGEST, table.shape[1]), **plain)
    return {
        "width": hparams["hidden_size"],
        "inner": hparams["filter_size"],
        "layers": hparams["num_hidden_layers"],
        "heads": hparams["num_heads"],
        "dropout": 0.0,
        "vocab_size": len(table),
        "epsilon": hparams["norm_epsilon"],
        "hparams": hparams,
    }


def sinusoids(length: int, width: int) -> np.ndarray:
    """Returns the positions of the paper's section 3.5, (length, width) float32."""
    rates = 10000.0 ** -(np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, width).astype(np.float32)
