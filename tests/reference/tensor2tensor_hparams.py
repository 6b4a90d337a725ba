"""Values of Tensor2Tensor's hparams sets, and what its learning rates come to.

Facts of tensor2tensor/models/*.py and, where a set says nothing, of `basic_params1` in layers/common_hparams.py, at tag
v1.15.7 unless a row names another; the formulas are those of utils/learning_rate.py. `learning_rate` and `scheme` are
the factors and the schedule of those formulas; all other names are those of our hparams.
"""

import math

BASIC = {
    "batch_size": 4096, "clip_grad_norm": 2.0, "optimizer_adam_beta1": 0.85, "optimizer_adam_beta2": 0.997,
    "optimizer_adam_epsilon": 1e-6, "learning_rate_warmup_steps": 100, "learning_rate": 0.1, "scheme": "none",
}  # fmt: skip
_TRANSFORMER_ADAM = {
    "optimizer_adam_beta1": 0.9, "optimizer_adam_beta2": 0.98, "optimizer_adam_epsilon": 1e-9,
    "learning_rate_warmup_steps": 4000, "scheme": "noam",
}  # fmt: skip
_TRANSFORMER = _TRANSFORMER_ADAM | {"hidden_size": 512, "clip_grad_norm": 0.0}
_V1 = _TRANSFORMER | {"filter_size": 2048}
_V2 = _TRANSFORMER | {
    "learning_rate": 0.2, "learning_rate_warmup_steps": 8000, "attention_dropout": 0.1, "relu_dropout": 0.1,
    "layer_prepostprocess_dropout": 0.1,
}  # fmt: skip
_V3 = _V2 | {"optimizer_adam_beta2": 0.997}
_BIG = _TRANSFORMER | {"hidden_size": 1024, "filter_size": 4096, "num_heads": 16, "num_hidden_layers": 6}
_PARSING = _TRANSFORMER | {"learning_rate": 0.5, "hidden_size": 1024}
# "exp" multiplies by learning_rate_decay_rate, which is 1.
_EXPONENTIAL = {"learning_rate": 0.05, "learning_rate_warmup_steps": 3000, "scheme": "exp"}
_SLICE_NET = _EXPONENTIAL | {"hidden_size": 768, "batch_size": 1024, "dropout": 0.5, "num_hidden_layers": int(1.5 * 4)}
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
_NEURAL_GPU = {
    "hidden_size": 256, "batch_size": 1024, "num_hidden_layers": 1, "dropout": 0.1, "label_smoothing": 0.0,
    "clip_grad_norm": 10.0, "learning_rate": 0.02, "learning_rate_warmup_steps": 3000, "scheme": "exp",
}  # fmt: skip

THEIRS = {
    # transformer.py; of v1.0.3 the sets for parsing, "dr1" and "dr3"; channels are those of all heads
    "transformer_base_v1": _V1,
    "transformer_base_v2": _V2,
    "transformer_big_dr1": _BIG | {"layer_prepostprocess_dropout": 0.1},
    "transformer_big_dr3": _BIG | {"layer_prepostprocess_dropout": 0.3},
    "transformer_k128": _V1 | {"attention_key_channels": 128},
    "transformer_k256": _V1 | {"attention_key_channels": 256},
    **dict.fromkeys(("transformer_librispeech", "transformer_librispeech_v2"), _V3 | {
        "learning_rate": 0.15, "batch_size": 16, "num_encoder_layers": 6, "num_decoder_layers": 4, "hidden_size": 384,
        "filter_size": 1536, "num_heads": 2, "relu_dropout": 0.2, "layer_prepostprocess_dropout": 0.2,
    }),
    "transformer_librispeech_v1": _V3 | {
        "learning_rate": 0.15, "batch_size": 6_000_000, "num_encoder_layers": 5, "num_decoder_layers": 3,
        "hidden_size": 256, "filter_size": 1024, "num_heads": 4,
    },
    "transformer_parsing_base_dr6": _PARSING | {
        "learning_rate_warmup_steps": 16_000, "attention_dropout": 0.2, "layer_prepostprocess_dropout": 0.2,
        "filter_size": 2048, "num_heads": 8, "num_hidden_layers": 6, "max_length": 512, "shared_embedding": False,
    },
    "transformer_parsing_big": _PARSING | {
        "batch_size": 2048, "filter_size": 4096, "num_heads": 16, "layer_prepostprocess_dropout": 0.1,
    },
    # research/universal_transformer.py
    "universal_transformer_base": _V3 | {
        "hidden_size": 1024, "filter_size": 4096, "num_heads": 16, "layer_prepostprocess_dropout": 0.3,
    },
    "universal_transformer_big": _V3 | {
        "hidden_size": 2048, "filter_size": 8192, "num_heads": 16, "layer_prepostprocess_dropout": 0.3,
    },
    "universal_transformer_tiny": _V3 | {
        "hidden_size": 128, "filter_size": 512, "num_heads": 4, "num_hidden_layers": 2, "num_rec_steps": 8,
    },
    # slicenet.py
    "slice_net": _SLICE_NET_NOAM,
    "slicenet1noam": _SLICE_NET_NOAM,
    "slicenet1": _SLICE_NET,
    "slicenet1tiny": _SLICE_NET | {
        "hidden_size": 128, "num_hidden_layers": int(1.5 * 2), "batch_size": 512, "learning_rate_warmup_steps": 200,
    },
    "multi_model": {  # research/multimodel.py of v1.8.0, multimodel_base
        "hidden_size": 512, "filter_size": 2048, "num_heads": 8, "batch_size": 2048, "learning_rate": 0.1,
        "learning_rate_warmup_steps": 4000, "scheme": "noam", "dropout": 0.1,
    },
    "bytenet_base": _EXPONENTIAL | {  # bytenet.py
        "hidden_size": 768, "batch_size": 2048, "dropout": 0.2, "num_hidden_layers": 4, "label_smoothing": 0.1,
    },
    "xception_base": _XCEPTION,  # xception.py
    "xception_tiny": _XCEPTION | {"hidden_size": 64, "batch_size": 2, "num_hidden_layers": 2, "scheme": "none"},
    # resnet.py
    "resnet_18": _RESNET | {"layer_sizes": (2, 2, 2, 2), "block_fn": "residual"},
    "resnet_34": _RESNET | {"layer_sizes": (3, 4, 6, 3), "block_fn": "residual"},
    "resnet_50": _RESNET | {"layer_sizes": (3, 4, 6, 3), "block_fn": "bottleneck"},
    "resnet_152": _RESNET | {"layer_sizes": (3, 8, 36, 3), "block_fn": "bottleneck"},
    # shake_shake.py
    "shakeshake_small": _SHAKE,
    "shakeshake_big": _SHAKE | {"hidden_size": 96},
    "shake_shake_quick": _SHAKE | {"optimizer": "adam", "learning_rate": 0.5, "batch_size": 100, "train_steps": 1000},
    # image_transformer.py, where a batch is 4 images
    "imagetransformer_base": _IMAGES,
    "imagetransformer_cifar10_base": _IMAGES | {
        "num_heads": 4, "filter_size": 2048, "layer_prepostprocess_dropout": 0.3, "learning_rate": 0.5,
    },
    "imagetransformer_tiny": _IMAGES | {"num_hidden_layers": 2, "hidden_size": 64},
    # lstm.py
    "lstm_seq2seq": _LSTM,
    "lstm_attention": _LSTM,
    "lstm_luong_attention": _LSTM,
    # neural_gpu.py; the other name of v1.0.3
    "neural_gpu1": _NEURAL_GPU,
    "neuralgpu_1": _NEURAL_GPU,
}  # fmt: skip
"""Values by Tensor2Tensor's name of the set, in addition to `BASIC`."""

