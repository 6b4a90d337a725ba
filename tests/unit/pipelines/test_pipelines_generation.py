"""Generation and decoding by Apache Beam: the bytes of one machine."""

import dataclasses
import types

import numpy as np
import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.data.array_tasks import generate_part, merge
from t2t.data.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.plan import read_plan
from t2t.files import file_marks
from t2t.inference.engine_choice import EngineChoice
from t2t.inference.files.job import Job, decode_file
from t2t.inference.files.merging import merge_parts
from t2t.inference.files.scoring import score_file
from t2t.inference.files.shards import Shard
from t2t.inference.files.windows import FileJob
from t2t.pipelines.decoding import MOST_SHARDS, answer_file
from t2t.pipelines.generation import MakeShards, NamedProblem, generate_all
from t2t.runs import ensembles
from t2t.runs.names import Request, get_problem
from tests.errors import refused
from tests.reverser import Reverser
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


LINES = "".join(f"line {n}\n" if n % 7 else "\n" for n in range(1, 44))
WINDOW = 8
"""Lines per window; the file has six windows."""


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Files count as settled immediately, so that indexes are stored."""
    monkeypatch.setattr(file_marks, "_SETTLED_NS", -(10**18))


@pytest.fixture
def loaded(monkeypatch):
    """Fakes the loading of runs; records the arguments and the translators."""
    calls = types.SimpleNamespace(asked=[], translators=[])

    class Loaded:
        def with_dictionary(self, dictionary):
            calls.dictionary = dictionary
            return self

        def with_languages(self, *languages):
            calls.languages = languages
            return self

        def translator(self):
            calls.translators.append(Reverser())
            return calls.translators[-1]

    def load_runs(runs, average, engine, **arguments):
        calls.asked.append((runs, average, engine, arguments))
        return Loaded()

    monkeypatch.setattr(ensembles, "load_runs", load_runs)
    return calls


@pytest.fixture
def run(tmp_path):
    """A run whose latest checkpoint is step 40."""
    found = types.SimpleNamespace(path=tmp_path / "run", checkpoints_folder=tmp_path / "run/checkpoints")
    CheckpointStore(found.checkpoints_folder).save(40, model={"a": np.ones(1, np.float32)})
    return found


@pytest.fixture
def answer(here, loaded, run, tmp_path, monkeypatch):
    """Returns a function that decodes the file `in` into the parts of `out`."""
    (tmp_path / "in").write_text(LINES)
    monkeypatch.chdir(tmp_path)

    def answer(mode="decode_from_file", runner=here, most_shards=MOST_SHARDS, checkpoint="latest", **fields):
        answer_file(
            mode,
            {"source": "in", "target": "out", "window": WINDOW, **fields},
            [(run, checkpoint)],
            "--runner=DirectRunner",
            average="probabilities",
            engine=EngineChoice(),
            loading={"usr_dir": None, "problem": "p"},
            dictionary={"a": "b"},
            languages=("en", "de"),
            most_shards=most_shards,
            runner=runner,
        )

    return answer


def test_merged_parts_are_the_file_of_one_machine(answer, here, tmp_path):
    changes = {"changes": {"seed": 3}, "n_best": 2}
    decode_file(Reverser(), Job(source="in", target="one", window=WINDOW, **changes))
    answer(runner=here.by_beam, **changes)
    assert len(list(tmp_path.glob("out.shard-*-of-00006"))) == 6
    assert here.counters["lines decoded"] == 43
    merge_parts("in", "out")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.merged.json", "in", "one", "out", "run"]


def test_scores_are_those_of_one_machine(answer, here, tmp_path):
    (tmp_path / "in").write_text("".join(f"source {n}\ttarget\n" for n in range(20)))
    score_file(Reverser(), FileJob(source="in", target="one", window=WINDOW))
    answer("score_file")
    assert here.counters["lines scored"] == 20
    merge_parts("in", "out")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()


def test_the_model_is_loaded_once_with_the_checkpoint_that_was_the_latest(answer, loaded, run, tmp_path):
    answer()
    ((runs, average, engine, arguments),) = loaded.asked
    assert runs == ((str(run.path), str(run.path / "checkpoints/step-00000040")),)
    assert (average, engine, arguments) == ("probabilities", EngineChoice(), {"usr_dir": None, "problem": "p"})
    assert loaded.dictionary == {"a": "b"}
    assert loaded.languages == ("en", "de")
    assert len(loaded.translators) == 1


def test_parts_that_are_there_are_kept_however_the_file_was_divided(answer, loaded, tmp_path):
    """Parts of array-job tasks, for example, and of an earlier pipeline."""
    decode_file(Reverser(), Job(source="in", target="out", window=WINDOW, changes={}, shard=Shard(1, 3)))
    before = (tmp_path / "out.shard-00001-of-00003").stat().st_ino
    answer(changes={})
    assert (tmp_path / "out.shard-00001-of-00003").stat().st_ino == before
    decoded = loaded.translators[0].asked
    assert decoded
    assert "line 20" not in decoded
    answer(changes={})
    assert loaded.translators[1].asked == []
    merge_parts("in", "out")
    assert len((tmp_path / "out").read_text().splitlines()) == 43


def test_parts_of_several_divisions_are_refused_before_anything_is_loaded(answer, loaded):
    for count in (2, 3):
        decode_file(Reverser(), Job(source="in", target="out", window=WINDOW, shard=Shard(0, count)))
    with refused("out:", 2, 3):
        answer()
    assert loaded.asked == []


def test_a_large_file_has_a_thousand_shards_and_an_empty_one_has_one(answer, tmp_path):
    answer(most_shards=4)
    assert len(list(tmp_path.glob("out.shard-*-of-00004"))) == 4
    assert MOST_SHARDS == 1000
    (tmp_path / "in").write_text("")
    for path in tmp_path.glob("out.*"):
        path.unlink()
    answer()
    merge_parts("in", "out")
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize(
    ("given", "named", "is_loaded"),
    [
        ({"window": 0}, ["--decode_window=0"], False),
        ({"checkpoint": "best:5"}, ["--checkpoint=best:5", "t2t-avg-all", "--checkpoint=averaged"], False),
        ({"n_best": 9}, ["n_best=9"], True),
    ],
)
def test_what_cannot_be_decoded_is_refused_before_anything_is_loaded_if_possible(
    answer, here, loaded, given, named, is_loaded
):
    with refused(*named):
        answer(runner=here.by_beam, **given)
    assert bool(loaded.asked) == is_loaded
