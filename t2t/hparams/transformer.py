"""Hparams of the Transformer: the paper's sets and small ones.

Source of the values, unless a line says otherwise: Vaswani et al., *Attention Is All You Need* (2017), sections 3 and
5, Table 3.
"""

from dataclasses import dataclass
from typing import Self

from t2t.hparams.base import HParams, for_multi30k, noam_rate
from t2t.hparams.field import UsedWhen, param, training_fraction
from t2t.registry import register_hparams

BLOCKWISE_LENGTH = 2048
"""From this length on, self-attention is computed block by block, see `t2t.layers.long_attention`."""


@dataclass(kw_only=True)
class TransformerHParams(HParams):
    """Hparams of the Transformer; defaults are the paper's base model."""

    num_encoder_layers: int = param(
        0, "Number N of encoder layers; 0 = num_hidden_layers.", minimum=0, only_shapes=True
    )
    num_decoder_layers: int = param(
        0, "Number N of decoder layers; 0 = num_hidden_layers.", minimum=0, only_shapes=True
    )
    num_heads: int = param(8, "Number h of attention heads.", minimum=1)
    num_decoder_heads: int = param(0, "Number h of attention heads of the decoder; 0 = num_heads.", minimum=0)
    num_kv_heads: int = param(
        0, "Number of key and value heads in all attention, each shared by num_heads/num_kv_heads query heads (Ainslie "
        "et al. 2023); 1 = one for all, 0 = one for each.", minimum=0, only_shapes=True,
    )  # fmt: skip
    attention_key_channels: int = param(
        0, "Query channels of all heads, h * d_k; 0 = hidden_size.", minimum=0, only_shapes=True
    )
    attention_value_channels: int = param(
        0, "Value channels of all heads, h * d_v; 0 = hidden_size.", minimum=0, only_shapes=True
    )
    filter_size: int = param(
        2048, "Inner width d_ff of the feed-forward sub-layer, in channels.", minimum=1, only_shapes=True
    )
    decoder_filter_size: int = param(
        0, "Inner width of the decoder's feed-forward sub-layer, in channels; 0 = filter_size.", minimum=0,
        only_shapes=True,
    )  # fmt: skip
    activation: str = param(
        "relu", "Non-linearity of the feed-forward sub-layer; gelu_tanh and gelu_sigmoid are approximations of gelu.",
        choices=("relu", "gelu", "gelu_tanh", "gelu_sigmoid", "silu"),
    )  # fmt: skip
    gated_feed_forward: bool = param(
        False, "Whether the feed-forward sub-layer is gated, i.e. its inner channels are multiplied by a linear map of "
        "the input (Shazeer 2020): ReGLU, GEGLU or SwiGLU, by activation; adds half as many weights again.",
    )  # fmt: skip
    feed_forward_bias: bool = param(
        True, "Whether the linear maps of the feed-forward sub-layer have biases.", only_shapes=(False,)
    )
    norm_position: str = param(
        "post", "post (the paper's): LayerNorm(x + Sublayer(x)); pre: x + Sublayer(LayerNorm(x)), and one norm at the "
        "end of each stack.",
        choices=("post", "pre"),
    )  # fmt: skip
    norm_type: str = param(
        "layer", "Normalization: layer (the paper's), or rms, without mean and offset (Zhang and Sennrich 2019).",
        choices=("layer", "rms"),
    )  # fmt: skip
    norm_epsilon: float = param(1e-6, "Added to the variance, or mean square, in normalization.", minimum=1e-12)
    self_attention_window: int = param(
        0, "Size r of the window of self-attention, in positions, half of it on each side (section 4, Table 1); 0 = "
        "unrestricted.", minimum=0,
    )  # fmt: skip
    input_end: bool = param(
        True, "Whether the end of sequence of token inputs is attended to; OpenNMT's models mask it. In an empty input "
        "it is always attended to.",
    )  # fmt: skip
    decoder_layer: str = param(
        "self_attention", "How a decoder layer reads the previous targets: by self-attention, or by an SSRU (Kim et "
        "al. 2019), a recurrence whose decoding steps do not read earlier positions.",
        choices=("self_attention", "ssru"), only_shapes=True,
    )  # fmt: skip
    attention_bias: bool = param(
        False, "Whether the four projections of attention have biases; the paper's have none.", only_shapes=(False,)
    )
    positions: str = param(
        "sinusoidal", "Position encoding: sinusoidal (the paper's) or learned vectors, added to embeddings; words: "
        "sinusoids of the number of words so far, for parsing problems; relative: learned vectors for distances, in "
        "self-attention (Shaw et al. 2018); rotary: rotated queries and keys (Su et al. 2021); relative_bias: learned "
        "scalars for distances, added to self-attention scores (Raffel et al. 2020); none.",
        choices=("sinusoidal", "learned", "words", "relative", "rotary", "relative_bias", "none"),
    )  # fmt: skip
    read_next_word: bool = param(
        False, "Whether the decoder also reads what the encoder says of the word that comes next, by its number.",
        used_when=UsedWhen("positions", ("words",)),
    )  # fmt: skip
    max_relative_position: int = param(
        16, "Distance k from which on all positions count as equally far, in positions.", minimum=1, maximum=128,
        used_when=UsedWhen("positions", ("relative",)), only_shapes=True,
    )  # fmt: skip
    relative_keys: int = param(
        0, "Number k of distances, from 0 on, for which each head of self-attention has learned vectors, added to keys "
        "in addition to positions (Huang et al. 2018); larger distances have none; 0 = no such vectors.", minimum=0,
        only_shapes=True,
    )  # fmt: skip
    relative_bias_buckets: int = param(
        32, "Number of distance buckets; half of those for a direction hold a single distance, from 0 on.", minimum=4,
        used_when=UsedWhen("positions", ("relative_bias",)),
    )  # fmt: skip
    relative_bias_max_distance: int = param(
        128, "Distance, in positions, from which on all positions share the last bucket.", minimum=3,
        used_when=UsedWhen("positions", ("relative_bias",)),
    )  # fmt: skip
    sinusoid_layout: str = param(
        "interleaved",
        "Order of sines and cosines. interleaved (the paper's): in turn; halves: sines first, with the same "
        "wavelengths, as in transformers; split: sines first, slightly longer ones, as in Tensor2Tensor and Marian.",
        choices=("interleaved", "halves", "split"), used_when=UsedWhen("positions", ("sinusoidal", "words")),
    )  # fmt: skip
    target_space_embedding: bool = param(
        False, "Whether a learned vector is added to every source position, as Tensor2Tensor does for the target space."
    )
    layer_prepostprocess_dropout: float = training_fraction(
        0.1, "Dropout rate on sub-layer outputs, and on sums of embeddings and positions, a fraction."
    )
    attention_dropout: float = training_fraction(0.0, "Dropout on attention weights, a fraction.")
    relu_dropout: float = training_fraction(0.0, "Dropout inside the feed-forward sub-layer, a fraction.")

    def experts_in(self, layer: int) -> int:
        """Returns the number of experts of a layer, counted from 0; 0 = a feed-forward layer; see `transformer_moe`."""
        return 0

    @property
    def target_grid(self) -> tuple[int, ...] | None:
        """Sizes of the `Grid` of the decoder's self-attention, see `image_transformer`; None without a grid."""
        return None

    @property
    def self_attention_reach(self) -> int | None:
        """Largest distance to each side in self-attention; None if unrestricted."""
        return self.self_attention_window // 2 if self.self_attention_window else None

    @property
    def key_channels(self) -> int:
        """Query channels of all heads together, the same as key channels of num_heads heads."""
        return self.attention_key_channels or self.hidden_size

    @property
    def value_channels(self) -> int:
        """Value channels of num_heads heads."""
        return self.attention_value_channels or self.hidden_size

    @property
    def encoder_layers(self) -> int:
        """Number of encoder layers."""
        return self.num_encoder_layers or self.num_hidden_layers

    @property
    def decoder_layers(self) -> int:
        """Number of decoder layers."""
        return self.num_decoder_layers or self.num_hidden_layers

    @property
    def of_decoder(self) -> Self:
        """A copy with the decoder's number of heads and inner width as `num_heads` and `filter_size`."""
        own = {"num_heads": self.num_decoder_heads, "filter_size": self.decoder_filter_size}
        return self.replace(**{name: value for name, value in own.items() if value})

    def with_decoder(self, num_heads: int, filter_size: int) -> Self:
        """Returns a copy with these sizes of the decoder, 0 for those that the encoder has, too."""
        return self.replace(
            num_decoder_heads=0 if num_heads == self.num_heads else num_heads,
            decoder_filter_size=0 if filter_size == self.filter_size else filter_size,
        )

    def complaints(self) -> list[str]:
        """Checks that heads divide the channels, and that positions, packing and lengths are compatible."""
        found = self._head_complaints("num_heads", self.num_heads)
        if self.num_decoder_heads:
            found += self._head_complaints("num_decoder_heads", self.num_decoder_heads)
        if self.positions in ("sinusoidal", "words") and self.hidden_size % 2:
            found.append(f"hparam hidden_size={self.hidden_size} is odd; sinusoidal positions need an even width")
        if self.positions in ("relative", "relative_bias") and self.max_length >= BLOCKWISE_LENGTH:
            found.append(
                f"hparam positions={self.positions}: attention over {BLOCKWISE_LENGTH} positions and more is computed "
                f"block by block, without relative positions, and max_length={self.max_length}; choose a smaller "
                f"max_length or other positions"
            )
        if self.positions == "relative_bias" and 2 * self.relative_bias_max_distance <= self.relative_bias_buckets:
            found.append(
                f"hparam relative_bias_buckets={self.relative_bias_buckets}: half of them are for one distance each, "
                f"from 0 on, and relative_bias_max_distance={self.relative_bias_max_distance}; choose a distance of "
                f"more than half as many, or fewer buckets"
            )
        if self.packed_length and self.decoder_layer == "ssru":
            found.append(
                f"hparam packed_length={self.packed_length}: decoder_layer=ssru carries its state from one example of "
                f"a row to the next; choose decoder_layer=self_attention, or packed_length=0"
            )
        if self.packed_length and self.positions == "words":
            found.append(
                f"hparam packed_length={self.packed_length}: positions=words counts on from one example of a row to "
                f"the next; choose other positions, or packed_length=0"
            )
        if self.packed_length and self.fixed_shapes:
            found.append(
                f"hparam fixed_shapes={self.fixed_shapes}: packed batches have one shape, see packed_length; set "
                f"fixed_shapes=0, or packed_length=0"
            )
        if self.packed_length >= BLOCKWISE_LENGTH:
            found.append(
                f"hparam packed_length={self.packed_length}: attention over {BLOCKWISE_LENGTH} positions and more is "
                f"computed block by block, without telling examples apart; choose a smaller packed_length"
            )
        return found

    def _head_complaints(self, name: str, heads: int) -> list[str]:
        found = [
            f"hparam {name}={heads} does not divide the {channels} channels of {what}; choose a divisor"
            for what, channels in (("keys", self.key_channels), ("values", self.value_channels))
            if channels % heads
        ]
        if self.num_kv_heads and heads % self.num_kv_heads:
            found.append(
                f"hparam num_kv_heads={self.num_kv_heads} does not divide {name}={heads}; choose a divisor, or 0 for "
                f"one for each of the heads"
            )
        if self.positions == "rotary" and self.key_channels // heads % 2:
            found.append(
                f"hparam positions=rotary: it rotates pairs of channels, and a head has "
                f"{self.key_channels // heads} for keys; choose a {name} that leaves an even number"
            )
        return found


