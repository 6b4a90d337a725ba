"""How a run's precision and the use of XLA are chosen, and what a resumed run keeps."""

import types

import pytest

from t2t.backends.cluster import Cluster
from t2t.backends.tensorflow.backend import multiplies_bfloat16
from t2t.backends.workers import Workers
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.data.reading.fixed_shapes import FixedShapes
from t2t.files import processor
from t2t.hparams.transformer import transformer_tiny
from t2t.models.lstm import LstmSeq2seqAttention
from t2t.models.transformer import Transformer
from t2t.runs.config import RunConfig
from t2t.runs.decisions import MULTIPLE, SHAPES, compilation_line, decide, recorded_hparams
from t2t.runs.experiment import Experiment
from t2t.specs import TRAIN
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.errors import refused

TOKENS = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=9)
LABEL = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=9)


def data_of(targets=TOKENS):
    """The parts of a problem's data that are inspected."""
    features = {"inputs": TOKENS, "targets": targets}
    reader = types.SimpleNamespace(
        problem="made_up", features=features, is_sequence=lambda name: features[name].kind == FeatureKind.TOKENS
    )
    stored = types.SimpleNamespace(preprocessors=lambda: ())
    return [types.SimpleNamespace(problem=types.SimpleNamespace(columns=None, stored=stored), readers={TRAIN: reader})]


def decided(overrides="", model=Transformer, targets=TOKENS, gpus=False, bfloat16=False, begun=None):
    return decide(
        transformer_tiny().override(overrides), model, data_of(targets), compiles=gpus, bfloat16=bfloat16,
        recorded=begun and begun.hparams, overrides=overrides,
    )  # fmt: skip


def compilation(*args, **kwargs):
    hparams = decided(*args, **kwargs)
    return hparams.xla, hparams.fixed_shapes, hparams.fixed_shapes_multiple


def record_of(overrides, shapes):
    """The record of a run that was started with these overrides and this choice of compilation."""
    names = ("xla", "fixed_shapes", "fixed_shapes_multiple")
    hparams = transformer_tiny().override(overrides).replace(**dict(zip(names, shapes, strict=True)))
    return RunRecord(
        problem="translate_ende_numbers", model="transformer", hparams_set="transformer_tiny", overrides=overrides,
        hparams=hparams.to_dict(), spec=ProblemSpec(name="translate_ende_numbers"),
    )  # fmt: skip


EARLIER = record_of("", ("on", 16, 8))
"""The record of a run of before there was a choice."""
del EARLIER.hparams["train"]["xla"], EARLIER.hparams["batch"]["fixed_shapes"]
del EARLIER.hparams["batch"]["fixed_shapes_multiple"]


@pytest.mark.parametrize(("overrides", "gpus", "begun", "expected"), [
    ("", False, None, ("off", 0, 0)),
    ("", True, None, ("on", SHAPES, MULTIPLE)),
    ("xla=on", False, None, ("on", SHAPES, MULTIPLE)),
    ("xla=off", True, None, ("off", 0, 0)),
    ("fixed_shapes=5", True, None, ("on", 5, MULTIPLE)),
    ("fixed_shapes=5,fixed_shapes_multiple=1", True, None, ("on", 5, 1)),
    ("fixed_shapes=5", False, None, ("off", 5, 0)),
    # The same command goes on as the run began on any machine; if it is asked for, only the compiler changes.
    *(("", gpus, record_of("", begun), begun) for gpus in (False, True)
      for begun in (("on", 16, 8), ("on", 5, 1), ("off", 0, 0), ("off", 16, 8))),
    *((f"xla={asked}", False, record_of("", begun), (asked, *begun[1:])) for asked in ("on", "off")
      for begun in (("on", 16, 8), ("off", 0, 0))),
    # Runs of before there was a choice, and imported ones, go on without.
    ("", True, EARLIER, ("off", 0, 0)),
    ("", True, record_of("", ("auto", 0, 0)), ("off", 0, 0)),
])  # fmt: skip
def test_compilation_is_as_it_is_asked_for_or_as_the_run_began_or_for_gpus(overrides, gpus, begun, expected):
    assert compilation(overrides, gpus=gpus, begun=begun) == expected


@pytest.mark.parametrize(("changes", "about"), [
    ({"targets": LABEL}, ["made_up", "(targets)"]),
    ({"model": LstmSeq2seqAttention}, ["LstmSeq2seqAttention"]),
    ({"overrides": "objective=minimum_risk"}, ["objective=minimum_risk"]),
    ({"overrides": "objective=minimum_risk", "begun": record_of("objective=minimum_risk", ("off", 0, 0))},
     ["objective=minimum_risk"]),
])  # fmt: skip
def test_what_cannot_be_compiled_is_not_chosen_by_itself_and_refused_where_it_is_asked_for(changes, about):
    assert compilation(gpus=True, **changes) == ("off", 0, 0)
    with refused("xla=on", *about):
        decided(**{**changes, "overrides": ",".join(filter(None, (changes.get("overrides"), "xla=on")))})


