import copy
import itertools
import json
from dataclasses import dataclass

import pytest

from t2t.errors import UnknownNameError
from t2t.hparams.base import HParams
from t2t.hparams.evolved_transformer import evolved_transformer_base
from t2t.hparams.field import UsedWhen, param
from t2t.hparams.transformer import TransformerHParams, transformer_base
from tests.errors import refused


@dataclass(kw_only=True)
class Family(HParams):
    kernel_sizes: tuple = param((3, 5), "Widths of the kernels, in positions.")
    gate: bool = param(False, "Whether there is a gate.")
    gate_bias: float = param(0.0, "Bias of the gate.", minimum=-1.0, maximum=1.0, used_when=UsedWhen("gate", (True,)))

    def complaints(self):
        return ["gate and width do not fit"] if self.gate and self.hidden_size == 7 else []


@pytest.fixture
def hparams():
    return Family()


def test_one_flat_set_of_names_over_sections(hparams):
    assert (hparams.hidden_size, hparams.batch_size, hparams.gate) == (512, 4096, False)
    hparams.hidden_size = 64
    hparams.batch_size = 100
    assert hparams == Family(hidden_size=64, batch_size=100)
    assert {"hidden_size", "batch_size", "gate", "replace"} <= set(dir(hparams))
    values = hparams.to_dict()
    assert list(values) == ["model", "objective", "schedule", "optimization", "batch", "mixture", "train", "decode"]
    assert (values["model"]["hidden_size"], values["model"]["gate"], values["batch"]["batch_size"]) == (64, False, 100)
    assert [name for section in values.values() for name in section] == [name for name, _ in hparams.items()]
    assert hparams.document("hidden_size") == "Width D of the hidden states, in channels."
    assert "padded tokens per side per replica" in hparams.document("batch_size").lower()
    assert hparams != values
    with pytest.raises(TypeError):
        hash(hparams)


def test_replace_returns_a_copy_and_sets_are_changed_as_tensor2tensors_users_do(hparams):
    changed = hparams.replace(hidden_size=64, batch_size=100)
    assert (changed.hidden_size, changed.batch_size) == (64, 100)
    assert (hparams.hidden_size, hparams.batch_size) == (512, 4096)
    own = transformer_base()
    own.hidden_size = 1024
    assert own.freeze().hidden_size == 1024
    assert transformer_base().hidden_size == 512
    changed = hparams.override("hidden_size=64,kernel_sizes=[7],gate=true")
    assert (changed.hidden_size, changed.kernel_sizes, changed.gate) == (64, (7,), True)
    assert changed.override("kernel_sizes[0]=9").kernel_sizes == (9,)
    assert changed.difference(hparams) == {
        "hidden_size": (512, 64),
        "kernel_sizes": ((3, 5), (7,)),
        "gate": (False, True),
    }
    assert changed.difference(transformer_base())["gate"] == (None, True)
    assert hparams.override("") == hparams
    assert hparams.difference(hparams) == {}


def test_what_an_override_leaves_unread_falls_back_and_what_it_says_itself_does_not(hparams):
    beam = hparams.replace(beam_size=8, alpha=1.0)
    greedy = beam.override("decode_method=greedy").freeze()
    assert (greedy.beam_size, greedy.alpha) == (4, 0.6)
    with refused("beam_size=7", "decode_method=greedy"):
        beam.override("decode_method=greedy,beam_size=7").freeze()
    with refused("weight_decay=0.1"):
        hparams.replace(weight_decay=0.1).override("hidden_size=64").freeze()  # a mistake of the set's author


def test_merged_overrides_are_as_one_after_the_other():
    """Of every pair of texts; `later` drops what it leaves unread, and is refused for what it leaves unread itself."""
    texts = [
        "", "positions=words", "positions=words,read_next_word=true", "read_next_word=true,positions=words,num_heads=2",
        "positions=rotary", "positions=relative,max_relative_position=7", "max_relative_position=8",
        "decode_method=greedy", "beam_size=8,alpha=1.0", "decode_method=sample,sampling_top_k=5,eos_penalty=0.5",
        "objective=minimum_risk,objective_sharpness=0.1", "objective=expected_reward,objective_samples=3",
        "objective=likelihood", "optimizer=adamw,weight_decay=0.1", "optimizer=momentum", "optimizer=sgd",
        "problem_choice=size", "problem_choice=weights,problem_weights=[1,2]", "problem_weights[0]=5",
    ]  # fmt: skip
    one = TransformerHParams()
    for earlier, later in itertools.product(texts, texts):
        merged = TransformerHParams.merge(earlier, later)
        assert one.override(merged) == one.override(earlier).override(later), (earlier, later)
    assert TransformerHParams.merge("positions=words,read_next_word=true,num_heads=2", "positions=rotary") == (
        "num_heads=2,positions=rotary"
    )
    with refused("read_next_word=True", "positions=rotary"):
        one.override(TransformerHParams.merge("positions=words", "positions=rotary,read_next_word=true")).freeze()
    # What no field is named is kept.
    assert HParams.merge("positions=words,read_next_word=true,beam_size=8", "decode_method=greedy") == (
        "positions=words,read_next_word=true,decode_method=greedy"
    )
    with refused("decode_method[0]"):
        HParams.merge("beam_size=8", "decode_method[0]=greedy")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, HParams.replace])
