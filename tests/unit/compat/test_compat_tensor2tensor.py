"""Plug-ins as they were written for Tensor2Tensor: what they register, generate and set."""

import copy
import gzip
import pickle
import random
import re
import sys
import tarfile
import wave

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.cli import decoder, trainer
from t2t.cli import eval as eval_command
from t2t.errors import UnknownNameError
from t2t.problems.base import Source
from t2t.registry import HPARAMS, MODELS, REGISTRIES
from t2t.registry.plugins import load_plugins
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from t2t.runs.names import get_problem
from t2t.runs.trained_problems import build_training_batches, cut_reader
from t2t.text.subword import SubwordEncoder
from tests.errors import refused
from tests.generated import epoch_of, examples_of, rows_of
from tests.in_process import call
from tests.reference import tensor2tensor as reference
from tests.registrations import forgotten

HEAD = """
import os
import tensorflow as tf
from tensor2tensor.data_generators import algorithmic, generator_utils, multi_problem, problem, text_encoder
from tensor2tensor.data_generators import text_problems, translate
from tensor2tensor.layers import common_layers, modalities
from tensor2tensor.models import transformer
from tensor2tensor.models.research import universal_transformer
from tensor2tensor.models import lstm
from tensor2tensor.utils import metrics, registry, t2t_model
"""
WORDS = ("red", "green", "blue", "white", "black")


@pytest.fixture(autouse=True)
def _as_before():
    with forgotten(*REGISTRIES):
        yield


@pytest.fixture
def load(tmp_path):
    """Returns a function that loads a plug-in of one file."""

    def load(body, **more):
        folder = tmp_path / "their_plugin"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("from . import problems\n")
        (folder / "problems.py").write_text(HEAD + body)
        for name, source in more.items():
            (folder / f"{name}.py").write_text(source)
        return load_plugins(str(folder))[-1]

    return load


@pytest.fixture
def texts(tmp_path):
    """Returns the examples of generated data: split -> list of (inputs, targets), as texts where they are of ids."""

    def read(name):
        problem = get_problem(name)
        data = open_data(RunConfig(problem=name, data_dir=str(tmp_path / "data")), problem, verify=False)
        encoders = data.problem.encoders
        found = {}
        for split, reader in data.readers.items():
            every = np.arange(len(reader))
            sides = []
            for feature in data.problem.spec().features:
                if reader.is_sequence(feature):
                    values, lengths = reader.read(every, feature)
                    rows = np.split(values, np.cumsum(lengths)[:-1])
                else:
                    rows = reader.single(every, feature)
                sides.append([encoders[feature].decode(row) for row in rows] if feature in encoders else list(rows))
            found[split] = list(zip(*sides, strict=True))
        return found

    return read


def generate(name, tmp_path):
    return t2t.generate_data(name, str(tmp_path / "data"), tmp_dir=str(tmp_path))


COLOURS = """
@registry.register_problem
class TheirColours(text_problems.Text2TextProblem):
  '''Colours.'''
  @property
  def approx_vocab_size(self):
    return 2**7
  @property
  def is_generate_per_split(self):
    return False
  @property
  def dataset_splits(self):
    return [{"split": problem.DatasetSplit.TRAIN, "shards": 3}, {"split": problem.DatasetSplit.EVAL, "shards": 1}]
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    tf.logging.info("reading")
    with tf.gfile.Open(os.path.join(tmp_dir, "words.txt")) as lines:
      for line in lines:
        yield {"inputs": line.strip(), "targets": line.strip().upper()}
"""


def test_samples_that_are_made_at_once_are_dealt_out_to_the_shards_of_all_splits(load, texts, tmp_path):
    lines = [f"{first} {second}" for first in WORDS for second in WORDS]
    (tmp_path / "words.txt").write_text("".join(f"{line}\n" for line in lines))
    plugin = load(COLOURS)
    assert "problem:their_colours" in plugin.registered
    assert generate("their_colours", tmp_path) == {"train": 19, "dev": 6}
    found = texts("their_colours")
    assert found["dev"] == [(line, line.upper()) for line in lines[3::4]]
    assert found["train"] == [(line, line.upper()) for number, line in enumerate(lines) if number % 4 != 3]
    assert (tmp_path / "data/vocab.their_colours.128.subwords").is_file()


