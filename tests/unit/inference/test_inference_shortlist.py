"""The shortlist of a run, and IBM Model 1, which it is learned with."""

import json
from collections import defaultdict

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.inference.shortlist import (
    ARRAYS,
    EMPTY_WORD,
    RECORD,
    Sentences,
    Shortlist,
    TranslationTable,
    best_translations,
    fit,
    read_shortlist,
    write_shortlist,
)
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.vocabulary_files import describe_encoders
from t2t.text.words import TokenEncoder
from tests.builders import edited, padded
from tests.errors import refused

WORDS, PROBLEM = TokenEncoder("abcde"), "letters"
SIZE = WORDS.vocab_size
SHORTLIST = Shortlist(np.array([3], np.int32), np.tile(np.array([[4, 1]], np.int32), (SIZE, 1)), SIZE)


def begin(path, kinds=(FeatureKind.TOKENS, FeatureKind.TOKENS), encoder=WORDS):
    features = {
        name: FeatureSpec(kind=kind, vocab_size=encoder.vocab_size)
        for name, kind in zip(("inputs", "targets"), kinds, strict=True)
    }
    encoders = dict.fromkeys(features, encoder)
    record = RunRecord(
        problem=PROBLEM, model="transformer", hparams_set="transformer_base", hparams={},
        spec=ProblemSpec(name=PROBLEM, features=features), vocabularies=describe_encoders(encoders),
    )  # fmt: skip
    return RunDir.create(path, record, encoders)


@pytest.fixture
def run(tmp_path):
    return begin(tmp_path / "run")


def test_candidates_by_hand():
    """3 is frequent; 2 translates to 5 and 6, 4 only to 6; padding and end of sequence are always candidates."""
    translations = np.full((8, 2), 1, np.int32)
    translations[2], translations[4, 0], translations[0], translations[1] = (5, 6), 6, (7, 7), (7, 2)
    shortlist = Shortlist(np.array([3], np.int32), translations, 8)
    found = shortlist.candidates(padded([[2, 4, 5], [4], [5, 5], [1]]))
    expected = [{0, 1, 3, 5, 6}, {0, 1, 3, 6}, {0, 1, 3}, {0, 1, 2, 3, 7}]
    assert [set(np.flatnonzero(row)) for row in found] == expected


def test_a_run_gives_back_what_was_written_and_the_last_one_counts(run):
    other = Shortlist(np.array([2, 6], np.int32), SHORTLIST.translations[:, :1].copy(), SIZE)
    for written in (SHORTLIST, other):
        folder = write_shortlist(run, PROBLEM, written, examples=9)
        found = read_shortlist(run, PROBLEM)
        np.testing.assert_array_equal(found.frequent, written.frequent)
        np.testing.assert_array_equal(found.translations, written.translations)
        assert found.target_size == SIZE
    assert folder == run.path / "shortlist" / PROBLEM
    assert json.loads((folder / RECORD).read_text())["examples"] == 9
    assert [path.name for path in folder.parent.iterdir()] == [PROBLEM]


def test_it_meets_only_the_vocabularies_it_was_learned_for(run, tmp_path):
    other = begin(tmp_path / "other", encoder=TokenEncoder("vwxyz"))
    write_shortlist(run, PROBLEM, SHORTLIST, 9).parent.rename(other.shortlist_folder)
    fingerprints = [encoder.fingerprint[:12] for encoder in (WORDS, TokenEncoder("vwxyz"))]
    with refused("inputs", *fingerprints, "t2t-shortlist", f"--output_dir={other.path}"):
        read_shortlist(other, PROBLEM)


def test_a_problem_that_is_not_from_text_to_text_is_refused(tmp_path):
    run = begin(tmp_path / "run", (FeatureKind.TOKENS, FeatureKind.LABEL))
    with refused("letters", "tokens", "label"):
        read_shortlist(run, PROBLEM)


def flip_a_byte(folder):
    content = bytearray((folder / ARRAYS).read_bytes())
    content[-1] ^= 1
    (folder / ARRAYS).write_bytes(content)


def of_a_later_format(folder):
    with edited(folder / RECORD) as record:
        record["format"] = 2


def half_a_record(folder):
    (folder / RECORD).write_text('{"format": 1')


def link_out_of_the_run(folder):
    outside = folder.parents[2] / "outside"
    (folder / ARRAYS).rename(outside)
    (folder / ARRAYS).symlink_to(outside)


@pytest.mark.parametrize(
    ("damage", "about"),
    [
        (flip_a_byte, ["shortlist.safetensors", "t2t-shortlist"]), (of_a_later_format, [2, 1, "t2t-shortlist"]),
        (half_a_record, ["t2t-shortlist"]), (link_out_of_the_run, ["link"]),
    ],
)  # fmt: skip
def test_a_damaged_one_is_refused(run, damage, about):
    folder = write_shortlist(run, PROBLEM, SHORTLIST, 9)
    damage(folder)
    with refused(folder, *about):
        read_shortlist(run, PROBLEM)


@pytest.mark.parametrize(
    ("arrays", "about"),
    [
        ({"frequent": np.array([SIZE], np.int32)}, ["frequent"]),
        ({"translations": np.full((SIZE, 1), -1, np.int32)}, ["translations"]),
        ({"translations": np.ones((SIZE - 1, 1), np.int32)}, ["translations", SIZE - 1, SIZE]),
        ({"frequent": np.ones(1, np.float32)}, ["frequent", "int32"]),
    ],
)
def test_arrays_that_do_not_fit_the_run_are_refused(run, arrays, about):
    fields = {"frequent": SHORTLIST.frequent, "translations": SHORTLIST.translations} | arrays
    write_shortlist(run, PROBLEM, Shortlist(**fields, target_size=SIZE), 9)
    with refused(*about):
        read_shortlist(run, PROBLEM)


# === IBM Model 1, compared with a hand calculation and with loops over sentences and pieces ===

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
