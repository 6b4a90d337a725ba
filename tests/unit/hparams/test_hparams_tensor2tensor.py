"""Sets with Tensor2Tensor's values, compared with the raw values and formulas of its source.

Facts of tensor2tensor/models/*.py and, where a set says nothing, of `basic_params1` in layers/common_hparams.py, at tag
v1.15.7 unless a row names another; the formulas are those of utils/learning_rate.py.
"""

import math

import pytest

from t2t.runs.names import get_hparams
from t2t.training.schedules import learning_rate

BASIC = {
    "batch_size": 4096, "clip_grad_norm": 2.0, "optimizer_adam_beta1": 0.85, "optimizer_adam_beta2": 0.997,
    "optimizer_adam_epsilon": 1e-6, "learning_rate_warmup_steps": 100, "learning_rate": 0.1, "scheme": "none",
}  # fmt: skip
_TRANSFORMER_ADAM = {
    "optimizer_adam_beta1": 0.9, "optimizer_adam_beta2": 0.98, "optimizer_adam_epsilon": 1e-9,
    "learning_rate_warmup_steps": 4000, "scheme": "noam",
}  # fmt: skip
_TRANSFORMER = _TRANSFORMER_ADAM | {"hidden_size": 512, "clip_grad_norm": 0.0}
_TRANSFORMER_V3 = _TRANSFORMER | {
    "optimizer_adam_beta2": 0.997, "learning_rate": 0.2, "learning_rate_warmup_steps": 8000, "attention_dropout": 0.1,
    "relu_dropout": 0.1, "layer_prepostprocess_dropout": 0.1,
}  # fmt: skip
_PARSING = _TRANSFORMER | {"learning_rate": 0.5, "hidden_size": 1024}
# "exp" multiplies by learning_rate_decay_rate, which is 1.
_EXPONENTIAL = {"learning_rate": 0.05, "learning_rate_warmup_steps": 3000, "scheme": "exp"}
_SLICE_NET = _EXPONENTIAL | {"hidden_size": 768, "batch_size": 1024, "dropout": 0.5}
_SLICE_NET_NOAM = _SLICE_NET | _TRANSFORMER_ADAM | {"learning_rate": 1.0}
_XCEPTION = _EXPONENTIAL | {"hidden_size": 768, "batch_size": 128, "dropout": 0.2, "num_hidden_layers": 8}
_MOMENTUM = {
    "optimizer": "momentum", "optimizer_momentum_momentum": 0.9, "weight_decay": 1e-4, "clip_grad_norm": 0.0,
    "batch_size": 128, "scheme": "cosine",
}  # fmt: skip
_RESNET = _MOMENTUM | {"optimizer_momentum_nesterov": True, "learning_rate": 0.4, "train_steps": 120_000}
_SHAKE = _MOMENTUM | {
    "hidden_size": 32, "label_smoothing": 0.0, "num_hidden_layers": 26, "learning_rate": 0.2, "train_steps": 700_000,
}  # fmt: skip
_IMAGES = _TRANSFORMER | {
    "num_hidden_layers": 12, "num_heads": 8, "filter_size": 512, "label_smoothing": 0.0, "block_length": 256,
    "layer_prepostprocess_dropout": 0.0, "batch_size": 4 * 3200,
}  # fmt: skip
_LSTM = {"hidden_size": 128, "batch_size": 1024, "num_hidden_layers": 2, "dropout": 0.2}