def test_a_vocabulary_in_the_data_folder_and_samples_of_ids_are_taken_as_they_are(load, texts, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/words").write_text("".join(f"{word}\n" for word in ("<pad>", "<EOS>", *WORDS, "UNK")))
    load("""
@registry.register_problem("their_ids")
class Ids(text_problems.Text2TextProblem):
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    encoder = self.feature_encoders(data_dir)["inputs"]
    for number, text in enumerate(("red white", "blue purple")):
      yield {"inputs": encoder.encode(text) + [text_encoder.EOS_ID], "targets": [2 + number, text_encoder.EOS_ID]}
  def feature_encoders(self, data_dir):
    encoder = text_encoder.TokenTextEncoder(os.path.join(data_dir, "words"), replace_oov="UNK")
    return {"inputs": encoder, "targets": encoder}
""")
    assert generate("their_ids", tmp_path) == {"train": 2, "dev": 2}
    assert texts("their_ids")["train"] == [("red white", "red"), ("blue UNK", "green")]


def test_classes_and_language_models(load, texts, tmp_path):
    load("""
@registry.register_problem
class TheirClasses(text_problems.Text2ClassProblem):
  @property
  def vocab_type(self):
    return text_problems.VocabType.CHARACTER
  @property
  def num_classes(self):
    return 2
  def class_labels(self, data_dir):
    return ["bad", "good"]
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "so-so " + dataset_split, "label": 1}

@registry.register_problem
class TheirTexts(text_problems.Text2SelfProblem):
  @property
  def vocab_type(self):
    return text_problems.VocabType.CHARACTER
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"targets": "a text" * 100}

@registry.register_problem
class TheirBooks(text_problems.ChoppedTextProblem):
  sequence_length = 4
  vocab_type = text_problems.VocabType.CHARACTER
  def train_text_filepaths(self, tmp_dir):
    return [os.path.join(tmp_dir, "book")]
  dev_text_filepaths = train_text_filepaths
""")
    (tmp_path / "book").write_text("abcdefghij")
    for name in ("their_classes", "their_texts", "their_books"):
        generate(name, tmp_path)
    assert texts("their_classes")["dev"] == [("so-so dev", "good")]
    assert texts("their_texts")["train"] == [("a text" * 100,)]  # longer than training reads by default
    assert texts("their_books")["train"] == [("abcd",), ("efgh",)]


def test_algorithms_and_problems_of_the_first_versions(load, texts, tmp_path):
    load("""
@registry.register_problem
class TheirSums(algorithmic.AlgorithmicProblem):
  num_symbols, train_size, dev_size, train_length, dev_length = 9, 3, 1, 4, 4
  def generator(self, nbr_symbols, max_length, nbr_cases):
    yield from algorithmic.shift_generator(nbr_symbols, 8, max_length, nbr_cases)

@registry.register_problem
class TheirCopies(TheirSums):
  num_symbols, generator = 9, staticmethod(algorithmic.identity_generator)

@registry.register_problem
class TheirReverses(TheirSums):
  num_symbols, generator = 9, staticmethod(algorithmic.reverse_generator)

@registry.register_problem
class TheirOld(problem.Text2TextProblem):
  is_character_level = True
  def generator(self, data_dir, tmp_dir, is_training):
    path, vocab = os.path.join(tmp_dir, "train" if is_training else "dev"), text_encoder.ByteTextEncoder()
    return translate.token_generator(path + ".a", path + ".b", vocab, text_encoder.EOS_ID)
""")
    for name, text in {"train.a": "a", "train.b": "b", "dev.a": "a", "dev.b": "c"}.items():
        (tmp_path / name).write_text(text + "\n")
    numbers = {
        "their_sums": lambda text: text.replace("0", "8"),
        "their_copies": str,
        "their_reverses": lambda text: text[::-1],
    }
    for name in ("their_old", *numbers):
        generate(name, tmp_path)
    for name, expected in numbers.items():
        rows = texts(name)["train"]
        assert rows == [(inputs, expected(inputs)) for inputs, _ in rows]
        assert len(rows) == 3
    assert texts("their_old") == {"train": [("a", "b")], "dev": [("a", "c")]}


DERIVED = """
from tensor2tensor.data_generators import imdb, lm1b, translate_envi

@registry.register_problem
class TheirEnvi(translate_envi.TranslateEnviIwslt32k):
  def source_data_files(self, dataset_split):
    return []

@registry.register_problem
class TheirModel(lm1b.LanguagemodelLm1bCharacters):
  pass

@registry.register_problem
class TheirReviews(imdb.SentimentIMDB):
  vocab_type = text_problems.VocabType.CHARACTER
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "fine", "label": 1}
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    encoder = self.get_or_create_vocab(data_dir, tmp_dir)
    for sample in self.generate_samples(data_dir, tmp_dir, dataset_split):
      yield {"inputs": encoder.encode(sample["inputs"]) + [1], "targets": [sample["label"]], "context": [3, 1]}

@registry.register_problem
class TheirPairs(text_problems.Text2SelfProblem):
  has_inputs, packed_length = True, 256
  vocab_type, oov_token = text_problems.VocabType.TOKEN, "UNK"
  def preprocess_example(self, example, mode, hparams):
    return example
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    path = generator_utils.maybe_download(tmp_dir, "fetched", os.path.join(tmp_dir, "words"))
    generator_utils.maybe_download(data_dir, self.vocab_filename, path)
    yield {"inputs": "red <EOS>", "targets": "blue <EOS>", "context": "black"}
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    next(self.generate_samples(data_dir, tmp_dir, dataset_split))
    return super().generate_encoded_samples(data_dir, tmp_dir, dataset_split)
  def samples_of_split(self, data_dir, tmp_dir, split):
    return self.generate_samples(data_dir, tmp_dir, split)
"""


def test_problems_that_theirs_are_derived_from_and_ids_of_classes(load, texts, tmp_path, caplog):
    load(DERIVED)
    assert (get_problem("their_envi").vocab_size, get_problem("their_model").vocab_kind) == (2**15, "byte")
    generate("their_reviews", tmp_path)
    assert texts("their_reviews")["dev"] == [("fine", "pos")]
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in ("<pad>", "<EOS>", *WORDS, "UNK")))
    generate("their_pairs", tmp_path)
    assert texts("their_pairs")["train"] == [("red", "blue")]
    said = " ".join(record.getMessage() for record in caplog.records)
    assert all(name in said for name in ("packed_length=256", "preprocess_example", "context"))


