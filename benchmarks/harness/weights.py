"""Exports the weights of a trained run to a file that the peers' drivers read.

Legend: V vocabulary, D width.
"""

from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError

LONGEST = 1024
"""Rows of the exported position table."""

_NEEDED = {
    "norm_position": "post",
    "activation": "relu",
    "positions": "sinusoidal",
    "shared_embedding": True,
    "shared_embedding_and_softmax_weights": True,
    "target_space_embedding": False,
}
"""Hparams that the drivers require, since they build this network for every peer."""


def export(run_dir: Path, file: Path) -> dict[str, Any]:
    """Writes a run's latest weights and its table of positions.

    The keys are variable paths without the model's name, and `positions`, (LONGEST, D) float32.

    Args:
        run_dir: run directory of a Transformer.
        file: the .npz file to write.

    Returns:
        its sizes, named as in `Config.to_dict`, `vocab_size`, `epsilon` of the norms, and all model `hparams`.

    Raises:
        UserError: there is no run, or the drivers cannot build its network.
    """
    run = RunDir.open(str(run_dir))
    hparams = run.record.hparams["model"]
    # Runs of older versions lack newer fields, whose defaults are these values.
    other = [f"{name}={hparams[name]}" for name, value in _NEEDED.items() if hparams.get(name, value) != value]
    if run.record.model != "transformer" or other:
        raise UserError(
            f"--run={run_dir}: the peers build a Transformer with {', '.join(f'{n}={v}' for n, v in _NEEDED.items())}; "
            f"found {', '.join([run.record.model, *other])}; name a run of transformer_base's kind"
        )
    weights = CheckpointStore(run.checkpoints_folder).load_model("latest").weights
    plain = {path.partition("/")[2]: array for path, array in weights.items()}
    table = plain["target_embedding/table"]
    layout = hparams.get("sinusoid_layout", "interleaved")
    np.savez(file, positions=sinusoids(LONGEST, table.shape[1], layout), **plain)
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


def sinusoids(length: int, width: int, layout: str) -> np.ndarray:
    """Returns the table of positions for a layout of `t2t.layers.sinusoids.sinusoids`, (length, width) float32."""
    pairs = width // 2
    steps = pairs if layout == "interleaved" else pairs - 1
    angles = np.arange(length)[:, None] * 10000.0 ** -(np.arange(pairs) / steps)
    waves = [np.sin(angles), np.cos(angles)]
    return np.stack(waves, axis=2 if layout == "interleaved" else 1).reshape(length, width).astype(np.float32)
