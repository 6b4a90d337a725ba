"""Timing of a decoder, shared by all sides.

Uses only the standard library and features of Python 3.9.
"""

import time

from benchmarks.harness.child import Others, peak_memory_mb, write_result


def in_batches(job):
    """Returns (sentence indices, maximum output length in ids) of every batch, longest sentences first."""
    order = sorted(range(len(job["sentences"])), key=lambda i: -len(job["sentences"][i]))
    batches = [order[start : start + job["batch"]] for start in range(0, len(order), job["batch"])]
    # An end of sequence follows every sentence.
    return [(batch, 1 + len(job["sentences"][batch[0]]) + job["extra_length"]) for batch in batches]


def time_decoding(job, decode, score, packages, about="", memory_mb=peak_memory_mb):
    """Decodes all sentences twice at each beam size, times both passes, and writes the outputs and times.

    Args:
        job: `sentences` and `beams`; `pairs`, a list of [source, target], to score.
        decode: function of a beam size that returns the ids of one output for each sentence, without end of sequence.
        score: function of pairs that returns the log-probability of each target with its end of sequence, or None.
        packages: versions of the packages that decode.
        about: one line that describes the computation, e.g. its precision.
        memory_mb: function that returns the peak memory of all processes that decode, in MB.
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
