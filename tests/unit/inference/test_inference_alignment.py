"""Alignments of whole models, and the coverage penalty, against the attention of single sentences; words of tokens.

Legend: L layers, H heads, T target length, S source length.
"""

import dataclasses
import functools
import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.files.pharaoh import format_links
from t2t.hparams.groups import DecodeHParams
from t2t.inference.alignment import renumber_links, replace_words, word_links, word_numbers, word_numbers_in
from t2t.inference.attention import ENCODER_DECODER, attention_maps
from t2t.inference.files.scoring import align_file
from t2t.inference.files.windows import FileJob
from t2t.inference.translator import Translator
from t2t.models.ensemble import Ensemble
from t2t.registry import MODELS
from t2t.specs import EOS_ID, UNK_ID
from t2t.text.byte import ByteEncoder
from t2t.text.imported import PieceTableEncoder, pieces_of_model
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.words import TokenEncoder
from tests.builders import numpy
from tests.errors import refused
from tests.letters import TEXTS, WORDS, Letters, letters, letters_alone, moods, sharing, translator_of
from tests.small_models import small_hparams
from tests.unit.text.test_text_piece_table import model_of

# === From weights between tokens to links between words ===

LINES = ["der Hund läuft, und der Hund schläft", "the dog runs; the dog sleeps", "中文 und (kurz) gesagt"] * 30
ENCODERS = {
    "sentencepiece": SentencePieceEncoder.build(LINES, 300),
    "subword": SubwordEncoder.build(LINES, 90),
    "byte": ByteEncoder(),
}
MODEL = model_of(["la vie de l homme", "l homme est la"] * 5)
NORMALIZING = PieceTableEncoder(MODEL, ["<pad>", "</s>", "<unk>", *pieces_of_model(MODEL)[0][3:]])
"""Its model's NFKC rules write some signs as spaces."""
WRITTEN = st.text("abcläu中,;()1_", min_size=1, max_size=6)
SPACES = st.sampled_from([" ", "  ", "\t", "\u3000", " \u3000", "\u00a0 "])


@pytest.mark.parametrize("kind", ENCODERS)
@given(words=st.lists(WRITTEN, min_size=1, max_size=6), spaces=st.lists(SPACES, min_size=7, max_size=7))
def test_the_tokens_of_a_word_spell_it_whatever_the_pieces_and_spaces(kind, words, spaces):
    encoder = ENCODERS[kind]
    text = spaces[0] + "".join(word + space for word, space in zip(words, spaces[1:], strict=False))
    ids = encoder.encode(text)
    numbers = word_numbers(encoder, [*ids, EOS_ID])
    assert len(numbers) == len(ids)
    assert (np.diff(numbers) >= 0).all()
    for number, word in enumerate(words):
        assert encoder.decode([ids[place] for place in np.flatnonzero(numbers == number)]).strip() == word


