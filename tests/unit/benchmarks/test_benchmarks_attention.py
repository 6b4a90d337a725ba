"""Figures of attention: the words and heads that the rules choose, and a drawing of a trained run."""

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.attention import (
    END,
    Example,
    attention_between_words,
    most_different,
    most_distant,
    pronoun_and_noun,
    pronoun_heads,
    pronoun_table,
)
from benchmarks.harness.attention_plot import Sentence
from t2t.runs.trained_api import load
from tests.readme import ROOT

GOLDEN_RUN = ROOT / "tests/golden/runs/0.1.0/run"


def sentence(text, layers=2, heads=3, **weights):
    """Every word attends to itself, except where `weights` says, as layer_head_query_key=weight, e.g. a0_1_2_0=0.4."""
    words = (*text.split(), END)
    own = np.tile(np.eye(len(words)), (layers, heads, 1, 1))
    for place, weight in weights.items():
        layer, head, query, key = map(int, place[1:].split("_"))
        own[layer, head, query, query] -= weight
        own[layer, head, query, key] += weight
    return Sentence(words, own)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A man lost his hat.", (3, 1)),
        ("The girl, and her dog", (3, 1)),
        ("A man lost her hat.", None),
        ("A man and a woman lost his hat.", None),
        ("Lost his hat, a man", None),
        ("A man lost it.", None),
    ],
)
def test_pronouns_with_one_noun_before_them_are_found(text, found):
    assert pronoun_and_noun(text.split()) == found


def test_the_word_with_most_weight_far_away_is_found():
    near = sentence("a b c d e f g", a0_0_0_4=0.9)
    far = sentence("a b c d e f g", a1_2_6_1=0.3, a1_1_6_0=0.3, a0_0_0_5=0.5)
    to_end = sentence("a b c d e f g", a0_0_0_7=0.9)
    assert most_distant([near, far, to_end]) == (far, 1, 6)


def test_heads_are_chosen_by_their_mean_weight_from_pronoun_to_noun():
    both = [
        Example(sentence("man lost his hat", a1_0_2_0=0.8, a0_2_2_0=0.3, a1_0_3_0=0.4), 2, 0),
        Example(sentence("man sees his hat", a1_0_2_0=0.2, a0_2_2_0=0.3, a0_1_2_0=0.4, a1_0_1_0=0.6), 2, 0),
    ]
    assert pronoun_heads(both) == [(1, 0), (0, 2)]
    assert pronoun_table(both, most=2)[2:] == [
        "| layer 2, head 1 | 0.500 | 0.250 |",  # others: 0, 0.4, 0.6 and 0
        "| layer 1, head 3 | 0.300 | 0.000 |",
        "| 1 / (number of words) | 0.200 | 0.200 |",
    ]


def test_heads_that_differ_most_are_found():
    one = sentence("a b c", a0_1_2_1=0.5, a1_2_0_2=0.9, a1_2_1_0=0.9)
    assert most_different([one, sentence("a b", a0_0_1_0=0.1)]) == ((0, 1), (1, 2))


def test_weights_between_words_are_means_over_pieces_that_attend_and_sums_over_those_attended_to():
    translator = load(GOLDEN_RUN)
    found = attention_between_words(translator, "12 3")
    weights_LHPP = translator.attend("12 3", "").maps["encoder"].weights
    assert translator.attend("12 3", "").maps["encoder"].queries == ("▁", "1", "2", "▁", "3", "</s>")
    assert found.words == ("12", "3", END)
    np.testing.assert_allclose(found.weights.sum(axis=-1), 1, rtol=1e-5)
    # white space belongs to the word before it
    np.testing.assert_allclose(found.weights[:, :, 0, 1], weights_LHPP[:, :, :4, 4].mean(axis=-1), rtol=1e-5)
    np.testing.assert_allclose(found.weights[:, :, 1, 0], weights_LHPP[:, :, 4, :4].sum(axis=-1), rtol=1e-5)


def test_a_run_is_drawn(tmp_path, capsys):
    (tmp_path / "text").write_text("a man and his\n\na dog its\n1 2 3 4 5 6\n")
    flags = [f"--run={GOLDEN_RUN}", f"--file={tmp_path / 'text'}", f"--plot={tmp_path / 'figures.svg'}"]
    assert main(["attention", *flags]) == 0
    assert "| mean weight on the noun, 2 sentences | from the pronoun |" in capsys.readouterr().out
    drawn = (tmp_path / "figures.svg").read_text()
    assert all(f"<!-- {word} -->" in drawn for word in ("man", "his"))
    (tmp_path / "text").write_text("a man\n")
    assert main(["attention", *flags]) == 2
    assert "no sentence has his, her, its after a noun that it can mean" in capsys.readouterr().err
