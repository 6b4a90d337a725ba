"""Conversions are made once, stored with the run, verified, and removed when they are outdated."""

import os

import pytest

from t2t.inference.ctranslate2.cache import FOLDER, MOST_TRIALS, ConversionCache, ConvertedModel
from t2t.inference.ctranslate2.conversion import write_model
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.inference.fallback import Agreement

LONGEST = 16


@pytest.fixture
def conversions():
    """A list that collects the folders of conversions."""
    return []


@pytest.fixture
def run(tmp_path):
    """The folder of a run with three checkpoints."""
    for name in ("a", "averaged", "step-00000006"):
        (tmp_path / "run" / "checkpoints" / name).mkdir(parents=True)
    return tmp_path / "run"


@pytest.fixture
def cache(run):
    """Returns a function that makes a cache of the run, as another process does."""

    def make(problem="words", checkpoint="a", fingerprint="abc"):
        return ConversionCache(run, problem, checkpoint, fingerprint)

    return make


@pytest.fixture
def load(letters_translator, conversions):
    """Returns a function that loads a model through a cache, as an engine does, and returns its folder."""
    tokens = TokenLists.of_encoders(letters_translator.problem.encoders)

    def load_from(cache, positions=LONGEST, longest_sequence=None):
        def write(folder):
            conversions.append(folder)
            write_model(folder, letters_translator.model, tokens, positions)

        with cache.opened(ConvertedModel(positions, longest_sequence), write) as folder:
            CTranslate2Engine(folder, tokens, positions)
            return folder

    return load_from


def test_one_is_made_once_lies_in_the_run_and_says_what_decoding_must_know(load, cache, run, conversions):
    slower = cache()
    assert slower.kept is None
    (folder,) = {load(cache(), longest_sequence=12) for _ in range(3)}
    assert load(slower, longest_sequence=12) == folder, "what another process has made meanwhile is taken"
    assert folder.parent == run / FOLDER / "words"
    assert folder.name.startswith("a-")
    assert len(conversions) == 1
    assert cache().kept == ConvertedModel(LONGEST, 12)


@pytest.mark.parametrize("damage", ["byte", "file", "record", "link"])
def test_a_damaged_one_is_made_again_and_that_is_said(damage, load, cache, conversions, tmp_path, caplog):
    """A link out of the run is not followed."""
    folder = load(cache())
    file = folder / ("conversion.json" if damage == "record" else "model.bin")
    if damage == "link":
        file.rename(tmp_path / "elsewhere")
        file.symlink_to(tmp_path / "elsewhere")
    elif damage == "file":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert load(cache()) == folder
    assert len(conversions) == 2
    assert str(folder) in caplog.text


def test_outdated_ones_are_removed_and_others_stay(load, cache, run):
    for checkpoint, fingerprint in (("averaged", "old"), ("a", "5"), ("step-00000006", "6")):
        load(cache(checkpoint=checkpoint, fingerprint=fingerprint))
    (run / "checkpoints/a").rmdir()
    load(cache(checkpoint="averaged", fingerprint="new"))
    names = [folder.name.rpartition("-")[0] for folder in (run / FOLDER / "words").iterdir() if folder.is_dir()]
    assert sorted(names) == ["averaged", "step-00000006"]


def test_problems_of_one_run_have_conversions_of_their_own(load, cache, run, conversions):
    for problem in ("words", "others") * 2:
        load(cache(problem, fingerprint=problem))
    assert len(conversions) == 2
    load(cache(fingerprint="trained on"))
    assert [len(list((run / FOLDER / problem).glob("a-*"))) for problem in ("words", "others")] == [1, 1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_cannot_be_written_has_its_conversion_elsewhere(load, cache, run):
    run.chmod(0o500)
    try:
        folder = load(cache())
    finally:
        run.chmod(0o700)
    assert not folder.exists()


def test_where_there_is_no_room_for_it_the_conversion_is_elsewhere(load, cache, run):
    (run / "cache").write_text("a file")
    full = cache()
    folder = load(full)
    assert run not in folder.parents
    assert not folder.exists()
    full.set("beam", Agreement(4, 4, 0.0))
    assert full.get("beam") is None


def test_the_last_trials_are_kept_with_their_conversion(load, cache):
    first = cache()
    load(first)
    for number in range(MOST_TRIALS + 2):
        first.set(f"alpha {number}", Agreement(number, number, 0.0))
    first.set("beam", Agreement(4, 3, 0.5))
    for one in (first, cache()):
        assert [one.get(name) for name in ("alpha 0", "alpha 1", "other")] == [None] * 3
        assert [one.get(f"alpha {number}").rows for number in (3, MOST_TRIALS + 1)] == [3, MOST_TRIALS + 1]
        assert one.get("beam") == Agreement(4, 3, 0.5)
    load(cache(fingerprint="abcd"))
    assert cache(fingerprint="abcd").get("beam") is None


def test_it_is_made_again_for_more_positions_alone(load, cache, conversions):
    for positions in (LONGEST, 2 * LONGEST, LONGEST):
        load(cache(), positions)
        load(cache(), positions)
    assert len(conversions) == 2
    assert cache().kept.positions == 2 * LONGEST
