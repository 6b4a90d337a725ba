"""The cluster of a training run: which processes train together, and which of them this one is.

Each process is a worker with all its GPUs; only worker 0, the chief, reads and writes the run.
"""

import contextlib
import dataclasses
import json
import logging
import os
import re
import signal
import subprocess
import threading
import types
from collections.abc import Iterator, Mapping
from typing import Any

from t2t.errors import UserError, first_few

log = logging.getLogger("t2t")

SLURM = "slurm"
"""Value of --worker_hosts that takes the workers from the environment of srun."""

SLURM_PORT = 12321
"""Port of the first worker on a node of Slurm; others on the node take the next ones."""


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of a run."""

    addresses: tuple[str, ...]
    """`host:port` of each worker."""
    index: int
    """Number of this process among them, from 0."""

    @property
    def is_chief(self) -> bool:
        """Whether this process reads and writes the run."""
        return self.index == 0

    def describe(self, index: int) -> str:
        """Returns a worker's number and address, e.g. `worker 1 (b:2222)`."""
        return f"worker {index} ({self.addresses[index]})"


ALONE = Cluster(("localhost",), 0)
"""One process that trains by itself."""


@contextlib.contextmanager
def joining(cluster: Cluster) -> Iterator[None]:
    """Context in which TensorFlow or JAX waits until all workers have started; logs which others those are.

    They wait in C++, where no Python handler runs, so signals have their default effect: they end the process at once.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
        before = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in before:
            signal.signal(number, signal.SIG_DFL)
        others = [cluster.describe(index) for index in range(len(cluster.addresses)) if index != cluster.index]
        log.info("%s waits for %s", cluster.describe(cluster.index), first_few(others, ", "))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def find_cluster(worker_hosts: str, worker_index: int) -> Cluster:
    """Returns the cluster that the flags describe, else the one in TF_CONFIG; `ALONE` if neither names several workers.

    Args:
        worker_hosts: comma-separated `host:port` of each worker, `slurm`, or empty.
        worker_index: number of this process among them, from 0; -1 if not given.

    Raises:
        UserError: invalid addresses or an invalid number.
    """
    if worker_hosts == SLURM:
        if worker_index != -1:
            raise UserError(
                "--worker_hosts=slurm takes it from srun", "leave it out", option="worker_index", value=worker_index
            )
        return _of_slurm(os.environ)
    if worker_hosts:
        about = {"option": "worker_hosts", "value": worker_hosts}
        return _checked(worker_hosts.split(","), worker_index, "--worker_index", about=about)
    if worker_index != -1:
        raise UserError(
            "it is a number among --worker_hosts", "give these too", option="worker_index", value=worker_index
        )
    return _of_tf_config(os.environ.get("TF_CONFIG", ""))


def _checked(
    addresses: list[str], index: Any, name: str, source: str = "", about: Mapping[str, str] = types.MappingProxyType({})
) -> Cluster:
    """Returns the cluster of valid addresses.

    Args:
        addresses: host:port of each worker.
        index: the number of this one.
        name: what errors call the index.
        source: what errors begin with, if the addresses are of no option.
        about: the option, for errors, and its value.
    """
    for address in addresses:
        if not re.fullmatch(r"[^\s:/]+:\d+|\[[0-9a-fA-F:]+\]:\d+", address):
            raise UserError(f"{source}{address!r} is not host:port", "give such as node1:2222", **about)
    twice = next((address for address in addresses if addresses.count(address) > 1), None)
    if twice is not None:
        raise UserError(f"{source}{twice} is there twice", "each worker needs a port of its own", **about)
    if type(index) is not int or not 0 <= index < len(addresses):
        raise UserError(
            f"{source}{name} is {index}",
            f"with {len(addresses)} workers it is one of 0 to {len(addresses) - 1}, different for each",
            **about,
        )
    return Cluster(tuple(addresses), index) if len(addresses) > 1 else ALONE


def _of_tf_config(text: str) -> Cluster:
    """Returns the cluster of a TF_CONFIG, as Kubernetes' training operator sets it."""
    if not text:
        return ALONE
    try:
        config = json.loads(text)
        hosts, task = config.get("cluster") or {}, config.get("task") or {}
        kinds = {kind: list(addresses) for kind, addresses in hosts.items() if addresses}
        kind, index = task.get("type"), task.get("index")
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(
            f"TF_CONFIG={text:.80}: it is not JSON with a cluster and a task", "correct or unset it"
        ) from error
    if sum(map(len, kinds.values())) < 2:
        return ALONE
    strange = [one for one in (*kinds, kind) if one not in ("chief", "worker")]
    if strange:
        raise UserError(
            f"TF_CONFIG: it has a {strange[0]}", "training takes chief and worker only, which all do the same work"
        )
    chiefs, workers = kinds.get("chief", []), kinds.get("worker", [])
    number = index + len(chiefs) if kind == "worker" and type(index) is int else index
    return _checked(list(map(str, chiefs + workers)), number, "the number of the task", source="TF_CONFIG: ")


def _of_slurm(environment: Mapping[str, str]) -> Cluster:
    """Returns the cluster of the tasks that one srun has started.

    TensorFlow's SlurmClusterResolver is not used: it sorts node10 before node2, and fails without GPUs.
    """
    needed = ("SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID", "SLURM_LOCALID", "SLURMD_NODENAME")
    nodes, tasks, index, local, node = (environment.get(name, "") for name in needed)
    missing = [name for name in needed if not environment.get(name)]
    if missing:
        raise UserError(
            f"there is no {missing[0]} in the environment",
            "start the workers by srun",
            option="worker_hosts",
            value="slurm",
        )
    try:
        shown = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            f"scontrol show hostnames {nodes} fails ({error})",
            "name the workers with --worker_hosts and --worker_index",
            option="worker_hosts",
            value="slurm",
        ) from error
    counts = [int(count) for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", tasks) for _ in range(int(times or 1))]
    hosts = shown.stdout.split()
    addresses = [
        f"{host}:{SLURM_PORT + number}" for host, count in zip(hosts, counts, strict=False) for number in range(count)
    ]
    cluster = _checked(addresses, int(index), "--worker_hosts=slurm", "SLURM_PROCID")
    own = f"{node}:{SLURM_PORT + int(local)}"
    if cluster is not ALONE and cluster.addresses[cluster.index] != own:
        raise UserError(
            f"task {index} is {own}, not {cluster.addresses[cluster.index]}: tasks must fill one node after the other",
            "start them with srun -m block, or use --worker_hosts and --worker_index",
            option="worker_hosts",
            value="slurm",
        )
    return cluster
