"""The Transformer's decoder on inputs and targets as one sequence, in plain numpy, one sentence at a time.

For inputs x and targets y it reads x_1 .. x_S, a zero vector, y_1, y_2, ...; its outputs at the zero vector and after
it predict y_1, y_2, ...
"""

import numpy as np

from tests.reference.transformer import Transformer


class PrependedTransformer(Transformer):
    """The model with one set of weights; `sees_all` tells whether inputs see the inputs after them."""

    def __init__(self, weights, architecture, sees_all):
        super().__init__(weights, architecture)
        self.sees_all, self.inputs = sees_all, 0

    def encode(self, source):
        """Returns the embeddings of the source, which the decoder reads."""
        table = "target_embedding" if self.shape.shared_embedding else "source_embedding"
        return [self.embed(table, token) for token in source]

    def decode(self, target, memory):
        """Returns the outputs that predict the targets, a list of T vectors."""
        self.inputs = len(memory)
        before = [np.zeros_like(memory[0])] + [self.embed("target_embedding", token) for token in target[:-1]]
        states = [self.place(x, position) for position, x in enumerate([*memory, *before])]
        for layer in range(self.shape.decoder_layers):
            name = f"decoder/layer_{layer}"
            states = self.sublayer(f"{name}/self_attention", states, lambda xs, n=name: self.attention(n, xs))
            states = self.sublayer(f"{name}/ffn", states, lambda xs, n=name: self.feed_forward(n, xs))
        return self.finish("decoder", states)[self.inputs :]

    def places(self, position, count, causal, is_self):
        """Returns the visible positions: all inputs for an input, or the position itself and all before it."""
        return range(self.inputs if self.sees_all and position < self.inputs else position + 1)
