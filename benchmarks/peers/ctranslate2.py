"""Decodes with CTranslate2, its Transformer filled with our weights as `t2t-exporter` fills it."""

import os

import ctranslate2
import numpy as np

from benchmarks.harness.child import read_job, versions
from benchmarks.harness.decoding_child import in_batches, time_decoding
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.ctranslate2.spec import build_spec

PAD, EOS = "0", "1"
"""Tokens are ids, written as text."""


def main():
    """Writes the times of the searches, and what was found."""
    job = read_job()
    folder = job["result"] + ".model"
    os.makedirs(folder, exist_ok=True)
    weights, sizes = dict(np.load(job["weights"])), job["sizes"]
    tokens = [str(number) for number in range(sizes["vocab_size"])]
    spec = build_spec(TransformerHParams(**sizes["hparams"]), weights, weights["positions"], tokens, tokens)
    spec.validate()
    spec.optimize()
    spec.save(folder)
    run_parallel = job.get("run_parallel", 1)
    translator = ctranslate2.Translator(
        folder, device="cpu", compute_type=job["compute_type"], inter_threads=run_parallel,
        intra_threads=job["threads"] // run_parallel,
    )  # fmt: skip
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

    time_decoding(job, decode, score, versions("ctranslate2", "numpy"))


def _search(job, translator, sources, beam, most):
    return translator.translate_batch(
        sources, beam_size=beam, length_penalty=0, max_decoding_length=most,
        min_decoding_length=most if job["fixed"] else 1, max_batch_size=0, max_input_length=0,
        suppress_sequences=[[PAD]], asynchronous=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
