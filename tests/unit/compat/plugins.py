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
