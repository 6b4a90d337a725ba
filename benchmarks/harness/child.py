"""Helpers of a measured process: read its job, time updates, write its figures.

Runs in the environment of every peer, so it uses only the standard library and features of Python 3.9.
"""

import json
import os
import platform
import sys
import time
from importlib import metadata


def read_job():
    """Returns the job of this process: the JSON file named by its only argument."""
    with open(sys.argv[1], encoding="utf-8") as file:
        return json.load(file)


def write_result(job, **figures):
    """Writes figures as JSON to the path `job["result"]`; adds this process's peak memory unless it is given."""
    figures.setdefault("peak_memory_mb", peak_memory_mb())
    temporary = job["result"] + ".part"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(figures, file)
    os.replace(temporary, job["result"])


def peak_memory_mb():
    """Returns the peak resident memory of this process, in MB of 10^6 bytes.

    Does not use `getrusage`, whose maximum includes the memory of the process that forked this one.
    """
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def seconds_since_start():
    """Returns the age of this process in seconds, interpreter start-up included."""
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])  # field 22, counted from after the name
    with open("/proc/uptime", encoding="ascii") as file:
        uptime = float(file.read().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


def versions(*packages):
    """Returns the version of Python and those of the given packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


class Clock:
    """Times updates after the first few, which trace and warm up.

    Args:
        job: `warm` and `steps`, the numbers of updates before and within the measurement.
        now: returns the time in seconds.
        age: returns the seconds since the process has started.
    """

    def __init__(self, job, now=time.perf_counter, age=seconds_since_start):
        self._warm, self.wanted = job["warm"], job["warm"] + job["steps"]
        self._now, self._age, self._ends = now, age, []
        self._first = 0.0
        self._others = Others()

    def tick(self):
        """Records the end of an update."""
        if not self._ends:
            self._first = self._age()
        self._ends.append(self._now())
        if len(self._ends) == self._warm:
            self._others = Others()

    @property
    def done(self):
        """Whether all measured updates have ended."""
        return len(self._ends) >= self.wanted

    def figures(self):
        """Returns seconds from process start to the first update, of each measured update, and `others` in cores."""
        ends = self._ends[self._warm - 1 : self.wanted]
        seconds = [ends[i + 1] - ends[i] for i in range(len(ends) - 1)]
        return {"seconds_to_first_update": self._first, "update_seconds": seconds, "others": self._others.cores()}


class Others:
    """Measures the processor time, from now on, of processes other than this one and its descendants."""

    def __init__(self):
        self._began, self._all, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def cores(self):
        """Returns the mean number of cores that other processes have kept busy since."""
        own = _own_seconds() - self._own
        return max(0.0, _busy_seconds() - self._all - own) / max(time.perf_counter() - self._began, 1e-3)


def _busy_seconds():
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, soft_irq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + soft_irq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds():
    """Returns the processor seconds of this process and its descendants, including ended ones."""
    parents, seconds = {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/" + name + "/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(name)] = int(fields[1])
        seconds[int(name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with ended children
    own = {os.getpid()}
    while True:
        found = own | {process for process, parent in parents.items() if parent in own}
        if found == own:
            return sum(seconds[process] for process in own)
        own = found
