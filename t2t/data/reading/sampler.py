"""The order of training examples as a pure function of (seed, epoch, position), in constant memory."""

import hashlib

import numpy as np

_ROUNDS = 6


class Permutation:
    """A pseudo-random permutation of [0, n), computed on demand and never stored.

    A balanced Feistel network (Luby and Rackoff 1988, "How to construct pseudorandom permutations") permutes [0, m),
    where m is the next power of four; results outside [0, n) pass through it again until they fall inside (cycle
    walking, Black and Rogaway 2002, "Ciphers with arbitrary finite domains", section 3). Since m < 4 n, at most four
    passes are expected. The round function is the finalizer of SplitMix64 (Steele, Lea and Flood 2014, figure 16).

    Args:
        n: size of the domain, at least 1.
        key: determines the permutation, e.g. seed and epoch; integers or short strings.
    """

    def __init__(self, n: int, *key: int | str):
        if n < 1:
            raise ValueError(f"a permutation of {n} elements; it needs at least 1")
        self.n = n
        half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
        self._shift = np.uint64(half_bits)
        self._mask = np.uint64((1 << half_bits) - 1)
        digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8 * _ROUNDS).digest()
        self._round_keys = np.frombuffer(digest, dtype="<u8").astype(np.uint64)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Maps positions, integers in [0, n) of any shape, to int64 of the same shape."""
        values = self._pass(np.asarray(positions).astype(np.uint64))
        while (outside := values >= self.n).any():
            values[outside] = self._pass(values[outside])
        return values.astype(np.int64)

    def inverse(self, images: np.ndarray) -> np.ndarray:
        """Inverts `__call__`: maps integers in [0, n) of any shape to positions, int64 of the same shape."""
        values = self._pass_back(np.asarray(images).astype(np.uint64))
        while (outside := values >= self.n).any():
            values[outside] = self._pass_back(values[outside])
        return values.astype(np.int64)

    def _pass(self, values: np.ndarray) -> np.ndarray:
        left, right = values >> self._shift, values & self._mask
        for key in self._round_keys:
            left, right = right, left ^ (_mix(right + key) & self._mask)
        return (left << self._shift) | right

    def _pass_back(self, values: np.ndarray) -> np.ndarray:
        left, right = values >> self._shift, values & self._mask
        for key in self._round_keys[::-1]:
            left, right = right ^ (_mix(left + key) & self._mask), left
        return (left << self._shift) | right


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class WindowedOrder:
    """The order of the examples in each epoch, cut into windows of nearly equal size.

    Args:
        n: number of examples.
        seed: of the run.
        window: approximate number of examples in a window; the real one is half to one and a half times as many, or n.
    """

    def __init__(self, n: int, seed: int, window: int):
        self._n, self._seed = n, seed
        self.windows = max(1, round(n / window))
        """Windows in an epoch."""

    def indices(self, epoch: int, window: int) -> np.ndarray:
        """Returns the examples of a window, (rows,) int64; an epoch's windows hold each example exactly once."""
        start, stop = (self._n * edge // self.windows for edge in (window, window + 1))
        return self._permutation(epoch)(np.arange(start, stop))

    def windows_of(self, epoch: int, examples: np.ndarray) -> np.ndarray:
        """Returns the window in which each example lies in an epoch; `examples` and the result are (rows,) int64."""
        positions = self._permutation(epoch).inverse(examples)
        # the last window whose first position, floor(n * window / windows), is not after this position
        found: np.ndarray = ((positions + 1) * self.windows - 1) // self._n
        return found

    def _permutation(self, epoch: int) -> Permutation:
        return Permutation(self._n, "epoch", self._seed, epoch)

    def shuffled(self, items: list, epoch: int, window: int) -> list:
        """Returns the batches of a window in the order of training."""
        if not items:
            return []
        order = Permutation(len(items), "window", self._seed, epoch, window)(np.arange(len(items)))
        return [items[position] for position in order]
