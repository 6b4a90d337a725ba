"""PyTorch models of toolkits whose input is tokens: random weights, and outputs."""

import torch

from benchmarks.peers import _token_answers


def randomise(job, model):
    """Sets random weights, larger than usual initial weights, so that outputs differ."""
    torch.manual_seed(job["seed"])
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                weight.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, job["deviation"])


def write_answers(job, sides, special, log_probs_of):
    """Like `_token_answers.write_answers`, but `log_probs_of` returns a tensor."""
    with torch.no_grad():
        _token_answers.write_answers(job, sides, special, lambda *ids: log_probs_of(*ids).numpy())
