"""Encodes a corpus with SentencePiece's own encoder, in as many processes as there are threads.

Settings of the README of its Python package: lists of lines rather than single ones. Its own threads would share one
interpreter for making lists of ids; processes do not.
"""

import gzip
import multiprocessing
import time

import sentencepiece

from benchmarks.harness.child import Others, read_job, versions, write_result


def main():
    """Writes the seconds that reading the text and encoding it took, once the processes were there."""
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
