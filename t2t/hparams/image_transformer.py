"""Hparams of the Image Transformer.

Source of the values, unless a line says otherwise: Tensor2Tensor's sets of these names; Parmar et al. 2018, section 5.
"""

from dataclasses import dataclass

from t2t.hparams.base import noam_rate
from t2t.hparams.field import UsedWhen, param, unread_complaints
from t2t.hparams.transformer import TransformerHParams
from t2t.registry import register_hparams

_1D, _2D = (UsedWhen("dec_attention_type", (kind,)) for kind in ("local_1d", "local_2d"))

_WITHOUT_ENCODER = {"num_encoder_layers": (0,), "input_end": (True,), "target_space_embedding": (False,)}
"""The values of hparams that only an encoder reads."""


@dataclass(kw_only=True)
class ImageTransformerHParams(TransformerHParams):
    """The size of images, and the neighbourhood of self-attention."""

    img_len: int = param(32, "Width of an image, in pixels.", minimum=1)
    num_channels: int = param(3, "Number of channels of a pixel.", minimum=1)
    dec_attention_type: str = param(
        "local_1d", "Earlier positions that are attended to. local_1d: those in the same and the previous block of the "
        "sequence; local_2d: those in the same rectangle of the image, and pixels above and beside it; full: all.",
        choices=("local_1d", "local_2d", "full"),
    )  # fmt: skip
    block_length: int = param(256, "Length of a block of the sequence, in positions.", minimum=1, used_when=_1D)
    query_rows: int = param(8, "Height of a rectangle, in pixels.", minimum=1, used_when=_2D)
    query_columns: int = param(8, "Width of a rectangle, in pixels.", minimum=1, used_when=_2D)
    memory_rows: int = param(8, "Visible rows above a rectangle, at most query_rows.", minimum=0, used_when=_2D)
    memory_columns: int = param(
        8, "Visible columns on each side of a rectangle, in pixels, at most query_columns.", minimum=0,
        used_when=_2D,
    )  # fmt: skip

    @property
    def row_positions(self) -> int:
        """Number of positions of a row of an image, one per pixel and channel."""
        return self.img_len * self.num_channels

    @property
    def target_grid(self) -> tuple[int, ...] | None:
        """See `TransformerHParams.target_grid`."""
        if self.dec_attention_type == "local_1d":
            return 1, self.block_length, 1, self.block_length, 0, 0
        if self.dec_attention_type == "local_2d":
            columns, beside = (size * self.num_channels for size in (self.query_columns, self.memory_columns))
            return self.row_positions, self.query_rows, columns, self.memory_rows, 0, beside
        return None

    def image_complaint(self, problem: str, shape: tuple[int, int, int]) -> str:
        """Rows have `img_len` pixels of `num_channels`."""
        _, width, channels = shape
        if (self.img_len, self.num_channels) == (width, channels):
            return ""
        return (
            f"hparams img_len={self.img_len},num_channels={self.num_channels}: images of problem {problem} are {width} "
            f"pixels wide, with channels: {channels}; set --hparams=img_len={width},num_channels={channels}, or choose "
            f"a set for them"
        )

    def complaints(self) -> list[str]:
        """Checks the sizes around a rectangle, and the options that images do not support."""
        why = "an Image Transformer has no encoder"
        found = super().complaints() + unread_complaints(self, _WITHOUT_ENCODER, why)
        if self.dec_attention_type == "local_2d":
            found += [
                f"hparam memory_{what}={memory}: what is seen around a rectangle is at most as large as it, and "
                f"query_{what}={query}; make one larger or the other smaller"
                for what, memory, query in (
                    ("rows", self.memory_rows, self.query_rows), ("columns", self.memory_columns, self.query_columns),
                )
                if memory > query
            ]  # fmt: skip
        if self.hidden_size % 4:
            found.append(
                f"hparam hidden_size={self.hidden_size}: half of it tells rows and half columns, in sines and cosines; "
                f"choose a multiple of 4"
            )
        if self.positions in ("learned", "words"):
            found.append(
                f"hparam positions={self.positions}: positions of images are sinusoidal, relative, rotary, "
                f"relative_bias or none"
            )
        if self.self_attention_window and self.target_grid:
            found.append(
                f"hparam self_attention_window={self.self_attention_window}: nothing reads it while "
                f"dec_attention_type={self.dec_attention_type}; it is read with full"
            )
        if self.decoder_layer != "self_attention" and self.target_grid:
            found.append(
                f"hparam decoder_layer={self.decoder_layer}: nothing reads dec_attention_type="
                f"{self.dec_attention_type} then; choose decoder_layer=self_attention, or dec_attention_type=full"
            )
        return found


@register_hparams(aliases=["image_transformer_base"])
def imagetransformer_base() -> ImageTransformerHParams:
    """12 layers, d 512, 8 heads, blocks of 256 positions: for images of 32 x 32 in colour, with classes or without."""
    # An update has 16 images; Tensor2Tensor's has 4 per device, for an unstated number of devices.
    hparams = ImageTransformerHParams(
        num_hidden_layers=12, filter_size=512, layer_prepostprocess_dropout=0.0, learning_rate=noam_rate(0.1)
    )
    return _for_images(hparams, 3200).replace(effective_batch_size=16 * 3200)


@register_hparams
def imagetransformer_cifar10_base() -> ImageTransformerHParams:
    """imagetransformer_base with 4 heads, d_ff 2048, dropout 0.3 and a higher rate: Tensor2Tensor's best."""
    return imagetransformer_base().replace(
        num_heads=4, filter_size=2048, layer_prepostprocess_dropout=0.3, learning_rate=noam_rate(0.5)
    )


@register_hparams
def imagetransformer_tiny() -> ImageTransformerHParams:
    """2 layers, d 64, 8 heads, blocks of 256 positions: to try it out."""
    return imagetransformer_base().replace(num_hidden_layers=2, hidden_size=64, effective_batch_size=0)


@register_hparams
def imagetransformer2d_tiny() -> ImageTransformerHParams:
    """imagetransformer_tiny with rectangles of 8 x 8 pixels and as many around them."""
    return imagetransformer_tiny().replace(dec_attention_type="local_2d")


@register_hparams
def imagetransformer_mnist() -> ImageTransformerHParams:
    """Digits of 28 x 28 pixels on two processor cores: 2 layers, d 64, blocks of 7 rows."""
    # Adam at a rate of its own, norms in front: trains without trouble in few updates.
    return _for_images(imagetransformer_tiny(), 800).replace(
        img_len=28,
        num_channels=1,
        block_length=196,
        norm_position="pre",
        filter_size=256,
        num_heads=4,
        learning_rate_schedule="linear",
        learning_rate=0.002,
        learning_rate_warmup_steps=200,
        optimizer_adam_epsilon=1e-8,
        train_steps=2000,
    )


def _for_images(hparams: ImageTransformerHParams, length: int) -> ImageTransformerHParams:
    # A search would write the one likeliest image: blank paper.
    return hparams.replace(
        max_length=length, extra_length=length, batch_size=4 * length, decode_method="sample", label_smoothing=0.0
    )
