"""Tensor2Tensor's hparams sets that have another name here or do not exist here.

Sets with the same name but other values are listed in docs/coming_from.md.
"""

import re

ALIASES = {
    "lstm_attention": "lstm_bahdanau_attention",
    "neural_gpu1": "neural_gpu",
    "neuralgpu_1": "neural_gpu",
    "slicenet1": "slicenet_1",
    "slicenet1noam": "slicenet_1noam",
    "slicenet1tiny": "slicenet_1tiny",
    "transformer_base_v1": "transformer_base",
    "transformer_big_dr1": "transformer_big_enfr",
    "transformer_big_dr3": "transformer_big",
    "transformer_k128": "transformer_k16",
    "transformer_k256": "transformer_k32",
    "transformer_librispeech_v2": "transformer_librispeech",
    "transformer_parsing_base_dr6": "transformer_parsing_base",
}
"""Name in Tensor2Tensor -> name here. For sets that changed between versions, the values are those of 1.0."""

_OF_A_FAMILY = """
    attention_lm_base attention_lm_moe_base attention_lm_moe_large attention_lm_moe_small attention_lm_no_moe_small
    attention_lm_small basic1 basic_1 basic_fc_small bluenet_base bluenet_tiny gene_expression_conv_base
    lstm_transduction multimodel1p8 text_cnn_base transformer_ada_lmpackedbase transformer_ada_lmpackedbase_dialog
    transformer_ada_lmpackedbase_relative transformer_ae_base transformer_ae_small transformer_alt
    transformer_aux_base transformer_base_vq1_16_nb1_packed_dan_b01_scales
    transformer_base_vq1_16_nb1_packed_nda_b01_scales transformer_base_vq1_16_nb1_packed_nda_b01_scales_dialog
    transformer_base_vq_ada_32ex_packed transformer_cifar10_memory_v0 transformer_clean_big transformer_common_voice
    transformer_common_voice_tpu transformer_imagenet64_memory_v0 transformer_librispeech_with_area_attention
    transformer_mlperf_tpu transformer_nat_base transformer_nat_big transformer_nat_small
    transformer_parameter_attention_a transformer_parameter_attention_b transformer_parsing_ice
    transformer_prepend_v1 transformer_prepend_v2 transformer_supervised_attention transformer_tall_big
    transformer_tall_finetune_textclass transformer_tall_finetune_tied transformer_tall_finetune_uniencdec
    transformer_tall_pretrain_lm transformer_tall_pretrain_lm_tpu transformer_tall_pretrain_lm_tpu_adafactor
    transformer_tall_pretrain_lm_tpu_adafactor_large transformer_tall_train_tied transformer_tall_train_uniencdec
    transformer_timeseries transformer_timeseries_tpu transformer_topk_16_packed transformer_tpu_1b
    transformer_tpu_with_conv transformer_wikitext103_l16k_memory_v0 transformer_wikitext103_l4k_memory_v0
    transformer_wikitext103_l4k_v0
"""
_NO_TPU = "sets for TPUs do not exist here; use --hparams_set={}"
_RANGED = "it is a range, not a set: t2t-tune searches it with --hparams_range"
_NO_TPU_RANGE = "ranges for TPUs do not exist here; use --hparams_range=transformer_base_range"