SEVERAL_LABELS = """
@registry.register_problem
class TheirStress(text_problems.Text2ClassProblem):
  vocab_type, num_classes = text_problems.VocabType.CHARACTER, 3
  def class_labels(self, data_dir):
    return ["_", "no stress"]
  def example_reading_spec(self):
    return {"inputs": tf.VarLenFeature(tf.int64), "targets": tf.VarLenFeature(tf.int64)}, None
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "ab", "labels": [0, 1 if dataset_split == "train" else 3]}
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    encoder = self.get_or_create_vocab(data_dir, tmp_dir)
    for sample in self.generate_samples(data_dir, tmp_dir, dataset_split):
      yield {"inputs": encoder.encode(sample["inputs"]) + [1], "targets": sample["labels"] + [2]}

@registry.register_problem
class TheirNumbers(text_problems.Text2RealProblem):
  vocab_type, ntasks = text_problems.VocabType.CHARACTER, 2
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "a text", "targets": [0.25, -3.0]}

@registry.register_problem
class TheirOwnNumbers(TheirNumbers):
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    return super().generate_encoded_samples(data_dir, tmp_dir, dataset_split)
"""


def test_labels_of_each_character_and_numbers_become_a_text(load, texts, tmp_path):
    load(SEVERAL_LABELS)
    for name in ("their_numbers", "their_own_numbers"):
        generate(name, tmp_path)
        assert texts(name)["train"] == [("a text", "0.25 -3")]
    with refused("their_stress", 3):
        generate("their_stress", tmp_path)
    stress = get_problem("their_stress")
    source = Source(tmp_path, random.Random(0), data_dir=tmp_path)
    stress.with_encoders(stress.build_encoders(source))
    (sample,) = stress.generate_samples("train", source)
    assert sample["targets"] == "_ no_stress ID_2"
    assert stress.encoders["targets"].decode(stress.encoders["targets"].encode(sample["targets"])) == sample["targets"]


SEVERAL_TEXTS = """
@registry.register_problem
class TheirAnswers(text_problems.QuestionAndContext2TextProblem):
  vocab_type = text_problems.VocabType.CHARACTER
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "who?", "context": "she was", "targets": "she"}

@registry.register_problem
class TheirOwnAnswers(TheirAnswers):
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    yield from super().generate_encoded_samples(data_dir, tmp_dir, dataset_split)

@registry.register_problem
class TheirTwoTexts(text_problems.TextConcat2ClassProblem):
  vocab_type, num_classes = text_problems.VocabType.CHARACTER, 2
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": ["a", "b", "c"], "label": 1}

@registry.register_problem
class TheirOwnTwoTexts(TheirTwoTexts):
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    yield from super().generate_encoded_samples(data_dir, tmp_dir, dataset_split)
"""


def test_several_texts_are_read_as_one(load, texts, tmp_path):
    load(SEVERAL_TEXTS)
    found = {}
    for name in ("their_answers", "their_own_answers", "their_two_texts", "their_own_two_texts"):
        generate(name, tmp_path)
        found[name] = texts(name)["dev"]
    assert found["their_answers"] == [("who? <EOQ> she was", "she")]
    assert found["their_own_answers"] == [("who?<EOQ>she was", "she")]
    assert found["their_two_texts"] == found["their_own_two_texts"] == [("a $ b $ c", "ID_1")]


