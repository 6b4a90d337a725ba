"""Converts our Transformer, its weights and its vocabularies to a model that CTranslate2 reads.

A model that is not built needs numpy and CTranslate2 alone, no TensorFlow or Keras.

Legend: D width, E width of a layer's output, L positions, V vocabulary.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from t2t.errors import UserError
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.rows import NOT_FINITE, Row
from t2t.layers.sinusoids import sinusoids
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS, UNK_ID
from t2t.specs.features import FeatureKind
from t2t.text.encoder import END, TextEncoder

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel
    from t2t.models.transformer import Transformer


@dataclasses.dataclass(frozen=True)
class TokenLists:
    """A unique string for each id."""

    source: list[str]
    target: list[str]
    input_end: bool = True
    """Whether the model reads the end of sequence of an input."""
    codes_follow_end: bool = False
    """Whether a language code follows the end of sequence of an input; CTranslate2 then gets the input unchanged."""

    @classmethod
    def of_encoders(cls, encoders: Mapping[str, TextEncoder], input_end: bool = True) -> Self:
        """Returns the lists of the vocabularies of inputs and targets."""
        languages = encoders[INPUTS].languages
        follows = languages is not None and languages.source == END
        source, target = (tokens_of(encoders[name]) for name in (INPUTS, TARGETS))
        return cls(source, target, input_end, follows)

    @property
    def adds_end(self) -> bool:
        """Whether CTranslate2 appends end of sequence to inputs."""
        return self.input_end and not self.codes_follow_end

    def source_of(self, row: Row) -> list[str]:
        """Returns the tokens of an input, without end of sequence if CTranslate2 adds it or the model ignores it."""
        return [self.source[token_id] for token_id in (row if self.codes_follow_end else row[:-1])]

    def target_of(self, row: Row) -> list[str]:
        """Returns the tokens of an output without its end of sequence."""
        return [self.target[token_id] for token_id in (row[:-1] if row[-1] == EOS_ID else row)]

    def ids_of(self, tokens: Iterable[str]) -> list[int]:
        """Returns the ids of an output."""
        return [self._target_ids[token] for token in tokens]

    @functools.cached_property
    def _target_ids(self) -> dict[str, int]:
        return {token: token_id for token_id, token in enumerate(self.target)}


def tokens_of(encoder: TextEncoder) -> list[str]:
    """Returns a unique string for each id of a vocabulary: its piece, if no other id has it."""
    tokens: dict[str, None] = {}
    for token_id in range(encoder.vocab_size):
        piece = encoder.piece(token_id)
        tokens[f"<id {token_id}>" if not piece or piece in tokens else piece] = None
    return list(tokens)


FLOAT32 = "float32"

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "gelu_sigmoid": "GELUSigmoid", "silu": "SWISH"}


def complaints(hparams: TransformerHParams) -> list[str]:
    """Returns the settings that CTranslate2 has no layers for, with reasons."""
    found = []
    if hparams.decoder_layer != "self_attention":
        found.append(f"decoder_layer={hparams.decoder_layer}: its decoders are of self-attention")
    if hparams.positions == "words":
        found.append("positions=words: it adds the vectors of a table, by position")
    if hparams.self_attention_window:
        found.append(f"self_attention_window={hparams.self_attention_window}: its attention sees every position")
    if hparams.relative_keys:
        found.append(f"relative_keys={hparams.relative_keys}: its vectors of distances are those of positions=relative")
    keys, values = hparams.key_channels, hparams.value_channels
    if keys != values:
        found.append(f"attention_key_channels={keys}, attention_value_channels={values}: its heads have one size")
    if any(hparams.experts_in(layer) for layer in range(max(hparams.encoder_layers, hparams.decoder_layers))):
        found.append("it has no mixtures of experts as these")
    return found


def write_weights(
    folder: Path,
    hparams: TransformerHParams,
    weights: Mapping[str, np.ndarray],
    tokens: TokenLists,
    longest: int,
    weights_in: str = FLOAT32,
    alignment: tuple[int, int] = (-1, 1),
) -> None:
    """Writes the weights of a Transformer as a model of CTranslate2.

    Args:
        folder: an existing folder to write to.
        hparams: without `complaints`.
        weights: by variable path, without the model's name.
        tokens: of the vocabularies.
        longest: L, number of positions of inputs and outputs; ignored for learned positions.
        weights_in: float32, or the type that CTranslate2 is to quantize the weights to.
        alignment: index of the layer whose attention CTranslate2 returns, and how many of its first heads; 0 for all.

    Raises:
        UserError: the weights hold NaN or infinity.
    """
    weights = {path: np.asarray(weight, np.float32) for path, weight in weights.items()}
    if not all(np.isfinite(weight).all() for weight in weights.values()):  # an output without scores would not show it
        raise UserError(*NOT_FINITE)
    spec = build_spec(hparams, weights, _positions(hparams, weights, longest), tokens, alignment)
    spec.validate()
    spec.optimize(quantization=None if weights_in == FLOAT32 else weights_in)
    spec.save(str(folder))


def _positions(
    hparams: TransformerHParams, weights: Mapping[str, np.ndarray], longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the position vectors of inputs and of outputs, (L, D) each."""
    table = "positions/table"
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


