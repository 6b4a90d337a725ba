"""Tensor2Tensor's models that have another name here or do not exist here."""

import re

ALIASES = {
    "baseline_lstm_seq2seq": "lstm_seq2seq",
    "baseline_lstm_seq2seq_attention": "lstm_seq2seq_attention",
    "imagetransformer": "image_transformer",
}
"""Name in Tensor2Tensor -> name here."""

_OF_A_FAMILY = """
    aligned attention_lm_moe autoencoder_autoregressive autoencoder_basic autoencoder_basic_discrete
    autoencoder_dual_discrete autoencoder_ordered_discrete autoencoder_residual autoencoder_residual_discrete
    autoencoder_residual_vae autoencoder_stacked basic_fc_relu blue_net cycle_gan dense_bitwise_categorical_policy
    feed_forward_categorical_policy feed_forward_cnn_small_categorical_policy
    feed_forward_cnn_small_categorical_policy_new gene_expression_conv glow img2img_transformer
    img2img_transformer_block_parallel lstm_encoder
    lstm_seq2seq_bidirectional_encoder mtf_image_transformer nas_seq2_seq neural_assistant neural_deque_model
    neural_queue_model neural_stack_model next_frame_base next_frame_basic_deterministic next_frame_basic_recurrent
    next_frame_basic_stochastic next_frame_basic_stochastic_discrete next_frame_emily next_frame_epva
    next_frame_glow next_frame_savp next_frame_savp_rl next_frame_sv2p next_frame_sv2p_atari
    next_frame_sv2p_discrete next_frame_sv2p_legacy next_frame_sv2p_two_frames random_policy
    residual_shuffle_exchange revnet shuffle_network similarity_transformer sliced_gan super_lm text_cnn
    transformer_ae transformer_alt transformer_aux transformer_block_parallel transformer_memory transformer_nat
    transformer_regressor transformer_revnet transformer_seq2edits transformer_sketch transformer_symshard
    transformer_vae_flow_prior universal_transformer_encoder vqa_attention_baseline vqa_combined_self_attention
    vqa_iterative_combined_self_attention vqa_recurrent_self_attention vqa_self_attention
    vqa_simple_image_self_attention
"""

MISSING = {
    "attention_lm": "the decoder alone as a language model is --model=transformer_lm",
    "distillation": "the outputs of a teacher are written as training data by t2t-distill",
    "imagetransformer2d": "--model=image_transformer --hparams_set=imagetransformer2d_tiny attends to blocks in 2-D",
    "imagetransformer_moe": "--model=image_transformer has no experts",
    "mtf_bitransformer": "--model=transformer on several GPUs divides batches",
    "mtf_res_net": "--model=resnet on several GPUs divides batches",
    "mtf_transformer": "--model=transformer on several GPUs divides batches",
    "mtf_unitransformer": "--model=transformer_lm on several GPUs divides batches",
    "transformer_scorer": "t2t-decoder --score_file scores given outputs with any model",
}
"""Name in Tensor2Tensor -> what to use instead."""

FAMILIES = {
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
"""Beginning of the names of models in Tensor2Tensor, a regular expression -> what there is here."""
MISSING |= {
    name: next(advice for start, advice in FAMILIES.items() if re.match(start, name)) for name in _OF_A_FAMILY.split()
}