ARRAYS = """
from tensor2tensor.data_generators import audio_encoder, image_utils, speech_recognition

@registry.register_problem
class TheirPictures(image_utils.Image2ClassProblem):
  is_small, num_channels, num_classes, train_shards, image_size = True, 1, 3, 2, 2
  @property
  def class_labels(self):
    return ["zero", "one", "two"]
  def generator(self, data_dir, tmp_dir, is_training):
    numbers = [0, 1] if is_training else [2]
    return image_utils.image_generator([[[[9 * n]] * 2] * 2 for n in numbers], numbers)

@registry.register_problem
class TheirTestPictures(TheirPictures):
  dataset_splits = [{"split": split, "shards": 1} for split in ("train", "dev", "test")]
  def generate_data(self, data_dir, tmp_dir, task_id=-1):
    for split in self.dataset_splits:
      paths = getattr(self, split["split"].replace("train", "training") + "_filepaths")(data_dir, 1, shuffled=False)
      generator_utils.generate_files(self.generator(data_dir, tmp_dir, split["split"] == "train"), paths)

@registry.register_problem
class TheirCaptions(image_utils.Image2TextProblem):
  is_character_level, num_channels, image_size = True, 1, 2
  def generator(self, data_dir, tmp_dir, is_training):
    (image,) = image_utils.image_generator([[[[9]] * 2] * 2], [0])
    yield dict(image, **{"image/class/label": self.feature_encoders(data_dir)["targets"].encode("nine") + [1]})

@registry.register_problem
class TheirTokens(TheirCaptions):
  is_character_level, targeted_vocab_size = False, 60

@registry.register_problem
class TheirSharedTokens(TheirTokens):
  targeted_vocab_size = None
  @property
  def vocab_problem(self):
    return Shared

class Shared:
  vocab_filename = "vocab.endefr.60"

@registry.register_problem
class TheirWrongPictures(TheirPictures):
  def generator(self, data_dir, tmp_dir, is_training):
    for sample in super().generator(data_dir, tmp_dir, is_training):
      yield dict(sample, **({"image/encoded": [b"no image"]} if is_training else {"image/class/label": [7]}))

@registry.register_problem
class TheirWrongSpeech(speech_recognition.SpeechRecognitionProblem):
  def feature_encoders(self, data_dir):
    return {"targets": text_encoder.TextEncoder()}

@registry.register_problem
class TheirSpeech(speech_recognition.SpeechRecognitionProblem):
  num_test_shards = 1
  def generator(self, data_dir, tmp_dir, texts):
    encoders = self.feature_encoders(data_dir)
    for text in texts:
      yield {"waveforms": encoders["waveforms"].encode(os.path.join(tmp_dir, "sound.wav")),
             "targets": encoders["targets"].encode(text) + [text_encoder.EOS_ID], "raw_transcript": [text]}
  def generate_data(self, data_dir, tmp_dir, task_id=-1):
    paths = self.training_filepaths(data_dir, 2, shuffled=False) + self.dev_filepaths(data_dir, 1, shuffled=False)
    generator_utils.generate_files(self.generator(data_dir, tmp_dir, ["a", "b", "c", "d"]), paths)
    generator_utils.generate_files(self.generator(data_dir, tmp_dir, ["e"]), self.test_filepaths(data_dir, 1, False))
    generator_utils.shuffle_dataset(paths)
"""


def test_images_and_speech_are_what_their_generate_data_would_write(load, texts, tmp_path):
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", "not compressed"))
        file.writeframes(np.array([0, 16384, -16384], "<i2").tobytes())
    load(ARRAYS)
    assert generate("their_pictures", tmp_path) == {"train": 2, "dev": 1}
    shown = {
        split: [(int(image.max()), name) for image, name in rows] for split, rows in texts("their_pictures").items()
    }
    assert {split: sorted(rows) for split, rows in shown.items()} == {
        "train": [(0, "zero"), (9, "one")], "dev": [(18, "two")],
    }  # fmt: skip
    assert generate("their_test_pictures", tmp_path) == {"train": 2, "dev": 1, "test": 1}
    encoder = SubwordEncoder.build(["nine", "ninety"], 60)
    (tmp_path / "data/vocab.endefr.60").write_bytes(encoder.to_bytes())
    for name in ("their_captions", "their_tokens", "their_shared_tokens"):
        generate(name, tmp_path)
        (image, text) = texts(name)["dev"][0]
        assert (image.shape, int(image.max()), text) == ((2, 2, 1), 9, "nine")
    assert generate("their_speech", tmp_path) == {"train": 3, "dev": 1, "test": 1}
    found = texts("their_speech")
    assert {split: sorted(text for _, text in rows) for split, rows in found.items()} == {
        "train": ["a", "b", "d"], "dev": ["c"], "test": ["e"],
    }  # fmt: skip
    np.testing.assert_allclose(found["dev"][0][0], [0, 0.5, -0.5])
    with refused("their_wrong_speech", "TextEncoder,"):
        generate("their_wrong_speech", tmp_path)
    wrong = get_problem("their_wrong_pictures")
    source = Source(tmp_path, random.Random(0))
    wrong.with_encoders(wrong.build_encoders(source))
    for split, about in (("train", "image:"), ("dev", 7)):
        with refused("their_wrong_pictures", about):
            list(wrong.generate_samples(split, source))
    with refused("their_speech-train-00000-of-00002", "t2t-datagen"):
        own = get_problem("their_speech").their_problem
        own.generate_data(str(tmp_path), str(tmp_path))


