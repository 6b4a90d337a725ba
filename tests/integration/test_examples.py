"""The examples of `examples/usr_dir`: names of every kind, with which a run trains, resumes and decodes."""

import shutil

import keras
import numpy as np
import pytest

import t2t
from t2t.checkpoints.store import CheckpointStore
from t2t.data.manifest import load_encoders, read_manifest
from t2t.hparams.transformer import TransformerHParams
from t2t.registry import OBJECTIVES, OPTIMIZERS
from t2t.registry.plugins import load_plugins
from t2t.runs.names import get_problem
from t2t.training.schedules import learning_rate
from tests.builders import batch, numpy, tiny_transformer
from tests.equivalence.identity import assert_identical
from tests.errors import refused
from tests.readme import ROOT

PLUGIN = ROOT / "examples/usr_dir"
SMALL = {"num_hidden_layers": 1, "hidden_size": 8, "filter_size": 8, "batch_size": 64}
TRAINING = {"optimizer": "my_lion", "learning_rate_schedule": "my_cooldown", "objective": "my_focal"}


@pytest.fixture(scope="module", autouse=True)
def plugin():
    load_plugins(str(PLUGIN))


class CopyAfter(keras.callbacks.Callback):
    """Copies the run after an update, as a machine that crashes then would leave it."""

    def __init__(self, update, run, copy):
        super().__init__()
        self.update, self.run, self.copied = update, run, copy

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.update:
            shutil.copytree(self.run, self.copied)


def test_a_run_with_an_optimizer_a_schedule_and_an_objective_of_a_plug_in_resumes_exactly_and_decodes(tmp_path):
    changes = TRAINING | {"learning_rate": 0.01, "learning_rate_warmup_steps": 1, "weight_decay": 0.1, "hidden_size": 8}
    given = {"data_dir": tmp_path / "data", "t2t_usr_dir": PLUGIN, "worker_cpu": 1}
    t2t.generate_data("my_reverse_words", tmp_path / "data", t2t_usr_dir=PLUGIN)
    names = ("my_reverse_words", "my_bag_of_words", "my_bag_tiny")
    copied = CopyAfter(2, tmp_path / "whole", tmp_path / "parts")
    options = {"train_steps": 4, "local_eval_frequency": 2, "eval_steps": 0, **given}
    t2t.train(*names, tmp_path / "whole", hparams=changes, callbacks=[copied], **options)
    t2t.train(output_dir=tmp_path / "parts", **given)
    whole, parts = (CheckpointStore(tmp_path / name / "checkpoints").load("latest") for name in ("whole", "parts"))
    assert whole.step == 4
    assert_identical(whole, parts)
    assert any(name.startswith("my_lion/") and name.endswith("momentum") for name in whole.optimizer)
    translator = t2t.load(tmp_path / "parts", t2t_usr_dir=PLUGIN, worker_cpu=1)
    assert len(translator.translate(["small red fox", "old dog"])) == 2


def test_a_filter_a_preprocessor_and_a_vocabulary_of_a_plug_in_make_and_change_the_data_of_a_run(tmp_path):
    options = {"vocab_kind": "my_hashed_words", "vocab_size": 40, "filters": "my_capitals=0.3"}
    for split, size in (("train", 40), ("dev", 4)):
        lines = [f"small fox {number}" for number in range(size)] + ["A FOX"] * (split == "train")
        for side in ("source", "target"):
            options[f"{split}_{side}"] = tmp_path / f"{split}.{side}"
            options[f"{split}_{side}"].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    given = {"data_dir": tmp_path / "data", "t2t_usr_dir": PLUGIN}
    assert t2t.generate_data("text2text_files", **given, **options) == {"train": 40, "dev": 4}
    manifest = read_manifest(tmp_path / "data/text2text_files")
    assert manifest.splits["train"].dropped == {"by the filter my_capitals=0.3": 1}
    options["preprocessors"] = "my_random_case=1"
    run = {"hparams": SMALL, "train_steps": 3, "worker_cpu": 1, "eval_steps": 0, "problem_options": options}
    t2t.train("text2text_files", "transformer", "transformer_tiny", tmp_path / "run", **run, **given)
    translator = t2t.load(tmp_path / "run", t2t_usr_dir=PLUGIN, worker_cpu=1)
    assert len(translator.translate(["small fox 3", "a word that no one has seen"])) == 2
    problem = get_problem("text2text_files", options)
    problem.with_encoders(load_encoders(tmp_path / "data/text2text_files", manifest))
    (change,) = problem.preprocessors()
    ids = problem.encoders["inputs"].encode_ended(["small fox 3", "SMALL FOX 3"])
    np.testing.assert_array_equal(change({"inputs": ids[0]}, np.random.default_rng(0))["inputs"], ids[1])


