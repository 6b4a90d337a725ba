"""Translating, scoring and streaming with a small Transformer of random weights.

Legend: S source length, T target length, V vocabulary.
"""

import re

import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import ArgumentError, MachineError, UnknownNameError, UserError
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.files.scoring import score_file
from t2t.inference.files.windows import FileJob
from t2t.inference.rows import cut_rows, max_sequence_ids
from t2t.inference.tensorflow.batch_search import TensorFlowBatchSearch
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from t2t.text.language_codes import LanguageMarks
from t2t.text.token import TokenEncoder
from tests.letters import WORDS, Letters, LettersAlone

TEXTS = ["a b c", "d", "", "h g f e d c b a", "a b c d", "e e e"]


def build(problem_class, seed=7, words=WORDS, positions="sinusoidal", **decoding):
    problem = problem_class()
    problem.with_encoders(dict.fromkeys(problem.text_features, words))
    hparams = TransformerHParams(
        hidden_size=8, filter_size=12, num_heads=2, num_hidden_layers=1, max_length=12, positions=positions,
        layer_prepostprocess_dropout=0.0,
    )  # fmt: skip
    model = Transformer(hparams, problem.spec())
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        if len(variable.shape) > 1:  # large enough that no two outputs have equal scores
            variable.assign(rng.normal(0.0, 0.9, variable.shape))
    return Translator(problem, model, DecodeHParams(**{"extra_length": 5, "beam_size": 3, **decoding}))


@pytest.fixture(scope="module")
def translator():
    return build(Letters)


@pytest.fixture(scope="module")
def continuer():
    return build(LettersAlone)


def log_probs_by_hand(translator, target_ids, source_ids=None):
    """Returns ln p of each target id given those before it: one forward pass, softmax in numpy."""
    features = {TARGETS: np.array([target_ids], np.int32)}
    if source_ids is not None:
        features[INPUTS] = np.array([source_ids], np.int32)
    logits_TV = np.asarray(translator.model(features))[0].astype(np.float64)
    log_probs_TV = logits_TV - np.log(np.exp(logits_TV).sum(axis=-1, keepdims=True))
    return log_probs_TV[np.arange(len(target_ids)), target_ids]


def as_ids(found):
    return [[hypothesis.ids for hypothesis in one] for one in found]


def all_scores(found):
    return [hypothesis.score for one in found for hypothesis in one]


# === Translating ===


@pytest.mark.parametrize(("n_best", "changes"), [(3, {}), (1, {"decode_method": "greedy"})])
def test_a_batch_of_n_is_n_batches_of_one(translator, n_best, changes):
    concat_batches = translator.translate(TEXTS, n_best, **changes)
    alone = [translator.translate([text], n_best, **changes)[0] for text in TEXTS]
    in_small_batches = translator.translate(TEXTS, n_best, decode_batch_size=9, **changes)
    assert as_ids(concat_batches) == as_ids(alone) == as_ids(in_small_batches)
    assert all_scores(concat_batches) == pytest.approx(all_scores(alone), abs=1e-4)
    assert len(set(map(tuple, as_ids(concat_batches)))) > 3, "the texts have different outputs, or this shows nothing"


def test_the_n_best_come_best_first_and_begin_with_the_best(translator):
    three = translator.translate(TEXTS, 3)
    one = translator.translate(TEXTS)
    assert len(one) == len(three) == len(TEXTS)
    for best, listed in zip(one, three, strict=True):
        assert [len(best), len(listed)] == [1, 3]
        assert listed[0].ids == best[0].ids
        assert listed[0].score > listed[1].score > listed[2].score
        assert len({hypothesis.ids for hypothesis in listed}) == 3


def test_a_hypothesis_says_what_the_model_says_of_it(translator):
    for text, found in zip(TEXTS, translator.translate(TEXTS, 3), strict=True):
        for hypothesis in found:
            by_hand = log_probs_by_hand(translator, list(hypothesis.ids), [*WORDS.encode(text), EOS_ID]).sum()
            assert hypothesis.log_prob == pytest.approx(by_hand, abs=1e-4)
            assert hypothesis.score == pytest.approx(by_hand / ((5 + len(hypothesis.ids)) / 6) ** 0.6, abs=1e-4)
            assert hypothesis.text == WORDS.decode(hypothesis.ids)


