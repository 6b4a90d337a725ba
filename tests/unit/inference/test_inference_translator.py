"""Translating, scoring and streaming with a small Transformer of random weights.

Legend: S source length, T target length, V vocabulary.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from t2t.errors import ArgumentError, MachineError, UnknownNameError, UserError
from t2t.inference.files.scoring import score_file
from t2t.inference.files.windows import FileJob
from t2t.inference.growing_search import GrowingSearch
from t2t.inference.hypothesis import NOTHING
from t2t.inference.model_engine import ModelEngine
from t2t.inference.parallel import cores
from t2t.inference.rows import cut_rows
from t2t.inference.search_steps import partial_outputs
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.specs import EOS_ID, INPUTS, TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.letters import (
    WORDS,
    Letters,
    LettersAlone,
    build,
    letters,
    log_probs_by_hand,
    marked,
    sharing,
    translator_of,
)

__all__ = ["Letters", "LettersAlone", "build"]  # tests of services import them from here
TEXTS = ["a b c", "d", "g g", "h g f e d c b a", "a b c d", "e e e"]
PREFIXES = ["a", "b", "c", "", "d"]
TERMS = [{"constraints": ["a"]}, {"constraints": ["h g"]}, None, None, None]
SAMPLE = {"decode_method": "sample", "seed": 7}


@pytest.fixture(scope="module")
def translator(ending_translator):
    return ending_translator


@pytest.fixture(scope="module")
def learned():
    """A translator of learned positions, of which there are twelve."""
    return build(Letters, positions="learned")


def as_ids(found):
    return [[hypothesis.ids for hypothesis in one] for one in found]


def assert_same(found, expected):
    """Asserts that outputs are equal but for the rounding of scores."""
    assert [[(one.text, one.ids, one.alignment) for one in some] for some in found] == [
        [(one.text, one.ids, one.alignment) for one in some] for some in expected
    ]
    assert all_scores(found) == pytest.approx(all_scores(expected), abs=1e-5)


def all_scores(found):
    return [hypothesis.score for one in found for hypothesis in one]


def by_hand(translator, text, hypothesis):
    return log_probs_by_hand(translator, list(hypothesis.ids), [*WORDS.encode(text), EOS_ID])


# === Translating ===


def test_a_hypothesis_says_what_the_model_says_of_it(translator):
    """Also with the log-probabilities of its tokens, and if it is given to be scored."""
    plain, found = translator.translate(TEXTS, 3), translator.translate(TEXTS, 3, token_scores=True)
    ended = []
    for text, hypotheses, without in zip(TEXTS, found, plain, strict=True):
        for one, other in zip(hypotheses, without, strict=True):
            log_probs = by_hand(translator, text, one)
            assert one.log_prob == pytest.approx(log_probs.sum(), abs=1e-4)
            assert one.score == pytest.approx(log_probs.sum() / ((5 + len(one.ids)) / 6) ** 0.6, abs=1e-4)
            assert one.text == WORDS.decode(one.ids)
            assert (one.ids, one.text, None) == (other.ids, other.text, other.tokens)
            assert [piece for piece, _ in one.tokens] == [WORDS.piece(number) for number in one.ids]
            np.testing.assert_allclose([value for _, value in one.tokens], log_probs, atol=2e-5)
            ended += [(text, one)] * (one.ids[-1] == EOS_ID)
    assert len(ended) > 3
    scores = translator.score([(text, one.text) for text, one in ended])
    assert scores == pytest.approx([one.log_prob for _, one in ended], abs=1e-4)


def test_greedy_takes_the_likeliest_id_each_time_and_is_the_beam_of_one(translator):
    greedy = translator.translate(TEXTS, decode_method="greedy")
    assert as_ids(translator.translate(TEXTS, beam_size=1)) == as_ids(greedy)
    for text, (found,) in zip(TEXTS, greedy, strict=True):
        features = {INPUTS: [[*WORDS.encode(text), EOS_ID]], TARGETS: [found.ids]}
        logits_TV = np.asarray(translator.model({name: np.array(ids, np.int32) for name, ids in features.items()}))[0]
        assert tuple((logits_TV[:, 1:].argmax(axis=-1) + 1).tolist()) == found.ids  # padding is never written


def test_an_output_that_ends_at_its_limit_is_cut(translator):
    found = [one for outputs in translator.translate(TEXTS, 3) for one in outputs]
    assert {one.cut for one in found} == {True, False}
    assert [(one.cut, one.finish_reason) for one in found] == [
        (True, "length") if one.ids and one.ids[-1] != EOS_ID else (False, "stop") for one in found
    ]


@pytest.mark.parametrize("marks", [{}, {"output_start": (4,)}])
def test_a_given_beginning_adds_to_the_limit_but_a_language_code_does_not(translator, marks):
    coded, begin = sharing(translator, marked(**marks)), len(marks)
    rows = translator.encode(["a b", "a b", "a b"])
    prefixes = [(), WORDS.encode("a"), WORDS.encode("a b c d e f g h")]
    for changes in ({"alpha": 9.0}, {"decode_method": "greedy", "eos_penalty": 99.0}):
        found = coded.translate_ids(rows, prefixes=prefixes, extra_length=1, **changes)
        assert [len(one.ids) for (one,) in found] == [4, 5, 12]
        assert all(one.ids[begin : begin + len(p)] == tuple(p) for (one,), p in zip(found, prefixes, strict=True))


def test_a_shortest_output_above_the_longest_is_refused(translator, continuer):
    rows = translator.encode(["a b c d", "a b"])  # with end of sequence 3 ids, and 5 more: outputs of at most 8
    with refused("min_output_length=8:", 2, "extra_length=5"):
        translator.translate_ids(rows, min_output_length=8)
    (shortest,) = translator.translate_ids(rows, min_output_length=8, prefixes=[(), WORDS.encode("a")])[1]
    assert len(shortest.ids) == 9, "given ids add to the limit"
    with refused("min_output_length=8:", "extra_length=5"):
        continuer.translate(["a b c"], min_output_length=8)
    with refused("min_output_length=8:", "extra_length=5"):
        list(partial_outputs(translator, "a b", min_output_length=8))


@pytest.mark.parametrize(
    ("positions", "limit"),
    [("sinusoidal", {"max_input_length": 12}), ("learned", {"max_input_length": 13})],
)
def test_too_long_an_input_is_cut_and_said_to_be(translator, learned, positions, limit, caplog):
    limited = sharing(learned if positions == "learned" else translator, **limit)
    assert limited.longest_input == 11
    letters = list("abcdefghabcdefgh")
    long, fitting = limited.translate([" ".join(letters), " ".join(letters[:11])], 3)
    assert [h.ids for h in long] == [h.ids for h in fitting]
    (line,) = caplog.messages
    assert line.startswith("1 of 2 ")
    assert ("max_input_length" in line) == (positions == "sinusoidal")
    (cut,) = cut_rows(limited.model, [list(range(2, 18))], limited.hparams)
    assert cut == [*range(2, 13), EOS_ID]
    assert limited.score([("a", " ".join("abcdefghabc"))])[0] < 0.0
    with refused(2, 3, 13, 12):  # a target that is cut would have another probability
        limited.score([("a", "b"), ("a", " ".join("abcdefghabcd")), ("a", "c")])


def test_sinusoids_take_inputs_longer_than_any_of_training(translator, caplog):
    assert translator.longest_input == 1023
    long, shorter = translator.encode([" ".join("abcdefgh" * 5), " ".join("abcdefgh" * 4)])
    with_end = {INPUTS: np.array([[*long, EOS_ID]], np.int32), TARGETS: np.array([[2, 3, EOS_ID]], np.int32)}
    cut = with_end | {INPUTS: np.array([[*shorter, EOS_ID]], np.int32)}
    assert not np.allclose(np.asarray(translator.model(with_end)), np.asarray(translator.model(cut)), atol=1e-3)
    assert translator.translate_ids([long])[0][0].ids
    assert "cut" not in caplog.text


def test_learned_positions_end_outputs_where_their_table_ends(learned):
    found = learned.translate(["a b c d e f g h"], 3, extra_length=9, alpha=9.0)
    assert max(len(hypothesis.ids) for hypothesis in found[0]) == 12


@pytest.mark.parametrize(("extra", "rows"), [(5, [8]), (62, [2, 2, 2, 2])])
def test_long_outputs_make_batches_smaller(translator, extra, rows):
    """decode_batch_size 48 with 3 beams: 16 ids per batch; an input of 2 ids with 62 more to write counts as 8."""
    batches = []
    translator.translate_ids([WORDS.encode("a")] * 8, on_done=batches.append, decode_batch_size=48, extra_length=extra)
    assert batches == rows


class Full(Transformer):
    """Runs out of memory when it runs."""

    def encode(self, *given, **options):
        def fail(x):
            raise MemoryError

        encoded = super().encode(*given, **options)
        return tf.nest.map_structure(lambda x: tf.ensure_shape(tf.py_function(fail, [x], x.dtype), x.shape), encoded)


def test_running_out_of_memory_says_of_what_and_what_to_do():
    translator = build(Letters, model_class=Full)
    with refused(2, 4, 3, "decode_batch_size=12", "beam_size", "extra_length", "max_input_length", by=MachineError):
        translator.translate(["a b c", "d"])
    with refused(1, 3, "beam_size", "extra_length", "max_input_length", by=MachineError) as raised:
        translator.score([("a", "b c")])
    assert "decode_batch_size" not in str(raised.value)


def test_half_of_a_surrogate_pair_is_text_that_cannot_be_read(translator):
    halves, replaced = ["a \ud800 b", "\udc80"], ["a \ufffd b", "\ufffd"]
    assert as_ids(translator.translate(halves)) == as_ids(translator.translate(replaced))
    assert translator.encode(halves) == translator.encode(replaced)


def test_nothing_in_nothing_out(translator):
    assert translator.translate([]) == []
    assert translator.score([]) == []
    assert list(translator.stream([])) == []


# === Scoring ===
def test_scores_by_hand_one_by_one_and_together(translator):
    pairs = [("a b", "c d e"), ("", "a"), ("h h h h h", ""), ("c", "a b c d e f g h a b c d e f")]
    expected = [
        log_probs_by_hand(translator, [*WORDS.encode(target), EOS_ID], [*WORDS.encode(source), EOS_ID]).sum()
        for source, target in pairs
    ]
    assert translator.score(iter(map(list, pairs))) == pytest.approx(expected, abs=1e-4)
    assert [translator.score([pair])[0] for pair in pairs] == pytest.approx(expected, abs=1e-4)


def test_a_language_code_behind_inputs_takes_no_room_from_targets(translator, tmp_path):
    """What `score` takes, a file of pairs is scored with too."""
    coded = sharing(translator, marked(input_end=tuple(WORDS.encode("h"))), max_input_length=6)
    assert (coded.longest_input, coded.longest_target) == (4, 5)
    (source,) = coded.input_rows(coded.encode(["a"]))
    target = coded.encode_targets(["a b c d e"])[0]
    expected = log_probs_by_hand(coded, [*target, EOS_ID], source).sum()
    assert coded.score([("a", "a b c d e")]) == pytest.approx([expected], abs=2e-5)
    (tmp_path / "pairs").write_text("a\ta b c d e\na\ta b c d e f\n")
    report = score_file(coded, FileJob(source=str(tmp_path / "pairs"), target=str(tmp_path / "scores")))
    assert (tmp_path / "scores").read_text() == f"{coded.score([('a', 'a b c d e')])[0]:.6f}\nnan\n"
    assert report.unscored.first == [2]
    with refused(1, 7, 6):
        coded.score([("a", "a b c d e f")])


def test_a_language_code_in_front_of_an_output_is_certain(translator):
    coded = sharing(translator, marked(output_start=tuple(WORDS.encode("h"))))
    (source,) = cut_rows(coded.facts, coded.encode(["a b"]), coded.hparams)
    for one in coded.translate(["a b"], n_best=2, token_scores=True)[0]:
        assert one.tokens[0] == ("h", 0.0)
        expected = log_probs_by_hand(coded, one.ids, source)[1:]
        np.testing.assert_allclose([value for _, value in one.tokens[1:]], expected, atol=2e-5)
        assert expected.sum() == pytest.approx(one.log_prob, abs=1e-4)


def test_a_score_without_a_number_is_refused():
    translator = build(Letters)
    for variable in translator.model.variables:
        variable.assign(np.full(variable.shape, np.nan))
    with refused("NaN"):
        translator.score([("a", "b")])


# === Blank inputs ===
@pytest.mark.parametrize(
    ("n_best", "changes", "blank"),
    [
        (3, {}, NOTHING),
        (2, SAMPLE, NOTHING),
        (1, {"alignments": True}, dataclasses.replace(NOTHING, alignment=())),
        (1, {"token_scores": True}, dataclasses.replace(NOTHING, tokens=())),
        (1, {"prefixes": PREFIXES}, NOTHING),
        (2, {"constraints": TERMS}, NOTHING),
    ],
    ids=str,
)
def test_a_blank_input_has_a_blank_output_and_the_others_their_own(translator, n_best, changes, blank):
    """By text, by ids and in a stream; also where the output is to begin with, or contain, something."""
    texts, asked, of_rows = [" ", "a b c", "", "d", "   "], [1, 3], {"prefixes", "constraints"} & changes.keys()
    found = translator.translate(texts, n_best, **changes)
    assert [found[n] for n in (0, 2, 4)] == [[blank]] * 3
    some = {name: [value[n] for n in asked] if name in of_rows else value for name, value in changes.items()}
    if changes is not SAMPLE:  # samples depend on the place of the input
        assert_same([found[n] for n in asked], translator.translate([texts[n] for n in asked], n_best, **some))
    if not of_rows:
        done = []
        assert_same(found, translator.translate_ids(translator.encode(texts), n_best, on_done=done.append, **changes))
        assert sum(done) == 5
        assert_same(found, list(translator.stream(texts, n_best, window=2, **changes)))
    assert translator.translate(["\t", "\u3000", "\0"]) == [[NOTHING]] * 3, "though they have ids"
    assert_same(translator.translate(["a\0b \0c"]), translator.translate(["ab c"]))


def test_with_text_it_decides_what_is_blank_not_the_ids(translator):
    """A language's tag is no text; a text of characters that a vocabulary drops is none that is blank."""
    assert translator.translate_ids([[]], sources=["\u200b"])[0] != [NOTHING]
    tagged = sharing(translator, marked(input_start=tuple(WORDS.encode("h"))))
    first, second, third = tagged.translate_ids(WORDS.encode_batch(["h", "h a", "a"]))
    assert first == [NOTHING]
    assert NOTHING not in (*second, *third)