THEIRS = {
    "transformer_base_v1": _TRANSFORMER,  # transformer.py, transformer_base_v1
    "transformer_base_v2": _TRANSFORMER
    | {  # transformer.py, transformer_base_v2
        "learning_rate": 0.2,
        "learning_rate_warmup_steps": 8000,
        "attention_dropout": 0.1,
        "relu_dropout": 0.1,
        "layer_prepostprocess_dropout": 0.1,
    },
    "transformer_librispeech": _TRANSFORMER  # transformer.py, transformer_librispeech_v2 on transformer_base
    | {
        "learning_rate": 0.15,
        "learning_rate_warmup_steps": 8000,
        "optimizer_adam_beta2": 0.997,
        "batch_size": 16,
        "num_encoder_layers": 6,
        "num_decoder_layers": 4,
        "hidden_size": 384,
        "filter_size": 1536,
        "num_heads": 2,
        "attention_dropout": 0.1,
        "relu_dropout": 0.2,
        "layer_prepostprocess_dropout": 0.2,
    },
    "transformer_parsing_base": _PARSING  # transformer.py of v1.0.3, transformer_parsing_base_dr6
    | {"learning_rate_warmup_steps": 16_000, "attention_dropout": 0.2, "layer_prepostprocess_dropout": 0.2},
    "transformer_parsing_big": _PARSING  # transformer.py of v1.0.3, transformer_parsing_big
    | {"batch_size": 2048, "filter_size": 4096, "num_heads": 16, "layer_prepostprocess_dropout": 0.1},
    "universal_transformer_base": _TRANSFORMER_V3  # research/universal_transformer.py, as the two below
    | {"hidden_size": 1024, "filter_size": 4096, "num_heads": 16, "layer_prepostprocess_dropout": 0.3},
    "universal_transformer_big": _TRANSFORMER_V3
    | {"hidden_size": 2048, "filter_size": 8192, "num_heads": 16, "layer_prepostprocess_dropout": 0.3},
    "universal_transformer_tiny": _TRANSFORMER_V3
    | {"hidden_size": 128, "filter_size": 512, "num_heads": 4, "num_hidden_layers": 2, "num_rec_steps": 8},
    "slice_net": _SLICE_NET_NOAM,  # slicenet.py, slicenet_1noam
    "slicenet_1noam": _SLICE_NET_NOAM,  # slicenet.py
    "slicenet_1": _SLICE_NET,  # slicenet.py
    "slicenet_1tiny": _SLICE_NET | {"hidden_size": 128, "batch_size": 512, "learning_rate_warmup_steps": 200},
    "multi_model": {  # research/multimodel.py of v1.8.0, multimodel_base
        "hidden_size": 512,
        "filter_size": 2048,
        "num_heads": 8,
        "batch_size": 2048,
        "learning_rate": 0.1,
        "learning_rate_warmup_steps": 4000,
        "scheme": "noam",
        "dropout": 0.1,
    },
    "bytenet_base": _EXPONENTIAL  # bytenet.py
    | {"hidden_size": 768, "batch_size": 2048, "dropout": 0.2, "num_hidden_layers": 4, "label_smoothing": 0.1},
    "xception_base": _XCEPTION,  # xception.py
    "xception_tiny": _XCEPTION | {"hidden_size": 64, "batch_size": 2, "num_hidden_layers": 2, "scheme": "none"},
    "resnet_18": _RESNET | {"layer_sizes": (2, 2, 2, 2), "block_fn": "residual"},  # resnet.py, as the three below
    "resnet_34": _RESNET | {"layer_sizes": (3, 4, 6, 3), "block_fn": "residual"},
    "resnet_50": _RESNET | {"layer_sizes": (3, 4, 6, 3), "block_fn": "bottleneck"},
    "resnet_152": _RESNET | {"layer_sizes": (3, 8, 36, 3), "block_fn": "bottleneck"},
    "shakeshake_small": _SHAKE,  # shake_shake.py, as the two below
    "shakeshake_big": _SHAKE | {"hidden_size": 96},
    "shake_shake_quick": _SHAKE | {"optimizer": "adam", "learning_rate": 0.5, "batch_size": 100, "train_steps": 1000},
    "imagetransformer_base": _IMAGES,  # image_transformer.py, where a batch is 4 images; as the two below
    "imagetransformer_cifar10_base": _IMAGES
    | {"num_heads": 4, "filter_size": 2048, "layer_prepostprocess_dropout": 0.3, "learning_rate": 0.5},
    "imagetransformer_tiny": _IMAGES | {"num_hidden_layers": 2, "hidden_size": 64},
    "lstm_seq2seq": _LSTM,  # lstm.py, as the two below
    "lstm_bahdanau_attention": _LSTM,
    "lstm_luong_attention": _LSTM,
    "neural_gpu": {  # neural_gpu.py
        "hidden_size": 256,
        "batch_size": 1024,
        "num_hidden_layers": 1,
        "dropout": 0.1,
        "label_smoothing": 0.0,
        "clip_grad_norm": 10.0,
        "learning_rate": 0.02,
        "learning_rate_warmup_steps": 3000,
        "scheme": "exp",
    },
}

