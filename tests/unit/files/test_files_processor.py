"""The cores that a process may use."""

import os

import pytest

from t2t.files.processor import available_cores
from tests.raw_files import write_files

ALL = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("groups", "limits", "expected"), [
    (None, {}, ALL),
    ("0::/", {}, ALL),
    ("0::/", {"cpu.max": "max 100000"}, ALL),
    ("0::/", {"cpu.max": f"{100_000 * (ALL + 1)} 100000"}, ALL),
    ("0::/", {"cpu.max": "20000 100000"}, 1),  # a fifth of a core
    ("0::/", {"cpu.max": "100001 100000"}, min(ALL, 2)),
    ("0::/of/host", {"cpu.max": "100000 100000"}, 1),  # the container sees its own group as the outermost
    ("0::/outer/inner", {"outer/cpu.max": "100000 100000", "outer/inner/cpu.max": "max 100000"}, 1),
    ("1:cpu,cpuacct:/", {"cpu,cpuacct/cpu.cfs_quota_us": "90000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 1),
    ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, ALL),
    ("2:cpuset:/", {"cpuset/cpu.cfs_quota_us": "1", "cpuset/cpu.cfs_period_us": "1"}, ALL),
    ("of a later kernel", {"cpu.max": "1 1"}, ALL),
])  # fmt: skip
def test_a_quota_limits_the_cores(tmp_path, groups, limits, expected):
    write_files(tmp_path, {f"sys/fs/cgroup/{name}": f"{text}\n" for name, text in limits.items()})
    if groups is not None:
        write_files(tmp_path, {"proc/self/cgroup": f"{groups}\n"})
    assert available_cores(tmp_path) == expected
