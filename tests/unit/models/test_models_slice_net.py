"""SliceNet against one in numpy (tests/reference/slice_net.py), its convolutions' sizes, and in decoding.

Legend: B batch, S source length, T target length, D width.
"""

import numpy as np
import pytest

from t2t.errors import UserError
from t2t.hparams.slice_net import (
    SliceNetHParams,
    slice_net,
    slice_net_full_2048,
    slice_net_groups16,
    slice_net_super_3072,
    slice_net_tiny,
    slice_net_undilated,
    slicenet_1tiny,
)
from t2t.layers.separable_convolution import Separability, SeparableConvolution
from t2t.layers.slice_modules import Source, attend
from t2t.models.slice_net import SliceNet
from tests.builders import batch, numpy, randomise, tokens_spec, weights_of
from tests.models import (
    check_dropout_follows_its_seed,
    check_logits,
    check_steps_of_beams,
    directional_derivatives,
    loss_of_reference,
)
from tests.reference.slice_net import SliceNet as Reference

SOURCES, TARGETS = (5, 1, 7), (4, 6, 2)
STEPS = ((3, 1), (3, 2), (5, 1), (3, 4))
KINDS = {
    "separable": {},
    "super-separable": {"convolution_groups": (3, 2)},
    "sub-separable": {"convolution": "grouped", "convolution_groups": (2,)},
    "full": {"convolution": "full"},
}


def tiny(kind="separable", dtype="float32", **changes):
    """A model of 2 and 1 modules of 12 channels without dropout, its weights random."""
    sizes, dilations = zip(*STEPS, strict=True)
    common = {"hidden_size": 12, "num_hidden_layers": 2, "num_decoder_layers": 1, "dropout": 0.0}
    hparams = SliceNetHParams(**{**common, "kernel_sizes": sizes, "dilations": dilations, **KINDS[kind], **changes})
    return randomise(SliceNet(hparams, tokens_spec(), dtype=dtype))


def reference_of(kind, weights, encoder=2):
    groups = KINDS[kind].get("convolution_groups", (1,))
    return Reference(weights, encoder, 1, STEPS, KINDS[kind].get("convolution", "separable"), (groups * 4)[:4])


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_an_independent_model_whatever_the_padding(kind):
    model = tiny(kind)
    reference = reference_of(kind, weights_of(model))
    check_logits(model, reference, SOURCES, TARGETS, 11)


@pytest.mark.slow
def test_gradients_are_those_of_finite_differences_of_the_independent_model():
    model = tiny("super-separable", label_smoothing=0.0, num_hidden_layers=1)
    features = batch(sources=(4, 3), targets=(3, 5), widths=(6, 6))
    loss = loss_of_reference(lambda weights: reference_of("super-separable", weights, encoder=1), features)
    for path, found, expected in directional_derivatives(model, features, loss):
        np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-3, err_msg=path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.exhaustive
def test_steps_of_several_beams_are_teacher_forcing(kind):
    check_steps_of_beams(tiny(kind, num_hidden_layers=1), "float32")


def test_steps_are_teacher_forcing_in_half_precision():
    check_steps_of_beams(tiny(dtype="mixed_bfloat16", num_hidden_layers=1), "mixed_bfloat16")


