"""From a run directory back to a translator, without any training."""

import shutil

import numpy as np
import pytest

import t2t
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError
from t2t.hparams.transformer import transformer_tiny
from t2t.models.transformer import Transformer
from t2t.problems.text_problems import Text2Text
from t2t.registry import PROBLEMS
from t2t.run_dir import RunDir, RunRecord
from t2t.runs.loading import load
from t2t.runs.names import problem_named
from t2t.text.files import describe_encoders
from t2t.text.token import TokenEncoder

HPARAMS = transformer_tiny().replace(
    hidden_size=8, filter_size=8, num_heads=2, num_hidden_layers=1, extra_length=3, beam_size=2, max_length=16
)
STORED = {"inputs": TokenEncoder(["one", "two", "three"]), "targets": TokenEncoder(["eins", "zwei"])}

OTHERS = STORED | {"targets": TokenEncoder(["zwei", "eins"])}


class Counting(Text2Text):
    """English to German, a vocabulary each."""

    shared_vocabulary = False

    def generate_samples(self, split, source):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _registered():
    with PROBLEMS.temporarily("counting", Counting), PROBLEMS.temporarily("counting_again", Counting):
        yield


@pytest.fixture
def make_run(tmp_path):
    """Writes the run of a problem, with random weights, as training would; returns its folder and its model."""

    def make(name, steps=(5,)):
        problem = problem_named(name).with_encoders(OTHERS if name == "counting_again" else STORED)
        record = RunRecord(
            problem=name, model="transformer", hparams_set="transformer_tiny", hparams=HPARAMS.to_dict(),
            spec=problem.spec(), vocabularies=describe_encoders(problem.encoders),
        )  # fmt: skip
        run = RunDir.create(tmp_path / name, record, problem.encoders)
        model = Transformer(HPARAMS.model, problem.spec())
        for step in steps:
            for variable in model.variables:
                rng = np.random.default_rng([step, len(variable.path)])
                variable.assign(rng.normal(size=variable.shape))
            CheckpointStore(run.checkpoints_folder).save(step, model={v.path: np.asarray(v) for v in model.variables})
        return run.path, model

    return make


@pytest.mark.parametrize(
    ("name", "sources", "targets"),
    [("counting", "inputs", "targets"), ("counting_rev", "targets", "inputs"), ("counting_copy", "inputs", "inputs")],
)
def test_a_run_and_its_variants_come_back_with_their_own_vocabularies(make_run, name, sources, targets):
    path, model = make_run(name)
    translator = t2t.load(path)
    text = "one three" if sources == "inputs" else "zwei eins"
    assert translator.encode([text]) == [STORED[sources].encode(text)]
    ((best,),) = translator.translate([text])
    assert best.text == STORED[targets].decode(best.ids)
    for ours, theirs in zip(translator.model.variables, model.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def test_the_checkpoint_that_is_asked_for(make_run):
    path, _ = make_run("counting", steps=(5, 9))
    assert (load(path).checkpoint.step, load(path, "5").checkpoint.step) == (9, 5)
    first, last = (load(path, step).translator().fingerprint() for step in ("5", "9"))
    assert first != last
    assert last == load(path).translator().fingerprint()


def test_the_runs_own_hparams_decode_unless_others_are_asked_for(make_run):
    path, _ = make_run("counting")
    assert load(path).hparams.beam_size == 2
    changed = load(path, decode_overrides="beam_size=3,alpha=1.0").hparams
    assert (changed.beam_size, changed.alpha, changed.hidden_size) == (3, 1.0, 8)


def test_weights_of_another_model_are_refused_by_name(make_run):
    path, model = make_run("counting")
    arrays = {v.path: np.asarray(v) for v in model.variables}
    name = next(iter(arrays))
    CheckpointStore(path / "checkpoints").save(6, model={**arrays, name: np.zeros((2, 2), np.float32)})
    with pytest.raises(
        UserError, match=rf"checkpoint {path}/checkpoints/step-00000006 does not fit the model: .*{name}"
    ):
        load(path)


def test_a_checkpoint_of_another_run_must_have_the_same_vocabularies(make_run, tmp_path, caplog):
    path, _ = make_run("counting")
    shutil.copytree(path, tmp_path / "same")
    assert load(path, str(tmp_path / "same")).checkpoint.folder == tmp_path / "same/checkpoints/step-00000005"
    other, _ = make_run("counting_again")
    for asked in (other, other / "checkpoints/step-00000005"):
        with pytest.raises(UserError) as error:
            load(path, str(asked))
        assert str(error.value).startswith(
            f"--checkpoint={asked}: the run in {other} has another vocabulary: of targets token of 5 ids, fingerprint "
        )
    assert "inputs" not in str(error.value)


def test_a_checkpoint_outside_of_any_run_is_taken_with_a_warning(make_run, tmp_path, caplog):
    path, _ = make_run("counting")
    shutil.copytree(path / "checkpoints/step-00000005", tmp_path / "alone")
    assert load(path, str(tmp_path / "alone")).checkpoint.step == 5
    assert "it lies in no run directory, so that its vocabulary cannot be checked" in caplog.text


def test_no_run_and_no_checkpoint(make_run, tmp_path):
    with pytest.raises(UserError, match=r"no run in .*empty; train one with t2t-trainer --output_dir="):
        load(tmp_path / "empty")
    path, _ = make_run("counting", steps=())
    with pytest.raises(UserError, match=r"checkpoint 'latest': there is none; .* holds no checkpoints"):
        load(path)
