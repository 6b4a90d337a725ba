"""`translate_ende_numbers`: its splits, that it is a function, and its limits."""

import random
import zlib
from collections import Counter
from pathlib import Path

import pytest

from t2t.constants import DEV, TEST, TRAIN
from t2t.problems import translate_numbers
from t2t.problems.base import Source
from t2t.problems.number_grammar import KINDS
from t2t.problems.translate_numbers import TranslateEndeNumbers


def samples(split: str, seed: int = 0) -> list[tuple[str, str]]:
    drawn = TranslateEndeNumbers().generate_samples(split, Source(Path(), random.Random(f"{seed} {split}")))
    return [(sample["inputs"], sample["targets"]) for sample in drawn]


@pytest.fixture(scope="module")
def splits() -> dict[str, list[tuple[str, str]]]:
    return {split: samples(split) for split in TranslateEndeNumbers.splits}


def test_the_grammars_have_many_phrases(number_phrases):
    assert len(number_phrases) > 150_000


def test_german_words_are_well_formed(number_phrases):
    for words in number_phrases.values():
        assert words == words.strip()
        assert "  " not in words
        assert "{" not in words
        assert "einsund" not in words
        assert "einshundert" not in words
        assert "einstausend" not in words


def test_one_phrase_has_one_translation_across_splits(splits, number_phrases):
    known = dict(number_phrases)
    for pairs in splits.values():
        for inputs, targets in pairs:
            assert known.setdefault(inputs, targets) == targets


def test_no_phrase_twice_within_or_across_splits(splits):
    inputs = [inputs for pairs in splits.values() for inputs, _ in pairs]
    assert len(inputs) == sum(TranslateEndeNumbers.sizes.values())
    assert len(set(inputs)) == len(inputs)


def test_splits_are_disjoint_whatever_the_seeds(splits):
    other = {inputs for inputs, _ in samples(TRAIN, seed=9)}
    assert not other & {inputs for split in (DEV, TEST) for inputs, _ in splits[split]}
    assert other != {inputs for inputs, _ in splits[TRAIN]}


def test_the_split_is_the_hash_of_the_phrase(splits):
    assert {zlib.crc32(inputs.encode()) % 20 for inputs, _ in splits[DEV]} == {0}
    assert {zlib.crc32(inputs.encode()) % 20 for inputs, _ in splits[TEST]} == {1}
    assert all(" " in inputs for split in (DEV, TEST) for inputs, _ in splits[split])


def test_one_seed_gives_one_sequence():
    assert samples(DEV, seed=2) == samples(DEV, seed=2)


def test_phrases_have_twelve_words_at_most(splits):
    assert max(len(inputs.split()) for pairs in splits.values() for inputs, _ in pairs) == 12


def test_training_phrases_hold_every_word_of_dev_and_test(splits):
    known = {word for inputs, _ in splits[TRAIN] for word in inputs.split()}
    unknown = {word for split in (DEV, TEST) for inputs, _ in splits[split] for word in inputs.split()} - known
    assert [word for word in unknown if not word.isdigit()] == []


@pytest.mark.parametrize("split", [DEV, TEST])
def test_kinds_take_turns(split, monkeypatch):
    kind_of = {}

    def noted(kind, draw):
        def draw_and_note(rng):
            phrase = draw(rng)
            kind_of[phrase.english] = kind
            return phrase

        return draw_and_note

    monkeypatch.setattr(translate_numbers, "KINDS", {kind: noted(kind, draw) for kind, draw in KINDS.items()})
    kinds = [kind_of[inputs] for inputs, _ in samples(split)]
    assert kinds[:7] == ["cardinal", "ordinal", "date", "clock", "price", "quantity", "measure"]
    assert set(Counter(kinds).values()) == {142, 143}


def test_vocabulary_and_examples_fit_the_declared_limits():
    problem = TranslateEndeNumbers()
    problem.name = "translate_ende_numbers"
    problem.with_encoders(problem.build_encoders(Source(Path(), random.Random(0))))
    assert problem.spec().shared_vocabulary
    assert problem.spec().targets.vocab_size == 1024
    drawn = list(problem.generate_samples(DEV, Source(Path(), random.Random(1))))
    arrays = problem.encode_samples(drawn)
    assert [problem.decode_target(array["targets"]) for array in arrays] == [sample["targets"] for sample in drawn]
    assert max(len(array[name]) for array in arrays for name in array) <= 40
    assert max(len(sample[name].encode()) for sample in drawn for name in sample) < problem.max_length


def test_metrics_rank_by_exact_match():
    assert TranslateEndeNumbers.metrics[0] == "accuracy_per_sequence"
