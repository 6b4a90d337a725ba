"""Outputs of non-autoregressive models, of mask-predict, and for inputs other than text.

Legend: B rows of a batch, T target length, P positions, V vocabulary, C classes.
"""

import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.hparams.groups import DecodeHParams
from t2t.hparams.transformer_cmlm import TransformerCmlmHParams
from t2t.inference.attention import NoAttentionError
from t2t.inference.non_autoregressive import BatchAnswer, classes, tokens
from t2t.inference.search_steps import has_partial_outputs
from t2t.inference.translator import Translator
from t2t.layers.losses import BLOCK, score_logits, token_weights
from t2t.models.transformer import Transformer
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.problems.text_problems import Text2Text
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.words import TokenEncoder
from tests.builders import numpy, randomise, tiny_hparams
from tests.errors import refused
from tests.letters import TEXTS, Letters, Moods, letters, translator_of
from tests.reference import transformer as plain
from tests.reference import transformer_variants as reference
from tests.unit.models.references import reference_of

# === Answers of one pass ===

FOUR_WORDS = TokenEncoder("abcd")


class Table:
    """A non-autoregressive model: a row of logits for each id, or, for classes, for the first id."""

    autoregressive, variables, longest_sequence, hparams = False, (), None, None

    def __init__(self, problem, logits):
        self.spec, self.rows = problem.spec(), tf.constant(logits, tf.float32)

    def __call__(self, features):
        ids = features["inputs"]
        return tf.gather(self.rows, ids if self.spec.targets.kind == FeatureKind.TOKENS else ids[:, 0])

    def score_targets(self, features):
        scores = score_logits(self(features), features["targets"])
        return scores._replace(log_probs=scores.log_probs * token_weights(features["targets"]))


def logs(*probabilities):
    return np.log(np.array(probabilities, np.float32))


def table_of(problem_class, logits):
    problem = problem_class()
    problem.with_encoders(dict.fromkeys(problem.text_features, FOUR_WORDS))
    # These search settings must have no effect, since there is no search.
    hparams = DecodeHParams(beam_size=3, alpha=1.0, extra_length=7, max_input_length=20)
    return Translator(problem, Table(problem, logits), hparams)


# === Reading off ===
@pytest.mark.parametrize(
    ("logits", "limits", "ids", "probabilities"),
    [
        # Of {padding, end, a, b}: tokens end at the first end of sequence, and are never padding: the second row's
        # first id would be padding with 0.7, and is b with 0.2.
        (logs([[0.1, 0.1, 0.2, 0.6], [0.1, 0.8, 0.05, 0.05], [0.1, 0.1, 0.7, 0.1]],
              [[0.7, 0.04, 0.06, 0.2], [0.1, 0.2, 0.4, 0.3], [0.25, 0.1, 0.15, 0.5]]), None,
         [[3, 1], [3, 2, 3]], [0.6 * 0.8, 0.2 * 0.4 * 0.5]),
        # They go no further than a row does.
        (logs(*[[[0.1, 0.1, 0.2, 0.6]] * 3] * 2), np.array([1, 3], np.int32), [[3], [3, 3, 3]], [0.6, 0.6**3]),
    ],
    ids=["ends", "limits"],
)  # fmt: skip
def test_tokens_by_hand(logits, limits, ids, probabilities):
    found = tokens(logits, limits)
    np.testing.assert_array_equal(found.ids, [[[*row, *[0] * (3 - len(row))]] for row in ids])
    np.testing.assert_array_equal(found.lengths, [[len(row)] for row in ids])
    np.testing.assert_allclose(found.log_probs, np.log(probabilities)[:, None], rtol=1e-5)
    np.testing.assert_array_equal(found.scores, found.log_probs)


def test_classes_come_likeliest_first_and_ties_go_to_the_lower():
    found = classes(logs([0.2, 0.3, 0.5], [0.4, 0.2, 0.4]), 2)
    np.testing.assert_array_equal(found.ids, [[[2], [1]], [[0], [2]]])
    np.testing.assert_array_equal(found.lengths, [[1, 1], [1, 1]])
    np.testing.assert_allclose(found.log_probs, np.log([[0.5, 0.3], [0.4, 0.4]]), rtol=1e-5)