def test_tokens_of_words_are_numbered_one_by_one():
    encoder = TokenEncoder(["a", "b"])
    assert word_numbers(encoder, [*encoder.encode("b a x b"), EOS_ID, 0]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("ids", [[], [EOS_ID], [*ByteEncoder().encode(" \t "), EOS_ID]])
def test_a_text_without_words_has_no_tokens_of_words(ids):
    assert word_numbers(ByteEncoder(), ids).tolist() == []


@pytest.mark.parametrize(
    "text", ["la l\u00b4homme la", "vie\u00a8 la", "a\u200bb homme", "\u00ad la vie", "vie\u00a8", "la"]
)
def test_words_of_a_text_are_counted_where_normalization_makes_others(text):
    """Tokens of the first n words are those of the text that ends there."""
    encoder, words = NORMALIZING, text.split()
    numbers = word_numbers_in(text, encoder, encoder.encode(text))
    assert set(numbers) <= set(range(len(words)))
    for count in range(1, len(words) + 1):
        begun = encoder.encode(" ".join(words[:count]))
        assert (numbers < count).sum() == len(begun)


def test_tokens_without_a_word_of_the_text_are_left_out():
    assert word_numbers_in("", NORMALIZING, [3, 4]).tolist() == []
    cut = NORMALIZING.encode("la l\u00b4homme la")[:3]
    assert word_numbers_in("la l\u00b4homme la", NORMALIZING, cut).max() == 1


def test_weights_of_pieces_are_added_up():
    """Two words of the output, of two pieces and one, and two of the input, of one piece and two; then both ends.

    The first piece of the output looks most at the first word by itself (0.4), but both pieces together give
    0.4 + 0.1 = 0.5 to the first word and 0.2 + 0.2 + 0.3 + 0.4 = 1.1 to the second; the last looks most at the end of
    the input (0.6), which is no word, and of the words more at the first (0.3).
    """
    weights = np.array([[0.4, 0.2, 0.2, 0.2], [0.1, 0.3, 0.4, 0.2], [0.3, 0.05, 0.05, 0.6], [0.0, 0.0, 0.0, 1.0]])
    assert word_links(weights, np.array([0, 1, 1]), np.array([0, 0, 1])) == ((0, 1), (1, 0))


def test_equal_weights_are_linked_to_the_earlier_word():
    assert word_links(np.full((2, 3), 0.25), np.array([0, 1, 2]), np.array([0, 1])) == ((0, 0), (0, 1))


def test_without_words_on_a_side_there_are_no_links():
    none, one = np.zeros(0, int), np.zeros(1, int)
    assert word_links(np.ones((1, 1)), none, one) == word_links(np.ones((1, 1)), one, none) == ()


def test_a_replaced_word_is_translated_where_the_dictionary_has_it():
    text, source = "<unk> in <unk> .", "Anna wohnt in Rom ."
    assert replace_words(text, source, ((0, 0), (3, 2)), {"Rom": "Rome"}) == ["Anna", "in", "Rome", "."]
    assert replace_words(text, source, (), {"Rom": "Rome"}) == text.split()


def test_links_follow_words_that_became_several_or_none():
    links, words = ((0, 0), (1, 1), (2, 2), (3, 3)), ["New York", "b", "", "c"]
    assert renumber_links(links, words) == ((0, 0), (0, 1), (1, 2), (3, 3))


# === Alignments of whole models ===

SLOW = (
    "lstm_seq2seq_attention", "gnmt", "deep_att", "conv_s2s", "slice_net", "lstm_moe", "universal_transformer",
    "evolved_transformer",
)  # fmt: skip
BETA = 0.7


@pytest.fixture(scope="module")
def translator(letters_translator):
    return letters_translator


@pytest.fixture(scope="module")
def two_layers():
    """Two layers, of which one may be chosen."""
    return translator_of(letters())


@functools.cache
def translator_named(name, **variant):
    """Returns a translator of a small registered model, that no test changes."""
    if name == "universal_transformer":
        variant = {"recurrence_type": "act", "act_max_steps": 3}
    model_class = MODELS.get(name)
    return translator_of(letters(), model_class, small_hparams(model_class, variant), decoding={"min_output_length": 4})


def source_weights(model, text, output):
    """Returns attention weights (L, H, T, S) of words only, from a pass over a single sentence."""
    seen = attention_maps(model, [*WORDS.encode(text), EOS_ID], output.ids, {})[ENCODER_DECODER]
    return seen.weights[:, :, : len(output.text.split()), : len(text.split())]


def check(found, weights_TS):
    """Checks that every output word is linked to the input word with the highest weight."""
    assert found.alignment == tuple(sorted((int(row.argmax()), place) for place, row in enumerate(weights_TS)))


@pytest.mark.parametrize("name", ["transformer", *[pytest.param(name, marks=pytest.mark.slow) for name in SLOW]])
def test_each_word_is_linked_to_what_it_looks_at_most_whatever_is_in_the_batch(two_layers, name):
    translator = two_layers if name == "transformer" else translator_named(name)
    found = translator.translate(TEXTS, 3, alignments=True)
    in_small_batches = translator.translate(TEXTS, 3, alignments=True, decode_batch_size=30)
    for plain in (translator.translate(TEXTS, 3), in_small_batches):
        for one, other in zip(chain(*found), chain(*plain), strict=True):
            assert (one.ids, one.text) == (other.ids, other.text)
            assert other.alignment == (one.alignment if plain is in_small_batches else None)
    for text, hypotheses in zip(TEXTS, found, strict=True):
        for one in hypotheses[:2]:
            weights = source_weights(translator.model, text, one)
            check(one, weights[max(len(weights) - 2, 0)].mean(axis=0))
    assert len({one.alignment for (one, *_) in found}) > 3, "the alignments differ, or this shows nothing"


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("transformer", {}),
        ("transformer", {"input_end": False}),
        *(pytest.param(name, {}, marks=pytest.mark.slow) for name in ("conv_s2s", "gnmt")),
    ],
)
def test_scores_hold_the_coverage_penalty_of_the_attention_whatever_is_in_the_batch(translator, name, variant):
    translator = translator if name == "transformer" and not variant else translator_named(name, **variant)
    for weight in translator.model.weights if variant else ():
        if weight.path.endswith("query_kernel"):
            weight.assign(weight * 20.0)  # heads look at single words, so that some are left out
    changes = {"coverage_penalty": BETA, "alpha": 0.6, "extra_length": 0, "min_output_length": 1}
    penalties = []  # of outputs that are short enough to leave words of their inputs out
    for text, found in zip(TEXTS, translator.translate(TEXTS, 3, **changes), strict=True):
        for best in found[:2]:
            seen = attention_maps(translator.model, [*WORDS.encode(text), EOS_ID], best.ids, {})[ENCODER_DECODER]
            coverage_S = seen.weights.mean(axis=(0, 1)).sum(axis=0)
            coverage_S = coverage_S[:-1] if variant else coverage_S
            penalties.append(BETA * np.log(np.minimum(coverage_S + 1e-6, 1.0)).sum())
            expected = best.log_prob / ((5 + len(best.ids)) / 6) ** 0.6 + penalties[-1]
            assert best.score == pytest.approx(expected, rel=1e-3, abs=1e-3)
            assert math.isfinite(best.score)
    assert min(penalties) < -0.05, "or this shows nothing"


