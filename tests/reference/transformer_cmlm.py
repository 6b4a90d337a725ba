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
        table = "target_embedding" if self.shape.shared_embedding else "source_embedding"
        words = [self.place(self.embed(table, token), position) for position, token in enumerate(source)]
        states = [self.weights["length_token"], *words]
        for layer in range(self.shape.encoder_layers):
            name = f"encoder/layer_{layer}"
            states = self.sublayer(f"{name}/self_attention", states, lambda xs, n=name: self.attention(n, xs))
            states = self.sublayer(f"{name}/ffn", states, lambda xs, n=name: self.feed_forward(n, xs))
        length, *memory = self.finish("encoder", states)
        return memory, np.log(softmax(self.linear("target_length/", length)))

    def fill(self, target, memory):
        """Returns the logits at every position of a target with its end, (N + 1, V); None is a masked word."""
        vectors = [
            self.weights["mask_token"] if word is None else self.embed("target_embedding", word) for word in target
        ]
        states = [self.place(x, position) for position, x in enumerate(vectors)]
        for layer in range(self.shape.decoder_layers):
            name = f"decoder/layer_{layer}"
            for part, memory_of_part in (("self_attention", None), ("encdec_attention", memory)):
                states = self.sublayer(
                    f"{name}/{part}", states, lambda xs, n=name, m=memory_of_part: self.attention(n, xs, memory=m)
                )
            states = self.sublayer(f"{name}/ffn", states, lambda xs, n=name: self.feed_forward(n, xs))
        return np.array([self.output_table() @ x for x in self.finish("decoder", states)])


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
