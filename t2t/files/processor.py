"""The processor: the cores that this process may use, its instruction sets; and whether there is more than it."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path, PurePosixPath

_DESCRIPTION = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16"}
"""Instruction sets for bfloat16, by their names in Linux: of AMD's processors since Zen 4, and some of Intel's."""
_ACCELERATOR = re.compile(r"(nvidia|accel|kfd|dxg)\d*")
"""Names of devices in Linux: of GPUs of Nvidia, TPUs, GPUs of AMD, and GPUs seen from Linux in Windows."""


def available_cores(root: Path = Path("/")) -> int:
    """Returns the number of processor cores that this process may use; a quota, as of a container, is rounded up.

    `root` is the folder of the system's files.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *(-(-quota // period) for quota, period in _quotas(root) if quota > 0 < period)]))


def _quotas(root: Path) -> Iterator[tuple[int, int]]:
    """Yields the time in a period that each control group of this process may compute, and the period; -1: no limit."""
    for text in control_group_values(root, "cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us"), "cpu.max"):
        with contextlib.suppress(ValueError):  # another form
            quota, period = map(int, text.replace("max", "-1").split())
            yield quota, period


def control_group_values(root: Path, controller: str, files_of_v1: Sequence[str], file_of_v2: str) -> Iterator[str]:
    """Yields what each control group of this process has in a file, the innermost group first; nothing elsewhere.

    Args:
        root: folder of the system's files.
        controller: `cpu` or `memory`.
        files_of_v1: files of control groups of version 1; their contents are joined by spaces.
        file_of_v2: file of those of version 2.
    """
    lines = []
    with contextlib.suppress(OSError):  # not Linux
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").strip().split("\n")
    for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        if controllers and controller not in controllers.split(","):
            continue
        group = PurePosixPath(path.lstrip("/"))
        for folder in (group, *group.parents):  # a container may see the names of its host, and only its own group
            files = [root / "sys/fs/cgroup" / controllers / folder / name for name in files_of_v1 if controllers]
            files = files or [root / "sys/fs/cgroup" / folder / file_of_v2]
            with contextlib.suppress(OSError):  # no such group
                yield " ".join(file.read_text(encoding="utf-8").strip() for file in files)


def instruction_sets() -> set[str]:
    """Returns the words of Linux's description of the processor, among them its instruction sets, e.g. `avx512f`.

    Empty on other systems.
    """
    with contextlib.suppress(OSError):
        return set(_DESCRIPTION.read_text(encoding="utf-8").split())
    return set()


def multiplies_bfloat16(sets: Set[str] | None = None) -> bool:
    """Returns whether a processor with some instruction sets, or else this one, multiplies bfloat16."""
    return bool((instruction_sets() if sets is None else sets) & _BFLOAT16)


def sees_accelerator(devices: Iterable[str] | None = None) -> bool:
    """Returns whether this process may use a GPU or TPU, by the names in /dev; loads no library that would tell.

    GPUs that `CUDA_VISIBLE_DEVICES` hides do not count.

    Args:
        devices: the names; None for those of this machine.
    """
    if devices is None:
        with contextlib.suppress(OSError):
            devices = os.listdir("/dev")
    found = {match[1] for name in devices or () if (match := _ACCELERATOR.fullmatch(name))}
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        found -= {"nvidia", "dxg"}
    return bool(found)