def build_spec(
    hparams: TransformerHParams,
    weights: Mapping[str, np.ndarray],
    positions_LD: tuple[np.ndarray, np.ndarray],
    tokens: TokenLists,
    alignment: tuple[int, int] = (-1, 1),
) -> Any:
    """Returns a `ctranslate2.specs.TransformerSpec` with the weights; `positions_LD` are of inputs and of outputs."""
    spec = _empty_spec(hparams)
    spec.decoder.alignment_layer, spec.decoder.alignment_heads = map(np.int16, alignment)
    spec.register_source_vocabulary(list(tokens.source))
    spec.register_target_vocabulary(list(tokens.target))
    spec.config.bos_token = spec.config.eos_token = tokens.target[EOS_ID]
    start = hparams.target_start_id if hparams.target_start == "id" else PAD_ID
    spec.config.unk_token, spec.config.decoder_start_token = tokens.target[UNK_ID], tokens.target[start]
    spec.config.add_source_eos = tokens.adds_end
    spec.config.layer_norm_epsilon = hparams.norm_epsilon
    _fill_modalities(spec, weights, positions_LD)
    spec.decoder.start_from_zero_embedding = hparams.target_start == "zero"
    for name, paths, kind in stack_modules(hparams):
        parents, _, last = name.rpartition("/")
        if kind == LINEAR:
            _fill(_find(spec, name), weights, paths)
        elif kind == NORM:
            norm, (path,) = _find(spec, name), paths
            norm.gamma = weights[f"{path}/gamma"]
            if f"{path}/beta" in weights:
                norm.beta = weights[f"{path}/beta"]
        else:  # one that layers share is stored once
            setattr(_find(spec, parents), last, weights[paths[0]])
    if hparams.positions == "relative_bias":
        for layer in (*spec.encoder.layer, *spec.decoder.layer):
            layer.self_attention.relative_attention_max_distance = np.int32(hparams.relative_bias_max_distance)
    return spec


