"""Deep-Att: deep LSTMs with fast-forward connections, by which inputs reach the next layer past all nonlinearities.

Source of the network and, unless a line says otherwise, of the values: Zhou et al., *Deep Recurrent Models with
Fast-Forward Connections for Neural Machine Translation* (2016, arXiv:1606.04199), sections 3 and 4. With f_k the gate
inputs of layer k (G numbers), h_k its hidden states and x the word, layers counted from 1:

    f_1 = x W_1 + b_1,  f_k = [Half(f_(k-1)); h_(k-1)] W_k + b_k,  h_k = Cell_k(f_k)

Half, the first half of the numbers, is the fast-forward connection.

Legend: B batch, S source length, D width, N rows, G gate inputs of a cell, C any number of channels.
"""

from dataclasses import dataclass

from t2t.hparams.base import for_copying, for_multi30k
from t2t.hparams.field import param
from t2t.hparams.lstm import RecurrentHParams, for_recurrent
from t2t.registry import register_hparams


@dataclass(kw_only=True)
class DeepAttHParams(RecurrentHParams):
    """An encoder of two columns of num_hidden_layers each, and a decoder stack."""

    num_decoder_layers: int = param(
        7, "Number of decoder layers; encoder columns have num_hidden_layers.", minimum=1, only_shapes=True
    )


@register_hparams
def deep_att() -> DeepAttHParams:
    """The paper's sizes: two columns of 9 layers, 7 layers that write, 512 units each, dropout 0.1."""
    # Trained as the other recurrent models; the two languages share no table.
    return for_recurrent(DeepAttHParams(hidden_size=512, num_hidden_layers=9, num_decoder_layers=7)).replace(
        dropout=0.1, shared_embedding=False, shared_embedding_and_softmax_weights=False, learning_rate=0.0005
    )


@register_hparams
def deep_att_multi30k_tiny() -> DeepAttHParams:
    """For Multi30k, as large as transformer_multi30k_tiny: columns of 4 layers, 3 that write, 96 units, dropout 0.3."""
    sizes = DeepAttHParams(hidden_size=96, num_hidden_layers=4, num_decoder_layers=3)
    return for_multi30k(for_recurrent(sizes)).replace(dropout=0.3, learning_rate=0.003, learning_rate_warmup_steps=500)


@register_hparams
def deep_att_tiny() -> DeepAttHParams:
    """Learns to copy and reverse in minutes on two processor cores: columns of 2 layers, 2 that write, 64 units."""
    return for_copying(for_recurrent(DeepAttHParams(hidden_size=64, num_hidden_layers=2, num_decoder_layers=2)))


# === The network ===
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t.layers.dropout import Dropout
from t2t.layers.recurrent import CELLS, RecurrentLayer
from t2t.layers.recurrent_decoder import DecoderState, Memory, RecurrentDecoder
from t2t.models.lstm import LstmSeq2seq
from t2t.registry import register_model


