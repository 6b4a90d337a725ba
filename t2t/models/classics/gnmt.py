"""GNMT, Google's system: recurrent layers with residual connections, and one attention read by every decoder layer.

Source of the network and, unless a line says otherwise, of the values: Wu et al., *Google's Neural Machine Translation
System* (2016, arXiv:1609.08144), sections 3, 7 and 8.

Legend: B batch, S source length, D width, N rows, G gate inputs of a cell.
"""

from dataclasses import dataclass

from t2t.hparams.base import for_copying, for_multi30k
from t2t.hparams.lstm import RecurrentHParams, for_recurrent
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class GnmtHParams(RecurrentHParams):
    """Encoder and decoder of num_hidden_layers each; the bottom encoder layer is bidirectional."""

    def complaints(self) -> list[str]:
        """Checks that there are two or more layers, since the second one joins the two directions."""
        if self.num_hidden_layers < 2:
            return [
                f"hparam num_hidden_layers={self.num_hidden_layers}: the encoder of GNMT has one layer in both "
                "directions and at least one above it; give 2 or more"
            ]
        return []


@register_hparams
def gnmt_8_layers() -> GnmtHParams:
    """The paper's sizes: 8+8 layers of 1,024 units, dropout 0.2 as for English-French; Adam alone."""
    # The paper continues with plain gradient descent after 60,000 updates of Adam. The languages share no table.
    return GnmtHParams(
        hidden_size=1024,
        num_hidden_layers=8,
        dropout=0.2,
        shared_embedding=False,
        shared_embedding_and_softmax_weights=False,
        label_smoothing=0.0,
        batch_size=4096,  # about the paper's 128 sentences
        optimizer_adam_beta2=0.999,  # Adam's usual constants, as the paper names none
        optimizer_adam_epsilon=1e-8,
        learning_rate_schedule="constant",
        learning_rate=0.0002,
        learning_rate_warmup_steps=0,
        clip_grad_norm=5.0,
        alpha=0.2,
        coverage_penalty=0.2,
    )


@register_hparams
def gnmt_multi30k_tiny() -> GnmtHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: 4+4 layers of 120 units, dropout 0.3."""
    return for_multi30k(for_recurrent(GnmtHParams(hidden_size=120, num_hidden_layers=4))).replace(
        dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500
    )


@register_hparams
def gnmt_tiny() -> GnmtHParams:
    """Learns to copy and reverse in minutes on two processor cores: 3+3 layers of 64 units."""
    return for_copying(for_recurrent(GnmtHParams(hidden_size=64, num_hidden_layers=3)))


# === The network ===
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.recurrent import CellState, RecurrentLayer
from t2t.layers.recurrent_decoder import DecoderState, Memory, RecurrentDecoder
from t2t.models.lstm import LstmSeq2seq
from t2t.registry import register_model

_FIRST_RESIDUAL = 2
"""Index of the first layer that adds its input to its output: the third (figure 1)."""


class GnmtEncoder(keras.layers.Layer):
    """A bottom layer in both directions, D units each (section 3.2), and at least one forward layer above it."""

    def __init__(self, cell: str, width: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.bottom = [
            RecurrentLayer(cell, width, backwards, dtype=policy, name=f"layer_0_{way}")
            for backwards, way in ((False, "forward"), (True, "backward"))
        ]
        self.upper = [RecurrentLayer(cell, width, dtype=policy, name=f"layer_{i}") for i in range(1, num_layers)]
        self.dropouts = [Dropout(dropout, dtype=policy, name=f"dropout_{i}") for i in range(num_layers)]

    def build(self, input_shape):
        """Builds every layer for (B, S, D); the second reads both directions."""
        both = (*input_shape[:-1], 2 * input_shape[-1])
        for i, layer in enumerate((*self.bottom, *self.upper)):
            layer.build(both if i == len(self.bottom) else input_shape)
        for dropout in self.dropouts:
            dropout.build()

    def call(self, x_BSD, keep_BS, seed=None) -> tuple:
        """Returns the top layer's output (B, S, D), and the initial CellState (B, D) of each decoder layer.

        Initial states are zeros: the decoder reads the source only by attention. `keep_BS` is bool, True at data.
        """
        dropped_BSD = self.dropouts[0](x_BSD, seed=seed)
        x_BSC = ops.concatenate([layer(dropped_BSD, keep_BS)[0] for layer in self.bottom], axis=-1)
        for i, layer in enumerate(self.upper, start=1):
            hidden_BSD, _ = layer(self.dropouts[i](x_BSC, seed=seed), keep_BS)
            x_BSC = hidden_BSD + x_BSC if i >= _FIRST_RESIDUAL else hidden_BSD
        start: CellState = self.bottom[0].cell.zero_state(ops.shape(x_BSD)[0])
        return x_BSC, (start,) * len(self.dropouts)


class GnmtDecoder(RecurrentDecoder):
    """Recurrent layers that all read one context; its query is the bottom layer's state before the step (equation 4).

    With x_0 the word before, a the context and m_i the hidden state of layer i, from 1:

        m_i = Cell_i([x_(i-1); a]),  x_i = m_i for i < 3, and m_i + x_(i-1) from there on (equation 6)

    The output is x_i of the top layer.
    """

    def __init__(self, cell: str, width: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(cell, width, num_layers, "bahdanau", dropout, **kwargs)

    def build(self, input_shape):
        """Builds every layer for (B, T, D), each with a kernel for the context."""
        for layer in (*self.cells, *self.dropouts, self.attention):
            layer.build((None, None, self.width))
        shape = (self.width, self.cells[0].num_gates * self.width)
        self.context_kernels = [
            self.add_weight(name=f"context_kernel_{i}", shape=shape) for i in range(len(self.cells))
        ]

    def stepper(self, memory: Memory | tuple[()]) -> Callable:
        """Returns `step(gates_NG, state, scales) -> DecoderState`; see the base class."""
        steps = [cell.stepper() for cell in self.cells]
        kernels = [ops.cast(kernel, self.compute_dtype) for kernel in self.context_kernels]
        attend = self.attention.stepper(memory)

        def step(gates_NG, before: DecoderState, scales) -> DecoderState:
            context_ND = attend(before.layers[0].hidden)
            after = [steps[0](gates_NG + ops.matmul(context_ND, kernels[0]), before.layers[0])]
            x_ND = after[0].hidden
            for i in range(1, len(steps)):
                gates_NG = self.cells[i].input_gates(x_ND * scales[i - 1] if scales else x_ND)
                after.append(steps[i](gates_NG + ops.matmul(context_ND, kernels[i]), before.layers[i]))
                x_ND = after[i].hidden + x_ND if i >= _FIRST_RESIDUAL else after[i].hidden
            return DecoderState(tuple(after), x_ND)

        return step


@register_model
class Gnmt(LstmSeq2seq):
    """GNMT: deep recurrent stacks with residual connections; one attention, which all decoder layers read."""

    hparams_class = GnmtHParams

    def build_stacks(self, hparams: Any) -> tuple[GnmtEncoder, GnmtDecoder]:
        """Returns encoder and decoder; see the base class."""
        sizes = (hparams.cell, hparams.hidden_size, hparams.num_hidden_layers, hparams.dropout)
        policy = self.dtype_policy
        return GnmtEncoder(*sizes, dtype=policy, name="encoder"), GnmtDecoder(*sizes, dtype=policy, name="decoder")
