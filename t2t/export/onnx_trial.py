"""Running graphs of ONNX by the script that lies beside them, to compare them with the run that they are of."""

from collections.abc import Sequence
from pathlib import Path

from t2t.errors import one_line
from t2t.export.onnx_script import Model
from t2t.export.parity import Answer, ParityError
from t2t.inference.rows import Row, positions_in
from t2t.inference.translator import Translator


def answers_of_graphs(folder: Path, translator: Translator, rows: Sequence[Row], count: int) -> list[list[Answer]]:
    """Returns the answers of the graphs in a folder to each row: of greedy search, or `count` answers at once.

    Raises:
        ParityError: a graph fails.
    """
    size_of, extra_length = positions_in(translator.model), translator.hparams.extra_length
    try:
        model = Model(folder)
        outputs = [model.answer(row, max(size_of(row) + extra_length, 1), count) for row in rows]
    except Exception as error:  # whatever the runtime says
        said = f"{type(error).__name__}: {one_line(error)[:300]}"
        raise ParityError(f"it fails where the run answers ({said}); the export is not kept") from error
    return [[Answer(ids, log_prob) for ids, log_prob in found] for found in outputs]
