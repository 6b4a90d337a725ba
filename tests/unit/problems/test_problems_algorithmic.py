"""Problems that a program makes: answers against Python's own integers, tables and numbers, and their limits."""

import functools
import math
import random
import string
import sys
from collections import Counter, deque
from fractions import Fraction
from pathlib import Path

import pytest

from t2t.problems import algorithmic
from t2t.problems.algorithmic import lower_endian_to_number, number_to_lower_endian
from t2t.problems.base import Source
from t2t.problems.translation import TranslateEndeNumbers
from t2t.registry import PROBLEMS
from t2t.runs.names import get_problem
from t2t.specs import DEV, TEST, TRAIN
from tests.errors import refused

BASES = {"binary40": 2, "decimal40": 10}
TASKS = ("identity", "reverse", "addition", "multiplication", "sort")
NAMES = [f"algorithmic_{task}_{base}" for task in TASKS for base in BASES]
ALL_NAMES = [
    *NAMES, "algorithmic_shift_decimal40", "algorithmic_reverse_nlplike8k", "algorithmic_reverse_nlplike32k",
    "algorithmic_identity_vocab95_train20_eval30", "algorithmic_reverse_binary40_test", "tiny_algo",
]  # fmt: skip


def problem_of(name: str):
    made = PROBLEMS.get(name)()
    made.name = name
    return made


def samples_of(name: str, split: str, count: int = 400, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    made = problem_of(name)
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


@pytest.mark.parametrize(("name", "inputs", "targets"), [
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
])  # fmt: skip
def test_worked_examples(name, inputs, targets):
    assert problem_of(name).solve(inputs.split()) == targets.split()


@pytest.mark.parametrize("split", [TRAIN, DEV])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("task", "sign"), [("addition", "+"), ("multiplication", "*")])
def test_arithmetic_is_that_of_python(task, sign, base, split):
    for inputs, targets in samples_of(f"algorithmic_{task}_{base}", split, 200):
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


@pytest.mark.parametrize("name", [
    *(f"algorithmic_{task}_{base}" for task in ("identity", "reverse", "sort") for base in BASES),
    *("algorithmic_shift_decimal40", "algorithmic_reverse_binary40_test", "algorithmic_reverse_nlplike8k"),
    "algorithmic_identity_vocab95_train20_eval30",
])  # fmt: skip
def test_copies_and_orders(name):
    drawn = samples_of(name, DEV, 200)
    assert all(targets == ORDERS[name.split("_")[1]](inputs) for inputs, targets in drawn)
    if "vocab95" in name:
        assert len({symbol for inputs, _ in drawn for symbol in inputs}) == 95


@pytest.mark.parametrize(("name", "train", "dev"), [
    *((name, 40, 400) for name in NAMES), ("algorithmic_shift_decimal40", 40, 80),
    ("algorithmic_identity_vocab95_train20_eval30", 20, 30), ("algorithmic_reverse_binary40_test", 10, 10),
    ("tiny_algo", 10, 20),
])  # fmt: skip
def test_lengths(name, train, dev):
    train_lengths, dev_lengths = ([len(inputs) for inputs, _ in samples_of(name, split, 300)] for split in (TRAIN, DEV))
    assert min(train_lengths) <= 5
    assert max(train_lengths) == train
    assert 0.95 * dev < max(dev_lengths) <= dev
    assert problem_of(name).max_length == dev + 1


def test_a_declared_maximum_length_is_kept():
    class Short(algorithmic.Reverse):
        dev_length, max_length = 30, 12

    class Shorter(Short):
        dev_length = 20

    class Long(algorithmic.Reverse):
        dev_length = 50

    assert [one.max_length for one in (Short, Shorter, Long)] == [12, 12, 51]


def test_every_length_is_as_likely_and_symbols_of_natural_sequences_follow_zipf():
    lengths = Counter(len(inputs) for inputs, _ in samples_of("algorithmic_reverse_decimal40", TRAIN, 4_000))
    assert set(lengths) == set(range(1, 41))
    assert all(50 < count < 150 for count in lengths.values())  # 100 expected, five deviations either way
    drawn = samples_of("algorithmic_reverse_nlplike8k", TRAIN, 2_000)
    counts = Counter(symbol for inputs, _ in drawn for symbol in inputs)
    for rank, ratio in ((2, 2**-1.25), (4, 4**-1.25), (10, 10**-1.25)):
        assert counts[str(rank - 1)] / counts["0"] == pytest.approx(ratio, rel=0.1)
    lengths = [len(inputs) for inputs, _ in drawn]
    assert sum(lengths) / len(lengths) == pytest.approx(35, abs=0.5)
    assert max(lengths) <= 70


