"""Ciphers against tables: an alphabet turned round next to the alphabet, as Tensor2Tensor builds them."""

from collections import Counter, deque

import pytest

from t2t.runs.names import get_problem


@pytest.mark.parametrize(("name", "key", "length"), [
    ("algorithmic_cipher_shift5", [1], 100),
    ("algorithmic_cipher_vigenere5", [1, 3], 200),
    ("algorithmic_cipher_shift200", [1], 100),
    ("algorithmic_cipher_vigenere200", [1, 3], 200),
])  # fmt: skip
def test_every_symbol_stands_below_its_own_in_a_turned_alphabet(drawn, name, key, length):
    alphabet = get_problem(name).symbols
    tables = []
    for places in key:
        turned = deque(alphabet)
        turned.rotate(places)
        tables.append(dict(zip(alphabet, turned, strict=True)))
    samples = drawn(name, "train", size=50)
    assert len(samples) == 50
    assert get_problem(name).max_length == 2 * length + 1
    for sample in samples:
        plain, written = sample["inputs"].split(), sample["targets"].split()
        assert len(plain) == len(written) == length
        assert written == [tables[i % len(key)][symbol] for i, symbol in enumerate(plain)]


def test_symbols_are_as_frequent_as_their_weights(drawn):
    samples = drawn("algorithmic_cipher_shift5", "train", size=200)
    counts = Counter(symbol for sample in samples for symbol in sample["inputs"].split())
    for symbol, share in zip("01234", (0.4, 0.3, 0.2, 0.08, 0.02), strict=True):
        assert abs(counts[symbol] / 20_000 - share) < 0.02
