"""Algorithmic problems: answers recomputed with Python's own integers, lengths, vocabularies, registration."""

import random
from collections import Counter
from pathlib import Path

import pytest

from t2t.problems import algorithmic
from t2t.problems.algorithmic import lower_endian_to_number, number_to_lower_endian
from t2t.problems.base import Source
from t2t.registry import PROBLEMS
from t2t.specs.constants import DEV, TRAIN, UNK_ID

BASES = {"binary40": 2, "decimal40": 10}
TASKS = ("identity", "reverse", "addition", "multiplication", "sort")
NAMES = [f"algorithmic_{task}_{base}" for task in TASKS for base in BASES]
ALL_NAMES = [
    *NAMES, "algorithmic_shift_decimal40", "algorithmic_reverse_nlplike8k", "algorithmic_reverse_nlplike32k",
    "algorithmic_identity_vocab95_train20_eval30", "algorithmic_reverse_binary40_test", "tiny_algo",
]  # fmt: skip


def problem(name: str):
    made = PROBLEMS.get(name)()
    made.name = name
    return made


def samples(name: str, split: str, count: int = 400, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    made = problem(name)
    made.train_size = made.dev_size = count
    drawn = made.generate_samples(split, Source(Path(), random.Random(seed)))
    return [(sample["inputs"].split(" "), sample["targets"].split(" ")) for sample in drawn]


def value(digits: list[str], base: int) -> int:
    """Horner's rule from the highest digit, which is the last."""
    total = 0
    for digit in reversed(digits):
        assert 0 <= int(digit) < base
        total = total * base + int(digit)
    return total


def test_lower_endian_numbers():
    assert lower_endian_to_number([7, 3, 1, 2], 10) == 2137
    assert number_to_lower_endian(2137, 10) == [7, 3, 1, 2]
    assert lower_endian_to_number([0, 1, 1], 2) == 6
    assert number_to_lower_endian(6, 2) == [0, 1, 1]
    assert number_to_lower_endian(0, 10) == number_to_lower_endian(0, 2) == [0]


@pytest.mark.parametrize(
    ("name", "inputs", "targets"),
    [
        ("algorithmic_identity_decimal40", "3 1 4", "3 1 4"),
        ("algorithmic_reverse_decimal40", "3 1 4", "4 1 3"),
        ("algorithmic_sort_decimal40", "3 1 4 1", "1 1 3 4"),
        ("algorithmic_shift_decimal40", "3 1 4", "13 11 14"),
        ("algorithmic_addition_decimal40", "3 1 4 + 2 7", "5 8 4"),  # 413 + 72 = 485
        ("algorithmic_addition_decimal40", "9 9 + 1", "0 0 1"),  # 99 + 1 = 100
        ("algorithmic_addition_binary40", "1 1 + 1", "0 0 1"),  # 3 + 1 = 4
        ("algorithmic_multiplication_decimal40", "3 1 * 2 7", "6 3 9"),  # 13 * 72 = 936
        ("algorithmic_multiplication_decimal40", "3 1 * 0", "0"),
        ("algorithmic_multiplication_binary40", "1 1 * 0 1", "0 1 1"),  # 3 * 2 = 6
    ],
)
def test_worked_examples(name, inputs, targets):
    assert problem(name).solve(inputs.split()) == targets.split()


@pytest.mark.parametrize("split", [TRAIN, DEV])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("task", "sign"), [("addition", "+"), ("multiplication", "*")])
def test_arithmetic_is_that_of_python(task, sign, base, split):
    for inputs, targets in samples(f"algorithmic_{task}_{base}", split, 200):
        assert inputs.count(sign) == 1
        cut = inputs.index(sign)
        left, right = value(inputs[:cut], BASES[base]), value(inputs[cut + 1 :], BASES[base])
        assert value(targets, BASES[base]) == (left + right if sign == "+" else left * right)
        for number in (inputs[:cut], inputs[cut + 1 :], targets):
            assert len(number) == 1 or number[-1] != "0"
        assert len(targets) <= len(inputs)


ORDERS = {
    "identity": list,
    "reverse": lambda inputs: inputs[::-1],
    "sort": lambda inputs: sorted(inputs, key=int),
    "shift": lambda inputs: [str(int(symbol) + 10) for symbol in inputs],
}


@pytest.mark.parametrize(
    "name",
    [
        *(f"algorithmic_{task}_{base}" for task in ("identity", "reverse", "sort") for base in BASES),
        *("algorithmic_shift_decimal40", "algorithmic_reverse_binary40_test", "algorithmic_reverse_nlplike8k"),
        "algorithmic_identity_vocab95_train20_eval30",
    ],
)
def test_copies_and_orders(name):
    drawn = samples(name, DEV, 200)
    assert all(targets == ORDERS[name.split("_")[1]](inputs) for inputs, targets in drawn)
    if "vocab95" in name:
        assert len({symbol for inputs, _ in drawn for symbol in inputs}) == 95


