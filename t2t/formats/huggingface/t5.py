"""T5 and mT5 of transformers, `T5ForConditionalGeneration` and `MT5ForConditionalGeneration`; runs become the first.

Raffel et al. 2020 (arXiv:1910.10683), section 2.1; Xue et al. 2021 (arXiv:2010.11934). Two conventions differ from
ours, so weights are scaled:

    attention scores are q k^T, not q k^T / sqrt(K)                          W^Q is multiplied by sqrt(K)
    embeddings are rows of the table, not sqrt(D) times them                 the table is divided by sqrt(D)

In version 1.0 the output layer is the embedding table, applied to hidden states divided by sqrt(D): this is our divided
table. From version 1.1 on, and in mT5, the output layer has a separate table.

Legend: D width, K key channels of one head, V vocabulary.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.exporter import complaints
from t2t.formats.folder import ModelFolder
from t2t.formats.foreign_vocabulary import pieces_by_id
from t2t.formats.huggingface.mapping import (
    QUERY,
    T5_FEED_FORWARD,
    T5_SIZES,
    Network,
    backwards,
    search_hparams,
    search_warnings,
    t5_parts,
)
from t2t.formats.huggingface.marian import marian_encoders
from t2t.formats.huggingface.tokenizer import TokenizerFiles
from t2t.formats.importer import ForeignRun, ImportRequest
from t2t.formats.tensors import Tensors, part_tensors, scaled, take_parts, weights_of
from t2t.hparams.transformer import TransformerHParams
from t2t.hparams.transformer_variants import t5_small
from t2t.models.transformer import Transformer
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS, UNK_ID
from t2t.text.encoder import TextEncoder
from t2t.text.imported import PieceTableEncoder, pieces_of_model

_USUAL_FEED_FORWARD = {"t5": "relu", "mt5": "gated-gelu"}
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "feed_forward_proj": tuple(T5_FEED_FORWARD),
    "is_encoder_decoder": (True,),
    "pad_token_id": (PAD_ID,),
    "eos_token_id": (EOS_ID,),
    "decoder_start_token_id": (PAD_ID,),
}
_UNUSED_BIAS = "EncDecAttention.relative_attention_bias.weight"
_EXTRA_IDS = 100
"""Default number of a tokenizer's sentinels."""
_TABLES = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def read(folder: ModelFolder, request: ImportRequest) -> ForeignRun:
    """Reads the folder of a model and its tokenizer.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    folder.config.check(_ALLOWED)
    tensors, is_scaled = folder.read_tensors(), _scales_outputs(folder.config)
    table, output = _tables(tensors)
    is_tied = is_scaled and output is table
    hparams = _hparams(folder).replace(shared_embedding_and_softmax_weights=is_tied)
    weights = {"target_embedding/table": scaled(table, hparams.hidden_size**-0.5)}
    if not is_tied:
        weights["output_embedding/table"] = scaled(output, hparams.hidden_size**-0.5 if is_scaled else 1.0)
    weights |= _stacks(tensors, hparams)
    return ForeignRun(
        problem=request.problem.with_encoders(_encoders(folder, len(table))),
        hparams=hparams,
        hparams_set="t5_small",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config.json",
        notes=tuple(_prefixes(folder.config)),
        warnings=search_warnings(folder),
    )


def _hparams(folder: ModelFolder) -> TransformerHParams:
    """Returns the hparams of the network and its search, with T5's values for training."""
    config = folder.config
    usual = {"num_decoder_layers": config.size("num_layers"), "relative_attention_max_distance": 128}
    sizes = {ours: config.size(theirs, usual.get(theirs)) for theirs, ours in T5_SIZES.items()}
    channels, dropout = sizes["num_heads"] * config.size("d_kv"), config.number("dropout_rate", 0.1)
    form = config.get("feed_forward_proj", _USUAL_FEED_FORWARD[config["model_type"]])
    activation, is_gated = T5_FEED_FORWARD[form]
    return t5_small().replace(
        **sizes,
        attention_key_channels=channels,
        attention_value_channels=channels,
        activation=activation,
        gated_feed_forward=is_gated,
        norm_epsilon=config.number("layer_norm_epsilon", 1e-6),
        layer_prepostprocess_dropout=dropout,
        attention_dropout=dropout,
        relu_dropout=dropout,
        **search_hparams(folder),
    )


def _scales_outputs(config: Mapping[str, Any]) -> bool:
    """Returns whether hidden states are divided by sqrt(D) before the output layer, as in version 1.0."""
    if config["model_type"] != "t5":
        return False
    return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False))


def _encoders(folder: ModelFolder, rows: int) -> dict[str, TextEncoder]:
    """Returns the encoders of both sides: T5's tokenizer, or Marian's, as in exports of runs trained here."""
    if folder.has("spiece.model") or not folder.has("vocab.json"):
        encoder = PieceTableEncoder(folder.read("spiece.model"), _pieces(folder, rows), sentinels=True)
        return dict.fromkeys((INPUTS, TARGETS), encoder)
    pieces = pieces_by_id(folder.read_json("vocab.json"), str(folder.path / "vocab.json"))
    if len(pieces) != rows or pieces[UNK_ID : UNK_ID + 1] != ["<unk>"]:
        raise UserError(
            f"{folder.path}: the table has {rows} rows, vocab.json {len(pieces)} ids, of which {UNK_ID} is "
            f"{pieces[UNK_ID : UNK_ID + 1]}; there must be as many, and {UNK_ID} be <unk>",
            "get both again",
        )
    TokenizerFiles(folder).check_added(pieces, "in vocab.json")
    return marian_encoders(folder, pieces, pieces)


