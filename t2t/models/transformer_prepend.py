"""The Transformer's decoder alone on inputs and targets as one sequence, a prefix language model.

Liu et al. 2018 (arXiv:1801.10198), section 4.2.3, use it for summarization. The hparam `prepend_mode`, as in
Tensor2Tensor, sets what inputs attend to; with full attention among them it is the prefix language model of Raffel et
al. 2020 (arXiv:1910.10683), section 3.2.1. Inputs are read once, targets decoded step by step.

Legend: B batch, S source length, T target length, P = S + T, D width, H heads, J heads of keys and values, C channels
of one head. In a decoding step: N rows, G groups of K beams each (N = G * K), L positions written so far.
"""

from typing import Unpack

from keras import ops

from t2t.hparams.transformer_prepend import TransformerPrependHParams
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.beams import repeat_sentences
from t2t.layers.cache import KeysValues, StepCache
from t2t.layers.masks import CAUSAL, EVERYTHING, keys_keep, padding_keep, span_keep
from t2t.layers.positions import Positions, build_positions
from t2t.layers.residual import CompositeLayer
from t2t.layers.tensors import Features, Named
from t2t.models.transformer import (
    EncodedSource,
    Transformer,
    build_attention,
    build_feed_forward,
    build_final_norm,
    build_residual,
)
from t2t.registry import register_model
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import FeatureKind


class PrependedAttention(MultiHeadAttention):
    """Self-attention that in decoding steps also attends to the inputs' keys and values.

    On whole sequences it is a plain `MultiHeadAttention`, with the mask given by `span` and `keep`. Keys and values are
    always cached, also if inputs attend to each other in both directions.
    """

    def __init__(self, *sizes, **settings):
        super().__init__(*sizes, **settings)
        self.is_cached = True

    def _step(self, x_ND, memory: KeysValues | None, keep, cache: StepCache):
        """Returns (N, D); `memory` are keys and values of the inputs, (B, J, S, C), and `keep` is (B, 1, 1, S) bool."""
        assert memory is not None, "inputs are read before the first step"
        query, own = self._project_self(cache.by_group(x_ND), None, cache.weights[self.path])
        written, seen_G1KL = cache.extend_keys_values(self.path, own), cache.keep(CAUSAL)
        groups, _, beams, _ = ops.shape(query)
        if seen_G1KL is None:
            seen_G1KL = ops.ones((groups, 1, beams, ops.shape(written.keys)[2]), "bool")
        memory, keep = repeat_sentences((memory, keep), groups)
        both = KeysValues(*(ops.concatenate(pair, axis=2) for pair in zip(memory, written, strict=True)))
        read_G1KS = ops.broadcast_to(keep, (groups, 1, beams, ops.shape(keep)[3]))
        found = self._output(self._weighted(query, both, ops.concatenate([read_G1KS, seen_G1KL], axis=3), None, None))
        return ops.reshape(found, (-1, found.shape[-1]))


@register_model
class TransformerPrepend(Transformer):
    """A language model that reads the inputs and continues with the targets: one stack, one sequence.

    Positions of the targets continue from the end of their inputs; padding between them is not attended to. Only
    targets have a loss.
    """

    hparams_class = TransformerPrependHParams
    accepts_inputs = (FeatureKind.TOKENS,)
    packs_examples = False

    def create_positions(self, **named: Unpack[Named]) -> Positions | None:
        """Returns the unbuilt layer of positions; learned ones cover the longest inputs plus the longest targets."""
        hparams = self.hparams
        sizes = (2 * hparams.max_length, hparams.hidden_size)
        return build_positions(hparams.positions, *sizes, hparams.sinusoid_layout, **named)

    def create_encoder(self, **named: Unpack[Named]) -> None:
        """Returns None: there is no encoder."""
        return None

    def create_decoder(self, has_source: bool, **named: Unpack[Named]) -> "PrependedStack":
        """Returns the unbuilt stack."""
        return PrependedStack(self.hparams, **named)

    def body(self, features: Features, seed=None):
        """Returns the hidden states that predict the targets, (B, T, D); see the base class."""
        inputs_BS, targets_BT = features[INPUTS], features[TARGETS]
        keep_BS = self.source_embedding.keep(inputs_BS)
        source_length, count = ops.shape(inputs_BS)[1], ops.shape(targets_BT)[1]
        shifted_BT = ops.pad(targets_BT[:, :-1], ((0, 0), (1, 0)))
        parts = (self.source_embedding(inputs_BS, seed=seed), self.target_embedding.before(shifted_BT, seed=seed))
        places = (ops.zeros_like(inputs_BS) + ops.arange(source_length), _lengths(keep_BS)[:, None] + ops.arange(count))
        x_BPD, keep_BP = ops.concatenate(parts, axis=1), ops.concatenate([keep_BS, padding_keep(targets_BT)], axis=1)
        if self.positions is not None:
            x_BPD = self.positions(x_BPD, ops.concatenate(places, axis=1))
        x_BPD = self.target_dropout(x_BPD, seed=seed)
        hidden_BPD = self.decoder(x_BPD, keep_BP, source_length=source_length, seed=seed)
        return hidden_BPD[:, source_length:]

    def encode(self, features: Features, seed=None) -> EncodedSource:
        """Returns the keys and values of the inputs in every layer."""
        keep_BS = self.source_embedding.keep(features[INPUTS])
        x_BSD = self.source_embedding(features[INPUTS], seed=seed)
        x_BSD = self.positions(x_BSD) if self.positions is not None else x_BSD
        return EncodedSource(self.decoder.read_source(self.target_dropout(x_BSD, seed=seed), keep_BS), keep_BS)

    def decode(
        self,
        ids,
        encoded: EncodedSource | None,
        keep_BT=None,
        cache: StepCache | None = None,
        seed=None,
        position_BT=None,
    ):
        """Returns (N, D) for a decoding step; whole sequences of inputs and targets are processed by `body`."""
        assert encoded is not None, "the model has inputs"
        assert cache is not None, "see the docstring"
        x_ND = self.target_embedding.before(ids)
        if self.positions is not None:
            before_N = repeat_sentences(_lengths(encoded.keep), ops.shape(ids)[0])
            x_ND = self.positions(x_ND, before_N + ops.cast(cache.position, "int32"))
        return self.decoder.step(x_ND, encoded, cache)


