"""A translator with CTranslate2 gives the same outputs as with TensorFlow."""

import os
from pathlib import Path

import numpy as np
import pytest

from t2t.decoding.penalties import gnmt, power
from t2t.inference.ctranslate2.engine import _use_avx512
from t2t.specs.constants import EOS_ID, PAD_ID
from tests.builders import numpy
from tests.errors import refused
from tests.letters import TEXTS, fast_of, letters, translator_of


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