def test_a_layer_and_a_head_can_be_chosen(two_layers):
    found = two_layers.translate(TEXTS, 3, alignments=True, alignment_layer=2, alignment_head=1)
    for text, (one, *_) in zip(TEXTS, found, strict=True):
        check(one, source_weights(two_layers.model, text, one)[1, 0])


def test_an_ensemble_averages_its_members(translator):
    model = Ensemble([translator.model, translator_named("lstm_seq2seq_attention").model])
    found = Translator(translator.problem, model, translator.hparams).translate(TEXTS, alignments=True, beam_size=1)
    for text, (one,) in zip(TEXTS, found, strict=True):
        check(one, sum(source_weights(each, text, one)[0].mean(axis=0) for each in model.members))


def test_with_ctranslate2_the_alignments_are_the_same(letters_translator, letters_fast):
    asked = {"decode_method": "greedy", "alignments": True}
    expected = [one.alignment for (one,) in letters_translator.translate(TEXTS, **asked)]
    assert [one.alignment for (one,) in letters_fast.translate(TEXTS, **asked)] == expected


def test_an_input_that_is_cut_is_aligned_as_far_as_it_is_read(translator):
    (one, *_) = translator.translate(["a b c d e f"], 3, alignments=True, max_input_length=3)[0]
    (expected, *_) = translator.translate(["a b"], 3, alignments=True)[0]
    assert one.alignment == expected.alignment


# === Given pairs ===
def test_words_are_those_of_given_texts_also_if_normalization_makes_others(tmp_path):
    problem = Letters().with_encoders({"inputs": NORMALIZING, "targets": NORMALIZING})
    translator = translator_of(problem, spec=problem.spec())
    (links,) = translator.align([("la l\u00b4homme la", "vie\u00a8 la")])
    assert [target for _, target in sorted(links, key=lambda link: link[1])] == [0, 1]
    assert {source for source, _ in links} <= {0, 1, 2}
    (tmp_path / "in").write_text("la l\u00b4homme la\tvie\u00a8 la\n")
    align_file(translator, FileJob(source=str(tmp_path / "in"), target=str(tmp_path / "out")))
    assert (tmp_path / "out").read_text() == format_links(links) + "\n"


def test_outputs_of_the_model_have_the_same_alignments_when_they_are_given(translator):
    found = [one for (one,) in translator.translate(TEXTS, alignments=True, decode_method="greedy")]
    aligned = translator.align([(text, one.text) for text, one in zip(TEXTS, found, strict=True)])
    assert aligned == [one.alignment for one in found]
    assert not all(one.ids[-1] == EOS_ID for one in found), "also of outputs that are as long as they may be"
    assert translator.align([]) == []


def test_a_file_of_pairs_gets_a_line_for_each(translator, tmp_path):
    limited = sharing(translator, max_input_length=6)
    pairs = [("a b c", "d e"), ("", "a"), ("a", ""), ("a b c d e f g", "b c"), ("a", "a b c d e f g")]
    (tmp_path / "in").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    report = align_file(limited, FileJob(source=str(tmp_path / "in"), target=str(tmp_path / "out"), window=2))
    links = [format_links(found) for found in limited.align(pairs[:4])]
    assert (tmp_path / "out").read_text().split("\n") == [*links, "", ""]
    assert links[1:3] == ["", ""]
    assert (report.cut.first, report.unscored.first, len(report.warnings("6 ids"))) == ([4], [5], 2)
    assert report.speed().startswith("aligned 5 lines in ")


