"""Residual networks: He et al. 2015, *Deep residual learning for image recognition*, and their pre-activation of 2016.

The first convolution is the modality's. Source of the values, unless a line says otherwise: Tensor2Tensor's sets of
these names, for ImageNet and CIFAR, whose sizes are those of He et al. 2015, table 1 and section 4.2.

Legend: B batch, Y rows, X columns, D channels of the first stage, E channels of the last.
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.field import param, unread_complaints
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class ResnetHParams(HParams):
    """Stages of residual blocks; `hidden_size` is the number of channels of the first stage."""

    layer_sizes: tuple[int, ...] = param(
        (3, 4, 6, 3), "Number of residual blocks in each stage; from the second on, a stage halves height and width "
        "and doubles the channels.", only_shapes=True,
    )  # fmt: skip
    block_fn: str = param(
        "bottleneck", "Residual block: bottleneck, 1x1, 3x3 and 1x1 convolutions with four times the channels at the "
        "end; residual, two 3x3 convolutions.", choices=("bottleneck", "residual"),
    )  # fmt: skip
    preactivation: bool = param(
        False, "Whether norms and ReLUs come before convolutions (He et al. 2016) instead of after them (2015)."
    )
    stem_pooling: bool = param(False, "Whether 3x3 max pooling halves height and width before the first stage.")

    @property
    def expansion(self) -> int:
        """Ratio of a block's output channels to the channels of its stage."""
        return 4 if self.block_fn == "bottleneck" else 1

    @property
    def output_size(self) -> int:
        """Channels of the last stage."""
        return self.hidden_size * int(2 ** (len(self.layer_sizes) - 1)) * self.expansion

    def complaints(self) -> list[str]:
        """Checks that every stage has at least one block, and that nothing else says how many."""
        allowed = {"num_hidden_layers": (self.field_of("num_hidden_layers").default,)}
        found = unread_complaints(self, allowed, "layer_sizes says how many blocks there are")
        sizes = self.layer_sizes
        if sizes and all(isinstance(size, int) and size > 0 for size in sizes):
            return found
        text = f"hparam layer_sizes={sizes}: a stage has at least one block; give a number above 0 for each stage"
        return [*found, text]


def _resnet_base() -> ResnetHParams:
    # Tensor2Tensor's updates use 8 devices with 128 examples each; one device accumulates gradients to that size.
    return ResnetHParams(
        hidden_size=64,
        input_modality="strided_image",
        stem_pooling=True,
        optimizer="momentum",
        optimizer_momentum_nesterov=True,
        weight_decay=1e-4,
        learning_rate_schedule="cosine",
        learning_rate=0.4,
        learning_rate_warmup_steps=100,
        batch_size=128,
        effective_batch_size=1024,
        train_steps=120_000,
        precision="auto",
    )


@register_hparams
def resnet_50() -> ResnetHParams:
    """50 layers for ImageNet, in bottleneck blocks: 25.6 million weights, 120,000 updates of 1,024 images."""
    return _resnet_base()


@register_hparams
def resnet_101() -> ResnetHParams:
    """resnet_50 with 101 layers: 44.5 million weights for 1,000 classes."""
    return _resnet_base().replace(layer_sizes=(3, 4, 23, 3))


@register_hparams
def resnet_152() -> ResnetHParams:
    """resnet_50 with 152 layers: 60.2 million weights for 1,000 classes."""
    return _resnet_base().replace(layer_sizes=(3, 8, 36, 3))


@register_hparams
def resnet_18() -> ResnetHParams:
    """18 layers for ImageNet, in blocks of two convolutions: 11.7 million weights for 1,000 classes."""
    return _resnet_base().replace(block_fn="residual", layer_sizes=(2, 2, 2, 2))


@register_hparams
def resnet_34() -> ResnetHParams:
    """34 layers for ImageNet, in blocks of two convolutions: 21.8 million weights for 1,000 classes."""
    return _resnet_base().replace(block_fn="residual")