def test_a_blank_text_attends_to_nothing(translator):
    with refused("'\\t'"):
        translator.attend("\t")


# === Given beginnings of outputs ===
@pytest.mark.parametrize(("n_best", "changes"), [(3, {}), (1, {"decode_method": "greedy"}), (2, SAMPLE)], ids=str)
def test_an_output_begins_as_given_and_goes_on_as_the_model_says(translator, n_best, changes):
    prefixes = ["b", "", "h a", "c c c c c c c c c c c c c c", "d", ""]
    found = translator.translate(TEXTS, n_best, prefixes=prefixes, **changes)
    for text, prefix, outputs in zip(TEXTS, prefixes, found, strict=True):
        given = WORDS.encode(prefix)
        for hypothesis in outputs:
            assert list(hypothesis.ids[: len(given)]) == given
            assert len(hypothesis.ids) > len(given)
            own = by_hand(translator, text, hypothesis)[len(given) :].sum()
            assert hypothesis.log_prob == pytest.approx(own, abs=1e-4)
    again = translator.translate(TEXTS, n_best, prefixes=prefixes, decode_batch_size=9, **changes)
    assert as_ids(again) == as_ids(found)
    if changes is not SAMPLE:  # samples depend on the place of the input
        without = translator.translate([TEXTS[1], TEXTS[5]], n_best, **changes)
        assert as_ids([found[1], found[5]]) == as_ids(without), "an empty beginning prescribes nothing"


