"""The functions of Tensor2Tensor's sets of the Transformer, with the values of version 1.15."""

from collections.abc import Callable
from typing import Any

from t2t.compat.tensor2tensor.layers.common_hparams import basic_params1
from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.compat.tensor2tensor.utils.hparam import HParams, from_own_set
from t2t.registry import HPARAMS

_COMPOSED = "constant*linear_warmup*rsqrt_decay"


def _changed(hparams: HParams, **values: object) -> HParams:
    """Sets values, which may be new ones, and returns the set as one that nothing has changed."""
    for name, value in values.items():
        hparams.add_hparam(name, value)
    hparams.changed.clear()
    return hparams


def transformer_base_v1() -> HParams:
    """The paper's base model."""
    return _changed(
        basic_params1(), norm_type="layer", hidden_size=512, batch_size=4096, max_length=256, clip_grad_norm=0.0,
        optimizer_adam_epsilon=1e-9, learning_rate_schedule="legacy", learning_rate_decay_scheme="noam",
        learning_rate=0.1, learning_rate_warmup_steps=4000, initializer_gain=1.0, num_hidden_layers=6,
        initializer="uniform_unit_scaling", weight_decay=0.0, optimizer_adam_beta1=0.9, optimizer_adam_beta2=0.98,
        num_sampled_classes=0, label_smoothing=0.1, shared_embedding_and_softmax_weights=True,
        symbol_modality_num_shards=16, filter_size=2048, num_encoder_layers=0, num_decoder_layers=0, num_heads=8,
        attention_key_channels=0, attention_value_channels=0, ffn_layer="dense_relu_dense",
        parameter_attention_key_channels=0, parameter_attention_value_channels=0, attention_dropout=0.0,
        attention_dropout_broadcast_dims="", relu_dropout=0.0, relu_dropout_broadcast_dims="", pos="timing",
        position_embedding="", nbr_decoder_problems=1, proximity_bias=False, causal_decoder_self_attention=True,
        use_pad_remover=True, self_attention_type="dot_product", conv_first_kernel=3, attention_variables_3d=False,
        use_target_space_embedding=True, moe_overhead_train=1.0, moe_overhead_eval=2.0, moe_num_experts=16,
        moe_loss_coef=1e-3, overload_eval_metric_name="", unidirectional_encoder=False, hard_attention_k=0,
        gumbel_noise_weight=0.0,
    )  # fmt: skip


def transformer_base_v2() -> HParams:
    """Norms before the layers, more dropout, a longer warm-up."""
    return _changed(
        transformer_base_v1(), layer_preprocess_sequence="n", layer_postprocess_sequence="da",
        layer_prepostprocess_dropout=0.1, attention_dropout=0.1, relu_dropout=0.1, learning_rate_warmup_steps=8000,
        learning_rate=0.2,
    )  # fmt: skip


def transformer_base_v3() -> HParams:
    """The base model of the later versions."""
    return _changed(
        transformer_base_v2(), optimizer_adam_beta2=0.997, learning_rate_schedule=f"{_COMPOSED}*rsqrt_hidden_size",
        learning_rate_constant=2.0,
    )  # fmt: skip


def transformer_base() -> HParams:
    """The base model."""
    return transformer_base_v3()


def transformer_big() -> HParams:
    """The big model."""
    return _changed(
        transformer_base(), hidden_size=1024, filter_size=4096, batch_size=2048, num_heads=16,
        layer_prepostprocess_dropout=0.3,
    )  # fmt: skip


def transformer_base_single_gpu() -> HParams:
    """The base model on one GPU."""
    return _changed(
        transformer_base(), batch_size=1024, learning_rate_schedule=_COMPOSED, learning_rate_constant=0.1,
        learning_rate_warmup_steps=16000,
    )  # fmt: skip


def transformer_big_single_gpu() -> HParams:
    """The big model on one GPU."""
    return _changed(transformer_big(), layer_prepostprocess_dropout=0.1, learning_rate_warmup_steps=16000)


def transformer_base_multistep8() -> HParams:
    """The base model with eight batches an update."""
    return _changed(transformer_base(), optimizer="multistep_adam", optimizer_multistep_accumulate_steps=8)


def transformer_small() -> HParams:
    """A small model."""
    return _changed(transformer_base(), num_hidden_layers=2, hidden_size=256, filter_size=1024, num_heads=4)


def transformer_tiny() -> HParams:
    """A tiny model."""
    return _changed(transformer_base(), num_hidden_layers=2, hidden_size=128, filter_size=512, num_heads=4)


def transformer_test() -> HParams:
    """A model for tests."""
    return _changed(transformer_base(), num_hidden_layers=2, hidden_size=16, filter_size=8, num_heads=2)


def transformer_big_enfr() -> HParams:
    """The big model for English to French."""
    return _changed(
        transformer_big(), shared_embedding_and_softmax_weights=False, filter_size=8192, batch_size=4096,
        layer_prepostprocess_dropout=0.1,
    )  # fmt: skip


