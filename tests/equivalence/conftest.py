"""A token problem small enough to train for a few updates in a second, and runs of it."""

import dataclasses

import pytest

from t2t.checkpoints.store import CheckpointStore
from t2t.data.generate import generate
from t2t.hparams.base import HParams
from t2t.models.transformer import Transformer
from t2t.problems.text_problems import Text2Text
from t2t.runs.data import open_data
from t2t.runs.names import Request, Resolved
from t2t.runs.settings import Settings
from t2t.runs.training import TrainingRun
from tests.builders import tiny_hparams


class Backwards(Text2Text):
    """Up to nine digits, backwards: lengths differ, so batches hold unequal numbers of tokens."""

    name = "backwards"
    vocabulary = tuple("0123456789")
    sizes = {"train": 120, "dev": 10}

    def generate_samples(self, split, source):
        for _ in range(self.sizes[split]):
            digits = source.rng.choices(self.vocabulary, k=source.rng.randint(1, 9))
            yield {"inputs": " ".join(digits), "targets": " ".join(reversed(digits))}


class Otherwise(Backwards):
    """The same with some of the digits, in another order, and letters."""

    name = "otherwise"
    vocabulary = tuple("a9b7531c")


class Run(TrainingRun):
    """A training run with further callbacks, after its own."""

    extra = ()

    def _callbacks(self, *args):
        return [*super()._callbacks(*args), *self.extra]

    @property
    def folder(self):
        return self.resolved.request.output_folder

    def checkpoint(self):
        """What the run has saved last."""
        return CheckpointStore(self.folder / "checkpoints").load()


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Returns a maker of training runs: `make_run(folder, settings, problem, **hparams)`."""
    data_dir = tmp_path_factory.mktemp("data")
    for problem in (Backwards(), Otherwise()):
        generate(problem, data_dir, data_dir / "tmp", seed=7, workers=1)
    model_fields = {field.name for field in dataclasses.fields(tiny_hparams())}

    def make(folder, settings=None, problem=Backwards, **changes):
        values = {"batch_size": 60, "shuffle_window": 40, "learning_rate_warmup_steps": 4, **changes}
        model = {"num_hidden_layers": 1, "layer_prepostprocess_dropout": 0.2, "attention_dropout": 0.1}
        model |= {name: values.pop(name) for name in list(values) if name in model_fields}
        hparams = HParams(tiny_hparams(**model)).replace(**values).freeze()
        request = Request(
            problem=problem.name, model="transformer", hparams_set="none", data_dir=str(data_dir),
            output_dir=str(folder),
        )  # fmt: skip
        resolved = Resolved(request, Transformer, hparams, hparams, [])
        settings = {"seed": 3, "worker_cpu": 1, "eval_every": 2, "eval_steps": 0, "log_every": 1, **(settings or {})}
        return Run(resolved, [open_data(request, problem(), verify=False)], Settings(**settings))

    return make
