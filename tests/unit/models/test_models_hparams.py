"""Values of registered sets as papers give them; hparams that cannot be built, and those that are not read."""

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.hparams.image_transformer import ImageTransformerHParams
from t2t.hparams.transformer import TransformerHParams
from t2t.models.classics.byte_net import RecurrentByteNetHParams, recurrent_byte_net_tiny
from t2t.models.classics.resnet import ResnetHParams
from t2t.models.classics.shake_shake import ShakeShakeHParams
from t2t.registry import HPARAMS, MODELS
from t2t.runs.config import RunConfig
from t2t.runs.experiment import Experiment
from t2t.runs.names import get_hparams
from t2t.specs.features import FeatureKind, ProblemSpec
from tests.builders import numpy, randomise
from tests.errors import refused
from tests.kinds import SPECS, column
from tests.small_models import NAMES, small_hparams

PUBLISHED = {
    "adaptive_universal_transformer_base": {"recurrence_steps": 12},
    "adaptive_universal_transformer_tiny": {"recurrence_steps": 4},
    "byte_net": {"hidden_size": 2 * 800, "num_hidden_layers": 30, "dilations": (1, 2, 4, 8, 16)},
    "byte_net_lm": {"num_hidden_layers": 6 * 5, "dilations": (1, 2, 4, 8, 16)},
    "bytenet_base": {"hidden_size": 768, "num_hidden_layers": 4, "dilations": (1, 2, 4, 8)},
    # Tensor2Tensor: constant 2 / warm-up^1/2, times D^-1/2, for 512 channels and 8,000 updates of warm-up.
    "evolved_transformer_base": {
        "encoder_layers": 3, "decoder_layers": 4, "num_heads": 8, "wide_heads": 16,
        "learning_rate_schedule": "cosine", "learning_rate": pytest.approx(2.0 / (512**0.5 * 8000**0.5)),
    },
    "evolved_transformer_big": {"hidden_size": 1024, "num_heads": 16, "wide_heads": 16},
    "evolved_transformer_tiny": {"num_heads": 4, "wide_heads": 8},
    "multi_model": {
        "num_hidden_layers": 6, "num_decoder_layers": 4, "dropout": 0.4, "num_heads": 8, "num_experts": 60,
        "kernel_sizes": (3, 3, 15, 15), "dilations": (1, 1, 1, 8), "experts_per_token": 4,
    },
    "multi_model_8": {"num_experts": 240},
    "slice_net": {
        "kernel_sizes": (3, 3, 15, 15), "dilations": (1, 1, 1, 8), "dropout": 0.5, "num_hidden_layers": 6,
        "decoder_layers": 4,
    },
    "slice_net_full_2048": {"hidden_size": 2048, "convolution": "separable", "convolution_groups": (1,)},
    "slice_net_groups16": {"convolution_groups": (16,)},
    "slice_net_super_3072": {"hidden_size": 3072, "convolution_groups": (3, 2)},
    "slice_net_undilated": {"kernel_sizes": (3, 7, 15, 31)},
    "slicenet_1tiny": {"num_hidden_layers": 3, "decoder_layers": 2},
    "universal_transformer_base": {
        "hidden_size": 1024, "filter_size": 4096, "num_heads": 16, "recurrence_steps": 6,
    },
    "universal_transformer_tiny": {"hidden_size": 128, "recurrence_steps": 8},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_values_are_the_published_ones(name):
    hparams = get_hparams(name).freeze()
    assert {field: getattr(hparams, field) for field in PUBLISHED[name]} == PUBLISHED[name]


def test_the_windows_of_byte_nets_paper_reach_373_characters():
    """Six sets of dilations 1, 2, 4, 8, 16 and windows of 3: 6 * 2 * 31 before the last one."""
    hparams = get_hparams("byte_net_lm").freeze()
    assert 1 + 6 * sum((hparams.kernel_size - 1) * dilation for dilation in hparams.dilations) == 373


def test_the_published_layers_of_convolutional_models():
    ende, enfr = (get_hparams(f"conv_s2s_wmt_{pair}").freeze().layers() for pair in ("ende", "enfr"))
    assert ende == [(512, 3)] * 10 + [(768, 3)] * 3 + [(2048, 1)] * 2
    assert enfr == [(512, 3)] * 5 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1), (4096, 1)]
    assert 1 + sum(size - 1 for _, size in enfr) == 25  # the words that an output sees, section 5.1
    assert get_hparams("conv_s2s").freeze().layers() == [(512, 3)] * 20


