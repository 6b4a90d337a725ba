"""Trains JoeyNMT's Transformer with its loss and its batches, on PyTorch.

Settings of its documentation (*Configuration* of JoeyNMT, section on training): loss by tokens, Adam; fused, as PyTorch
recommends, where JoeyNMT has the plain one. Its one dropout is inside attention and the feed-forward layer too; there
it is set to 0, as elsewhere here. It sorts a batch by source length, as it does itself.

Letters: B rows of a batch, S source length, T target length.
"""

import logging
import math
import types

import numpy as np
import torch

from benchmarks.harness.child import Clock, read_job, versions, write_result
from benchmarks.peers._batches import batches
from benchmarks.peers._torch_training import set_threads

PAD, EOS = 0, 1
THEIR_UNKNOWN, THEIR_PAD, THEIR_START, THEIR_END = 0, 1, 2, 3
SMOOTHING = 0.1


def build(config, vocab_size):
    """Returns the model: normalized after each sub-layer, with one table for source, target and output."""
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = types.SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
        unk_id=THEIR_UNKNOWN, pad_id=THEIR_PAD, bos_id=THEIR_START, eos_id=THEIR_END, sep_id=None,
    )  # fmt: skip
    vocabulary = Vocabulary([f"piece{number}" for number in range(4, vocab_size)], special)
    stack = {
        "type": "transformer", "num_layers": config["layers"], "num_heads": config["heads"],
        "hidden_size": config["width"], "ff_size": config["inner"], "dropout": config["dropout"],
        "layer_norm": "post",
        "embeddings": {"embedding_dim": config["width"], "scale": True, "dropout": config["dropout"]},
    }  # fmt: skip
    model = build_model(
        {
            "encoder": dict(stack), "decoder": dict(stack), "tied_embeddings": True, "tied_softmax": True,
            "initializer": "xavier_uniform", "embed_initializer": "xavier_uniform", "embed_init_gain": 1.0,
            "init_gain": 1.0, "bias_initializer": "zeros",
        },
        src_vocab=vocabulary, trg_vocab=vocabulary,
    )  # fmt: skip
    for module in model.modules():
        name = type(module).__name__
        if name == "MultiHeadedAttention":
            module.dropout.p = 0.0
        elif name == "PositionwiseFeedForward":
            module.pwff_layer[2].p = 0.0
    model.loss_function = ("crossentropy", SMOOTHING)
    return model


def main():
    """Writes the times of some updates."""
    job = read_job()
    set_threads(job)
    logging.disable(logging.INFO)
    model, clock, loss = build(job["config"], job["vocab_size"]), Clock(job), None
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)
    for update, (inputs, targets) in enumerate(batches(job["batches"]), start=1):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(update / 100, (100 / update) ** 0.5)
        batch = their_batch(inputs, targets)
        summed, _, _, _ = model(return_type="loss", **vars(batch))
        mean = batch.normalize(summed, normalization="tokens")
        mean.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = mean.item()
        clock.tick()
        if clock.done:
            break
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    write_result(job, **clock.figures(), loss=loss + entropy(job["vocab_size"]), parameters=count,
                 versions=versions("joeynmt", "torch"))  # fmt: skip


def their_batch(inputs, targets):
    """Returns inputs (B, S) and targets (B, T) as JoeyNMT's batch."""
    from joeynmt.batch import Batch

    started = np.concatenate([np.full([len(targets), 1], THEIR_START), _theirs(targets)], axis=1)
    batch = Batch(
        src=torch.from_numpy(_theirs(inputs)), src_length=torch.from_numpy((inputs != PAD).sum(axis=1)),
        src_prompt_mask=None, trg=torch.from_numpy(started), trg_prompt_mask=None,
        indices=torch.arange(len(inputs)), device=torch.device("cpu"), pad_index=THEIR_PAD, eos_index=THEIR_END,
    )  # fmt: skip
    batch.sort_by_src_length()
    return batch


def entropy(vocab_size):
    """Returns that of a smoothed target, nats: what its loss, a divergence, is less than the others' cross-entropy."""
    others = SMOOTHING / (vocab_size - 2)
    return -(1 - SMOOTHING) * math.log(1 - SMOOTHING) - SMOOTHING * math.log(others)


def _theirs(ids):
    """Returns ids in their numbering: 1 pads, 3 ends; what had 2 and 3 takes 0, 2 begins."""
    numbers = np.arange(max(4, int(ids.max()) + 1))
    numbers[[PAD, EOS, 2, 3]] = THEIR_PAD, THEIR_END, THEIR_UNKNOWN, THEIR_UNKNOWN
    return numbers[ids].astype(np.int64)


if __name__ == "__main__":
    main()
