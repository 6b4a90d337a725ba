"""Problems with letters as tokens, and translators of small models on them, for tests that serve models."""

import dataclasses

import numpy as np

from t2t.hparams.groups import MASK_PREDICT, DecodeHParams
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.problems.languages import Languages
from t2t.problems.text_problems import Text2Class, Text2Self, Text2Text
from t2t.specs import EOS_ID, INPUTS, TARGETS
from t2t.text.encoder import LanguageMarks
from t2t.text.label import LabelEncoder
from t2t.text.words import TokenEncoder
from tests.builders import numpy, randomise, tiny_hparams

WORDS = TokenEncoder("abcdefgh")
TEXTS = ["a b c", "d", "h g f e d c b a", "a b c d", "e  e e ", "never seen"]


class Letters(Text2Text):
    """Letters to letters."""

    name = "letters"

    def generate_samples(self, split, source):
        raise NotImplementedError


class FixedMarks(Languages):
    """Languages of a problem that says its marks itself."""

    def marks(self, encoders=None):
        return self._problem.marks


class MarkedLetters(Letters):
    """Letters to letters, with ids around them that stand for languages."""

    marks = LanguageMarks()

    @property
    def languages(self):
        return FixedMarks(self)


def marked(**marks):
    """Returns letters to letters with vocabularies, and with fields of `LanguageMarks`."""
    return marked_letters(LanguageMarks(**marks))


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
    problem = MarkedLetters().with_encoders({"inputs": encoder, "targets": encoder})
    problem.marks = marks
    return problem


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


def build(problem_class, seed=7, words=WORDS, positions="sinusoidal", model_class=Transformer, **decoding):
    """Returns a translator of a model of one layer with random weights, some of whose outputs end.

    The weights are so large that no two outputs have equal scores.
    """
    problem = problem_class()
    problem.with_encoders(dict.fromkeys(problem.text_features, words))
    hparams = TransformerHParams(
        hidden_size=8, filter_size=12, num_heads=2, num_hidden_layers=1, max_length=12, positions=positions,
        layer_prepostprocess_dropout=0.0,
    )  # fmt: skip
    model = enlarge(model_class(hparams, problem.spec()), seed)
    return Translator(problem, model, DecodeHParams(**{"extra_length": 5, "beam_size": 3, **decoding}))


def enlarge(model, seed):
    """Gives the matrices of a model random weights that are so large that its outputs vary."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        if len(variable.shape) > 1:
            variable.assign(rng.normal(0.0, 0.9, variable.shape))
    return model


def sharing(translator, problem=None, **decoding):
    """Returns a translator with the model and the compiled searches of another, for a problem of the same features."""
    hparams = dataclasses.replace(translator.hparams, **decoding)
    other = Translator(problem or translator.problem, translator.model, hparams, engine=translator.engine)
    other.model_engine = translator.model_engine
    return other


def log_probs_by_hand(translator, target_ids, source_ids=None):
    """Returns ln p of each target id given those before it: one forward pass, softmax in numpy."""
    features = {TARGETS: np.array([target_ids], np.int32)}
    if source_ids is not None:
        features[INPUTS] = np.array([source_ids], np.int32)
    logits_TV = np.asarray(translator.model(features))[0].astype(np.float64)
    log_probs_TV = logits_TV - np.log(np.exp(logits_TV).sum(axis=-1, keepdims=True))
    return log_probs_TV[np.arange(len(target_ids)), target_ids]


def fast_of(translator, folder, compute_type="float32", longest=40, patience=1):
    """Returns the same translator on CTranslate2, converted into a folder."""
    from t2t.inference.ctranslate2.conversion import TokenLists, write_model
    from t2t.inference.ctranslate2.engine import CTranslate2Engine

    tokens = TokenLists.of_encoders(translator.problem.encoders)
    folder.mkdir(exist_ok=True)
    write_model(folder, translator.model, tokens, longest)
    most = translator.model.longest_sequence
    engine = CTranslate2Engine(folder, tokens, longest, most, compute_type, patience=patience)
    fast = Translator(translator.problem, translator.model, translator.hparams, engine=engine)
    fast.model_engine = translator.model_engine
    return fast
