"""The processor: the cores that this process may use, and its instruction sets."""

import contextlib
import os
from collections.abc import Set
from pathlib import Path

_DESCRIPTION = Path("/proc/cpuinfo")
_BFLOAT16 = {"avx512_bf16", "amx_bf16"}
"""Instruction sets for bfloat16, by their names in Linux: of AMD's processors since Zen 4, and some of Intel's."""


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