def test_a_model_of_other_inputs_than_ids_answers_at_all_its_positions():
    class Constant:
        variables = ()
        image = FeatureSpec(kind=FeatureKind.IMAGE, shape=(2, 2, 1))
        targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=4)
        spec = ProblemSpec(name="seen", features={"inputs": image, "targets": targets})

        def __call__(self, features):
            return tf.tile(logs([[0.1, 0.1, 0.2, 0.6]] * 2), (tf.shape(features["inputs"])[0], 1, 1))

    found = BatchAnswer(Constant())(np.zeros((3, 2, 2, 1), np.uint8))
    np.testing.assert_array_equal(found.ids, [[[3, 3]]] * 3)


# === Through a translator ===

SHIFTED = logs(  # padding, end of sequence, unknown word, a, b, c, d
    [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], [0.1, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1], [1 / 7] * 7,
    *(np.full(7, 0.1) + 0.3 * (np.arange(7) == 3 + (i + 1) % 4) for i in range(4)),
)  # fmt: skip


@pytest.fixture(scope="module")
def shift():
    return table_of(Letters, SHIFTED)


def test_texts_are_answered_position_by_position(shift):
    assert FOUR_WORDS.encode("a b c d") == [3, 4, 5, 6]
    found = shift.translate(["a b c", "d", "", "d c b a a"])
    assert [one.text for (one,) in found] == ["b c d", "a", "", "a d c b b"]
    assert [one.ids for (one,) in found] == [(4, 5, 6, 1), (3, 1), (), (3, 6, 5, 4, 4, 1)]
    for (one,), positions in zip(found, [4, 2, 0, 6], strict=True):
        assert one.log_prob == one.score == pytest.approx(positions * math.log(0.4), rel=1e-5)
    assert shift.translate(["a b c", "d", "", "d c b a a"], decode_batch_size=3) == found
    scores = shift.score([("a b c", "b c d"), ("a b c", "b c b")])
    assert scores == pytest.approx([4 * math.log(0.4), 3 * math.log(0.4) + math.log(0.1)], rel=1e-5)


@pytest.fixture(scope="module")
def mood():
    """The classes are good, bad and so so."""
    return table_of(Moods, logs(*[[1 / 3] * 3] * 3, [0.2, 0.1, 0.7], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [1 / 3] * 3))


def test_classes_are_named(mood):
    found = mood.translate(["a b", "b c c", "c"], 2)
    assert [[one.text for one in likeliest] for likeliest in found] == [
        ["so so", "good"], ["good", "bad"], ["bad", "good"],
    ]  # fmt: skip
    assert [one.ids for one in found[0]] == [(2,), (0,)]
    assert found[1][0].log_prob == pytest.approx(math.log(0.5), rel=1e-5)
    assert len(mood.translate(["a"], 3)[0]) == 3


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda shift, mood: shift.translate(["a"], 0), ["n_best=0", 1]),
        (lambda shift, mood: shift.translate(["a"], 2), ["n_best=2", 1]),
        (lambda shift, mood: mood.translate(["a"], 4), ["n_best=4", 1, 3]),
        (lambda shift, mood: mood.score([("a b", "good")]), ["moods", "n_best"]),
        (lambda shift, mood: mood.score_ids([[3]], [[2]]), ["moods", "n_best"]),
    ],
)
def test_there_is_one_answer_of_ids_and_classes_are_not_scored_as_texts_are(shift, mood, call, about):
    with refused(*about):
        call(shift, mood)


def test_where_there_are_no_inputs_there_is_nothing_to_answer():
    problem = Letters().with_encoders({"targets": FOUR_WORDS})
    problem.text_features = ("targets",)
    with refused("letters", "Table"):
        Translator(problem, Table(problem, SHIFTED), DecodeHParams())


# === Mask-predict is a slow loop over an independent model, whatever the batches ===

ONE_ITERATION = {"length_candidates": 5, "mask_predict_iterations": 1}


