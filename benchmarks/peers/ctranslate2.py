"""Decodes with CTranslate2 and our weights, converted as in `t2t-exporter`.

Settings recommended by its documentation (*Performance tips*, *Multithreading and parallelism*, *Environment
variables*): sentences sorted by length in batches of about equal size, all submitted at once; on a CPU, several batches
in parallel with one core each instead of one batch on all cores; int8; no scores unless needed. CTranslate2 selects the
library for matrix products: on an AMD processor oneDNN, several times as fast there as Intel's. Its own kernels use
AVX2 there even if the processor has AVX-512; the option `isa` selects AVX-512.
"""

import contextlib
import os
import sys
import tempfile

import numpy as np

from benchmarks.harness.child import read_job, versions
from benchmarks.harness.decoding_child import in_batches, time_decoding

PAD, EOS = "0", "1"
"""Its tokens are our ids as decimal text."""

FLAGS = {"AVX512": "avx512f"}
"""CTranslate2's name of an instruction set -> flag of /proc/cpuinfo."""

TOLD = ("Selected ISA", "SGEMM backend", "GEMM_S8 backend")
"""Starts of the lines of its log that describe its matrix products."""


def main():
    """Writes the outputs and times of all searches."""
    job = read_job()
    os.environ["CT2_VERBOSE"] = "1"  # CTranslate2 reads this and the next variable when it is imported
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
    """Exits with an error if the processor lacks an instruction set."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if FLAGS[isa] not in file.read().split():
            sys.exit("the processor has no " + isa)


def build_translator(job):
    """Converts the job's weights and returns a CTranslate2 translator."""
    import ctranslate2

    from t2t.hparams.transformer import TransformerHParams
    from t2t.inference.ctranslate2.conversion import TokenLists, build_spec

    folder = job["result"] + ".model"
    os.makedirs(folder, exist_ok=True)
    weights, sizes = dict(np.load(job["weights"])), job["sizes"]
    tokens = [str(number) for number in range(sizes["vocab_size"])]
    positions = weights["positions"], weights["positions"]
    spec = build_spec(TransformerHParams(**sizes["hparams"]), weights, positions, TokenLists(tokens, tokens))
    spec.validate()
    spec.optimize()
    spec.save(folder)
    run_parallel = job.get("run_parallel", 1)
    return ctranslate2.Translator(
        folder, device="cpu", compute_type=job["compute_type"], inter_threads=run_parallel,
        intra_threads=job["threads"] // run_parallel,
    )  # fmt: skip


def describe(log, compute_type):
    """Returns one line about its matrix products: instruction set, libraries, and the compute types available here."""
    import ctranslate2

    lines = [line.partition("] - ")[2] or line.rpartition(" - ")[2] for line in log.splitlines()]
    told = [line.strip() for name in TOLD for line in lines if line.strip().startswith(name)]
    offered = ", ".join(sorted(ctranslate2.get_supported_compute_types("cpu")))
    return f"{compute_type}; {'; '.join(told)}; it offers {offered}"


def _search(job, translator, sources, beam, most):
    # A trained model never selects padding; forbidding it would cost a pass over the scores in each step.
    forbidden = {"min_decoding_length": most, "suppress_sequences": [[PAD]]} if job["fixed"] else {}
    return translator.translate_batch(
        sources, beam_size=beam, length_penalty=0, max_decoding_length=most, max_batch_size=0, max_input_length=0,
        asynchronous=True, **forbidden,
    )  # fmt: skip


@contextlib.contextmanager
def _standard_error_to(file):
    """Redirects standard error of this process to a file, including output of C++ code."""
    kept = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


if __name__ == "__main__":
    main()
