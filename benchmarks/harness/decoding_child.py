"""Timing a decoder, the same for every side.

Standard library alone, and nothing newer than Python 3.9.
"""

import time

from benchmarks.harness.child import Others, peak_memory_mb, write_result


def in_batches(job):
    """Returns (numbers of sentences, most ids of an output) of every batch, the longest first."""
    order = sorted(range(len(job["sentences"])), key=lambda i: -len(job["sentences"][i]))
    batches = [order[start : start + job["batch"]] for start in range(0, len(order), job["batch"])]
    # An end of sequence follows every sentence.
    return [(batch, 1 + len(job["sentences"][batch[0]]) + job["extra_length"]) for batch in batches]


def time_decoding(job, decode, score, packages, about="", memory_mb=peak_memory_mb):
    """Decodes all sentences twice at each beam, times the second pass, and writes what came out.

    Args:
        job: `sentences` and `beams`; `pairs`, a list of [source, target], to score.
        decode: function of a beam that gives the ids of one output for each sentence, without end of sequence.
        score: function of pairs that gives the log-probability of each target with its end.
        packages: versions of what runs.
        about: a line about how it computes.
        memory_mb: function that gives the peak memory, of all its processes where it has several.
    """
    scores, searches = score(job["pairs"]) if job["pairs"] else [], {}
    for beam in job["beams"]:
        others, began = Others(), time.perf_counter()
        decode(beam)
        first, began = time.perf_counter() - began, time.perf_counter()
        outputs = decode(beam)
        seconds = time.perf_counter() - began
        searches[str(beam)] = {"first": first, "seconds": seconds, "others": others.cores(), "outputs": outputs}
    busiest = max(search["others"] for search in searches.values())
    write_result(job, searches=searches, scores=scores, others=busiest, peak_memory_mb=memory_mb(),
                 versions=packages, about=about)  # fmt: skip
