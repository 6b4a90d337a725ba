"""Tensor2Tensor's names: each is registered, an alias of the same thing, or refused with what to use instead."""

import re

import pytest

from t2t.errors import UnknownNameError
from t2t.registry import HPARAMS, MODELS, PROBLEMS, tensor2tensor
from t2t.runs.names import get_problem
from tests.errors import refused

KINDS = {
    "problem": (PROBLEMS, tensor2tensor.PROBLEMS),
    "model": (MODELS, tensor2tensor.MODELS),
    "hparams": (HPARAMS, tensor2tensor.HPARAMS),
}
FLAGS = {"problem": PROBLEMS, "model": MODELS, "hparams_set": HPARAMS}
TOKENS = ("tokens_8k", "tokens_32k", "tokens_128k")
PROBLEMS_OF_103 = [
    *(f"algorithmic_{kind}_{base}40" for kind in ("identity", "reverse", "addition", "multiplication")
      for base in ("binary", "decimal")),
    "algorithmic_shift_decimal40", "algorithmic_algebra_inverse", "algorithmic_algebra_simplify",
    "algorithmic_calculus_integrate", "wmt_parsing_characters", "wmt_parsing_tokens_8k", "wsj_parsing_tokens_16k",
    "wsj_parsing_tokens_32k", "wmt_ende_bpe32k", "snli_32k", "image_imagenet", "lm1b_16k", "lm1b_64k",
    *(f"wmt_en{code}_{kind}" for code in ("de", "fr") for kind in ("characters", *TOKENS)),
    *(f"image_{name}_{part}" for name in ("mnist", "cifar10", "mscoco_characters") for part in ("tune", "test")),
    *(f"image_mscoco_tokens_{size}k_{part}" for size in (8, 32, 128) for part in ("tune", "test")),
    *(f"audio_timit_{kind}_{part}" for kind in ("characters", "tokens_8k", "tokens_32k") for part in ("tune", "test")),
    *(f"audio_wsj_{kind}_{part}" for kind in ("characters", "tokens_8k") for part in ("tune", "test")),
    *(f"wmt_ende_bpe32k_{kind}" for kind in ("160", "combined", "shuffled")), "wmt_ende_concat_8k",
    "wmt_ende_concat_32k", "wmt_ende_v2_16k_combined", "wmt_ende_v2_32k_combined", "wmt_enfr_tokens_32k_combined",
    "wmt_enfr_tokens_32k_shuffled",
]  # fmt: skip
MODELS_OF_103 = """
    transformer slice_net byte_net multi_model neural_gpu diagonal_neural_gpu xception baseline_lstm_seq2seq
    attention_lm attention_lm_moe
"""
SETS_OF_103 = """
    basic1 transformer_base transformer_single_gpu transformer_tiny transformer_l2 transformer_l4 transformer_l8
    transformer_h1 transformer_h4 transformer_h16 transformer_h32 transformer_k128 transformer_k256
    transformer_ff1024 transformer_ff4096 transformer_dr0 transformer_dr2 transformer_ls0 transformer_ls2
    transformer_hs256 transformer_hs1024 transformer_big_dr1 transformer_big_dr2 transformer_big_dr3
    transformer_big_enfr transformer_big_single_gpu transformer_parsing_base_dr6 transformer_parsing_big
    attention_lm_base attention_lm_moe_base attention_lm_moe_small attention_lm_moe_large bytenet_base slicenet1
    slicenet1noam slicenet1tiny multimodel1p8 neural_gpu1 xception_base
"""


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("imagetransformer_b10l_dr03_moe_tpu", "image_transformer"), ("mtr_lm_dense_0_h1_16", "--worker_gpu"),
        ("adaptive_universal_transformer_global_base", "universal_transformer"),
        ("transformer_base_bs10", "transformer_cmlm"), ("xmoe2_v1_l4k", "transformer_moe"),
        ("next_frame_sv2p_tiny", "video_moving_mnist_next"), ("rlmb_base_stochastic_discrete", "reinforcement"),
        ("mqp_ende_h8_kv16_ff6784", "--registry_help=hparams"), ("lstm_asr_v1", "--registry_help=lstm"),
    ],
)  # fmt: skip
def test_a_set_of_a_family_of_theirs_is_refused_with_what_there_is_here(name, advice):
    with refused(name, advice):
        HPARAMS.get(name)


@pytest.mark.parametrize("kind", KINDS)
def test_an_alias_has_a_target_other_names_are_missing_and_advice_names_what_is_registered(kind):
    registry, theirs = KINDS[kind]
    for alias, target in theirs.aliases.items():
        assert registry.canonical(alias) == registry.canonical(target) == target in registry
    assert not [name for name in theirs.missing if name in registry]
    for name, advice in [*theirs.missing.items(), *theirs.families.items()]:
        for flag, value in re.findall(r"--(problem|model|hparams_set)=(\w+)", advice):
            if flag == "problem":
                get_problem(value)
            assert FLAGS[flag].canonical(re.sub("_rev$", "", value)) in FLAGS[flag], name


@pytest.mark.parametrize(("registry", "theirs", "names"), [
    (PROBLEMS, tensor2tensor.PROBLEMS, PROBLEMS_OF_103),
    (MODELS, tensor2tensor.MODELS, MODELS_OF_103.split()),
    (HPARAMS, tensor2tensor.HPARAMS, SETS_OF_103.split()),
])  # fmt: skip
def test_every_name_of_the_first_version_is_known(registry, theirs, names):
    assert len(set(names)) == len(names)
    missing = [name for name in names if name not in registry and name not in theirs.missing]
    assert not [name for name in missing if not any(re.match(start, name) for start in theirs.families)]


def test_a_name_without_a_counterpart_says_so_and_what_to_use():
    with refused("'snli_32k'", "Tensor2Tensor", "--problem=glue_mnli;", by=UnknownNameError):
        get_problem("snli_32k")
    with refused("'super_lm'", "Tensor2Tensor", by=UnknownNameError):
        MODELS.get("super_lm")
    with refused("'my_own'", by=UnknownNameError) as raised:
        MODELS.get("my_own")
    assert "Tensor2Tensor" not in str(raised.value)