FIRST_VERSIONS = """
from tensor2tensor.data_generators.wmt import token_generator
@registry.register_problem
class TheirFirst(problem.Text2TextProblem):
  targeted_vocab_size, vocab_name = 2**7, "vocab.first"
  def generator(self, data_dir, tmp_dir, is_training):
    for name in os.listdir(data_dir):
      assert name in ("book", self.vocab_file), name
    path = os.path.join(data_dir, "book")
    words = text_encoder.TokenTextEncoder(path, replace_oov="OOV")
    assert words.encode("white purple") == [5, 7], words.encode("white purple")
    vocab = generator_utils.get_or_generate_txt_vocab(data_dir, self.vocab_file, self.targeted_vocab_size, [path])
    return token_generator(path, path, vocab, text_encoder.EOS_ID)
"""


def test_vocabularies_of_the_first_versions_in_a_data_folder_that_the_plugin_lists(load, texts, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/book").write_text("".join(f"{word}\n" for word in (*WORDS, "OOV")))
    load(FIRST_VERSIONS)
    generate("their_first", tmp_path)
    assert texts("their_first")["dev"] == [(word, word) for word in (*WORDS, "OOV")]
    assert (tmp_path / "data/vocab.first.128").is_file()


TRANSLATION = """
DATA = {{"train": [["https://nowhere.example/some.tgz", ("train.en", "train.de")]],
        "dev": [["https://nowhere.example/dev.tgz", ("dev.en.sgm", "dev.de.sgm")]]}}

@registry.register_problem
class TheirTranslation(translate.TranslateProblem):
  @property
  def approx_vocab_size(self):
    return {size}
  def source_data_files(self, dataset_split):
    return DATA[dataset_split]
"""


def test_a_list_of_corpora_is_read_from_files_or_their_archives(load, texts, tmp_path):
    load(TRANSLATION.format(size=2**7))
    with refused("train.en", "some.tgz", "https://nowhere.example/some.tgz"):
        generate("their_translation", tmp_path)
    (tmp_path / "train.en").write_text("one red\n\ntwo\n")
    with gzip.open(tmp_path / "train.de.gz", "wt") as packed:
        packed.write("eins rot\nnichts\nzwei\n")
    for side, text in (("en", "three"), ("de", "drei")):
        (tmp_path / f"dev.{side}.sgm").write_text(f'<doc>\n<seg id="1"> {text} </seg>\n</doc>\n')
    with tarfile.open(tmp_path / "dev.tgz", "w:gz") as archive:
        for side in ("en", "de"):
            archive.add(tmp_path / f"dev.{side}.sgm", arcname=f"dev.{side}.sgm")
            (tmp_path / f"dev.{side}.sgm").unlink()
    generate("their_translation", tmp_path)
    assert texts("their_translation") == {
        "train": [("one red", "eins rot"), ("two", "zwei")],
        "dev": [("three", "drei")],
    }


CLASSES = """
@registry.register_problem
class TheirWrong(text_problems.Text2ClassProblem):
  vocab_type = text_problems.VocabType.CHARACTER
  num_classes = 2
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": "a text", "label": LABEL}
"""
OWN_VOCABULARY = """
class Own(text_encoder.TextEncoder):
  pass

@registry.register_problem
class TheirWrong(text_problems.Text2TextProblem):
  def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
    yield {"inputs": [3, 1], "targets": [3, 1]}
  def feature_encoders(self, data_dir):
    return {"inputs": Own(), "targets": Own()}
"""
READS = """
@registry.register_problem
class TheirWrong(text_problems.Text2TextProblem):
  vocab_type = text_problems.VocabType.CHARACTER
  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    READ
    yield {"inputs": "a", "targets": "b"}
"""


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (CLASSES.replace("LABEL", "7"), ["their_wrong", 7, 2]),
        (CLASSES.replace("LABEL", "[0, 1]"), ["their_wrong", 2]),
        (OWN_VOCABULARY, ["their_wrong", "'inputs'", "Own,"]),
        (READS.replace("READ", "text_encoder.TokenTextEncoder(None, reverse=True)"), ["reverse=True"]),
        (
            READS.replace("READ", "text_encoder.TokenTextEncoder(None, vocab_list=['a'], replace_oov='?')"),
            ["replace_oov='?'"],
        ),
        (
            READS.replace("READ", "generator_utils.maybe_download(tmp_dir, 'gone', 'http://nowhere.example/gone')"),
            ["gone", "http://nowhere.example/gone"],
        ),
        (READS.replace("READ", "tf.app.run()"), ["tf.app.run"]),
        (READS.replace("READ", "multi_problem.MultiProblem()"), ["MultiProblem", "problem=a-b-c"]),
        (READS.replace("READ", "transformer.transformer_base().hiden_size"), ["'hiden_size'", "hidden_size"]),
        (
            READS.replace("READ", "generator_utils.find_corpus_file(tmp_dir, 'nowhere/packed.gz', 'train.en')"),
            ["packed.gz"],
        ),
        (
            READS.replace("READ", "generator_utils.find_corpus_file(tmp_dir, 'nowhere/other.tgz', 'train.en')"),
            ["train.en", "other.tgz"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_that_names_it(load, tmp_path, body, named):
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"no archive"))
    (tmp_path / "other.tgz").write_bytes(gzip.compress(bytes(1024)))
    load(body)
    with refused(*named):
        generate("their_wrong", tmp_path)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("@registry.register_problem\nclass TheirWrong:\n  pass\n", "'their_wrong'"),
        ("@registry.register_problem\nclass TheirWrong(problem.Problem):\n  pass\n", "'their_wrong'"),
    ],
)
def test_problems_of_no_kind_that_there_is_are_refused_where_they_are_registered(load, body, named):
    with refused(named):
        load(body)