def test_what_is_best_stays_so_when_its_own_beginning_is_given(translator):
    sources = [ids for ids in translator.encode(TEXTS) for _ in range(14)]
    best = [one for (one,) in translator.translate_ids(sources, decode_method="greedy")]
    lengths = [n % 14 % len(one.ids) for n, one in enumerate(best)]
    given = [one.ids[:length] for one, length in zip(best, lengths, strict=True)]
    again = translator.translate_ids(sources, prefixes=given, decode_method="greedy")
    # The beginning adds to the limit, so what was cut there may go on.
    assert [one.ids[: len(first.ids)] for (one,), first in zip(again, best, strict=True)] == [one.ids for one in best]
    assert all(len(one.ids) <= len(first.ids) + n for (one,), first, n in zip(again, best, lengths, strict=True))


# === Outputs that are forbidden ===
def test_outputs_keep_to_what_is_asked_of_them(translator):
    assert any(len(h.ids) < 5 for found in translator.translate(TEXTS, 3) for h in found)
    rules = {"min_output_length": 4, "no_repeat_ngram_size": 1, "eos_penalty": 0.7}
    for text, found in zip(TEXTS, translator.translate(TEXTS, 3, **rules), strict=True):
        for h in found:
            assert EOS_ID not in h.ids[:4]
            assert len(set(h.ids)) == len(h.ids) >= 4
            log_prob = by_hand(translator, text, h).sum()
            assert h.log_prob == pytest.approx(log_prob, abs=1e-4)
            penalised = log_prob - 0.7 * (h.ids[-1] == EOS_ID)
            assert h.score == pytest.approx(penalised / ((5 + len(h.ids)) / 6) ** 0.6, abs=1e-4)


