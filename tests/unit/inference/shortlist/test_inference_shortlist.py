"""Candidates of a source, and the stored shortlist of a run: untrusted and outdated ones are refused."""

import json

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.inference.shortlist.shortlist import ARRAYS, RECORD, Shortlist, read_shortlist, write_shortlist
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.token import TokenEncoder
from t2t.text.vocabulary_files import describe_encoders
from tests.builders import edited, padded
from tests.errors import refused

WORDS, PROBLEM = TokenEncoder("abcde"), "letters"
V = WORDS.vocab_size
SHORTLIST = Shortlist(np.array([3], np.int32), np.tile(np.array([[4, 1]], np.int32), (V, 1)), V)


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
    other = Shortlist(np.array([2, 6], np.int32), SHORTLIST.translations[:, :1].copy(), V)
    for written in (SHORTLIST, other):
        folder = write_shortlist(run, PROBLEM, written, examples=9)
        found = read_shortlist(run, PROBLEM)
        np.testing.assert_array_equal(found.frequent, written.frequent)
        np.testing.assert_array_equal(found.translations, written.translations)
        assert found.target_size == V
    assert folder == run.path / "shortlist" / PROBLEM
    assert json.loads((folder / RECORD).read_text())["examples"] == 9
    assert [path.name for path in folder.parent.iterdir()] == [PROBLEM]


def test_a_run_without_one_says_how_to_learn_it(run):
    with refused("shortlist=True", run.path, "letters", "t2t-shortlist", f"--output_dir={run.path}"):
        read_shortlist(run, PROBLEM)


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
        ({"frequent": np.array([V], np.int32)}, ["frequent"]),
        ({"translations": np.full((V, 1), -1, np.int32)}, ["translations"]),
        ({"translations": np.ones((V - 1, 1), np.int32)}, ["translations", V - 1, V]),
        ({"frequent": np.ones(1, np.float32)}, ["frequent", "int32"]),
    ],
)
def test_arrays_that_do_not_fit_the_run_are_refused(run, arrays, about):
    fields = {"frequent": SHORTLIST.frequent, "translations": SHORTLIST.translations} | arrays
    write_shortlist(run, PROBLEM, Shortlist(**fields, target_size=V), 9)
    with refused(*about):
        read_shortlist(run, PROBLEM)
