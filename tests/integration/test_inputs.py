"""Images and sound to text and classes: training, evaluation and decoding on the command line.

All of these train: models learn what their inputs show, which the unit tests of layers and kinds do not try.
"""

import json
import re

import numpy as np
import pytest

import t2t
from t2t.cli import decoder, trainer
from t2t.cli import eval as eval_command
from t2t.training.cost import update_cost
from tests.in_process import call
from tests.readme import ROOT

pytestmark = pytest.mark.slow

PLUGIN = '''
import numpy as np

from t2t.problems.array_inputs import Audio2Class, Image2Class, Image2Text, Speech2Text
from t2t.problems.text_problems import Text2Class
from t2t.registry import register_problem

NAMES = ("red", "green", "blue")


class Drawn:
    """One of three things, drawn."""

    class_labels = vocabulary = NAMES
    vocab_kind = "token"

    def generate_samples(self, split, source):
        rng = np.random.default_rng(source.rng.randrange(1000))
        for number in range(120 if split == "train" else 12):
            yield {"inputs": self.draw(number % 3, rng), "targets": NAMES[number % 3]}


class Picture(Drawn):
    """Noise with more of one colour."""

    image_shape = (6, 5, 3)

    def draw(self, which, rng):
        image = rng.integers(0, 100, self.image_shape)
        image[..., which] += 120
        return image.astype(np.uint8)


class Tone(Drawn):
    """A tone of one of three heights."""

    def draw(self, which, rng):
        seconds = np.arange(rng.integers(1600, 3200)) / self.sample_rate
        return 0.5 * np.sin(2 * np.pi * (300, 900, 2700)[which] * seconds + rng.uniform(0, 6))


@register_problem
class PictureToClass(Picture, Image2Class):
    """What colour a picture has."""


@register_problem
class PictureToText(Picture, Image2Text):
    """What colour a picture has, in words."""

    metrics = ("accuracy_per_sequence",)


@register_problem
class ToneToClass(Tone, Audio2Class):
    """Which tone it is."""


@register_problem
class ToneToText(Tone, Speech2Text):
    """Which tone it is, in words."""

    metrics = ("accuracy_per_sequence",)


@register_problem
class WordToClass(Drawn, Text2Class):
    """Which word it is."""

    def draw(self, which, rng):
        return " ".join(rng.permutation([NAMES[which]] * 3 + [NAMES[which - 1]]))
'''
QUICK = "learning_rate_schedule=linear,learning_rate=0.005,learning_rate_warmup_steps=5,label_smoothing=0"
STEEP = "learning_rate=0.05,learning_rate_warmup_steps=5,batch_size=24"
SMALL = f"{QUICK},hidden_size=32,filter_size=32,num_heads=2"


@pytest.fixture(scope="module")
def usr_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "__init__.py").write_text(PLUGIN)
    return folder


def learnt(usr_dir, folder, problem, model, hparams_set, hparams, steps=120):
    """Trains with one command; returns the flags for all other commands, and the last value of each logged figure."""
    flags = [f"--t2t_usr_dir={usr_dir}", f"--data_dir={folder}/data", f"--output_dir={folder}/run"]
    asked = {"problem": problem, "model": model, "hparams_set": hparams_set, "hparams": hparams, "train_steps": steps}
    call(trainer, *flags, "--generate_data", "--worker_cpu=1", "--random_seed=1", **asked)
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    return flags, {key: value for line in lines for key, value in line.items()}


def check_decoded(flags, folder, right, *more):
    """Checks that the decoder answers as training did: with a fraction of right answers beyond chance, a third."""
    assert right > 0.5
    printed = call(decoder, *flags, *more, "--decode_split=dev", decode_to_file=folder / "out").out
    assert f"accuracy_per_sequence = {right:.4f}" in printed
    lines = zip((folder / "out").read_text().split("\n"), ["red", "green", "blue"] * 4, strict=False)
    assert sum(line == answer for line, answer in lines) / 12 == pytest.approx(right)


def exhaustive(*case):
    return pytest.param(*case, marks=pytest.mark.exhaustive)


