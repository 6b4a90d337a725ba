"""A served model gives the same outputs as the translator: text, classes, language models, inputs other than text.

Legend: B inputs, K hypotheses, T ids of an output.
"""

import numpy as np
import pytest
import tensorflow as tf

from t2t.formats.exporter import ExportJob, Trial
from t2t.formats.saved_model.served import Served
from t2t.formats.saved_model.write import SavedModelExport
from t2t.inference.rows import padded
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.problems.parsing import ParsingTrees
from t2t.search.result import NO_HYPOTHESIS
from t2t.specs.constraints import ANYTHING
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.encoder import LanguageMarks
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.letters import TEXTS, WORDS, letters, letters_alone, marked_letters, moods, translator_of

pytestmark = pytest.mark.slow

DECODING = {"max_input_length": 7}


@pytest.fixture(scope="module")
def translator():
    return translator_of(letters(), decoding=DECODING)


@pytest.fixture(scope="module")
def signatures(translator):
    return Served(translator, 2).signatures()


def strings(array):
    return [[text.decode() for text in row] for row in array.numpy()]


def test_texts_and_scores_are_those_of_the_translator(translator, signatures):
    found = signatures["serving_default"](text=tf.constant(TEXTS))
    expected = translator.translate(TEXTS, 2)
    assert strings(found["outputs"]) == [[one.text for one in row] for row in expected]
    np.testing.assert_allclose(found["scores"], [[one.score for one in row] for row in expected], rtol=1e-5)


def test_ids_are_those_of_the_translator(translator, signatures):
    rows = translator.encode(TEXTS)
    found = {name: value.numpy() for name, value in signatures["ids"](inputs=padded(rows)).items()}
    expected = translator.translate_ids(rows, 2)
    for b, row in enumerate(expected):
        ids = [tuple(found["ids"][b, k, : found["lengths"][b, k]].tolist()) for k in range(2)]
        assert ids == [one.ids for one in row]
    np.testing.assert_allclose(found["log_probs"], [[one.log_prob for one in row] for row in expected], rtol=1e-5)


def test_white_space_has_an_empty_output_that_is_certain(signatures):
    found = signatures["serving_default"](text=tf.constant(["", " \t", "a", "\u3000"]))
    blank = [0, 1, 3]
    assert [strings(found["outputs"])[b] for b in blank] == [["", ""]] * 3
    np.testing.assert_array_equal(found["scores"].numpy()[blank], np.float32([[0.0, NO_HYPOTHESIS]] * 3))
    assert strings(found["outputs"])[2][0] != ""


def test_what_is_no_utf8_is_replaced_and_nul_removed(signatures):
    given = signatures["serving_default"](text=tf.constant([b"a \xff\0", "a \ufffd".encode()]))
    assert strings(given["outputs"])[0] == strings(given["outputs"])[1]


def test_long_texts_are_cut_as_the_decoder_cuts_them(translator, signatures):
    long = " ".join("abcdefgh" * 3)
    found = signatures["serving_default"](text=tf.constant([long, long[:11], long[:13], " " * 99]))
    cut = found["scores"].numpy()
    assert found["cut_inputs"].numpy().tolist() == [True, False, True, False]
    expected = [[one.cut for one in row] for row in translator.translate([long, long[:11], long[:13]], 2)]
    assert found["cut_outputs"].numpy().tolist() == [*expected, [False, False]]
    assert translator.longest_input == 6
    np.testing.assert_allclose(cut[0], cut[1], rtol=1e-6)
    np.testing.assert_allclose(cut[0], cut[2], rtol=1e-6)


def test_a_batch_is_as_its_texts_alone(signatures):
    serve = signatures["serving_default"]
    together = strings(serve(text=tf.constant(TEXTS))["outputs"])
    assert together == [strings(serve(text=tf.constant([text]))["outputs"])[0] for text in TEXTS]


def check_empty(signatures):
    """An empty batch has an empty answer, in all signatures."""
    for name, given in (
        ("serving_default", {"text": tf.constant([], tf.string)}), ("score", {"text": tf.constant([], tf.string)}),
        ("ids", {"inputs": tf.zeros([0, 0], tf.int32)}),
    ):  # fmt: skip
        if name in signatures:
            assert {len(value) for value in signatures[name](**given).values()} == {0}, name


