"""Hparams of the Neural GPUs: Kaiser and Sutskever's, Tensor2Tensor's, Freivalds and Liepins's, and small ones.

Values of the Extended Neural GPU are from its authors' code for translation (github.com/tensorflow/models,
`research/neural_gpu`).
"""

from dataclasses import dataclass

from t2t.hparams.base import HParams
from t2t.hparams.byte_net import UnfoldingHParams
from t2t.hparams.field import param, training_fraction
from t2t.hparams.recipes import Set, for_copying, for_multi30k
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class NeuralGpuHParams(HParams):
    """A state with one or several rows of vectors, one for each position, which is updated step by step."""

    state_rows: int = param(1, "Number of rows of the state; the first one holds inputs and outputs.", minimum=1)
    kernel_size: int = param(
        3, "Kernel size of convolutions over positions and rows, odd.", minimum=1, only_shapes=True
    )
    steps_per_position: int = param(1, "Steps per input position; a step applies every layer.", minimum=1)
    dropout: float = training_fraction(
        0.1, "Dropout rate in each step, on the state, or on its new part (diagonal); a fraction."
    )

    def complaints(self) -> list[str]:
        """Checks that kernel_size is odd."""
        if self.kernel_size % 2 == 0:
            return [f"hparam kernel_size={self.kernel_size} is even; it must be odd, to have a middle"]
        return []


@dataclass(kw_only=True)
class DiagonalNeuralGpuHParams(NeuralGpuHParams):
    """Hard non-linearities with a loss on their saturation."""

    saturation_cost: float = param(
        0.0001, "Weight of the saturation loss: nats per input position with a mean saturation of 1.", minimum=0.0,
        only_trains=True,
    )  # fmt: skip


@dataclass(kw_only=True)
class ExtendedNeuralGpuHParams(NeuralGpuHParams, UnfoldingHParams):
    """A state with more positions than the source, from which a target of any length is written."""


@register_hparams
def neural_gpu() -> NeuralGpuHParams:
    """Tensor2Tensor's sizes: one row of 256 channels, one layer, as many steps as positions."""
    # Tensor2Tensor's rate is 0.00004 throughout, after 3,000 updates, with betas 0.85 and 0.997 and epsilon 1e-6; ours
    # is Adam's usual one, with the Transformer's constants.
    return _algorithmic(NeuralGpuHParams(hidden_size=256, num_hidden_layers=1, dropout=0.1)).replace(
        batch_size=1024, learning_rate=0.001, learning_rate_warmup_steps=100, clip_grad_norm=10.0
    )


@register_hparams
def neural_gpu_paper() -> NeuralGpuHParams:
    """Kaiser and Sutskever 2016: four rows of 24 channels, two layers, short inputs first, noise on gradients."""
    return neural_gpu().replace(
        hidden_size=24,
        state_rows=4,
        num_hidden_layers=2,
        dropout=0.09,
        clip_grad_norm=1.0,
        gradient_noise=0.001,  # the paper searches for its scale and does not print it
        curriculum_length=7,  # the first length of the authors' program, with end of sequence
        curriculum_steps=5000,  # theirs rises where errors are few
    )


@register_hparams
def diagonal_neural_gpu() -> DiagonalNeuralGpuHParams:
    """Freivalds and Liepins 2017: 96 channels, AdaMax, batches of several lengths."""
    return _algorithmic(DiagonalNeuralGpuHParams(hidden_size=96, num_hidden_layers=1, dropout=0.1)).replace(
        batch_size=1312,  # 32 examples of 41 ids
        effective_batch_size=8 * 1312,  # about one of each of the paper's lengths
        optimizer="adamax",
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-8,
        optimizer_adamax_clip=1.2,  # the value of the authors' program
        learning_rate_schedule="cosine",
        learning_rate=0.005,  # 0.48 / channels, falling where the loss does not
        learning_rate_minimum=0.0001,
        learning_rate_warmup_steps=100,
        train_steps=20_000,
    )


