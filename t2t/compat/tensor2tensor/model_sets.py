"""The functions of Tensor2Tensor's hparams sets, with the values of version 1.15."""

from collections.abc import Callable
from typing import Any

from t2t.compat.tensor2tensor.hparam import HParams, from_own_set
from t2t.registry import HPARAMS

_COMPOSED = "constant*linear_warmup*rsqrt_decay"


def basic_params1() -> HParams:
    """Returns the set that all others begin with."""
    return HParams(
        batch_size=4096, batch_shuffle_size=512, use_fixed_batch_size=False, num_hidden_layers=4, kernel_height=3,
        kernel_width=1, hidden_size=64, compress_steps=0, dropout=0.2, clip_grad_norm=2.0, grad_noise_scale=0.0,
        summarize_grads=False, summarize_vars=False, mlperf_mode=False, initializer="orthogonal",
        initializer_gain=1.5, label_smoothing=0.1, optimizer="adam", optimizer_adam_epsilon=1e-6,
        optimizer_adam_beta1=0.85, optimizer_adam_beta2=0.997, optimizer_momentum_momentum=0.9,
        optimizer_momentum_nesterov=False, optimizer_adafactor_beta1=0.0, optimizer_adafactor_beta2=0.999,
        optimizer_adafactor_factored=True, optimizer_adafactor_decay_type="pow",
        optimizer_adafactor_memory_exponent=0.8, optimizer_adafactor_clipping_threshold=1.0,
        optimizer_adafactor_multiply_by_parameter_scale=True, optimizer_multistep_accumulate_steps=0,
        optimizer_zero_grads=False, weight_decay=1e-6, weight_noise=0.0, learning_rate_schedule="legacy",
        learning_rate_constant=1.0, learning_rate_decay_scheme="none", learning_rate_decay_steps=5000,
        learning_rate_decay_staircase=False, learning_rate_minimum=None, learning_rate_decay_rate=1.0,
        learning_rate_warmup_steps=100, learning_rate_cosine_cycle_steps=250000, learning_rate=0.1,
        sampling_method="argmax", sampling_temp=1.0, sampling_keep_top_k=-1, factored_logits=False,
        multiply_embedding_mode="sqrt_depth", moe_hidden_sizes="2048", moe_num_experts=16, moe_k=2,
        moe_loss_coef=1e-3, layer_preprocess_sequence="none", layer_postprocess_sequence="dan",
        layer_prepostprocess_dropout=0.1, layer_prepostprocess_dropout_broadcast_dims="", symbol_dropout=0.0,
        norm_type="layer", norm_epsilon=1e-6, vocab_divisor=1, min_length=0, max_length=0, pack_dataset=False,
        use_custom_ops=True, split_targets_chunk_length=0, split_targets_max_chunks=100,
        split_targets_strided_training=False,
        min_length_bucket=8, length_bucket_step=1.1, eval_drop_long_sequences=False, eval_run_autoregressive=False,
        shared_embedding_and_softmax_weights=False, shared_embedding=False, symbol_modality_num_shards=1,
        symbol_modality_skip_top=False, max_input_seq_length=0, max_target_seq_length=0, split_to_length=0,
        video_num_input_frames=1, video_num_target_frames=1, prepend_mode="none", scheduled_sampling_prob=0.0,
        scheduled_sampling_warmup_steps=50000, scheduled_sampling_gold_mixin_prob=0.5,
        scheduled_sampling_num_passes=1, scheduled_sampling_warmup_schedule="exp", daisy_chain_variables=True,
        force_full_predict=False, no_data_parallelism=False, activation_dtype="float32", weight_dtype="float32",
        pretrained_model_dir="", multiproblem_schedule_threshold=0.5, multiproblem_per_task_threshold="",
        multiproblem_schedule_max_examples=1e7, multiproblem_mixing_schedule="constant",
        multiproblem_reweight_label_loss=False, multiproblem_label_weight=0.5, max_relative_position=0,
        heads_share_relative_embedding=False, add_relative_to_values=False, tpu_enable_host_call=False,
        pad_batch=False, multiproblem_target_eval_only=False, multiproblem_vocab_size=-1,
        multiproblem_max_input_length=-1, multiproblem_max_target_length=-1, multiproblem_fixed_train_length=-1,
        warm_start_from_second="", modality={}, bottom={}, loss={}, name={}, top={}, weights_fn={}, vocab_size={},
    )  # fmt: skip


basic_1 = basic_params1


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

_OWN_NAMES = {
    "transformer_common_voice": "transformer_librispeech", "lstm_attention_base": "lstm_bahdanau_attention",
    "lstm_attention": "lstm_bahdanau_attention", "slicenet_params1": "slicenet_1",
    "slicenet_params1_noam": "slicenet_1noam", "slicenet_params1_tiny": "slicenet_1tiny",
}  # fmt: skip
"""Function of Tensor2Tensor -> the set of this project that is like its set, where the names differ."""


def __getattr__(name: str) -> Any:
    """Returns the function of a set that is one of this project, such as those of other models than the Transformer."""
    own = _OWN_NAMES.get(name, name)
    if own not in HPARAMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return from_own_set(own)


def update_hparams_for_universal_transformer(hparams: HParams) -> HParams:
    """Returns a set of the Universal Transformer with the values of a Transformer's."""
    made = from_own_set("universal_transformer_base")()
    for name in ("hidden_size", "filter_size", "num_heads", *hparams.changed):
        if name in made:
            setattr(made, name, hparams.get(name))
    return made
