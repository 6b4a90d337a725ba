"""Which models CTranslate2 can hold, and writing one that has been built as a folder that CTranslate2 reads."""

from pathlib import Path

import numpy as np

from t2t.inference.ctranslate2.spec import FLOAT32, complaints, write_weights
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.layers.modalities.base import TokenEmbedding, TokenSoftmax
from t2t.models.base import SequenceModel
from t2t.models.transformer import Decoder, Transformer
from t2t.specs.features import FeatureKind


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
    """Writes a model that has no `model_complaints`; see `t2t.inference.ctranslate2.spec.write_weights`."""
    weights = {v.path.partition("/")[2]: np.asarray(v) for v in model.variables} | _embedding_tables(model)
    write_weights(folder, model.hparams, weights, tokens, longest, weights_in, alignment)


def _embedding_tables(model: Transformer) -> dict[str, np.ndarray]:
    """Returns the tables and the bias of tokens by path; in a model of several problems, their own paths differ."""
    tables = {
        "source_embedding/table": model.source_embedding.table,
        "target_embedding/table": model.target_embedding.table,
        "output_embedding/table": model.top.table(),
    }
    tables |= {} if model.top.bias is None else {"output_embedding/bias": model.top.bias}
    return {path: np.asarray(table) for path, table in tables.items()}
