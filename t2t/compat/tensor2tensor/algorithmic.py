"""Tensor2Tensor's base class of algorithms, for plug-ins that subclass it, and generators of numbers."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from t2t.compat.tensor2tensor import problem, text_encoder, text_problems


class Tensor2TensorAlgorithmicProblem(text_problems.Text2TextProblem):
    """Numbers to numbers: `generator(nbr_symbols, max_length, nbr_cases)` yields lists of numbers from 0."""

    train_length, dev_length, train_size, dev_size = 40, 400, 100_000, 10_000

    @property
    def num_symbols(self) -> int:
        """Numbers that there are; plug-ins say it."""
        raise NotImplementedError(f"{type(self).__name__} has no num_symbols")

    def generator(self, nbr_symbols: int, max_length: int, nbr_cases: int) -> Iterable[dict[str, list[int]]]:
        """Yields the samples; plug-ins write it."""
        raise NotImplementedError(f"{type(self).__name__} has no generator")

    def samples_of_split(self, data_dir: str, tmp_dir: str, split: str) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as ids, which begin after the reserved ones."""
        trains = split == problem.DatasetSplit.TRAIN
        length, size = (self.train_length, self.train_size) if trains else (self.dev_length, self.dev_size)
        for sample in self.generator(self.num_symbols, length, size):
            yield {
                name: [*(n + text_encoder.NUM_RESERVED_TOKENS for n in numbers), text_encoder.EOS_ID]
                for name, numbers in sample.items()
            }

    encoded_samples_of_split = samples_of_split

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the numbers as words; one more than there are, which separates operands."""
        encoder = text_encoder.TokenTextEncoder(None, vocab_list=map(str, range(self.num_symbols + 1)))
        return {"inputs": encoder, "targets": encoder}


AlgorithmicProblem = Tensor2TensorAlgorithmicProblem
"""The name that plug-ins know."""


def _numbers(symbols: int, max_length: int, cases: int) -> Iterator[list[int]]:
    for _ in range(cases):
        yield [random.randrange(symbols) for _ in range(random.randint(1, max_length))]


def identity_generator(nbr_symbols: int, max_length: int, nbr_cases: int) -> Iterator[dict[str, list[int]]]:
    """Yields random numbers, which are to be copied."""
    return ({"inputs": row, "targets": row} for row in _numbers(nbr_symbols, max_length, nbr_cases))


def reverse_generator(nbr_symbols: int, max_length: int, nbr_cases: int) -> Iterator[dict[str, list[int]]]:
    """The same, to be reversed."""
    return ({"inputs": row, "targets": row[::-1]} for row in _numbers(nbr_symbols, max_length, nbr_cases))


def shift_generator(nbr_symbols: int, shift: int, max_length: int, nbr_cases: int) -> Iterator[dict[str, list[int]]]:
    """The same, to each of which `shift` is to be added."""
    rows = _numbers(nbr_symbols - shift, max_length, nbr_cases)
    return ({"inputs": row, "targets": [n + shift for n in row]} for row in rows)
