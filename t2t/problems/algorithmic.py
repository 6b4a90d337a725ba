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
from typing import Any, ClassVar

from t2t.problems.base import GenerationContext, Sample, subclass
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs import TRAIN

BINARY = ("0", "1")
DECIMAL = tuple("0123456789")


def _numbers(size: int) -> tuple[str, ...]:
    return tuple(map(str, range(size)))


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

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields sequences of 1 to `train_length` or `dev_length` symbols, and the algorithm's outputs."""
        size, longest = (self.train_size, self.train_length) if split == TRAIN else (self.dev_size, self.dev_length)
        for _ in range(size):
            inputs = self.draw(context.rng, longest)
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
    solve = Reverse.solve

    def __init__(self, **options: object):
        super().__init__(**options)
        self._weights = list(accumulate(rank**-self.exponent for rank in range(1, len(self.symbols) + 1)))

    def draw(self, rng: random.Random, longest: int) -> list[str]:
        """Draws symbols by Zipf's law; their number is normal with mean `longest` / 2 and deviation `longest` / 10."""
        length = min(longest, max(1, round(rng.gauss(longest / 2, longest / 10))))
        return rng.choices(self.symbols, cum_weights=self._weights, k=length)


class Shift(AlgorithmicProblem):
    """Ten is added to each symbol."""

    def solve(self, inputs: list[str]) -> list[str]:
        """Returns each symbol plus ten."""
        return [str(int(symbol) + 10) for symbol in inputs]


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
        return [str((int(symbol) - shift) % size) for symbol, shift in zip(inputs, cycle(self.key), strict=False)]


_WEIGHTS = (0.4, 0.3, 0.2, 0.08, 0.02)
_TINY: dict[str, Any] = {"train_size": 100, "dev_size": 100, "train_length": 10, "dev_length": 20}
_SHORT: dict[str, Any] = {"train_size": 1_000, "dev_size": 100, "train_length": 10, "dev_length": 10}
_PLUS: dict[str, Any] = {"separator": "+", "combine": staticmethod(operator.add)}
_TIMES: dict[str, Any] = {"separator": "*", "combine": staticmethod(operator.mul)}
_VIGENERE: dict[str, Any] = {"key": (1, 3), "train_length": 200, "dev_length": 400}

_PROBLEMS: tuple[tuple[str, str, type[AlgorithmicProblem], tuple[str, ...], dict[str, Any]], ...] = (
    ("identity_binary40", "Copy a sequence of 0 and 1.", Identity, BINARY, {}),
    ("identity_decimal40", "Copy a sequence of digits.", Identity, DECIMAL, {}),
    ("identity_vocab95_train20_eval30", "Copy a sequence of 95 symbols, of at most 20 in training and 30 in dev.",
     Identity, _numbers(95), {"train_length": 20, "dev_length": 30}),
    ("reverse_binary40", "Reverse a sequence of 0 and 1.", Reverse, BINARY, {}),
    ("reverse_binary40_test", "Reverse short sequences of 0 and 1, of which there are few, to try things.",
     Reverse, BINARY, _SHORT),
    ("reverse_decimal40", "Reverse a sequence of digits.", Reverse, DECIMAL, {}),
    ("reverse_nlplike8k", "Reverse sequences of 8,000 symbols that are as unequally frequent as words.",
     NaturalReverse, _numbers(8_000), {}),
    ("reverse_nlplike32k", "Reverse sequences of 32,000 symbols that are as unequally frequent as words.",
     NaturalReverse, _numbers(32_000), {}),
    ("sort_binary40", "Sort a sequence of 0 and 1.", Sort, BINARY, {}),
    ("sort_decimal40", "Sort a sequence of digits.", Sort, DECIMAL, {}),
    ("addition_binary40", "Add two little-endian binary numbers: `1 1 + 1` -> `0 0 1`.", Arithmetic, BINARY, _PLUS),
    ("addition_decimal40", "Add two little-endian decimal numbers: `3 1 4 + 2 7` -> `5 8 4`.",
     Arithmetic, DECIMAL, _PLUS),
    ("multiplication_binary40", "Multiply two little-endian binary numbers: `1 1 * 0 1` -> `0 1 1`.",
     Arithmetic, BINARY, _TIMES),
    ("multiplication_decimal40", "Multiply two little-endian decimal numbers: `3 1 * 2 7` -> `6 3 9`.",
     Arithmetic, DECIMAL, _TIMES),
    ("shift_decimal40", "Add ten to each symbol: `3 1 4` -> `13 11 14`.",
     Shift, DECIMAL, {"vocabulary": _numbers(20), "dev_length": 80}),
    ("cipher_shift5", "Shift cipher of 5 symbols: `0 1 4` -> `4 0 3`.", Cipher, _numbers(5), {"weights": _WEIGHTS}),
    ("cipher_shift200", "Shift cipher of 200 symbols, each as frequent as its number says.",
     Cipher, _numbers(200), {"weights": tuple(range(200))}),
    ("cipher_vigenere5", "Vigenere cipher of 5 symbols, key 1 3: `0 1 4` -> `4 3 3`.",
     Cipher, _numbers(5), {"weights": _WEIGHTS, **_VIGENERE}),
    ("cipher_vigenere200", "Vigenere cipher of 200 symbols, key 1 3.",
     Cipher, _numbers(200), {"weights": tuple(range(200)), **_VIGENERE}),
)  # fmt: skip
"""Name without `algorithmic_`, summary, algorithm, symbols and other attributes of each."""


def _register(name: str, summary: str, base: type[AlgorithmicProblem], symbols: tuple[str, ...], others: Any) -> None:
    words = (*symbols, others["separator"]) if "separator" in others else symbols
    attributes = {"symbols": symbols, "vocabulary": words, **others}
    register_problem(name)(subclass(base, name, summary, __name__, **attributes))


for _name, _summary, _base, _symbols, _others in _PROBLEMS:
    _register(f"algorithmic_{_name}", _summary, _base, _symbols, _others)
_register("tiny_algo", "Copy a few sequences of 0 and 1, to try things.", Identity, BINARY, _TINY)
