"""Outputs of toolkits whose input is tokens: log-probabilities of given targets, and greedy search."""

import numpy as np

from benchmarks.harness.child import write_result

WORDS = 40
"""Number of words of each side in the vocabulary; other words are unknown."""


def tokens_of(texts, special):
    """Returns the vocabulary: special tokens, then the first WORDS distinct words of the texts."""
    words = list(dict.fromkeys(word for text in texts for word in text.split()))
    return [*special, *words[:WORDS]]


def write_answers(job, sides, special, log_probs_of):
    """Writes the log-probabilities and greedy outputs of a model.

    Args:
        job: `sources` and `targets`, texts; `extra_length`, the output limit beyond the source length.
        sides: functions from words to ids, for inputs and for targets.
        special: ids of the decoder's start token, of the end of sequence, and of unknown words.
        log_probs_of: function of input ids and decoder input ids (T of them, start token first) that returns the
            log-probabilities of the next tokens, (T, V).
    """
    start, end, _ = special
    found = {"log_probs": [], "greedy": []}
    for source, target in zip(job["sources"], job["targets"]):  # noqa: B905  Python 3.9
        ids, written = sides[0](source.split()), [start]
        wanted = [*sides[1](target.split()), end]
        rows = log_probs_of(ids, [start, *wanted[:-1]])
        found["log_probs"].append([float(rows[place, token]) for place, token in enumerate(wanted)])
        while len(written) <= len(source.split()) + 1 + job["extra_length"] and written[-1] != end:
            last = np.array(log_probs_of(ids, written)[-1])
            last[start] = -np.inf
            written.append(int(last.argmax()))
        found["greedy"].append([token for token in written[1:] if token != end])
    write_result(job, **found, special=list(special))
