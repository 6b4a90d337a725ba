"""Sets, networks, runs and notebooks as they were written for Tensor2Tensor."""

import copy
import pickle
import random
import re
import sys

import numpy as np
import pytest

import t2t
from t2t.checkpoints.run_dir import RunDir
from t2t.cli import decoder, trainer
from t2t.cli import eval as eval_command
from t2t.errors import UnknownNameError
from t2t.registry import HPARAMS, MODELS
from t2t.text.subword import SubwordEncoder
from tests.errors import refused
from tests.in_process import call
from tests.reference import tensor2tensor as reference
from tests.unit.compat.plugins import ARRAYS, COLOURS, write_colours

UNCHANGED = """
@registry.register_hparams
def their_base():
  return transformer.transformer_base()

@registry.register_hparams
def their_first():
  return transformer.transformer_base_v1()

@registry.register_hparams
def their_tpu():
  return transformer.transformer_tpu()
"""
CHANGED = """
@registry.register_hparams("their_changed_set")
def changed():
  hparams = transformer.transformer_base_single_gpu()
  hparams.hidden_size = 64
  hparams.add_hparam("their_own", 3)
  hparams.learning_rate_constant = 0.2
  hparams.max_input_seq_length = 3
  return hparams

@registry.register_hparams
def their_lstm():
  hparams = lstm.lstm_luong_attention()
  hparams.hidden_size = 96
  return hparams

@registry.register_hparams
def their_music():
  hparams = transformer.transformer_clean_big_tpu()
  hparams.self_attention_type, hparams.max_relative_position = "dot_product_relative_v2", 8
  return hparams

@registry.register_hparams
def their_universal():
  hparams = transformer.transformer_base()
  hparams.hidden_size = 32
  return universal_transformer.update_hparams_for_universal_transformer(hparams)
"""
SAME = (
    "num_hidden_layers", "hidden_size", "filter_size", "num_heads", "norm_position", "attention_dropout",
    "relu_dropout", "layer_prepostprocess_dropout", "label_smoothing", "optimizer_adam_beta1",
    "optimizer_adam_beta2", "optimizer_adam_epsilon", "learning_rate_schedule", "learning_rate",
    "learning_rate_warmup_steps", "batch_size", "max_length", "optimizer",
)  # fmt: skip


def test_sets_have_the_values_of_their_version(load):
    from tensor2tensor.models import transformer

    load(UNCHANGED)
    for theirs, ours in (("their_base", "transformer_base_v3"), ("their_tpu", "transformer_tpu")):
        found, expected = ({name: getattr(HPARAMS.get(one)(), name) for name in SAME} for one in (theirs, ours))
        assert found == expected
    first = HPARAMS.get("their_first")()
    assert (first.norm_position, first.learning_rate, first.learning_rate_warmup_steps) == ("post", 1.0, 4000)
    assert transformer.transformer_librispeech_v1().hidden_size == 256
    assert (transformer.transformer_l4().num_hidden_layers, transformer.transformer_h1().num_heads) == (4, 1)


def test_sets_keep_what_a_plugin_changes(load):
    load(CHANGED)
    names = ("their_changed_set", "their_lstm", "their_music", "their_universal")
    changed, recurrent, music, universal = (HPARAMS.get(name)() for name in names)
    assert (changed.hidden_size, changed.batch_size, changed.learning_rate_warmup_steps) == (64, 1024, 16000)
    assert (changed.max_input_seq_length, changed.max_target_seq_length) == (3, 0)
    assert changed.learning_rate == pytest.approx(0.2 * 16000**-0.5)
    assert (type(recurrent), recurrent.hidden_size) == (type(HPARAMS.get("lstm_luong_attention")()), 96)
    assert (music.hidden_size, music.positions, music.relative_keys, music.relu_dropout) == (1024, "sinusoidal", 8, 0)
    assert universal.hidden_size == 32


def test_networks_of_tensorflow_1_are_refused_where_they_are_used(load):
    load("""
@registry.register_model
class TheirNetwork(t2t_model.T2TModel):
  def body(self, features):
    return common_layers.conv(features["inputs"])

class TheirEstimator(tf.estimator.Estimator):
  pass

def call():
  return tf.contrib.layers.xavier_initializer()
""")
    with refused("their_network"):
        MODELS.get("their_network")
    from tensor2tensor.layers import common_layers

    with refused("tensor2tensor.layers.common_layers.conv"):
        common_layers.conv(1)
    module = next(module for module in sys.modules.values() if "TheirEstimator" in vars(module))
    with refused("tensorflow.contrib.layers.xavier_initializer"):
        module.call()


