"""Imports Tensor2Tensor's own test checkpoint and checks its variables, learning rate and outputs.

The checkpoint was saved after one Adam update at the first learning rate of its schedule, 2 d^-0.5 8000^-1.5 with
d = 16. The biases, which start at 0, have therefore moved by exactly this rate.
"""

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.known_answers import Row
from t2t.checkpoints.store import CheckpointStore
from t2t.formats.importer import TENSOR2TENSOR
from t2t.runs.importing import ImportReport, import_run
from t2t.runs.loading import load
from t2t.runs.names import request_import
from t2t.training.schedules import learning_rate

CHECKPOINT = "t2t_oracle/transformer_test_ckpt"
VOCABULARY = "t2t_oracle/vocab.translate_ende_wmt8k.8192.subwords.gz"
TABLE = "transformer/target_embedding/table"
TABLE_ROWS = 32
"""Rows of the target space embedding; a run has one target space and keeps only its row."""


def check(data: Path) -> list[Row]:
    """Imports the checkpoint into a temporary folder and compares."""
    with tempfile.TemporaryDirectory() as folder:
        request = request_import(
            TENSOR2TENSOR, data / CHECKPOINT, vocab_file=data / VOCABULARY, output_dir=Path(folder) / "run"
        )
        report = import_run(request)
        loaded = load(request.output_dir)
        written = loaded.translator().translate(["Hello world."], extra_length=3)[0][0].ids
        stored = CheckpointStore(request.output_dir / "checkpoints").load().model
    ids = " ".join(map(str, loaded.translator().encode(["Hello world."])[0]))
    return [
        *_variables(report),
        *_rate(report, loaded.hparams),
        _row("standard deviation of the embeddings, d^-0.5", "0.25", f"{stored[TABLE].std():.2f}"),
        _row("ids of 'Hello world.'", "4928 4071 220 4", ids),
        _row("it decodes: ids within the vocabulary", "True", str(all(0 < i < 8190 for i in written))),
    ]


def _variables(report: ImportReport) -> list[Row]:
    rows_left = (TABLE_ROWS - 1) * 16
    return [
        _row("variables of the network", "81", str(report.run.tensors)),
        _row("their values", "139200", str(report.parameters + rows_left)),
        _row("moments of Adam", "2", str(len(report.run.moments))),
        _row("English to German", "target space 8", report.run.notes[0]),
    ]


def _rate(report: ImportReport, hparams) -> list[Row]:
    biases = [
        np.abs(array)
        for path, array in report.run.weights.items()
        if path.endswith(("beta", "inner/bias", "outer/bias"))
    ]
    moved = float(np.median(np.concatenate(biases)))  # biases with a gradient near Adam's epsilon move less
    rate = learning_rate(hparams, 1)
    return [
        _row("how far the biases moved in one update, median", "6.9877e-07", f"{moved:.5g}"),
        _row("learning rate of update 1 here", "6.98771e-07", f"{rate:.6g}"),
    ]


def _row(check: str, expected: str, found: str) -> Row:
    return Row(check=check, expected=expected, found=found, ok=found == expected)
