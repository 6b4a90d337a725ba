"""Writes a Transformer as a folder that CTranslate2 reads.

Legend: D width, L positions.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from t2t.errors import UserError
from t2t.inference.ctranslate2.spec import build_spec, complaints
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.inference.rows import NOT_FINITE
from t2t.layers.modalities.tokens import TokenEmbedding, TokenSoftmax
from t2t.layers.positions import sinusoids
from t2t.models.base import SequenceModel
from t2t.models.transformer import Decoder, Transformer
from t2t.specs.features import FeatureKind

FLOAT32 = "float32"


def model_complaints(model: SequenceModel) -> list[str]:
    """Returns why CTranslate2 does not support a model; an empty list if it does."""
    return modality_complaints(model) or complaints(model.hparams)


def modality_complaints(model: SequenceModel) -> list[str]:
    """Returns why a model is no standard Transformer from tokens to tokens; an empty list if it is one."""
    kinds = [feature.kind if feature else "absent" for feature in (model.spec.inputs, model.spec.targets)]
    is_plain = isinstance(model, Transformer) and type(model.decoder) is Decoder
    if not is_plain or kinds != [FeatureKind.TOKENS] * 2:
        what = f"it is a {type(model).__name__}, its inputs are {kinds[0]}, its targets {kinds[1]}"
        return [f"{what}; a Transformer from tokens to tokens is wanted"]
    if type(model.source_embedding) is not TokenEmbedding or type(model.top) is not TokenSoftmax:
        return ["its modalities are other than those of tokens"]
    return []


def write_model(
    folder: Path,
    model: Transformer,
    tokens: TokenLists,
    longest: int,
    weights_in: str = FLOAT32,
    alignment: tuple[int, int] = (-1, 1),
) -> None:
    """Writes a model that has no `model_complaints`.

    Args:
        folder: an existing folder to write to.
        model: with its weights.
        tokens: of its vocabularies.
        longest: L, number of positions of inputs and outputs; ignored for learned positions.
        weights_in: float32, or the type that CTranslate2 is to quantize the weights to.
        alignment: see `build_spec`.

    Raises:
        UserError: the weights hold NaN or infinity.
    """
    weights = {v.path.partition("/")[2]: np.asarray(v) for v in model.variables} | _embedding_tables(model)
    if not all(np.isfinite(weight).all() for weight in weights.values()):  # an output without scores would not show it
        raise UserError(NOT_FINITE)
    positions = _positions(model, weights, longest)
    spec = build_spec(model.hparams, weights, positions, tokens.source, tokens.target, tokens.adds_end, alignment)
    spec.validate()
    spec.optimize(quantization=None if weights_in == FLOAT32 else weights_in)
    spec.save(str(folder))


def _positions(model: Transformer, weights: Mapping[str, np.ndarray], longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the position vectors of inputs and of outputs, (L, D) each."""
    hparams, table = model.hparams, "positions/table"
    if hparams.positions == "learned":
        if table in weights:
            return weights[table], weights[table]
        return weights[f"source_positions/{table}"], weights[f"target_positions/{table}"]
    if hparams.positions in ("relative", "relative_bias", "rotary", "none"):
        zeros_LD = np.zeros((longest, hparams.hidden_size), np.float32)
        return zeros_LD, zeros_LD
    first = getattr(hparams, "first_position", 0)
    waves_LD = sinusoids(longest, hparams.hidden_size, hparams.sinusoid_layout, first)
    return waves_LD, waves_LD


def _embedding_tables(model: Transformer) -> dict[str, np.ndarray]:
    """Returns the tables and the bias of tokens by path; in a model of several problems, their own paths differ."""
    tables = {
        "source_embedding/table": model.source_embedding.table,
        "target_embedding/table": model.target_embedding.table,
        "output_embedding/table": model.top.table(),
    }
    tables |= {} if model.top.bias is None else {"output_embedding/bias": model.top.bias}
    return {path: np.asarray(table) for path, table in tables.items()}
