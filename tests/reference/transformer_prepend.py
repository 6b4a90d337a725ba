"""The Transformer's decoder on inputs and targets as one sequence, in plain numpy, one sentence at a time.

For inputs x and targets y it reads x_1 .. x_S, a zero vector, y_1, y_2, ...; its outputs at the zero vector and after
it predict y_1, y_2, ...
"""

from tests.reference.transformer import Transformer


class PrependedTransformer(Transformer):
    """The model with one set of weights; `sees_all` tells whether inputs see the inputs after them."""

    def __init__(self, weights, architecture, sees_all):
        super().__init__(weights, architecture)
        self.sees_all, self.inputs = sees_all, 0

    def encode(self, source):
        """Returns the embeddings of the source, which the decoder reads."""
        return self.source_vectors(source)

    def decode(self, target, memory):
        """Returns the outputs that predict the targets, a list of T vectors."""
        self.inputs, both = len(memory), [*memory, *self.before(target)]
        states = self.placed(both, range(len(both)))
        return self.stack("decoder", self.shape.decoder_layers, states, self.encoder_parts())[self.inputs :]

    def places(self, position, count, causal, is_self):
        """Returns the visible positions: all inputs for an input, or the position itself and all before it."""
        return range(self.inputs if self.sees_all and position < self.inputs else position + 1)