RECURRENT, CONVOLUTIONAL = "recurrent_byte_net_tiny", "recurrent_byte_net_convolutional"
CMLM = "transformer_cmlm_multi30k_tiny"
REFUSED = [
    ("byte_net_tiny", {"hidden_size": 7}, "hidden_size=7 block=relu"),
    ("byte_net_tiny", {"dilations": (1, 0)}, "dilations=(1, 1"),
    ("byte_net_tiny", {"unfolding_factor": 0.5}, "unfolding_factor=0.5 1.0"),
    ("conv_s2s_tiny", {"kernel_sizes": (3, 4)}, "kernel_sizes 4"),
    ("conv_s2s_tiny", {"kernel_sizes": ()}, "kernel_sizes 0 2 num_hidden_layers"),
    ("conv_s2s_tiny", {"layer_channels": (1, 2, 3)}, "layer_channels 3 2"),
    ("conv_s2s_tiny", {"layer_channels": (-1,)}, "layer_channels=(-1,) hidden_size"),
    ("evolved_transformer_tiny", {"positions": "relative_bias"}, "relative_bias 8 4"),
    ("evolved_transformer_tiny", {"num_heads": 12, "hidden_size": 120}, "num_heads=12 16"),
    ("evolved_transformer_tiny", {"num_heads": 12, "hidden_size": 96, "num_kv_heads": 3}, "num_kv_heads=3 16"),
    ("evolved_transformer_tiny", {"decoder_layer": "ssru"}, "decoder_layer=ssru"),
    ("evolved_transformer_tiny", {"filter_size": 32}, "filter_size=32"),
    ("gnmt_tiny", {"num_hidden_layers": 1}, "num_hidden_layers=1"),
    ("lstm_attention_tiny", {"hidden_size": 7}, "hidden_size=7 bidirectional"),
    ("lstm_moe_tiny", {"num_hidden_layers": 1}, "num_hidden_layers=1"),
    ("lstm_moe_tiny", {"cell": "gru", "cell_units": 8}, "cell_units=8 cell=gru"),
    ("lstm_moe_tiny", {"experts_per_token": 4}, "experts_per_token=4 num_experts=4"),
    ("lstm_moe_tiny", {"expert_groups": 3}, "expert_groups=3 num_experts=4"),
    ("lstm_moe_tiny", {"expert_groups": 2}, "expert_groups=2 experts_per_token=2"),
    ("multi_model_tiny", {"kernel_sizes": (3, 7)}, "kernel_sizes=(3, four"),
    ("multi_model_tiny", {"hidden_size": 66}, "hidden_size=66 num_heads=4"),
    ("multi_model_tiny", {"experts_per_token": 4}, "experts_per_token=4 num_experts=4"),
    ("neural_gpu", {"kernel_size": 4}, "kernel_size=4"),
    (RECURRENT, {"hidden_size": 7}, "hidden_size=7 bidirectional"),
    (CONVOLUTIONAL, {"hidden_size": 7}, "hidden_size=7 block=relu"),
    (RECURRENT, {"block": "cascade"}, "block='cascade' encoder=convolutional"),
    (RECURRENT, {"kernel_size": 5}, "kernel_size=5 encoder=convolutional"),
    (RECURRENT, {"dilations": (1, 2)}, "dilations= encoder=convolutional"),
    (CONVOLUTIONAL, {"encoder_direction": "forward"}, "encoder_direction='forward' encoder=recurrent"),
    *((ResnetHParams, {"layer_sizes": sizes}, "layer_sizes") for sizes in ((), (2, 0), (1, 1.5))),
    (ResnetHParams, {"num_hidden_layers": 50}, "num_hidden_layers=50 layer_sizes"),
    *((ShakeShakeHParams, {"num_hidden_layers": n}, f"num_hidden_layers={n} 6n") for n in (2, 27)),
    ("slice_net_tiny", {"kernel_sizes": (3, 7)}, "kernel_sizes=(3, four"),
    ("slice_net_tiny", {"dilations": (1, 1, 1, 0)}, "dilations=(1, four"),
    ("slice_net_tiny", {"convolution_groups": (3,)}, "convolution_groups=(3,) hidden_size=64"),
    ("slice_net_tiny", {"hidden_size": 7}, "hidden_size=7"),
    ("slice_net_tiny", {"convolution": "full", "convolution_groups": (2,)}, "convolution_groups convolution=full"),
    (TransformerHParams, {"packed_length": 256, "decoder_layer": "ssru"}, "packed_length=256 decoder_layer=ssru"),
    (TransformerHParams, {"packed_length": 256, "fixed_shapes": 8}, "fixed_shapes=8 packed_length"),
    (TransformerHParams, {"packed_length": 2048}, "packed_length=2048"),
    (CMLM, {"decoder_layer": "ssru"}, "decoder_layer=ssru"),
    (CMLM, {"positions": "words"}, "positions=words"),
    (CMLM, {"decode_method": "beam"}, "decode_method=beam transformer_cmlm"),
    *(
        (CMLM, {name: value}, f"{name}={value} decode_method=mask_predict")
        for name, value in (("beam_size", 8), ("min_output_length", 3), ("alignments", True), ("shortlist", True))
    ),
    ("transformer_prepend", {"positions": "rotary"}, "positions=rotary sinusoidal learned none"),
    ("transformer_prepend", {"decoder_layer": "ssru"}, "decoder_layer=ssru decoder_layer=self_attention"),
    ("transformer_prepend", {"relative_keys": 2}, "relative_keys=2 relative_keys=0"),
    ("transformer_prepend", {"num_encoder_layers": 2}, "num_encoder_layers=2 num_encoder_layers=0"),
    ("transformer_prepend", {"target_space_embedding": True}, "target_space_embedding=True target_space_embedding=f"),
    ("universal_transformer_tiny", {"num_decoder_layers": 3}, "num_decoder_layers=3"),
    ("universal_transformer_tiny", {"positions": "none", "hidden_size": 7, "num_heads": 1}, "hidden_size=7"),
    ("universal_transformer_tiny", {"act_max_steps": 3}, "act_max_steps=3 recurrence_type=basic"),
    ("wavenet_tiny", {"dilations": (1, 0)}, "dilations=(1, 1"),
    ("wavenet_tiny", {"kernel_size": 1}, "kernel_size=1 2"),
    (
        "wavenet_tiny", {"shared_embedding_and_softmax_weights": True},
        "skip_channels=128 32 shared_embedding_and_softmax_weights=false",
    ),
    *(("xception", {"exit_channels": (728, 1024, 1536, *more)}, "four") for more in ((), (-1,))),
    (ImageTransformerHParams, {"dec_attention_type": "local_2d", "memory_rows": 9}, "memory_rows=9"),
    (ImageTransformerHParams, {"dec_attention_type": "local_2d", "query_columns": 4}, "query_columns=4"),
    (ImageTransformerHParams, {"hidden_size": 6, "num_heads": 2}, "hidden_size=6"),
    *(
        (ImageTransformerHParams, {"positions": kind}, f"positions={kind} sinusoidal relative rotary relative_bias")
        for kind in ("learned", "words")
    ),
    (ImageTransformerHParams, {"num_encoder_layers": 2}, "num_encoder_layers=2"),
    (ImageTransformerHParams, {"input_end": False}, "input_end=False input_end=true"),
    (ImageTransformerHParams, {"target_space_embedding": True}, "target_space_embedding=false"),
    (ImageTransformerHParams, {"self_attention_window": 4}, "self_attention_window=4 dec_attention_type=local_1d"),
]  # fmt: skip
"""A set, or the class of hparams with its defaults; changes; what the error names."""