def test_a_set_that_is_none_is_refused(load):
    load("@registry.register_hparams\ndef their_nothing():\n  pass\n")
    with refused("'their_nothing'"):
        HPARAMS.get("their_nothing")()


def test_sets_have_the_values_of_their_version_and_what_is_changed(load):
    from tensor2tensor.models import transformer

    load("""
@registry.register_hparams
def their_base():
  return transformer.transformer_base()

@registry.register_hparams("their_changed_set")
def changed():
  hparams = transformer.transformer_base_single_gpu()
  hparams.hidden_size = 64
  hparams.add_hparam("their_own", 3)
  hparams.learning_rate_constant = 0.2
  hparams.max_input_seq_length = 3
  return hparams

@registry.register_hparams
def their_first():
  return transformer.transformer_base_v1()

@registry.register_hparams
def their_lstm():
  hparams = lstm.lstm_luong_attention()
  hparams.hidden_size = 96
  return hparams

@registry.register_hparams
def their_tpu():
  return transformer.transformer_tpu()

@registry.register_hparams
def their_music():
  hparams = transformer.transformer_clean_big_tpu()
  hparams.self_attention_type, hparams.max_relative_position = "dot_product_relative_v2", 8
  return hparams

@registry.register_hparams
def their_universal():
  hparams = transformer.transformer_base()
  hparams.hidden_size = 32
  return universal_transformer.update_hparams_for_universal_transformer(hparams)
""")
    base, changed, first = (HPARAMS.get(name)() for name in ("their_base", "their_changed_set", "their_first"))
    ours = HPARAMS.get("transformer_base_v3")()
    same = (
        "num_hidden_layers", "hidden_size", "filter_size", "num_heads", "norm_position", "attention_dropout",
        "relu_dropout", "layer_prepostprocess_dropout", "label_smoothing", "optimizer_adam_beta1",
        "optimizer_adam_beta2", "optimizer_adam_epsilon", "learning_rate_schedule", "learning_rate",
        "learning_rate_warmup_steps", "batch_size", "max_length",
    )  # fmt: skip
    assert {name: getattr(base, name) for name in same} == {name: getattr(ours, name) for name in same}
    assert (first.norm_position, first.learning_rate, first.learning_rate_warmup_steps) == ("post", 1.0, 4000)
    assert (changed.hidden_size, changed.batch_size, changed.learning_rate_warmup_steps) == (64, 1024, 16000)
    assert (changed.max_input_seq_length, changed.max_target_seq_length) == (3, 0)
    assert changed.learning_rate == pytest.approx(0.2 * 16000**-0.5)
    assert (type(HPARAMS.get("their_lstm")()), HPARAMS.get("their_lstm")().hidden_size) == (
        type(HPARAMS.get("lstm_luong_attention")()), 96,
    )  # fmt: skip
    assert HPARAMS.get("their_universal")().hidden_size == 32
    music = HPARAMS.get("their_music")()
    assert (music.hidden_size, music.positions, music.relative_keys, music.relu_dropout) == (1024, "sinusoidal", 8, 0)
    assert transformer.transformer_librispeech_v1().hidden_size == 256
    assert (transformer.transformer_l4().num_hidden_layers, transformer.transformer_h1().num_heads) == (4, 1)
    tpu, our_tpu = (HPARAMS.get(name)() for name in ("their_tpu", "transformer_tpu"))
    assert {name: getattr(tpu, name) for name in ("optimizer", *same)} == {
        name: getattr(our_tpu, name) for name in ("optimizer", *same)
    }


