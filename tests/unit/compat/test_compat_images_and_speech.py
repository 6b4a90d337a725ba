"""Images and speech of problems that were written for Tensor2Tensor."""

import random
import wave

import numpy as np

from t2t.problems.base import Source
from t2t.runs.names import get_problem
from t2t.text.subword import SubwordEncoder
from tests.errors import refused
from tests.unit.compat.plugins import generate

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