MISSING = {
    **{
        name: _NO_TPU.format(instead)
        for name, instead in {
            "transformer_big_enfr_tpu": "transformer_big_enfr",
            "transformer_big_tpu": "transformer_big",
            "transformer_clean_big_tpu": "transformer_big",
            "transformer_librispeech_tpu": "transformer_librispeech",
            "transformer_librispeech_tpu_v1": "transformer_librispeech_v1",
            "transformer_librispeech_tpu_v2": "transformer_librispeech",
            "transformer_lm_tpu_0": "transformer_lm_base",
            "transformer_lm_tpu_1": "transformer_lm_base",
            "transformer_packed_tpu": "transformer_tpu",
            "transformer_small_tpu": "transformer_small",
            "transformer_tiny_tpu": "transformer_tiny",
            "transformer_tpu_bf16_activation": "transformer_tpu",
        }.items()
    },
    "transformer_base_range": _RANGED,
    **dict.fromkeys(("transformer_tiny_tpu_range", "transformer_tpu_range"), _NO_TPU_RANGE),
    "multimodel_base": "the set of the paper's sizes is multi_model",
    "multimodel_tiny": "a small set is multi_model_tiny",
    "transformer_base_multistep8": "use --hparams_set=transformer_base_single_gpu, which accumulates gradients",
    "transformer_big_dr2": "use --hparams_set=transformer_big --hparams=layer_prepostprocess_dropout=0.2",
    "transformer_fairseq_fp16_activation_big": "use --hparams_set=transformer_big, whose precision=auto suits the GPU",
    "transformer_clean": "use --hparams_set=transformer_base_v2 "
    "--hparams=layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,label_smoothing=0",
    "transformer_cubbitt": "use --hparams_set=transformer_big_single_gpu "
    "--hparams=layer_prepostprocess_dropout=0,max_length=150",
    "transformer_l10": "use --hparams_set=transformer_base --hparams=num_hidden_layers=10",
    "transformer_tall": "use --hparams_set=transformer_base_v3 "
    "--hparams=num_hidden_layers=12,hidden_size=768,filter_size=3072,num_heads=12",
    "transformer_test": "use --hparams_set=transformer_tiny --hparams=hidden_size=16,filter_size=8,num_heads=2",
    "transformer_single_gpu": "transformer_base_single_gpu has the paper's updates on one device",
}
"""Name in Tensor2Tensor -> what to use instead."""

FAMILIES = {
    "image_?transformer|img2img_": "images: --model=image_transformer; see --registry_help=image_transformer",
    "mtf_|mtr_": "any set is trained on several GPUs, with --worker_gpu, or --weight_shards on JAX",
    "(adaptive_)?universal_transformer": "see --registry_help=universal_transformer",
    "evolved_transformer": "see --registry_help=evolved_transformer",
    "transformer_moe|xmoe|wiki_2x2|attention_lm_moe": "Transformers with experts: --registry_help=transformer_moe",
    "transformer_.*_bs[0-9]+": "not here: blockwise parallel decoding; transformer_cmlm decodes in a few rounds",
    "transformer_(nat|ae|vae|base_vq)": "not here: discrete latents; --model=transformer_cmlm decodes in a few rounds",
    "transformer_.*_memory|transformer_wikitext103|transformer_tall_pretrain": (
        "decoders as language models: --registry_help=transformer_lm"
    ),
    "transformer_tall_finetune_textclass": "encoders for classes: --registry_help=transformer_encoder",
    "transformer_(tall|mlperf|tpu_1b|clean)": "a big Transformer: --hparams_set=transformer_big",
    "transformer_(common_voice|librispeech)": "speech: --hparams_set=transformer_librispeech",
    "transformer_parsing": "parsing: --registry_help=transformer_parsing",
    "transformer_prepend": "one stack that reads both texts: --hparams_set=transformer_prepend",
    "transformer_timeseries": "there are no time series here; a problem of your own: docs/new_problem.md",
    "transformer_|iwslt_|wmt_": "use a set of transformer: --registry_help=transformer",
    "afx_|mqp_|denoise_|aligned_": "experiments with a Transformer; its hparams: --registry_help=hparams",
    "attention_lm|lmx_|super_lm": "decoders as language models: --registry_help=transformer_lm",
    "lstm_": "see --registry_help=lstm",
    "resnet_|mtf_resnet|distill_resnet|revnet_": "see --registry_help=resnet",
    "shakeshake": "see --registry_help=shake_shake",
    "xception": "see --registry_help=xception",
    "multimodel": "see --registry_help=multi_model",
    "basic|text_cnn": "texts and classes: --registry_help=transformer_encoder",
    "next_frame_|frame_glow": "the next frame of a video: --problem=video_moving_mnist_next, see docs/video.md",
    "rlm[bf]_|ppo_|dqn_|planner_|.*_policy|discrete_random_action": "there is no reinforcement learning here",
    "vqa_|autoencoder_|cycle_gan|sliced_gan|glow|neural_(stack|queue|deque|assistant)|shuffle_network|nas_|bluenet|"
    "gene_expression": "there is no such model here; a model of your own: docs/new_model.md",
}  # fmt: skip
"""Beginning of the names of a model's sets in Tensor2Tensor, a regular expression -> what there is here."""
MISSING |= {
    name: next(advice for start, advice in FAMILIES.items() if re.match(start, name)) for name in _OF_A_FAMILY.split()
}

MISSING_RANGES = dict.fromkeys(("transformer_tiny_tpu_range", "transformer_tpu_range"), _NO_TPU_RANGE)
"""The same for ranges of hparams."""
