"""CTranslate2 gives the outputs of TensorFlow; its conversions; TensorFlow handles what it cannot."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from t2t.files.atomic import exclusive_lock, lock_beside
from t2t.inference.ctranslate2.cache import (
    FOLDER,
    MOST_TRIALS,
    UNUSED_S,
    Agreement,
    Answers,
    ConversionCache,
    ConvertedModel,
    Questions,
    Reference,
)
from t2t.inference.ctranslate2.conversion import TokenLists, write_model, write_weights
from t2t.inference.ctranslate2.engine import CTranslate2Engine, _use_avx512
from t2t.inference.fallback import FallbackEngine
from t2t.inference.translator import Translator
from t2t.search.result import gnmt, power
from t2t.specs import EOS_ID, PAD_ID
from tests.builders import numpy, tiny_transformer, weights_of
from tests.errors import refused
from tests.letters import TEXTS, fast_of, letters, sharing, translator_of


# === The engine ===
@pytest.fixture(scope="module")
def ours(letters_translator):
    return letters_translator


@pytest.fixture(scope="module")
def fast(letters_fast):
    return letters_fast


@pytest.fixture(scope="module")
def ending():
    """A translator with some outputs that end before their limits."""
    translator = translator_of(letters())
    table = numpy(translator.model.target_embedding.table)
    table[EOS_ID] = table[5]  # the piece that it writes most often
    translator.model.target_embedding.table.assign(table)
    return translator


@pytest.fixture(scope="module")
def fast_ending(ending, tmp_path_factory):
    return fast_of(ending, tmp_path_factory.mktemp("ending"))


def written(found):
    return [[hypothesis.ids for hypothesis in each] for each in found]


def check_same(expected, found):
    """Checks that the best outputs are equal and have the same log-probabilities and scores."""
    assert written(expected) == written(found)
    for (ours,), (fast,) in zip(expected, found, strict=True):
        np.testing.assert_allclose((fast.log_prob, fast.score), (ours.log_prob, ours.score), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_greedy_outputs_and_their_figures_are_the_same(ours, fast, alpha):
    """Every line of the batch is decoded up to its separate limit."""
    expected, found = (each.translate(TEXTS, decode_method="greedy", alpha=alpha) for each in (ours, fast))
    limits = [len(ids) + 1 + 5 for ids in ours.encode(TEXTS)]
    assert [len(one.ids) for (one,) in expected] == limits, "every output is as long as it may be"
    check_same(expected, found)


@pytest.mark.parametrize("decoding", [{"decode_method": "greedy"}, {"beam_size": 3}])
def test_outputs_do_not_depend_on_whether_their_scores_are_read(fast, decoding):
    ids = fast.encode(TEXTS)
    assert written(fast.translate_ids(ids, scored=False, **decoding)) == written(fast.translate_ids(ids, **decoding))


def test_avx512_is_used_where_the_processor_has_it_unless_the_environment_says_otherwise(monkeypatch):
    flags = set(Path("/proc/cpuinfo").read_text().split())
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", "AVX2")
    _use_avx512()
    assert os.environ["CT2_FORCE_CPU_ISA"] == "AVX2"
    monkeypatch.delenv("CT2_FORCE_CPU_ISA")
    _use_avx512()
    assert os.environ.pop("CT2_FORCE_CPU_ISA", None) == ("AVX512" if "avx512vl" in flags else None)


def test_padding_is_never_written_and_counts_in_the_probabilities(tmp_path):
    translator = translator_of(
        letters(), decoding={"decode_method": "greedy"}, shared_embedding_and_softmax_weights=False,
        num_hidden_layers=1,
    )  # fmt: skip
    table = numpy(translator.model.top.kernel())
    table[PAD_ID] = table[3:].sum(axis=0)
    translator.model.top.kernel().assign(table)
    hidden = translator.translate(TEXTS)
    check_same(hidden, fast_of(translator, tmp_path).translate(TEXTS))


@pytest.mark.parametrize(("name", "penalty"), [("gnmt", gnmt), ("power", power)])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_each_hypothesis_of_a_beam_has_the_probability_that_the_model_gives_it(
    ending, fast_ending, name, penalty, alpha
):
    """The same as TensorFlow's score of the given output; hypotheses are ranked by the requested penalty."""
    decoding = {"beam_size": 4, "length_penalty": name, "alpha": alpha, "extra_length": 2}
    found = fast_ending.translate(TEXTS, n_best=4, **decoding)
    ended = []
    for source, hypotheses in zip(ending.encode(TEXTS), found, strict=True):
        assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses) >= 2
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            length = len(hypothesis.ids)
            assert length <= len(source) + 1 + 2
            assert hypothesis.score == pytest.approx(hypothesis.log_prob / penalty(alpha)(length), rel=1e-5)
            ended += [(source, hypothesis)] * (hypothesis.ids[-1] == EOS_ID)
    assert ended
    given = ending.score_ids([source for source, _ in ended], [one.ids[:-1] for _, one in ended])
    assert [one.log_prob for _, one in ended] == pytest.approx(given, rel=1e-4, abs=1e-4)