class FastForwardEncoder(keras.layers.Layer):
    """Two columns of layers that alternate in direction, one starting forwards and one backwards.

    The output is [h; f] of the top layers of both columns, projected to D. The decoder's initial states are zeros.
    """

    def __init__(self, cell: str, width: int, num_layers: int, num_decoder_layers: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        policy, self.num_decoder_layers = self.dtype_policy, num_decoder_layers
        self.width, self.gates = width, CELLS[cell].num_gates * width
        self.columns = [
            [
                RecurrentLayer(cell, width, (i + column) % 2 == 1, dtype=policy, name=f"column_{column}_layer_{i}")
                for i in range(num_layers)
            ]
            for column in range(2)
        ]
        self.dropouts = [
            [Dropout(dropout, dtype=policy, name=f"column_{column}_dropout_{i}") for i in range(num_layers)]
            for column in range(2)
        ]

    def build(self, input_shape):
        """Builds every layer for (B, S, D)."""
        for layers, dropouts in zip(self.columns, self.dropouts, strict=True):
            for i, layer in enumerate(layers):
                layer.build((None, None, self.gates // 2 + self.width if i else input_shape[-1]))
            for dropout in dropouts:
                dropout.build()
        shape = (2 * (self.width + self.gates), self.width)
        self.output_kernel = self.add_weight(name="output_kernel", shape=shape)

    def call(self, x_BSD, keep_BS, seed=None) -> tuple:
        """Returns the output (B, S, D), and the initial CellState (B, D) of each decoder layer.

        `keep_BS` is bool, True at data.
        """
        tops = []
        for layers, dropouts in zip(self.columns, self.dropouts, strict=True):
            read_SBC = dropouts[0](ops.transpose(x_BSD, (1, 0, 2)), seed=seed)
            for i, layer in enumerate(layers):
                gates_SBG = layer.cell.input_gates(read_SBC)
                hidden_SBD, _ = layer.run(gates_SBG, keep_BS)
                if i + 1 < len(layers):
                    read_SBC = fast_forward(gates_SBG, dropouts[i + 1](hidden_SBD, seed=seed))
            tops += [hidden_SBD, gates_SBG]
        tops_SBC = ops.concatenate(tops, axis=-1)
        output_SBD = ops.matmul(tops_SBC, ops.cast(self.output_kernel, tops_SBC.dtype))
        start = self.columns[0][0].cell.zero_state(ops.shape(x_BSD)[0])
        return ops.transpose(output_SBD, (1, 0, 2)), (start,) * self.num_decoder_layers


class FastForwardDecoder(RecurrentDecoder):
    """Fast-forward layers; the bottom one attends with its state before the step, and reads the context with the word.

    The output is [Half(f); h] of the top layer, projected to D.
    """

    def __init__(self, cell: str, width: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(cell, width, num_layers, "bahdanau", dropout, **kwargs)

    def build(self, input_shape):
        """Builds every layer for (B, T, D)."""
        width, gates = self.width, self.cells[0].num_gates * self.width
        for i, cell in enumerate(self.cells):
            cell.build((None, gates // 2 + width if i else width))
        for layer in (*self.dropouts, self.attention):
            layer.build((None, None, width))
        self.fed_kernel = self.add_weight(name="fed_kernel", shape=(width, gates))
        self.combine_kernel = self.add_weight(name="combine_kernel", shape=(gates // 2 + width, width))

    def stepper(self, memory: Memory | tuple[()]) -> Callable:
        """Returns `step(gates_NG, state, scales) -> DecoderState`; see the base class."""
        steps = [cell.stepper() for cell in self.cells]
        fed_kernel, combine_kernel = (ops.cast(w, self.compute_dtype) for w in (self.fed_kernel, self.combine_kernel))
        attend = self.attention.stepper(memory)

        def step(gates_NG, before: DecoderState, scales) -> DecoderState:
            gates_NG = gates_NG + ops.matmul(attend(before.layers[0].hidden), fed_kernel)
            after = [steps[0](gates_NG, before.layers[0])]
            for i in range(1, len(steps)):
                hidden_ND = after[-1].hidden * scales[i - 1] if scales else after[-1].hidden
                gates_NG = self.cells[i].input_gates(fast_forward(gates_NG, hidden_ND))
                after.append(steps[i](gates_NG, before.layers[i]))
            return DecoderState(tuple(after), ops.matmul(fast_forward(gates_NG, after[-1].hidden), combine_kernel))

        return step


def fast_forward(gates, hidden):
    """Returns [Half(f); h], (..., G // 2 + D), of f (..., G) and h (..., D)."""
    return ops.concatenate([gates[..., : gates.shape[-1] // 2], hidden], axis=-1)


@register_model
class DeepAtt(LstmSeq2seq):
    """Deep-Att: recurrent stacks with fast-forward connections, columns of both directions, and attention."""

    hparams_class = DeepAttHParams

    def build_stacks(self, hparams: Any) -> tuple[FastForwardEncoder, FastForwardDecoder]:
        """Returns encoder and decoder; see the base class."""
        cell, policy = (hparams.cell, hparams.hidden_size), self.dtype_policy
        depth, dropout = hparams.num_decoder_layers, hparams.dropout
        encoder = FastForwardEncoder(*cell, hparams.num_hidden_layers, depth, dropout, dtype=policy, name="encoder")
        return encoder, FastForwardDecoder(*cell, depth, dropout, dtype=policy, name="decoder")
