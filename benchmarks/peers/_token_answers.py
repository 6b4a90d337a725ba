"""What toolkits that read tokens are asked: log-probabilities of given targets, and outputs of greedy search."""

import numpy as np

from benchmarks.harness.child import write_result

WORDS = 40
"""Of each side that become tokens; the others are unknown."""


def tokens_of(texts, special):
    """Returns a list of tokens: the special ones, and the words of texts in the order of their first use."""
    words = list(dict.fromkeys(word for text in texts for word in text.split()))
    return [*special, *words[:WORDS]]


def write_answers(job, sides, special, log_probs_of):
    """Writes the answers of a model.

    Args:
        job: with its texts.
        sides: functions from words to ids, of inputs and of targets.
        special: ids of the token that the decoder begins with, of the end of outputs, and of unknown words.
        log_probs_of: of ids of an input and of targets, the first one included, returns an array (T, V).
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