def _lengths(keep_BS):
    return ops.sum(ops.cast(keep_BS, "int32"), axis=1)


class PrependedStack(CompositeLayer):
    """N layers of self-attention and feed-forward."""

    def __init__(self, hparams: TransformerPrependHParams, **kwargs):
        super().__init__(**kwargs)
        hparams = hparams.of_decoder
        self.sees_all_inputs = hparams.sees_all_inputs
        self.layers_ = [
            PrependedLayer(hparams, i, dtype=self.dtype_policy, name=f"layer_{i}")
            for i in range(hparams.decoder_layers)
        ]
        self.final_norm = build_final_norm(self, hparams)

    def call(self, x_BPD, keep_BP, source_length, seed=None):
        """Returns (B, P, D); the first `source_length` positions are inputs; `keep_BP` is False at padding."""
        keep = keys_keep(keep_BP)
        if self.sees_all_inputs:
            position_P = ops.arange(ops.shape(x_BPD)[1])
            seen_PP = ops.logical_or(span_keep(position_P, position_P, CAUSAL), position_P < source_length)
            keep = ops.logical_and(keep, seen_PP)
        for layer in self.layers_:
            x_BPD = layer(x_BPD, keep, seed=seed)
        return self._finish(x_BPD)

    def read_source(self, x_BSD, keep_BS) -> tuple[KeysValues, ...]:
        """Returns the keys and values of the inputs (B, S, D) in every layer, for the targets to attend to."""
        found, keep = [], keys_keep(keep_BS)
        for layer in self.layers_:
            found.append(layer.keys_values(x_BSD))
            x_BSD = layer(x_BSD, keep)
        return tuple(found)

    def step(self, x_ND, source: EncodedSource, cache: StepCache):
        """Returns (N, D) for a decoding step."""
        keep = keys_keep(source.keep)
        for layer, memory in zip(self.layers_, source.keys_values, strict=True):
            x_ND = layer(x_ND, keep, memory, cache=cache)
        return self._finish(x_ND)

    def _finish(self, x):
        return self.final_norm(x) if self.final_norm is not None else x


class PrependedLayer(CompositeLayer):
    """Self-attention, then feed-forward, each in a residual connection."""

    def __init__(self, hparams: TransformerPrependHParams, index: int, **kwargs):
        super().__init__(**kwargs)
        span = EVERYTHING if hparams.sees_all_inputs else CAUSAL
        attention = build_attention(self, hparams, "self_attention", PrependedAttention, span=span)
        attention.longest *= 2  # inputs and targets
        self.self_attention = build_residual(self, hparams, attention)
        self.feed_forward = build_feed_forward(self, hparams, index)

    def keys_values(self, x_BSD) -> KeysValues:
        """Returns the keys and values of the layer's input, (B, S, D)."""
        return self.self_attention.layer.keys_values(self.self_attention.before(x_BSD))

    def call(self, x, keep, memory: KeysValues | None = None, cache: StepCache | None = None, seed=None):
        """Returns (B, P, D), or with a cache and the inputs' `memory` (N, D); for `keep` see `PrependedAttention`."""
        x = self.self_attention(x, memory=memory, keep=keep, cache=cache, seed=seed)
        return self.feed_forward(x, seed=seed)
