"""Trains JoeyNMT's Transformer on PyTorch, with JoeyNMT's loss and batch class.

Settings of its documentation (*Configuration* of JoeyNMT, section on training): loss normalized by tokens, Adam; the
fused implementation, as PyTorch recommends, instead of JoeyNMT's plain one. JoeyNMT's dropout also applies inside
attention and the feed-forward layer; there it is set to 0, as for the other peers. Batches are sorted by source length,
as in JoeyNMT's own training.

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
    """Returns the model: norms after each sub-layer, one embedding for source, target and output."""
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
    """Writes the times of updates."""
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
    """Returns a JoeyNMT batch of inputs (B, S) and targets (B, T), our ids."""
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
    """Returns the entropy of a smoothed target in nats.

    JoeyNMT's loss is the KL divergence, which is smaller than the cross-entropy of the other peers by this.
    """
    others = SMOOTHING / (vocab_size - 2)
    return -(1 - SMOOTHING) * math.log(1 - SMOOTHING) - SMOOTHING * math.log(others)


def _theirs(ids):
    """Converts our ids to JoeyNMT's int64 ids: padding 0 to 1, end 1 to 3; our 2 and 3 become unknown, 0."""
    numbers = np.arange(max(4, int(ids.max()) + 1))
    numbers[[PAD, EOS, 2, 3]] = THEIR_PAD, THEIR_END, THEIR_UNKNOWN, THEIR_UNKNOWN
    return numbers[ids].astype(np.int64)


if __name__ == "__main__":
    main()
