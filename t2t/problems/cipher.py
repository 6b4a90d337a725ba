"""Ciphers: texts of random symbols, encrypted with a fixed key.

    algorithmic_cipher_shift5     inputs "0 1 4 2"  targets "4 0 3 1"    (each symbol one place back, 0 from the end)
    algorithmic_cipher_vigenere5  inputs "0 1 4 2"  targets "4 3 3 4"    (one place, three places, one, three, ...)

As in Tensor2Tensor's problems of these names, symbols differ in frequency, and all training texts have the same length,
100 or 200 symbols; dev texts are twice as long. The samples are generated at random, so no licence is needed.
"""

import random
from itertools import cycle
from typing import ClassVar

from t2t.problems.algorithmic import AlgorithmicProblem
from t2t.registry import register_problem

FEW, MANY = (tuple(map(str, range(size))) for size in (5, 200))


class Cipher(AlgorithmicProblem):
    """Each symbol is shifted back by the number in the key at its position."""

    key: ClassVar[tuple[int, ...]] = (1,)
    """Shifts, repeated cyclically."""
    weights: ClassVar[tuple[float, ...]] = ()
    """Relative frequency of each symbol."""
    train_length, dev_length = 100, 200

    def draw(self, rng: random.Random, longest: int) -> list[str]:
        """Returns a text of exactly `longest` symbols."""
        return rng.choices(self.symbols, self.weights, k=longest)

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns the encrypted text."""
        size = len(self.symbols)
        return [str((int(symbol) - places) % size) for symbol, places in zip(inputs, cycle(self.key), strict=False)]


@register_problem("algorithmic_cipher_shift5")
class AlgorithmicCipherShift5(Cipher):
    """Shift cipher of 5 symbols: `0 1 4` -> `4 0 3`."""

    symbols = vocabulary = FEW
    weights = (0.4, 0.3, 0.2, 0.08, 0.02)


@register_problem("algorithmic_cipher_shift200")
class AlgorithmicCipherShift200(Cipher):
    """Shift cipher of 200 symbols, each as frequent as its number says."""

    symbols = vocabulary = MANY
    weights = tuple(range(200))


@register_problem("algorithmic_cipher_vigenere5")
class AlgorithmicCipherVigenere5(Cipher):
    """Vigenere cipher of 5 symbols, key 1 3: `0 1 4` -> `4 3 3`."""

    symbols = vocabulary = FEW
    weights = AlgorithmicCipherShift5.weights
    key = (1, 3)
    train_length, dev_length = 200, 400


@register_problem("algorithmic_cipher_vigenere200")
class AlgorithmicCipherVigenere200(Cipher):
    """Vigenere cipher of 200 symbols, key 1 3."""

    symbols = vocabulary = MANY
    weights = AlgorithmicCipherShift200.weights
    key = (1, 3)
    train_length, dev_length = 200, 400
