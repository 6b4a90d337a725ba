"""Random inputs made from a run alone: texts of its vocabulary, images, sound."""

import numpy as np
import pytest

from t2t.export.made_inputs import MOST_PIECES, example_text, make_inputs, make_texts
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.byte import ByteEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from tests.letters import WORDS, letters, letters_alone, translator_of

LINES = ["der Hund läuft über die Straße", "zwei Katzen sitzen im Haus 42"] * 20
ENCODERS = {
    "byte": ByteEncoder,
    "token": lambda: WORDS,
    "subword": lambda: SubwordEncoder.build(LINES, 200),
    "sentencepiece": lambda: SentencePieceEncoder.build(LINES, 300),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_texts_are_lines_that_the_vocabulary_has_pieces_for(kind):
    encoder = ENCODERS[kind]()
    texts = make_texts(encoder, 100)
    assert len(texts) == 100
    assert len(set(texts)) > 90
    assert all(text.strip() and "\n" not in text and "\0" not in text for text in texts)
    assert texts == make_texts(encoder, 100)
    ids = [token_id for text in texts for token_id in encoder.encode(text)]
    assert len(set(ids)) > min(50, encoder.vocab_size - 4)
    if kind == "token":
        assert 2 not in ids


def test_they_are_as_long_as_the_model_takes():
    translator = translator_of(letters_alone(), decoding={"max_input_length": 4})
    texts = make_inputs(translator, 50)
    assert {len(ids) for ids in translator.encode(texts)} == {1, 2, 3}


def test_an_example_has_no_unknown_word():
    assert 2 not in WORDS.encode(example_text(translator_of(letters())))
    translator = translator_of(letters(ByteEncoder()))
    assert example_text(translator) == "a text"


@pytest.mark.parametrize(
    ("spec", "dtype", "shape"),
    [
        (FeatureSpec(kind=FeatureKind.IMAGE, shape=(3, 4, 1)), np.uint8, (3, 4, 1)),
        (FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=400), np.float32, None),
        (FeatureSpec(kind=FeatureKind.VIDEO, shape=(3, 4, 1)), np.uint8, None),
    ],
    ids=["images", "sound", "clips"],
)
def test_other_inputs_are_arrays_of_the_problems_kind(spec, dtype, shape):
    targets = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=WORDS.vocab_size)
    translator = translator_of(letters(), spec=ProblemSpec(name="l", features={"inputs": spec, "targets": targets}))
    found = make_inputs(translator, 5)
    assert len(found) == 5
    assert all(one.dtype == dtype for one in found)
    if shape:
        assert all(one.shape == shape for one in found)
    elif spec.kind == FeatureKind.VIDEO:
        assert all(one.shape[1:] == spec.shape and 1 <= len(one) <= MOST_PIECES for one in found)
    else:
        assert all(200 <= len(one) <= 400 and np.abs(one).max() <= 1.0 for one in found)
    assert len({one.tobytes() for one in found}) == 5