@pytest.mark.parametrize(
    ("separability", "expected"),
    [
        (Separability(), 5 * 12 + 12 * 12),
        (Separability(groups=3), 5 * 12 + 12 * 12 // 3),
        (Separability("grouped", 3), 5 * 12 * 12 // 3 + 12 * 12),
        (Separability("full"), 5 * 12 * 12),
    ],
    ids=["separable", "super-separable", "sub-separable", "full"],
)
def test_convolutions_have_as_many_weights_as_table_1_says(separability, expected):
    """k = 5, c = 12, g = 3: k c + c^2, k c + c^2 / g, k c^2 / g + c^2, k c^2."""
    layer = SeparableConvolution(12, 5, separability, name="convolution")
    layer.build((None, None, 12))
    assert sum(np.size(v) for v in layer.variables) == expected


def test_groups_of_super_separable_convolutions_do_not_meet_but_2_after_3_do():
    x_BTC = np.zeros((1, 1, 6), np.float32)
    x_BTC[..., 0] = 1.0
    seen = x_BTC
    for groups, reached in (
        (3, [True] * 2 + [False] * 4),
        (2, [True] * 3 + [False] * 3),
        (3, [True] * 4 + [False] * 2),
    ):
        layer = SeparableConvolution(6, 1, Separability(groups=groups), name="convolution")
        layer.build((None, None, 6))
        seen = numpy(layer(np.asarray(seen, np.float32)))
        assert (seen[0, 0] != 0).tolist() == reached


def test_attention_by_hand():
    """D 4, so products are halved: query 2 e_1 and keys 0, e_1 ln 3: weights 1/4 and 3/4; a third key is padding."""
    e_1 = np.array([1.0, 0.0, 0.0, 0.0], np.float32)
    hidden = np.stack([0 * e_1, np.log(3.0).astype(np.float32) * e_1, 9 * e_1])[None]
    found = attend(2 * e_1[None, None], Source(hidden, np.array([[True, True, False]])), "")
    np.testing.assert_allclose(numpy(found)[0, 0], 0.75 * np.log(3.0) * e_1, rtol=1e-6)


def test_dropout_is_a_function_of_its_seed():
    check_dropout_follows_its_seed(tiny(dropout=0.5))


def test_published_sizes():
    module = slice_net().freeze()
    assert (module.kernel_sizes, module.dilations, module.dropout) == ((3, 3, 15, 15), (1, 1, 1, 8), 0.5)
    assert (module.num_hidden_layers, module.decoder_layers) == (6, 4)
    best, larger = slice_net_super_3072().freeze(), slice_net_full_2048().freeze()
    assert (best.hidden_size, best.convolution_groups) == (3072, (3, 2))
    assert (larger.hidden_size, larger.convolution, larger.convolution_groups) == (2048, "separable", (1,))
    assert slice_net_undilated().freeze().kernel_sizes == (3, 7, 15, 31)
    assert slice_net_groups16().freeze().convolution_groups == (16,)
    assert (slicenet_1tiny().freeze().num_hidden_layers, slicenet_1tiny().decoder_layers) == (3, 2)


def test_paths_of_weights_are_a_format_and_stay():
    model = tiny(num_hidden_layers=1)
    step = ("convolution/windows/kernel", "convolution/channels/kernel", "norm/gamma", "norm/beta")
    steps = [
        *(f"encoder_0/step_{i}" for i in range(1, 5)),
        *(f"decoder_0/module/step_{i}" for i in range(1, 5)),
        *(f"{part}/attention/step_{i}" for part in ("mixer", "decoder_0") for i in (1, 2)),
        "mixer/step",
    ]
    paths = ["target_embedding/table", *(f"{place}/{name}" for place in steps for name in step)]
    assert sorted(weights_of(model)) == sorted(paths)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kernel_sizes": (3, 7)}, r"hparam kernel_sizes=\(3, 7\): a module has four steps; give four numbers, each 1"),
        ({"dilations": (1, 1, 1, 0)}, r"hparam dilations=\(1, 1, 1, 0\): a module has four steps"),
        ({"convolution_groups": (3,)}, r"hparam convolution_groups=\(3,\) with hidden_size=64: give one or more divis"),
        ({"hidden_size": 7}, "hparam hidden_size=7 is odd; timing signals need an even width"),
        ({"convolution": "full", "convolution_groups": (2,)}, "nothing reads it while convolution=full"),
    ],
)
def test_what_cannot_be_built_is_refused(changes, text):
    with pytest.raises(UserError, match=text):
        slice_net_tiny().replace(**changes).freeze()
