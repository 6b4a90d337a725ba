"""Images and speech of problems that were written for Tensor2Tensor."""

import random
import wave

import numpy as np

from t2t.compat.tensor2tensor.generated_data import dataset_of
from t2t.problems.base import Source
from t2t.runs.names import get_problem
from t2t.text.subword import SubwordEncoder
from tests.errors import refused
from tests.unit.compat.plugins import ARRAYS, generate


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
    example = next(iter(dataset_of("their_pictures", "eval", str(tmp_path / "data"))))
    assert (example["inputs"].numpy().ravel().tolist(), example["inputs"].shape) == ([18] * 4, (2, 2, 1))
    assert int(example["targets"].numpy()) == 2
    assert hasattr(dataset_of("their_pictures", "train", str(tmp_path / "data")), "make_one_shot_iterator")
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
    heard = next(iter(dataset_of("their_speech", "eval", str(tmp_path / "data"))))
    np.testing.assert_allclose(heard["inputs"], [0, 0.5, -0.5])
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
