"""PyTorch's side: torch.nn.Transformer, compiled, in autocast bfloat16, with fused attention and fused Adam."""

import torch

from benchmarks.gpu.model import batch, matrix_rate, side_for, turn_seconds
from benchmarks.harness.child import peak_memory_mb, read_job, versions, write_result
from benchmarks.peers.torch_transformer import Translator


class Updates:
    """Model, optimizer and compiled loss function."""

    def __init__(self, job, device):
        torch.manual_seed(1)
        torch.set_float32_matmul_precision("high")
        self.device = device
        self.model = Translator(job["config"], job["vocab_size"]).to(device).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-4, (0.9, 0.98), 1e-9, fused=True)
        self.inputs, self.targets = (torch.from_numpy(ids).long().to(device) for ids in batch(job).values())
        self.loss = None
        self._compiled = torch.compile(self._loss)

    def __call__(self, number):
        """Starts an update without waiting for it."""
        self.loss = self._compiled()
        self.loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def wait(self):
        """Waits for all updates."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _loss(self):
        shifted = torch.nn.functional.pad(self.targets[:, :-1], (1, 0), value=0)
        with torch.autocast(self.device, torch.bfloat16):
            logits = self.model(self.inputs, shifted)
        return torch.nn.functional.cross_entropy(
            logits.float().flatten(0, 1), self.targets.flatten(), label_smoothing=0.1
        )


def main():
    """Writes the times of updates and the peak matrix rate of the device."""
    job = read_job()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    updates = Updates(job, device)
    seconds = turn_seconds(job, updates, updates.wait)
    memory = torch.cuda.max_memory_allocated() / 1e6 if device == "cuda" else peak_memory_mb()
    side = side_for(device)
    a = torch.ones((side, side), dtype=torch.bfloat16, device=device)
    write_result(
        job,
        turn_seconds=seconds,
        loss=float(updates.loss),
        parameters=sum(p.numel() for p in updates.model.parameters()),
        matrix_flops=matrix_rate(lambda: a @ a, updates.wait, side),
        precision="autocast bfloat16",
        tensorfloat32=torch.get_float32_matmul_precision() != "highest",
        device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
        peak_memory_mb=memory,
        versions=versions("torch"),
    )


if __name__ == "__main__":
    main()
