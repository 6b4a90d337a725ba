"""Beam search over next-token tables in plain Python: slow, without arrays, written from the definitions.

A table maps a prefix (tuple of tokens) to a list of V log-probabilities. A hypothesis is (score, log_prob, tokens).
"""

import itertools
import math
import random

EOS = 1


def random_tables(sentences, vocab_size, depth, seed, spread=2.0):
    """Returns a table for each sentence: independent random log-probabilities after every prefix."""
    rng = random.Random(seed)
    return [
        {
            prefix: _log_softmax([rng.gauss(0.0, spread) for _ in range(vocab_size)])
            for length in range(depth)
            for prefix in itertools.product(range(vocab_size), repeat=length)
        }
        for _ in range(sentences)
    ]


def _log_softmax(logits):
    total = math.log(sum(math.exp(x) for x in logits))
    return [x - total for x in logits]


def log_prob_of(table, tokens):
    return sum(table[tuple(tokens[:place])][token] for place, token in enumerate(tokens))


def enumerate_all(table, vocab_size, limit, penalty):
    """Returns all possible hypotheses, best first: all V^limit sequences, each cut after its first end of sequence."""
    whole = set()
    for tokens in itertools.product(range(vocab_size), repeat=limit):
        whole.add(tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens)
    scored = [
        (log_prob_of(table, tokens) / penalty(len(tokens)), log_prob_of(table, tokens), tokens) for tokens in whole
    ]
    return sorted(scored, reverse=True)


def beam_search(table, vocab_size, beam_size, limit, penalty, only_best):
    """Returns the best hypotheses of a search with beam size K, best first; at most K."""
    alive, finished = [(0.0, ())], []
    for length in range(1, limit + 1):
        continued = [
            (log_prob + table[tokens][token], (*tokens, token))
            for log_prob, tokens in alive
            for token in range(vocab_size)
        ]
        continued.sort(key=lambda item: -item[0])
        continued = continued[: 2 * beam_size]
        whole = [item for item in continued if item[1][-1] == EOS or length == limit]
        finished += [(log_prob / penalty(length), log_prob, tokens) for log_prob, tokens in whole]
        finished = sorted(finished, key=lambda item: -item[0])[:beam_size]
        alive = [item for item in continued if item not in whole][:beam_size]
        needed = 1 if only_best else beam_size
        if not alive:
            break
        if len(finished) >= needed and finished[needed - 1][0] >= alive[0][0] / penalty(limit):
            break
    return finished


def greedy(table, limit):
    """Returns the tokens of greedy search."""
    tokens = ()
    while len(tokens) < limit and EOS not in tokens:
        row = table[tokens]
        tokens = (*tokens, row.index(max(row)))
    return tokens
