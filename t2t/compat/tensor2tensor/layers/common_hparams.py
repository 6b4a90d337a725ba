"""The hparams that every set of Tensor2Tensor begins with, and their values."""

from t2t.compat.tensor2tensor.placeholders import placeholders_of
from t2t.compat.tensor2tensor.utils.hparam import HParams


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

__getattr__ = placeholders_of(__name__)