def test_an_empty_batch_has_an_empty_answer(signatures):
    check_empty(signatures)


@pytest.mark.parametrize(
    "marks",
    [
        LanguageMarks(input_start=(4,)),
        LanguageMarks(input_start=(4,), output_start=(6,)),
        LanguageMarks(input_end=(5,), output_start=(3, 6)),
    ],
    ids=["tag", "codes in front", "code behind the end"],
)
def test_languages_stand_around_texts_as_the_translator_puts_them(marks):
    translator = translator_of(marked_letters(marks), decoding=DECODING)
    signatures, texts = Served(translator, 2).signatures(), [*TEXTS, " ".join("abcdefgh" * 3)]
    expected = translator.translate(texts, 2)
    found = signatures["serving_default"](text=tf.constant(texts))
    assert strings(found["outputs"]) == [[one.text for one in row] for row in expected]
    np.testing.assert_allclose(found["scores"], [[one.score for one in row] for row in expected], rtol=1e-5)
    rows = translator.encode(texts)
    found = {name: value.numpy() for name, value in signatures["ids"](inputs=padded(rows)).items()}
    ids = [
        [tuple(row[:size].tolist()) for row, size in zip(*of, strict=True)]
        for of in zip(found["ids"], found["lengths"], strict=True)
    ]
    assert ids == [[one.ids for one in row] for row in expected]
    assert all(one[: len(marks.output_start)] == marks.output_start for row in ids for one in row)


@pytest.mark.parametrize(
    ("marks", "is_said"), [(LanguageMarks(input_start=(4,)), True), (LanguageMarks(input_end=(5,)), False)]
)
def test_the_readme_names_the_mark_that_ids_begin_with(tmp_path, marks, is_said):
    translator = translator_of(marked_letters(marks), decoding=DECODING)
    usage = SavedModelExport(translator, ExportJob(folder=tmp_path, format="saved_model")).usage()
    assert "The languages are fixed: those of the run, or those that t2t-exporter was given." in usage
    assert (" The inputs of `ids` begin with their mark, 4.\n" in usage) == is_said


def test_a_language_model_goes_on_and_scores():
    translator = translator_of(letters_alone(), decoding=DECODING)
    signatures = Served(translator, 2).signatures()
    texts = ["a b", "", "c d e"]
    expected = translator.translate(texts, 2)
    found = signatures["serving_default"](text=tf.constant(texts))
    assert strings(found["outputs"]) == [[one.text for one in row] for row in expected]
    scores = signatures["score"](text=tf.constant(texts))["log_probs"]
    np.testing.assert_allclose(scores, translator.score([("", text) for text in texts]), rtol=1e-5)
    check_empty(signatures)
    with refused("7", by=tf.errors.InvalidArgumentError):
        signatures["score"](text=tf.constant(["a b c d e f g"]))


def test_classes_have_names_and_probabilities():
    translator = translator_of(moods(), TransformerEncoder)
    signatures = Served(translator, 3).signatures()
    check_empty(signatures)
    found = signatures["serving_default"](text=tf.constant(TEXTS))
    expected = translator.translate(TEXTS, 3)
    assert strings(found["classes"]) == [[one.text for one in row] for row in expected]
    np.testing.assert_allclose(found["scores"], [[one.score for one in row] for row in expected], rtol=1e-5)
    np.testing.assert_allclose(found["probabilities"].numpy().sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        (FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1)), np.arange(48, dtype=np.uint8).reshape(4, 3, 4, 1)),
        (
            FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=400),
            np.sin(np.arange(400, dtype=np.float32)).reshape(2, 200),
        ),
        (FeatureSpec(kind=FeatureKind.VIDEO, shape=(3, 4, 1)), np.arange(1, 73, dtype=np.uint8).reshape(2, 3, 3, 4, 1)),
    ],
    ids=["pictures", "sound", "clips"],
)
def test_inputs_that_are_no_text_are_given_as_they_are(spec, rows):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    spec = ProblemSpec(name="letters", features={"inputs": spec, "targets": targets})
    translator = translator_of(letters(), spec=spec)
    signatures = Served(translator).signatures()
    expected = translator.translate_ids(list(rows))
    assert len(signatures["serving_default"](inputs=tf.constant(rows[:0]))["outputs"]) == 0
    found = signatures["serving_default"](inputs=tf.constant(rows))
    assert strings(found["outputs"]) == [[one.text for one in row] for row in expected]
    ids = signatures["ids"](inputs=tf.constant(rows))
    assert [tuple(row[0, : n[0]]) for row, n in zip(ids["ids"].numpy(), ids["lengths"].numpy(), strict=True)] == [
        row[0].ids for row in expected
    ]


