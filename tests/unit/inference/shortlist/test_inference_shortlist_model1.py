"""IBM Model 1, compared with a hand calculation and with loops over sentences and pieces."""

from collections import defaultdict

import numpy as np
import pytest

from t2t.inference.shortlist.model1 import EMPTY_WORD, Sentences, TranslationTable, best_translations, fit
from t2t.specs.constants import EOS_ID

A, B, X, Y = 2, 3, 2, 3
V = 7
TWO_PAIRS = [([A, B, EOS_ID], [X, Y, EOS_ID]), ([A, EOS_ID], [X, EOS_ID])]


def laid_end_to_end(rows):
    return Sentences(np.concatenate(rows).astype(np.int32), np.array([len(row) for row in rows]))


def batches_of(pairs, size=1000):
    """A function that yields pairs of lists of ids as batches."""

    def batches():
        for start in range(0, len(pairs), size):
            yield tuple(laid_end_to_end(side) for side in zip(*pairs[start : start + size], strict=True))

    return batches


def as_dict(table, size=V):
    return {divmod(int(key), size): prob for key, prob in zip(table.keys, table.probs, strict=True)}


def by_loops(pairs, iterations):
    """Brown et al. 1993, section 4.1, one sum after the other."""
    pairs = [([EMPTY_WORD, *source[:-1]], target[:-1]) for source, target in pairs]
    probs = {(s, t): 1.0 for source, target in pairs for s in source for t in target}
    for _ in range(iterations):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for t in target:
                among = sum(probs[s, t] for s in source)
                for s in source:
                    counts[s, t] += probs[s, t] / among
                    totals[s] += probs[s, t] / among
        probs = {(s, t): count / totals[s] for (s, t), count in counts.items()}
    return probs


@pytest.fixture
def random_pairs():
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 6, (40, 2))
    return [tuple([*rng.integers(2, V, length).tolist(), EOS_ID] for length in both) for both in lengths]


def test_two_iterations_by_hand():
    """a b = x y, a = x: uniform at first; after two iterations a translates to x with probability 235/307."""
    first, second = (as_dict(fit(batches_of(TWO_PAIRS), V, iterations)) for iterations in (1, 2))
    assert first == pytest.approx({
        (EMPTY_WORD, X): 5 / 7, (EMPTY_WORD, Y): 2 / 7, (A, X): 5 / 7, (A, Y): 2 / 7, (B, X): 1 / 2, (B, Y): 1 / 2,
    })  # fmt: skip
    assert second == pytest.approx({
        (EMPTY_WORD, X): 235 / 307, (EMPTY_WORD, Y): 72 / 307, (A, X): 235 / 307, (A, Y): 72 / 307,
        (B, X): 5 / 14, (B, Y): 9 / 14,
    })  # fmt: skip


@pytest.mark.parametrize("block", [1, 17, 10**6])
def test_any_division_into_batches_and_blocks_gives_what_loops_give(random_pairs, block):
    found = as_dict(fit(batches_of(random_pairs, size=7), V, 4, block_pairs=block))
    assert found == pytest.approx(by_loops(random_pairs, 4))


def test_examples_without_pieces_change_nothing(random_pairs):
    empty = [([EOS_ID], [EOS_ID]), ([A, EOS_ID], [EOS_ID])]
    with_empty = as_dict(fit(batches_of([*empty, *random_pairs, *empty]), V, 3))
    assert with_empty == pytest.approx(as_dict(fit(batches_of(random_pairs), V, 3)))
    assert not len(fit(batches_of(empty), V, 3).keys)


def test_of_too_many_pairs_the_rarest_are_dropped(random_pairs):
    often = [([A, EOS_ID], [X, EOS_ID]), ([B, EOS_ID], [Y, EOS_ID])] * 50
    found = as_dict(fit(batches_of([*often, *random_pairs]), V, 5, max_entries=6))
    assert len(found) <= 6
    assert found[A, X] > 0.5
    assert found[B, Y] > 0.5


def test_best_translations_by_hand():
    """Ties go to the lower id, the empty word has no translations, and end of sequence fills empty slots."""
    entries = {(EMPTY_WORD, 5): 1.0, (2, 3): 0.2, (2, 4): 0.4, (2, 6): 0.4, (4, 5): 1.0, (4, 6): 0.0}
    table = TranslationTable(np.array([s * V + t for s, t in entries]), np.array(list(entries.values())))
    best = best_translations(table, source_size=5, target_size=V, count=2)
    assert best.tolist() == [[EOS_ID] * 2, [EOS_ID] * 2, [4, 6], [EOS_ID] * 2, [5, EOS_ID]]