_ADAMS_RATE = {"learning_rate_schedule": "linear", "learning_rate": 0.001, "learning_rate_warmup_steps": 1000}
_NO_ADAM = {"optimizer_adam_beta1": 0.9, "optimizer_adam_beta2": 0.98, "optimizer_adam_epsilon": 1e-9}
_LSTM_OTHERWISE = {
    "optimizer_adam_beta1": 0.9, "optimizer_adam_beta2": 0.999, "optimizer_adam_epsilon": 1e-8, "clip_grad_norm": 1.0,
    "learning_rate_schedule": "inverse_sqrt", "learning_rate": 0.002, "learning_rate_warmup_steps": 500,
}  # fmt: skip
OTHERWISE = {
    "slice_net": {"batch_size": 4096},
    "transformer_librispeech": {"batch_size": 20_000},  # of 10 ms each, and not sentences
    "multi_model": {"dropout": 0.4},
    "xception_base": _ADAMS_RATE,
    "xception_tiny": _ADAMS_RATE | {"batch_size": 128},
    **dict.fromkeys(
        ("resnet_18", "resnet_34", "resnet_50", "resnet_152", "shakeshake_small", "shakeshake_big"), _NO_ADAM
    ),
    "shake_shake_quick": {"weight_decay": 0.0},
    "lstm_seq2seq": _LSTM_OTHERWISE,
    "lstm_bahdanau_attention": _LSTM_OTHERWISE,
    "lstm_luong_attention": _LSTM_OTHERWISE,
    "neural_gpu": {
        "optimizer_adam_beta1": 0.9,
        "optimizer_adam_beta2": 0.98,
        "optimizer_adam_epsilon": 1e-9,
        "learning_rate": 0.001,
        "learning_rate_warmup_steps": 100,
    },
}
"""Values that differ on purpose, as the set documents: the paper's value, or Adam's usual one."""


def their_rate(raw, step):
    """Returns Adam's learning rate in update `step` + 1, as in `legacy_learning_rate_schedule`."""
    rate, warmup = raw["learning_rate"], raw["learning_rate_warmup_steps"]
    if raw["scheme"] == "noam":
        factor = 5000.0 * raw["hidden_size"] ** -0.5 * min((step + 1) * warmup**-1.5, (step + 1) ** -0.5)
    else:
        factor = math.exp(math.log(0.01) / warmup) ** (warmup - step) if step < warmup else 1.0
    return factor * 0.002 * rate


@pytest.mark.parametrize("name", THEIRS)
def test_a_set_has_the_values_of_tensor2tensors_but_where_it_says_otherwise(name):
    hparams, raw, otherwise = get_hparams(name), BASIC | THEIRS[name], OTHERWISE.get(name, {})
    fields = raw.keys() - {"learning_rate", "scheme"}
    expected = {field: raw[field] for field in fields} | otherwise
    assert {field: getattr(hparams, field) for field in expected} == expected
    for field in otherwise.keys() & fields:
        assert otherwise[field] != raw[field], f"{field} is theirs"


_COSINES = [name for name, raw in THEIRS.items() if raw.get("scheme") == "cosine"]
_AS_THEIRS = [name for name in THEIRS if "learning_rate" not in OTHERWISE.get(name, {}) and name not in _COSINES]


@pytest.mark.parametrize("name", _COSINES)
def test_a_cosine_is_tensor2tensors_but_for_its_warm_up(name):
    """Their cosine falls from the first update on; the factor 0.002 applies only to Adam."""
    hparams, raw = get_hparams(name), BASIC | THEIRS[name]
    peak = raw["learning_rate"] * (0.002 if raw["optimizer"] == "adam" else 1.0)
    for part in (0.2, 0.5, 0.8, 1.0):
        update = round(part * hparams.train_steps)
        found = learning_rate(hparams, update, hidden_size=hparams.hidden_size, train_steps=hparams.train_steps)
        assert found == pytest.approx(peak * 0.5 * (1 + math.cos(math.pi * part)), abs=0.1 * peak)


@pytest.mark.parametrize("name", _AS_THEIRS)
def test_a_rate_is_what_tensor2tensors_comes_to(name):
    """Its Adam multiplies every rate by 0.002, and `noam` by 5000. Warm-up of other schedules is exponential."""
    hparams, raw = get_hparams(name), BASIC | THEIRS[name]
    warmup = raw["learning_rate_warmup_steps"]
    for update in (1, warmup // 2, warmup, warmup + 1, 2 * warmup, 100_000):
        if raw["scheme"] == "noam" or update > warmup:
            found = learning_rate(hparams, update, hidden_size=hparams.hidden_size, train_steps=250_000)
            assert found == pytest.approx(their_rate(raw, update - 1), rel=1e-9), update


def test_a_rate_that_is_otherwise_is_another():
    for name, otherwise in OTHERWISE.items():
        if "learning_rate" in otherwise:
            assert otherwise["learning_rate"] > 5 * their_rate(BASIC | THEIRS[name], 100_000)
