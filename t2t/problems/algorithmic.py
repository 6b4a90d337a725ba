"""Small algorithms on sequences of symbols: copy, reverse, shift, sort, add, multiply.

    algorithmic_reverse_decimal40   inputs "3 1 4"        targets "4 1 3"
    algorithmic_addition_decimal40  inputs "3 1 4 + 2 7"  targets "5 8 4"       (413 + 72 = 485)

Numbers are little-endian: the digit of ones comes first, as in adding by hand. Training sequences have at most 40
symbols, dev sequences up to 400, so that the dev score shows whether the algorithm was learnt or only its training
lengths (Kaiser and Sutskever, "Neural GPUs Learn Algorithms", 2016). The samples are generated at random, so no licence
is needed.

Ciphers: texts of random symbols, encrypted with a fixed key.

    algorithmic_cipher_shift5     inputs "0 1 4 2"  targets "4 0 3 1"    (each symbol one place back, 0 from the end)
    algorithmic_cipher_vigenere5  inputs "0 1 4 2"  targets "4 3 3 4"    (one place, three places, one, three, ...)

As in Tensor2Tensor's problems of these names, symbols differ in frequency, and all training texts have the same length,
100 or 200 symbols; dev texts are twice as long. The samples are generated at random, so no licence is needed.
"""

import operator
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, cycle
from typing import ClassVar

from t2t.problems.base import Sample, Source
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs.constants import TRAIN

BINARY = ("0", "1")
DECIMAL = tuple("0123456789")


def lower_endian_to_number(digits: Sequence[int], base: int) -> int:
    """Returns the number with these little-endian digits: [7, 3, 1, 2] in base 10 is 2137."""
    return int("".join(map(str, reversed(digits))), base)


def number_to_lower_endian(number: int, base: int) -> list[int]:
    """Returns the little-endian digits of a number in base 2 or 10: 2137 is [7, 3, 1, 2]."""
    return [int(digit) for digit in reversed(format(number, {2: "b", 10: "d"}[base]))]


class AlgorithmicProblem(Text2Text):
    """Base class of problems with sequences of symbols as inputs, and the output of an algorithm as targets."""

    symbols: tuple[str, ...]
    """Symbols that the inputs are drawn from, without separators."""
    train_length = 40
    """Most symbols in the inputs of a training example, including a separator."""
    dev_length = 400
    train_size = 100_000
    dev_size = 10_000
    metrics = ("accuracy_per_sequence", "accuracy")
    _declares_max_length: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Sets `max_length` to the longest dev example with its end of sequence, unless a class declares another."""
        super().__init_subclass__()
        cls._declares_max_length = cls._declares_max_length or "max_length" in vars(cls)
        if not cls._declares_max_length:
            cls.max_length = cls.dev_length + 1

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields sequences of 1 to `train_length` or `dev_length` symbols, and the algorithm's outputs."""
        size, longest = (self.train_size, self.train_length) if split == TRAIN else (self.dev_size, self.dev_length)
        for _ in range(size):
            inputs = self.draw(source.rng, longest)
            yield {"inputs": " ".join(inputs), "targets": " ".join(self.solve(inputs))}

    def draw(self, rng: random.Random, longest: int) -> list[str]:
        """Returns inputs of 1 to `longest` symbols; all lengths are equally likely."""
        return rng.choices(self.symbols, k=rng.randint(1, longest))

    @abstractmethod
    def solve(self, inputs: list[str]) -> list[str]:
        """Returns the answer."""


class Identity(AlgorithmicProblem):
    """The inputs again."""

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns a copy."""
        return list(inputs)


class Reverse(AlgorithmicProblem):
    """The inputs from last to first."""

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns the inputs backwards."""
        return inputs[::-1]


class Sort(AlgorithmicProblem):
    """The inputs in rising order."""

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns the inputs sorted as numbers."""
        return sorted(inputs, key=int)


class Arithmetic(AlgorithmicProblem):
    """Two numbers around a separator, which is a separate word of the vocabulary."""

    separator: str
    combine: Callable[[int, int], int]
    """Computes the result of the operation, which is never longer than its operands together."""

    def draw(self, rng: random.Random, longest: int) -> list[str]:
        """Returns two operands and the separator, at most `longest` symbols in total."""
        first = rng.randint(1, longest // 2)
        second = rng.randint(1, longest - first - 1)
        return [*self._number(rng, first), self.separator, *self._number(rng, second)]

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns the digits of the result."""
        cut = inputs.index(self.separator)
        base = len(self.symbols)
        left, right = (lower_endian_to_number(list(map(int, part)), base) for part in (inputs[:cut], inputs[cut + 1 :]))
        return list(map(str, number_to_lower_endian(self.combine(left, right), base)))

    def _number(self, rng: random.Random, length: int) -> list[str]:
        """Draws little-endian digits without leading zeros: the last one is not 0, unless it is the only one."""
        digits = rng.choices(self.symbols, k=length)
        if length > 1:
            digits[-1] = rng.choice(self.symbols[1:])
        return digits