@pytest.fixture(scope="module")
def filler():
    hparams = TransformerCmlmHParams(**dict(tiny_hparams(num_hidden_layers=1).items()))
    return translator_of(letters(), TransformerCmlm, hparams)


def expected_of(filler, text, candidates, iterations, extra_length):
    model = reference_of(filler.model)
    (ids,) = filler.encode([text])
    memory, length_log_probs = model.read([*ids, EOS_ID])

    def log_probs_of(words):
        return [np.log(plain.softmax(row)) for row in model.fill([*words, EOS_ID], memory)]

    limit = len(ids) + 1 + extra_length
    return reference.best_of_lengths(length_log_probs, log_probs_of, candidates, iterations, limit)


@pytest.mark.parametrize(("candidates", "iterations", "extra_length"), [(5, 1, 5), (1, 4, 5), (5, 10, 5), (5, 10, 2)])
def test_outputs_are_those_of_the_slow_loop(filler, candidates, iterations, extra_length):
    changes = {
        "length_candidates": candidates, "mask_predict_iterations": iterations, "extra_length": extra_length,
    }  # fmt: skip
    found = filler.translate(TEXTS, candidates, **changes)
    for text, outputs in zip(TEXTS, found, strict=True):
        expected = expected_of(filler, text, candidates, iterations, extra_length)
        assert [one.ids for one in outputs] == [(*words, EOS_ID) for _, _, words in expected[: len(outputs)]]
        for column, values in enumerate(([one.score for one in outputs], [one.log_prob for one in outputs])):
            wanted = [each[column] for each in expected[: len(outputs)]]
            np.testing.assert_allclose(values, wanted, atol=(1e-4, 1e-3)[column])


def test_a_batch_is_its_sentences_one_by_one_however_many_blocks_it_has(filler):
    """The output layer runs on a block of positions at a time."""
    together = filler.translate(TEXTS * 15, 3, decode_batch_size=10**6)
    assert sum(len(one.ids) for outputs in together for one in outputs) * 5 / 3 > 2 * BLOCK
    for number, text in enumerate(TEXTS):
        (alone,) = filler.translate([text], 3)
        for outputs in together[number :: len(TEXTS)]:
            assert [one.ids for one in alone] == [one.ids for one in outputs]
            np.testing.assert_allclose([one.score for one in alone], [one.score for one in outputs], atol=1e-5)


def test_of_one_iteration_the_log_probability_is_that_of_scoring(filler):
    found = [best for (best,) in filler.translate(TEXTS[:4], **ONE_ITERATION)]
    scores = filler.score_ids(filler.encode(TEXTS[:4]), [one.ids[:-1] for one in found])
    np.testing.assert_allclose([one.log_prob for one in found], scores, atol=1e-4)


def test_searches_are_compiled_once_for_each_structure(filler):
    search = filler.model_engine.search
    settings, _ = filler.settings()
    assert search(settings, 5)._compiled is search(settings, 9)._compiled
    assert search(filler.settings(**ONE_ITERATION)[0], 5)._compiled is not search(settings, 5)._compiled