@pytest.mark.parametrize(("of", "changes", "named"), REFUSED)
def test_what_cannot_be_built_is_refused(of, changes, named):
    hparams = get_hparams(of) if isinstance(of, str) else of()
    with refused(*named.split()):
        hparams.replace(**changes).freeze()


def test_another_kind_of_encoder_leaves_none_of_the_hparams_of_the_first():
    hparams = recurrent_byte_net_tiny().override("encoder=convolutional,kernel_size=5")
    assert (hparams.freeze().kernel_size, hparams.encoder_direction) == (5, RecurrentByteNetHParams().encoder_direction)
    ResnetHParams(layer_sizes=(1, 2)).freeze()


# === Hparams that a model of a problem does not read ===

TOKENS, LABEL = FeatureKind.TOKENS, FeatureKind.LABEL
ENCODER = {"num_encoder_layers": 3, "target_space_embedding": True, "input_end": False}
START = {"target_start": "id", "target_start_id": 5}
DECODER = {"num_decoder_heads": 4, "decoder_filter_size": 20}
OUTPUT = {"output_bias": True, "shared_embedding_and_softmax_weights": False}
CASES = {
    ("transformer", None, TOKENS): ENCODER,
    ("transformer_lm", None, TOKENS): ENCODER,
    ("transformer_moe", None, TOKENS): ENCODER,
    ("transformer_bart", None, TOKENS): ENCODER,
    ("byte_net_lm", None, TOKENS): {"unfolding_factor": 3.0, "unfolding_offset": 2},
    ("multi_model", TOKENS, TOKENS): START,
    ("multi_model", TOKENS, LABEL): START | OUTPUT,
    ("neural_gpu", TOKENS, TOKENS): START,
    ("transformer_mlm", TOKENS, TOKENS): START | DECODER,
    ("transformer_cmlm", TOKENS, TOKENS): START,
    ("transformer_encoder", TOKENS, LABEL): START | OUTPUT | DECODER,
}
"""Model, kinds of inputs and targets: all hparams that are unread there, with other values than the default."""


