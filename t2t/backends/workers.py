"""Communication between the workers of a run: what they train, their initial state, and when training ends.

Legend: W workers, N numbers of each.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from t2t.backends.cluster import ALONE, Cluster
from t2t.errors import MachineError, UserError, one_line


class WorkerLostError(MachineError):
    """Another worker of the run has ended or cannot be reached."""

    exit_status = 138
    """Kubernetes' training operator restarts a worker after this status, but not after one below 128."""


class Workers:
    """The processes of a run; each backend has a subclass for the communication between several.

    All of them must call each method but `guard`, in the same order.
    """

    def __init__(self, cluster: Cluster = ALONE):
        self.cluster = cluster

    @property
    def is_chief(self) -> bool:
        """Whether this process reads and writes the run."""
        return self.cluster.is_chief

    @property
    def are_several(self) -> bool:
        """Whether there is more than one worker."""
        return self.cluster is not ALONE

    def gather(self, numbers_N: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns the numbers of every worker, (W, N) int64."""
        own_N = np.asarray(numbers_N, np.int64)
        return self._gather(own_N) if self.are_several else own_N[None]

    def exchange(self, own: bytes) -> list[bytes]:
        """Returns the bytes that each worker passes, in the order of the workers."""
        lengths_W = self.gather([len(own)])[:, 0]
        padded = own.ljust(8 * -(-int(lengths_W.max()) // 8), b"\0")
        rows_WN = self.gather(np.frombuffer(padded, np.int64))
        return [row_N.tobytes()[:length] for row_N, length in zip(rows_WN, lengths_W, strict=True)]

    def check_same(self, what: Mapping[str, Any]) -> None:
        """Checks that all workers pass the same values, which are JSON by name.

        Raises:
            UserError: a worker's value differs from the chief's.
        """
        digests = [hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest() for value in what.values()]
        found_WN = self.gather([int.from_bytes(digest[:7]) for digest in digests])
        for worker, number in zip(*np.nonzero(found_WN != found_WN[0]), strict=True):
            raise UserError(
                f"{self.cluster.describe(worker)} trains with another {list(what)[number]} than "
                f"{self.cluster.describe(0)}",
                "start all workers with the same command on the same data and versions",
            )

    def from_chief(self, value: Any) -> Any:
        """Returns the value (JSON) that the chief passes; those of the others are not looked at."""
        return json.loads(self.exchange(json.dumps(value).encode())[0]) if self.are_several else value

    def share(self, variables: Sequence[Any], begin: tuple[int, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
        """Copies the chief's variables, of Keras or the backend, to all; returns the chief's `begin` (JSON)."""
        if not self.are_several:
            return begin
        self._send(variables)
        update, state = self.from_chief(begin)
        return update, state

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Context manager that raises WorkerLostError in place of errors because another worker has ended."""
        try:
            yield
        except Exception as error:
            message = self._lost_message(error) if self.are_several else None
            if message is None:
                raise
            everyone = set(range(len(self.cluster.addresses)))
            others = (self._named_in(message) or (everyone if len(everyone) == 2 else set())) - {self.cluster.index}
            which = " or ".join(map(self.cluster.describe, sorted(others))) or "another worker"
            raise WorkerLostError(
                f"{self.cluster.describe(self.cluster.index)} has lost {which}, whose output tells why",
                f"the same commands resume from the last checkpoint ({one_line(message):.120})",
            ) from error

    def _gather(self, own_N: np.ndarray) -> np.ndarray:
        """Returns the numbers of several workers, (W, N) int64."""
        raise NotImplementedError

    def _send(self, variables: Sequence[Any]) -> None:
        """Copies the values of the chief's variables, in its first replica, to those of all workers."""
        raise NotImplementedError

    def _lost_message(self, error: Exception) -> str | None:
        """Returns the message of an error if it says that another worker is lost, else None."""
        raise NotImplementedError

    def _named_in(self, message: str) -> set[int]:
        """Returns the indices of the workers that such a message names."""
        raise NotImplementedError