_ADAMS_RATE = {"learning_rate_schedule": "linear", "learning_rate": 0.001, "learning_rate_warmup_steps": 1000}
_NO_ADAM = {"optimizer_adam_beta1": 0.9, "optimizer_adam_beta2": 0.98, "optimizer_adam_epsilon": 1e-9}
_LSTM_OTHERWISE = {
    "optimizer_adam_beta1": 0.9, "optimizer_adam_beta2": 0.999, "optimizer_adam_epsilon": 1e-8, "clip_grad_norm": 1.0,
    "learning_rate_schedule": "inverse_sqrt", "learning_rate": 0.002, "learning_rate_warmup_steps": 500,
}  # fmt: skip
_ON_MOMENTUM = ("resnet_18", "resnet_34", "resnet_50", "resnet_152", "shakeshake_small", "shakeshake_big")
OTHERWISE = {
    "slice_net": {"batch_size": 4096},
    **{f"transformer_librispeech{end}": {"batch_size": 20_000} for end in ("", "_v1", "_v2")},  # not sentences, 10 ms
    "multi_model": {"dropout": 0.4},
    "xception_base": _ADAMS_RATE,
    "xception_tiny": _ADAMS_RATE | {"batch_size": 128},
    **dict.fromkeys(_ON_MOMENTUM, _NO_ADAM),
    "shake_shake_quick": {"weight_decay": 0.0},
    **dict.fromkeys(("lstm_seq2seq", "lstm_attention", "lstm_luong_attention"), _LSTM_OTHERWISE),
    **dict.fromkeys(
        ("neural_gpu1", "neuralgpu_1"), _NO_ADAM | {"learning_rate": 0.001, "learning_rate_warmup_steps": 100}
    ),
}
"""Values that differ on purpose, as the set documents: the paper's value, or Adam's usual one."""


def raw_values(name):
    """Returns all values of a set of Tensor2Tensor that are known here."""
    return BASIC | THEIRS[name]


def expected_values(name):
    """Returns the values that our set of the name has; its learning rate only where it is not by their formula."""
    raw = raw_values(name)
    return {field: raw[field] for field in raw.keys() - {"learning_rate", "scheme"}} | OTHERWISE.get(name, {})


def learning_rate_of(raw, step):
    """Returns Adam's learning rate in update `step` + 1, as in `legacy_learning_rate_schedule`."""
    rate, warmup = raw["learning_rate"], raw["learning_rate_warmup_steps"]
    if raw["scheme"] == "noam":
        factor = 5000.0 * raw["hidden_size"] ** -0.5 * min((step + 1) * warmup**-1.5, (step + 1) ** -0.5)
    else:
        factor = math.exp(math.log(0.01) / warmup) ** (warmup - step) if step < warmup else 1.0
    return factor * 0.002 * rate
