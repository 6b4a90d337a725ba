"""The plain PyTorch training loop, for any module that gives logits.

Settings as PyTorch's documentation recommends them: Adam in its fused implementation, gradients set to None
(*Performance Tuning Guide*; *torch.optim.Adam*), and where the job says so a compiled loss of dynamic shapes
(*torch.compile*), compiled for the shapes of all the job's batches before the measured updates.

Letters: B rows of a batch, S source length, T target length, V vocabulary.
"""

import torch

from benchmarks.harness.child import Clock, versions, write_result
from benchmarks.peers._batches import batches

PAD = 0


def train(job, model, logits_of, packages):
    """Trains as the job says and writes its figures.

    Args:
        job: what `read_job` gave.
        model: the module.
        logits_of: function of inputs (B, S), shifted targets (B, T) int64, which begin with PAD; gives (B, T, V).
        packages: whose versions count.
    """
    clock, loss = Clock(job), None
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1, reduction="sum")

    def loss_of(inputs, targets):
        shifted = torch.nn.functional.pad(targets[:, :-1], (1, 0), value=PAD)
        logits = logits_of(inputs, shifted)
        return criterion(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)) / (targets != PAD).sum()

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
        if update == job["warm"] and job.get("compile"):  # the last one that is not measured
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
    """Takes the threads that the job allows, and a fixed seed."""
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
