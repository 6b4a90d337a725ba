"""Processes of JAX that train together.

Legend: W workers, N numbers of each.
"""

import atexit
import contextlib
import functools
import os
import re
import signal
import sys
from collections.abc import Iterator

import jax
import numpy as np
from jax.experimental.multihost_utils import broadcast_one_to_all
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t2t.errors import MachineError, UserError, one_line
from t2t.training.cluster import Cluster, joining
from t2t.training.step import UpdateStep
from t2t.training.workers import Workers

_WAIT_S = 3600
"""Seconds that a worker waits for the others: the chief may have data to generate first."""

_LAST_S = 7 * 24 * 3600
"""Seconds that a worker waits at its end: the chief may decode."""

_WORKER = "worker"

_LOST = re.compile(r"Gloo|NCCL|oordination service|eartbeat")
"""Found in the messages of errors after another worker has ended."""


def connect(cluster: Cluster) -> None:
    """Waits until all workers have started; from then on, JAX knows the devices of all.

    Raises:
        UserError: JAX has already started.
        MachineError: the chief cannot listen at its address.
    """
    if jax.distributed.is_initialized():
        return
    try:
        with joining(cluster):
            jax.distributed.initialize(
                cluster.addresses[0], len(cluster.addresses), cluster.index,
                initialization_timeout=_WAIT_S, shutdown_timeout_seconds=_LAST_S,
            )  # fmt: skip
    except jax.errors.JaxRuntimeError as error:
        raise MachineError(
            f"{cluster.describe(cluster.index)} cannot join the others ({one_line(str(error)):.200}); see that no "
            f"other program listens at {cluster.addresses[0]}"
        ) from error
    except RuntimeError as error:
        raise UserError(f"--worker_hosts: JAX has started; train in a process of its own ({error})") from error


def gather(own_N: np.ndarray) -> np.ndarray:
    """Returns the numbers of every worker, (W, N), sent between CPUs; all workers must pass equally many."""
    mesh, together = _all_processors()
    words = np.ascontiguousarray(own_N)[None].view(np.uint32)  # by default JAX has no 64-bit integers
    split = jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec(_WORKER)), words)
    return np.asarray(together(split)).view(own_N.dtype)


@functools.cache
def _all_processors():
    """Returns a mesh of one CPU device of each worker, and a function that copies a split array to all of them."""
    first = {device.process_index: device for device in reversed(jax.devices("cpu"))}
    mesh = Mesh(np.array([first[worker] for worker in sorted(first)]), (_WORKER,))
    return mesh, jax.jit(lambda array: array, out_shardings=NamedSharding(mesh, PartitionSpec()))


class JaxWorkers(Workers):
    """Workers that communicate by arrays that are split over all of them."""

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """See the base class. After any exception, this process exits without waiting for the others.

        At exit, JAX would wait for the other workers, which wait for this one and notice only its end.
        """
        try:
            with super().guard():
                yield
        except BaseException as error:
            if self.are_several:
                status = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
                atexit.register(_leave, getattr(error, "exit_status", status))
            raise

    def _gather(self, own_N: np.ndarray) -> np.ndarray:
        return gather(own_N)

    def _send_state(self, step: UpdateStep) -> None:
        kept = [*step.state_variables, *step.ema]
        sent = broadcast_one_to_all([np.asarray(variable.value) for variable in kept])
        for variable, value in zip(kept, sent, strict=True):
            variable.assign(value)

    def _lost_message(self, error: Exception) -> str | None:
        is_of_jax = isinstance(error, (ValueError, jax.errors.JaxRuntimeError))
        return str(error) if is_of_jax and _LOST.search(str(error)) else None

    def _named_in(self, message: str) -> set[int]:
        return {int(number) for number in re.findall(r"[Tt]ask:? ?(\d+)", message)}


def _leave(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