def test_the_best_of_a_wide_beam_is_that_of_ours(ours, fast):
    """Both beams have room for every continuation here."""
    wide = {"beam_size": 11, "extra_length": 1, "alpha": 0.6}
    expected, found = (each.translate(["a", "b c"], **wide) for each in (ours, fast))
    check_same(expected, found)


def test_given_outputs_have_the_same_probabilities(ours, fast):
    pairs = [("a b c", "a"), ("d", "h g f e d c"), ("e f", ""), ("a", "never seen")]
    np.testing.assert_allclose(fast.score(pairs), ours.score(pairs), rtol=1e-4)


def test_tokens_of_outputs_have_the_same_log_probabilities(ending, fast_ending):
    asked = {"n_best": 8, "beam_size": 8, "extra_length": 1, "token_scores": True}
    same = {one.ids: one.tokens for one in ending.translate(["b c"], **asked)[0]}
    found = [one for one in fast_ending.translate(["b c"], **asked)[0] if one.ids in same]
    assert {one.ids[-1] == EOS_ID for one in found} == {True, False}  # some are cut before their end
    for one in found:
        assert [piece for piece, _ in one.tokens] == [piece for piece, _ in same[one.ids]]
        values, expected = ([value for _, value in tokens] for tokens in (one.tokens, same[one.ids]))
        np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-4)


def test_many_lines_come_back_in_their_order(ours, fast):
    rng = np.random.default_rng(3)
    lines = [" ".join(rng.choice(list("abcdefgh"), rng.integers(1, 9))) for _ in range(150)]
    seen = []
    found = fast.translate_ids(fast.encode(lines), on_done=seen.append, decode_method="greedy")
    assert sum(seen) == len(lines)
    check_same(ours.translate(lines, decode_method="greedy"), found)


@pytest.fixture(scope="module")
def wide():
    """A translator, and its scores of two pairs."""
    translator, pairs = translator_of(letters(), hidden_size=64, filter_size=64), [("a b c", "a b"), ("d", "h g f e d")]
    return translator, pairs, translator.score(pairs)


@pytest.mark.parametrize("compute_type", ["int8", "int16", "bfloat16"])
def test_rounded_arithmetic_gives_about_the_same_probabilities(wide, compute_type, tmp_path):
    import ctranslate2

    translator, pairs, expected = wide
    if compute_type not in ctranslate2.get_supported_compute_types("cpu"):
        with refused(f"--compute_type={compute_type}", "float32"):
            fast_of(translator, tmp_path, compute_type)
        return
    found = fast_of(translator, tmp_path, compute_type).score(pairs)
    assert found != expected
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_weights_that_are_not_finite_are_not_converted(tmp_path):
    """Outputs without scores would not reveal it."""
    translator = translator_of(letters(), num_hidden_layers=1)
    table = numpy(translator.model.target_embedding.table)
    table[5, 0] = np.nan
    translator.model.target_embedding.table.assign(table)
    with refused("NaN"):
        fast_of(translator, tmp_path)


