"""Imports fairseq translation models of the architectures `transformer*`.

The network is that of `transformer_bart`: the paper's Transformer with biases in attention, Tensor2Tensor's sinusoids
starting at position 2, or learned positions, and a decoder that starts with the end of sequence. Norms, sharing of
tables, activation and depths are settings.

Legend: D width, V vocabulary, L positions.
"""

import re
from typing import Any

import numpy as np

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.fairseq import dictionary
from t2t.formats.fairseq.files import FairseqCheckpoint, read_checkpoint, read_vocabularies
from t2t.formats.huggingface.mapping import transformer_parts
from t2t.formats.ids import our_order
from t2t.formats.importer import ForeignRun, ImportRequest, alignment_hparams, unknown_values
from t2t.formats.tensors import Tensors, take_parts
from t2t.hparams.transformer_bart import TransformerBartHParams, transformer_m2m
from t2t.specs.constants import INPUTS, TARGETS

_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu_tanh", "gelu_fast": "gelu_tanh",
}  # fmt: skip
_FALSE = (False, None, 0)
_KNOWN: dict[str, tuple[Any, ...]] = {
    "task": ("translation", None),
    "activation_fn": (*_ACTIVATIONS, None),
    "adaptive_input": _FALSE, "adaptive_softmax_cutoff": (None, "", []),
    "character_embeddings": _FALSE, "char_inputs": _FALSE, "no_cross_attention": _FALSE, "cross_self_attention": _FALSE,
    "no_decoder_final_norm": _FALSE, "base_layers": _FALSE, "encoder_layers_to_keep": (None, ""),
    "decoder_layers_to_keep": (None, ""), "alternate_decoder_ffn_embed_dim": _FALSE,
}  # fmt: skip
_SAME = ("embed_dim", "normalize_before", "learned_pos")
"""Settings of encoder and decoder that share one hparam here."""
_COPIES = [f"{part}_{kind}" for part in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias")]
"""Untrained copies of weights that version 0.12.2 has in encoder layers."""
_FIRST_POSITION = dictionary.PAD + 1
_OLD_DECODER, _OLD_ENCODER = 2, 1
"""Up to these versions of the stacks, fairseq omits the norm at their end."""


def read(request: ImportRequest) -> ForeignRun:
    """Reads a folder with a checkpoint, the dictionaries of both languages, and BPE codes or a SentencePiece model.

    Raises:
        UserError: a file is missing or damaged, or the network differs from the Transformer here.
    """
    checkpoint = read_checkpoint(request.model_dir)
    hparams = _hparams(checkpoint)
    vocabularies = read_vocabularies(request.model_dir, checkpoint)
    if hparams.shared_embedding and vocabularies.source.ids_fingerprint != vocabularies.target.ids_fingerprint:
        raise UserError(
            f"--model_dir={request.model_dir}: its dictionaries differ, and the model has one table for both "
            f"(share_all_embeddings); give the files of one model"
        )
    problem = request.problem.with_encoders({INPUTS: vocabularies.source, TARGETS: vocabularies.target})
    tensors = Tensors(with_todays_names(checkpoint.arrays), str(checkpoint.path))
    sizes = (vocabularies.source.vocab_size, vocabularies.target.vocab_size)
    weights = _weights(tensors, checkpoint, hparams, *sizes)
    settings = checkpoint.settings
    alignment, warnings = alignment_hparams(settings.get("alignment_layer"), settings.get("alignment_heads"), hparams)
    return ForeignRun(
        problem=problem,
        model="transformer_bart",
        hparams=hparams.replace(**alignment),
        hparams_set="transformer_m2m",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {checkpoint.path}",
        settings="its settings and dictionaries",
        notes=(
            f"ids: padding {dictionary.PAD}, end of sequence {dictionary.EOS} and unknown {dictionary.UNKNOWN} became "
            f"0, 1 and 2",
            f"texts: {vocabularies.described}",
        ),
        warnings=(*vocabularies.warnings, *warnings),
    )


def _hparams(checkpoint: FairseqCheckpoint) -> TransformerBartHParams:
    """Returns the hparams of the network, with `transformer_m2m`'s values for training."""
    settings, arch = checkpoint.settings, checkpoint.settings.get("arch")
    if not isinstance(arch, str) or not arch.startswith("transformer") or "_lm" in arch:
        raise UserError(f"{checkpoint.path}: its architecture is {arch!r}; translators of transformer* can be imported")
    wrong = unknown_values(settings, _KNOWN)
    for name in _SAME:
        values = [settings.get(f"{side}_{name}") for side in ("encoder", "decoder")]
        if values[0] != values[1]:
            wrong.append(f"encoder_{name}={values[0]!r} and decoder_{name}={values[1]!r} (known: equal ones)")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if settings.get(name) not in (None, settings.get("decoder_embed_dim")):
            wrong.append(f"{name}={settings[name]!r} (known: that of decoder_embed_dim)")
    if wrong:
        raise UserError(
            f"{checkpoint.path} describes another network than the models here: {'; '.join(wrong)}; it cannot be "
            f"imported"
        )
    positions = "learned" if settings.get("encoder_learned_pos") else "sinusoidal"
    positions = "none" if settings.get("no_token_positional_embeddings") else positions
    lengths = [checkpoint.need(f"max_{side}_positions") for side in ("source", "target")]
    is_tied = settings.get("share_all_embeddings") or settings.get("share_decoder_input_output_embed")
    hparams = transformer_m2m().replace(
        hidden_size=checkpoint.need("encoder_embed_dim"),
        num_encoder_layers=checkpoint.need("encoder_layers"),
        num_decoder_layers=checkpoint.need("decoder_layers"),
        num_heads=checkpoint.need("encoder_attention_heads"),
        filter_size=checkpoint.need("encoder_ffn_embed_dim"),
        activation=_ACTIVATIONS[settings.get("activation_fn") or "relu"],
        norm_position="pre" if settings.get("encoder_normalize_before") else "post",
        norm_epsilon=1e-5,
        attention_bias=True,
        positions=positions,
        sinusoid_layout="split" if positions == "sinusoidal" else "interleaved",
        first_position=_FIRST_POSITION if positions == "sinusoidal" else 0,
        embedding_norm=bool(settings.get("layernorm_embedding")),
        target_start="id",
        shared_embedding=bool(settings.get("share_all_embeddings")),
        shared_embedding_and_softmax_weights=bool(is_tied) and not settings.get("no_scale_embedding"),
        max_length=min(lengths),
        layer_prepostprocess_dropout=checkpoint.number("dropout", 0.1),
        attention_dropout=checkpoint.number("attention_dropout", 0.0),
        relu_dropout=checkpoint.number("activation_dropout", 0.0) or checkpoint.number("relu_dropout", 0.0),
        beam_size=5,
        length_penalty="power",
        alpha=1.0,
        min_output_length=1,
    )
    return hparams.with_decoder(checkpoint.need("decoder_attention_heads"), checkpoint.need("decoder_ffn_embed_dim"))


def _weights(tensors: Tensors, checkpoint: FairseqCheckpoint, hparams: TransformerBartHParams, *sizes: int) -> Arrays:
    """Returns the weights by our paths; marks the tensors that are not needed."""
    weights = _tables(tensors, checkpoint, hparams, *sizes) | _positions(tensors, hparams)
    weights |= take_parts(tensors, transformer_parts(hparams.encoder_layers, hparams.decoder_layers, prefix=""))
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            for copy in _COPIES:
                tensors.drop(f"{side}.layers.{number}.{copy}", "fairseq fills it with others when it loads")
        if hparams.norm_position == "pre":
            _check_version(tensors, checkpoint, side)
            weights |= tensors.norm(f"{side}.layer_norm", f"{side}/final_norm")
        tensors.drop(f"{side}.version", "the version of the format")
    return weights


def _tables(
    tensors: Tensors, checkpoint: FairseqCheckpoint, hparams: Any, source_size: int, target_size: int
) -> Arrays:
    """Returns the tables of tokens, rows in our order."""
    settings = checkpoint.settings
    names = {"target_embedding": ("decoder.embed_tokens.weight", target_size)}
    if settings.get("share_all_embeddings"):
        tensors.drop_copy("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    else:
        names["source_embedding"] = ("encoder.embed_tokens.weight", source_size)
    is_tied = settings.get("share_all_embeddings") or settings.get("share_decoder_input_output_embed")
    if is_tied:
        tensors.drop_copy("decoder.output_projection.weight", "decoder.embed_tokens.weight")
    if not hparams.shared_embedding_and_softmax_weights:
        output = "decoder.embed_tokens.weight" if is_tied else "decoder.output_projection.weight"
        names["output_embedding"] = (output, target_size)
    tables = {}
    for ours, (name, size) in names.items():
        table_VD = tensors.take(name)
        if len(table_VD) != size:
            raise UserError(
                f"{checkpoint.path}: {name} has {len(table_VD)} rows, the dictionary {size} symbols; give the files of "
                f"one model"
            )
        # Our embedding layers multiply by sqrt(D).
        is_divided = ours != "output_embedding" and settings.get("no_scale_embedding")
        scale = np.float32(hparams.hidden_size**-0.5 if is_divided else 1.0)
        order = our_order(size, dictionary.PAD, dictionary.EOS, dictionary.UNKNOWN)
        tables[f"{ours}/table"] = table_VD[order] * scale
    return tables


def _positions(tensors: Tensors, hparams: TransformerBartHParams) -> Arrays:
    """Returns tables of learned positions, (L, D), and norms of embeddings; sinusoids are computed, not stored."""
    weights: Arrays = {}
    for side, path in (("encoder", "source_positions"), ("decoder", "target_positions")):
        for buffer in ("_float_tensor", "weights"):
            tensors.drop(f"{side}.embed_positions.{buffer}", "sinusoids, which are computed here")
        if hparams.positions == "learned":
            table_LD = tensors.take(f"{side}.embed_positions.weight")[_FIRST_POSITION:]
            weights[f"{path}/positions/table"] = table_LD[: hparams.max_length]
        if hparams.embedding_norm:
            weights |= tensors.norm(f"{side}.layernorm_embedding", f"{path}/norm")
    return weights


def _check_version(tensors: Tensors, checkpoint: FairseqCheckpoint, side: str) -> None:
    """Raises UserError for a pre-norm stack of a version that has no norm at its end."""
    name = f"{side}.version"
    version = float(tensors.take(name).reshape(-1)[0]) if name in tensors else 1.0
    if version <= (_OLD_DECODER if side == "decoder" else _OLD_ENCODER):
        raise UserError(
            f"{checkpoint.path}: {name} is {version:g}, of which fairseq leaves out the norm at the end of the "
            f"{side}; the models here have it, so it cannot be imported"
        )


_NORM = re.compile(r"(encoder|decoder)(\.layers\.\d+\.)layer_norms\.(\d)\.(weight|bias)")
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_PACKED = re.compile(r"(.+_attn\.)in_proj_(weight|bias)")


def with_todays_names(arrays: Arrays) -> Arrays:
    """Returns the tensors by their names in version 0.12.

    In older versions norms were numbered within a layer, queries, keys and values were stacked in one matrix, and a
    separate output layer was `decoder.embed_out`.
    """
    found: Arrays = {}
    for name, array in arrays.items():
        if norm := _NORM.fullmatch(name):
            stack, layer, number, kind = norm.groups()
            found[f"{stack}{layer}{_NORMS[stack][int(number)]}.{kind}"] = array
        elif packed := _PACKED.fullmatch(name):
            parts = np.split(array, 3) if len(array) % 3 == 0 else [array]
            letters = "qkv" if len(parts) == 3 else "?"
            found |= {
                f"{packed[1]}{letter}_proj.{packed[2]}": part for letter, part in zip(letters, parts, strict=True)
            }
        else:
            found["decoder.output_projection.weight" if name == "decoder.embed_out" else name] = array
    return found
