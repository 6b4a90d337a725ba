"""A non-autoregressive model is trained, evaluated, decoded and scored like other models."""

import json

import numpy as np
import pytest

import t2t
from t2t.cli import decoder, trainer
from t2t.cli import eval as eval_command
from tests.in_process import call, refuses

PLUGIN = '''
import dataclasses

from keras import ops

from t2t.hparams.base import HParams
from t2t.layers.mode import Costed
from t2t.models.base import SequenceModel
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_hparams, register_model, register_problem


@register_problem
class Rot5(Text2Text):
    """Each digit five places on."""

    vocab_kind = "token"
    vocabulary = tuple("0123456789")
    metrics = ("accuracy_per_sequence", "accuracy")

    def generate_samples(self, split, source):
        for _ in range(400 if split == "train" else 20):
            digits = source.rng.choices(range(10), k=source.rng.randint(1, 9))
            yield {"inputs": " ".join(map(str, digits)), "targets": " ".join(str((d + 5) % 10) for d in digits)}


@dataclasses.dataclass(kw_only=True)
class TaggerHParams(HParams):
    """Width alone."""


@register_hparams
def tagger_tiny():
    """Learns in a few dozen updates."""
    return TaggerHParams(hidden_size=16, shared_embedding_and_softmax_weights=False).replace(
        batch_size=256, learning_rate_schedule="constant", learning_rate=0.1, learning_rate_warmup_steps=1,
        label_smoothing=0.0,
    )


@register_model
class Tagger(SequenceModel):
    """Each output from the input at its place."""

    hparams_class = TaggerHParams
    accepts_inputs = ("tokens",)
    autoregressive = False

    def __init__(self, hparams, spec, dtype="float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.build()

    def build(self, input_shape=None):
        self.build_modality_weights()

    def body(self, features, seed=None):
        x = self.source_embedding(features["inputs"])
        if "targets" not in features:
            return x
        count = ops.shape(features["targets"])[1]
        hidden = ops.pad(x, ((0, 0), (0, count), (0, 0)))[:, :count]
        return Costed(hidden, 0.001 * ops.sum(hidden * hidden))
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of the plug-in, its data and a trained run."""
    folder = tmp_path_factory.mktemp("tagging")
    (folder / "__init__.py").write_text(PLUGIN)
    call(
        trainer, "--problem=rot5", "--model=tagger", "--hparams_set=tagger_tiny", "--generate_data", *flags_of(folder),
        worker_cpu=2, train_steps=40, local_eval_frequency=20, hparams="effective_batch_size=1024",
    )  # fmt: skip
    return folder


def flags_of(folder):
    return [f"--t2t_usr_dir={folder}", f"--data_dir={folder}/data", f"--output_dir={folder}/run"]


def test_training_decodes_for_real_and_picks_the_best_by_it(folder):
    lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    scores = {line["step"]: line["dev/accuracy_per_sequence"] for line in lines if "dev/accuracy_per_sequence" in line}
    assert scores.keys() == {20, 40}
    assert scores[40] == 1.0  # each digit has its own row of the table, which forty updates see thousands of times
    forced = [line["dev/teacher_forced/accuracy_per_sequence"] for line in lines if "dev/teacher_forced/loss" in line]
    assert forced == list(scores.values()), "nothing of the reference is given, so both say the same"
    assert json.loads((folder / "run/checkpoints/best.json").read_text())


def test_the_commands_and_the_python_api_answer(folder, tmp_path):
    all_flags, run = flags_of(folder), {"t2t_usr_dir": folder, "output_dir": folder / "run"}
    assert "\naccuracy_per_sequence = 1.0000" in call(eval_command, *all_flags).out
    assert "accuracy_per_sequence = 1.0" in call(decoder, *all_flags, decode_split="dev").out
    (tmp_path / "lines").write_text("1 2 3\n\n9 9 0 1\n")
    files = {"decode_from_file": tmp_path / "lines", "decode_to_file": tmp_path / "out"}
    call(decoder, **run, **files)
    assert (tmp_path / "out").read_text() == "6 7 8\n\n4 4 5 6\n"
    (tmp_path / "pairs").write_text("1 2 3\t6 7 8\n1 2 3\t6 7 9\n")
    call(decoder, **run, score_file=tmp_path / "pairs", decode_to_file=tmp_path / "scores")
    right, wrong = map(float, (tmp_path / "scores").read_text().split())
    assert np.log(0.5) < right <= 0.0
    assert wrong < right - 1.0
    refuses(decoder, "n_best=2 1", **run, **files, n_best=2)
    translator = t2t.load(str(folder / "run"), t2t_usr_dir=str(folder))
    (best,), _ = translator.translate(["1 2 3", "7"])
    assert best.text == "6 7 8"
    assert best.log_prob == pytest.approx(translator.score([("1 2 3", best.text)])[0], abs=1e-4)