@pytest.mark.parametrize("variant", [
    {},
    {"shared_embedding_and_softmax_weights": False},
    {"positions": "learned"},
    {"positions": "relative", "norm_type": "rms"},
    {"positions": "rotary", "gated_feed_forward": True, "activation": "silu", "norm_position": "pre"},
], ids=str)  # fmt: skip
def test_the_weights_of_a_checkpoint_alone_make_the_same_conversion(variant, tmp_path):
    model, tokens = tiny_transformer(letters().spec(), **variant), TokenLists.of_encoders(letters().encoders)
    for name, write in (("model", write_model), ("weights", write_weights)):
        (tmp_path / name).mkdir()
        given = (model,) if name == "model" else (model.hparams, weights_of(model))
        write(tmp_path / name, *given, tokens, 20)
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("model", "weights")]
    assert files[0] == files[1]


# === Conversions are made once, stored with the run, verified, and removed when they are outdated ===

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


@pytest.fixture(autouse=True)
def of_user(tmp_path, monkeypatch):
    """The folder of the user's cache."""
    monkeypatch.setenv("T2T_CACHE", str(tmp_path / "user"))
    return tmp_path / "user"


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
        made = cache(checkpoint=checkpoint, fingerprint=fingerprint)
        made.keep_reference(REFERENCE)
        load(made)
        made.set("beam", Agreement(4, 4, 0, 0.0))
    (run / "checkpoints/a").rmdir()
    load(cache(checkpoint="averaged", fingerprint="new"))
    names = [path.name.rpartition("-")[0] for path in (run / FOLDER / "words").iterdir() if path.name[0] != "."]
    assert sorted(names) == ["averaged", *["step-00000006"] * 3]


def test_problems_of_one_run_have_conversions_of_their_own(load, cache, run, conversions):
    for problem in ("words", "others") * 2:
        load(cache(problem, fingerprint=problem))
    assert len(conversions) == 2
    load(cache(fingerprint="trained on"))
    assert [len(list((run / FOLDER / problem).glob("a-*"))) for problem in ("words", "others")] == [1, 1]


REFERENCE = Reference(12, Questions([[3, 1]], [[4, 1]], [[5, 1]]), [[-0.5, -0.1]], {"beam": Answers([[6]], [-1], [-2])})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_may_not_be_written_has_its_conversion_in_the_users_cache(load, cache, run, of_user):
    run.chmod(0o500)
    try:
        assert of_user in load(cache()).parents
    finally:
        run.chmod(0o700)


def test_what_a_run_cannot_hold_is_in_the_users_cache_wherever_the_run_is(load, cache, run, of_user, conversions):
    (run / "cache").write_text("a file")
    first = cache()
    folder = load(first)
    assert folder.parent == of_user / "ctranslate2/words"
    first.set("beam", Agreement(4, 4, 0, 0.0))
    first.keep_reference(REFERENCE)
    moved = ConversionCache(run.rename(run.with_name("moved")), "words", "a", "abc")
    assert load(moved) == folder
    assert (moved.get("beam"), moved.reference, len(conversions)) == (Agreement(4, 4, 0, 0.0), REFERENCE, 1)
    assert load(cache(fingerprint="changed")) != folder


def test_what_the_users_cache_has_not_used_for_long_is_removed(load, cache, run, of_user):
    (run / "cache").write_text("a file")
    folders = [load(cache(fingerprint=name)) for name in ("old", "recent", "used")]
    for folder in folders:
        os.utime(folder, times=(0, folder.stat().st_mtime - UNUSED_S * (folder != folders[1])))
    load(cache(fingerprint="used"))
    load(cache(fingerprint="new"))
    assert [folder.exists() for folder in folders] == [False, True, True]


def test_while_another_process_makes_it_the_conversion_is_temporary(load, cache, run, of_user, conversions):
    folder = load(cache())
    shutil.rmtree(folder)
    with exclusive_lock(lock_beside(folder)):
        other = load(cache())
        assert not other.exists()
    assert load(cache()) == folder
    assert (len(conversions), of_user.exists()) == (3, False)


def test_where_nothing_can_be_written_the_conversion_is_temporary(load, cache, run, of_user):
    (run / "cache").write_text("a file")
    of_user.write_text("a file")
    full = cache()
    assert not load(full).exists()
    full.set("beam", Agreement(4, 4, 0, 0.0))
    full.keep_reference(REFERENCE)
    assert (full.get("beam"), full.reference) == (None, None)


