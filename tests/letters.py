"""Problems with letters as tokens, and translators of small models on them, for tests that serve models."""

from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text
from t2t.specs.constants import EOS_ID
from t2t.text.label import LabelEncoder
from t2t.text.token import TokenEncoder
from tests.builders import numpy, randomise, tiny_hparams

WORDS = TokenEncoder("abcdefgh")
TEXTS = ["a b c", "d", "h g f e d c b a", "a b c d", "e  e e ", "never seen"]


class Letters(Text2Text):
    """Letters to letters."""

    name = "letters"

    def generate_samples(self, split, source):
        raise NotImplementedError


class LettersAlone(Text2Self):
    """Letters without inputs."""

    name = "letters_alone"

    def generate_samples(self, split, source):
        raise NotImplementedError


class Moods(Text2Class):
    """Letters to one of three classes."""

    name, class_labels = "moods", ("good", "bad", "so so")

    def generate_samples(self, split, source):
        raise NotImplementedError


def letters(inputs=WORDS):
    """Letters to letters, with vocabularies."""
    return Letters().with_encoders({"inputs": inputs, "targets": WORDS})


def marked_letters(marks, encoder=WORDS):
    """Letters to letters with the marks of languages around texts."""

    class MarkedLetters(Letters):
        def language_marks(self, encoders=None):
            return marks

    return MarkedLetters().with_encoders({"inputs": encoder, "targets": encoder})


def letters_alone():
    """Letters without inputs, with a vocabulary."""
    return LettersAlone().with_encoders({"targets": WORDS})


def moods():
    """Letters to classes, with vocabularies."""
    return Moods().with_encoders({"inputs": WORDS, "targets": LabelEncoder(Moods.class_labels)})


def translator_of(problem, model_class=Transformer, hparams=None, spec=None, decoding=(), **changes):
    """Returns a translator of a model with random weights that seldom selects the end of sequence."""
    model = randomise(model_class(hparams or tiny_hparams(**changes), spec or problem.spec()), 5)
    if model.target_embedding is not None and model.autoregressive:
        table = numpy(model.target_embedding.table)
        table[EOS_ID] = 0.0
        model.target_embedding.table.assign(table)
    search = {"decode_method": MASK_PREDICT} if model_class.mask_predicts else {"beam_size": 3}
    return Translator(problem, model, DecodeHParams(**{"extra_length": 5, **search, **dict(decoding)}))
