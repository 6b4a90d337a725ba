"""In which networks the weights of a checkpoint compute what they computed where they were trained."""

import dataclasses

import pytest

from t2t.checkpoints.checkpoint import ARCHITECTURE
from t2t.checkpoints.compatibility import architecture_state, check_same_meaning
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.hparams.universal_transformer import UniversalTransformerHParams
from t2t.registry import HPARAMS
from t2t.runs.names import get_hparams
from t2t.specs.features import ProblemSpec
from tests.builders import tiny_hparams
from tests.errors import refused

ASKED = "--warm_start_from=run"


@pytest.fixture
def save(tmp_path_factory):
    """Returns a function that writes a run and returns its checkpoint; `state` replaces what it says of its network."""

    def write(hparams, state=None):
        record = RunRecord(
            problem="p", model="m", hparams_set="s", hparams=hparams.to_dict(), spec=ProblemSpec(name="p")
        )
        store = CheckpointStore(RunDir.create(tmp_path_factory.mktemp("runs") / "run", record, {}).checkpoints_folder)
        store.save(5, model={}, state=architecture_state("m", hparams) if state is None else state)
        return store.load(parts=())

    return write


@pytest.mark.parametrize(
    "changed",
    [
        {"norm_position": "pre"}, {"num_heads": 4, "activation": "gelu"}, {"norm_type": "rms"}, {"norm_epsilon": 1e-5},
        {"positions": "rotary"}, {"gated_feed_forward": True}, {"sinusoid_layout": "split"}, {"target_start": "pad"},
        {"input_end": False}, {"num_decoder_heads": 1}, {"self_attention_window": 4}, {"input_modality": "other"},
    ],
    ids=str,
)  # fmt: skip
def test_hparams_that_give_weights_another_meaning_are_refused_in_both_directions(save, changed):
    plain, other = tiny_hparams(), tiny_hparams(**changed)
    for there, here in ((plain, other), (other, plain)):
        named = [f"{name}={getattr(one, name)}" for one in (there, here) for name in changed]
        with refused(f"{ASKED}:", "step-00000005", *named, "--hparams"):
            check_same_meaning(save(there), here, (), ASKED)
        assert check_same_meaning(save(there), there, (), ASKED)


@pytest.mark.parametrize(
    "changed",
    [
        {"decoder_layer": "ssru", "num_decoder_layers": 1}, {"hidden_size": 16, "filter_size": 20},
        {"num_encoder_layers": 3}, {"num_kv_heads": 1}, {"decoder_filter_size": 7},
        {"layer_prepostprocess_dropout": 0.4, "label_smoothing": 0.3},
        {"max_length": 40}, {"batch_size": 3, "optimizer": "sgd", "beam_size": 2},
    ],
    ids=str,
)  # fmt: skip
def test_parts_whose_weights_are_not_taken_and_training_may_differ(save, changed):
    for there, here in ((tiny_hparams(), tiny_hparams(**changed)), (tiny_hparams(**changed), tiny_hparams())):
        check_same_meaning(save(there), here, (), ASKED)


@pytest.mark.parametrize(
    ("name", "fewer"),
    [
        ("attention_bias", False), ("feed_forward_bias", False), ("output_bias", False), ("shared_embedding", True),
        ("shared_embedding_and_softmax_weights", True),
    ],
)  # fmt: skip
def test_weights_may_be_added_and_not_left_out_unless_nothing_reads_them(save, name, fewer):
    without, with_more = tiny_hparams(**{name: fewer}), tiny_hparams(**{name: not fewer})
    check_same_meaning(save(without), with_more, (), ASKED)
    with refused(f"{name}={not fewer}", f"{name}={fewer}"):
        check_same_meaning(save(with_more), without, (), ASKED)
    check_same_meaning(save(with_more), without, [name], ASKED)


def test_the_steps_of_a_universal_transformer_are_no_layers(save):
    with refused("num_hidden_layers=3", "num_hidden_layers=4"):
        check_same_meaning(
            save(UniversalTransformerHParams(num_hidden_layers=3)),
            UniversalTransformerHParams(num_hidden_layers=4),
            (),
            ASKED,
        )


def test_what_a_checkpoint_does_not_name_had_its_default(save):
    named = architecture_state("m", tiny_hparams())
    del named[ARCHITECTURE]["input_end"]
    check_same_meaning(save(tiny_hparams(), named), tiny_hparams(), (), ASKED)
    with refused("input_end=True", "input_end=False"):
        check_same_meaning(save(tiny_hparams(), named), tiny_hparams(input_end=False), (), ASKED)


def test_of_a_checkpoint_that_names_nothing_the_run_does(save):
    checkpoint = save(tiny_hparams(), {})
    with refused("num_heads=2", "num_heads=4"):
        check_same_meaning(checkpoint, tiny_hparams(num_heads=4), (), ASKED)
    (checkpoint.folder.parent.parent / "run.json").unlink()
    assert not check_same_meaning(checkpoint, tiny_hparams(num_heads=4), (), ASKED)


def test_only_fields_of_the_network_say_that_they_only_shape_it():
    """A tuple has values of the field: the one from which others only add weights."""
    for name in {type(get_hparams(entry.name)): entry.name for entry in HPARAMS.entries()}.values():
        hparams = get_hparams(name)
        network = hparams.to_dict()["model"]
        for field in dataclasses.fields(hparams):
            free = field.metadata["only_shapes"]
            assert not free or field.name in network, field.name
            assert not isinstance(free, tuple) or {type(value) for value in free} == {type(field.default)}, field.name