@pytest.mark.parametrize(
    ("body", "names", "hparams", "vocabulary", "asked"),
    [
        (f"import config\n{COLOURS}", ("their_colours", "transformer", "transformer_tiny"),
         "hidden_size=8,filter_size=8,num_heads=2,num_hidden_layers=1,batch_size=128", ("inputs", "subword"),
         "red blue"),
        (ARRAYS, ("their_pictures", "resnet", "resnet_mnist"), "hidden_size=8,layer_sizes=[1,1],batch_size=2",
         ("targets", "label"), None),
    ],
    ids=["texts", "images"],
)  # fmt: skip
def test_a_run_of_their_plugin_is_trained_evaluated_decoded_and_loaded(
    load, tmp_path, body, names, hparams, vocabulary, asked
):
    write_colours(tmp_path)
    load(body, config="SIZE = 3\n")
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "run", "t2t_usr_dir": tmp_path / "their_plugin"}
    named = dict(zip(("problem", "model", "hparams_set"), names, strict=True))
    steps = {"train_steps": 1, "eval_steps": 1}
    call(trainer, "--generate_data", **named, **folders, **steps, hparams=hparams, tmp_dir=tmp_path)
    feature, kind = vocabulary
    assert RunDir.open(tmp_path / "run").record.vocabularies[feature].kind == kind
    figures = dict(re.findall(r"^(?:teacher_forced/)?(\w+) = (\S+)$", call(eval_command, **named, **folders).out, re.M))
    decoded = call(decoder, **named, **folders, decode_split="dev", decode_to_file=tmp_path / "out").out
    found = dict(re.findall(r"^(\w+) = (\S+)$", decoded, re.M))
    assert kind != "label" or found["accuracy_per_sequence"] == figures["accuracy"]
    translator = t2t.load(tmp_path / "run", t2t_usr_dir=tmp_path / "their_plugin")
    assert not asked or len(translator.translate([asked])) == 1
    assert asked or (tmp_path / "out").read_text() in ("zero\n", "one\n", "two\n")


def test_names_as_notebooks_use_them(load, tmp_path):
    write_colours(tmp_path)
    load(COLOURS)
    from tensor2tensor import problems
    from tensor2tensor.utils import registry, trainer_lib

    assert "their_colours" in problems.available()
    problem = problems.problem("their_colours")
    problem.generate_data(tmp_path / "data", tmp_path)
    encoders = problem.feature_encoders(str(tmp_path / "data"))
    ids = encoders["inputs"].encode("red green")
    assert encoders["inputs"].decode(ids) == "red green"
    example = next(iter(problem.dataset("train", str(tmp_path / "data"))))
    assert encoders["inputs"].decode(example["inputs"].numpy()) == "red red"
    drawn = [(trainer_lib.set_random_seed(3), random.random(), np.random.rand())[1:] for _ in range(2)]
    assert drawn[0] == drawn[1]
    numbers = registry.problem("algorithmic_reverse_decimal40")
    assert numbers.name == "algorithmic_reverse_decimal40"
    hparams = trainer_lib.create_hparams("transformer_tiny", "hidden_size=24", data_dir="data")
    assert (hparams.hidden_size, hparams.num_heads, hparams.data_dir) == (24, 4, "data")
    copied, stored = copy.deepcopy(hparams), pickle.loads(pickle.dumps(hparams))
    copied.modality["inputs"] = "changed"
    assert (stored.hidden_size, copied.hidden_size, hparams.modality) == (24, 24, {})
    with refused("'no_model'", by=UnknownNameError):
        registry.model("no_model")


def test_a_notebook_restores_a_checkpoint_of_theirs_and_of_ours_and_translates(tmp_path):
    from tensor2tensor import problems
    from tensor2tensor.utils import registry, trainer_lib

    from t2t.compat import tensorflow as tf

    tfe, modes = tf.contrib.eager, tf.estimator.ModeKeys
    tfe.enable_eager_execution()
    name, vocabulary = "translate_ende_numbers", SubwordEncoder.build(["a small dog runs", "a cat sees"], 60)
    (tmp_path / f"vocab.{name}.60.subwords").write_bytes(vocabulary.to_bytes())
    encoders = problems.problem(name).feature_encoders(str(tmp_path))
    values = reference.hparams(reference.NEW, norm="pre")
    variables = reference.random_variables(reference.NEW, values, vocabulary.vocab_size)
    reference.write_run(tmp_path / "checkpoints/theirs", values, variables, {"model": "transformer"})
    inputs = [[[*encoders["inputs"].encode("a small dog"), 1]]]
    changes = {name: value for name, value in values.items() if name != "problem"}
    hparams = trainer_lib.create_hparams("transformer_base", data_dir=tmp_path, problem_name=name)
    hparams.override_from_dict({name: value for name, value in changes.items() if name in hparams})
    (tmp_path / "checkpoints/theirs/hparams.json").unlink()
    model = registry.model("transformer")(hparams, modes.EVAL)
    with tfe.restore_variables_on_create(str(tmp_path / "checkpoints/theirs/model.ckpt-1234")):
        found = model.infer({"inputs": np.array(inputs)[..., None]}, decode_length=3)["outputs"]
    network = reference.Network(reference.NEW, values, variables, target_space_id=8)
    first = network.logits(np.array(inputs[0][0]), np.array([5]))[0]
    assert found[0][0] == first.argmax()
    of_zoo = t2t.load("zoo:ende_numbers").problem.encoders
    numbers = of_zoo["inputs"].encode("twenty-one cats")
    with tfe.restore_variables_on_create("zoo:ende_numbers"):
        ours = model.infer({"inputs": [[*numbers, 1, 0]]})["outputs"]
        with refused("top_beams=2"):
            model.infer({"inputs": [numbers]}, top_beams=2)
    assert of_zoo["targets"].decode(ours[0][:-1]) == "einundzwanzig Katzen"
    with refused("infer:", "restore_variables_on_create(path)`,"):
        model.infer({"inputs": [numbers]})
    hparams.del_hparam("problem")
    with tfe.restore_variables_on_create(str(tmp_path / "model.ckpt-9")), refused("model.ckpt-9", "problem_name=...)"):
        model.infer({"inputs": [numbers]})
    assert tfe.Iterator([1, 2]).next() == 1
    with refused("tensorflow.contrib.eager.py_func"):
        tfe.py_func()
