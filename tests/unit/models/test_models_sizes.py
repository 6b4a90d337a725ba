"""Numbers of parameters of the published sets, beside those that papers and authors print, or counted by hand.

Letters: D width, V vocabulary, C channels, k positions of a window, g groups.
"""

import math

import pytest

from t2t.errors import UserError
from t2t.registry import MODELS
from t2t.runs.names import get_hparams
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.builders import shapes_alone, tokens_spec

IMAGENET = ProblemSpec(
    name="imagenet",
    features={
        "inputs": FeatureSpec(kind=FeatureKind.IMAGE, shape=(299, 299, 3)),
        "targets": FeatureSpec(kind=FeatureKind.LABEL, vocab_size=1000),
    },
)
V = 100


def shapes(model, set_name, spec=None):
    """The shapes of a model's weights by path; none of them is given a value."""
    with shapes_alone():
        built = MODELS.get(model)(get_hparams(set_name), spec or tokens_spec(V, V))
        return {variable.path.partition("/")[2]: tuple(variable.shape) for variable in built.variables}


def count(found, *parts):
    """How many weights there are, or of those with one of these parts in their paths."""
    return sum(math.prod(shape) for path, shape in found.items() if not parts or any(part in path for part in parts))


def test_xception_has_the_parameters_of_the_papers_table_3():
    """22,855,952 on ImageNet; layer norms have a gain and an offset, as batch norms do."""
    assert count(shapes("xception", "xception", IMAGENET)) == 22_855_952


@pytest.mark.parametrize("sizes", [(728, 1024, 1536), (728, 1024, 1536, -1)])
def test_the_exit_flow_has_four_convolutions(sizes):
    with pytest.raises(UserError, match="the exit flow has four convolutions; give four numbers, 0 or more"):
        get_hparams("xception").replace(exit_channels=sizes).freeze()


def test_a_diagonal_neural_gpu_has_the_parameters_of_the_authors_program():
    """With m channels, 13 input and 3 output symbols: 9 m^2 + 20 m + 3, of which m + 3 are biases of both ends.

    For m = 96 that is 84,867, as a later port of the program reports.
    """
    m = 96
    found = shapes("diagonal_neural_gpu", "diagonal_neural_gpu", tokens_spec(13, 3, shared=False))
    assert count(found, "unit_0") == 3 * (3 * m * m + m)
    assert count(found) == 9 * m * m + 20 * m + 3 - (m + 3)
    assert 9 * m * m + 20 * m + 3 == 84_867


def test_a_neural_gpu_of_the_paper():
    """Two units (l = 2) of three kernels of 3 x 3 for m = 24 maps each, and biases; w = 4 rows cost nothing."""
    assert count(shapes("neural_gpu", "neural_gpu_paper"), "unit_") == 2 * 3 * (9 * 24 * 24 + 24)


@pytest.mark.parametrize(("name", "d", "parallel"), [("byte_net", 800, 1), ("byte_net_multiplicative", 512, 4)])
def test_the_blocks_of_byte_net(name, d, parallel):
    """Figure 3 for 2d channels: 1 x 1 to d, a window of 3 (four in parallel in a multiplicative unit), 1 x 1 to 2d."""
    found = shapes("byte_net", name)
    norms = 2 * (2 * d + parallel * d + d)  # before each activation
    block = (2 * d * d + d) + parallel * (3 * d * d + d) + (2 * d * d + 2 * d) + norms
    for stack in ("encoder", "decoder"):
        assert len({path.split("/")[1] for path in found if path.startswith(f"{stack}/block_")}) == 30
        assert count(found, f"{stack}/block_") == 30 * block


SLICE_NETS = {
    "slice_net": ((3, 3, 15, 15), "separable", (1,)),
    "slice_net_dilated_1248": ((3, 3, 3, 3), "separable", (1,)),
    "slice_net_groups16": ((3, 3, 3, 3), "grouped", (16,)),
    "slice_net_unseparated": ((3, 3, 3, 3), "full", (1,)),
    "slice_net_undilated": ((3, 7, 15, 31), "separable", (1,)),
    "slice_net_super2": ((3, 7, 15, 31), "separable", (2,)),
    "slice_net_super3": ((3, 7, 15, 31), "separable", (3,)),
    "slice_net_super23": ((3, 7, 15, 31), "separable", (3, 2)),
}


