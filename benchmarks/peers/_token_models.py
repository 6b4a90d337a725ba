"""Models of PyTorch of toolkits that read tokens: random weights, and what they answer."""

import torch

from benchmarks.peers import _token_answers


def randomise(job, model):
    """Gives weights random values, larger than those that training begins with, so that outputs differ."""
    torch.manual_seed(job["seed"])
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.requires_grad:
                weight.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, job["deviation"])


def write_answers(job, sides, special, log_probs_of):
    """Does as `_token_answers.write_answers`, with tensors."""
    with torch.no_grad():
        _token_answers.write_answers(job, sides, special, lambda *ids: log_probs_of(*ids).numpy())
