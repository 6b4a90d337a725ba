"""Attention weights of a translator, and maps of what an answer rests on: rollout, occlusion.

Legend: L layers, H heads, T target length, S source length.
"""

import itertools

import numpy as np
import pytest

from t2t.inference.attention import (
    DECODER,
    ENCODER,
    ENCODER_DECODER,
    SMALL,
    SQUARES,
    START,
    AttentionMap,
    attention_maps,
    attention_rollout,
    occlusion_map,
)
from t2t.layers.mode import in_mode
from t2t.registry import MODELS
from tests.errors import refused
from tests.letters import WORDS, letters, translator_of
from tests.small_models import small_hparams


# === Pieces, shapes, and numbers from the same pass as scores ===
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
    record = {}
    with in_mode(record=record):
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
    record = {}
    with in_mode(record=record):
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


# === Attention rollout is the sum over all paths of its graph, which the paper computes by matrix products ===

L, H, T, S = 3, 2, 4, 5


def seen(layers, queries, keys, seed, causal=False):
    """Returns random attention weights."""
    weights_LHQK = np.random.default_rng(seed).uniform(0.1, 1.0, (layers, H, queries, keys))
    weights_LHQK = np.tril(weights_LHQK) if causal else weights_LHQK
    weights_LHQK /= weights_LHQK.sum(axis=-1, keepdims=True)
    names = tuple(map(str, range(max(queries, keys, layers))))
    return AttentionMap(names[:queries], names[:keys], names[:layers], weights_LHQK.astype(np.float32))


MAPS = {ENCODER: seen(L, S, S, 0), DECODER: seen(L, T, T, 1, causal=True), ENCODER_DECODER: seen(L, T, S, 2)}


def test_an_encoders_rollout_is_the_sum_over_all_paths():
    (rollout_LQK,) = attention_rollout({ENCODER: MAPS[ENCODER]})[ENCODER].transpose(1, 0, 2, 3)
    heads_LHSS = MAPS[ENCODER].weights.astype(np.float64)
    for layers in range(1, L + 1):
        for query, key in itertools.product(range(S), range(S)):
            total = 0.0
            for between in itertools.product(range(S), repeat=layers - 1):
                path = [query, *between, key]  # from the top layer down
                steps = zip(reversed(range(layers)), path[:-1], path[1:], strict=True)
                total += np.prod([(heads_LHSS[n, :, a, b].mean() + (a == b)) / 2 for n, a, b in steps])
            assert rollout_LQK[layers - 1, query, key] == pytest.approx(total)


def shares_from_above(layer, place):
    """Returns the shares in a position after a decoder layer, (T + S,): of T output pieces, then of S input pieces."""
    if layer < 0:
        return np.eye(T + S)[place]
    own, cross, encoder = (MAPS[kind].weights.astype(np.float64) for kind in (DECODER, ENCODER_DECODER, ENCODER))

    def of_encoder(below, position):
        if below < 0:
            return np.eye(T + S)[T + position]
        looked = sum(encoder[below, :, position, k].mean() * of_encoder(below - 1, k) for k in range(S))
        return 0.5 * of_encoder(below - 1, position) + 0.5 * looked

    looked = sum(own[layer, :, place, k].mean() * shares_from_above(layer - 1, k) for k in range(T))
    after_own = 0.5 * shares_from_above(layer - 1, place) + 0.5 * looked
    read = sum(cross[layer, :, place, k].mean() * of_encoder(L - 1, k) for k in range(S))
    return 0.5 * after_own + 0.5 * read


def test_a_decoders_rollout_tells_what_was_written_from_what_was_read():
    found = attention_rollout(MAPS)
    assert list(found) == [ENCODER, DECODER, ENCODER_DECODER]
    for place in range(T):
        expected = shares_from_above(L - 1, place)
        np.testing.assert_allclose(found[DECODER][-1, 0, place], expected[:T])
        np.testing.assert_allclose(found[ENCODER_DECODER][-1, 0, place], expected[T:])
    both_LT = found[DECODER].sum(axis=(1, 3)) + found[ENCODER_DECODER].sum(axis=(1, 3))
    np.testing.assert_allclose(both_LT, 1.0)