def table_1(k, c, out, kind, g):
    """The paper's Table 1, for c channels in and `out` out."""
    return {"full": k * c * out, "separable": k * c + c * out // g, "grouped": k * c * c // g + c * out}[kind]


@pytest.mark.parametrize("name", SLICE_NETS)
def test_each_slice_net_has_the_parameters_of_the_papers_table_1(name):
    """6 + 4 modules of four steps, five attentions of two steps of 5, one step of 3 from 2D to D; norms are 2D each."""
    kernels, kind, groups = SLICE_NETS[name]
    D = 768
    module = sum(table_1(k, D, D, kind, groups[i % len(groups)]) for i, k in enumerate(kernels))
    attention = sum(table_1(5, D, D, kind, groups[i % len(groups)]) for i in range(2))
    mixer = table_1(3, 2 * D, D, "full" if kind == "full" else "separable", 1)
    norms = 2 * D * (10 * 4 + 5 * 2 + 1)
    assert count(shapes("slice_net", name)) - V * D == 10 * module + 5 * attention + mixer + norms


def test_the_stacks_of_the_convolutional_model_for_english_german():
    """Kernels of C to 2C' and their maps, with a length and a bias for each output: sections 3.2 and 3.3."""
    D, channels = 512, [512] * 10 + [768] * 3 + [2048] * 2
    windows, inputs = [3] * 13 + [1] * 2, [512, *[512] * 10, *[768] * 3, 2048]
    gated = sum(k * c * 2 * out + 4 * out for k, c, out in zip(windows, inputs, channels, strict=True))
    widened = sum(c * out + 2 * out for c, out in zip(inputs, channels, strict=True) if c != out)
    ends = D * 512 + 2 * 512 + 2048 * D + 2 * D
    attentions = sum(c * D + 2 * D + D * c + 2 * c for c in channels)
    found = shapes("conv_s2s", "conv_s2s_wmt_ende")
    assert count(found, "encoder/") == gated + widened + ends
    assert count(found, "decoder/") == gated + widened + ends + attentions


def test_the_one_layer_of_each_stack_of_a_universal_transformer():
    """Attention of 4 D^2, 8 with that to the source, two maps with biases, norms in front and one behind; no more."""
    D, F = 1024, 4096
    found = shapes("universal_transformer", "universal_transformer_base")
    feed_forward = D * F + F + F * D + D
    assert count(found, "encoder/") == 4 * D * D + feed_forward + 3 * 2 * D
    assert count(found, "decoder/") == 8 * D * D + feed_forward + 4 * 2 * D
    assert count(found) - V * D == count(found, "encoder/", "decoder/")
    adaptive = shapes("universal_transformer", "adaptive_universal_transformer_base")
    assert count(adaptive) - count(found) == 2 * (D + 1)


def test_the_layers_of_the_evolved_transformer():
    """Figure 3 for d = 512: 1x1 to 2048 and 3x1 to 256, 9x1 to 256; 11x1 to 1024 and 7x1 to 256, 7x1 to 512."""
    D, F, half = 512, 2048, 256
    found = shapes("evolved_transformer", "evolved_transformer_base")
    feed_forward = D * F + F + F * D + D
    branches = (D * F + F) + (3 * D * half + half) + 2 * F + (9 * F + F * half)
    layer = 2 * (D * D + D) + branches + 4 * D * D + feed_forward + 4 * 2 * D
    assert count(found, "encoder/") == 3 * layer + 2 * D
    branches = (11 * D + D * 2 * D) + (7 * D + D * half) + 2 * 2 * D + (7 * 2 * D + 2 * D * D)
    layer = 8 * D * D + branches + 8 * D * D + feed_forward + 5 * 2 * D
    assert count(found, "decoder/") == 4 * layer + 2 * D


def test_the_masked_language_model_has_the_layers_of_berts_base_model():
    """12 layers of 768 channels: 85,054,464 weights, and one table for words and one for 512 positions."""
    D, F = 768, 3072
    assert 12 * (4 * (D * D + D) + 2 * D * F + F + D + 2 * 2 * D) == 85_054_464
    found = shapes("transformer_mlm", "transformer_mlm_base")
    assert count(found, "encoder/") == 85_054_464
    assert count(found) == 85_054_464 + V * D + 512 * D
