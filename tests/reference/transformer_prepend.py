"""The Transformer's decoder on inputs and targets as one sequence, in plain numpy, one sentence at a time.

Of inputs x and targets y it reads x_1 .. x_S, a zero vector, y_1, y_2, ..., and what it gives from the zero vector on
predicts y_1, y_2, ...
"""

import numpy as np

from tests.reference.transformer import Transformer


class PrependedTransformer(Transformer):
    """The model for one set of weights; `sees_all` says whether inputs see the inputs after them."""

    def __init__(self, weights, architecture, sees_all):
        super().__init__(weights, architecture)
        self.sees_all, self.inputs = sees_all, 0

    def encode(self, source):
        """Returns what the decoder has of the source: its embeddings, and where they end."""
        table = "target_embedding" if self.shape.shared_embedding else "source_embedding"
        return [self.embed(table, token) for token in source]

    def decode(self, target, memory):
        """Returns what predicts the targets, a list of T vectors."""
        self.inputs = len(memory)
        before = [np.zeros_like(memory[0])] + [self.embed("target_embedding", token) for token in target[:-1]]
        states = [self.place(x, position) for position, x in enumerate([*memory, *before])]
        for layer in range(self.shape.decoder_layers):
            name = f"decoder/layer_{layer}"
            states = self.sublayer(f"{name}/self_attention", states, lambda xs, n=name: self.attention(n, xs))
            states = self.sublayer(f"{name}/ffn", states, lambda xs, n=name: self.feed_forward(n, xs))
        return self.finish("decoder", states)[self.inputs :]

    def places(self, position, count, causal, is_self):
        """The positions that are seen: all inputs by an input, or what comes before and the position itself."""
        return range(self.inputs if self.sees_all and position < self.inputs else position + 1)