def test_greedy_takes_the_likeliest_id_each_time_and_is_the_beam_of_one(translator):
    greedy = translator.translate(TEXTS, decode_method="greedy")
    assert as_ids(translator.translate(TEXTS, beam_size=1)) == as_ids(greedy)
    for text, (found,) in zip(TEXTS, greedy, strict=True):
        features = {
            INPUTS: np.array([[*WORDS.encode(text), EOS_ID]], np.int32),
            TARGETS: np.array([found.ids], np.int32),
        }
        logits_TV = np.asarray(translator.model(features))[0]
        assert tuple((logits_TV[:, 1:].argmax(axis=-1) + 1).tolist()) == found.ids  # padding is never written


def test_an_output_is_at_most_as_long_as_asked(translator):
    for text, found in zip(TEXTS, translator.translate(TEXTS, 3, extra_length=1, alpha=9.0), strict=True):
        limit = len(WORDS.encode(text)) + 1 + 1
        assert all(len(hypothesis.ids) <= limit for hypothesis in found)
        assert any(len(hypothesis.ids) == limit for hypothesis in found)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"positions": "learned"}, "the model has positions for"),
        ({"max_input_length": 12}, "max_input_length allows"),
        ({"positions": "learned", "max_input_length": 13}, "the model has positions for"),
    ],
)
def test_too_long_an_input_is_cut_and_said_to_be(limit, said, caplog):
    translator = build(Letters, **limit)
    assert translator.longest_input == 11
    letters = list("abcdefghabcdefgh")
    long, fitting = translator.translate([" ".join(letters), " ".join(letters[:11])])
    assert [h.ids for h in long] == [h.ids for h in fitting]
    assert f"1 of 2 inputs were cut to the 12 ids that {said}, end of sequence included" in caplog.text
    (cut,) = cut_rows(translator.model, [list(range(2, 18))], translator.hparams)
    assert cut == [*range(2, 13), EOS_ID]


def test_sinusoids_take_inputs_longer_than_any_of_training(translator, caplog):
    assert translator.longest_input == 1023
    long, shorter = translator.encode([" ".join("abcdefgh" * 5), " ".join("abcdefgh" * 4)])
    with_end = {INPUTS: np.array([[*long, EOS_ID]], np.int32), TARGETS: np.array([[2, 3, EOS_ID]], np.int32)}
    cut = with_end | {INPUTS: np.array([[*shorter, EOS_ID]], np.int32)}
    assert not np.allclose(np.asarray(translator.model(with_end)), np.asarray(translator.model(cut)), atol=1e-3)
    assert translator.translate_ids([long])[0][0].ids
    assert "cut" not in caplog.text


def test_what_was_trained_on_is_taken_whole_however_long(translator):
    model = Transformer(translator.model.hparams.__class__(max_length=3000, hidden_size=8), translator.model.spec)
    assert max_sequence_ids(model, DecodeHParams()) == 3000
    assert max_sequence_ids(model, DecodeHParams(max_input_length=12)) == 12
    assert max_sequence_ids(translator.model, DecodeHParams(max_input_length=4000)) == 4000


def test_learned_positions_end_outputs_where_their_table_ends():
    found = build(Letters, positions="learned").translate(["a b c d e f g h"], 3, extra_length=9, alpha=9.0)
    assert max(len(hypothesis.ids) for hypothesis in found[0]) == 12


def test_long_outputs_make_batches_smaller(translator, monkeypatch):
    """decode_batch_size 48 with 3 beams: 16 ids per batch; an input of 2 ids with 62 more to write counts as 8."""
    batches = []
    ids = [WORDS.encode("a")] * 8
    for extra, rows in ((5, [8]), (62, [2, 2, 2, 2])):
        batches.clear()
        translator.translate_ids(ids, on_done=batches.append, decode_batch_size=48, extra_length=extra)
        assert batches == rows


