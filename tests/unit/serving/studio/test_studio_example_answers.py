"""A model's outputs for pictures of its data, occlusion maps, and the pictures and sounds of pages."""

import base64
import io
import wave
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from t2t.data.generation.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.data.reading.reader import SplitReader
from t2t.features.text import Text
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.attention import occlusion_map
from t2t.inference.translator import Translator
from t2t.models.transformer import Transformer
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.problems.array_inputs import Image2Class, Image2Text
from t2t.runs.data import OpenData
from t2t.specs.features import FeatureKind, FeatureSpec
from t2t.studio.media import LONGEST_SIDE, MOST_SECONDS, media_of, output_media
from t2t.studio.model_answers import example_answer, occlusion_answer
from t2t.studio.split_data import SplitData
from tests.builders import randomise
from tests.errors import refused

SMALL = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 1, "max_length": 16}
NAMES = ("red", "green", "blue")


class Pictures:
    """Pictures of noise, unrelated to their classes."""

    image_shape = (8, 6, 3)
    class_labels = vocabulary = NAMES

    def generate_samples(self, split, source):
        rng = np.random.default_rng(source.rng.randrange(1000))
        for number in range(4):
            image = rng.integers(0, 256, self.image_shape).astype(np.uint8)
            yield {"inputs": image, "targets": NAMES[number % 3]}


class PictureToClass(Pictures, Image2Class):
    name = "picture_to_class"


class PictureToText(Pictures, Image2Text):
    name = "picture_to_text"
    vocab_kind = "token"


def studio_of(problem_class, model_class, folder):
    generate(problem_class(), folder, folder / "tmp", seed=7, workers=1)
    folder = folder / problem_class.name
    manifest = read_manifest(folder)
    problem = problem_class().with_encoders(load_encoders(folder, manifest))
    data = OpenData(problem, manifest, {"dev": SplitReader(folder, manifest, "dev")}, "", "")
    model = randomise(model_class(TransformerHParams(**SMALL), problem.spec()))
    translator = Translator(problem, model, DecodeHParams(beam_size=1, extra_length=2))
    return SimpleNamespace(
        model=lambda name, checkpoint, only_text: (translator, 7, None),
        data=lambda name, problem, split: SplitData(data, split, None),
        translator=translator,
        images=data.readers["dev"].single(np.arange(4), "inputs"),
    )


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return studio_of(PictureToClass, TransformerEncoder, tmp_path_factory.mktemp("classes"))


def log_probs(studio, images):
    logits = np.asarray(studio.translator.model({"inputs": np.stack(images)})).astype(float)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def test_classes_have_the_models_probabilities(classes):
    found = example_answer(classes, {"example": 2})
    expected = np.exp(log_probs(classes, classes.images[2:3]))[0]
    assert {one["name"]: one["probability"] for one in found["classes"]} == {
        name: pytest.approx(value, rel=1e-4) for name, value in zip(NAMES, expected, strict=True)
    }
    assert found["output"]["text"] == NAMES[expected.argmax()]
    assert (found["reference"], found["step"], found["total"]) == ({"text": "blue", "media": None}, 7, 4)
    assert found["inputs"]["url"].startswith("data:image/png;base64,")
    assert found["has_map"]


@pytest.mark.parametrize("name", [None, "green"])
def test_the_map_is_of_the_class_that_is_asked_for(classes, name):
    best = int(log_probs(classes, classes.images[1:2]).argmax())
    asked = NAMES.index(name) if name else best
    expected, cell = occlusion_map(classes.images[1], lambda images: log_probs(classes, images)[:, asked])
    found = occlusion_answer(classes, {"example": 1, **({"class": name} if name else {})})
    assert (found["answer"], found["cell"]) == (NAMES[asked], cell)
    assert (found["height"], found["width"]) == (8, 6)
    np.testing.assert_allclose(found["drops"], expected, atol=1e-5)
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize(
    ("asked", "about"), [({"example": 4}, ["4", "3"]), ({"example": 0, "class": "pink"}, ["'pink':", *NAMES])]
)
def test_mistakes_are_said(classes, asked, about):
    with refused(*about):
        occlusion_answer(classes, asked)


@pytest.mark.slow
def test_a_text_rests_on_what_makes_it_more_likely(tmp_path):
    studio = studio_of(PictureToText, Transformer, tmp_path)
    found = example_answer(studio, {"example": 0})
    (best,) = studio.translator.translate_ids([studio.images[0]])[0]
    assert (found["output"]["text"], found["classes"]) == (best.text, None)
    ids = [token for token in best.ids if token != 1]

    def score(images):
        return [studio.translator.score_ids([image], [ids])[0] for image in images]

    expected, _ = occlusion_map(studio.images[0], score)
    np.testing.assert_allclose(occlusion_answer(studio, {"example": 0})["drops"], expected, atol=1e-4)


# === Pictures and sounds of pages, decoded by other libraries, equal the original data ===
def content(media, kind):
    start, _, data = media["url"].partition(";base64,")
    assert start == f"data:{kind}"
    return io.BytesIO(base64.b64decode(data))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_is_the_image(channels):
    image = np.random.default_rng(0).integers(0, 256, (5, 7, channels), dtype=np.uint8)
    media = media_of(image, FeatureSpec(kind=FeatureKind.IMAGE, shape=image.shape))
    shown = np.asarray(Image.open(content(media, "image/png")))
    assert np.array_equal(shown.reshape(image.shape), image)


def test_a_large_picture_is_sent_smaller_and_a_clip_as_some_of_its_frames():
    image = np.full((2 * LONGEST_SIDE, 10, 2), (10, 30), np.uint8)
    shown = np.asarray(Image.open(content(media_of(image, FeatureSpec(kind=FeatureKind.IMAGE)), "image/png")))
    assert shown.shape == (LONGEST_SIDE, 5)
    assert (shown == 20).all()
    clip = np.arange(15, dtype=np.uint8)[:, None, None, None] * np.ones((15, 4, 3, 1), np.uint8)
    media = media_of(clip, FeatureSpec(kind=FeatureKind.VIDEO, shape=(4, 3, 1)))
    shown = np.asarray(Image.open(content(media, "image/png")))
    assert shown[0, ::3].tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert media["note"] == "8 of 15 frames"


def test_a_sound_is_its_samples_up_to_a_length_and_an_output_what_the_decoder_would_write():
    waveform = np.sin(np.arange(100 * (MOST_SECONDS + 1)), dtype=np.float32)
    media = media_of(waveform, FeatureSpec(kind=FeatureKind.AUDIO, sample_rate=100))
    with wave.open(content(media, "audio/wav")) as file:
        assert (file.getframerate(), file.getnframes()) == (100, 100 * MOST_SECONDS)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    np.testing.assert_allclose(samples / 32767, waveform[: len(samples)], atol=1e-4)
    assert media["note"] == f"the first {MOST_SECONDS:g} s"
    problem = SimpleNamespace(features={"targets": Text(output_suffix=".wav", write=str.encode)})
    assert content(output_media(problem, "a b"), "audio/wav").read() == b"a b"
    assert output_media(SimpleNamespace(features={}), "a b") is None
