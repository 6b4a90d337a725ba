import itertools

import pytest

from t2t.metrics import compute


def closest(one, other):
    """Returns the edit distance by its definition, by exhaustive search."""
    reached, steps = {one}, 0
    while other not in reached:
        shorter = {s[:i] + s[i + 1 :] for s in reached for i in range(len(s))}
        replaced = {s[:i] + c + s[i + 1 :] for s in reached for i in range(len(s)) for c in "ab"}
        longer = {s[:i] + c + s[i:] for s in reached if len(s) < 4 for i in range(len(s) + 1) for c in "ab"}
        reached, steps = reached | shorter | replaced | longer, steps + 1
    return steps


def edits(metric, one, other):
    return compute([metric], [one], [other])[metric].detail["edits"]


def test_edits_are_the_least_number_of_steps():
    words = ["".join(letters) for length in range(4) for letters in itertools.product("ab", repeat=length)]
    for one, other in itertools.product(words, repeat=2):
        assert edits("cer", one, other) == edits("wer", " ".join(one), " ".join(other)) == closest(one, other)
    assert edits("cer", "kitten", "sitting") == 3
    assert edits("cer", "a\ud800b\0", "ab") == 2


def test_lines_of_a_hundred_thousand_words_take_no_hours():
    """A loop over rows in Python would take hours."""
    one = [str(n % 1009) for n in range(100_000)]
    other = [*one[:50_000], "new", *one[50_000:-3]]
    assert edits("wer", " ".join(one), " ".join(other)) == 4


def test_rates_are_over_all_lines():
    hypotheses, references = ["the cat sat", "", "a b c d"], ["the cat sat down", "one", "a x c"]
    found = compute(["wer", "cer"], hypotheses, references)
    # Words: 1 left out, 1 left out, 1 replaced and 1 put in, of 4 + 1 + 3.
    assert found["wer"].value == pytest.approx(4 / 8)
    assert found["wer"].detail == {"edits": 4, "reference_length": 8}
    # Characters: " down", "one", "b" for "x" and " d".
    assert found["cer"].value == pytest.approx((5 + 3 + 3) / (16 + 3 + 5))
    assert not found["cer"].higher_is_better
    assert compute(["wer"], ["a b c"], ["a"])["wer"].value == 2.0