@pytest.mark.parametrize("error", [tf.errors.ResourceExhaustedError(None, None, "OOM"), MemoryError()])
def test_running_out_of_memory_says_of_what_and_what_to_do(error, monkeypatch):
    def full(*_):
        raise error

    translator = build(Letters)
    monkeypatch.setattr(TensorFlowBatchSearch, "advance", full)
    monkeypatch.setattr(translator.model_engine._scorer, "_log_probs", full)
    with pytest.raises(MachineError) as raised:
        translator.translate(["a b c", "d"])
    assert str(raised.value) == (
        "a batch of 2 x 4 ids with 3 hypotheses each does not fit into the device's memory; halve it with "
        "decode_batch_size=12, or make beam_size, extra_length or max_input_length smaller"
    )
    with pytest.raises(MachineError) as raised:
        translator.score([("a", "b c")])
    assert str(raised.value) == (
        "a batch of 1 x 3 ids with 1 hypothesis each does not fit into the device's memory; make beam_size, "
        "extra_length or max_input_length smaller"
    )


def test_half_of_a_surrogate_pair_is_text_that_cannot_be_read(translator):
    halves, replaced = ["a \ud800 b", "\udc80"], ["a \ufffd b", "\ufffd"]
    assert as_ids(translator.translate(halves)) == as_ids(translator.translate(replaced))
    assert translator.encode(halves) == translator.encode(replaced)


def test_progress_adds_up_to_the_sentences(translator):
    done = []
    translator.translate_ids([WORDS.encode(text) for text in TEXTS], on_done=done.append, decode_batch_size=9)
    assert len(done) > 1
    assert sum(done) == len(TEXTS)


def test_nothing_in_nothing_out(translator):
    assert translator.translate([]) == []
    assert translator.score([]) == []
    assert list(translator.stream([])) == []


# === Scoring ===


def test_the_score_of_a_pair_is_the_log_prob_of_that_hypothesis(translator):
    found = translator.translate(TEXTS, 3)
    ended = [(text, h) for text, one in zip(TEXTS, found, strict=True) for h in one if h.ids[-1] == EOS_ID]
    assert len(ended) > 3
    scores = translator.score([(text, hypothesis.text) for text, hypothesis in ended])
    assert scores == pytest.approx([hypothesis.log_prob for _, hypothesis in ended], abs=1e-4)


def test_scores_by_hand_one_by_one_and_together(translator):
    pairs = [("a b", "c d e"), ("", "a"), ("h h h h h", ""), ("c", "a b c d e f g h a b c d e f")]
    by_hand = [
        log_probs_by_hand(translator, [*WORDS.encode(target), EOS_ID], [*WORDS.encode(source), EOS_ID]).sum()
        for source, target in pairs
    ]
    assert translator.score(pairs) == pytest.approx(by_hand, abs=1e-4)
    assert [translator.score([pair])[0] for pair in pairs] == pytest.approx(by_hand, abs=1e-4)


def test_a_target_that_is_too_long_to_score_is_refused():
    learned, limited = build(Letters, positions="learned"), build(Letters, max_input_length=12)
    pairs = [("a", "b"), ("a", " ".join("abcdefghabcd")), ("a", "c")]
    for translator, said in ((learned, "the model has positions for"), (limited, "max_input_length allows")):
        assert translator.score([("a", " ".join("abcdefghabc"))])[0] < 0.0
        with pytest.raises(UserError) as raised:
            translator.score(pairs)
        assert str(raised.value) == (
            f"target 2 of 3: it has 13 ids with end of sequence, more than the 12 ids that {said}; a target that is "
            f"cut has another probability, so give a shorter one"
        )


def test_a_language_code_behind_inputs_takes_no_room_from_targets(monkeypatch, tmp_path):
    """What `score` takes, a file of pairs is scored with too."""
    coded, (code,) = build(Letters, max_input_length=6), WORDS.encode("h")
    monkeypatch.setattr(type(coded.problem), "language_marks", lambda self: LanguageMarks(input_end=(code,)))
    assert (coded.longest_input, coded.longest_target) == (4, 5)
    (source,) = coded.input_rows(coded.encode(["a"]))
    target = coded.encode_targets(["a b c d e"])[0]
    expected = log_probs_by_hand(coded, [*target, EOS_ID], source).sum()
    assert coded.score([("a", "a b c d e")]) == pytest.approx([expected], abs=2e-5)
    (tmp_path / "pairs").write_text("a\ta b c d e\na\ta b c d e f\n")
    report = score_file(coded, FileJob(source=str(tmp_path / "pairs"), target=str(tmp_path / "scores")))
    assert (tmp_path / "scores").read_text() == f"{coded.score([('a', 'a b c d e')])[0]:.6f}\nnan\n"
    assert report.unscored.first == [2]
    with pytest.raises(UserError, match=r"target 1 of 1: it has 7 ids with end of sequence, more than the 6 ids that"):
        coded.score([("a", "a b c d e f")])