# === Language models ===
def test_a_beginning_is_gone_on_with_and_costs_nothing(continuer):
    beginnings = ["a b c", "", "d", "h g f e d c b a"]
    for text, found in zip(beginnings, continuer.translate(beginnings, 3), strict=True):
        given = WORDS.encode(text)
        assert as_ids([found]) == as_ids(continuer.translate([text], 3))
        for hypothesis in found:
            assert list(hypothesis.ids[: len(given)]) == given
            assert hypothesis.text.startswith(text)
            log_prob = log_probs_by_hand(continuer, list(hypothesis.ids))[len(given) :].sum()
            assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)
    (found,) = continuer.translate([""], 3, extra_length=0)
    assert {len(one.ids) for one in found} == {1}, "nothing to begin with and nothing to add still gives one id"


def test_a_language_model_scores_whole_texts(continuer):
    expected = [log_probs_by_hand(continuer, [*WORDS.encode(text), EOS_ID]).sum() for text in TEXTS]
    assert continuer.score([("ignored", text) for text in TEXTS]) == pytest.approx(expected, abs=1e-4)


# === Sampling and streaming ===
def test_samples_depend_on_seed_and_place_alone(translator):
    sentences = [WORDS.encode(text) for text in TEXTS]
    drawn = translator.translate_ids(sentences, 2, **SAMPLE)
    assert as_ids(drawn) == as_ids(translator.translate_ids(sentences, 2, decode_batch_size=9, **SAMPLE))
    assert as_ids(drawn)[2:] == as_ids(translator.translate_ids(sentences[2:], 2, seeds=[2, 3, 4, 5], **SAMPLE))
    assert as_ids(drawn) != as_ids(translator.translate_ids(sentences, 2, decode_method="sample", seed=8))
    same = translator.translate(["a b c"] * 4, 2, **SAMPLE)
    assert len({found[0].ids for found in same}) > 1, "equal lines at other places draw anew"


