"""A plain PyTorch training loop for any module that returns logits.

Settings recommended by PyTorch's documentation: the fused implementation of Adam, gradients set to None
(*Performance Tuning Guide*; *torch.optim.Adam*), and, if the job has `compile`, a compiled loss with dynamic shapes
(*torch.compile*), compiled for the shapes of all batches of the job before the measured updates. If its `compute_type`
is `bfloat16`, the loss is computed under autocast (*Automatic Mixed Precision package*).

Letters: B rows of a batch, S source length, T target length, V vocabulary.
"""

import torch

from benchmarks.harness.child import Clock, versions, write_result
from benchmarks.peers._batches import batches

PAD = 0


def train(job, model, logits_of, packages):
    """Trains on the batches of a job and writes its figures.

    Args:
        job: the job from `read_job`.
        model: the module.
        logits_of: function of inputs (B, S) and targets shifted right (B, T), which start with PAD, both int64; returns
            logits (B, T, V).
        packages: packages besides PyTorch whose versions are recorded.
    """
    clock, loss = Clock(job), None
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1, reduction="sum")

    def loss_of(inputs, targets):
        shifted = torch.nn.functional.pad(targets[:, :-1], (1, 0), value=PAD)
        with torch.autocast("cpu", torch.bfloat16, enabled=job.get("compute_type") == "bfloat16"):
            logits = logits_of(inputs, shifted)
            total = criterion(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        return total / (targets != PAD).sum()

    def backward(inputs, targets):
        mean = loss_of(torch.from_numpy(inputs).long(), torch.from_numpy(targets).long())
        mean.backward()
        return mean

    if job.get("compile"):
        loss_of = torch.compile(loss_of, dynamic=True)
    for update, (inputs, targets) in enumerate(batches(job["batches"]), start=1):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(update / 100, (100 / update) ** 0.5)
        mean = backward(inputs, targets)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss = mean.item()
        if update == job["warm"] and job.get("compile"):  # the last warm-up update
            for shapes in batches(job["batches"]):
                backward(*shapes)
            optimizer.zero_grad(set_to_none=True)
        clock.tick()
        if clock.done:
            break
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    write_result(job, **clock.figures(), loss=loss, parameters=count,
                 versions=versions("torch", *packages))  # fmt: skip


def set_threads(job):
    """Sets the number of threads of the job, and a fixed seed."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