@pytest.mark.parametrize(("name", "train", "dev"), [
    *((name, 100_000, 10_000) for name in NAMES),
    *(("algorithmic_reverse_binary40_test", 1_000, 100), ("tiny_algo", 100, 100)),
])  # fmt: skip
def test_sizes_as_in_tensor2tensor(name, train, dev):
    assert (problem_of(name).train_size, problem_of(name).dev_size) == (train, dev)


@pytest.mark.parametrize("base", BASES)
def test_the_separator_is_a_word_of_its_own(base):
    assert problem_of(f"algorithmic_addition_{base}").vocabulary == (*map(str, range(BASES[base])), "+")
    assert problem_of(f"algorithmic_multiplication_{base}").vocabulary == (*map(str, range(BASES[base])), "*")


def test_each_has_a_summary_of_its_own_and_metrics_that_rank_by_exact_match():
    summaries = {PROBLEMS.entry(name).summary for name in ALL_NAMES}
    assert len(summaries) == len(ALL_NAMES)
    assert PROBLEMS.get("algorithmic_sort_problem") is PROBLEMS.get("algorithmic_sort_decimal40")
    assert {PROBLEMS.get(name).metrics for name in ALL_NAMES} == {("accuracy_per_sequence", "accuracy")}


# === Ciphers: an alphabet turned round next to the alphabet, as Tensor2Tensor builds its tables ===
@pytest.mark.parametrize(("name", "key", "length"), [
    ("algorithmic_cipher_shift5", [1], 100), ("algorithmic_cipher_vigenere5", [1, 3], 200),
    ("algorithmic_cipher_shift200", [1], 100), ("algorithmic_cipher_vigenere200", [1, 3], 200),
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


# === Algebra: inputs and targets are evaluated with values for the letters ===
ALGEBRA = ("algorithmic_algebra_inverse", "algorithmic_algebra_simplify", "algorithmic_calculus_integrate")


@functools.cache
def pairs(name, split="train", size=40):
    """Returns some tasks with their answers; SymPy takes its time for them."""
    problem = get_problem(name)
    problem.train_size = problem.dev_size = size
    samples = problem.generate_samples(split, Source(None, random.Random(0)))
    return [(sample["inputs"], sample["targets"]) for sample in samples]


def evaluated(text, letters):
    """Evaluates a text, which is of the problem's own vocabulary."""
    return eval(text, {"log": lambda x: math.log(abs(x)), "__builtins__": {}}, letters)


def letters_of(seed, kind=float):
    rng = random.Random(seed)
    return {letter: kind(rng.randint(2, 10**6)) / 997 for letter in string.ascii_lowercase}


def test_the_equation_holds_with_the_answer_in_the_letters_place():
    depths = set()
    for task, answer in pairs("algorithmic_algebra_inverse"):
        asked, equation = task.split(" : ")
        left, right = equation.split(" = ")
        letters = letters_of(1, Fraction)
        letters[asked] = evaluated(answer, letters)
        assert evaluated(left, letters) == evaluated(right, letters)
        assert equation.split().count(asked) == 1
        depths.add(len(equation.split()))
    assert min(depths) == 3  # a = b
    assert max(depths) > 12


def test_what_is_simplified_has_the_same_value_and_without_sympy_the_package_is_named(drawn, monkeypatch):
    shorter = 0
    for task, answer in pairs("algorithmic_algebra_simplify"):
        assert math.isclose(evaluated(task, letters_of(2)), evaluated(answer, letters_of(2)), rel_tol=1e-6)
        shorter += len(answer.split()) < len(task.split())
    assert shorter > 3
    monkeypatch.setitem(sys.modules, "sympy", None)
    with refused("algorithmic_algebra_simplify:", "sympy", "[algebra]"):
        drawn("algorithmic_algebra_simplify", "train")


def test_the_slope_of_the_integral_is_the_formula():
    for task, answer in pairs("algorithmic_calculus_integrate"):
        letter, formula = task.split(" : ")
        letters = letters_of(3)
        step = 1e-4 * letters[letter]
        ends = [evaluated(answer, letters | {letter: letters[letter] + sign * step}) for sign in (1, -1)]
        assert math.isclose((ends[0] - ends[1]) / (2 * step), evaluated(formula, letters), rel_tol=1e-3)


@pytest.mark.parametrize("name", ALGEBRA)
def test_no_task_is_in_both_splits_and_every_symbol_is_in_the_vocabulary(name):
    assert not {task for task, _ in pairs(name)} & {task for task, _ in pairs(name, "dev", 25)}
    known = get_problem(name).vocabulary
    assert len(known) == len(set(known))
    assert {symbol for pair in pairs(name) for text in pair for symbol in text.split()} <= set(known)


# === Numbers in English and German ===
def a_source() -> Source:
    return Source(Path(), random.Random(0))


@pytest.fixture(scope="module")
def phrases():
    """The pairs of each split of `translate_ende_numbers`."""
    problem = TranslateEndeNumbers()
    return {
        split: [(sample["inputs"], sample["targets"]) for sample in problem.generate_samples(split, a_source())]
        for split in problem.splits
    }


def test_phrases_are_all_different_and_those_of_training_hold_every_word_of_dev_and_test(phrases):
    assert {split: len(pairs) for split, pairs in phrases.items()} == {TRAIN: 50_000, DEV: 1_000, TEST: 1_000}
    inputs = [inputs for pairs in phrases.values() for inputs, _ in pairs]
    assert len(set(inputs)) == len(inputs)
    assert max(len(phrase.split()) for phrase in inputs) == 12
    words = [{word for inputs, _ in phrases[split] for word in inputs.split()} for split in (TRAIN, DEV, TEST)]
    assert [word for word in (words[1] | words[2]) - words[0] if not word.isdigit()] == []


ONE_TO_19 = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL = {word: n for n, word in enumerate(ONE_TO_19.split(), 1)} | {
    word: 10 * n for n, word in enumerate(TENS.split(), 2)
}
EINS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
ZEHN = {
    13: "dreizehn", 14: "vierzehn", 15: "fünfzehn", 16: "sechzehn", 17: "siebzehn", 18: "achtzehn", 19: "neunzehn",
    20: "zwanzig", 30: "dreißig", 40: "vierzig", 50: "fünfzig", 60: "sechzig", 70: "siebzig", 80: "achtzig",
    90: "neunzig",
}  # fmt: skip


def read_english(words: str) -> int:
    """Returns the number from 1 to 999,999 that English words name."""
    thousands, part = 0, 0
    for word in words.replace("-", " ").replace(" and ", " ").split():
        if word == "hundred":
            part *= 100
        elif word == "thousand":
            thousands, part = part, 0
        else:
            part += SMALL[word]
    return 1000 * thousands + part


def write_german(number: int, last: bool = True) -> str:
    """Returns a number from 1 to 999,999 as one German word; `ein` loses its s inside of one."""
    for unit, name in ((1000, "tausend"), (100, "hundert")):
        if number >= unit:
            rest = write_german(number % unit, last) if number % unit else ""
            return write_german(number // unit, last=False) + name + rest
    if number == 1 and not last:
        return "ein"
    if number <= 12:
        return EINS[number - 1]
    if number in ZEHN:
        return ZEHN[number]
    return write_german(number % 10, last=False) + "und" + ZEHN[number - number % 10]


def test_german_is_well_formed_and_cardinals_are_those_of_an_independent_writer(phrases):
    frames = (("the number is ", "die Zahl ist "), ("the answer is ", "die Antwort ist "))
    checked = 0
    for inputs, targets in (pair for pairs in phrases.values() for pair in pairs):
        assert targets == " ".join(targets.split())
        assert not any(wrong in targets for wrong in ("{", "einsund", "einshundert", "einstausend"))
        for english, german in frames:
            if inputs.startswith(english) and "zero" not in inputs:
                assert targets == german + write_german(read_english(inputs.removeprefix(english)))
                checked += 1
    assert checked > 500


def test_vocabulary_and_examples_fit_the_declared_limits():
    problem = TranslateEndeNumbers()
    problem.name = "translate_ende_numbers"
    problem.with_encoders(problem.build_encoders(a_source()))
    assert (problem.metrics[0], problem.spec().shared_vocabulary) == ("accuracy_per_sequence", True)
    assert problem.spec().targets.vocab_size == 1024
    samples = list(problem.generate_samples(DEV, a_source()))
    assert max(len(ids) for example in problem.encode_samples(samples) for ids in example.values()) <= 40
    assert max(len(text.encode()) for sample in samples for text in sample.values()) < problem.max_length
