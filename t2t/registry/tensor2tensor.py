"""Tensor2Tensor's names of problems, models and sets: those with another name here, and those that do not exist here.

A name is an alias only if it means the same: a problem with the same examples and a vocabulary of the same kind and
size, a model of the same layers, a set with the same values. Names that are equal in both projects are not listed. The
names are those of version 1.0.3 and of the last one, 1.15.7; docs/coming_from.md lists sets with other values.
"""

from typing import NamedTuple


class TheirNames(NamedTuple):
    """Tensor2Tensor's names of one kind."""

    aliases: dict[str, str] = {}
    """Name there -> name here."""
    missing: dict[str, str] = {}
    """Name there -> what to use instead; empty if nothing is close."""
    families: dict[str, str] = {}
    """Beginning of names there, a regular expression -> what there is here."""


# === Problems ===
_PROBLEM_ALIASES = {
    "algorithmic_sort_problem": "algorithmic_sort_decimal40",
    "cola": "glue_cola",
    "image_mnist_tune": "image_mnist",
    "lm1b_32k": "languagemodel_lm1b32k",
    "lmptb_10k": "languagemodel_ptb10k",
    "msr_paraphrase_corpus": "glue_mrpc",
    "multi_nli": "glue_mnli",
    "parsing_english_ptb16k": "wsj_parsing",
    "question_nli": "glue_qnli",
    "quora_question_pairs": "glue_qqp",
    "rte": "glue_rte",
    "sentiment_sst_binary": "glue_sst2",
    "squad": "squad_text2text",
    "translate_ende_wmt128k": "wmt_ende_tokens_128k",
    "translate_ende_wmt32k": "wmt_ende_tokens_32k",
    "translate_ende_wmt8k": "wmt_ende_tokens_8k",
    "translate_ende_wmt_bpe32k": "wmt_ende_bpe32k",
    "translate_ende_wmt_characters": "wmt_ende_characters",
    "translate_enfr_wmt128k": "wmt_enfr_tokens_128k",
    "translate_enfr_wmt32k": "wmt_enfr_tokens_32k",
    "translate_enfr_wmt8k": "wmt_enfr_tokens_8k",
    "translate_enfr_wmt_characters": "wmt_enfr_characters",
    "winograd_nli": "glue_wnli",
    "wsj_parsing_tokens_16k": "wsj_parsing",
}
"""Also names of the same pattern for WMT with 128k pieces."""

_MISSING_PROBLEMS = {
    **{
        f"{theirs}_characters": f"--problem={ours} --vocab_kind=byte"
        for theirs, ours in _PROBLEM_ALIASES.items()
        if "glue" in ours
    },
    "image_cifar10_test": "image_cifar10 has the test images as its split test",
    "image_cifar10_tune": "image_cifar10 holds 5,000 training images out, not 2,000",
    "image_cifar100_tune": "image_cifar100 holds 5,000 training images out, not 2,000",
    "image_mnist_test": "image_mnist has the test images as its split test",
    "image_ms_coco_tokens32k": "image_ms_coco_captions has 8k pieces",
    "image_mscoco_characters_test": "image_ms_coco_characters has the test images as its split test",
    "image_mscoco_characters_tune": "--problem=image_ms_coco_characters",
    "parsing_english_ptb8k": "--problem=wsj_parsing has 16k pieces",
    "setimes_mken_tokens_32k": "--problem=translate_enmk_setimes32k_rev translates from Macedonian",
    "snli_32k": "another inference task: --problem=glue_mnli",
    "text2text_tmpdir": "name the files with --train_source and --train_target: --problem=text2text_files",
    "text2text_tmpdir_tokens": "name the files with --train_source, --train_target and --vocab_file: "
    "--problem=text2text_files",
    "video_moving_mnist": "--problem=video_moving_mnist_next predicts moving digits",
    "wmt_zhen_tokens_8k": "--problem=translate_enzh_wmt8k_rev translates from Chinese",
    "wmt_zhen_tokens_32k": "--problem=translate_enzh_wmt32k_rev translates from Chinese",
    "wsj_parsing_tokens_32k": "--problem=wsj_parsing_semi has 32k pieces",
}

_PAIRS = "pairs of texts of your own: --problem=text2text_files"
_TEXT = "texts of your own: --problem=languagemodel_files"
_CLASSES = "texts and classes of your own: --problem=classify_files"
_NONE = "there is no such data here; a problem of your own: docs/new_problem.md"

