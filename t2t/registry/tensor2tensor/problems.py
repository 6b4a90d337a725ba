"""Tensor2Tensor's problems that have another name here or do not exist here."""

import re

ALIASES = {
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
"""Name in Tensor2Tensor -> name here; also names of the same pattern for WMT with 128k pieces."""

_OF_A_FAMILY = """
    algorithmic_math_two_variables audio_timit_tokens8k_test audio_timit_tokens8k_tune audio_timit_tokens_32k_test
    audio_timit_tokens_32k_tune audio_timit_tokens_8k_test audio_timit_tokens_8k_tune audio_wsj_tokens_8k_test
    audio_wsj_tokens_8k_tune common_voice_clean common_voice_noisy common_voice_train_full_test_clean
    conll2002_es_ner conll2002_ner conll2002_nl_ner copy_sequence copy_sequence_small dialog_cornell32k
    dialog_dailydialog16k dialog_opensubtitles64k2009 dialog_opensubtitles64k2011 dialog_opensubtitles64k2012
    dialog_opensubtitles64k2013 dialog_opensubtitles64k2016 dialog_opensubtitles64k2018 dialog_personachat16k
    enwik8_l16k enwik8_l1k enwik8_l2k enwik8_l32k enwik8_l4k enwik8_l512 enwik8_l65k enwik8_l8k
    flip_bi_gram_sequence genomics_expression_cage10 genomics_expression_gm12878 genomics_expression_l262k
    github_function_docstring ice_parsing_characters ice_parsing_tokens image_celeba image_celeba256 image_celeba32
    image_celeba64
    image_celeba_multi_resolution image_celebahq128 image_celebahq128_dmol image_celebahq256 image_celebahq256_dmol
    image_cifar100_plain8 image_cifar100_plain_gen image_cifar10_plain8 image_cifar10_plain_gen_dmol
    image_cifar10_plain_gen_flat image_cifar10_plain_random_shift image_cifar20 image_cifar20_plain
    image_cifar20_plain8 image_cifar20_plain_gen image_cifar20_tune image_fsns image_imagenet224
    image_imagenet224_no_normalization image_imagenet256 image_imagenet32_gen image_imagenet32_small
    image_imagenet64_gen image_imagenet64_gen_flat image_imagenet_multi_resolution_gen image_lsun_bedrooms
    image_mscoco_tokens_128k_test image_mscoco_tokens_128k_tune image_mscoco_tokens_32k_test
    image_mscoco_tokens_32k_tune image_mscoco_tokens_8k_test image_mscoco_tokens_8k_tune image_text_ms_coco
    image_text_ms_coco_multi_resolution image_vqav2_rcnn_feature_tokens10k_labels3k image_vqav2_tokens10k_labels3k
    img2img_allen_brain img2img_allen_brain_dim16to16_paint1 img2img_allen_brain_dim48to64
    img2img_allen_brain_dim8to32 img2img_celeba img2img_celeba64 img2img_cifar10 img2img_cifar100 img2img_imagenet
    lambada_lm lambada_lm_control lambada_rc lambada_rc_control languagemodel_de_en_fr_ro_wiki64k
    languagemodel_de_en_fr_ro_wiki64k_fitb_packed1k languagemodel_de_wiki32k languagemodel_de_wiki64k
    languagemodel_en_wiki32k languagemodel_en_wiki64k languagemodel_en_wiki64k_shorter
    languagemodel_en_wiki_lm_multi_nli_subwords languagemodel_en_wiki_lm_multi_nli_subwords64k
    languagemodel_en_wiki_lm_multi_nli_subwords_v2 languagemodel_en_wiki_lm_short_multi_nli_subwords64k
    languagemodel_en_wiki_lm_squad_concat_subwords languagemodel_en_wiki_lm_summarize_cnndm_subwords
    languagemodel_en_wiki_lm_summarize_cnndm_subwords64k languagemodel_en_wiki_lm_summarize_frac10_cnndm_subwords64k
    languagemodel_en_wiki_lm_summarize_frac1_cnndm_subwords64k
    languagemodel_en_wiki_lm_summarize_frac20_cnndm_subwords64k
    languagemodel_en_wiki_lm_summarize_frac2_cnndm_subwords64k
    languagemodel_en_wiki_lm_summarize_frac50_cnndm_subwords64k
    languagemodel_en_wiki_lm_summarize_frac5_cnndm_subwords64k languagemodel_fr_wiki32k languagemodel_fr_wiki64k
    languagemodel_lm1b8k_packed languagemodel_lm1b_multi_nli languagemodel_lm1b_multi_nli_subwords
    languagemodel_lm1b_sentiment_imdb languagemodel_multi_wiki_translate languagemodel_multi_wiki_translate_fr
    languagemodel_multi_wiki_translate_packed1k languagemodel_multi_wiki_translate_packed1k_v2
    languagemodel_ro_wiki32k languagemodel_ro_wiki64k languagemodel_wiki_noref_v128k_l1k
    languagemodel_wiki_noref_v32k_l16k languagemodel_wiki_noref_v32k_l1k languagemodel_wiki_noref_v8k_l16k
    languagemodel_wiki_noref_v8k_l1k languagemodel_wiki_scramble_l128 languagemodel_wiki_scramble_l1k
    languagemodel_wiki_xml_v8k_l1k languagemodel_wiki_xml_v8k_l4k languagemodel_wikitext103_l16k
    languagemodel_wikitext103_l4k lm1b_16k lm1b_64k multi_nli_shared_vocab multi_nli_text2text
    multi_nli_text2text_multi64k_packed1k multi_nli_wiki_lm_multi_vocab64k multi_nli_wiki_lm_shared_vocab
    multi_nli_wiki_lm_shared_vocab64k ocr_test paraphrase_generation_ms_coco_problem1d
    paraphrase_generation_ms_coco_problem1d_characters paraphrase_generation_ms_coco_problem2d
    paraphrase_generation_ms_coco_problem2d_characters parsing_icelandic16k program_search_algolisp
    programming_desc2code_cpp programming_desc2code_py reverse_sequence reverse_sequence_small sci_tail
    sci_tail_characters sci_tail_shared_vocab sentiment_yelp_full_characters sentiment_yelp_polarity_characters
    seq2edits_gec seq2edits_gec_deep seq2edits_gec_deep_no_tags seq2edits_gec_deep_no_tags_packed256
    seq2edits_gec_deep_packed256 seq2edits_gec_no_tags seq2edits_gec_no_tags_packed256 seq2edits_gec_packed256
    seq2edits_textnorm seq2edits_textnorm_no_tags seq2edits_textnorm_no_tags_packed256 seq2edits_textnorm_packed256
    squad_concat squad_concat_multi64k squad_concat_positioned squad_concat_shared_vocab
    squad_text2text_multi64k_packed1k stanford_nli_characters stanford_nli_shared_vocab
    stanford_nli_wiki_lm_shared_vocab stanford_nli_wiki_lm_shared_vocab64k style_transfer_modern_to_shakespeare
    style_transfer_modern_to_shakespeare_characters style_transfer_shakespeare_to_modern
    style_transfer_shakespeare_to_modern_characters summarize_cnn_dailymail_multi64k_packed1k
    summarize_cnn_dailymail_wiki_lm_multi_vocab64k summarize_cnn_dailymail_wiki_lm_shared_vocab
    summarize_cnn_dailymail_wiki_lm_shared_vocab64k summarize_frac0p1_cnn_dailymail_wiki_lm_shared_vocab64k
    summarize_frac10_cnn_dailymail_wiki_lm_shared_vocab64k summarize_frac1_cnn_dailymail_wiki_lm_shared_vocab64k
    summarize_frac20_cnn_dailymail_wiki_lm_shared_vocab64k summarize_frac2_cnn_dailymail_wiki_lm_shared_vocab64k
    summarize_frac50_cnn_dailymail_wiki_lm_shared_vocab64k summarize_frac5_cnn_dailymail_wiki_lm_shared_vocab64k
    summarize_frac_cnn_dailymail_wiki_lm_shared_vocab64k sva_language_modeling sva_number_prediction
    text2text_copyable_tokens timeseries_synthetic_data_series10_samples100k timeseries_toy_problem
    timeseries_toy_problem_no_inputs translate_encs_cubbitt translate_ende2018_wmt32k translate_ende_pc32k
    translate_ende_pc_clean32k translate_ende_wmt_clean32k translate_ende_wmt_clean_pc32k
    translate_ende_wmt_clean_pc_clean32k translate_ende_wmt_multi64k translate_ende_wmt_multi64k_packed1k
    translate_ende_wmt_pc32k translate_ende_wmt_pc_clean32k translate_enes_wmt_clean32k
    translate_enfr_wmt32k_with_backtranslate_en translate_enfr_wmt32k_with_backtranslate_fr
    translate_enfr_wmt_multi64k translate_enfr_wmt_multi64k_packed1k translate_enfr_wmt_small32k
    translate_enfr_wmt_small8k translate_enfr_wmt_small_characters translate_enro_wmt_multi64k
    translate_enro_wmt_multi_small64k translate_enro_wmt_multi_tiny64k translate_enro_wmt_multi_tiny64k_packed1k
    translate_entn_rma video_bair_robot_pushing video_bair_robot_pushing_with_actions video_google_robot_pushing
    video_stochastic_shapes10k wiki_32k wiki_revision wiki_revision_packed1k wiki_revision_packed256
    wikisum_commoncrawl wikisum_commoncrawl_lead_section wikisum_web wikisum_web_lead_section wmt_ende_bpe32k_160
    wmt_ende_bpe32k_combined wmt_ende_bpe32k_shuffled wmt_ende_concat_32k wmt_ende_concat_8k
    wmt_ende_v2_16k_combined wmt_ende_v2_32k_combined wmt_enfr_tokens_32k_combined wmt_enfr_tokens_32k_shuffled
"""
_PACKED = (
    "languagemodel_lm1b32k_packed",
    "languagemodel_lm1b_characters_packed",
    "translate_ende_wmt32k_packed",
    "translate_ende_wmt8k_packed",
    "translate_enes_wmt32k_packed",
    "translate_enes_wmt8k_packed",
    "translate_enfr_wmt32k_packed",
)

MISSING = {
    **{
        f"{theirs}_characters": f"--problem={ours} --vocab_kind=byte"
        for theirs, ours in ALIASES.items()
        if "glue" in ours
    },
    **{
        name: f"packing is an hparam: --problem={name.removesuffix('_packed')} --hparams=packed_length=256"
        for name in _PACKED
    },
    "audio_timit_characters_test": "recordings of your own: --problem=speech_files",
    "audio_timit_characters_tune": "recordings of your own: --problem=speech_files",
    "audio_wsj_characters_test": "recordings of your own: --problem=speech_files",
    "audio_wsj_characters_tune": "recordings of your own: --problem=speech_files",
    "image_cifar10_test": "image_cifar10 has the test images as its split test",
    "image_cifar10_tune": "image_cifar10 holds 5,000 training images out, not 2,000",
    "image_cifar100_tune": "image_cifar100 holds 5,000 training images out, not 2,000",
    "image_mnist_test": "image_mnist has the test images as its split test",
    "image_ms_coco_tokens32k": "image_ms_coco_captions has 8k pieces",
    "image_mscoco_characters_test": "image_ms_coco_characters has the test images as its split test",
    "image_mscoco_characters_tune": "--problem=image_ms_coco_characters",
    "parsing_english_ptb8k": "--problem=wsj_parsing has 16k pieces",
    "sentiment_yelp_full": "texts and classes of your own: --problem=classify_files",
    "sentiment_yelp_polarity": "texts and classes of your own: --problem=classify_files",
    "setimes_mken_tokens_32k": "--problem=translate_enmk_setimes32k_rev translates from Macedonian",
    "snli_32k": "another inference task: --problem=glue_mnli",
    "stanford_nli": "another inference task: --problem=glue_mnli",
    "text2text_tmpdir": "name the files with --train_source and --train_target: --problem=text2text_files",
    "text2text_tmpdir_tokens": "name the files with --train_source, --train_target and --vocab_file: "
    "--problem=text2text_files",
    "video_moving_mnist": "--problem=video_moving_mnist_next predicts moving digits",
    "wmt_parsing_characters": "trees of your own: --problem=parsing_trees",
    "wmt_parsing_tokens_8k": "trees of your own: --problem=parsing_trees",
    "wmt_zhen_tokens_8k": "--problem=translate_enzh_wmt8k_rev translates from Chinese",
    "wmt_zhen_tokens_32k": "--problem=translate_enzh_wmt32k_rev translates from Chinese",
    "wsj_parsing_tokens_32k": "--problem=wsj_parsing_semi has 32k pieces",
}
"""Name in Tensor2Tensor -> what to use instead."""

_PAIRS = "pairs of texts of your own: --problem=text2text_files"
_TEXT = "texts of your own: --problem=languagemodel_files"
_CLASSES = "texts and classes of your own: --problem=classify_files"
_NONE = "there is no such data here; a problem of your own: docs/new_problem.md"

FAMILIES = {
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
    "parsing_|ice_parsing": "trees of your own: --problem=parsing_trees",
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
"""Beginning of the names of problems in Tensor2Tensor, a regular expression -> what there is here."""
MISSING |= {
    name: next(advice for start, advice in FAMILIES.items() if re.match(start, name)) for name in _OF_A_FAMILY.split()
}

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
