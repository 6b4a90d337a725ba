"""Encodes a corpus with SentencePiece's own encoder, in one process per thread of the job.

Settings of the README of its Python package: lists of lines instead of single lines. Processes instead of its own
threads, which would share one interpreter when they create lists of ids.
"""

import gzip
import multiprocessing
import time

import sentencepiece

from benchmarks.harness.child import Others, read_job, versions, write_result


def main():
    """Writes the seconds for reading and encoding the text, without starting the processes."""
    job = read_job()
    context = multiprocessing.get_context("fork")
    others = Others()
    with context.Pool(job["threads"], _load, (job["vocabulary"],)) as pool:
        pool.map(_count_ids, [["a"]] * job["threads"])
        began = time.perf_counter()
        parts = [part for path in job["files"] for part in _parts(_lines(path), job["threads"])]
        ids = sum(pool.map(_count_ids, parts, chunksize=1))
        seconds = time.perf_counter() - began
        pool.close()
        pool.join()
    write_result(job, seconds=seconds, ids=ids, others=others.cores(), versions=versions("sentencepiece"))


def _lines(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8", newline="\n") as file:
        return file.read().split("\n")


def _parts(lines, count):
    size = -(-len(lines) // count)
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def _load(model):
    global _encoder
    _encoder = sentencepiece.SentencePieceProcessor(model_file=model)


def _count_ids(lines):
    return sum(map(len, _encoder.encode(lines, out_type=int, num_threads=1)))


if __name__ == "__main__":
    main()