def test_networks_of_tensorflow_1_are_refused_where_they_are_used(load):
    load("""
@registry.register_model
class TheirNetwork(t2t_model.T2TModel):
  def body(self, features):
    return common_layers.conv(features["inputs"])

class TheirEstimator(tf.estimator.Estimator):
  pass

def call():
  return tf.contrib.layers.xavier_initializer()
""")
    with refused("their_network"):
        MODELS.get("their_network")
    from tensor2tensor.layers import common_layers

    with refused("tensor2tensor.layers.common_layers.conv"):
        common_layers.conv(1)
    module = next(module for module in sys.modules.values() if "TheirEstimator" in vars(module))
    with refused("tensorflow.contrib.layers.xavier_initializer"):
        module.call()


@pytest.mark.parametrize(
    ("body", "names", "hparams", "vocabulary", "asked"),
    [
        (f"import config\n{COLOURS}", ("their_colours", "transformer", "transformer_tiny"),
         "hidden_size=8,filter_size=8,num_heads=2,num_hidden_layers=1,batch_size=128", ("inputs", "subword"),
         "red blue"),
        (ARRAYS, ("their_pictures", "resnet", "resnet_mnist"), "hidden_size=8,layer_sizes=[1,1],batch_size=2",
         ("targets", "label"), None),
    ],
    ids=["texts", "images"],
)  # fmt: skip
def test_a_run_of_their_plugin_is_trained_evaluated_decoded_and_loaded(
    load, tmp_path, body, names, hparams, vocabulary, asked
):
    (tmp_path / "words.txt").write_text("".join(f"{first} {second}\n" for first in WORDS for second in WORDS))
    load(body, config="SIZE = 3\n")
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "run", "t2t_usr_dir": tmp_path / "their_plugin"}
    named = dict(zip(("problem", "model", "hparams_set"), names, strict=True))
    steps = {"train_steps": 1, "eval_steps": 1}
    call(trainer, "--generate_data", **named, **folders, **steps, hparams=hparams, tmp_dir=tmp_path)
    feature, kind = vocabulary
    assert RunDir.open(tmp_path / "run").record.vocabularies[feature].kind == kind
    figures = dict(re.findall(r"^(?:teacher_forced/)?(\w+) = (\S+)$", call(eval_command, **named, **folders).out, re.M))
    decoded = call(decoder, **named, **folders, decode_split="dev", decode_to_file=tmp_path / "out").out
    found = dict(re.findall(r"^(\w+) = (\S+)$", decoded, re.M))
    assert kind != "label" or found["accuracy_per_sequence"] == figures["accuracy"]
    translator = t2t.load(tmp_path / "run", t2t_usr_dir=tmp_path / "their_plugin")
    assert not asked or len(translator.translate([asked])) == 1
    assert asked or (tmp_path / "out").read_text() in ("zero\n", "one\n", "two\n")


def test_texts_are_cut_where_they_are_read_and_without_their_end(load, tmp_path):
    (tmp_path / "words.txt").write_text("".join(f"{'ab' * number}\n" for number in range(1, 9)))
    letters = "  vocab_type = text_problems.VocabType.CHARACTER\n  @property\n  def is_generate"
    load(COLOURS.replace("TheirColours", "TheirLetters").replace("  @property\n  def is_generate", letters))
    generate("their_letters", tmp_path)
    config = RunConfig(problem="their_letters_rev", data_dir=str(tmp_path / "data"))
    data = open_data(config, get_problem("their_letters_rev"), verify=False)
    hparams = HPARAMS.get("transformer_tiny")().replace(max_input_seq_length=2, batch_size=64)
    every = [examples_of(data.readers["train"], stored) for stored in ("targets", "inputs")]
    batches = build_training_batches(data, hparams, seed=1)
    found = [row for batch in epoch_of(batches) for row in rows_of(batch)]
    assert sorted(found) == sorted((ids[:2], others) for (ids,), (others,) in zip(*every, strict=True))
    assert max(len(ids) for (ids,) in every[0]) > 2
    assert cut_reader(data, "dev", hparams).longest["targets"] == 2