@register_hparams
def resnet_cifar_15() -> ResnetHParams:
    """14 layers for CIFAR, three stages of 16, 32 and 64 channels: resnet_cifar_32 with fewer blocks."""
    return resnet_cifar_32().replace(layer_sizes=(2, 2, 2))


@register_hparams
def resnet_cifar_32() -> ResnetHParams:
    """The paper's 32 layers for CIFAR: 0.47 million weights, 64,000 updates of 128 images."""
    # Batches, rate, momentum and number of updates are the paper's (section 4.2). Its rate falls in steps.
    return ResnetHParams(
        hidden_size=16,
        block_fn="residual",
        layer_sizes=(5, 5, 5),
        label_smoothing=0.0,
        optimizer="momentum",
        weight_decay=1e-4,
        learning_rate_schedule="cosine",
        learning_rate=0.1,
        learning_rate_warmup_steps=0,
        batch_size=128,
        train_steps=64_000,
    )


@register_hparams
def resnet_mnist() -> ResnetHParams:
    """Learns digits of 28 x 28 pixels in minutes on two processor cores: three blocks of 8, 16 and 32 channels."""
    return resnet_cifar_32().replace(
        hidden_size=8, layer_sizes=(1, 1, 1), batch_size=64, learning_rate_warmup_steps=100, train_steps=1000
    )


# === The network ===

from keras import ops

from t2t.layers.image_blocks import ResidualBlock
from t2t.layers.norm import BatchNorm
from t2t.layers.tensors import Features
from t2t.models.base import SequenceModel
from t2t.registry import register_model
from t2t.specs import INPUTS
from t2t.specs.features import FeatureKind, ProblemSpec


@register_model
class Resnet(SequenceModel):
    """Residual networks of convolutions and batch norms: classes of images."""

    hparams_class = ResnetHParams
    accepts_inputs = (FeatureKind.IMAGE,)
    accepts_targets = (FeatureKind.LABEL,)
    autoregressive = False

    def __init__(self, hparams: ResnetHParams, spec: ProblemSpec, dtype: str = "float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.blocks, channels = [], hparams.hidden_size
        for stage, size in enumerate(hparams.layer_sizes):
            inner = hparams.hidden_size * 2**stage
            for i in range(size):
                block = ResidualBlock(
                    channels,
                    inner,
                    inner * hparams.expansion,
                    2 if stage > 0 and i == 0 else 1,
                    hparams.preactivation,
                    dtype=self.dtype_policy,
                    name=f"stage_{stage}_block_{i}",
                )
                self.blocks.append(block)
                channels = inner * hparams.expansion
        self.norm = BatchNorm(dtype=self.dtype_policy, name="norm")
        self.build()

    def build(self, input_shape=None):
        """Creates every weight."""
        self.build_modality_weights()
        for block in self.blocks:
            block.build((None, None, None, block.inputs))
        # The norm outside blocks is that of the last stage with pre-activation, else of the first convolution.
        normed = self.hparams.output_size if self.hparams.preactivation else self.hparams.hidden_size
        self.norm.build((None, None, None, normed))

    def body(self, features: Features, seed=None):
        """Returns the mean of the last stage over positions, (B, E)."""
        x_BYXD = self.source_embedding.grid(features[INPUTS], seed=seed)
        if not self.hparams.preactivation:
            x_BYXD = ops.relu(self.norm(x_BYXD, seed=seed))
        if self.hparams.stem_pooling:
            padded = ops.pad(x_BYXD, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-1e4)
            x_BYXD = ops.max_pool(padded, 3, 2, padding="valid")
        for block in self.blocks:
            x_BYXD = block(x_BYXD, seed=seed)
        if self.hparams.preactivation:
            x_BYXD = ops.relu(self.norm(x_BYXD, seed=seed))
        return ops.mean(x_BYXD, axis=(1, 2))
