"""Conversions are made once, kept with the run, checked, and removed when they are outdated."""

import os

import pytest

from t2t.inference.ctranslate2 import cache as cache_module
from t2t.inference.ctranslate2.cache import FOLDER, MOST_TRIALS, ConversionCache
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.inference.fallback import Agreement
from tests.letters import letters, translator_of

LONGEST = 16


@pytest.fixture
def translator():
    return translator_of(letters())


@pytest.fixture
def conversions(monkeypatch):
    """Counts them."""
    made, write = [], cache_module.write_model
    monkeypatch.setattr(cache_module, "write_model", lambda *given: made.append(given) or write(*given))
    return made


def run_folder(tmp_path, *checkpoints):
    for name in checkpoints:
        (tmp_path / "checkpoints" / name).mkdir(parents=True, exist_ok=True)
    return tmp_path


def load(cache, translator):
    """Returns where the model was loaded from, as an engine does it."""
    tokens = TokenLists.of_encoders(translator.problem.encoders)
    with cache.opened(translator.model, tokens, LONGEST) as folder:
        CTranslate2Engine(folder, tokens, LONGEST)
        return folder


def test_one_is_made_once_and_lies_in_the_run(translator, conversions, tmp_path):
    run = run_folder(tmp_path, "step-00000005")
    folders = {load(ConversionCache(run, "step-00000005", "abc"), translator) for _ in range(3)}
    (folder,) = folders
    assert folder.parent == run / FOLDER
    assert folder.name.startswith("step-00000005-")
    assert len(conversions) == 1


@pytest.mark.parametrize("damage", ["byte", "file", "record"])
def test_a_damaged_one_is_made_again_and_that_is_said(damage, translator, conversions, tmp_path, caplog):
    cache = ConversionCache(run_folder(tmp_path, "a"), "a", "abc")
    folder = load(cache, translator)
    file = folder / ("conversion.json" if damage == "record" else "model.bin")
    if damage == "file":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert load(cache, translator) == folder
    assert len(conversions) == 2
    assert f"{folder} is damaged; it is made again" in caplog.text


def test_a_link_out_of_the_run_is_not_followed(translator, conversions, tmp_path):
    cache = ConversionCache(run_folder(tmp_path / "run", "a"), "a", "abc")
    folder = load(cache, translator)
    (folder / "model.bin").rename(tmp_path / "elsewhere")
    (folder / "model.bin").symlink_to(tmp_path / "elsewhere")
    load(cache, translator)
    assert len(conversions) == 2


def test_outdated_ones_are_removed_and_others_stay(translator, tmp_path):
    run = run_folder(tmp_path, "averaged", "step-00000005", "step-00000006")
    for checkpoint, fingerprint in (("averaged", "old"), ("step-00000005", "5"), ("step-00000006", "6")):
        load(ConversionCache(run, checkpoint, fingerprint), translator)
    (run / "checkpoints/step-00000005").rmdir()
    load(ConversionCache(run, "averaged", "new"), translator)
    names = [folder.name.rpartition("-")[0] for folder in (run / FOLDER).iterdir() if folder.is_dir()]
    assert sorted(names) == ["averaged", "step-00000006"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_cannot_be_written_has_its_conversion_elsewhere(translator, tmp_path):
    run = run_folder(tmp_path, "a")
    run.chmod(0o500)
    try:
        folder = load(ConversionCache(run, "a", "abc"), translator)
    finally:
        run.chmod(0o700)
    assert not folder.exists()


def test_where_there_is_no_room_for_it_the_conversion_is_elsewhere(translator, conversions, tmp_path):
    run = run_folder(tmp_path, "a")
    (run / "cache").write_text("a file")
    cache = ConversionCache(run, "a", "abc")
    folder = load(cache, translator)
    assert run not in folder.parents
    assert not folder.exists()
    cache.set("beam", Agreement(4, 4, 0.0))
    assert cache.get("beam") is None


def test_only_the_last_trials_are_kept(translator, tmp_path):
    cache = ConversionCache(tmp_path, "step", "print")
    load(cache, translator)
    for number in range(MOST_TRIALS + 2):
        cache.set(f"alpha {number}", Agreement(number, number, 0.0))
    assert [cache.get(f"alpha {number}") for number in (0, 1)] == [None, None]
    assert [cache.get(f"alpha {number}").rows for number in (2, MOST_TRIALS + 1)] == [2, MOST_TRIALS + 1]


def test_trials_are_kept_with_their_conversion(translator, tmp_path):
    run = run_folder(tmp_path, "a")
    cache = ConversionCache(run, "a", "abc")
    load(cache, translator)
    cache.set("beam", Agreement(4, 3, 0.5))
    cache.set("greedy", Agreement(4, 4, 0.0))
    again = ConversionCache(run, "a", "abc")
    assert (again.get("beam"), again.get("other")) == (Agreement(4, 3, 0.5), None)
    load(ConversionCache(run, "a", "abcd"), translator)
    assert ConversionCache(run, "a", "abcd").get("beam") is None
