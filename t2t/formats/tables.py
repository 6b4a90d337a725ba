"""Converts the embedding and output tables of a foreign network.

Legend: D width, U foreign ids.
"""

from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.formats.foreign_vocabulary import ForeignVocabulary


def token_weights(
    source: ForeignVocabulary,
    target: ForeignVocabulary,
    tables: tuple[np.ndarray, np.ndarray, np.ndarray],
    bias_U: np.ndarray | None,
) -> tuple[Arrays, dict[str, Any]]:
    """Returns the weights of embeddings and output layer, and the hparams for the tables that they share.

    Args:
        source: vocabulary of the inputs.
        target: vocabulary of the targets; the same object if it is shared.
        tables: tables of inputs, targets and the output layer, (U, D) each, by foreign ids.
        bias_U: bias of the logits, if any.

    Raises:
        UserError: the number of rows of a table differs from the size of its vocabulary.
    """
    inputs = source.rows(tables[0], "its table of inputs")
    targets = target.rows(tables[1], "its table of targets")
    outputs = target.rows(tables[2], "its output layer")
    weights = {"target_embedding/table": targets}
    is_shared = source is target and np.array_equal(inputs, targets)
    is_tied = np.array_equal(outputs, targets)
    has_bias = not target.has_padding or (bias_U is not None and bool(np.any(bias_U)))
    weights |= {} if is_shared else {"source_embedding/table": inputs}
    weights |= {} if is_tied else {"output_embedding/table": outputs}
    weights |= {"output_embedding/bias": target.biases(bias_U)} if has_bias else {}
    return weights, {
        "shared_embedding": is_shared,
        "shared_embedding_and_softmax_weights": is_tied,
        "output_bias": has_bias,
    }


def scaled(weight: np.ndarray, factor: float) -> np.ndarray:
    """Returns the product, rounded once."""
    return weight if factor == 1.0 else (weight.astype(np.float64) * factor).astype(np.float32)