def test_a_score_without_a_number_is_refused():
    translator = build(Letters)
    for variable in translator.model.variables:
        variable.assign(np.full(variable.shape, np.nan))
    with pytest.raises(UserError, match="the model gives no finite probabilities: its weights hold NaN or infinity"):
        translator.score([("a", "b")])


# === Given beginnings of outputs ===


@pytest.mark.parametrize("changes", [{}, {"decode_method": "greedy"}, {"decode_method": "sample", "seed": 3}], ids=str)
def test_an_output_begins_as_given_and_goes_on_as_the_model_says(translator, changes):
    prefixes = ["b", "", "h a", "c c c c c c c c c c c c c c", "d", ""]
    n_best = 3 if changes.get("decode_method") != "greedy" else 1
    found = translator.translate(TEXTS, n_best, prefixes=prefixes, **changes)
    for text, prefix, outputs in zip(TEXTS, prefixes, found, strict=True):
        given = WORDS.encode(prefix)
        for hypothesis in outputs:
            assert list(hypothesis.ids[: len(given)]) == given
            assert len(hypothesis.ids) > len(given)
            source = [*WORDS.encode(text), EOS_ID]
            by_hand = log_probs_by_hand(translator, list(hypothesis.ids), source)[len(given) :].sum()
            assert hypothesis.log_prob == pytest.approx(by_hand, abs=1e-4)
    again = translator.translate(TEXTS, n_best, prefixes=prefixes, decode_batch_size=9, **changes)
    assert as_ids(again) == as_ids(found)
    without = translator.translate([TEXTS[1], TEXTS[5]], n_best, **changes)
    if "seed" not in changes:  # samples depend on the place of the input
        assert as_ids([found[1], found[5]]) == as_ids(without), "an empty beginning prescribes nothing"


def test_what_is_best_stays_so_when_its_own_beginning_is_given(translator):
    for text, (best,) in zip(TEXTS, translator.translate(TEXTS, decode_method="greedy"), strict=True):
        ids = translator.encode([text])
        for length in range(len(best.ids)):
            given = [best.ids[:length]] if EOS_ID not in best.ids[:length] else [()]
            (again,) = translator.translate_ids(ids, prefixes=given, decode_method="greedy")
            assert again[0].ids == best.ids


def test_beginnings_that_make_no_sense_are_refused(translator, continuer):
    with pytest.raises(ArgumentError, match="1 prefixes for 2 inputs; give one for each, an empty one for none"):
        translator.translate(["a", "b"], prefixes=["c"])
    with pytest.raises(UserError, match="a beginning with id 1: it may hold ids from 2 to 10; take them"):
        translator.translate_ids([[2, 3]], prefixes=[[2, EOS_ID]])
    with pytest.raises(UserError, match="prefixes of outputs: a model of letters_alone continues its inputs; leave"):
        continuer.translate(["a"], prefixes=["b"])


# === Outputs that are forbidden ===


def test_outputs_keep_to_what_is_asked_of_them(translator):
    shortest = translator.translate(TEXTS, 3, min_output_length=4)
    assert all(EOS_ID not in h.ids[:4] and len(h.ids) >= 4 for found in shortest for h in found)
    assert any(len(h.ids) < 5 for found in translator.translate(TEXTS, 3) for h in found)
    for found in translator.translate(TEXTS, 3, no_repeat_ngram_size=1):
        assert all(len(set(h.ids)) == len(h.ids) for h in found)
    for text, found in zip(TEXTS, translator.translate(TEXTS, 3, eos_penalty=0.7), strict=True):
        for h in found:
            by_hand = log_probs_by_hand(translator, list(h.ids), [*WORDS.encode(text), EOS_ID]).sum()
            assert h.log_prob == pytest.approx(by_hand, abs=1e-4)
            penalised = by_hand - 0.7 * (h.ids[-1] == EOS_ID)
            assert h.score == pytest.approx(penalised / ((5 + len(h.ids)) / 6) ** 0.6, abs=1e-4)


# === Language models ===


