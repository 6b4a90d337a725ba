"""`translate_ende_numbers`: its phrases, its splits and its limits."""

import random
from pathlib import Path

import pytest

from t2t.problems.base import Source
from t2t.problems.translate_numbers import TranslateEndeNumbers
from t2t.specs.constants import DEV, TEST, TRAIN


def source() -> Source:
    return Source(Path(), random.Random(0))


@pytest.fixture(scope="module")
def splits() -> dict[str, list[tuple[str, str]]]:
    problem = TranslateEndeNumbers()
    return {
        split: [(sample["inputs"], sample["targets"]) for sample in problem.generate_samples(split, source())]
        for split in problem.splits
    }


def test_the_splits_have_their_sizes_and_phrases_of_twelve_words_at_most_each_once(splits):
    assert {split: len(pairs) for split, pairs in splits.items()} == {TRAIN: 50_000, DEV: 1_000, TEST: 1_000}
    inputs = [inputs for pairs in splits.values() for inputs, _ in pairs]
    assert len(set(inputs)) == len(inputs)
    assert max(len(phrase.split()) for phrase in inputs) == 12


def test_german_words_are_well_formed(splits):
    for _, words in (pair for pairs in splits.values() for pair in pairs):
        assert words == " ".join(words.split())
        assert not any(wrong in words for wrong in ("{", "einsund", "einshundert", "einstausend"))


def test_training_phrases_hold_every_word_of_dev_and_test(splits):
    known = {word for inputs, _ in splits[TRAIN] for word in inputs.split()}
    unknown = {word for split in (DEV, TEST) for inputs, _ in splits[split] for word in inputs.split()} - known
    assert [word for word in unknown if not word.isdigit()] == []


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


def test_cardinals_are_those_of_an_independent_writer(splits):
    frames = (("the number is ", "die Zahl ist "), ("the answer is ", "die Antwort ist "))
    checked = 0
    for inputs, targets in (pair for pairs in splits.values() for pair in pairs):
        for english, german in frames:
            if inputs.startswith(english) and "zero" not in inputs:
                assert targets == german + write_german(read_english(inputs.removeprefix(english)))
                checked += 1
    assert checked > 500


def test_vocabulary_and_examples_fit_the_declared_limits():
    problem = TranslateEndeNumbers()
    problem.name = "translate_ende_numbers"
    problem.with_encoders(problem.build_encoders(source()))
    assert problem.spec().shared_vocabulary
    assert problem.spec().targets.vocab_size == 1024
    samples = list(problem.generate_samples(DEV, source()))
    arrays = problem.encode_samples(samples)
    assert [problem.decode_target(array["targets"]) for array in arrays] == [sample["targets"] for sample in samples]
    assert max(len(array[name]) for array in arrays for name in array) <= 40
    assert max(len(sample[name].encode()) for sample in samples for name in sample) < problem.max_length


def test_metrics_rank_by_exact_match():
    assert TranslateEndeNumbers.metrics[0] == "accuracy_per_sequence"
