"""Decodes with our weights in Hugging Face's MarianMTModel and its `generate`.

Settings of its documentation (Transformers, *Text generation*) for beam search: cached keys and values, PyTorch's
scaled dot-product attention, `inference_mode`. With `run_parallel`, several processes share the threads and the
batches, as PyTorch's tutorial *Grokking PyTorch Intel CPU performance from first principles* recommends for throughput.
"""

import contextlib
import multiprocessing
import os

import numpy as np
import torch

from benchmarks.harness.child import peak_memory_mb, read_job, versions
from benchmarks.harness.decoding_child import in_batches, time_decoding
from benchmarks.peers._torch_training import PAD, set_threads
from benchmarks.peers._weights import Weights
from benchmarks.peers.hf_marian import EOS, LONGEST, build


def build_filled(weights, sizes):
    """Returns the model with our weights; the embedding of its start token is zero, as in our models."""
    model = build(sizes, sizes["vocab_size"], tied=False)
    table = torch.from_numpy(weights["target_embedding/table"])
    with torch.no_grad():
        model.model.shared.weight.copy_(table)
        model.model.shared.weight[PAD] = 0.0
        model.lm_head.weight.copy_(table)
        for stack, name in ((model.model.encoder, "encoder"), (model.model.decoder, "decoder")):
            stack.embed_tokens.weight.copy_(model.model.shared.weight)
            stack.embed_positions.weight.copy_(torch.from_numpy(weights["positions"][:LONGEST]))
            for number, layer in enumerate(stack.layers):
                _fill_layer(layer, weights, f"{name}/layer_{number}")
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = sizes["epsilon"]
    return model.eval()


def _fill_layer(layer, weights, name):
    attentions = [("self_attn", "self_attention")]
    if hasattr(layer, "encoder_attn"):
        attentions.append(("encoder_attn", "encdec_attention"))
    for theirs, ours in attentions:
        for projection, part in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "output")):
            filled = getattr(getattr(layer, theirs), f"{projection}_proj")
            _fill(filled, weights.projections(f"{name}/{ours}", (part,)))
        _fill(getattr(layer, f"{theirs}_layer_norm"), weights.norm(f"{name}/{ours}"))
    _fill(layer.fc1, weights.dense(f"{name}/ffn/inner"))
    _fill(layer.fc2, weights.dense(f"{name}/ffn/outer"))
    _fill(layer.final_layer_norm, weights.norm(f"{name}/ffn"))


def _fill(module, arrays):
    for parameter, array in zip((module.weight, module.bias), arrays):  # noqa: B905  Python 3.9
        parameter.copy_(torch.from_numpy(array))


def main():
    """Writes the outputs and times of all searches."""
    job = read_job()
    peaks = {}
    with _mapper(job) as map_batches:

        def decode(beam):
            found = [None] * len(job["sentences"])
            for process, peak_mb, batch, rows in map_batches(_decode, [(beam, *one) for one in in_batches(job)]):
                peaks[process] = peak_mb
                for number, row in zip(batch, rows):  # noqa: B905  Python 3.9
                    found[number] = [i for i in row if i not in (PAD, EOS)]
            return found

        def score(pairs):
            return list(map_batches(_log_probability, pairs))

        def memory_mb():
            """Returns the sum of the peak memory of all processes, in MB."""
            return sum({os.getpid(): peak_memory_mb(), **peaks}.values())

        time_decoding(job, decode, score, versions("torch", "transformers", "numpy"), memory_mb=memory_mb)


@contextlib.contextmanager
def _mapper(job):
    """Yields a function like `map` that runs in this process, or in `run_parallel` processes."""
    run_parallel = job.get("run_parallel", 1)
    if run_parallel == 1:
        _load(job, job["threads"])
        yield map
        return
    with multiprocessing.get_context("fork").Pool(run_parallel, _load, (job, job["threads"] // run_parallel)) as pool:
        yield pool.imap


def _load(job, threads):
    """Sets the job and the model of this process."""
    global _job, _model
    set_threads({"threads": threads})
    _job, _model = job, build_filled(Weights(job["weights"]), job["sizes"])


def _decode(task):
    """Decodes a batch; returns the process id, its peak memory in MB, the sentence indices and the output ids."""
    beam, batch, most = task
    ids = _padded([[*_job["sentences"][number], EOS] for number in batch])
    with torch.inference_mode():
        found = _model.generate(
            input_ids=ids, attention_mask=(ids != PAD).long(), num_beams=beam, do_sample=False, max_new_tokens=most,
            min_new_tokens=most if _job["fixed"] else None, length_penalty=0.0, early_stopping=False, use_cache=True,
            suppress_tokens=[PAD],
        )  # fmt: skip
    return os.getpid(), peak_memory_mb(), batch, found[:, 1:].tolist()


def _log_probability(pair):
    """Returns the log-probability of a target, end of sequence included."""
    source, target = ([*ids, EOS] for ids in pair)
    with torch.inference_mode():
        logits = _model(
            input_ids=_padded([source]), decoder_input_ids=torch.tensor([[PAD, *target[:-1]]]), use_cache=False
        ).logits[0]
    return float(torch.log_softmax(logits, -1)[torch.arange(len(target)), torch.tensor(target)].sum())


def _padded(rows):
    ids = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for row, values in zip(ids, rows):  # noqa: B905  Python 3.9
        row[: len(values)] = values
    return torch.from_numpy(ids)


if __name__ == "__main__":
    main()
