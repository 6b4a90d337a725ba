"""Trains torch.nn.Transformer with embeddings and positions.

Settings of PyTorch's documentation (*torch.nn.Transformer*): `batch_first`, and `tgt_is_causal` with the causal mask,
so that attention need not read the mask. For the training loop see `_torch_training`.

Letters: B rows of a batch, S source length, T target length, D width.
"""

import math

import torch

from benchmarks.harness.child import read_job
from benchmarks.peers._torch_training import PAD, set_threads, train

LONGEST = 512


class Translator(torch.nn.Module):
    """torch.nn.Transformer with sinusoidal positions and one embedding for source, target and output."""

    def __init__(self, config, vocab_size):
        super().__init__()
        width = config["width"]
        self.embedding = torch.nn.Embedding(vocab_size, width, padding_idx=PAD)
        torch.nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.register_buffer("positions", sinusoids(LONGEST, width))
        self.dropout = torch.nn.Dropout(config["dropout"])
        self.stacks = torch.nn.Transformer(
            width, config["heads"], config["layers"], config["layers"], config["inner"], config["dropout"],
            activation="relu", batch_first=True,
        )  # fmt: skip
        for layer in (*self.stacks.encoder.layers, *self.stacks.decoder.layers):
            layer.dropout.p = 0.0  # inside the feed-forward layer
            for attention in (layer.self_attn, getattr(layer, "multihead_attn", layer.self_attn)):
                attention.dropout = 0.0

    def forward(self, inputs, shifted):
        """Returns the logits (B, T, vocabulary) for inputs (B, S) and targets shifted right (B, T)."""
        padded = inputs == PAD
        causal = torch.nn.Transformer.generate_square_subsequent_mask(shifted.shape[1])
        # Target padding needs no mask: it is at the end, where it has no loss and is not attended to.
        hidden = self.stacks(
            self._embed(inputs), self._embed(shifted), tgt_mask=causal, tgt_is_causal=True,
            src_key_padding_mask=padded, memory_key_padding_mask=padded,
        )  # fmt: skip
        return torch.nn.functional.linear(hidden, self.embedding.weight)

    def _embed(self, ids):
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: ids.shape[1]])


def sinusoids(length, width):
    """Returns the position encodings, (length, width) float32."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([torch.sin(angles), torch.cos(angles)], dim=2).reshape(length, width)


def main():
    """Writes the times of updates."""
    job = read_job()
    set_threads(job)
    model = Translator(job["config"], job["vocab_size"])
    train(job, model, model, ())


if __name__ == "__main__":
    main()