class NaturalReverse(AlgorithmicProblem):
    """Reversal of sequences that resemble text: a few symbols are common, most are rare, lengths vary little."""

    dev_length = 700
    train_length = 70
    exponent = 1.25
    """The symbol of rank r is drawn with a probability proportional to r ** -exponent (Zipf's law)."""

    def __init__(self, **options: object):
        super().__init__(**options)
        self._weights = list(accumulate(rank**-self.exponent for rank in range(1, len(self.symbols) + 1)))

    def draw(self, rng: random.Random, longest: int) -> list[str]:
        """Draws symbols by Zipf's law; their number is normal with mean `longest` / 2 and deviation `longest` / 10."""
        length = min(longest, max(1, round(rng.gauss(longest / 2, longest / 10))))
        return rng.choices(self.symbols, cum_weights=self._weights, k=length)

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns the inputs backwards."""
        return inputs[::-1]


@register_problem
class AlgorithmicIdentityBinary40(Identity):
    """Copy a sequence of 0 and 1."""

    symbols = vocabulary = BINARY


@register_problem
class AlgorithmicIdentityDecimal40(Identity):
    """Copy a sequence of digits."""

    symbols = vocabulary = DECIMAL


@register_problem
class AlgorithmicIdentityVocab95Train20Eval30(Identity):
    """Copy a sequence of 95 symbols, of at most 20 in training and 30 in dev."""

    symbols = vocabulary = tuple(map(str, range(95)))
    train_length = 20
    dev_length = 30


@register_problem
class TinyAlgo(Identity):
    """Copy a few sequences of 0 and 1, to try things."""

    symbols = vocabulary = BINARY
    train_size = dev_size = 100
    train_length = 10
    dev_length = 20


@register_problem
class AlgorithmicReverseBinary40(Reverse):
    """Reverse a sequence of 0 and 1."""

    symbols = vocabulary = BINARY


@register_problem
class AlgorithmicReverseBinary40Test(Reverse):
    """Reverse short sequences of 0 and 1, of which there are few, to try things."""

    symbols = vocabulary = BINARY
    train_size = 1_000
    dev_size = 100
    train_length = dev_length = 10


@register_problem
class AlgorithmicReverseDecimal40(Reverse):
    """Reverse a sequence of digits."""

    symbols = vocabulary = DECIMAL


@register_problem
class AlgorithmicSortBinary40(Sort):
    """Sort a sequence of 0 and 1."""

    symbols = vocabulary = BINARY


@register_problem
class AlgorithmicSortDecimal40(Sort):
    """Sort a sequence of digits."""

    symbols = vocabulary = DECIMAL


@register_problem
class AlgorithmicAdditionBinary40(Arithmetic):
    """Add two little-endian binary numbers: `1 1 + 1` -> `0 0 1`."""

    symbols = BINARY
    vocabulary = (*BINARY, "+")
    separator, combine = "+", staticmethod(operator.add)


@register_problem
class AlgorithmicAdditionDecimal40(Arithmetic):
    """Add two little-endian decimal numbers: `3 1 4 + 2 7` -> `5 8 4`."""

    symbols = DECIMAL
    vocabulary = (*DECIMAL, "+")
    separator, combine = "+", staticmethod(operator.add)


@register_problem
class AlgorithmicMultiplicationBinary40(Arithmetic):
    """Multiply two little-endian binary numbers: `1 1 * 0 1` -> `0 1 1`."""

    symbols = BINARY
    vocabulary = (*BINARY, "*")
    separator, combine = "*", staticmethod(operator.mul)


@register_problem
class AlgorithmicMultiplicationDecimal40(Arithmetic):
    """Multiply two little-endian decimal numbers: `3 1 * 2 7` -> `6 3 9`."""

    symbols = DECIMAL
    vocabulary = (*DECIMAL, "*")
    separator, combine = "*", staticmethod(operator.mul)


@register_problem
class AlgorithmicShiftDecimal40(AlgorithmicProblem):
    """Add ten to each symbol: `3 1 4` -> `13 11 14`."""

    symbols = DECIMAL
    vocabulary = tuple(map(str, range(20)))
    dev_length = 80

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns each symbol plus ten."""
        return [str(int(symbol) + 10) for symbol in inputs]


@register_problem
class AlgorithmicReverseNlplike8k(NaturalReverse):
    """Reverse sequences of 8,000 symbols that are as unequally frequent as words."""

    symbols = vocabulary = tuple(map(str, range(8_000)))


@register_problem
class AlgorithmicReverseNlplike32k(NaturalReverse):
    """Reverse sequences of 32,000 symbols that are as unequally frequent as words."""

    symbols = vocabulary = tuple(map(str, range(32_000)))


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
