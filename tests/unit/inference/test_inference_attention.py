"""Attention weights of a translator: pieces, shapes, and numbers from the same pass as scores."""

import numpy as np
import pytest

from t2t.inference.attention import DECODER, ENCODER, ENCODER_DECODER, START, attention_maps
from t2t.layers.attention_record import recorded_attention
from t2t.registry import MODELS
from tests.errors import refused
from tests.letters import WORDS, letters, translator_of
from tests.small_models import small_hparams


@pytest.fixture(scope="module")
def translator(ending_translator):
    return ending_translator


def model_of(name):
    model_class = MODELS.get(name)
    return translator_of(letters(), model_class, small_hparams(model_class, {}))


def test_pieces_of_both_sides_name_queries_and_keys(translator):
    found = translator.attend("a b c", "d e")
    assert (found.source, found.target) == ("a b c", "d e")
    source, target = ("a", "b", "c", "</s>"), ("d", "e", "</s>")
    sides = {kind: (seen.queries, seen.keys) for kind, seen in found.maps.items()}
    assert sides == {ENCODER: (source, source), DECODER: (target, (START, "d", "e")), ENCODER_DECODER: (target, source)}
    for seen in found.maps.values():
        assert seen.weights.shape == (1, 2, len(seen.queries), len(seen.keys))
        np.testing.assert_allclose(seen.weights.sum(axis=-1), 1.0, rtol=1e-6)
    assert found.maps[ENCODER].layers == ("transformer/encoder/layer_0/self_attention",)
    upper = np.triu(np.ones((3, 3), bool), 1)
    assert not found.maps[DECODER].weights[..., upper].any()


def test_the_weights_are_those_of_the_pass_that_gives_the_logits(translator):
    found = translator.attend("a b c", "d e")
    features = {"inputs": np.array([[*WORDS.encode("a b c"), 1]]), "targets": np.array([[*WORDS.encode("d e"), 1]])}
    with recorded_attention() as record:
        translator.model(features)
    for seen in found.maps.values():
        np.testing.assert_array_equal(seen.weights[0], np.asarray(record[seen.layers[0]][0])[0])


@pytest.mark.parametrize(("ids", "wrong"), [([99, 1], 99), ([3, 11], 11), ([-1, 1], -1), ([1, 1], 1)], ids=str)
def test_ids_that_no_output_has_are_refused(translator, ids, wrong):
    with refused(wrong, 2, 10):
        translator.attend("a b", ids)


def test_without_a_target_it_is_the_models_best(translator):
    (best,) = translator.translate(["c b"], beam_size=3)[0]
    found = translator.attend("c b", beam_size=3)
    assert found.target == best.text
    assert found.maps[DECODER].queries == tuple(map(WORDS.piece, best.ids))


def test_long_sequences_are_whole_matrices_where_somebody_looks(translator):
    """Else attention of more than 2,048 positions is computed block by block, and not kept."""
    source = np.resize(np.arange(3, 10), 2050)
    (weights,) = attention_maps(translator.model, source.tolist(), [3, 1], {})[ENCODER].weights
    assert weights.shape == (2, 2050, 2050)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-4)


def test_a_language_model_looks_back_alone(continuer):
    found = continuer.attend("", "a b")
    assert set(found.maps) == {DECODER}
    assert found.maps[DECODER].keys == (START, "a", "b")


def test_nothing_is_recorded_where_nobody_looks(translator):
    with recorded_attention() as record:
        pass
    translator.model({"inputs": np.array([[3, 1]]), "targets": np.array([[3, 1]])})
    assert record == {}


def test_a_model_without_attention_is_refused():
    with refused("lstmseq2seq"):
        model_of("lstm_seq2seq").attend("a", "b")


def test_a_target_that_is_too_long_is_refused(translator):
    with refused(1, 1201):
        translator.attend("a", "b " * 1200)


def test_layers_with_fewer_heads_have_their_mean_in_place_of_the_others():
    """The first self-attention of an Evolved Transformer's decoder has twice as many heads as the others."""
    weights = model_of("evolved_transformer").attend("a b c", "b").maps[DECODER].weights
    assert weights.shape[:2] == (2, 4)
    np.testing.assert_allclose(weights[1, 2], weights[1, :2].mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(weights[1, 3], weights[1, 2])
