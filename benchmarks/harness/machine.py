"""Description of the machine for the results: processor, instruction sets, cores, memory, load, versions."""

import os
import platform
from pathlib import Path
from typing import Any

from benchmarks.harness.child import versions

CPUINFO = Path("/proc/cpuinfo")
"""File in which Linux describes the processors."""

INSTRUCTION_SETS = {
    "avx2": "AVX2",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX512-VNNI",
    "avx512_bf16": "AVX512-BF16",
    "amx_int8": "AMX-INT8",
    "amx_bf16": "AMX-BF16",
    "asimd": "NEON",
    "asimddp": "dot product",
    "i8mm": "I8MM",
    "sve": "SVE",
}
"""Flag of /proc/cpuinfo -> name of an instruction set for matrix products."""

PACKAGES = ("t2t-keras", "tensorflow", "keras", "numpy", "ctranslate2", "sentencepiece")
"""Packages of our side whose versions are recorded."""


def machine(cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """Returns the description of this machine as plain JSON."""
    information = _fields(cpuinfo)
    flags = (information.get("flags") or information.get("Features") or "").split()
    return {
        "processor": information.get("model name") or platform.machine(),
        "instruction_sets": [name for flag, name in INSTRUCTION_SETS.items() if flag in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        "system": f"{platform.system()} {platform.release()}",
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": versions(*PACKAGES),
    }


def describe_machine(cpuinfo: Path = CPUINFO) -> str:
    """Returns the machine, the installed versions and the load as three lines of Markdown."""
    here, installed = machine(cpuinfo), versions(*PACKAGES)
    sets = ", ".join(here["instruction_sets"]) or "none that is known here"
    return (
        f"- Machine: {here['processor']}, {here['cores']} cores, {here['memory_gb']:.0f} GB; instruction sets: {sets}; "
        f"{here['system']}\n"
        f"- Versions: {', '.join(f'{name} {version}' for name, version in installed.items())}\n"
        f"- Load over the last minute: {here['load']:.2f}"
    )


def _fields(cpuinfo: Path) -> dict[str, str]:
    """Returns the fields of the first processor by name."""
    first = cpuinfo.read_text().partition("\n\n")[0]
    fields = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in fields}
