"""Problems as they were written for Tensor2Tensor: what is generated of them."""

import gzip
import random
import tarfile

from t2t.problems.base import Source
from t2t.registry import HPARAMS
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from t2t.runs.names import get_problem
from t2t.runs.trained_problems import build_training_batches, cut_reader
from tests.errors import refused
from tests.generated import epoch_of, examples_of, rows_of
from tests.unit.compat.plugins import COLOURS, LINES, WORDS, generate, write_colours


def test_samples_that_are_made_at_once_are_dealt_out_to_the_shards_of_all_splits(load, texts, tmp_path):
    write_colours(tmp_path)
    plugin = load(COLOURS)
    assert "problem:their_colours" in plugin.registered
    assert generate("their_colours", tmp_path) == {"train": 19, "dev": 6}
    found = texts("their_colours")
    assert found["dev"] == [(line, line.upper()) for line in LINES[3::4]]
    assert found["train"] == [(line, line.upper()) for number, line in enumerate(LINES) if number % 4 != 3]
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