def _empty_spec(hparams: TransformerHParams) -> Any:
    """Returns a `TransformerSpec` without weights."""
    from ctranslate2.specs import TransformerSpec, common_spec, transformer_spec

    settings = {
        "pre_norm": hparams.norm_position == "pre",
        "layernorm_embedding": getattr(hparams, "embedding_norm", False),
        "activation": common_spec.Activation[_ACTIVATIONS[hparams.activation]],
        "num_heads_kv": hparams.num_kv_heads or None,
        "ffn_glu": hparams.gated_feed_forward,
        "rms_norm": hparams.norm_type == "rms",
        "relative_position": hparams.positions == "relative",
        "relative_attention_bias": hparams.positions == "relative_bias",
        "rotary_dim": 0 if hparams.positions == "rotary" else None,  # 0 = all channels of a head, in pairs as ours
    }
    heads = (hparams.num_heads, hparams.of_decoder.num_heads)
    stacks = (transformer_spec.TransformerEncoderSpec, transformer_spec.TransformerDecoderSpec)
    layers = (hparams.encoder_layers, hparams.decoder_layers)
    return TransformerSpec(
        *(
            stack(depth, number, head_dim=hparams.key_channels // number, **settings)
            for stack, depth, number in zip(stacks, layers, heads, strict=True)
        )
    )


def _fill_modalities(spec: Any, weights: Mapping[str, np.ndarray], positions_LD: tuple[np.ndarray, np.ndarray]) -> None:
    """Fills embeddings, positions and the output layer; a shared table is stored once."""
    target_VD = weights["target_embedding/table"]
    (source,) = spec.encoder.embeddings
    source.weight = weights.get("source_embedding/table", target_VD)
    spec.decoder.embeddings.weight = target_VD
    spec.decoder.projection.weight = weights.get("output_embedding/table", target_VD)
    if "output_embedding/bias" in weights:
        spec.decoder.projection.bias = weights["output_embedding/bias"]
    # The target-space embedding is added to the vector of every source position, or without these to every embedding.
    target_space = weights.get("target_space", np.float32(0.0))
    if hasattr(spec.decoder, "position_encodings"):
        source_LD, target_LD = positions_LD
        spec.decoder.position_encodings.encodings = target_LD
        spec.encoder.position_encodings.encodings = source_LD + target_space
    elif "target_space" in weights:
        source.weight = source.weight + target_space * np.float32(target_VD.shape[1] ** -0.5)


def _find(spec: Any, name: str) -> Any:
    """Returns the module of a path such as `decoder/layer_0/attention/linear_1`; some are elements of lists."""
    for part in name.split("/"):
        stem, _, number = part.rpartition("_")
        spec = getattr(spec, part) if hasattr(spec, part) else getattr(spec, stem)[int(number)]
    return spec


def _fill(linear: Any, weights: Mapping[str, np.ndarray], prefixes: Sequence[str]) -> None:
    """Fills a linear layer with kernels (D, E), transposed and concatenated, and with their biases."""
    kernels = [weights[f"{prefix}kernel"].T for prefix in prefixes]
    linear.weight = np.ascontiguousarray(np.concatenate(kernels))
    pairs = zip(prefixes, kernels, strict=True)
    biases = [weights.get(f"{prefix}bias", np.zeros(len(kernel), np.float32)) for prefix, kernel in pairs]
    linear.bias = np.concatenate(biases)


def model_complaints(model: "SequenceModel") -> list[str]:
    """Returns why CTranslate2 does not support a model; an empty list if it does."""
    return modality_complaints(model) or complaints(model.hparams)


def modality_complaints(model: "SequenceModel") -> list[str]:
    """Returns why a model is no standard Transformer from tokens to tokens; an empty list if it is one."""
    from t2t.layers.modalities.base import TokenEmbedding, TokenSoftmax
    from t2t.models.transformer import Decoder, DecoderLayer, Transformer

    kinds = [feature.kind if feature else "absent" for feature in (model.spec.inputs, model.spec.targets)]
    is_plain = isinstance(model, Transformer) and type(model.decoder) is Decoder
    is_plain = is_plain and all(type(layer) is DecoderLayer for layer in model.decoder.layers_)
    if not is_plain or kinds != [FeatureKind.TOKENS] * 2:
        what = f"it is a {type(model).__name__}, its inputs are {kinds[0]}, its targets {kinds[1]}"
        return [f"{what}; a Transformer from tokens to tokens is wanted"]
    if type(model.source_embedding) is not TokenEmbedding or type(model.top) is not TokenSoftmax:
        return ["its modalities are other than those of tokens"]
    return []


def write_model(
    folder: Path,
    model: "Transformer",
    tokens: TokenLists,
    longest: int,
    weights_in: str = FLOAT32,
    alignment: tuple[int, int] = (-1, 1),
) -> None:
    """Writes a model that has no `model_complaints`; see `t2t.inference.ctranslate2.conversion.write_weights`."""
    weights = {v.path.partition("/")[2]: np.asarray(v) for v in model.variables} | _embedding_tables(model)
    write_weights(folder, model.hparams, weights, tokens, longest, weights_in, alignment)


def _embedding_tables(model: "Transformer") -> dict[str, np.ndarray]:
    """Returns the tables and the bias of tokens by path; in a model of several problems, their own paths differ."""
    tables = {
        "source_embedding/table": model.source_embedding.table,
        "target_embedding/table": model.target_embedding.table,
        "output_embedding/table": model.top.table(),
    }
    tables |= {} if model.top.bias is None else {"output_embedding/bias": model.top.bias}
    return {path: np.asarray(table) for path, table in tables.items()}


# === Names of the modules of both stacks, for reading and for writing ===


LINEAR, NORM, TABLE = "linear", "norm", "table"


class Module(NamedTuple):
    """A module of CTranslate2 and the weights that it has here."""

    theirs: str
    """Path in a specification and in `model.bin`, such as `decoder/layer_0/attention/linear_1`."""
    ours: tuple[str, ...]
    """Prefixes of the maps that a linear layer stacks; or the path of a norm or a table."""
    kind: str


def stack_modules(hparams: TransformerHParams) -> Iterator[Module]:
    """Yields the modules of both stacks; the layers of a stack share a table of relative biases."""
    for side, layers in (("encoder", hparams.encoder_layers), ("decoder", hparams.decoder_layers)):
        for number in range(layers):
            yield from _layer_modules(hparams, side, f"{side}/layer_{number}")
        if hparams.norm_position == "pre":
            yield Module(f"{side}/layer_norm", (f"{side}/final_norm",), NORM)
        if getattr(hparams, "embedding_norm", False):
            positions = "source_positions" if side == "encoder" else "target_positions"
            yield Module(f"{side}/layernorm_embedding", (f"{positions}/norm",), NORM)


def _layer_modules(hparams: TransformerHParams, side: str, layer: str) -> Iterator[Module]:
    stacked: dict[str, list[tuple[str, ...]]] = {
        "self_attention": [("query", "key", "value")],
        "encdec_attention": [("query",), ("key", "value")],
    }
    attentions = {"self_attention": "self_attention"} | ({"attention": "encdec_attention"} if side == "decoder" else {})
    for theirs, ours in attentions.items():
        path = f"{layer}/{ours}"
        maps = [tuple(f"{path}/project/{part}_" for part in parts) for parts in stacked[ours]]
        for number, prefixes in enumerate([*maps, (f"{path}/output/",)]):
            yield Module(f"{layer}/{theirs}/linear_{number}", prefixes, LINEAR)
        yield Module(f"{layer}/{theirs}/layer_norm", (f"{path}_residual/norm",), NORM)
    own = f"{layer}/self_attention"
    if hparams.positions == "relative":
        for kind in ("keys", "values"):
            yield Module(f"{own}/relative_position_{kind}", (f"{own}/relative_positions/{kind}",), TABLE)
    if hparams.positions == "relative_bias":
        yield Module(f"{own}/relative_attention_bias", (f"{side}/relative_bias/table",), TABLE)
    gate = {"linear_0_noact": "linear"} if hparams.gated_feed_forward else {}
    for theirs, ours in {"linear_0": "inner", "linear_1": "outer", **gate}.items():
        yield Module(f"{layer}/ffn/{theirs}", (f"{layer}/ffn/{ours}/",), LINEAR)
    yield Module(f"{layer}/ffn/layer_norm", (f"{layer}/ffn_residual/norm",), NORM)
