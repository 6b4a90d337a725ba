import dataclasses

import pytest

from t2t.data.array_tasks import generate_part, merge
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.plan import read_plan
from t2t.pipelines.generation import MakeShards, NamedProblem, generate_all
from t2t.runs.names import Request, get_problem
from tests.errors import refused
from tests.unit.pipelines.conftest import RepeatedSums

OPTIONS = "--runner=DirectRunner"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def request(tmp_path):
    return Request(problem="pipeline_sums", data_dir=str(tmp_path / "beam"), tmp_dir=str(tmp_path))


def test_the_data_are_those_of_processes_and_of_array_jobs_and_counters_those_of_the_manifest(
    here, local_data, tmp_path
):
    (manifest,) = generate_all(request(tmp_path), 0, OPTIONS, here.by_beam)
    folder = tmp_path / "beam/pipeline_sums"
    assert manifest == read_manifest(folder)
    assert contents(folder) == contents(local_data)
    assert [path.name for path in folder.parent.iterdir()] == ["pipeline_sums"]
    train, dev = manifest.split("train"), manifest.split("dev")
    assert here.counters == {
        "examples read": 41 + 42 + 43 + 41,
        "examples written": train.examples + dev.examples,
        "dropped with an empty side": train.dropped["with an empty side"],
    }
    assert train.examples == 40 + 41 + 42
    problem = get_problem("pipeline_sums")
    for task in (1, 0):
        generate_part(problem, tmp_path / "array", tmp_path, 0, task, 2)
    merge(problem, tmp_path / "array", tmp_path, 0)
    assert contents(tmp_path / "array/pipeline_sums") == contents(local_data)


def test_data_that_are_there_stay(here, sums_class, tmp_path):
    generate_all(request(tmp_path), 0, OPTIONS, here)
    before = contents(tmp_path / "beam/pipeline_sums")
    generate_all(request(tmp_path), 0, OPTIONS, lambda *_: pytest.fail("generated again"))
    assert contents(tmp_path / "beam/pipeline_sums") == before
    with refused("seed:", 1, 0):
        generate_all(request(tmp_path), 1, OPTIONS, here)


def test_a_shard_that_fails_is_named_and_finished_ones_are_kept(here, local_data, sums_class, tmp_path):
    """The finished shard is from an array-job task."""
    generate_part(get_problem("pipeline_sums"), tmp_path / "beam", tmp_path, 0, 0, 4)
    (finished,) = tmp_path.glob("beam/.pipeline_sums.partial/work/*/record.json")
    before = finished.stat().st_ino
    sums_class._broken = 1
    with refused("'train',", 1, 3, 43, "'inputs'"):
        generate_all(request(tmp_path), 0, OPTIONS, here.by_beam)
    assert finished.stat().st_ino == before
    sums_class._broken = None
    generate_all(request(tmp_path), 0, OPTIONS, here)
    assert contents(tmp_path / "beam/pipeline_sums") == contents(local_data)


def test_a_worker_that_would_make_other_data_is_refused(sums_class, tmp_path):
    generate_part(get_problem("pipeline_sums"), tmp_path / "beam", tmp_path, 0, 0, 4)
    partial = tmp_path / "beam/.pipeline_sums.partial"
    named = NamedProblem(name="pipeline_sums", options={}, usr_dir="")
    task = MakeShards(named=named, plan=read_plan(partial), folder=partial, tmp_dir=tmp_path)
    assert task.open().name == "pipeline_sums"
    other = dataclasses.replace(task, named=dataclasses.replace(named, options={"vocab_size": 310}))
    with refused("pipeline_sums", "vocab_size:", 300, 310):
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


@pytest.mark.parametrize("sums_class", [RepeatedSums], indirect=True)
def test_duplicates_are_those_that_processes_find(here, sums_class, tmp_path):
    problem = get_problem("pipeline_sums", {"filter_duplicates": "pair"})
    manifest = generate(problem, tmp_path / "local", tmp_path, workers=1)
    assert manifest.split("train").examples == 60
    of_pairs = dataclasses.replace(request(tmp_path), problem_options={"filter_duplicates": "pair"})
    generate_all(of_pairs, 0, OPTIONS, here)
    assert contents(tmp_path / "beam/pipeline_sums") == contents(tmp_path / "local/pipeline_sums")
    assert here.counters["dropped duplicates"] == 20 + 40