def spec_of(inputs, targets):
    kinds = {"targets": targets} | ({"inputs": inputs} if inputs else {})
    return ProblemSpec(name="kinds", features={name: SPECS[kind] for name, kind in kinds.items()})


def scores(model_class, spec, changes):
    model = randomise(model_class(small_hparams(model_class, changes), spec))
    features = {name: column(feature.kind, len(name)) for name, feature in spec.features.items()}
    return {variable.path for variable in model.variables}, numpy(model.score_targets(features).log_probs)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_hparams_that_are_unread_have_no_effect(case):
    name, *kinds = case
    model_class, spec = MODELS.get(name), spec_of(*kinds)
    assert model_class.unread_hparams(spec).keys() == CASES[case].keys()
    (paths, expected), (same_paths, found) = (scores(model_class, spec, one) for one in ({}, CASES[case]))
    assert paths == same_paths
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("model", "problem", "hparams_set", "overrides", "named"),
    [
        ("transformer_lm", "languagemodel_wikitext2", "transformer_tiny", "num_encoder_layers=3,input_end=false",
         "num_encoder_layers=3 num_encoder_layers=0 input_end=False input_end=true languagemodel_wikitext2"),
        ("byte_net_lm", "languagemodel_wikitext2", "byte_net_lm", "unfolding_factor=3",
         "unfolding_factor=3.0 unfolding_factor=1.2 ByteNetLm"),
        ("multi_model", "translate_ende_numbers", "multi_model_tiny", "target_start=pad",
         "target_start=pad target_start=zero MultiModel"),
        ("neural_gpu", "algorithmic_reverse_binary40_test", "neural_gpu_tiny", "target_start=pad",
         "target_start=pad target_start=zero NeuralGpu"),
        ("transformer_encoder", "sentiment_imdb", "t5_small", "target_start=id,output_bias=true",
         "target_start=id target_start=zero output_bias=True output_bias=false TransformerEncoder sentiment_imdb"),
        ("transformer_moe", "translate_ende_numbers", "transformer_moe_tiny", "expert_layer_step=3,num_experts=8",
         "expert_layer_step=3 2 transformer"),
        ("transformer_cmlm", "translate_ende_numbers", "transformer_cmlm_multi30k_tiny", "self_attention_window=4",
         "self_attention_window=4 self_attention_window=0"),
    ],
)  # fmt: skip
def test_a_new_run_with_them_is_refused_and_a_recorded_one_resumes(
    model, problem, hparams_set, overrides, named, tmp_path
):
    names = {"problem": problem, "model": model, "hparams_set": hparams_set}
    given = {**names, "output_dir": str(tmp_path / "run")}
    changed = RunConfig.given({**given, "hparams": overrides})
    assert Experiment.resolve(RunConfig.given(given)).model_class
    with refused(*named.split()):
        Experiment.resolve(changed).model_class  # noqa: B018
    record = RunRecord(**names, overrides=overrides, hparams={}, spec=ProblemSpec(name=problem), problem_options={})
    RunDir.create(changed.output_folder, record, {})
    resumed = Experiment.resolve(changed)
    assert resumed.model_class
    assert resumed.hparams.override(overrides)


@pytest.mark.parametrize("name", NAMES)
def test_every_registered_set_may_begin_a_run_of_every_problem(name):
    model_class = MODELS.get(name)
    sets = [hparams for one in HPARAMS.names() if isinstance(hparams := get_hparams(one), model_class.hparams_class)]
    assert sets
    for inputs in model_class.accepts_inputs:
        for targets in model_class.accepts_targets:
            for hparams in sets:
                model_class.check_new(hparams, hparams, spec_of(inputs, targets))
