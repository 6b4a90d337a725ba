"""Imports of Tensor2Tensor runs written by the test: the same network, all weights used, and errors."""

import numpy as np
import pytest
from keras import ops

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.text.subword import SubwordEncoder
from tests.errors import refused
from tests.reference import tensor2tensor as theirs
from tests.unit.formats.imports import put, setting

CORPUS = ["a small dog runs", "the old dog sleeps", "a cat sees the dog", "the cats run"]
ERAS = [
    pytest.param(theirs.OLD, {"norm": "post"}, id="v1.0.3"),
    pytest.param(theirs.OLD, {"norm": "post", "tied": False}, id="v1.0.3-unshared"),
    pytest.param(theirs.NEW, {"norm": "pre"}, id="v1.15-pre"),
    pytest.param(theirs.NEW, {"norm": "post"}, id="v1.15-post"),
    pytest.param(theirs.NEW, {"norm": "pre", "tied": False}, id="v1.15-unshared"),
    pytest.param(theirs.NEW, {"norm": "pre", **theirs.RELATIVE}, id="v1.15-relative"),
    pytest.param(theirs.NEW, theirs.RELATIVE_V2["unmasked_"], id="v1.15-relative-v2"),
    pytest.param(
        theirs.NEW,
        {**theirs.RELATIVE_V2["unmasked_"], "heads_share_relative_embedding": True, "pos": None},
        id="v1.15-relative-v2-shared",
    ),
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.ours.100.subwords"
    encoder = SubwordEncoder.build(CORPUS, 100)
    path.write_bytes(encoder.to_bytes())
    return path, encoder


@pytest.fixture
def model(importing, vocabulary):
    return importing("tensor2tensor", vocab_file=vocabulary[0])


@pytest.fixture
def write(model, vocabulary):
    """Returns a function that writes a run, and returns its hparams and variables, which `edit` may change before."""

    def write(era=theirs.NEW, edit=None, problem="translate_ende_numbers", **shape):
        values = theirs.hparams(era, **({"norm": "pre"} | shape))
        variables = theirs.random_variables(era, values, vocabulary[1].vocab_size)
        if edit:
            edit(values, variables)
        theirs.write_run(model.model, values, variables, {"problem": problem, "model": "transformer"})
        return values, variables

    return write


def checkpoint_of(model):
    return CheckpointStore(model.run / "checkpoints").load()


@pytest.mark.parametrize(("era", "shape"), ERAS)
def test_the_network_is_the_same(model, write, vocabulary, era, shape):
    reference = theirs.Network(era, *write(era, **shape), target_space_id=8)
    encoder = vocabulary[1]
    source, target = [*encoder.encode("the small cat runs"), 1], [*encoder.encode("a dog"), 1]
    padded = {"inputs": np.array([[*source, 0, 0]], np.int32), "targets": np.array([[*target, 0]], np.int32)}
    found = ops.convert_to_numpy(model.build()[0].model(padded))[0]
    expected = reference.logits(padded["inputs"][0], padded["targets"][0])
    np.testing.assert_allclose(found[: len(target)], expected[: len(target)], rtol=2e-4, atol=2e-4)


def test_a_decoder_alone_has_causal_vectors_of_each_head_beside_sinusoids(model, write, vocabulary):
    """As in Magenta's sets for music."""
    shape = {"tied": False, "max_length": 0, "batch_size": 2048, **theirs.RELATIVE_V2[""]}
    reference = theirs.Network(theirs.NEW, *write(edit=decoder_alone, problem=ALONE, **shape), target_space_id=0)
    target = [*vocabulary[1].encode("the small cat runs and runs"), 1]
    found = ops.convert_to_numpy(model.build()[0].model({"targets": np.array([target], np.int32)}))[0]
    np.testing.assert_allclose(found, reference.logits(None, target), rtol=2e-4, atol=2e-4)


def test_it_decodes_with_the_vocabulary_that_the_checkpoint_knows_and_is_not_overwritten(model, write, vocabulary):
    write()
    encoder = vocabulary[1]
    translator = model()[0].translator()
    assert translator.encode(["the old dog"]) == [encoder.encode("the old dog")]
    ((best,),) = translator.translate(["the old dog"], extra_length=3, decode_method="greedy")
    assert best.text == encoder.decode(best.ids)
    entry = ["subword", encoder.vocab_size, encoder.fingerprint]
    assert checkpoint_of(model).state["vocabularies"] == {"inputs": entry, "targets": entry}
    before = RunDir.open(model.run).record
    with refused(model.run):
        model.report()
    assert RunDir.open(model.run).record == before


KERNELS = {
    theirs.OLD: "body/decoder/layer_1/conv_hidden_relu/conv1_single/kernel",
    theirs.NEW: "training/transformer/body/decoder/layer_1/ffn/conv1/kernel",
}


@pytest.mark.parametrize("era", KERNELS)
def test_the_moments_of_adam_come_along(model, write, era):
    _, variables = write(era)
    report, checkpoint = model.report(), checkpoint_of(model)
    assert checkpoint.step == int(checkpoint.optimizer["adam/iteration"]) == 1234
    slots = {name: array for name, array in checkpoint.optimizer.items() if "velocity" in name or "momentum" in name}
    assert len(slots) == 2 * len(report.run.weights)
    size = sum(array.size for name, array in variables.items() if name.endswith("Adam"))
    rows_left = (theirs.TARGET_SPACES - 1) * 8
    assert sum(a.size for name, a in slots.items() if "momentum" in name) == size - rows_left
    for slot, name in (("momentum", "Adam"), ("velocity", "Adam_1")):
        found = slots[f"adam/transformer_decoder_layer_1_ffn_inner_kernel_{slot}"]
        np.testing.assert_array_equal(found, variables[f"{KERNELS[era]}/{name}"].reshape(8, 12))


def without(part):
    """Removes variables with a part in their names."""

    def edit(values, variables):
        for name in [name for name in variables if part in name]:
            del variables[name]

    return edit


ALONE = "languagemodel_files"


def decoder_alone(values, variables):
    for part in ("body/encoder/", "encdec_attention", "target_space", "input_emb"):
        without(part)(values, variables)


def test_without_moments_the_weights_alone_come(model, write):
    write(edit=without("Adam"))
    assert "without Adam's moments" in model.report().lines()[0]
    assert checkpoint_of(model).optimizer is None


def test_hparams_keep_their_meaning(model, write):
    changes = {"learning_rate": 0.2, "learning_rate_warmup_steps": 8000, "relu_dropout": 0.1, "weight_decay": 0.1}
    write(edit=setting(**changes))
    run = model.read()
    wanted = {"learning_rate_schedule": "noam", "learning_rate": 2.0, "learning_rate_warmup_steps": 8000,
              "norm_position": "pre", "relu_dropout": 0.1, "layer_prepostprocess_dropout": 0.1}  # fmt: skip
    assert {name: getattr(run.hparams, name) for name in wanted} == wanted
    assert ["weight_decay=0.1" in text for text in run.warnings] == [True]


@pytest.mark.parametrize(
    ("problem", "number"),
    [("translate_ende_numbers", 8), ("translate_enfr_multi30k", 6), ("translate_ende_multi30k_rev", 3)],
)
def test_the_target_space_is_the_problems(model, write, problem, number):
    _, variables = write(problem=problem)
    run = model.read()
    assert run.notes == (f"target space {number}",)
    wanted = variables["transformer/body/target_space_embedding/kernel"][number]
    np.testing.assert_array_equal(run.weights["target_space"], wanted)


# === Errors ===

LAYER = "transformer/body/encoder/layer_0"


def misshapen(values, variables):
    without("Adam")(values, variables)
    without(f"{LAYER}/ffn/conv2/")(values, variables)
    variables["transformer/body/encoder/layer_7/ffn/conv1/bias"] = np.zeros(12, np.float32)
    variables[f"{LAYER}/ffn/conv1/bias"] = np.zeros(5, np.float32)


def of_another_network(values, variables):
    for which in "kv":
        variables[f"transformer/body/decoder/layer_0/self_attention/relative_{which}"] = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (
            misshapen,
            ["encoder/layer_0/ffn/outer/kernel", "encoder/layer_0/ffn/outer/bias", "encoder/layer_7/ffn/inner/bias",
             "encoder/layer_0/ffn/inner/bias", "((5,)", "(12,)"],
        ),
        (of_another_network, [2, "relative_k,", "relative_v;"]),
        (put(f"{LAYER}/self_attention/qkv_transform/kernel", np.ones((8, 25))), ["self_attention/qkv_transform", 25]),
        (put("symbol_modality_7013_8/input_emb/weights_0", np.ones((7013, 8))), [7013]),
        (without("/shared/weights_1"), ["target_embedding/table", "weights_1"]),
        (
            setting(self_attention_type="local_mask_right"),
            ["self_attention_type='local_mask_right'", "'dot_product'"],
        ),
        (
            setting(self_attention_type="dot_product_relative_v2", max_relative_position=3),
            ["'dot_product_relative_v2'", "dot_product_unmasked_relative_v2"],
        ),
        (setting(self_attention_type="dot_product_relative_v2"), ["max_relative_position=0"]),
        (setting(add_relative_to_values=True), ["add_relative_to_values=True"]),
        (setting(self_attention_type="dot_product_relative"), ["'dot_product_relative'", "pos='timing'"]),
        (setting(**theirs.RELATIVE | {"max_relative_position": 0}), ["max_relative_position=0", 1]),
        (lambda values, _: values.pop("num_heads"), ["num_heads"]),
        (setting(ffn_layer="conv_relu_conv"), ["ffn_layer='conv_relu_conv'"]),
        (setting(pos="emb"), ["pos='emb'", "'timing'", "'none'", "None"]),
        (setting(layer_postprocess_sequence="dazn"), ["layer_preprocess_sequence='n'", "layer_postprocess_sequence="]),
    ],
)  # fmt: skip
def test_another_network_is_refused(model, write, edit, named):
    write(edit=edit)
    model.is_refused(*named)


def test_files_that_are_not_there_damaged_or_of_another_run(model, write):
    values, _ = write()
    other = model.folder / "vocab.other.60.subwords"
    other.write_bytes(SubwordEncoder.build(["nothing in common"], 60).to_bytes())
    model.is_refused("target_embedding/table", vocab_file=other)
    model.is_refused("--step=7", 1234, step=7)
    model.is_refused("--target_space_id=32", 31, target_space_id=32)
    (data,) = (path.name for path in model.model.glob("*.data-*"))
    model.replace(data, (model.model / data).read_bytes()[:100])
    model.is_refused("model.ckpt-1234")
    model.replace("hparams.json", b"{")
    model.is_refused("hparams.json", "JSON")
    model.replace("hparams.json", [values])
    model.is_refused("hparams.json", "list")
    model.replace("hparams.json", values)
    model.replace(next(model.model.glob("*.index")).name)
    model.is_refused("model.ckpt-<step>.index")
    model.replace("flags.txt")
    model.is_refused("--problem", "flags.txt")
    model.replace("hparams.json")
    model.is_refused("hparams.json", "output_dir")