def _pieces(folder: ModelFolder, rows: int) -> list[str]:
    """Returns the pieces by id: the model's, the sentinels from the last to <extra_id_0>, and names of unused rows."""
    pieces, reserved = pieces_of_model(folder.read("spiece.model"))
    if reserved != (PAD_ID, EOS_ID, UNK_ID):
        raise UserError(
            f"{folder.path / 'spiece.model'} has padding, end of sequence and unknown at {reserved}",
            f"T5's have them at {(PAD_ID, EOS_ID, UNK_ID)}, and other models cannot be imported",
        )
    files = TokenizerFiles(folder)
    pieces += [f"<extra_id_{n}>" for n in reversed(range(files.extra_ids(_EXTRA_IDS)))]
    files.check_added(pieces, "pieces of spiece.model or its sentinels")
    if len(pieces) > rows:
        raise UserError(
            f"{folder.path}: the table has {rows} rows, and spiece.model with its sentinels {len(pieces)} pieces",
            "copy the files of one model, tokenizer_config.json included",
        )
    return [*pieces, *(f"<row {n}>" for n in range(len(pieces), rows))]


def _tables(tensors: Tensors) -> tuple[np.ndarray, np.ndarray]:
    """Returns the embedding table and the output table, (V, D) each; the same object if they are equal."""
    name, *copies = _TABLES
    tensors.rename(name, *copies)
    table = tensors.take(name)
    for copy in copies:
        tensors.drop_copy(copy, name)
    if "lm_head.weight" not in tensors:
        return table, table
    output = tensors.take("lm_head.weight")
    return table, table if np.array_equal(output, table) else output


def _stacks(tensors: Tensors, hparams: TransformerHParams) -> Arrays:
    """Returns the weights of both stacks."""
    parts = t5_parts(hparams.encoder_layers, hparams.decoder_layers, hparams.gated_feed_forward)
    query_scale = (hparams.key_channels // hparams.num_heads) ** 0.5
    weights = {
        path: scaled(weight, query_scale) if path.endswith(f"{QUERY}kernel") else weight
        for path, weight in take_parts(tensors, parts).items()
    }
    tensors.drop(f"decoder.block.0.layer.1.{_UNUSED_BIAS}", "attention to inputs has no positions")
    return weights


def _prefixes(config: Mapping[str, Any]) -> list[str]:
    """Returns a note about task prefixes of texts, if the configuration lists any."""
    tasks = config.get("task_specific_params")
    found = [task.get("prefix") for task in tasks.values() if isinstance(task, dict)] if isinstance(tasks, dict) else []
    prefixes = [repr(prefix) for prefix in found if isinstance(prefix, str)]
    return [f"texts begin with the name of their task: {', '.join(prefixes)}"] if prefixes else []


_FORMS = backwards(T5_FEED_FORWARD)
_WANTED = {
    "norm_position": ("pre",),
    "norm_type": ("rms",),
    "positions": ("relative_bias",),
    "target_start": ("pad",),
    "attention_bias": (False,),
    "feed_forward_bias": (False,),
    "output_bias": (False,),
}


def t5_complaints(hparams: TransformerHParams) -> list[str]:
    """Returns the settings that T5's network does not support."""
    found = complaints(hparams, _WANTED)
    same = {"num_decoder_heads": (0, hparams.num_heads), "decoder_filter_size": (0, hparams.filter_size)}
    found += complaints(hparams, same)
    if (hparams.activation, hparams.gated_feed_forward) not in _FORMS:
        found.append(f"activation={hparams.activation} with gated_feed_forward={hparams.gated_feed_forward}")
    return found


def t5_network(model: Transformer) -> Network:
    """Returns the configuration and tensors of a supported model."""
    hparams = model.hparams
    head_size = hparams.key_channels // hparams.num_heads
    weights = {
        path: scaled(weight, head_size**-0.5) if path.endswith(f"{QUERY}kernel") else weight
        for path, weight in weights_of(model).items()
    }
    parts = t5_parts(hparams.encoder_layers, hparams.decoder_layers, hparams.gated_feed_forward)
    table_VD = scaled(np.asarray(model.target_embedding.table), hparams.hidden_size**0.5)
    tensors = part_tensors(parts, weights) | {"shared.weight": table_VD}
    is_tied = hparams.shared_embedding_and_softmax_weights
    if not is_tied:
        tensors["lm_head.weight"] = np.asarray(model.top.table())
    layers = {"num_encoder_layers": hparams.encoder_layers, "num_decoder_layers": hparams.decoder_layers}
    config = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "is_encoder_decoder": True,
        "dtype": "float32",
        "vocab_size": len(table_VD),
        "d_kv": head_size,
        **{theirs: layers.get(ours) or getattr(hparams, ours) for theirs, ours in T5_SIZES.items()},
        "dropout_rate": hparams.layer_prepostprocess_dropout,
        "layer_norm_epsilon": hparams.norm_epsilon,
        "feed_forward_proj": _FORMS[hparams.activation, hparams.gated_feed_forward],
        "tie_word_embeddings": is_tied,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "decoder_start_token_id": PAD_ID,
    }
    return Network(config, tensors, PAD_ID, None)