def test_a_file_of_a_model_without_attention_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "in").write_text("a\tb\n")
    with refused("alignments", "lstmseq2seq"):
        align_file(translator_named("lstm_seq2seq"), FileJob(source=str(tmp_path / "in"), target=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


# === What is refused ===
class Rewriting(Letters):
    finishes = True


@pytest.mark.parametrize(
    ("build", "about"),
    [
        (lambda: translator_named("lstm_seq2seq"), ["lstmseq2seq"]),
        (lambda: translator_of(letters_alone()), ["letters_alone"]),
        (lambda: translator_of(moods(), MODELS.get("transformer_encoder")), ["moods", "label"]),
        (lambda: translator_of(Rewriting().with_encoders(letters().encoders)), ["letters"]),
    ],
)
def test_a_model_without_words_to_link_is_refused_before_it_decodes(build, about):
    translator = build()
    for changes in ({"alignments": True}, {"replace_unknown": True}):
        with refused("alignments", *about):
            translator.settings(**changes)


@pytest.mark.parametrize("name", ["alignment_layer", "alignment_head"])
def test_a_layer_or_head_that_is_not_there_is_refused(two_layers, name):
    with refused(f"{name}=3", 1, 2, 0):
        two_layers.settings(alignments=True, **{name: 3})


def test_coverage_of_a_model_without_attention_is_refused():
    with refused("coverage_penalty=0.2"):
        translator_named("lstm_seq2seq").translate(["a b"], coverage_penalty=0.2)


# === Unknown words ===
@pytest.fixture(scope="module")
def unknown_writer():
    """A translator that often writes unknown words."""
    translator = translator_of(letters(), decoding={"replace_unknown": True, "alignments": True})
    table = translator.model.target_embedding.table
    rows = numpy(table)
    rows[UNK_ID] = 1.5 * rows[WORDS.encode("c")[0]]  # c is its most frequent word
    table.assign(rows)
    return translator


def test_unknown_words_become_the_words_that_they_look_at_or_their_translations(unknown_writer):
    translator, texts = sharing(unknown_writer), ["a strange b", "new words", "c d e unheard f"]
    translator.unknown_dictionary = {"strange": "STRANGE", "b": "two words"}
    plain = translator.translate(texts, 2, replace_unknown=False)
    replaced = translator.translate(texts, 2)
    changed = 0
    for text, before, after in zip(texts, plain, replaced, strict=True):
        for old, new in zip(before, after, strict=True):
            source_of = {target: text.split()[source] for source, target in old.alignment}
            expected = [
                translator.unknown_dictionary.get(source_of[place], source_of[place]) if word == "<unk>" else word
                for place, word in enumerate(old.text.split())
            ]
            links = renumber_links(old.alignment, expected)
            assert new == dataclasses.replace(old, text=" ".join(expected), alignment=links)
            changed += new.text != old.text
    assert changed


def test_without_texts_unknown_words_of_an_input_stay_unknown(unknown_writer):
    """Ids do not tell which word was unknown."""
    ids = unknown_writer.encode(["a b", "strange"])
    known, unknown = unknown_writer.translate_ids(ids, 2)
    from_text = unknown_writer.translate(["a b"], 2)[0]
    assert [(one.text, one.alignment) for one in known] == [(one.text, one.alignment) for one in from_text]
    assert set(unknown[0].text.split()) <= {*"abcdefgh", "<unk>"}


def test_a_vocabulary_that_can_spell_every_word_is_refused():
    pieces = SentencePieceEncoder.build(["a b c d e f g h"] * 20, 270)
    problem = Letters().with_encoders({"inputs": pieces, "targets": pieces})
    kinds = ("sentencepiece", "token", "piece_table", "bpe", "word_list")
    with refused("replace_unknown", *kinds):
        translator_of(problem, spec=problem.spec()).settings(replace_unknown=True)


def test_a_dictionary_is_part_of_what_decides_the_outputs(translator):
    fingerprints = set()
    for dictionary in ({}, {"a": "b"}, {"a": "c"}):
        other = sharing(translator)
        other.unknown_dictionary = dictionary
        fingerprints.add(other.fingerprint())
    assert len(fingerprints) == 3


def test_the_hparams_are_off_by_default():
    assert not DecodeHParams().alignments
    assert not DecodeHParams().replace_unknown