def test_a_beginning_is_gone_on_with_and_costs_nothing(continuer):
    beginnings = ["a b c", "", "d", "h g f e d c b a"]
    concat_batches = continuer.translate(beginnings, 3)
    for text, found in zip(beginnings, concat_batches, strict=True):
        given = WORDS.encode(text)
        assert as_ids([found]) == as_ids(continuer.translate([text], 3))
        for hypothesis in found:
            assert list(hypothesis.ids[: len(given)]) == given
            assert hypothesis.text.startswith(text)
            by_hand = log_probs_by_hand(continuer, list(hypothesis.ids))[len(given) :].sum()
            assert hypothesis.log_prob == pytest.approx(by_hand, abs=1e-4)


def test_a_language_model_scores_whole_texts(continuer):
    by_hand = [log_probs_by_hand(continuer, [*WORDS.encode(text), EOS_ID]).sum() for text in TEXTS]
    assert continuer.score([("ignored", text) for text in TEXTS]) == pytest.approx(by_hand, abs=1e-4)


def test_nothing_to_begin_with_and_nothing_to_add_still_gives_one_id(continuer):
    ((hypothesis,),) = continuer.translate([""], extra_length=0)
    assert len(hypothesis.ids) == 1


# === Sampling and streaming ===


@pytest.mark.slow
def test_samples_depend_on_seed_and_place_alone(translator):
    sentences = [WORDS.encode(text) for text in TEXTS]
    sampling = {"decode_method": "sample", "seed": 7}
    drawn = translator.translate_ids(sentences, 2, **sampling)
    assert as_ids(drawn) == as_ids(translator.translate_ids(sentences, 2, decode_batch_size=9, **sampling))
    assert as_ids(drawn)[2:] == as_ids(translator.translate_ids(sentences[2:], 2, seeds=[2, 3, 4, 5], **sampling))
    assert as_ids(drawn) != as_ids(translator.translate_ids(sentences, 2, decode_method="sample", seed=8))
    same = translator.translate(["a b c"] * 4, **sampling)
    assert len({found[0].ids for found in same}) > 1, "equal lines at other places draw anew"


@pytest.mark.parametrize("changes", [{}, {"decode_method": "sample", "seed": 1}])
def test_a_stream_gives_what_a_list_gives_whatever_the_window(translator, changes):
    expected = as_ids(translator.translate(TEXTS, **changes))
    assert as_ids(translator.stream(TEXTS, window=4, **changes)) == expected
    assert as_ids(translator.stream(iter(TEXTS), window=100, **changes)) == expected


def test_a_stream_reads_one_window_at_a_time(translator):
    read = []

    def lines():
        for text in TEXTS:
            read.append(text)
            yield text

    outputs = translator.stream(lines(), window=2)
    assert read == []
    next(outputs)
    assert len(read) == 2