@pytest.mark.parametrize("changes", [{}, SAMPLE])
def test_a_stream_gives_what_a_list_gives_whatever_the_window(translator, changes):
    expected = as_ids(translator.translate(TEXTS, 2, **changes))
    assert as_ids(translator.stream(TEXTS, 2, window=4, **changes)) == expected
    assert as_ids(translator.stream(iter(TEXTS), 2, window=100, **changes)) == expected


def test_a_stream_reads_one_window_at_a_time(translator):
    read = []
    outputs = translator.stream((read.append(text) or text for text in TEXTS), window=2)
    assert read == []
    next(outputs)
    assert len(read) == 2


# === Other properties ===
def test_the_fingerprint_is_that_of_weights_and_words(translator, continuer):
    assert translator.fingerprint() == sharing(translator, beam_size=5).fingerprint()
    other, words = build(Letters, seed=4), TokenEncoder("abcdefgx")
    others = [other, sharing(translator, Letters().with_encoders({"inputs": words, "targets": words})), continuer]
    fingerprints = {translator.fingerprint(), *(one.fingerprint() for one in others)}
    kernel = other.model.variables[0]
    kernel.assign(np.asarray(kernel) + 1e-6 * (np.arange(kernel.shape[-1]) == 0))
    assert len({*fingerprints, other.fingerprint()}) == 5