_PROBLEM_FAMILIES = {
    "(languagemodel|translate)_.*_packed": "packing is an hparam: leave _packed out, with --hparams=packed_length=256",
    "parsing_|ice_parsing|wmt_parsing": "trees of your own: --problem=parsing_trees",
    "multi_nli|stanford_nli|sci_tail": "inference: --problem=glue_mnli; of your own: --problem=classify_files",
    "sentiment_|conll|sva_number": _CLASSES,
    "squad": "--problem=squad_text2text",
    "summarize_": "--problem=summarize_cnn_dailymail32k; others of your own: --problem=text2text_files",
    "translate_ende|wmt_ende": "--problem=translate_ende_wmt32k; other corpora: --problem=text2text_files",
    "translate_enfr|wmt_enfr": "--problem=translate_enfr_wmt32k; other corpora: --problem=text2text_files",
    "translate_enro": "--problem=translate_enro_wmt32k; other corpora: --problem=text2text_files",
    "translate_enes": "--problem=translate_enes_wmt32k; other corpora: --problem=text2text_files",
    "translate_encs": "--problem=translate_encs_wmt32k; other corpora: --problem=text2text_files",
    "translate_|wmt_|dialog_|paraphrase_|style_transfer_|programming_|program_search|github_|wiki_revision|wikisum|"
    "seq2edits_|text2text_|setimes": _PAIRS,
    "enwik8": "--problem=languagemodel_files --vocab_kind=byte",
    "languagemodel_lm1b|lm1b": "--problem=languagemodel_lm1b32k",
    "languagemodel_wikitext103": "--problem=languagemodel_wikitext103",
    "languagemodel_multi_": "problems are trained together if --problem joins their names with a dash",
    "languagemodel_|lambada|wiki_|sva_language": _TEXT,
    "copy_sequence": "--problem=algorithmic_identity_decimal40",
    "(reverse|flip_bi_gram)_sequence": "--problem=algorithmic_reverse_decimal40",
    "algorithmic_math_two_variables": "--problem=algorithmic_algebra_inverse",
    "common_voice": "--problem=common_voice",
    "librispeech": "--problem=librispeech",
    "audio_": "recordings of your own: --problem=speech_files",
    "image_cifar100|image_cifar20|img2img_cifar100": "--problem=image_cifar100_plain",
    "image_cifar10|img2img_cifar10": "--problem=image_cifar10_plain_gen",
    "image_imagenet|img2img_imagenet": "--problem=image_imagenet64",
    "image_mscoco|image_text_ms_coco|image_ms_coco": "--problem=image_ms_coco_captions",
    "video_": "--problem=video_moving_mnist_next",
    "image_|img2img_|ocr_|genomics_|timeseries_|gym_|.*_rl_": _NONE,
}

PROBLEMS = TheirNames(_PROBLEM_ALIASES, _MISSING_PROBLEMS, _PROBLEM_FAMILIES)
PROBLEM_ATTRIBUTES = {
    "approx_vocab_size": "vocab_size",
    "vocab_type": "vocab_kind",
    "dataset_splits": "splits and shards",
    "eval_metrics": "metrics",
    "is_generate_per_split": "",
    "num_shards": "shards",
    "generate_encoded_samples": "generate_samples",
    "feature_encoders": "build_encoders",
    "example_reading_spec": "",
}
"""Attributes and methods of its problems, with those that do the same here; '' if nothing needs to."""


# === Models ===
_MODEL_ALIASES = {
    "baseline_lstm_seq2seq": "lstm_seq2seq",
    "baseline_lstm_seq2seq_attention": "lstm_seq2seq_attention",
    "imagetransformer": "image_transformer",
}

_MISSING_MODELS = {
    "attention_lm": "the decoder as a language model is --model=transformer_lm",
    "distillation": "the outputs of a teacher are written as training data by t2t-distill",
    "imagetransformer2d": "--model=image_transformer --hparams_set=imagetransformer2d_tiny attends to blocks in 2-D",
    "imagetransformer_moe": "--model=image_transformer has no experts",
    "mtf_bitransformer": "--model=transformer on several GPUs divides batches",
    "mtf_res_net": "--model=resnet on several GPUs divides batches",
    "mtf_transformer": "--model=transformer on several GPUs divides batches",
    "mtf_unitransformer": "--model=transformer_lm on several GPUs divides batches",
    "transformer_scorer": "t2t-decoder --score_file scores given outputs with any model",
}

_MODEL_FAMILIES = {
    "next_frame_": "the next frame of a video: --problem=video_moving_mnist_next, see docs/video.md",
    "attention_lm_moe|transformer_moe": "Transformers with experts: --model=transformer_moe",
    "super_lm|transformer_memory|mtf_unitransformer|mtf_transformer_lm": (
        "a decoder as a language model: --model=transformer_lm"
    ),
    "img2img_transformer|imagetransformer|mtf_image_transformer": "images: --model=image_transformer",
    "transformer_(ae|nat|vae|block_parallel|sketch)": "outputs in a few rounds: --model=transformer_cmlm",
    "transformer_regressor|text_cnn|lstm_encoder|universal_transformer_encoder|basic_fc_relu|similarity_transformer": (
        "text or an image to a class: --model=transformer_encoder"
    ),
    "lstm_seq2seq_bidirectional_encoder": (
        "--model=lstm_seq2seq --hparams=encoder_direction=bidirectional has half of the units each way"
    ),
    "revnet|shuffle_network": "images: --model=resnet",
    "residual_shuffle_exchange|neural_(deque|queue|stack)": "algorithms: --model=extended_neural_gpu",
    "nas_seq2_seq": "a Transformer that was searched: --model=evolved_transformer",
    ".*_policy": "there is no reinforcement learning here",
    "(transformer|aligned|mtf)": "--model=transformer and its hparams: --registry_help=transformer",
    "autoencoder_|cycle_gan|sliced_gan|glow|vqa_|blue_net|gene_expression|neural_assistant": (
        "there is no such model here; a model of your own: docs/new_model.md"
    ),
}
MODELS = TheirNames(_MODEL_ALIASES, _MISSING_MODELS, _MODEL_FAMILIES)


# === HParams sets, and ranges of hparams ===
_SET_ALIASES = {
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
"""For sets that changed between versions, the values are those of 1.0."""

_RANGED = "it is a range, not a set: t2t-tune searches it with --hparams_range"
_NO_TPU_RANGE = "ranges for TPUs do not exist here; use --hparams_range=transformer_base_range"

_MISSING_SETS = {
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

_SET_FAMILIES = {
    "transformer_.*tpu": "sets for TPUs do not exist here but for transformer_tpu: leave _tpu out",
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

HPARAMS = TheirNames(_SET_ALIASES, _MISSING_SETS, _SET_FAMILIES)
RANGES = TheirNames(missing=dict.fromkeys(("transformer_tiny_tpu_range", "transformer_tpu_range"), _NO_TPU_RANGE))
