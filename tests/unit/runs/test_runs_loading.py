"""From a run directory back to a translator, without any training."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import t2t
from t2t.checkpoints.adapters import AdapterBase
from t2t.checkpoints.averaging import average_checkpoints
from t2t.checkpoints.compatibility import architecture_state, vocabularies_state
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.hparams.transformer import transformer_tiny
from t2t.hparams.transformer_moe import transformer_moe_tiny
from t2t.inference.engine import EngineChoice
from t2t.models.transformer import Transformer
from t2t.problems.text_problems import Text2Text
from t2t.registry import MODELS, PROBLEMS
from t2t.runs.loading import load, load_adapters
from t2t.runs.names import get_problem
from t2t.runs.run_checks import check_loadable, check_one_problem
from t2t.text.vocabulary_files import describe_encoders
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.registrations import registered
from tests.sealed_files import edited

HPARAMS = transformer_tiny().replace(
    hidden_size=8, filter_size=8, num_heads=2, num_hidden_layers=1, extra_length=3, beam_size=2, max_length=16
)
STORED = {"inputs": TokenEncoder(["one", "two", "three"]), "targets": TokenEncoder(["eins", "zwei"])}
OTHERS = STORED | {"targets": TokenEncoder(["zwei", "eins"])}


class Counting(Text2Text):
    """English to German, with separate vocabularies."""

    shared_vocabulary = False

    def generate_samples(self, split, source):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _registered():
    with registered(PROBLEMS, "counting", Counting), registered(PROBLEMS, "counting_again", Counting):
        yield


BUILT = {}
"""Models by problem and hparams, which tests use in turn."""


@pytest.fixture
def make_run(tmp_path):
    """Writes the run of a problem, with random weights, as training would; returns its folder and its model."""

    def make(name, steps=(5,), tells=True, hparams_set="transformer_tiny", hparams=HPARAMS, model="transformer"):
        problem = get_problem(name).with_encoders(OTHERS if name == "counting_again" else STORED)
        record = RunRecord(
            problem=name, model=model, hparams_set=hparams_set, hparams=hparams.to_dict(),
            spec=problem.spec(), vocabularies=describe_encoders(problem.encoders),
        )  # fmt: skip
        run = RunDir.create(tmp_path / name, record, problem.encoders)
        key = name, str(hparams.to_dict())
        model = BUILT[key] = BUILT.get(key) or Transformer(hparams, problem.spec())
        for step in steps:
            for variable in model.variables:
                rng = np.random.default_rng([step, len(variable.path)])
                variable.assign(rng.normal(size=variable.shape))
            state = vocabularies_state(record.vocabularies) | architecture_state(record.model, hparams)
            weights = {v.path: np.asarray(v) for v in model.variables}
            CheckpointStore(run.checkpoints_folder).save(step, model=weights, state=state if tells else {})
        return run.path, model

    return make


@pytest.mark.parametrize(("name", "sources", "targets"), [
    ("counting", "inputs", "targets"), ("counting_rev", "targets", "inputs"), ("counting_copy", "inputs", "inputs"),
])  # fmt: skip
def test_a_run_and_its_variants_come_back_with_their_own_vocabularies(make_run, name, sources, targets):
    path, model = make_run(name)
    translator = t2t.load(path)
    text = "one three" if sources == "inputs" else "zwei eins"
    assert translator.encode([text]) == [STORED[sources].encode(text)]
    assert translator.problem.encoders["targets"].fingerprint == STORED[targets].fingerprint
    if name == "counting_rev":
        ((best,),) = translator.translate([text])
        assert best.text == STORED[targets].decode(best.ids)
    for ours, theirs in zip(translator.model.variables, model.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_a_set_may_have_more_than_its_model_asks_for(make_run):
    """The Transformer needs TransformerHParams; a set with experts has more fields, which the model uses."""
    changes = {**HPARAMS.difference(transformer_tiny()), "num_experts": (0, 3), "expert_layer_step": (0, 1)}
    with_experts = transformer_moe_tiny().replace(**{name: new for name, (_, new) in changes.items()})
    path, model = make_run("counting", hparams_set="transformer_moe_tiny", hparams=with_experts)
    loaded = load(path)
    assert loaded.hparams == with_experts
    assert {v.path: v.shape for v in loaded.model.variables} == {v.path: v.shape for v in model.variables}
    assert any("gate_kernel" in v.path for v in loaded.model.variables)


def test_several_runs_are_one_ensemble(make_run, tmp_path):
    """Two equal runs score like one; runs with other vocabularies, and other engines, are refused."""
    path, _ = make_run("counting")
    shutil.copytree(path, tmp_path / "b")
    alone, together = (t2t.load(folders) for folders in (path, [path, str(tmp_path / "b")]))

    assert together.score([("one", "eins")]) == pytest.approx(alone.score([("one", "eins")]), abs=1e-5)
    assert len(together.model.variables) == 2 * len(alone.model.variables)
    other, _ = make_run("counting_again")
    both = [path, tmp_path / "b"]
    with refused("counting", "counting_again", "targets"):
        t2t.load([path, other])
    with refused(path, "counting", other, "counting_again"):
        check_one_problem([RunDir.open(path), RunDir.open(other)], "counting")
    with refused("engine=ctranslate2", "output_dir=", 2):
        t2t.load(both, engine="ctranslate2")
    with refused("ensemble_average=means", "probabilities"):
        t2t.load(both, ensemble_average="means")
    with refused("output_dir"):
        t2t.load([])


def test_a_run_is_loaded_in_float32_whatever_it_was_trained_in(make_run):
    path, _ = make_run("counting")
    allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    for precision in ("float32", "tensorfloat32", "mixed_bfloat16", "mixed_float16"):
        with edited(path / "run.json") as record:
            record["hparams"]["train"]["precision"] = precision
        try:
            tf.config.experimental.enable_tensor_float_32_execution(True)
            loaded = load(path)
            assert not tf.config.experimental.tensor_float_32_execution_enabled()
        finally:
            tf.config.experimental.enable_tensor_float_32_execution(allowed)
        assert (loaded.hparams.precision, loaded.model.compute_dtype) == (precision, "float32")


def test_the_runs_own_hparams_decode_unless_others_are_asked_for(make_run, caplog):
    path, _ = make_run("counting")
    own, changed = load(path), load(path, decode_overrides="beam_size=3,alpha=1.0")
    assert (own.hparams.beam_size, set(own.requested)) == (2, set())
    assert (changed.hparams.beam_size, changed.hparams.alpha, changed.hparams.hidden_size) == (3, 1.0, 8)
    assert set(changed.requested) == {"beam_size", "alpha"}
    for overrides in ("coverage_penalty=0.2", "beam_size=1"):
        load(path, decode_overrides=overrides)
    assert caplog.messages == []
    load(path, decode_overrides="beam_size=1,coverage_penalty=0.2,alpha=1")  # penalties that compare nothing
    (noted,) = caplog.messages
    assert all(word in noted for word in ("alpha=1.0", "coverage_penalty=0.2", "beam_size=1", "--decode_beam_size"))
    with edited(path / "run.json") as record:
        record["hparams"]["train"] |= {"precision": "mixed_bfloat16", "xla": "off"}
    overrides = "hidden_size=8,precision=auto,xla=auto,beam_size=3"  # those that began the run also load it
    check_loadable(RunDir.open(path), [], decode_overrides=overrides)
    loaded = load(path, decode_overrides=overrides).hparams
    assert (loaded.precision, loaded.xla, loaded.beam_size) == ("mixed_bfloat16", "off", 3)


def test_weights_of_another_model_no_run_and_no_checkpoint_are_refused_by_name(make_run, tmp_path):
    path, model = make_run("counting")
    arrays = {v.path: np.asarray(v) for v in model.variables}
    name = next(iter(arrays))
    CheckpointStore(path / "checkpoints").save(6, model={**arrays, name: np.zeros((2, 2), np.float32)})
    with refused(path / "checkpoints/step-00000006", name):
        load(path)
    with refused(tmp_path / "empty", "--output_dir="):
        load(tmp_path / "empty")
    path, _ = make_run("counting_again", steps=())
    with refused("'latest'", path / "checkpoints"):
        load(path)


def test_a_record_of_another_run_whose_weights_have_the_same_shapes_is_refused(make_run):
    path, _ = make_run("counting", steps=(5, 6))
    average_checkpoints(CheckpointStore(path / "checkpoints"), [5, 6])
    with edited(path / "run.json") as record:
        record["hparams"]["model"] |= {"num_heads": 4, "attention_dropout": 0.5}
    for name in ("latest", "averaged"):
        folder = path / "checkpoints" / ("averaged" if name == "averaged" else "step-00000006")
        with refused(folder, path / "run.json", "num_heads=2", "num_heads=4") as error:
            load(path, name)
        assert "dropout" not in str(error.value)
    with edited(path / "run.json") as record:
        record["hparams"]["model"] |= {"num_heads": 2, "attention_dropout": 0.5, "label_smoothing": 0.2}
    assert load(path).checkpoint.step == 6, "dropout is no part of what a model answers"


def test_a_kept_conversion_spares_building_the_model_and_no_check(make_run):
    built = []

    class Counted(Transformer):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            built.append(self)

    Counted.__name__ = "Transformer"  # paths of weights begin with it
    with registered(MODELS, "counted", Counted):
        path, _ = make_run("counting", tells=False, model="counted")
        expected = t2t.load(path, engine="ctranslate2").translate(["one three"])
        assert len(built) == 1
        assert t2t.load(path, engine="ctranslate2").translate(["one three"]) == expected
        assert len(built) == 1
        with refused("worker_gpu=99"):
            t2t.load(path, engine="ctranslate2", worker_gpu=99)
        with edited(path / "run.json") as record:
            record["hparams"]["model"] |= {"filter_size": 12}
        with refused("step-00000005"):
            t2t.load(path, engine="ctranslate2")


def test_a_model_is_built_once_however_many_threads_ask_for_it(make_run):
    path, _ = make_run("counting")
    t2t.load(path, engine="ctranslate2")
    loaded = load(path, engine=EngineChoice("ctranslate2"))
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: loaded.translator().model, range(4)))
    assert {id(model) for model in models} == {id(loaded.model)}


def test_a_checkpoint_of_another_run_must_have_the_same_vocabularies(make_run, tmp_path, caplog):
    path, _ = make_run("counting")
    shutil.copytree(path, tmp_path / "same")
    assert load(path, str(tmp_path / "same")).checkpoint.folder == tmp_path / "same/checkpoints/step-00000005"
    other, _ = make_run("counting_again")
    for asked in (other, other / "checkpoints/step-00000005"):
        prints = [encoders["targets"].fingerprint[:12] for encoders in (OTHERS, STORED)]
        with refused(f"--checkpoint={asked}", other, path, "targets", *prints):
            load(path, str(asked))


def test_a_checkpoint_outside_of_any_run_tells_of_its_vocabularies_itself(make_run, tmp_path, caplog):
    path, _ = make_run("counting")
    other, _ = make_run("counting_again", steps=(5, 6))
    average_checkpoints(CheckpointStore(other / "checkpoints"), [5, 6])
    shutil.copytree(path / "checkpoints/step-00000005", tmp_path / "same")
    assert load(path, str(tmp_path / "same")).checkpoint.step == 5
    assert caplog.messages == []
    for name in ("step-00000005", "averaged"):
        alone = shutil.copytree(other / "checkpoints" / name, tmp_path / f"alone-{name}")
        with refused(alone, path, "targets"):
            load(path, str(alone))
    shutil.copytree(other / "checkpoints/step-00000006", path / "checkpoints/step-00000006")
    with refused("--checkpoint=6", "targets"):
        load(path, "6")


def test_a_checkpoint_of_unknown_vocabulary_is_taken_with_a_warning(make_run, tmp_path, caplog):
    path, _ = make_run("counting", tells=False)
    shutil.copytree(path / "checkpoints/step-00000005", tmp_path / "alone")
    assert load(path, str(tmp_path / "alone")).checkpoint.step == 5
    assert f"--checkpoint={tmp_path}/alone" in caplog.text


def test_messages_name_the_folder_that_was_read(make_run, caplog):
    path, _ = make_run("counting", steps=(5, 9))
    store = CheckpointStore(path / "checkpoints")
    store.mark_best(5, "bleu", 1.0)
    average_checkpoints(store, [5, 9])
    names = {"latest": 9, "best": 5, "averaged": 9, "5": 5, str(path): 9, f"{path}/checkpoints": 9}
    folders = {name: store.folder / ("averaged" if name == "averaged" else f"step-{names[name]:08d}") for name in names}
    for name, folder in folders.items():
        with caplog.at_level("INFO", "t2t"):
            load(path, name)
        assert all(word in caplog.messages[-1] for word in (str(folder), str(names[name])))
    with edited(path / "run.json") as record:  # feed-forward layers are wider than in the checkpoints
        record["hparams"]["model"]["filter_size"] *= 2
    for name in ("best", "averaged", str(path)):
        with refused(folders[name], path / "run.json", "filter_size=8"):
            load(path, name)


def test_adapters_are_for_the_problem_that_their_base_is_loaded_for(make_run):
    path, _ = make_run("counting")
    store = CheckpointStore(path / "checkpoints")
    base = SimpleNamespace(
        checkpoint=store.load(), problem=SimpleNamespace(name="counting_again"),
        run=SimpleNamespace(path=path, record=SimpleNamespace(spec=SimpleNamespace(members=("counting", "other")))),
    )  # fmt: skip
    store.save(6, model={}, state=AdapterBase.from_checkpoint(base.checkpoint, 1.0).to_state())
    with refused(f"--adapters={path}:", "counting,", "counting_again;", "--problem"):
        load_adapters([base], str(path))
