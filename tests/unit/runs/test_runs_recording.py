"""A resumed run may use raw files at other paths, but not with other contents."""

import dataclasses

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.data.generate import generate
from t2t.hparams.transformer import transformer_tiny
from t2t.models.transformer import Transformer
from t2t.runs.data import open_data
from t2t.runs.names import Request, Resolved, get_problem
from t2t.runs.recording import changeable_fields, record_of
from t2t.runs.settings import Settings
from tests.errors import refused

HPARAMS = transformer_tiny().freeze()


@pytest.fixture
def made(tmp_path):
    """Returns a function that makes data from a text file, and returns it, opened, with the record of a run on it."""

    def make(folder, text="a b\nc d\n"):
        folder = tmp_path / folder
        folder.mkdir()
        (folder / "text").write_text(text)
        names = ("train_source", "train_target", "dev_source", "dev_target")
        options = {"vocab_kind": "byte", **dict.fromkeys(names, f"{folder}/text")}
        request = Request(
            problem="text2text_files", model="transformer", hparams_set="transformer_tiny", problem_options=options,
            data_dir=f"{folder}/data",
        )  # fmt: skip
        problem = get_problem(request.problem, options)
        generate(problem, request.data_folder, tmp_path, workers=1)
        data = open_data(request, problem)
        return data, record_of(Resolved(request, Transformer, HPARAMS, HPARAMS, []), [data], {}, Settings(seed=5))

    return make


@pytest.mark.parametrize("kept", ["fingerprint", "former_fingerprint"])
def test_a_run_goes_on_where_its_files_have_moved(made, tmp_path, kept):
    data, record = made("here")
    begun = dataclasses.replace(record, data_fingerprint=getattr(data, kept))
    run = RunDir.create(tmp_path / "run", begun, data.problem.encoders)
    again, moved = made("there")
    # A run of the first versions identifies its data by path, too: it resumes with this data, not with new data.
    assert data.former_fingerprint != again.former_fingerprint
    found, asked = (again, moved) if kept == "fingerprint" else (data, record)
    run.resume(asked, changeable_fields(run.record, [found]))
    remembered = RunDir.open(run.path).record
    assert remembered.problem_options == asked.problem_options
    assert remembered.data_fingerprint == data.fingerprint
    run.resume(moved, changeable_fields(run.record, [again]))


def test_a_run_goes_on_with_no_other_data(made, tmp_path):
    data, record = made("here")
    run = RunDir.create(tmp_path / "run", record, data.problem.encoders)
    other, asked = made("there", text="a b\nc e\n")
    with refused(f"--output_dir={run.path}", other.fingerprint[:12], data.fingerprint[:12]):
        run.check_same(asked, changeable_fields(run.record, [other]))
