"""Step functions that read log-probabilities from tables, for tests of the searches.

The state of a row is the index of its prefix in the tree of all prefixes, so a search that confused the states of two
beams would read the log-probabilities of a wrong prefix.
"""

import itertools

import numpy as np
from keras import ops

from t2t.search.constraints import BatchConstraints
from t2t.search.result import gnmt
from t2t.search.settings import SearchSettings
from tests.searches import decode


def tree_step_fn(tables, vocab_size, depth, rows_per_sentence):
    """Returns a step function over plain tables (see tests/reference/beam_search.py), one table for each sentence."""
    rows = [[table[prefix] for prefix in _prefixes(vocab_size, depth)] for table in tables]
    nodes_BPV = np.asarray(rows, dtype="float32")
    count = nodes_BPV.shape[1]
    flat = nodes_BPV.reshape(-1, vocab_size)

    def step_fn(ids, position, state):
        node = ops.where(ops.equal(position, 0), state["node"], state["node"] * vocab_size + ids + 1)
        # Beams never change the sentence of a row, so it is not part of the state.
        sentence = ops.arange(ops.shape(ids)[0], dtype="int32") // rows_per_sentence
        return ops.take(ops.convert_to_tensor(flat), sentence * count + node, axis=0), {"node": node}

    return step_fn


def _prefixes(vocab_size, depth):
    """All prefixes shorter than `depth`, numbered as a heap: child t of node n is n * V + t + 1."""
    level, found = [()], []
    for _ in range(depth):
        found += level
        level = [(*prefix, token) for prefix in level for token in range(vocab_size)]
    return found


def tree_state(sentences, rows_per_sentence):
    return {"node": ops.zeros((sentences * rows_per_sentence,), "int32")}


def hypotheses(result, sentence):
    """Returns the hypotheses of one sentence as (score, log_prob, tokens), without empty slots."""
    found = []
    for row, length in enumerate(np.asarray(result.lengths)[sentence]):
        if length:
            ids = np.asarray(result.ids)[sentence, row]
            assert not ids[length:].any()
            tokens = tuple(int(token) for token in ids[:length])
            found.append((float(result.scores[sentence, row]), float(result.log_probs[sentence, row]), tokens))
    return found


def assert_same_hypotheses(found, expected):
    assert [tokens for _, _, tokens in found] == [tuple(tokens) for _, _, tokens in expected]
    for column in (0, 1):
        np.testing.assert_allclose([h[column] for h in found], [h[column] for h in expected], rtol=1e-5, atol=1e-6)


NODES = 9973
"""Number of states of a model for outputs of any length; its state is a hash of all tokens so far."""


def node_table(vocab_size, seed):
    """Log-probabilities (NODES, V) float32 of such a model."""
    logits_NV = np.random.default_rng(seed).normal(0, 2, (NODES, vocab_size))
    return (logits_NV - np.logaddexp.reduce(logits_NV, axis=1, keepdims=True)).astype(np.float32)


def node_log_probs(rows, ids):
    """Returns the log-probability of each token of an output."""
    nodes = itertools.accumulate(ids, lambda node, token: (node * rows.shape[1] + token + 1) % NODES, initial=0)
    return [float(rows[node, token]) for node, token in zip(nodes, ids, strict=False)]


def node_search(rows, constraints, limits, prefixes=None, starts=None, **changes):
    """Returns the hypotheses of each sentence under its constraint; one model for all, by default from node 0."""
    settings, vocab_size = SearchSettings(**changes), rows.shape[1]

    def step(ids, position, node):
        node = ops.where(ops.equal(position, 0), node, (node * vocab_size + ids + 1) % NODES)
        return ops.take(ops.convert_to_tensor(rows), node, axis=0), node

    start = np.zeros(len(limits), np.int32) if starts is None else np.array(starts, np.int32)
    result = decode(
        step, np.repeat(start, settings.rows_per_sentence), settings, batch_size=len(limits),
        vocab_size=vocab_size, max_steps=np.asarray(limits, np.int32), prefix=prefixes,
        constraints=BatchConstraints.build(constraints, vocab_size),
    )  # fmt: skip
    return [hypotheses(result, sentence) for sentence in range(len(limits))]


def node_ranking(rows, outputs, alpha=0.6):
    """Outputs with their scores, best first."""
    scored = [(sum(node_log_probs(rows, ids)) / gnmt(alpha)(len(ids)), ids) for ids in outputs]
    return sorted(scored, reverse=True)


def assert_ranked(results, outputs, rows, most=400):
    """Checks that each sentence has the best of its outputs, in the order of their scores."""
    for found, outputs_of_one in zip(results, outputs, strict=True):
        expected = node_ranking(rows, outputs_of_one)[:most]
        assert [ids for _, _, ids in found] == [ids for _, ids in expected]
        np.testing.assert_allclose([score for score, _, _ in found], [score for score, _ in expected], rtol=1e-4)
