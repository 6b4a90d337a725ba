"""Imports Transformers of OpenNMT-tf 2: the paper's network with sinusoids starting at 1, and biases everywhere.

A folder has a checkpoint, `ckpt-<step>.index` and `.data-*`, `model_description.py`, the training configuration, and
the vocabularies that it names.

Legend: L positions, D width, V vocabulary.
"""

from typing import Any

from t2t.errors import UserError
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import sides_of
from t2t.formats.huggingface.settings import number_of
from t2t.formats.importer import ForeignRun, ImportRequest
from t2t.formats.opennmt_tf.folder import Configuration, read_configuration
from t2t.formats.opennmt_tf.weights import ATTRIBUTES, convert_stacks, convert_tables
from t2t.formats.tables import token_weights
from t2t.formats.tensorflow_checkpoint import find_checkpoint, read_objects
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer_bart import TransformerBartHParams, transformer_m2m
from t2t.specs.constants import INPUTS, TARGETS

_EPSILON = 1e-3
"""Epsilon of Keras's norms."""
_FIRST_POSITION = 1


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder of OpenNMT-tf.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    folder = ModelFolder(request.model_dir)
    configuration = read_configuration(folder)
    prefix = find_checkpoint(folder.path, request.step, "ckpt")
    tensors = Tensors(read_objects(prefix, "model", ATTRIBUTES), f"checkpoint {prefix}")
    source, target = configuration.source, configuration.target
    models = [path.read_bytes() for path in request.sentencepiece_models]
    encoders, notes, warnings = sides_of([(INPUTS, source), (TARGETS, target)], models)
    warnings += () if models else _tokenizer_warnings(configuration)
    weights, settings = token_weights(source, target, *convert_tables(tensors))
    hparams = _hparams(folder, configuration, tensors).replace(**settings)
    weights |= convert_stacks(tensors, hparams)
    return ForeignRun(
        problem=request.problem.with_encoders(encoders),
        model="transformer_bart",
        hparams=hparams,
        hparams_set="transformer_m2m",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its description and its vocabularies",
        notes=(*notes, f"checkpoint: update {prefix.name.rpartition('-')[2]} of the original; training starts at 0"),
        warnings=warnings,
    )


def _tokenizer_warnings(configuration: Configuration) -> tuple[str, ...]:
    """Returns a warning if the model's texts were split by tokenizers of OpenNMT-tf."""
    named = " and ".join(f"{name} ({kind})" for name, kind in configuration.tokenizers.items())
    if not named:
        return ()
    return (
        f"the model's texts were split by {named}, which is not imported: give texts that are split likewise, or "
        f"import the model with its --sentencepiece_model",
    )


def _hparams(folder: ModelFolder, configuration: Configuration, tensors: Tensors) -> TransformerBartHParams:
    """Returns the hparams, with `transformer_m2m`'s values for training settings that are in no file."""
    description, params = configuration.description, configuration.params
    inner = tensors.take("encoder/layers/0/ffn/layer/inner/kernel")
    return transformer_m2m().replace(
        hidden_size=inner.shape[0],
        filter_size=inner.shape[1],
        num_encoder_layers=_count(tensors, "encoder"),
        num_decoder_layers=_count(tensors, "decoder"),
        num_heads=description.heads,
        activation=description.activation,
        attention_bias="encoder/layers/0/self_attention/layer/linear_queries/bias" in tensors,
        norm_position="pre" if "encoder/layer_norm/gamma" in tensors else "post",
        norm_epsilon=_EPSILON,
        target_start="pad",
        input_end=configuration.ends_inputs,
        layer_prepostprocess_dropout=float(description.dropout),
        attention_dropout=float(description.attention_dropout),
        relu_dropout=float(description.ffn_dropout),
        label_smoothing=number_of(folder, params, "label_smoothing", 0.0),
        beam_size=int(number_of(folder, params, "beam_width", 4)),
        length_penalty="gnmt",
        alpha=number_of(folder, params, "length_penalty", 0.0),
        **_positions(configuration, tensors),
    )


def _count(tensors: Tensors, side: str) -> int:
    """Returns the number of layers of a stack."""
    count = 0
    while f"{side}/layers/{count}/ffn/layer/inner/kernel" in tensors:
        count += 1
    return count


def _positions(configuration: Configuration, tensors: Tensors) -> dict[str, Any]:
    """Returns the hparams of positions."""
    keys, table = "encoder/layers/0/self_attention/layer/relative_position_keys", "encoder/position_encoder/embedding"
    has_sinusoids, origin = configuration.description.has_sinusoids, tensors.origin
    none = {"sinusoid_layout": "interleaved", "first_position": 0}
    if table in tensors:
        if keys in tensors:
            raise UserError(f"{origin} has relative positions and a table of them; models here have one kind")
        return {"positions": "learned", "max_length": len(tensors.take(table)) - _FIRST_POSITION, **none}
    if keys in tensors:
        if has_sinusoids:
            raise UserError(
                f"{origin} has relative positions, and its description sinusoids; models here have one kind"
            )
        return {"positions": "relative", "max_relative_position": (len(tensors.take(keys)) - 1) // 2, **none}
    if not has_sinusoids:
        return {"positions": "none", **none}
    return {"positions": "sinusoidal", "sinusoid_layout": "split", "first_position": _FIRST_POSITION}
