"""The order of examples; of several problems and their batches; the part of each worker.

Legend: P problems."""

import hashlib
import itertools
import struct
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from t2t.data.manifest import read_manifest
from t2t.data.reading.mixture import MixedBatches, ProblemSchedule, WorkerBatches, shares_by_size
from t2t.data.reading.reader import SplitReader
from t2t.data.reading.sampler import Permutation, WindowedOrder
from t2t.data.reading.training_batches import TrainingBatches
from tests.errors import refused


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 4097, 65_536, 100_003])
def test_permutation_is_a_bijection_computed_position_by_position_which_its_inverse_undoes(n):
    for key in range(3):
        permute = Permutation(n, "epoch", 3, key)
        images = permute(np.arange(n))
        assert np.array_equal(np.sort(images), np.arange(n))
        assert np.array_equal(permute.inverse(images), np.arange(n))
        picked = np.array([[n - 1, 0], [n // 2, n // 2]])
        assert np.array_equal(permute(picked), images[picked])


def test_permutation_of_a_huge_domain_needs_no_memory():
    n = 10**15
    positions = np.arange(n - 1000, n)
    images = Permutation(n, 1)(positions)
    assert len(set(images.tolist())) == 1000
    assert images.min() >= 0
    assert images.max() < n
    with refused("1", by=ValueError):
        Permutation(0, 1)
    # 1,000 uniform draws: the mean lies within 5 standard errors of the middle, 5 * n / sqrt(12 * 1000).
    assert abs(images.mean() - n / 2) < 5 * n / np.sqrt(12_000)


def test_permutation_moves_each_position_everywhere_equally_often():
    n, keys = 10, 600
    images = np.array([Permutation(n, key)(np.arange(n)) for key in range(keys)])
    expected = keys / n
    for position in range(n):
        counts = np.bincount(images[:, position], minlength=n)
        chi_square = ((counts - expected) ** 2 / expected).sum()
        assert chi_square < 33.7  # 9 degrees of freedom, p = 0.0001
    orders = Counter(tuple(Permutation(3, key)(np.arange(3)).tolist()) for key in range(1200))
    assert len(orders) == 6
    assert all(120 < count < 280 for count in orders.values())


def test_epochs_seeds_and_windows_have_orders_of_their_own():
    n = 10_000
    orders = [WindowedOrder(n, seed, n).indices(epoch, 0) for seed in (0, 1) for epoch in (0, 1)]
    for one, other in itertools.combinations(orders, 2):
        assert (one == other).sum() < 12  # one place in n agrees by chance; Poisson of mean 1
    order, items = WindowedOrder(1000, 1, 100), list(range(64))
    first, second = order.shuffled(items, 0, 0), order.shuffled(items, 0, 1)  # batches of two windows
    assert sorted(first) == sorted(second) == items
    assert first != second != items
    assert order.shuffled(items, 0, 0) == first
    assert order.shuffled([], 0, 0) == []


def test_neighbours_are_torn_apart():
    n = 50_000
    images = Permutation(n, "epoch", 0, 0)(np.arange(n))
    assert abs(np.corrcoef(images[:-1], images[1:])[0, 1]) < 5 / np.sqrt(n)
    # Differences of neighbours modulo n fill ten bins evenly: 9 degrees of freedom, p = 0.0001.
    counts = np.histogram((images[1:] - images[:-1]) % n, bins=10, range=(0, n))[0]
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 33.7


@pytest.mark.parametrize(
    ("n", "window"), [(1, 10), (10, 10), (14, 10), (16, 10), (101, 10), (997, 37), (29_000, 16_384)]
)
def test_windows_share_out_an_epoch(n, window):
    order = WindowedOrder(n, 5, window)
    windows = [order.indices(2, number) for number in range(order.windows)]
    assert np.array_equal(np.sort(np.concatenate(windows)), np.arange(n))
    window_of = order.windows_of(2, np.arange(n))
    assert all((window_of[indices] == number).all() for number, indices in enumerate(windows))
    sizes = [len(w) for w in windows]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= 1.5 * window
    assert order.windows == 1 or min(sizes) >= window // 2


def splitmix64_finalizer(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def feistel_in_plain_integers(n, key, value):
    keys = struct.unpack("<6Q", hashlib.blake2b(key.encode(), digest_size=48).digest())
    half = next(bits for bits in itertools.count(1) if 4**bits >= n)
    while True:
        left, right = divmod(value, 2**half)
        for round_key in keys:
            left, right = right, left ^ splitmix64_finalizer((right + round_key) % 2**64) % 2**half
        value = left * 2**half + right
        if value < n:
            return value


def test_order_is_the_same_on_every_machine():
    # The first output of SplitMix64 for seed 0 is the finalizer of its constant (Vigna's splitmix64.c).
    assert splitmix64_finalizer(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    for n in (2, 5, 64, 65, 1000, 10**12):
        positions = [0, 1, n // 2, n - 1]
        expected = [feistel_in_plain_integers(n, "epoch/7/2", position) for position in positions]
        assert Permutation(n, "epoch", 7, 2)(np.array(positions)).tolist() == expected


# === Several problems ===
def test_each_problem_comes_as_often_as_its_weight_says():
    schedule = ProblemSchedule([3, 0, 1], seed=5)
    counts = np.bincount([schedule(update) for update in range(1, 4001)], minlength=3)
    assert counts[1] == 0
    np.testing.assert_allclose(counts / 4000, [0.75, 0, 0.25], atol=0.03)  # four standard deviations
    one, again, other = (ProblemSchedule([1, 1], seed) for seed in (5, 5, 6))
    backwards = [one(update) for update in range(100, 0, -1)][::-1]
    assert backwards == [again(update) for update in range(1, 101)], "a function of seed and update"
    assert backwards != [other(update) for update in range(1, 101)]


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, [0.8, 0.2]), (2.0, [2 / 3, 1 / 3]), (1e9, [0.5, 0.5])])
def test_shares_by_size(temperature, expected):
    """400 and 100 examples; their square roots are 20 and 10."""
    found = ProblemSchedule(shares_by_size([400, 100], temperature), seed=0).shares
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class Counted:
    """Batches 0, 1, 2, ... with the next number as state."""

    def __init__(self, name):
        self.name, self.next = name, 0

    def state(self):
        return {"batch": self.next}

    def seek(self, state):
        self.next = state["batch"]

    def __next__(self):
        self.next += 1
        return f"{self.name}{self.next}", self.state()


def mixed_batches(per_update=2):
    return MixedBatches({"a": Counted("a"), "b": Counted("b")}, ProblemSchedule([1, 1], seed=1), per_update)


def test_all_batches_of_an_update_are_of_its_problem_and_going_on_from_its_state_is_exact():
    batches = [batch for batch, _ in itertools.islice(mixed_batches(), 40)]
    schedule = ProblemSchedule([1, 1], seed=1)
    assert [batch[0] for batch in batches] == ["ab"[schedule(update)] for update in range(1, 21) for _ in range(2)]
    for name in "ab":
        own = [batch for batch in batches if batch[0] == name]
        assert own == [f"{name}{number + 1}" for number in range(len(own))]
        assert len(own) > 10
    whole = mixed_batches()
    batches = list(itertools.islice(whole, 40))
    _, state = batches[13]
    assert state["updates"] == 7
    resumed = mixed_batches()
    resumed.seek(state)
    assert resumed.state() == state
    assert list(itertools.islice(resumed, 26)) == batches[14:]


@pytest.mark.parametrize("state", [
    {}, {"updates": 1}, {"updates": "1", "a": {"batch": 0}, "b": {"batch": 0}}, {"updates": 1, "a": 0, "b": 0},
])  # fmt: skip
def test_what_is_no_state_is_refused(state):
    with refused("updates", "a", "b"):
        mixed_batches().seek(state)


# === Workers ===
WORKER_REPLICAS, DRAWN = 6, 60


@pytest.fixture
def single(digits_train):
    return lambda: TrainingBatches(digits_train, seed=3, batch_size=120, window=70)


@pytest.fixture
def mixed(digits_train):
    def make():
        settings = {"batch_size": 90, "window": 70}
        parts = {name: TrainingBatches(digits_train, seed=seed, **settings) for seed, name in enumerate("ab")}
        return MixedBatches(parts, ProblemSchedule([1, 2], seed=5), per_update=2 * WORKER_REPLICAS)

    return make


@pytest.mark.parametrize("kind", ["single", "mixed"])
def test_together_the_workers_have_the_whole_sequence(request, kind):
    make = request.getfixturevalue(kind)
    whole = list(islice(make(), DRAWN))
    of_workers = [islice(WorkerBatches(make(), WORKER_REPLICAS, range(first, first + 2)), DRAWN) for first in (0, 2, 4)]
    for place, (batch, state), *found in zip(range(DRAWN), whole, *of_workers, strict=False):
        owner = place % WORKER_REPLICAS // 2
        assert [one is not None for one, _ in found] == [worker == owner for worker in range(3)]
        assert [one_state for _, one_state in found] == [state] * 3
        for name, array in batch.items():
            np.testing.assert_array_equal(found[owner][0][name], array)


def test_another_number_of_workers_goes_on_from_a_state(single):
    whole = list(islice(single(), DRAWN))
    batches = WorkerBatches(single(), 4, range(1, 2))
    batches.seek(whole[2 * WORKER_REPLICAS - 1][1])
    assert batches.state() == whole[2 * WORKER_REPLICAS - 1][1]
    found = [batch for batch, _ in islice(batches, 8)]
    assert [batch is not None for batch in found] == [False, True, False, False] * 2
    np.testing.assert_array_equal(found[1]["targets"], whole[2 * WORKER_REPLICAS + 1][0]["targets"])


def test_what_others_train_on_is_not_read(digits_train):
    class Counting(SplitReader):
        reads = 0

        def read(self, indices, feature):
            self.reads += 1
            return super().read(indices, feature)

    counting = Counting(digits_train.folder, read_manifest(digits_train.folder), "train")
    batches = TrainingBatches(counting, seed=3, batch_size=120, window=70)
    list(islice(WorkerBatches(batches, 6, range(2, 4)), 30))
    assert counting.reads == 10 * 2  # both features of each batch