def test_copies_stand_alone_and_are_open(hparams, copied):
    other = copied(hparams.freeze())
    other.hidden_size = 2
    assert hparams.hidden_size == 512
    assert other != hparams
    assert copied(hparams) == hparams
    assert hparams.freeze() is hparams
    with refused("hidden_size=64", "replace(hidden_size=...)"):
        hparams.hidden_size = 64


# === Names and types ===
def test_unknown_names_are_answered_with_the_nearest(hparams):
    for use in (
        lambda: Family(hiden_size=3), lambda: setattr(hparams, "hiden_size", 3), lambda: hparams.replace(hiden_size=3),
        lambda: hparams.document("hiden_size"),
    ):  # fmt: skip
        with refused("'hiden_size'", "hidden_size", by=UnknownNameError):
            use()
    assert not hasattr(hparams, "hiden_size")
    assert getattr(hparams, "hiden_size", 5) == 5


@pytest.mark.parametrize(("name", "value", "kind"), [
    ("hidden_size", 64.0, "int"), ("hidden_size", "64", "int"), ("hidden_size", True, "int"),
    ("hidden_size", None, "int"), ("gate", 1, "bool"), ("learning_rate", "0.1", "float"),
    ("learning_rate", False, "float"), ("optimizer", 3, "str"), ("kernel_sizes", 3, "tuple"),
    ("kernel_sizes", (2.5,), "int"), ("kernel_sizes", ("3",), "int"), ("kernel_sizes", (True,), "int"),
    ("problem_weights", ("1",), "float"),
])  # fmt: skip
def test_types_are_those_of_the_defaults(hparams, name, value, kind):
    with refused(f"{name}={value!r}", kind) as error:
        hparams.replace(**{name: value})
    assert hparams.document(name) in str(error.value)
    changed = hparams.replace(learning_rate=1, kernel_sizes=[1, 2], problem_weights=[1, 2])
    assert (type(changed.learning_rate), changed.kernel_sizes) == (float, (1, 2)), "which may stand for these"
    assert [type(weight) for weight in changed.problem_weights] == [float, float]


@pytest.mark.parametrize(("name", "about"), [("batch_size", ["model", "batch;"]), ("replace", [])])
def test_a_name_in_two_sections_or_of_a_method_is_refused(name, about):
    with refused(f"'{name}'", *about):
        type("Taken", (HParams,), {"__annotations__": {name: int}, name: param(3, "Taken.")})


def test_families_may_give_another_default_and_their_layers_and_channels_follow_from_one_number_each():
    @dataclass(kw_only=True)
    class Narrow(HParams):
        hidden_size: int = param(8, "Width, in channels.")

    assert Narrow().to_dict()["model"]["hidden_size"] == 8
    plain = TransformerHParams(num_hidden_layers=3, hidden_size=24)
    assert (plain.encoder_layers, plain.decoder_layers, plain.key_channels, plain.value_channels) == (3, 3, 24, 24)
    own = TransformerHParams(
        num_encoder_layers=1, num_decoder_layers=2, attention_key_channels=8, attention_value_channels=16
    )
    assert (own.encoder_layers, own.decoder_layers, own.key_channels, own.value_channels) == (1, 2, 8, 16)
    assert plain.of_decoder == plain
    wide = plain.replace(num_decoder_heads=4, decoder_filter_size=40)
    assert (wide.of_decoder.num_heads, wide.of_decoder.filter_size) == (4, 40)
    assert plain.with_decoder(4, 40) == wide
    assert wide.with_decoder(plain.num_heads, plain.filter_size) == plain


# === Values ===
def refuses_what_it_names(hparams, changes, about):
    """Freezing hparams with changes is refused by the first of them; the error names its value and all of `about`."""
    (name, value), *_ = changes.items()
    with refused(f"{name}={value!r}" if name != "positions" else f"{name}={value}", *about):
        hparams.replace(**changes).freeze()


