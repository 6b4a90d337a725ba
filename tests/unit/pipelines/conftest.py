import pytest

from t2t.data.data_folder import data_folder
from t2t.data.generate import generate
from t2t.pipelines import decoding, generation
from t2t.pipelines.options import parse_beam_options
from t2t.pipelines.pipeline import run_pipeline
from t2t.problems.text_problems import Text2Text
from t2t.registry import PROBLEMS
from tests.registrations import registered


class Sums(Text2Text):
    """Three shards of sums, whose vocabulary is learnt."""

    vocab_size = 300
    _broken: int | None = None
    """A shard of the training split that fails after its vocabulary has been learnt."""

    def shards(self, split, source):
        return 3 if split == "train" else 1

    def generate_samples(self, split, source):
        for shard in [source.shard] if source.shards > 1 else range(self.shards(split, source)):
            for _ in range(40 + shard):
                one, other = source.rng.randint(0, 999), source.rng.randint(0, 999)
                yield {"inputs": f"{one} plus {other}", "targets": str(one + other)}
            yield {"inputs": "", "targets": "nothing"}
            if type(self)._broken == shard and split == "train" and source.enough_bytes is None:
                yield {"inputs": 5, "targets": "five"}


@pytest.fixture
def sums_class():
    """The class of the registered problem `pipeline_sums`."""
    with registered(PROBLEMS, "pipeline_sums", Sums):
        yield Sums


@pytest.fixture
def here(monkeypatch):
    """Runs pipelines in this process; returns the counters of the last one."""
    counters = {}

    def run(task, options, what):
        task.failures.clear()
        counters.clear()
        counters.update(run_pipeline(task, range(task.count), parse_beam_options(options)))
        if (error := task.failures.first()) is not None:
            raise error

    for module in (generation, decoding):
        monkeypatch.setattr(module, "run_task", run)
    return counters


@pytest.fixture
def local_data(sums_class, tmp_path):
    """Folder of the data that processes of this machine make."""
    problem = PROBLEMS.get("pipeline_sums")()
    problem.name = "pipeline_sums"
    generate(problem, tmp_path / "local", tmp_path, workers=1)
    return data_folder(tmp_path / "local", problem)
