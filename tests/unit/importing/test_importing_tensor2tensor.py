"""Imports of Tensor2Tensor runs written by the test: the same network, all weights used, and errors.

Legend: T target length, V vocabulary.
"""

import json

import numpy as np
import pytest
from keras import ops

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.importing.formats import ImportRequest
from t2t.importing.run import import_run
from t2t.runs.loading import load
from t2t.text.subword import SubwordEncoder
from tests.reference import tensor2tensor as theirs

CORPUS = ["a small dog runs", "the old dog sleeps", "a cat sees the dog", "the cats run"]
ERAS = [
    pytest.param(theirs.OLD, {"norm": "post"}, id="v1.0.3"),
    pytest.param(theirs.OLD, {"norm": "post", "tied": False}, id="v1.0.3-unshared"),
    pytest.param(theirs.NEW, {"norm": "pre"}, id="v1.15-pre"),
    pytest.param(theirs.NEW, {"norm": "post"}, id="v1.15-post"),
    pytest.param(theirs.NEW, {"norm": "pre", "tied": False}, id="v1.15-unshared"),
    pytest.param(theirs.NEW, {"norm": "pre", **theirs.RELATIVE}, id="v1.15-relative"),
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.ours.100.subwords"
    encoder = SubwordEncoder.build(CORPUS, 100)
    path.write_bytes(encoder.to_bytes())
    return path, encoder


@pytest.fixture
def write(tmp_path, vocabulary):
    """Writes a Tensor2Tensor run, which `edit` may change before; returns (request, values, variables)."""

    def make(era=theirs.NEW, edit=None, problem="translate_ende_numbers", **shape):
        values = theirs.hparams(era, **({"norm": "pre"} | shape))
        variables = theirs.random_variables(era, values, vocabulary[1].vocab_size)
        if edit:
            edit(values, variables)
        theirs.write_run(tmp_path / "theirs", values, variables, {"problem": problem, "model": "transformer"})
        request = ImportRequest(model_dir=tmp_path / "theirs", vocab_file=vocabulary[0], output_dir=tmp_path / "ours")
        return request, values, variables

    return make


@pytest.mark.parametrize(("era", "shape"), ERAS)
def test_the_network_is_the_same(write, vocabulary, era, shape):
    request, values, variables = write(era, **shape)
    import_run(request)
    reference = theirs.Network(era, values, variables, target_space_id=8)
    encoder = vocabulary[1]
    source, target = [*encoder.encode("the small cat runs"), 1], [*encoder.encode("a dog"), 1]
    padded = {"inputs": [[*source, 0, 0]], "targets": [[*target, 0]]}
    model = load(request.output_dir).model
    found = ops.convert_to_numpy(model({name: np.array(ids, np.int32) for name, ids in padded.items()}))[0]
    expected = reference.logits(padded["inputs"][0], padded["targets"][0])
    np.testing.assert_allclose(found[: len(target)], expected[: len(target)], rtol=2e-4, atol=2e-4)


def test_it_decodes_with_its_own_vocabulary(write, vocabulary):
    request, _, _ = write()
    import_run(request)
    loaded = load(request.output_dir)
    assert loaded.translator().encode(["the old dog"]) == [vocabulary[1].encode("the old dog")]
    ((best,),) = loaded.translator().translate(["the old dog"], extra_length=3)
    assert best.text == vocabulary[1].decode(best.ids)


def test_the_checkpoint_knows_the_vocabulary_that_it_came_with(write, vocabulary):
    request, _, _ = write()
    import_run(request)
    encoder = vocabulary[1]
    entry = ["subword", encoder.vocab_size, encoder.fingerprint]
    state = CheckpointStore(request.output_dir / "checkpoints").load().state
    assert state["vocabularies"] == {"inputs": entry, "targets": entry}


@pytest.mark.parametrize("era", [theirs.OLD, theirs.NEW])
def test_the_moments_of_adam_come_along(write, era):
    request, _, variables = write(era)
    report = import_run(request)
    checkpoint = CheckpointStore(request.output_dir / "checkpoints").load()
    assert checkpoint.step == 1234
    assert int(checkpoint.optimizer["adam/iteration"]) == 1234
    slots = {name: array for name, array in checkpoint.optimizer.items() if "velocity" in name or "momentum" in name}
    assert len(slots) == 2 * len(report.run.weights)
    size = sum(array.size for name, array in variables.items() if name.endswith("Adam"))
    rows_left = (theirs.TARGET_SPACES - 1) * 8
    assert sum(a.size for name, a in slots.items() if "momentum" in name) == size - rows_left
    kernel = (
        "transformer/body/decoder/layer_1/ffn/conv1/kernel"
        if era == theirs.NEW
        else ("body/decoder/layer_1/conv_hidden_relu/conv1_single/kernel")
    )
    first, second = ("training/" + kernel if era == theirs.NEW else kernel) + "/Adam", None
    second = first + "_1"
    ours = "adam/transformer_decoder_layer_1_ffn_inner_kernel"
    np.testing.assert_array_equal(slots[f"{ours}_momentum"], variables[first].reshape(8, 12))
    np.testing.assert_array_equal(slots[f"{ours}_velocity"], variables[second].reshape(8, 12))


def test_without_moments_the_weights_alone_come(write):
    def drop(values, variables):
        for name in [name for name in variables if "Adam" in name]:
            del variables[name]

    request, _, _ = write(edit=drop)
    assert "without Adam's moments: training starts with empty ones" in import_run(request).lines()[0]
    assert CheckpointStore(request.output_dir / "checkpoints").load().optimizer is None


def test_hparams_keep_their_meaning(write):
    def edit(values, variables):
        values |= {"learning_rate": 0.2, "learning_rate_warmup_steps": 8000, "relu_dropout": 0.1, "weight_decay": 0.1}

    request, _, _ = write(edit=edit)
    report = import_run(request)
    hparams = load(request.output_dir).hparams
    assert (hparams.learning_rate_schedule, hparams.learning_rate, hparams.learning_rate_warmup_steps) == (
        "noam", 2.0, 8000,
    )  # fmt: skip
    assert (hparams.norm_position, hparams.relu_dropout, hparams.layer_prepostprocess_dropout) == ("pre", 0.1, 0.1)
    assert report.run.warnings == ("weight_decay=0.1: training continues without",)


@pytest.mark.parametrize(
    ("problem", "number"),
    [("translate_ende_numbers", 8), ("translate_enfr_multi30k", 6), ("translate_ende_multi30k_rev", 3)],
)
def test_the_target_space_is_the_problems(write, problem, number):
    request, _, variables = write(problem=problem)
    assert import_run(request).run.notes == (f"target space {number}",)
    found = CheckpointStore(request.output_dir / "checkpoints").load().model["transformer/target_space"]
    np.testing.assert_array_equal(found, variables["transformer/body/target_space_embedding/kernel"][number])


def test_missing_superfluous_and_misshapen_variables_are_named(write):
    root = "transformer/body/encoder/layer_0"

    def edit(values, variables):
        for name in [name for name in variables if "Adam" in name]:
            del variables[name]
        for kind in ("kernel", "bias"):
            del variables[f"{root}/ffn/conv2/{kind}"]
        variables["transformer/body/encoder/layer_7/ffn/conv1/bias"] = np.zeros(12, np.float32)
        variables[f"{root}/ffn/conv1/bias"] = np.zeros(5, np.float32)

    request, _, _ = write(edit=edit)
    with pytest.raises(UserError) as error:
        import_run(request)
    for text in (
        "2 missing from the checkpoint: encoder/layer_0/ffn/outer/kernel, encoder/layer_0/ffn/outer/bias",
        "1 in the checkpoint only: encoder/layer_7/ffn/inner/bias",
        "1 of another shape: encoder/layer_0/ffn/inner/bias ((5,) there, (12,) here)",
    ):  # fmt: skip
        assert text in str(error.value)
    assert not request.output_dir.exists()


def test_variables_of_another_network_are_named(write):
    def edit(values, variables):
        for which in "kv":
            variables[f"transformer/body/decoder/layer_0/self_attention/relative_{which}"] = np.zeros(3, np.float32)

    request, _, _ = write(edit=edit)
    with pytest.raises(UserError, match=r"2 variables .* has no place for: .*relative_k, .*relative_v; only plain"):
        import_run(request)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"self_attention_type": "local_mask_right"},
            r"self_attention_type='local_mask_right' \(known: 'dot_product', ",
        ),
        ({"self_attention_type": "dot_product_relative"}, r"'dot_product_relative' with pos='timing'; the Transformer"),
        ({**theirs.RELATIVE, "max_relative_position": 0}, r"hparam max_relative_position=0: it is at least 1"),
        ({"ffn_layer": "conv_relu_conv"}, r"ffn_layer='conv_relu_conv'"),
        ({"pos": "emb"}, r"pos='emb' \(known: 'timing', 'none', None\)"),
        ({"layer_postprocess_sequence": "dazn"}, r"layer_preprocess_sequence='n' with layer_postprocess_sequence="),
    ],
)
def test_another_network_is_refused(write, change, said):
    request, _, _ = write(edit=lambda values, variables: values.update(change))
    with pytest.raises(UserError, match=said):
        import_run(request)
    assert not request.output_dir.exists()