@register_hparams
def transformer_base() -> TransformerHParams:
    """The paper's base model: 6 layers, d 512, 8 heads, 100,000 updates of 8 x 4,096 tokens.

    Tensor2Tensor called this set transformer_base_v1 later on, and transformer_base what is transformer_base_v3 here.
    """
    return TransformerHParams()


@register_hparams
def transformer_base_student() -> TransformerHParams:
    """transformer_base with a decoder of two SSRU layers, to be trained on distilled data.

    The sizes of Bergamot's base student (github.com/browsermt/students, train-student/models/student.base).
    """
    return _student(transformer_base())


@register_hparams
def transformer_base_v2() -> TransformerHParams:
    """The base model of Tensor2Tensor 1.2.9: pre-norm, dropout inside sub-layers, twice the rate after 8,000 updates.

    Sinusoids and label smoothing stay the paper's; Tensor2Tensor's are `sinusoid_layout=split` and
    `label_smoothing_kind=others`, which importing one of its runs chooses.
    """
    return transformer_base().replace(
        norm_position="pre",
        attention_dropout=0.1,
        relu_dropout=0.1,
        learning_rate=noam_rate(0.2),
        learning_rate_warmup_steps=8000,
    )


@register_hparams
def transformer_base_v3() -> TransformerHParams:
    """The base model of Tensor2Tensor from 1.5 on: transformer_base_v2 with beta_2 = 0.997."""
    # Its schedule, constant 2.0 * linear_warmup * rsqrt_decay * rsqrt_hidden_size, is the same formula as that of v2.
    return transformer_base_v2().replace(optimizer_adam_beta2=0.997)


