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


def run_folder(tmp_path, *checkpoints):
    for name in checkpoints:
        (tmp_path / "checkpoints" / name).mkdir(parents=True, exist_ok=True)
    return tmp_path


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


def test_one_is_made_once_and_lies_in_the_run(load, conversions, tmp_path):
    run = run_folder(tmp_path, "step-00000005")
    folders = {load(ConversionCache(run, "words", "step-00000005", "abc")) for _ in range(3)}
    (folder,) = folders
    assert folder.parent == run / FOLDER / "words"
    assert folder.name.startswith("step-00000005-")
    assert len(conversions) == 1


@pytest.mark.parametrize("damage", ["byte", "file", "record"])
def test_a_damaged_one_is_made_again_and_that_is_said(damage, load, conversions, tmp_path, caplog):
    run = run_folder(tmp_path, "a")
    folder = load(ConversionCache(run, "words", "a", "abc"))
    file = folder / ("conversion.json" if damage == "record" else "model.bin")
    if damage == "file":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert load(ConversionCache(run, "words", "a", "abc")) == folder
    assert len(conversions) == 2
    assert f"{folder} is damaged; it is made again" in caplog.text


def test_a_link_out_of_the_run_is_not_followed(load, conversions, tmp_path):
    run = run_folder(tmp_path / "run", "a")
    folder = load(ConversionCache(run, "words", "a", "abc"))
    (folder / "model.bin").rename(tmp_path / "elsewhere")
    (folder / "model.bin").symlink_to(tmp_path / "elsewhere")
    load(ConversionCache(run, "words", "a", "abc"))
    assert len(conversions) == 2


def test_outdated_ones_are_removed_and_others_stay(load, tmp_path):
    run = run_folder(tmp_path, "averaged", "step-00000005", "step-00000006")
    for checkpoint, fingerprint in (("averaged", "old"), ("step-00000005", "5"), ("step-00000006", "6")):
        load(ConversionCache(run, "words", checkpoint, fingerprint))
    (run / "checkpoints/step-00000005").rmdir()
    load(ConversionCache(run, "words", "averaged", "new"))
    names = [folder.name.rpartition("-")[0] for folder in (run / FOLDER / "words").iterdir() if folder.is_dir()]
    assert sorted(names) == ["averaged", "step-00000006"]


def test_problems_of_one_run_have_conversions_of_their_own(load, conversions, tmp_path):
    run = run_folder(tmp_path, "a")
    for _ in range(2):
        for problem in ("words", "others"):
            load(ConversionCache(run, problem, "a", problem))
    assert len(conversions) == 2
    load(ConversionCache(run, "words", "a", "trained on"))
    assert [len(list((run / FOLDER / problem).glob("a-*"))) for problem in ("words", "others")] == [1, 1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_cannot_be_written_has_its_conversion_elsewhere(load, tmp_path):
    run = run_folder(tmp_path, "a")
    run.chmod(0o500)
    try:
        folder = load(ConversionCache(run, "words", "a", "abc"))
    finally:
        run.chmod(0o700)
    assert not folder.exists()


def test_where_there_is_no_room_for_it_the_conversion_is_elsewhere(load, conversions, tmp_path):
    run = run_folder(tmp_path, "a")
    (run / "cache").write_text("a file")
    cache = ConversionCache(run, "words", "a", "abc")
    folder = load(cache)
    assert run not in folder.parents
    assert not folder.exists()
    cache.set("beam", Agreement(4, 4, 0.0))
    assert cache.get("beam") is None


def test_only_the_last_trials_are_kept(load, tmp_path):
    cache = ConversionCache(tmp_path, "words", "step", "print")
    load(cache)
    for number in range(MOST_TRIALS + 2):
        cache.set(f"alpha {number}", Agreement(number, number, 0.0))
    assert [cache.get(f"alpha {number}") for number in (0, 1)] == [None, None]
    assert [cache.get(f"alpha {number}").rows for number in (2, MOST_TRIALS + 1)] == [2, MOST_TRIALS + 1]


def test_trials_are_kept_with_their_conversion(load, tmp_path):
    run = run_folder(tmp_path, "a")
    cache = ConversionCache(run, "words", "a", "abc")
    load(cache)
    cache.set("beam", Agreement(4, 3, 0.5))
    cache.set("greedy", Agreement(4, 4, 0.0))
    again = ConversionCache(run, "words", "a", "abc")
    assert (again.get("beam"), again.get("other")) == (Agreement(4, 3, 0.5), None)
    load(ConversionCache(run, "words", "a", "abcd"))
    assert ConversionCache(run, "words", "a", "abcd").get("beam") is None


def test_it_says_what_decoding_must_know_of_the_model(load, tmp_path):
    run = run_folder(tmp_path, "a")
    assert ConversionCache(run, "words", "a", "abc").kept is None
    load(ConversionCache(run, "words", "a", "abc"), longest_sequence=12)
    assert ConversionCache(run, "words", "a", "abc").kept == ConvertedModel(LONGEST, 12)


def test_it_is_made_again_for_more_positions_alone(load, conversions, tmp_path):
    run = run_folder(tmp_path, "a")
    for positions in (LONGEST, 2 * LONGEST, LONGEST):
        load(ConversionCache(run, "words", "a", "abc"), positions)
        load(ConversionCache(run, "words", "a", "abc"), positions)
    assert len(conversions) == 2
    assert ConversionCache(run, "words", "a", "abc").kept.positions == 2 * LONGEST


def test_what_another_process_has_made_meanwhile_is_taken(load, conversions, tmp_path):
    run = run_folder(tmp_path, "a")
    slower = ConversionCache(run, "words", "a", "abc")
    assert slower.kept is None
    folder = load(ConversionCache(run, "words", "a", "abc"))
    assert load(slower) == folder
    assert len(conversions) == 1
