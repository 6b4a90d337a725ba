"""Decodes with CTranslate2, its Transformer filled with our weights as `t2t-exporter` fills it.

Settings as its documentation recommends them (*Performance tips*, *Multithreading and parallelism*, *Environment
variables*): sentences sorted by length in batches of about equal size, all of them submitted at once; on a processor,
several batches side by side on a core each rather than one on all cores; int8; no scores where none are wanted. Which
library multiplies is left to it: on an AMD processor oneDNN, several times as fast there as Intel's. Its own kernels
use AVX2 there, even where the processor has AVX-512: `isa` makes them use that.
"""

import contextlib
import os
import sys
import tempfile

import numpy as np

from benchmarks.harness.child import read_job, versions
from benchmarks.harness.decoding_child import in_batches, time_decoding

PAD, EOS = "0", "1"
"""Tokens are ids, written as text."""

FLAGS = {"AVX512": "avx512f"}
"""Instruction set as it calls it -> as /proc/cpuinfo does."""

TOLD = ("Selected ISA", "SGEMM backend", "GEMM_S8 backend")
"""Lines of its log that say how it multiplies."""


def main():
    """Writes the times of the searches, and what was found."""
    job = read_job()
    os.environ["CT2_VERBOSE"] = "1"  # read when it is imported, as is the next
    if "isa" in job:
        check_has(job["isa"])
        os.environ["CT2_FORCE_CPU_ISA"] = job["isa"]
    with tempfile.TemporaryFile() as log:
        with _standard_error_to(log):
            translator = build_translator(job)
        log.seek(0)
        about = describe(log.read().decode(errors="replace"), job["compute_type"])
    sources = [list(map(str, ids)) for ids in job["sentences"]]

    def decode(beam):
        waiting = [(batch, _search(job, translator, [sources[i] for i in batch], beam, most))
                   for batch, most in in_batches(job)]  # fmt: skip
        found = [None] * len(sources)
        for batch, results in waiting:
            for number, result in zip(batch, results):  # noqa: B905
                ids = [int(token) for token in result.result().hypotheses[0]]
                found[number] = [i for i in ids if i != int(EOS)]
        return found

    def score(pairs):
        found = translator.score_batch(
            [list(map(str, source)) for source, _ in pairs], [[*map(str, target)] for _, target in pairs]
        )
        return [float(np.sum(result.log_probs)) for result in found]

    time_decoding(job, decode, score, versions("ctranslate2", "numpy"), about)


def check_has(isa):
    """Ends the process where the processor has no such instruction set."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if FLAGS[isa] not in file.read().split():
            sys.exit("the processor has no " + isa)


def build_translator(job):
    """Returns a translator of the job's weights."""
    import ctranslate2

    from t2t.hparams.transformer import TransformerHParams
    from t2t.inference.ctranslate2.spec import build_spec

    folder = job["result"] + ".model"
    os.makedirs(folder, exist_ok=True)
    weights, sizes = dict(np.load(job["weights"])), job["sizes"]
    tokens = [str(number) for number in range(sizes["vocab_size"])]
    spec = build_spec(TransformerHParams(**sizes["hparams"]), weights, weights["positions"], tokens, tokens)
    spec.validate()
    spec.optimize()
    spec.save(folder)
    run_parallel = job.get("run_parallel", 1)
    return ctranslate2.Translator(
        folder, device="cpu", compute_type=job["compute_type"], inter_threads=run_parallel,
        intra_threads=job["threads"] // run_parallel,
    )  # fmt: skip


def describe(log, compute_type):
    """Returns in a line how it multiplies: its instruction set and libraries, and the types that it offers here."""
    import ctranslate2

    lines = [line.partition("] - ")[2] or line.rpartition(" - ")[2] for line in log.splitlines()]
    told = [line.strip() for name in TOLD for line in lines if line.strip().startswith(name)]
    offered = ", ".join(sorted(ctranslate2.get_supported_compute_types("cpu")))
    return f"{compute_type}; {'; '.join(told)}; it offers {offered}"


def _search(job, translator, sources, beam, most):
    # Padding is never the best token of a trained model; to forbid it would cost a pass over the scores of each step.
    forbidden = {"min_decoding_length": most, "suppress_sequences": [[PAD]]} if job["fixed"] else {}
    return translator.translate_batch(
        sources, beam_size=beam, length_penalty=0, max_decoding_length=most, max_batch_size=0, max_input_length=0,
        asynchronous=True, **forbidden,
    )  # fmt: skip


@contextlib.contextmanager
def _standard_error_to(file):
    """Sends what this process writes to standard error to a file, from C++ too."""
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    main()