@register_hparams
def transformer_tpu() -> TransformerHParams:
    """Tensor2Tensor's base model for TPUs: transformer_base_v3 with Adafactor, steps of 2,048, up to 64 pieces."""
    # What TPUs alone needed, batches of one shape and one mask of dropout for several positions, is left out.
    return transformer_base_v3().replace(
        optimizer="adafactor",
        learning_rate_schedule="rsqrt_decay",
        learning_rate=1.0,
        learning_rate_warmup_steps=10_000,
        batch_size=2048,
        max_length=64,
    )


@register_hparams
def transformer_big() -> TransformerHParams:
    """The paper's big model: d 1024, d_ff 4096, 16 heads, dropout 0.3, 300,000 updates."""
    return transformer_base().replace(
        hidden_size=1024,
        filter_size=4096,
        num_heads=16,
        layer_prepostprocess_dropout=0.3,
        train_steps=300_000,
        precision="auto",
    )


@register_hparams
def transformer_big_enfr() -> TransformerHParams:
    """The paper's big model for English-French: dropout 0.1 (section 6.1), else transformer_big.

    Tensor2Tensor's set of this name also has d_ff 8192 and separate embeddings, which the paper does not.
    """
    return transformer_big().replace(layer_prepostprocess_dropout=0.1)