def test_names_as_notebooks_use_them(load, tmp_path):
    (tmp_path / "words.txt").write_text("".join(f"{first} {second}\n" for first in WORDS for second in WORDS))
    load(COLOURS)
    from tensor2tensor import problems
    from tensor2tensor.utils import registry, trainer_lib

    assert "their_colours" in problems.available()
    problem = problems.problem("their_colours")
    problem.generate_data(tmp_path / "data", tmp_path)
    encoders = problem.feature_encoders(str(tmp_path / "data"))
    ids = encoders["inputs"].encode("red green")
    assert encoders["inputs"].decode(ids) == "red green"
    example = next(iter(problem.dataset("train", str(tmp_path / "data"))))
    assert encoders["inputs"].decode(example["inputs"].numpy()) == "red red"
    numbers = registry.problem("algorithmic_reverse_decimal40")
    assert numbers.name == "algorithmic_reverse_decimal40"
    hparams = trainer_lib.create_hparams("transformer_tiny", "hidden_size=24", data_dir="data")
    assert (hparams.hidden_size, hparams.num_heads, hparams.data_dir) == (24, 4, "data")
    copied, stored = copy.deepcopy(hparams), pickle.loads(pickle.dumps(hparams))
    copied.modality["inputs"] = "changed"
    assert (stored.hidden_size, copied.hidden_size, hparams.modality) == (24, 24, {})
    with refused("'no_model'", by=UnknownNameError):
        registry.model("no_model")


def test_a_notebook_restores_a_checkpoint_of_theirs_and_of_ours_and_translates(tmp_path):
    from tensor2tensor import problems
    from tensor2tensor.utils import registry, trainer_lib

    from t2t.compat import tensorflow as tf

    tfe, modes = tf.contrib.eager, tf.estimator.ModeKeys
    tfe.enable_eager_execution()
    name, vocabulary = "translate_ende_numbers", SubwordEncoder.build(["a small dog runs", "a cat sees"], 60)
    (tmp_path / f"vocab.{name}.60.subwords").write_bytes(vocabulary.to_bytes())
    encoders = problems.problem(name).feature_encoders(str(tmp_path))
    values = reference.hparams(reference.NEW, norm="pre")
    variables = reference.random_variables(reference.NEW, values, vocabulary.vocab_size)
    reference.write_run(tmp_path / "theirs", values, variables, {"model": "transformer"})
    inputs = [[[*encoders["inputs"].encode("a small dog"), 1]]]
    changes = {name: value for name, value in values.items() if name != "problem"}
    hparams = trainer_lib.create_hparams("transformer_base", data_dir=tmp_path, problem_name=name)
    hparams.override_from_dict({name: value for name, value in changes.items() if name in hparams})
    (tmp_path / "theirs/hparams.json").unlink()
    model = registry.model("transformer")(hparams, modes.EVAL)
    with tfe.restore_variables_on_create(str(tmp_path / "theirs/model.ckpt-1234")):
        found = model.infer({"inputs": np.array(inputs)[..., None]}, decode_length=3)["outputs"]
    network = reference.Network(reference.NEW, values, variables, target_space_id=8)
    first = network.logits(np.array(inputs[0][0]), np.array([5]))[0]
    assert found[0][0] == first.argmax()
    numbers = t2t.load("zoo:ende_numbers").problem.encoders["inputs"].encode("twenty-one cats")
    with tfe.restore_variables_on_create("zoo:ende_numbers"):
        ours = model.infer({"inputs": [[*numbers, 1, 0]]})["outputs"]
        with refused("top_beams=2"):
            model.infer({"inputs": [numbers]}, top_beams=2)
    assert t2t.load("zoo:ende_numbers").problem.encoders["targets"].decode(ours[0][:-1]) == "einundzwanzig Katzen"
    with refused("infer:", "restore_variables_on_create(path)`,"):
        model.infer({"inputs": [numbers]})
    hparams.del_hparam("problem")
    with tfe.restore_variables_on_create(str(tmp_path / "model.ckpt-9")), refused("model.ckpt-9", "problem_name=...)"):
        model.infer({"inputs": [numbers]})
    assert tfe.Iterator([1, 2]).next() == 1
    with refused("tensorflow.contrib.eager.py_func"):
        tfe.py_func()