@pytest.mark.parametrize(("changes", "about"), [
    ({"hidden_size": 0}, ["1"]), ({"hidden_size": 2**31}, ["2,147,483,647"]), ({"label_smoothing": 1.0}, ["0.99"]),
    ({"optimizer": "adem"}, ["adam", "adamw", "adamax?"]), ({"gate_bias": 0.5}, ["gate=False", "gate=True"]),
    ({"gate_bias": 1.5, "gate": True}, ["1.0"]),
    ({"learning_rate_minimum": 1e-5}, ["learning_rate_schedule=noam", "learning_rate_schedule=linear|cosine"]),
    ({"weight_decay": 0.1}, ["optimizer=adam;", "optimizer=adamw|lamb|muon|momentum"]),
    ({"sampling_top_k": 5}, ["decode_method=beam", "decode_method=sample"]),
    ({"learning_rate": float("nan")}, []), ({"learning_rate": float("inf")}, []), ({"alpha": 10.1}, ["10.0"]),
    ({"eos_penalty": 1e7}, ["1000000.0"]), ({"coverage_penalty": 1e7}, ["1000000.0"]),
    ({"problem_weights": (float("nan"),), "problem_choice": "weights"}, []),
    ({"kernel_sizes": (2**31,)}, ["2,147,483,647"]), ({"max_length": 1}, ["2"]), ({"beam_size": 0}, ["1"]),
    ({"learning_rate": -1.0}, ["0.0"]), ({"label_smoothing": -0.1}, ["0.0"]), ({"train_steps": -1}, ["0"]),
    ({"optimizer_adam_beta1": 1.0}, ["0.999999"]), ({"optimizer_adam_beta2": 1.0}, ["0.999999"]),
    ({"optimizer_adam_epsilon": 0.0}, ["1e-30"]), ({"ema_decay": 1.0}, ["0.999999"]),
])  # fmt: skip
def test_what_freezing_refuses(hparams, changes, about):
    refuses_what_it_names(hparams, changes, about)


def test_freezing_allows_what_is_read_refuses_what_does_not_fit_together_and_reports_all_at_once(hparams):
    hparams.replace(gate=True, gate_bias=-1.0).freeze()
    hparams.replace(learning_rate_schedule="cosine", learning_rate_minimum=1e-5).freeze()
    hparams.replace(optimizer="adamw", weight_decay=0.1).freeze()
    odd = {"hidden_size": 15, "attention_key_channels": 16, "attention_value_channels": 16}
    transformer_base().replace(positions="learned", **odd).freeze()  # which have no sinusoids
    with refused("gate", "width"):
        hparams.replace(gate=True, hidden_size=7).freeze()
    with refused("hidden_size=0", "gate_bias=0.5", "batch_size=0"):
        hparams.replace(hidden_size=0, batch_size=0, gate_bias=0.5).freeze()
    hparams.hidden_size = 3  # one that was refused is not frozen


@pytest.mark.parametrize(("changes", "about"), [
    ({"num_heads": 3}, ["512"]), ({"num_decoder_heads": 3}, ["512"]),
    ({"num_heads": 8, "attention_value_channels": 9}, ["9"]),
    ({"hidden_size": 15, "attention_key_channels": 16, "attention_value_channels": 16}, []),
    ({"positions": "relative", "max_length": 2048}, ["max_length=2048"]),
    ({"positions": "rotary", "num_heads": 512}, ["num_heads"]),
    ({"packed_length": 128, "positions": "words"}, ["positions=words"]),
    ({"num_kv_heads": 3}, ["num_heads=8"]), ({"max_relative_position": 20}, ["positions=relative"]),
    ({"positions": "relative_bias", "max_length": 2048}, ["max_length=2048"]),
    ({"relative_bias_buckets": 32, "positions": "relative_bias", "relative_bias_max_distance": 16},
     ["relative_bias_max_distance=16"]),
    ({"max_relative_position": 129, "positions": "relative"}, ["128"]), ({"num_heads": 0}, ["1"]),
])  # fmt: skip
def test_what_the_transformer_refuses(changes, about):
    refuses_what_it_names(transformer_base(), changes, about)


@pytest.mark.parametrize(("changes", "about"), [
    ({"num_heads": 4, "attention_value_channels": 12}, ["12", "8"]),
    ({"num_kv_heads": 3, "num_heads": 12, "hidden_size": 24}, ["16"]),
    ({"decoder_layer": "ssru"}, []), ({"positions": "relative_bias"}, ["16", "8"]), ({"filter_size": 255}, ["256"]),
    ({"positions": "rotary", "num_heads": 4, "hidden_size": 24}, ["8", "3"]),
])  # fmt: skip
def test_what_the_evolved_transformer_refuses_for_its_wide_attention_and_branches(changes, about):
    (name, value), *_ = changes.items()
    with refused(f"{name}={value}", *about):
        evolved_transformer_base().replace(**changes).freeze()


# === Out and in ===
def test_comes_back_from_json(hparams):
    changed = hparams.replace(hidden_size=64, kernel_sizes=(1, 2, 3), learning_rate=0.1)
    read = Family.from_dict(json.loads(json.dumps(changed.to_dict())))
    assert read == changed
    assert read.kernel_sizes == (1, 2, 3)
    data = changed.to_dict()
    del data["model"]["gate"], data["decode"]  # data of an older version has defaults where it is silent
    read = Family.from_dict(data)
    assert (read.hidden_size, read.gate, read.beam_size) == (64, False, 4)
    data["model"]["wings"] = 2
    with refused("'wings'", by=UnknownNameError):
        Family.from_dict(data)