def test_the_last_trials_are_kept_with_their_conversion(load, cache):
    first = cache()
    load(first)
    for number in range(MOST_TRIALS + 2):
        first.set(f"alpha {number}", Agreement(number, number, 0, 0.0))
    first.set("beam", Agreement(4, 3, 1, 0.5))
    for one in (first, cache()):
        assert [one.get(name) for name in ("alpha 0", "alpha 1", "other")] == [None] * 3
        assert [one.get(f"alpha {number}").rows for number in (3, MOST_TRIALS + 1)] == [3, MOST_TRIALS + 1]
        assert one.get("beam") == Agreement(4, 3, 1, 0.5)
    load(cache(fingerprint="abcd"))
    assert cache(fingerprint="abcd").get("beam") is None


@pytest.mark.parametrize("damage", [None, b"{}", b"no JSON"])
def test_the_answers_of_the_model_tell_what_is_known_of_it_without_a_conversion(damage, cache, run):
    first = cache()
    assert first.known is None
    first.keep_reference(REFERENCE)
    if damage:
        (path,) = (run / FOLDER / "words").glob("a-*.reference.json")
        path.write_bytes(damage)
    assert cache().known == (None if damage else ConvertedModel(0, 12))
    assert cache(fingerprint="abcd").reference is None


def test_it_is_made_again_for_more_positions_alone(load, cache, conversions):
    for positions in (LONGEST, 2 * LONGEST, LONGEST):
        load(cache(), positions)
        load(cache(), positions)
    assert len(conversions) == 2
    assert cache().kept.positions == 2 * LONGEST


# === A fast engine handles the requests that it supports, and TensorFlow all others ===
@pytest.fixture(scope="module")
def greedy(letters_translator):
    return sharing(letters_translator, decode_method="greedy")


@pytest.fixture(scope="module")
def greedy_fast(letters_fast):
    return sharing(letters_fast, decode_method="greedy")


def with_fallback(greedy, greedy_fast):
    engine = FallbackEngine(greedy_fast.engine, lambda: greedy.model_engine)
    return Translator(greedy.problem, greedy.model, greedy.hparams, engine=engine)


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"decode_method": "sample", "seed": 3}, []),
        ({"decode_method": "beam", "coverage_penalty": 0.2}, []),
        ({"extra_length": 100}, ["extra_length=100", "40"]),
    ],
)
def test_what_it_cannot_do_as_asked_tensorflow_does_and_says_so_once(changes, about, greedy, greedy_fast, caplog):
    asked = with_fallback(greedy, greedy_fast)
    for _ in range(2):
        assert asked.translate(TEXTS, **changes) == greedy.translate(TEXTS, **changes)
    (line,) = caplog.messages
    assert all(word in line for word in ("CTranslate2", "TensorFlow", *about))


@pytest.mark.parametrize(("method", "full"), [("greedy", False), ("sample", True)])
def test_what_it_cannot_do_is_warmed_up_in_tensorflow(greedy, greedy_fast, method, full):
    asked_full = []
    engine = FallbackEngine(greedy_fast.engine, lambda: asked_full.append(True) or greedy.model_engine)
    hparams = sharing(greedy, decode_method=method).hparams
    Translator(greedy.problem, greedy.model, hparams, engine=engine).warm_up([[3, 4]])
    assert asked_full == [True] * full


def test_pairs_longer_than_its_positions_are_scored_by_tensorflow(greedy, greedy_fast, caplog):
    pairs = [("a b", "a " * 50)]
    assert with_fallback(greedy, greedy_fast).score(pairs) == greedy.score(pairs)
    (line,) = caplog.messages
    assert all(word in line for word in ("51", "40", "TensorFlow"))


def test_resuming_a_file_is_of_one_engine(greedy, greedy_fast, tmp_path):
    rounded = fast_of(greedy, tmp_path, "int8")
    assert len({one.fingerprint() for one in (greedy, greedy_fast, rounded, with_fallback(greedy, greedy_fast))}) == 3
