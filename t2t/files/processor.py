"""The processor: the cores that this process may use, its instruction sets; and whether there is more than it."""

import contextlib
import os
import re
from collections.abc import Iterable, Set
from pathlib import Path

_DESCRIPTION = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16"}
"""Instruction sets for bfloat16, by their names in Linux: of AMD's processors since Zen 4, and some of Intel's."""
_ACCELERATOR = re.compile(r"(nvidia|accel|kfd|dxg)\d*")
"""Names of devices in Linux: of GPUs of Nvidia, TPUs, GPUs of AMD, and GPUs seen from Linux in Windows."""


def available_cores() -> int:
    """Returns the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