@pytest.mark.parametrize(("name", "train", "dev"), [
    *((name, 40, 400) for name in NAMES), ("algorithmic_shift_decimal40", 40, 80),
    ("algorithmic_identity_vocab95_train20_eval30", 20, 30), ("algorithmic_reverse_binary40_test", 10, 10),
    ("tiny_algo", 10, 20),
])  # fmt: skip
def test_lengths(name, train, dev):
    train_lengths, dev_lengths = ([len(inputs) for inputs, _ in samples(name, split, 500)] for split in (TRAIN, DEV))
    assert min(train_lengths) <= 5
    assert max(train_lengths) == train
    assert 0.95 * dev < max(dev_lengths) <= dev
    assert problem(name).max_length == dev + 1


def test_a_declared_maximum_length_is_kept():
    class Short(algorithmic.Reverse):
        dev_length, max_length = 30, 12

    class Shorter(Short):
        dev_length = 20

    class Long(algorithmic.Reverse):
        dev_length = 50

    assert [one.max_length for one in (Short, Shorter, Long)] == [12, 12, 51]


def test_every_length_is_as_likely():
    lengths = Counter(len(inputs) for inputs, _ in samples("algorithmic_reverse_decimal40", TRAIN, 4_000))
    assert set(lengths) == set(range(1, 41))
    assert all(50 < count < 150 for count in lengths.values())  # 100 expected, five deviations either way


@pytest.mark.parametrize(
    ("name", "train", "dev"),
    [
        *((name, 100_000, 10_000) for name in NAMES),
        *(("algorithmic_reverse_binary40_test", 1_000, 100), ("tiny_algo", 100, 100)),
    ],
)
def test_sizes_as_in_tensor2tensor(name, train, dev):
    assert (problem(name).train_size, problem(name).dev_size) == (train, dev)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_the_vocabulary_has_every_symbol_and_a_size_that_covers_its_ids(name):
    made = problem(name)
    made.with_encoders(made.build_encoders(Source(Path(), random.Random(0))))
    made.train_size = made.dev_size = 50
    size = made.spec().targets.vocab_size
    assert size == made.spec().inputs.vocab_size
    for split in (TRAIN, DEV):
        drawn = list(made.generate_samples(split, Source(Path(), random.Random(1))))
        for sample, arrays in zip(drawn, made.encode_samples(drawn), strict=True):
            assert UNK_ID not in [*arrays["inputs"], *arrays["targets"]]
            assert max(arrays["inputs"].max(), arrays["targets"].max()) < size
            assert max(len(arrays["inputs"]), len(arrays["targets"])) <= made.max_length
            assert made.decode_target(arrays["targets"]) == sample["targets"]


@pytest.mark.parametrize("base", BASES)
def test_the_separator_is_a_word_of_its_own(base):
    assert problem(f"algorithmic_addition_{base}").vocabulary == (*map(str, range(BASES[base])), "+")
    assert problem(f"algorithmic_multiplication_{base}").vocabulary == (*map(str, range(BASES[base])), "*")


def test_symbols_of_natural_sequences_follow_zipf():
    drawn = samples("algorithmic_reverse_nlplike8k", TRAIN, 2_000)
    counts = Counter(symbol for inputs, _ in drawn for symbol in inputs)
    for rank, ratio in ((2, 2**-1.25), (4, 4**-1.25), (10, 10**-1.25)):
        assert counts[str(rank - 1)] / counts["0"] == pytest.approx(ratio, rel=0.1)
    lengths = [len(inputs) for inputs, _ in drawn]
    assert sum(lengths) / len(lengths) == pytest.approx(35, abs=0.5)
    assert max(lengths) <= 70


@pytest.mark.parametrize("name", ALL_NAMES)
def test_one_seed_gives_one_sequence(name):
    assert samples(name, DEV, 20, seed=3) == samples(name, DEV, 20, seed=3)
    assert samples(name, DEV, 20, seed=3) != samples(name, DEV, 20, seed=4)


def test_names_and_summaries():
    entries = {entry.name: entry for entry in (*PROBLEMS.entries("algorithmic_"), *PROBLEMS.entries("tiny_"))}
    assert set(ALL_NAMES) <= set(entries)
    summaries = [entries[name].summary for name in ALL_NAMES]
    assert all(summaries)
    assert len(set(summaries)) == len(summaries)
    assert PROBLEMS.get("algorithmic_sort_problem") is algorithmic.AlgorithmicSortDecimal40


def test_metrics_rank_by_exact_match():
    assert {PROBLEMS.get(name).metrics for name in ALL_NAMES} == {("accuracy_per_sequence", "accuracy")}