TO_TEXT = ("transformer", "transformer_tiny", f"{SMALL},batch_size=192,extra_length=2,layer_prepostprocess_dropout=0")
NARROW = f"{QUICK},batch_size=96,hidden_size=16,num_hidden_layers=1"
ENCODER = ("transformer_encoder", "transformer_tiny")


@pytest.mark.parametrize(
    ("problem", "model", "hparams_set", "hparams"),
    [
        ("picture_to_text", *TO_TEXT),
        exhaustive("tone_to_text", *TO_TEXT),
        ("picture_to_class", *ENCODER, f"{SMALL},batch_size=24"),
        exhaustive("tone_to_class", *ENCODER, f"{SMALL},batch_size=96"),
        exhaustive("picture_to_class", "resnet", "resnet_mnist", f"{STEEP},hidden_size=8,layer_sizes=[1,1]"),
        exhaustive("picture_to_class", "shake_shake", "shakeshake_small", f"{STEEP},hidden_size=8,num_hidden_layers=8"),
        exhaustive("tone_to_class", "xception", "xception_tiny", NARROW),
    ],
)
def test_what_is_seen_or_heard_is_told(usr_dir, tmp_path, problem, model, hparams_set, hparams):
    flags, figures = learnt(usr_dir, tmp_path, problem, model, hparams_set, hparams)
    if problem.endswith("class"):
        right = figures["dev/teacher_forced/accuracy"]
        assert f"teacher_forced/accuracy = {right:.4f}" in call(eval_command, *flags).out
    else:
        right = figures["dev/accuracy_per_sequence"]
    check_decoded(flags, tmp_path, right)


def test_a_dry_run_counts_sound_as_batches_do(usr_dir, tmp_path):
    """In frames of 10 ms; a tone has 15 on average."""
    hparams = f"{SMALL},batch_size=96"
    flags, _ = learnt(usr_dir, tmp_path, "tone_to_class", *ENCODER, hparams, steps=1)
    one = {"inputs": np.zeros((1, 2400), np.float32), "targets": np.zeros(1, np.int32)}
    counted = update_cost(t2t.load(str(tmp_path / "run"), t2t_usr_dir=str(usr_dir)).model, one).flops
    model = ["--problem=tone_to_class", "--model=transformer_encoder", "--hparams_set=transformer_tiny"]
    asked = {"hparams": hparams, "output_dir": tmp_path / "other", "train_steps": 1000}
    said = call(trainer, *flags[:2], *model, "--dry_run", **asked).err
    assert re.search(r" = 96 an update, about [67] examples$", said, re.M)
    cost = re.search(r"^computation: (\S+) ", said, re.M)
    assert float(cost[1]) == pytest.approx(1000 * counted * 96 / 15, rel=0.2)


@pytest.mark.exhaustive  # that one model learns pictures, sounds and words
def test_all_of_them_at_once(usr_dir, tmp_path):
    hparams = f"{SMALL},num_hidden_layers=1,num_decoder_layers=1,problem_batch_sizes=[24,96,96],extra_length=2"
    problems = "picture_to_class-tone_to_text-word_to_class"
    flags, figures = learnt(usr_dir, tmp_path, problems, "multi_model", "multi_model_tiny", hparams, steps=240)
    for name in ("picture_to_class/teacher_forced/accuracy", "word_to_class/teacher_forced/accuracy"):
        assert figures[f"dev/{name}"] > 0.5
    right = figures["dev/tone_to_text/accuracy_per_sequence"]
    check_decoded(flags, tmp_path, right, "--problem=tone_to_text")


def test_the_example_with_declared_features(tmp_path):
    """Directions are plain from the numbers, so that a few updates learn more of them than chance."""
    flags = {"t2t_usr_dir": ROOT / "examples/strokes", "data_dir": tmp_path / "data", "output_dir": tmp_path / "run"}
    call(
        trainer, "--problem=my_strokes", "--model=transformer", "--hparams_set=transformer_tiny", "--generate_data",
        **flags, worker_cpu=2, train_steps=120, local_eval_frequency=120, hparams=f"{SMALL},batch_size=512",
    )  # fmt: skip
    scores = re.findall(r"\naccuracy_per_sequence = ([\d.]+)", call(decoder, **flags, decode_split="dev").out)
    assert float(scores[0]) > 0.1