@register_hparams
def diagonal_neural_gpu_addition() -> DiagonalNeuralGpuHParams:
    """The settings of Freivalds and Liepins's program for binary addition, with smaller updates: 48 channels."""
    return diagonal_neural_gpu().replace(
        hidden_size=48,
        dropout=0.5,
        learning_rate=0.01,
        learning_rate_minimum=0.0002,
        effective_batch_size=2 * 1312,  # further in the same time than with the program's 8 to 9 batches
        train_steps=10_000,
    )


@register_hparams
def neural_gpu_tiny() -> NeuralGpuHParams:
    """Learns to copy and reverse in seconds on two processor cores: 32 channels."""
    return neural_gpu().replace(
        hidden_size=32, dropout=0.0, learning_rate=0.005, learning_rate_schedule="cosine", train_steps=500
    )


@register_hparams
def diagonal_neural_gpu_tiny() -> DiagonalNeuralGpuHParams:
    """Learns to copy and reverse in seconds on two processor cores: 24 channels."""
    return diagonal_neural_gpu().replace(
        hidden_size=24, dropout=0.0, effective_batch_size=0, learning_rate=0.01, train_steps=500
    )


@register_hparams
def extended_neural_gpu() -> ExtendedNeuralGpuHParams:
    """The authors' program as it translates: four rows of 256 channels, two units, Adam."""
    return ExtendedNeuralGpuHParams(
        hidden_size=256,
        state_rows=4,
        num_hidden_layers=2,
        dropout=0.05,  # 0.1 * 3 / sqrt(length): here it is the same for all lengths
        shared_embedding=False,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.1,
        label_smoothing_kind="others",
        max_length=60,
        batch_size=1024,  # 32 sentences
        optimizer_adam_beta2=0.999,
        optimizer_adam_epsilon=1e-3,
        learning_rate_schedule="constant",
        learning_rate=0.0005,  # falls there while the loss does not
        learning_rate_warmup_steps=0,
        clip_grad_norm=4.0,
        unfolding_offset=4,  # there the longer of both sides, and a bucket of lengths
    )


@register_hparams
def extended_neural_gpu_multi30k_tiny() -> ExtendedNeuralGpuHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: one row of 144 channels, two units, dropout 0.05."""
    return for_multi30k(ExtendedNeuralGpuHParams(hidden_size=144, num_hidden_layers=2, dropout=0.05)).replace(
        batch_size=1225,  # an update has as many tokens as of the others, in parts: each step keeps the whole memory
        unfolding_offset=4,
        learning_rate=0.003,
        learning_rate_warmup_steps=500,
        clip_grad_norm=1.0,
    )


@register_hparams
def extended_neural_gpu_tiny() -> ExtendedNeuralGpuHParams:
    """Learns to copy and reverse in minutes on two processor cores: one row of 48 channels, one unit."""
    return for_copying(ExtendedNeuralGpuHParams(hidden_size=48, num_hidden_layers=1)).replace(
        unfolding_factor=1.0, learning_rate=0.005
    )


@register_hparams
def markovian_neural_gpu_multi30k_tiny() -> ExtendedNeuralGpuHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: one row of 200 channels, two units, dropout 0.05."""
    return extended_neural_gpu_multi30k_tiny().replace(hidden_size=200)


@register_hparams
def markovian_neural_gpu_tiny() -> ExtendedNeuralGpuHParams:
    """Learns to copy and reverse in minutes on two processor cores: one row of 48 channels, one unit."""
    return extended_neural_gpu_tiny()


def _algorithmic(hparams: Set) -> Set:
    """Returns the set for tasks with exact answers: no label smoothing, separate tables, greedy decoding."""
    return hparams.replace(
        label_smoothing=0.0,
        shared_embedding_and_softmax_weights=False,
        max_length=64,
        learning_rate_schedule="constant",
        decode_method="greedy",
    )
