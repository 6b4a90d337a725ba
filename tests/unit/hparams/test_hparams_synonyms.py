"""Synonyms of hparams and flags."""

import importlib

import pytest

from t2t.cli.flags import has_flag
from t2t.hparams.override import SYNONYMS, meant_by
from t2t.runs.names import hparam_names

COMMANDS = ("trainer", "decoder", "datagen", "eval", "exporter", "tune")


@pytest.fixture(scope="module")
def flags():
    """The flags with an effect of the commands that handle runs."""
    each = [importlib.import_module(f"t2t.cli.{name}").build_flags() for name in COMMANDS]
    return {name for values in each for name in values if has_flag(values, name)}


def test_what_is_proposed_exists(flags):
    hparams = {*hparam_names(), *hparam_names("lstm_attention")}
    assert set(SYNONYMS) <= flags | hparams


@pytest.mark.parametrize(("name", "proposed"), [
    ("lr", "learning_rate"), ("warmup", "learning_rate_warmup_steps"), ("epochs", "train_steps"),
    ("BF16", "precision"), ("d_model", "hidden_size"), ("layers", "num_hidden_layers"),
    ("patience", "early_stopping_steps"), ("heads", "num_heads"), ("d_ff", "filter_size"),
    ("dropout", "layer_prepostprocess_dropout attention_dropout relu_dropout"), ("train_step", "train_steps"),
    ("hiden_size", "hidden_size filter_size beam_size"), ("xyzzy", ""),
    ("droput", "layer_prepostprocess_dropout attention_dropout relu_dropout"),
])  # fmt: skip
def test_a_synonym_is_proposed_instead_of_names_that_resemble_it(name, proposed):
    assert meant_by(name, hparam_names()) == proposed.split()