@pytest.mark.parametrize(("asked", "bfloat16", "begun", "expected"), [
    ("auto", False, None, "float32"), ("auto", True, None, "mixed_bfloat16"),
    ("tensorfloat32", True, None, "tensorfloat32"), ("auto", True, "float32", "float32"),
    ("auto", False, "mixed_bfloat16", "mixed_bfloat16"), ("auto", True, "auto", "float32"),
    ("float32", True, "mixed_bfloat16", "float32"),
])  # fmt: skip
def test_precision_is_left_to_the_machine_once(asked, bfloat16, begun, expected):
    """For a resumed run, `begun` is the precision in its record; imported runs have `auto`, which means float32."""
    record = record_of(f"precision={begun}", ("off", 0, 0)) if begun else None
    assert decided(f"precision={asked}", bfloat16=bfloat16, begun=record).precision == expected


def test_gpus_multiply_bfloat16_from_compute_capability_8_on_and_processors_with_their_instructions(monkeypatch):
    for cards, expected in (([(8, 0)], True), ([(9, 0), (7, 5)], False), ([None], False)):
        assert multiplies_bfloat16([{"compute_capability": card} if card else {} for card in cards]) == expected
    for sets, expected in (({"avx512f", "avx512_bf16"}, True), ({"amx_bf16"}, True), ({"avx512f"}, False)):
        assert processor.multiplies_bfloat16(sets) == expected
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    assert multiplies_bfloat16([]) == processor.multiplies_bfloat16()
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert not multiplies_bfloat16([])


@pytest.fixture
def run(tmp_path):
    """A run that was started on GPUs and has a checkpoint."""
    run = RunDir.create(tmp_path / "run", record_of("num_heads=2", ("on", 16, 8)), {})
    assert recorded_hparams(run, Workers()) is None
    CheckpointStore(run.checkpoints_folder).save(3, model={}, state={"seed": 7, "data": {}})
    return RunDir.open(run.path)


def check(run, overrides):
    """Checks the run as it is resumed with these changes of its set."""
    names = {"problem": "translate_ende_numbers", "model": "transformer", "hparams_set": "transformer_tiny"}
    config = RunConfig.given({**names, "output_dir": str(run.path), "hparams": overrides})
    Experiment.resolve(config).check(needs_data=False, generates=False)


class Worker(Workers):
    """One of two workers; `sent` is what the chief passes, or has passed."""

    sent = b""

    def __init__(self, index):
        super().__init__(Cluster(("localhost:1", "localhost:2"), index))

    def exchange(self, own):
        Worker.sent = own if self.is_chief else self.sent
        return [self.sent, own]


@pytest.mark.parametrize("is_begun", [True, False])
def test_a_worker_that_does_not_see_the_run_goes_on_as_the_chief_does(run, is_begun):
    """The run began on GPUs; the chief and the worker would decide otherwise by themselves."""
    seen = (run if is_begun else None, None)
    of_chief, of_worker = (recorded_hparams(one, Worker(index)) for index, one in enumerate(seen))
    assert of_chief == of_worker == (RunDir.open(run.path).record.hparams if is_begun else None)
    assert recorded_hparams(seen[0], Workers()) == of_chief


def test_what_was_decided_is_no_other_run_and_other_shapes_are(run):
    for overrides in ("", "xla=auto", "xla=on", "xla=off", "fixed_shapes=16", "xla=off,fixed_shapes_multiple=8"):
        check(run, ",".join(filter(None, ("num_heads=2", overrides))))
    for overrides, about in [
        ("fixed_shapes=0", ["fixed_shapes", 0, 16]),
        ("xla=on,fixed_shapes=4", ["fixed_shapes", 4, 16]),
        ("fixed_shapes_multiple=1", ["fixed_shapes_multiple", 1, 8]),
    ]:
        with refused("--output_dir", *about):
            check(run, f"num_heads=2,{overrides}")


def test_the_programs_are_counted_before_compiling():
    one, two = (FixedShapes(("inputs", "targets"), ((8, widths),), 32) for widths in ((8,), (8, 16)))
    assert not any(digit in compilation_line([one], 1).partition(";")[0] for digit in "0123456789")
    assert all(word in compilation_line([one, two], 2) for word in ("3 programs", "2 replicas"))