# === Mistakes ===


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam_sise": 2}, "decode hparam 'beam_sise' does not exist; did you mean beam_size"),
        ({"beam_size": 0}, "hparam beam_size=0: it is at least 1"),
        ({"alpha": "high"}, "hparam alpha='high': it is of type float"),
        ({"decode_method": "bean"}, "use one of beam, greedy, sample"),
        (
            {"n_best": 4},
            "n_best=4: beam search of width 3 has from 1 to 3 hypotheses; ask for that many or raise beam_size",
        ),
        (
            {"n_best": 2, "beam_size": 1},
            "n_best=2: greedy search has one hypothesis; ask for that one or raise beam_size",
        ),
        (
            {"n_best": 2, "decode_method": "greedy"},
            "n_best=2: greedy search has one hypothesis; ask for that one or search with decode_method=beam",
        ),
        ({"n_best": 0}, "n_best=0: a search has one hypothesis or more; ask for 1 or more"),
        ({"n_best": 0, "decode_method": "sample"}, "n_best=0"),
        ({"decode_method": "sample", "sampling_top_p": 0.0}, "top_p 0.0: it must be above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_read(translator, arguments, message):
    for call in (translator.translate, translator.stream):
        with pytest.raises(UserError) as error:
            call(TEXTS, **arguments)
        assert message in str(error.value)


def test_an_unknown_setting_is_an_unknown_name(translator):
    with pytest.raises(UnknownNameError):
        translator.translate(TEXTS, beams=3)


def test_the_fingerprint_is_that_of_weights_and_words(translator):
    assert translator.fingerprint() == build(Letters, beam_size=5).fingerprint()
    others = [build(Letters, seed=4), build(Letters, words=TokenEncoder("abcdefgx")), build(LettersAlone)]
    assert len({translator.fingerprint(), *(other.fingerprint() for other in others)}) == 4
    changed = build(Letters)
    kernel = changed.model.variables[0]
    kernel.assign(np.asarray(kernel) + 1e-6 * (np.arange(kernel.shape[-1]) == 0))
    assert changed.fingerprint() != translator.fingerprint()


def test_rehearsal_decodes_as_many_of_the_longest_batches_as_run_at_a_time(monkeypatch):
    monkeypatch.setattr("t2t.inference.parallel.cores", lambda: 2)
    translator, starts, start = build(Letters, decode_batch_size=60), [], TensorFlowBatchSearch.start
    monkeypatch.setattr(
        TensorFlowBatchSearch, "start", lambda self, *given: starts.append(given[1].shape) or start(self, *given)
    )
    sentences = [[3] * length for length in (2, 9, 4, 8, 3, 7, 1)] * 3
    translator.warm_up(sentences)
    rehearsed = starts.copy()
    starts.clear()
    translator.translate_ids(sentences)
    assert sorted(rehearsed) == sorted(starts, key=lambda shape: shape[1])[-2:]
    assert len(starts) > 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.translate("a b c"), "texts='a b c': it is one text; give a list of texts, e.g. [text]"),
        (lambda t: t.translate(["a", 1]), "texts[1]=1: it is of type int; give text"),
        (lambda t: t.translate(3), "texts=3: it is of type int; give a list of texts"),
        (lambda t: t.translate(["a"], n_best="2"), "n_best='2': it is of type str; give a whole number"),
        (lambda t: t.translate(["a"], n_best=1.0), "n_best=1.0: it is of type float; give a whole number"),
        (lambda t: t.translate(["a"], n_best=None), "n_best=None: it is of type NoneType; give a whole number"),
        (lambda t: t.translate(["a"], seed=None), "seed=None: it is of type NoneType; give a whole number"),
        (lambda t: t.translate(["a"], beam_sise=2), "decode hparam 'beam_sise' does not exist; did you mean beam_size"),
        (lambda t: t.translate_ids([1]), "sentences[0]=1: it is of type int; give a list of ids"),
        (lambda t: t.translate_ids(["a"]), "sentences[0]='a': it is of type str; give a list of ids"),
        (lambda t: t.score([("a",)]), "pairs[0]=('a',): it is no pair of texts; give (source, target)"),
        (lambda t: t.score(("ab", "cd")), "pairs[0]='ab': it is no pair of texts; give (source, target)"),
        (lambda t: t.score([("a", "b", "c")]), "pairs[0]=('a', 'b', 'c'): it is no pair of texts"),
        (lambda t: t.score("ab"), "pairs='ab': it is one text; give a list of pairs (source, target)"),
        (lambda t: t.score([("a", 1)]), "targets[0]=1: it is of type int; give text"),
        (lambda t: t.score_ids([[3]], []), "1 sources and 0 targets; give as many of both"),
        (lambda t: t.attend(None), "texts[0]=None: it is of type NoneType; give text"),
        (lambda t: t.stream(["a"], constraints=[None]), "stream takes no constraints; give them, and a list of"),
        (lambda t: t.stream(["a"], prefixes=["b"]), "stream takes no prefixes; give them, and a list of texts, to"),
        (lambda t: t.stream(["a"], window=0), "window=0: it is a number of lines; give at least 1"),
        (lambda t: t.stream(["a"], window=-1), "window=-1: it is a number of lines; give at least 1"),
        (lambda t: t.stream(["a"], window=2.0), "window=2.0: it is of type float; give a whole number"),
        (lambda t: t.translate_ids([[3], [4]], seeds=[5]), "1 seeds for 2 inputs; give one for each"),
        (lambda t: t.stream("abc"), "lines='abc': it is of type str; give texts to iterate over"),
    ],
)
def test_what_is_not_text_is_refused_in_one_line(translator, call, message):
    with pytest.raises(ArgumentError, match=re.escape(message)) as error:
        call(translator)
    assert isinstance(error.value, TypeError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.translate_ids([[2], [9999]]), "sentences[1]: an input with id 9999: it may hold ids from 1 to 10"),
        (lambda t: t.translate_ids([[-3]]), "sentences[0]: an input with id -3: it may hold ids from 1 to 10; take"),
        (lambda t: t.score_ids([[3, 0, 4]], [[3]]), "sources[0]: an input with id 0: it may hold ids from 1 to 10;"),
        (lambda t: t.score_ids([[3]], [[3, 0, 4]]), "targets[0]: an output with id 0: it may hold ids from 2 to 10;"),
        (lambda t: t.score_ids([[3]], [[3, 11]]), "targets[0]: an output with id 11: it may hold ids from 2 to 10;"),
        (
            lambda t: t.score_ids([[3]], [[3, EOS_ID]]),
            "targets[0]: an output with id 1: it may hold ids from 2 to 10; take them from a vocabulary or a beam, and "
            "leave out the end of sequence",
        ),
        (lambda t: t.align_ids([[11]], [[3]]), "sources[0]: an input with id 11: it may hold ids from 1 to 10; take"),
        (lambda t: t.align_ids([[3]], [[EOS_ID, 3]]), "targets[0]: an output with id 1: it may hold ids from 2 to"),
    ],
)
def test_ids_that_no_text_has_are_refused_in_one_line(translator, call, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        call(translator)


def test_ids_that_a_model_does_not_read_are_not_checked(translator, continuer):
    assert translator.request([[3, EOS_ID, 4]]).rows, "an example of generated data may hold it"
    assert continuer.score_ids([[99]], [[3]]) == continuer.score_ids([()], [[3]])
    with pytest.raises(UserError, match=r"^sentences\[0\]: an input with id 11: it may hold ids from 1 to 10; take"):
        continuer.translate_ids([[11]])


def test_texts_may_come_from_any_iterable(translator):
    listed = translator.translate(TEXTS)
    assert as_ids(translator.translate(text for text in TEXTS)) == as_ids(listed)
    pairs = [[text, "a b"] for text in TEXTS]
    assert translator.score(iter(pairs)) == translator.score([tuple(pair) for pair in pairs])


# === Scores of tokens ===


def test_tokens_have_the_log_probabilities_of_a_forward_pass(translator):
    found = translator.translate(TEXTS, n_best=2, token_scores=True)
    plain = translator.translate(TEXTS, n_best=2)
    for text, hypotheses, without in zip(TEXTS, found, plain, strict=True):
        (source,) = cut_rows(translator.facts, translator.encode([text]), translator.hparams)
        for one, other in zip(hypotheses, without, strict=True):
            assert (one.ids, one.text, other.tokens) == (other.ids, other.text, None)
            assert [piece for piece, _ in one.tokens] == [WORDS.piece(number) for number in one.ids]
            values = [value for _, value in one.tokens]
            np.testing.assert_allclose(values, log_probs_by_hand(translator, one.ids, source), atol=2e-5)
            assert sum(values) == pytest.approx(one.log_prob, abs=1e-4)


def test_a_language_code_in_front_of_an_output_is_certain(monkeypatch):
    coded, code = build(Letters), WORDS.encode("h")
    monkeypatch.setattr(type(coded.problem), "language_marks", lambda self: LanguageMarks(output_start=tuple(code)))
    (source,) = cut_rows(coded.facts, coded.encode(["a b"]), coded.hparams)
    for one in coded.translate(["a b"], n_best=2, token_scores=True)[0]:
        (piece, first), *others = one.tokens
        assert (piece, first) == ("h", 0.0)
        expected = log_probs_by_hand(coded, one.ids, source)[1:]
        np.testing.assert_allclose([value for _, value in others], expected, atol=2e-5)
        assert expected.sum() == pytest.approx(one.log_prob, abs=1e-4)


def test_scores_of_tokens_that_are_not_written_are_refused(continuer, translator):
    with pytest.raises(UserError, match=r"token_scores: .* with this model writes no outputs token by token for its"):
        continuer.translate(["a"], token_scores=True)
    with pytest.raises(UserError, match="token_scores with shortlist: the search knows a part of the vocabulary"):
        translator.translate(["a"], token_scores=True, shortlist=True)
