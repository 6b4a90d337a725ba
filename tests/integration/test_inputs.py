"""Images and sound to text and classes: training, evaluation and decoding on the command line."""

import json
import re

import numpy as np
import pytest

import t2t
from t2t.cli import decoder, trainer
from t2t.cli import eval as eval_command
from t2t.training.cost import update_cost

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


def learnt(usr_dir, folder, problem, *model, steps=120):
    """Trains with one command; returns the flags for all other commands, and the last value of each logged figure."""
    flags = [f"--t2t_usr_dir={usr_dir}", f"--data_dir={folder}/data", f"--output_dir={folder}/run"]
    training = [*flags, f"--problem={problem}", *model, f"--train_steps={steps}", "--generate_data", "--worker_cpu=1"]
    assert trainer.main(["t2t-trainer", *training, "--random_seed=1"]) == 0
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return flags, {key: value for line in lines for key, value in line.items()}


def told(folder):
    """The fraction of dev lines that are decoded correctly."""
    lines = (folder / "out").read_text().split()
    return sum(line == right for line, right in zip(lines, ["red", "green", "blue"] * 4, strict=True)) / 12


@pytest.mark.parametrize("problem", ["picture_to_text", pytest.param("tone_to_text", marks=pytest.mark.exhaustive)])
def test_to_text(usr_dir, tmp_path, capsys, problem):
    changes = f"{SMALL},batch_size=192,extra_length=2,layer_prepostprocess_dropout=0"
    model = ("--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={changes}")
    flags, figures = learnt(usr_dir, tmp_path, problem, *model)
    right = figures["dev/accuracy_per_sequence"]
    assert right > 0.9
    capsys.readouterr()
    assert decoder.main(["t2t-decoder", *flags, "--decode_split=dev", f"--decode_to_file={tmp_path}/out"]) == 0
    assert f"accuracy_per_sequence = {right:.4f}" in capsys.readouterr().out
    assert told(tmp_path) == right


@pytest.mark.parametrize(
    ("problem", "model", "changes"),
    [
        ("picture_to_class", "transformer_encoder", f"{SMALL},batch_size=24"),
        pytest.param("tone_to_class", "transformer_encoder", f"{SMALL},batch_size=96", marks=pytest.mark.exhaustive),
        ("picture_to_class", "resnet", f"{STEEP},hidden_size=8,layer_sizes=[1,1]"),
        pytest.param(
            "picture_to_class",
            "shake_shake",
            f"{STEEP},hidden_size=8,num_hidden_layers=8",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "tone_to_class",
            "xception",
            f"{QUICK},batch_size=96,hidden_size=16,num_hidden_layers=1",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_to_classes(usr_dir, tmp_path, capsys, problem, model, changes):
    named = {
        "transformer_encoder": "transformer_tiny", "xception": "xception_tiny", "resnet": "resnet_mnist",
        "shake_shake": "shakeshake_small",
    }[model]  # fmt: skip
    flags, figures = learnt(
        usr_dir, tmp_path, problem, f"--model={model}", f"--hparams_set={named}", f"--hparams={changes}"
    )
    right = figures["dev/teacher_forced/accuracy"]
    assert right > 0.9
    capsys.readouterr()
    assert eval_command.main(["t2t-eval", *flags]) == 0
    assert f"teacher_forced/accuracy = {right:.4f}" in capsys.readouterr().out
    assert decoder.main(["t2t-decoder", *flags, "--decode_split=dev", f"--decode_to_file={tmp_path}/out"]) == 0
    assert f"accuracy_per_sequence = {right:.4f}" in capsys.readouterr().out
    assert told(tmp_path) == right


def test_a_dry_run_counts_sound_as_batches_do(usr_dir, tmp_path, capsys):
    """In frames of 10 ms; a tone has 15 on average."""
    model = ("--model=transformer_encoder", "--hparams_set=transformer_tiny", f"--hparams={SMALL},batch_size=96")
    flags, _ = learnt(usr_dir, tmp_path, "tone_to_class", *model, steps=1)
    assert re.search(r" = 96 an update, about [67] example\(s\)$", capsys.readouterr().err, re.M)
    one = {"inputs": np.zeros((1, 2400), np.float32), "targets": np.zeros(1, np.int32)}
    counted = update_cost(t2t.load(str(tmp_path / "run"), usr_dir=str(usr_dir)).model, one).flops
    asked = [*flags[:2], "--problem=tone_to_class", *model, f"--output_dir={tmp_path}/other", "--dry_run"]
    assert trainer.main(["t2t-trainer", *asked]) == 0
    said = re.search(r" updates, (\S+) each$", capsys.readouterr().err, re.M)
    assert float(said[1]) == pytest.approx(counted * 96 / 15, rel=0.2)


@pytest.mark.exhaustive
def test_all_of_them_at_once(usr_dir, tmp_path):
    problems = ("picture_to_class", "tone_to_text", "word_to_class")
    model = (
        "--model=multi_model", "--hparams_set=multi_model_tiny",
        f"--hparams={SMALL},num_hidden_layers=1,num_decoder_layers=1,problem_batch_sizes=[24,96,96],extra_length=2",
    )  # fmt: skip
    flags, figures = learnt(usr_dir, tmp_path, "-".join(problems), *model, steps=240)
    assert figures["dev/picture_to_class/teacher_forced/accuracy"] > 0.9
    assert figures["dev/tone_to_text/accuracy_per_sequence"] > 0.9
    assert figures["dev/word_to_class/teacher_forced/accuracy"] > 0.9
    split = ("--problem=tone_to_text", "--decode_split=dev", f"--decode_to_file={tmp_path}/out")
    assert decoder.main(["t2t-decoder", *flags, *split]) == 0
    assert told(tmp_path) == figures["dev/tone_to_text/accuracy_per_sequence"]