@register_hparams
def transformer_base_single_gpu() -> TransformerHParams:
    """The base model on one device: the paper's 25,000 tokens an update, accumulated over steps of 4,096."""
    # Tensor2Tensor's set of this name makes small updates at a lower rate instead, which is another experiment.
    return transformer_base().replace(effective_batch_size=25_000)


@register_hparams
def transformer_big_single_gpu() -> TransformerHParams:
    """The big model on one device: 25,000 tokens an update, accumulated over steps of 2,048; dropout 0.1."""
    # Dropout 0.1: the value of Tensor2Tensor's set of this name (and of the paper's English-French model).
    return transformer_big().replace(batch_size=2048, effective_batch_size=25_000, layer_prepostprocess_dropout=0.1)


@register_hparams
def transformer_small() -> TransformerHParams:
    """2 layers, d 256, d_ff 1024, 4 heads: the sizes of Tensor2Tensor's set of this name."""
    return transformer_base().replace(num_hidden_layers=2, hidden_size=256, filter_size=1024, num_heads=4)


@register_hparams
def transformer_tiny() -> TransformerHParams:
    """2 layers, d 128, d_ff 512, 4 heads: the sizes of Tensor2Tensor's set, for 100,000 updates."""
    return transformer_small().replace(hidden_size=128, filter_size=512)


@register_hparams
def transformer_quickstart() -> TransformerHParams:
    """Learns translate_ende_numbers in minutes on two processor cores."""
    return transformer_tiny().replace(
        max_length=128,
        batch_size=2048,
        layer_prepostprocess_dropout=0.05,
        learning_rate_schedule="linear",
        learning_rate=0.004,
        learning_rate_warmup_steps=200,
        optimizer_adam_epsilon=1e-8,
        train_steps=1300,
        beam_size=1,
    )


@register_hparams
def transformer_multi30k_tiny() -> TransformerHParams:
    """For Multi30k: 4+4 layers, d 128, d_ff 256, 4 heads, dropout 0.3 (Wu et al. 2021, section 4)."""
    return for_multi30k(transformer_base()).replace(
        num_hidden_layers=4,
        hidden_size=128,
        filter_size=256,
        num_heads=4,
        attention_bias=True,
        layer_prepostprocess_dropout=0.3,
        learning_rate=0.005,
        learning_rate_warmup_steps=2000,
        train_steps=8000,
    )


@register_hparams
def transformer_multi30k_tiny_student() -> TransformerHParams:
    """transformer_multi30k_tiny with a decoder of two SSRU layers, to be trained on distilled data."""
    return _student(transformer_multi30k_tiny())


def _student(hparams: TransformerHParams) -> TransformerHParams:
    """Returns the set with two SSRU layers in the decoder and no label smoothing, as Bergamot's students have them.

    The encoder stays deep, since it runs once a sentence.
    """
    return hparams.replace(decoder_layer="ssru", num_decoder_layers=2, label_smoothing=0.0)
