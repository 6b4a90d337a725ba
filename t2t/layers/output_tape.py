"""Active memory with an output tape: the decoder of the Extended Neural GPU (Kaiser and Bengio 2016, arXiv:1610.08613).

Legend: B batch, P positions of the memory, R rows of it, C channels, T target length, N rows decoded together.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t.layers.conv_gru import TapeConvGru, in_first_row
from t2t.layers.dropout import seed_of_step
from t2t.layers.loops import scan
from t2t.layers.unfolding import resized


class TapeState(NamedTuple):
    """The state of the decoder after a step."""

    memory: Any
    """(N, P, R, C)."""
    tape: Any
    """(N, P, C): the vectors of the words so far, each at its position, then zeros."""


class _Written(NamedTuple):
    memory: Any
    hidden: Any
    """(B, C): the last step's input of the output layer."""


class TapeDecoder(keras.layers.Layer):
    """Steps of `TapeConvGru` units, each of which changes the whole memory and writes one word.

    ::

        d_(t+1) = CGRU(d_t, p_t),  the output of step t is d_(t+1) at position t, in the first row

    where p_t, the tape, holds each word before position t at its own position. If targets are longer than the memory,
    its last position writes the remaining words, which are not on the tape.
    """

    def __init__(self, channels: int, rows: int, kernel_size: int, num_layers: int, dropout: float, **kwargs):
        super().__init__(**kwargs)
        self.rows = rows
        self.units = [
            TapeConvGru(channels, rows, kernel_size, dropout, dtype=self.dtype_policy, name=f"unit_{i}")
            for i in range(num_layers)
        ]

    def build(self, input_shape=None):
        """Creates every weight."""
        for unit in self.units:
            unit.build()

    def call(self, x_BTC, memory_BPRC, keep_BP, seed=None):
        """Returns the outputs of all steps (B, T, C).

        Args:
            x_BTC: the word before each position.
            memory_BPRC: the encoder's memory, zeros beyond the end of a sentence.
            keep_BP: bool, False beyond the end of a sentence.
            seed: of dropout; None = none.
        """
        advance = self._stepper(keep_BP)
        words_BPC = resized(x_BTC[:, 1:], ops.shape(keep_BP)[1])

        def step(before: _Written, given):
            position = given[0][0]
            written_P1 = ops.arange(ops.shape(words_BPC)[1])[:, None] < position
            tape_BPC = words_BPC * ops.cast(written_P1, words_BPC.dtype)
            return _Written(*advance(before.memory, tape_BPC, position, seed_of_step(seed, position)))

        positions_T1 = ops.arange(ops.shape(x_BTC)[1])[:, None]
        _, states = scan(step, _Written(memory_BPRC, x_BTC[:, 0]), (positions_T1,))
        return ops.transpose(states.hidden, (1, 0, 2))

    def step(self, x_NC, position, state: TapeState, keep_NP) -> tuple[Any, TapeState]:
        """Returns the output of one step (N, C), that of `call` at `position`, () int32, and the next state."""
        is_new_P1 = ops.equal(ops.arange(ops.shape(state.tape)[1]), position - 1)[:, None]
        tape_NPC = ops.where(is_new_P1, x_NC[:, None], state.tape)
        memory_NPRC, hidden_NC = self._stepper(keep_NP)(state.memory, tape_NPC, position, None)
        return hidden_NC, TapeState(memory_NPRC, tape_NPC)

    def _stepper(self, keep_NP) -> Callable:
        """Returns `advance(memory_NPRC, tape_NPC, position, seed) -> (memory_NPRC, hidden_NC)`."""
        steppers = [unit.stepper() for unit in self.units]
        last_N1 = ops.sum(ops.cast(keep_NP, "int32"), axis=1)[:, None] - 1
        place_P = ops.arange(ops.shape(keep_NP)[1])
        keep_NP1 = keep_NP[:, :, None]

        def advance(memory_NPRC, tape_NPC, position, seed):
            # Words beyond the end of a sentence would be read by its last position.
            tape_NPRC = in_first_row(tape_NPC * ops.cast(keep_NP1, tape_NPC.dtype), self.rows)
            for unit in steppers:
                memory_NPRC = ops.where(keep_NP1[..., None], unit(memory_NPRC, tape_NPRC, seed), memory_NPRC)
            is_read_NP = ops.equal(place_P, ops.minimum(position, last_N1))
            hidden_NC = ops.sum(memory_NPRC[:, :, 0] * ops.cast(is_read_NP, memory_NPRC.dtype)[..., None], axis=1)
            return memory_NPRC, hidden_NC

        return advance
