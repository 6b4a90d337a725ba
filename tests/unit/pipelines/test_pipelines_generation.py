import dataclasses

import pytest

from t2t.data.array_tasks import generate_part, merge
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.plan import read_plan
from t2t.errors import UserError
from t2t.pipelines.generation import MakeShards, NamedProblem, generate_all
from t2t.runs.names import Request, get_problem

OPTIONS = "--runner=DirectRunner"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def request(tmp_path):
    return Request(problem="pipeline_sums", data_dir=str(tmp_path / "beam"), tmp_dir=str(tmp_path))


def test_the_data_are_those_of_processes_and_of_array_jobs(here, local_data, tmp_path):
    (manifest,) = generate_all(request(tmp_path), 0, OPTIONS)
    folder = tmp_path / "beam/pipeline_sums"
    assert manifest == read_manifest(folder)
    assert contents(folder) == contents(local_data)
    problem = get_problem("pipeline_sums")
    for task in (1, 0):
        generate_part(problem, tmp_path / "array", tmp_path, 0, task, 2)
    merge(problem, tmp_path / "array", tmp_path, 0)
    assert contents(tmp_path / "array/pipeline_sums") == contents(local_data)
    assert [path.name for path in folder.parent.iterdir()] == ["pipeline_sums"]


def test_counters_are_those_of_the_manifest(here, sums_class, tmp_path):
    (manifest,) = generate_all(request(tmp_path), 0, OPTIONS)
    train, dev = manifest.split("train"), manifest.split("dev")
    assert here == {
        "examples read": 41 + 42 + 43 + 41,
        "examples written": train.examples + dev.examples,
        "dropped with an empty side": train.dropped["with an empty side"],
    }
    assert train.examples == 40 + 41 + 42


def test_data_that_are_there_stay(here, sums_class, tmp_path, caplog):
    generate_all(request(tmp_path), 0, OPTIONS)
    before = contents(tmp_path / "beam/pipeline_sums")
    here.clear()
    with caplog.at_level("INFO", logger="t2t"):
        generate_all(request(tmp_path), 0, OPTIONS)
    assert "is there already" in caplog.text
    assert contents(tmp_path / "beam/pipeline_sums") == before
    assert here == {}
    with pytest.raises(UserError, match="seed: asked 1, found 0"):
        generate_all(request(tmp_path), 1, OPTIONS)


def test_a_shard_that_fails_is_named_and_finished_ones_are_kept(here, local_data, sums_class, tmp_path, monkeypatch):
    """The finished shard is from an array-job task."""
    generate_part(get_problem("pipeline_sums"), tmp_path / "beam", tmp_path, 0, 0, 4)
    (finished,) = tmp_path.glob("beam/.pipeline_sums.partial/work/*/record.json")
    before = finished.stat().st_ino
    monkeypatch.setattr(sums_class, "_broken", 1)
    with pytest.raises(UserError, match=r"^split 'train', shard 1 of 3: .*sample 43.*'inputs'"):
        generate_all(request(tmp_path), 0, OPTIONS)
    assert finished.stat().st_ino == before
    monkeypatch.setattr(sums_class, "_broken", None)
    generate_all(request(tmp_path), 0, OPTIONS)
    assert contents(tmp_path / "beam/pipeline_sums") == contents(local_data)


def test_a_worker_that_would_make_other_data_is_refused(sums_class, tmp_path):
    generate_part(get_problem("pipeline_sums"), tmp_path / "beam", tmp_path, 0, 0, 4)
    partial = tmp_path / "beam/.pipeline_sums.partial"
    named = NamedProblem(name="pipeline_sums", options={}, usr_dir="")
    task = MakeShards(named=named, plan=read_plan(partial), folder=partial, tmp_dir=tmp_path)
    assert task.open().name == "pipeline_sums"
    other = dataclasses.replace(task, named=dataclasses.replace(named, options={"vocab_size": 310}))
    with pytest.raises(
        UserError,
        match=r"a worker would make other data of problem pipeline_sums than the command that started it \(.*"
        r"vocab_size: asked 300, found 310.*\); give all machines the same code and raw files",
    ):
        other.open()


def test_workers_import_the_plug_in(tmp_path):
    folder = tmp_path / "plugin_of_pipelines"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from t2t import Text2Text, register_problem\n\n\n"
        "@register_problem\nclass OfPipelines(Text2Text):\n"
        "    def generate_samples(self, split, source):\n        yield {'inputs': 'a', 'targets': 'b'}\n"
    )
    named = NamedProblem(name="of_pipelines", options={"vocab_size": 50}, usr_dir=str(folder))
    assert named.make().vocab_size == 50


def test_duplicates_are_those_that_processes_find(here, sums_class, tmp_path, monkeypatch):
    """Each shard repeats samples of the first."""

    def repeated(self, split, source):
        for shard in [source.shard] if source.shards > 1 else range(self.shards(split, source)):
            for number in range(20, 40 + 20 * shard):
                yield {"inputs": f"{number} plus 1", "targets": str(number + 1)}

    monkeypatch.setattr(sums_class, "generate_samples", repeated)
    problem = get_problem("pipeline_sums", {"filter_duplicates": "pair"})
    manifest = generate(problem, tmp_path / "local", tmp_path, workers=1)
    assert manifest.split("train").examples == 60
    generate_all(dataclasses.replace(request(tmp_path), problem_options={"filter_duplicates": "pair"}), 0, OPTIONS)
    assert contents(tmp_path / "beam/pipeline_sums") == contents(tmp_path / "local/pipeline_sums")
    assert here["dropped duplicates"] == 20 + 40