def test_what_is_saved_is_compared_by_every_signature(translator, tmp_path):
    made = SavedModelExport(translator, ExportJob(folder=tmp_path, format="saved_model", n_best=2))
    made.write(tmp_path)
    found = made.verify(tmp_path, Trial(translator.encode(TEXTS), TEXTS))
    identical = {name: parity.identical for name, parity in found.items()}
    assert identical == {"serving_default": 6, "ids": 6, "texts of ids": 6}


def test_more_outputs_than_the_beam_has_are_refused(translator, tmp_path):
    with refused("n_best=4:", "3", "1"):
        SavedModelExport(translator, ExportJob(folder=tmp_path, format="saved_model", n_best=4))


def test_outputs_that_a_problem_keeps_to_trees_are_trees():
    problem = ParsingTrees()
    problem.name = "parsing_trees"
    labels = TokenEncoder(["NP", "/NP", "NN", "S", "/S"])
    translator = translator_of(problem.with_encoders({"inputs": WORDS, "targets": labels}), decoding=DECODING)
    found = Served(translator, 2).signatures()
    texts = ["a", "b  c d ", "a b c d e f g h", "never seen"]
    expected = [[labels.decode(one.ids) for one in row] for row in translator.translate(texts, 2)]
    assert strings(found["serving_default"](text=tf.constant(texts))["outputs"]) == expected
    for text, outputs in zip(texts[:2], expected, strict=False):
        assert not any(problem.finish(text, output).repaired for output in outputs)
    ids = found["ids"](inputs=padded(translator.encode(texts)))["ids"].numpy()
    assert [[labels.decode(row.tolist()) for row in rows] for rows in ids] == expected


class OddTrees(ParsingTrees):
    """Trees with other constraints."""

    name, found = "odd_trees", None

    def constraint(self, source):
        return self.found


@pytest.mark.parametrize("constraint", [ANYTHING, None])  # None for this input says nothing of others
def test_constraints_that_only_python_can_make_are_refused(constraint):
    problem = OddTrees().with_encoders({"inputs": WORDS, "targets": TokenEncoder(["NP", "/NP", "NN", "S", "/S"])})
    problem.found = constraint
    with refused("odd_trees:", "Python"):
        Served(translator_of(problem, decoding=DECODING), 2)


def test_white_space_of_sentences_is_one_space():
    """`positions=words` counts it as words otherwise; other spaces, as in the last text, are part of a word."""
    spaced = ["the dog", "the  dog", " the dog ", "the\t\u3000dog", "\r the \v\fdog\n", "the\u00a0dog"]
    pieces = SentencePieceEncoder.build(["the dog runs"] * 3, 300)
    problem = ParsingTrees().with_encoders({"inputs": pieces, "targets": TokenEncoder(["NP", "/NP", "NN", "S", "/S"])})
    translator = translator_of(problem, positions="words", read_next_word=True, num_hidden_layers=1)
    found = Served(translator, 2).signatures()["serving_default"](text=tf.constant(spaced))
    expected = translator.translate(spaced, 2)
    assert strings(found["outputs"]) == [[problem.decode_target(one.ids) for one in row] for row in expected]
    np.testing.assert_allclose(found["scores"], [[one.score for one in row] for row in expected], rtol=1e-5)
    np.testing.assert_allclose(found["scores"][1:5], np.repeat(found["scores"][:1], 4, axis=0), rtol=1e-5)