def test_a_problem_with_a_feature_of_a_plug_in_trains_and_is_scored(tmp_path):
    given = {"data_dir": tmp_path / "data", "t2t_usr_dir": PLUGIN}
    t2t.generate_data("my_strongest", **given)
    options = {"hparams": SMALL, "train_steps": 3, "local_eval_frequency": 3, "worker_cpu": 1}
    t2t.train("my_strongest", "transformer", "transformer_tiny", tmp_path / "run", **options, **given)
    translator = t2t.load(tmp_path / "run", t2t_usr_dir=PLUGIN, worker_cpu=1)
    assert len(translator.translate_ids([np.array([[1.0, 0.0, 0.0]], np.float32)])) == 1


def test_a_search_method_of_a_plug_in_decodes():
    run = t2t.load("zoo:ende_numbers", t2t_usr_dir=PLUGIN)
    texts = ["twenty-one cats", "", "three hundred and five"]
    how = {"seed": 3, "sampling_temperature": 2.0, "alpha": 1.0}
    drawn = run.translate(texts, 6, decode_method="sample", **how)
    ranked = run.translate(texts, 4, decode_method="my_best_of_samples", beam_size=6, **how)
    scores = [[one.score for one in found] for found in drawn]
    assert scores[0] != sorted(scores[0], reverse=True)
    best = [sorted(found, key=lambda one: -one.score)[:4] for found in drawn]
    assert [[one.ids for one in found] for found in ranked] == [[one.ids for one in found] for found in best]
    (single,) = run.translate(texts[:1], decode_method="my_best_of_samples", beam_size=6, **how)
    assert single == ranked[0][:1]
    with refused("n_best=7", 6, "beam_size"):
        run.translate(texts, 7, decode_method="my_best_of_samples", beam_size=6)
    with refused("decode_method", "'my_best_of_sample'", "my_best_of_samples"):
        run.translate(texts, decode_method="my_best_of_sample")


# === What each of them computes ===
def test_lion_steps_by_the_sign_of_a_mix_of_gradient_and_momentum():
    """Chen et al. 2023, algorithm 2: the mix has beta1, the momentum beta2."""
    hparams = TransformerHParams(optimizer_adam_beta1=0.5, optimizer_adam_beta2=0.75)
    optimizer = OPTIMIZERS.get("my_lion")(hparams, learning_rate=0.0, name="my_lion")
    weight = keras.Variable([0.0, 0.0])
    optimizer.build([weight])
    for gradient in ([2.0, -2.0], [-1.0, 0.25]):  # momentum 0.5, -0.5; mixes -0.25 and -0.125
        optimizer.update_step(keras.ops.convert_to_tensor(gradient), weight, 0.1)
    np.testing.assert_allclose(np.asarray(weight), [-0.1 + 0.1, 0.1 + 0.1], atol=1e-7)


def test_the_cooldown_ends_at_nearly_nothing():
    hparams = TransformerHParams(
        learning_rate_schedule="my_cooldown", learning_rate=0.1, learning_rate_warmup_steps=10, train_steps=1000
    )
    rates = [learning_rate(hparams, update) for update in (5, 10, 640, 1000)]
    np.testing.assert_allclose(rates, [0.05, 0.1, 0.1 / 8, 0.1 * 0.1 * 0.005], rtol=1e-6)


def test_the_focal_loss_is_that_of_the_probabilities():
    model, features = tiny_transformer(label_smoothing=0.0), batch()
    found = OBJECTIVES.get("my_focal")(TransformerHParams()).loss(model, features, None)
    targets_BT = features["targets"]
    probs_BTV = numpy(keras.ops.softmax(model(features)))
    p_BT = np.take_along_axis(probs_BTV, targets_BT[..., None], axis=-1)[..., 0]
    expected = (-((1 - p_BT) ** 2) * np.log(p_BT))[targets_BT != 0].sum()
    np.testing.assert_allclose(float(found.minimized), expected, rtol=1e-5)
    np.testing.assert_allclose(float(found.loss_sum), -np.log(p_BT)[targets_BT != 0].sum(), rtol=1e-5)


@pytest.mark.parametrize(("name", "near"), [("my_lino", "my_lion"), ("muom", "muon"), ("momentun", "momentum")])
def test_an_unknown_name_is_refused_with_the_near_ones(name, near):
    with refused("optimizer", f"'{name}'", near, "--registry_help;"):
        TransformerHParams(optimizer=name).freeze()


def test_names_of_plug_ins_are_accepted_with_every_hparam_that_they_may_read():
    TransformerHParams(**TRAINING, weight_decay=0.1, learning_rate_minimum=1e-5, objective_samples=3).freeze()
    with refused("weight_decay=0.1", "optimizer=adam;"):
        TransformerHParams(weight_decay=0.1).freeze()