def transformer_parsing_base() -> HParams:
    """For parsing, on the small corpus."""
    return _changed(
        transformer_base(), attention_dropout=0.2, layer_prepostprocess_dropout=0.2, max_length=512,
        learning_rate_warmup_steps=16000, hidden_size=1024, learning_rate=0.05,
        shared_embedding_and_softmax_weights=False,
    )  # fmt: skip


def transformer_parsing_big() -> HParams:
    """For parsing, on the large corpus."""
    return _changed(
        transformer_big(), max_length=512, learning_rate_warmup_steps=4000, layer_prepostprocess_dropout=0.1,
        batch_size=2048, learning_rate=0.05,
    )  # fmt: skip


def transformer_relative() -> HParams:
    """Relative positions."""
    return _changed(transformer_base(), pos=None, self_attention_type="dot_product_relative", max_relative_position=20)


def transformer_relative_tiny() -> HParams:
    """Relative positions, tiny."""
    relative = transformer_relative()
    return _changed(relative, num_hidden_layers=2, hidden_size=128, filter_size=512, num_heads=4)


def transformer_relative_big() -> HParams:
    """Relative positions, big."""
    return _changed(transformer_big(), pos=None, self_attention_type="dot_product_relative", max_relative_position=20)


def update_hparams_for_tpu(hparams: HParams) -> HParams:
    """Sets the values of Tensor2Tensor's sets for TPUs, and returns the set: Adafactor, smaller batches, 64 ids."""
    hparams.optimizer, hparams.learning_rate_schedule = "Adafactor", "rsqrt_decay"
    hparams.learning_rate_warmup_steps, hparams.max_length = 10000, 64
    hparams.batch_size = min(hparams.batch_size, 2048)
    return hparams


def transformer_tpu() -> HParams:
    """The base model as it was trained on TPUs."""
    return _changed(update_hparams_for_tpu(transformer_base()), symbol_modality_num_shards=1)


transformer_packed_tpu = transformer_tpu


def transformer_clean() -> HParams:
    """Neither dropout nor label smoothing, of texts of any length."""
    return _changed(
        transformer_base_v2(), label_smoothing=0.0, layer_prepostprocess_dropout=0.0, attention_dropout=0.0,
        relu_dropout=0.0, max_length=0,
    )  # fmt: skip


def transformer_clean_big() -> HParams:
    """The same, as wide as the big model."""
    return _changed(transformer_clean(), hidden_size=1024, filter_size=4096)


def transformer_parsing_ice() -> HParams:
    """For parsing Icelandic."""
    return _changed(transformer_base_single_gpu(), batch_size=4096, shared_embedding_and_softmax_weights=False)


def _for_tpus(function: Callable[[], HParams]) -> Callable[[], HParams]:
    return lambda: _changed(update_hparams_for_tpu(function()))


transformer_tiny_tpu, transformer_small_tpu = _for_tpus(transformer_tiny), _for_tpus(transformer_small)
transformer_big_tpu, transformer_clean_big_tpu = _for_tpus(transformer_big), _for_tpus(transformer_clean_big)

_DEPTHS_AND_WIDTHS = {
    "transformer_l2": {"num_hidden_layers": 2}, "transformer_l4": {"num_hidden_layers": 4},
    "transformer_l8": {"num_hidden_layers": 8}, "transformer_l10": {"num_hidden_layers": 10},
    "transformer_h1": {"num_heads": 1}, "transformer_h4": {"num_heads": 4}, "transformer_h16": {"num_heads": 16},
    "transformer_h32": {"num_heads": 32}, "transformer_k128": {"attention_key_channels": 128},
    "transformer_k256": {"attention_key_channels": 256}, "transformer_ff1024": {"filter_size": 1024},
    "transformer_ff4096": {"filter_size": 4096}, "transformer_dr0": {"layer_prepostprocess_dropout": 0.0},
    "transformer_dr2": {"layer_prepostprocess_dropout": 0.2}, "transformer_ls0": {"label_smoothing": 0.0},
    "transformer_ls2": {"label_smoothing": 0.2}, "transformer_hs256": {"hidden_size": 256},
    "transformer_hs1024": {"hidden_size": 1024},
    **{
        f"transformer_big_dr{tenths}": {
            "hidden_size": 1024, "filter_size": 4096, "num_heads": 16, "layer_prepostprocess_dropout": tenths / 10,
        }
        for tenths in (1, 2)
    },
    "transformer_tall": {
        "batch_size": 2048, "hidden_size": 768, "filter_size": 3072, "num_hidden_layers": 12, "num_heads": 12,
        "label_smoothing": 0.0, "max_length": 1024, "clip_grad_norm": 1.0,
    },
}  # fmt: skip
"""Sets that change a few values of the base model."""
vars().update(
    {name: lambda values=values: _changed(transformer_base(), **values) for name, values in _DEPTHS_AND_WIDTHS.items()}
)

_missing = placeholders_of(__name__)


def __getattr__(name: str) -> Any:
    """Returns the function of a set that is here under the same name, such as those for speech, or a placeholder."""
    own = {"transformer_common_voice": "transformer_librispeech"}.get(name, name)
    return from_own_set(own) if own in HPARAMS else _missing(name)