def test_a_language_model_has_a_rollout_of_its_own():
    rollout = attention_rollout({DECODER: MAPS[DECODER]})[DECODER]
    assert rollout.shape == (L, 1, T, T)
    np.testing.assert_allclose(rollout, np.tril(rollout))
    np.testing.assert_allclose(rollout.sum(axis=-1), 1.0)


@pytest.mark.parametrize(
    ("maps", "kinds"),
    [
        ({ENCODER: seen(L, S, S - 1, 0)}, []),
        ({**MAPS, DECODER: seen(L - 1, T, T, 1)}, [ENCODER]),
        ({ENCODER: MAPS[ENCODER], ENCODER_DECODER: MAPS[ENCODER_DECODER]}, [ENCODER]),
        ({DECODER: MAPS[DECODER], ENCODER_DECODER: MAPS[ENCODER_DECODER]}, []),
        ({**MAPS, ENCODER_DECODER: seen(L, T, S + 1, 2)}, [ENCODER]),
    ],
)
def test_layers_that_do_not_follow_position_by_position_have_none(maps, kinds):
    assert list(attention_rollout(maps)) == kinds


# === Occlusion maps, compared with explicit sums for a known score ===
@pytest.mark.parametrize("shape", [(28, 28, 1), (16, 24, 3), (10, 7, 1), (1, 1, 1), (80, 70, 3)])
def test_the_map_is_the_mean_fall_over_the_squares_that_cover_a_cell(shape):
    """A score linear in the pixels falls by the weighted difference of the covered pixels from the mean colour."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, shape, dtype=np.uint8)
    weights = rng.normal(size=shape)
    drops, cell = occlusion_map(image, lambda images: [float((weights * one).sum()) for one in images])
    height, width = shape[:2]
    assert drops.shape == (-(-height // cell), -(-width // cell))
    squares = cell * (max(1, -(-max(shape[:2]) // SQUARES) // cell) if max(shape[:2]) <= SMALL else 1)
    falls = weights * (image.astype(float) - image.mean(axis=(0, 1)).round())
    sums, counts = np.zeros(drops.shape), np.zeros(drops.shape)
    rows, columns = drops.shape
    for top in range(0, max(1, (rows - squares // cell + 1)) * cell, cell):
        for left in range(0, max(1, (columns - squares // cell + 1)) * cell, cell):
            fall = falls[top : top + squares, left : left + squares].sum()
            for row in range(top // cell, min(rows, (top + squares) // cell)):
                for column in range(left // cell, min(columns, (left + squares) // cell)):
                    sums[row, column] += fall
                    counts[row, column] += 1
    np.testing.assert_allclose(drops, sums / counts, atol=1e-6)


def test_what_the_answer_rests_on_stands_out_and_what_speaks_against_it_is_negative():
    image = np.full((32, 32, 1), 100, np.uint8)
    image[8:12, 20:24] = 255
    image[24:28, 4:8] = 0

    def score(images):
        return [float(one[8:12, 20:24].sum() - one[24:28, 4:8].astype(float).sum() * -1) for one in images]

    drops, cell = occlusion_map(image, score)
    row, column = np.unravel_index(drops.argmax(), drops.shape)
    assert (row * cell, column * cell) in {(8, 20), (8, 22), (10, 20), (10, 22)}
    row, column = np.unravel_index(drops.argmin(), drops.shape)
    assert (row * cell, column * cell) in {(24, 4), (24, 6), (26, 4), (26, 6)}
    assert drops[0, 0] == 0


def test_the_picture_itself_is_left_as_it_is():
    image = np.arange(64, dtype=np.uint8).reshape(8, 8, 1)
    before = image.copy()
    seen = []
    occlusion_map(image, lambda images: seen.extend(images) or [0.0] * len(images))
    assert np.array_equal(image, before)
    assert np.array_equal(seen[0], before)
    assert sum((one != before).any() for one in seen[1:]) == 63  # one pixel is as grey as what covers it
