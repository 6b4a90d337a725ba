"""What the workers of a run tell each other: that they train the same, how far they are, and when training ends.

Legend: W workers, N numbers of each.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t.errors import MachineError, UserError, one_line
from t2t.training.cluster import ALONE, Cluster
from t2t.training.step import UpdateStep


class WorkerLostError(MachineError):
    """Another worker of the run has ended or cannot be reached."""

    exit_status = 138
    """What Kubernetes' training operator restarts a worker for, unlike a status below 128."""


class Workers:
    """The processes of a run; each method but `guard` must be called by all of them, in the same order."""

    def __init__(self, strategy: tf.distribute.Strategy, cluster: Cluster = ALONE):
        self._strategy, self.cluster = strategy, cluster

    @property
    def is_chief(self) -> bool:
        """Whether this process reads and writes the run."""
        return self.cluster.is_chief

    @property
    def are_several(self) -> bool:
        """Whether there are others."""
        return self.cluster is not ALONE

    def gather(self, numbers_N: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns the numbers of every worker, (W, N) int64."""
        own_N = np.asarray(numbers_N, np.int64)
        if not self.are_several:
            return own_N[None]
        rows_WN = np.zeros((len(self.cluster.addresses), len(own_N)), np.int64)
        rows_WN[self.cluster.index] = own_N
        return self._sum_of_workers(tf.constant(rows_WN)).numpy()

    def exchange(self, own: bytes) -> list[bytes]:
        """Returns what every worker has, in their order."""
        lengths_W = self.gather([len(own)])[:, 0]
        padded = own.ljust(8 * -(-int(lengths_W.max()) // 8), b"\0")
        rows_WN = self.gather(np.frombuffer(padded, np.int64))
        return [row_N.tobytes()[:length] for row_N, length in zip(rows_WN, lengths_W, strict=True)]

    def check_same(self, what: Mapping[str, Any]) -> None:
        """Compares values, of JSON, by their names.

        Raises:
            UserError: a worker has another value than the chief.
        """
        digests = [hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest() for value in what.values()]
        found_WN = self.gather([int.from_bytes(digest[:7]) for digest in digests])
        for worker, number in zip(*np.nonzero(found_WN != found_WN[0]), strict=True):
            raise UserError(
                f"{self.cluster.describe(worker)} trains with another {list(what)[number]} than "
                f"{self.cluster.describe(0)}; start all workers with the same command on the same data and versions"
            )

    def share(self, step: UpdateStep, begin: tuple[int, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
        """Gives everyone the chief's weights, optimizer and averages; returns its `begin`, of JSON, to everyone."""
        if not self.are_several:
            return begin
        adapters = step.adapters.variables if step.adapters else []
        variables = [v.value for v in (*step.model.variables, *adapters, *step.optimizer.variables)]
        self._send_variables([*variables, *step.ema, *step.loss_scale.variables])
        update, state = json.loads(self.exchange(json.dumps(begin).encode())[0])
        return update, state

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Raises WorkerLostError in a `with` block where another worker has ended."""
        try:
            yield
        except tf.errors.OpError as error:
            if not self.are_several or "ollective" not in error.message:
                raise
            others = {int(number) for number in re.findall(r"/task:(\d+)", error.message)} - {self.cluster.index}
            which = " or ".join(map(self.cluster.describe, sorted(others))) or "another worker"
            raise WorkerLostError(
                f"{self.cluster.describe(self.cluster.index)} has lost {which}, whose output tells why; the same "
                f"commands resume from the last checkpoint ({one_line(error.message):.120})"
            ) from error

    def _sum_of_workers(self, tensor):
        """Returns a tensor's sum over the workers, each of which has one."""
        return self._strategy.experimental_local_results(self._summed(tensor))[0]

    @tf.function(autograph=False, reduce_retracing=True)
    def _summed(self, tensor):
        def replica():
            context = tf.distribute.get_replica_context()
            counts = self._number_in_worker(context) == 0
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.identity(tensor) if counts else tf.zeros_like(tensor)
            )

        return self._strategy.run(replica)

    def _number_in_worker(self, context) -> int:
        number = tf.get_static_value(tf.convert_to_tensor(context.replica_id_in_sync_group))
        return number % len(self._strategy.extended.worker_devices)

    def _send_variables(self, variables: Sequence[tf.Variable]) -> None:
        """Gives variables the values that the chief's first replica has."""

        def replica():
            context = tf.distribute.get_replica_context()
            is_source = tf.get_static_value(tf.convert_to_tensor(context.replica_id_in_sync_group)) == 0
            values = [v.read_value() if is_source else tf.zeros_like(v) for v in variables]
            return [context.all_reduce(tf.distribute.ReduceOp.SUM, value) for value in values]

        @tf.function(autograph=False)
        def send():
            sent = self._strategy.run(replica)
            for variable, value in zip(variables, sent, strict=True):
                self._strategy.extended.update(variable, lambda v, new: v.assign(new), args=(value,), group=False)

        send()