@pytest.mark.parametrize(
    ("changes", "about"),
    [
        *[
            ({name: value}, [f"{name}={value}", "decode_method=mask_predict"])
            for name, value in (
                ("beam_size", 8), ("alpha", 1.0), ("sampling_top_k", 3), ("coverage_penalty", 0.2),
                ("no_repeat_ngram_size", 2), ("replace_unknown", True), ("shortlist", True),
            )
        ],
        ({"decode_method": "greedy"}, ["decode_method=greedy"]),
        ({"n_best": 6}, ["n_best=6", 5]),
        ({"prefixes": ["a"]}, ["prefixes", "letters"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_mask_predict_cannot_do_is_refused_by_name(filler, changes, about):
    with refused(*about):
        filler.translate(["a b"], **changes)


def test_alignments_and_attention_are_refused(filler):
    with refused("alignments=True", "decode_method=mask_predict"):
        filler.align([("a", "b")])
    with refused("TransformerCmlm", by=NoAttentionError):
        filler.attend("a b", "b")
    assert not has_partial_outputs(filler), "nothing is certain before the last iteration"


def test_models_that_write_token_by_token_have_no_mask_predict(letters_translator):
    with refused("decode_method=mask_predict"):
        letters_translator.translate(["a"], decode_method="mask_predict")


def test_weights_that_are_not_finite_are_said(filler):
    token = filler.model.mask_token
    before = numpy(token)
    token.assign(np.full(8, np.nan, np.float32))
    try:
        with refused("NaN"):
            filler.translate(["a b"], **ONE_ITERATION)
    finally:
        token.assign(before)


# === Pictures, clips, sound, vectors ===

WORDS = TokenEncoder("abcdefgh")
SPECS = {
    "pictures": FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1)),
    "sound": FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=400),
    "vectors": FeatureSpec(kind=FeatureKind.REAL, shape=(2,)),
    "clips": FeatureSpec(kind=FeatureKind.VIDEO, shape=(3, 4, 1)),
}


class Anything(Text2Text):
    """Something to letters."""

    name = "anything"

    def generate_samples(self, split, source):
        raise NotImplementedError


def rows_of(kind):
    rng = np.random.default_rng(1)
    if kind == "pictures":
        return list(rng.integers(0, 256, (3, 3, 4, 1)).astype(np.uint8))
    if kind == "clips":
        return [rng.integers(0, 256, (length, 3, 4, 1)).astype(np.uint8) for length in (5, 2, 8)]
    shape = () if kind == "sound" else (2,)
    return [rng.normal(0, 0.3, (length, *shape)).astype(np.float32) for length in (130, 57, 260)]


@pytest.fixture(params=SPECS, scope="module")
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def seer(kind):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    spec = ProblemSpec(name="anything", features={"inputs": SPECS[kind], "targets": targets})
    model = randomise(Transformer(tiny_hparams(num_hidden_layers=1), spec), 5)
    table = numpy(model.target_embedding.table)
    table[EOS_ID] = 0.0  # so that end of sequence is rarely the most probable
    model.target_embedding.table.assign(table)
    problem = Anything().with_encoders({"targets": WORDS})
    return Translator(problem, model, DecodeHParams(beam_size=3, extra_length=4, alpha=0.0))


@pytest.mark.exhaustive
def test_each_gets_what_it_gets_alone_however_long_the_others_are(seer, kind):
    rows = rows_of(kind)
    concat_batches = seer.translate_ids(rows, n_best=2)
    alone = [seer.translate_ids([row], n_best=2)[0] for row in rows]
    assert [[h.ids for h in found] for found in concat_batches] == [[h.ids for h in found] for found in alone]
    assert len({round(found[0].log_prob, 3) for found in concat_batches}) > 1


def log_prob_by_hand(model, row, ids):
    """Returns the log-probability of an output in a forward pass by itself."""
    logits = numpy(model({"inputs": row[None], "targets": np.array([ids], np.int32)}))[0]
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return log_probs[np.arange(len(ids)), ids].sum()


@pytest.mark.exhaustive
def test_the_probability_of_an_output_is_that_of_the_whole_forward_pass(seer, kind):
    for row in rows_of(kind):
        (best,) = seer.translate_ids([row])[0]
        np.testing.assert_allclose(best.log_prob, log_prob_by_hand(seer.model, row, best.ids), rtol=1e-3)


def test_targets_longer_than_their_inputs_are_scored_as_alone(seer, kind):
    rows = rows_of(kind)
    targets = [[2] * 7, [3] * (max(map(len, rows)) + 2), [4]]
    for row, ids, score in zip(rows, targets, seer.score_ids(rows, targets), strict=True):
        assert score == pytest.approx(log_prob_by_hand(seer.model, row, [*ids, EOS_ID]), rel=1e-3)


@pytest.mark.exhaustive
def test_outputs_are_as_long_as_there_are_positions_and_a_few_more(seer, kind):
    positions = {"pictures": 12, "sound": -(-130 // 16), "vectors": 130, "clips": 3}[kind]
    (best,) = seer.translate_ids([rows_of(kind)[0]], beam_size=1)[0]
    assert len(best.ids) == positions + 4
    assert EOS_ID not in best.ids
