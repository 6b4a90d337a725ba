"""Plug-ins as they were written for Tensor2Tensor, and the data of their problems."""

import t2t

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
LINES = [f"{first} {second}" for first in WORDS for second in WORDS]


def write_colours(folder):
    (folder / "words.txt").write_text("".join(f"{line}\n" for line in LINES))


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
