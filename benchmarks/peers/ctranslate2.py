"""Decodes with CTranslate2, its Transformer filled with our weights.

Legend: V vocabulary, D width.
"""

import os

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec, common_spec

from benchmarks.harness.child import read_job, versions
from benchmarks.harness.decoding_child import in_batches, time_decoding
from benchmarks.peers._weights import Weights

PAD, EOS, UNKNOWN = "0", "1", "2"
"""Tokens are ids, written as text."""


def build_spec(weights, sizes):
    """Returns the specification of our network, filled."""
    spec = TransformerSpec.from_config(
        sizes["layers"], sizes["heads"], pre_norm=False, activation=common_spec.Activation.RELU
    )
    tokens = [str(number) for number in range(sizes["vocab_size"])]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.bos_token = spec.config.eos_token = EOS
    spec.config.unk_token, spec.config.decoder_start_token = UNKNOWN, PAD
    spec.config.layer_norm_epsilon = sizes["epsilon"]
    table = weights["target_embedding/table"]
    for embeddings in (*spec.encoder.embeddings, spec.decoder.embeddings):
        embeddings.weight = table
    spec.decoder.projection.weight = table
    spec.decoder.start_from_zero_embedding = True
    for stack, name in ((spec.encoder, "encoder"), (spec.decoder, "decoder")):
        stack.position_encodings.encodings = weights["positions"]
        for number, layer in enumerate(stack.layer):
            _fill_layer(layer, weights, f"{name}/layer_{number}")
    return spec


def _fill_layer(layer, weights, name):
    attention = f"{name}/self_attention"
    _fill(layer.self_attention.linear[0], weights.projections(attention, ("query", "key", "value")))
    _fill(layer.self_attention.linear[1], weights.projections(attention, ("output",)))
    _fill_norm(layer.self_attention.layer_norm, weights.norm(attention))
    if hasattr(layer, "attention"):
        attention = f"{name}/encdec_attention"
        for linear, parts in zip(layer.attention.linear, (("query",), ("key", "value"), ("output",))):  # noqa: B905
            _fill(linear, weights.projections(attention, parts))
        _fill_norm(layer.attention.layer_norm, weights.norm(attention))
    _fill(layer.ffn.linear_0, weights.dense(f"{name}/ffn/inner"))
    _fill(layer.ffn.linear_1, weights.dense(f"{name}/ffn/outer"))
    _fill_norm(layer.ffn.layer_norm, weights.norm(f"{name}/ffn"))


def _fill(linear, arrays):
    linear.weight, linear.bias = arrays


def _fill_norm(norm, arrays):
    norm.gamma, norm.beta = arrays


def main():
    """Writes the times of the searches, and what was found."""
    job = read_job()
    folder = job["result"] + ".model"
    os.makedirs(folder, exist_ok=True)
    spec = build_spec(Weights(job["weights"]), job["sizes"])
    spec.validate()
    spec.optimize()
    spec.save(folder)
    side_by_side = job.get("side_by_side", 1)
    translator = ctranslate2.Translator(
        folder, device="cpu", compute_type=job["compute_type"], inter_threads=side_by_side,
        intra_threads=job["threads"] // side_by_side,
    )  # fmt: skip
    sources = [[*map(str, ids), EOS] for ids in job["sentences"]]

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
            [[*map(str, source), EOS] for source, _ in pairs], [[*map(str, target)] for _, target in pairs]
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
