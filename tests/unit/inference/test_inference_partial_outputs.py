"""Partial outputs during a search are prefixes of the output of `translate`."""

import numpy as np
import pytest

from t2t.inference.fallback import FallbackEngine
from t2t.inference.hypothesis import NOTHING
from t2t.inference.partial_outputs import has_partial_outputs, partial_outputs
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.problems.base import Finished
from t2t.text.byte import ByteEncoder
from tests.letters import TEXTS, Letters, letters, moods, sharing, translator_of

SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "two best": {"beam_size": 4, "n_best": 2},
    "sample": {"decode_method": "sample", "seed": 5},
    "three samples": {"decode_method": "sample", "seed": 6, "n_best": 3, "sampling_temperature": 2.0},
}


@pytest.fixture(scope="module")
def models(letters_translator, continuer):
    """A byte-level translator, whose random outputs are rarely valid UTF-8, and others."""
    bytewise = Letters().with_encoders(dict.fromkeys(("inputs", "targets"), ByteEncoder()))
    return {"letters": letters_translator, "bytes": translator_of(bytewise), "alone": continuer}


def searches(**quick):
    """Yields all searches of each model for the slow tests, and those named in `quick` for the default tests."""
    for model in ("letters", "bytes", "alone"):
        if model in quick:
            yield pytest.param(model, quick[model], id=model)
        yield pytest.param(model, tuple(SEARCHES), id=f"{model}, all", marks=pytest.mark.slow)


@pytest.mark.parametrize(("model", "names"), [*searches(bytes=("two best",), alone=("greedy", "three samples"))])
def test_texts_grow_into_those_of_a_search_in_one_go(models, model, names):
    translator = models[model]
    grown = {name: 0 for name in names}
    for name in names:
        search = SEARCHES[name]
        expected = translator.translate(TEXTS, **search)
        for place, (text, wanted) in enumerate(zip(TEXTS, expected, strict=True)):
            *partial, last = partial_outputs(translator, text, sentence_seed=place, **search)
            assert [(one.text, one.ids) for one in last.hypotheses] == [(one.text, one.ids) for one in wanted]
            np.testing.assert_allclose(
                [one.score for one in last.hypotheses], [one.score for one in wanted], rtol=1e-4, atol=1e-5
            )
            before = [""] * len(last.texts)
            for one in partial:
                assert one.hypotheses is None
                for old, new, whole in zip(before, one.texts, last.texts, strict=False):
                    assert new.startswith(old)
                    assert whole.startswith(new)
                grown[name] += one.texts != before[: len(one.texts)]
                before = one.texts
    assert all(grown.values()), "something is certain before the end"


def test_a_blank_text_has_an_empty_output_at_once(letters_translator):
    assert list(partial_outputs(letters_translator, " ", prefix=[5])) == [([""], [NOTHING])]


def test_every_step_can_be_the_last_that_is_wanted(letters_translator):
    """Every step yields, even without new text, so that the consumer can stop the search."""
    *partial, last = partial_outputs(letters_translator, "a b c")
    assert len(partial) >= len(last.hypotheses[0].ids)
    assert len({one.texts[0] for one in partial}) < len(partial)


def test_a_greedy_word_is_certain_as_soon_as_it_is_written(letters_translator):
    (best,) = letters_translator.translate(["a b c"], beam_size=1)[0]
    found = [one.texts[0] for one in partial_outputs(letters_translator, "a b c", beam_size=1)]
    words = best.text.split()
    assert found[: len(words)] == [" ".join(words[: count + 1]) for count in range(len(words))]


class Upper(Letters):
    def decode_target(self, ids):
        return super().decode_target(ids).upper()


class Whole(Letters):
    finishes = True

    def finish(self, source, output):
        return Finished(f"({output})")


def test_outputs_that_are_not_written_id_by_id_come_whole(letters_translator):
    assert has_partial_outputs(letters_translator)
    for problem in (Upper, Whole):
        assert not has_partial_outputs(sharing(letters_translator, problem().with_encoders(letters().encoders)))
    assert not has_partial_outputs(translator_of(moods(), TransformerEncoder))
    assert not has_partial_outputs(sharing(letters_translator, replace_unknown=True))
    translator = sharing(letters_translator)
    translator.engine = FallbackEngine(translator.model_engine, translator.model_engine)
    assert not has_partial_outputs(translator)