def test_a_table_without_one_of_its_blocks(write):
    def edit(values, variables):
        for name in [name for name in variables if "/shared/weights_1" in name]:
            del variables[name]

    request, _, _ = write(edit=edit)
    with pytest.raises(UserError, match=r"target_embedding/table lacks blocks weights_1; copy all of its files"):
        import_run(request)


def test_a_vocabulary_of_another_size(write, tmp_path):
    request, _, _ = write()
    other = tmp_path / "vocab.other.60.subwords"
    other.write_bytes(SubwordEncoder.build(["nothing in common"], 60).to_bytes())
    with pytest.raises(UserError, match=r"target_embedding/table \(.* there, .* here\); give the files of one run"):
        import_run(ImportRequest(model_dir=request.model_dir, vocab_file=other, output_dir=request.output_dir))


def test_files_that_are_not_there_or_damaged(write, tmp_path):
    request, values, _ = write()
    with pytest.raises(UserError, match=r"--step=7: .* has checkpoints of steps 1234; ask for one"):
        import_run(ImportRequest(**{**vars(request), "step": 7}))
    data = next(request.model_dir.glob("*.data-*"))
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(UserError, match=r"model.ckpt-1234: a file of it is missing or damaged"):
        import_run(request)
    (request.model_dir / "hparams.json").write_text("{")
    with pytest.raises(UserError, match=r"hparams.json is no JSON"):
        import_run(request)
    (request.model_dir / "hparams.json").write_text(json.dumps({**values, "num_heads": 2, "hidden_size": 8}))
    next(request.model_dir.glob("*.index")).unlink()
    with pytest.raises(UserError, match=r"no checkpoint model.ckpt-<step>.index there"):
        import_run(request)
    (request.model_dir / "hparams.json").unlink()
    with pytest.raises(UserError, match=r"no hparams.json there; name the output_dir of a Tensor2Tensor run"):
        import_run(request)


def test_a_run_that_is_there_is_not_overwritten(write):
    request, _, _ = write()
    import_run(request)
    before = RunDir.open(request.output_dir).record
    with pytest.raises(UserError, match=r"a run has begun there"):
        import_run(request)
    assert RunDir.open(request.output_dir).record == before