def test_rehearsal_decodes_as_many_of_the_longest_batches_as_run_at_a_time(translator):
    starts = []

    class Noting(GrowingSearch):
        def start(self, indices_B, ids_BS, *given):
            starts.append(ids_BS.shape)
            return super().start(indices_B, ids_BS, *given)

    class Engine(ModelEngine):
        def search(self, settings, extra_length, *more):
            return noting

    settings, hparams = translator.settings(decode_batch_size=60)
    noting = Noting(translator.model, settings, hparams.extra_length)
    watched = Translator(translator.problem, translator.model, hparams, engine=Engine(translator.model))
    sentences = [[3] * length for length in (2, 9, 4, 8, 3, 7, 1)] * 3
    watched.warm_up(sentences)
    rehearsed = starts.copy()
    starts.clear()
    watched.translate_ids(sentences)
    longest = sorted(starts, key=lambda shape: shape[1])[-cores() :]
    assert sorted(rehearsed) == sorted(longest)
    assert len(starts) > len(rehearsed)


# === Mistakes ===
@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ({"beam_sise": 2}, ["'beam_sise'", "beam_size"]), ({"beam_size": 0}, ["beam_size=0", 1]),
        ({"alpha": "high"}, ["alpha='high'", "float"]),
        ({"decode_method": "bean"}, ["bean", "beam", "greedy", "sample"]),
        ({"n_best": 4}, ["n_best=4", 3, "beam_size"]), ({"n_best": 2, "beam_size": 1}, ["n_best=2", "beam_size"]),
        ({"n_best": 2, "decode_method": "greedy"}, ["n_best=2", "decode_method=beam"]),
        ({"n_best": 0}, ["n_best=0", 1]), ({"n_best": 0, "decode_method": "sample"}, ["n_best=0"]),
        ({"decode_method": "sample", "sampling_top_p": 0.0}, ["top_p", "0.0"]),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_before_anything_is_read(translator, arguments, about):
    for call in (translator.translate, translator.stream):
        with refused(*about) as raised:
            call(TEXTS, **arguments)
        assert isinstance(raised.value, UnknownNameError) == ("beam_sise" in arguments)


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda t: t.translate("a b c"), ["texts='a"]), (lambda t: t.translate(["a", 1]), ["texts[1]=1", "int"]),
        (lambda t: t.translate([np.zeros((2, 2))]), ["texts[0]=array(", "ndarray"]),
        (lambda t: t.translate(3), ["texts=3", "int"]),
        (lambda t: t.translate(["a"], n_best="2"), ["n_best='2'", "str"]),
        (lambda t: t.translate(["a"], n_best=1.0), ["n_best=1.0", "float"]),
        (lambda t: t.translate(["a"], n_best=None), ["n_best=None", "NoneType"]),
        (lambda t: t.translate(["a"], seed=None), ["seed=None", "NoneType"]),
        (lambda t: t.translate(["a"], beam_sise=2), ["'beam_sise'", "beam_size"]),
        (lambda t: t.translate(["a", "b"], prefixes=["c"]), [1, 2]),
        (lambda t: t.translate_ids(3), ["sentences=3", "int"]),
        (lambda t: t.translate_ids([1]), ["sentences[0]=1", "int"]),
        (lambda t: t.translate_ids(["a"]), ["sentences[0]='a'", "str"]),
        (lambda t: t.translate_ids([[3], [4]], seeds=[5]), [1, "seeds", 2]),
        (lambda t: t.score([("a",)]), ["pairs[0]=('a',)"]), (lambda t: t.score(("ab", "cd")), ["pairs[0]='ab'"]),
        (lambda t: t.score([("a", "b", "c")]), ["pairs[0]=('a',"]), (lambda t: t.score("ab"), ["pairs='ab'"]),
        (lambda t: t.score([("a", 1)]), ["targets[0]=1", "int"]), (lambda t: t.score_ids([[3]], []), [1, 0]),
        (lambda t: t.attend(None), ["texts[0]=None", "NoneType"]),
        (lambda t: t.stream(["a"], constraints=[None]), ["constraints", "translate"]),
        (lambda t: t.stream(["a"], prefixes=["b"]), ["prefixes", "translate"]),
        (lambda t: t.stream(["a"], window=0), ["window=0", 1]),
        (lambda t: t.stream(["a"], window=-1), ["window=-1", 1]),
        (lambda t: t.stream(["a"], window=2.0), ["window=2.0", "float"]),
        (lambda t: t.stream("abc"), ["lines='abc'", "str"]),
    ],
)  # fmt: skip
def test_what_is_not_text_is_refused_in_one_line(translator, call, about):
    with refused(*about, by=ArgumentError) as error:
        call(translator)
    assert isinstance(error.value, TypeError)


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda t: t.translate_ids([[2], [9999]]), ["sentences[1]", 9999, 1, 10]),
        (lambda t: t.translate_ids([[-3]]), ["sentences[0]", -3, 1, 10]),
        (lambda t: t.translate_ids([[2, 3]], prefixes=[[2, EOS_ID]]), [1, 2, 10]),
        (lambda t: t.score_ids([[3, 0, 4]], [[3]]), ["sources[0]", 0, 1, 10]),
        (lambda t: t.score_ids([[3]], [[3, 0, 4]]), ["targets[0]", 0, 2, 10]),
        (lambda t: t.score_ids([[3]], [[3, 11]]), ["targets[0]", 11, 2, 10]),
        (lambda t: t.score_ids([[3]], [[3, EOS_ID]]), ["targets[0]", 1, 2, 10]),
        (lambda t: t.align_ids([[11]], [[3]]), ["sources[0]", 11, 1, 10]),
        (lambda t: t.align_ids([[3]], [[EOS_ID, 3]]), ["targets[0]", 1, 2, 10]),
        (lambda t: t.translate(["a"], token_scores=True, shortlist=True), ["token_scores", "shortlist"]),
    ],
)
def test_ids_that_no_text_has_are_refused_in_one_line(translator, call, about):
    with refused(*about):
        call(translator)


def test_what_does_not_read_text_is_not_given_any():
    picture = FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1))
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    spec = ProblemSpec(name="letters", features={"inputs": picture, "targets": targets})
    with refused("letters", "image,", "--decode_from_file,"):
        translator_of(letters(), spec=spec, num_hidden_layers=1).translate(TEXTS)


def test_ids_that_a_model_does_not_read_are_not_checked(translator, continuer):
    assert translator.request([[3, EOS_ID, 4]]).rows, "an example of generated data may hold it"
    assert continuer.score_ids([[99]], [[3]]) == continuer.score_ids([()], [[3]])


@pytest.mark.parametrize(
    ("call", "about"),
    [
        (lambda t: t.translate_ids([[11]]), ["sentences[0]", 11, 1, 10]),
        (lambda t: t.translate(["a"], prefixes=["b"]), ["prefixes", "letters_alone"]),
        (lambda t: t.translate(["a"], token_scores=True), ["token_scores"]),
    ],
)
def test_what_a_language_model_cannot_do_is_refused(continuer, call, about):
    with refused(*about, by=UserError):
        call(continuer)
