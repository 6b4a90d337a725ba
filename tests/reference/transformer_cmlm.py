"""Conditional masked language models and mask-predict in plain Python: Ghazvininejad et al. 2019 (arXiv:1904.09324).

One sentence and one candidate at a time, without padding. The sub-layers come from tests/reference/transformer.py.

Legend: S source length, N words of a target, D width, V vocabulary, L lengths.
"""

import math

import numpy as np

from tests.reference.transformer import Transformer, softmax

PAD, END = 0, 1


class TransformerCmlm(Transformer):
    """The model with one set of weights; sections 2.1 and 2.3 of the paper."""

    def read(self, source):
        """Returns the encoder's output for the decoder, S vectors, and the log-probabilities of lengths, (L,)."""
        states = [self.weights["length_token"], *self.placed(self.source_vectors(source), range(len(source)))]
        length, *memory = self.stack("encoder", self.shape.encoder_layers, states, self.encoder_parts())
        return memory, np.log(softmax(self.linear("target_length/", length)))

    def fill(self, target, memory):
        """Returns the logits at every position of a target with its end, (N + 1, V); None is a masked word."""
        mask = self.weights["mask_token"]
        vectors = [mask if word is None else self.embed("target_embedding", word) for word in target]
        parts = self.decoder_parts(memory) | {"self_attention": self.attention}
        states = self.stack("decoder", self.shape.decoder_layers, self.placed(vectors, range(len(target))), parts)
        return np.array([self.output_table() @ x for x in states])


def mask_predict(log_probs_of, count, iterations):
    """Section 3.1 for one target of `count` words; returns the words and their log-probabilities.

    `log_probs_of(words)` returns the log-probabilities of the vocabulary at each position; None is a masked word.
    """
    words, scores = [None] * count, [0.0] * count
    for t in range(iterations):
        masked = sorted(range(count), key=lambda i: (scores[i], i))[: math.floor(count * (iterations - t) / iterations)]
        found = log_probs_of([None if i in masked else word for i, word in enumerate(words)])
        for i in masked:
            allowed = {token: value for token, value in enumerate(found[i]) if token not in (PAD, END)}
            words[i] = max(allowed, key=lambda token: (allowed[token], -token))
            scores[i] = allowed[words[i]]
    return words, scores


def best_of_lengths(length_log_probs, log_probs_of, candidates, iterations, limit):
    """Section 3.3; returns (mean log-probability of a word, log-probability with the length, words), best first.

    An output has at least one word, and at most `limit` tokens including its end.
    """
    possible = [count for count in range(1, len(length_log_probs)) if count < limit]
    chosen = sorted(possible, key=lambda count: (-length_log_probs[count], count))[:candidates]
    outputs = []
    for rank, count in enumerate(chosen):
        words, scores = mask_predict(log_probs_of, count, iterations)
        outputs.append((-sum(scores) / count, rank, sum(scores) + length_log_probs[count], words))
    return [(-negative, total, words) for negative, _, total, words in sorted(outputs)]
