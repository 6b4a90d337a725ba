import hashlib
import itertools
import struct

import numpy as np
import pytest

from t2t.data.sampler import Permutation, WindowedOrder
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


def test_permutation_of_three_takes_all_six_orders_about_equally():
    orders = {order: 0 for order in itertools.permutations(range(3))}
    for key in range(1200):
        orders[tuple(Permutation(3, key)(np.arange(3)).tolist())] += 1
    assert all(120 < count < 280 for count in orders.values())


def test_neighbours_are_torn_apart():
    n = 50_000
    images = Permutation(n, "epoch", 0, 0)(np.arange(n))
    correlation = np.corrcoef(images[:-1], images[1:])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(n)
    # Differences of neighbours modulo n fill ten bins evenly: 9 degrees of freedom, p = 0.0001.
    counts = np.histogram((images[1:] - images[:-1]) % n, bins=10, range=(0, n))[0]
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 33.7


def test_epochs_and_seeds_have_orders_of_their_own():
    n = 10_000
    orders = [WindowedOrder(n, seed, n).indices(epoch, 0) for seed in (0, 1) for epoch in (0, 1)]
    for one, other in itertools.combinations(orders, 2):
        assert (one == other).sum() < 12  # one place in n agrees by chance; Poisson of mean 1


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


def test_shuffle_keeps_every_batch_and_depends_on_the_window():
    order = WindowedOrder(1000, 1, 100)
    items = list(range(64))
    first, second = order.shuffled(items, 0, 0), order.shuffled(items, 0, 1)
    assert sorted(first) == sorted(second) == items
    assert first != second != items
    assert order.shuffled(items, 0, 0) == first
    assert order.shuffled([], 0, 0) == []


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


def test_empty_domain_is_refused():
    with refused("1", by=ValueError):
        Permutation(0, 1)
