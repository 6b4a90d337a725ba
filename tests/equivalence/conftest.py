"""Small token problems, a model that trains a few updates in a second, and training runs of them."""

import dataclasses
import shutil

import keras
import pytest
from keras import ops

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.data.generation.generate import generate
from t2t.hparams.transformer import TransformerHParams
from t2t.layers.dropout import Dropout
from t2t.layers.masks import mean_of_kept
from t2t.models.base import SequenceModel
from t2t.models.transformer import Transformer
from t2t.problems.text_problems import Text2Class, Text2Text
from t2t.problems.variants import VariantProblem
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from t2t.runs.experiment import Experiment
from t2t.runs.training import TrainingRun
from t2t.specs.features import split_mixture
from tests.builders import tiny_hparams


class Backwards(Text2Text):
    """Reverse one to nine digits; lengths differ, so batches have different numbers of tokens."""

    name = "backwards"
    vocabulary = tuple("0123456789")
    sizes = {"train": 120, "dev": 10}

    def generate_samples(self, split, source):
        for _ in range(self.sizes[split]):
            digits = source.rng.choices(self.vocabulary, k=source.rng.randint(1, 9))
            yield {"inputs": " ".join(digits), "targets": " ".join(reversed(digits))}


class Forwards(Backwards):
    """Copy the digits; without metrics, so nothing is decoded during training."""

    name = "forwards"
    metrics = ()

    def generate_samples(self, split, source):
        for sample in super().generate_samples(split, source):
            yield sample | {"targets": sample["inputs"]}


class OneWord(Forwards):
    """A vocabulary of one word; one line of the dev split is empty."""

    name = "one_word"
    vocabulary = ("1",)

    def generate_samples(self, split, source):
        yield from [{"inputs": "", "targets": ""}] * (split == "dev")
        yield from super().generate_samples(split, source)


class Averaging(SequenceModel):
    """A very fast model for tests of training: the mean of the inputs and the previous word, with dropout."""

    hparams_class = TransformerHParams

    def __init__(self, hparams, spec, dtype="float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        self.mix = keras.layers.Dense(hparams.hidden_size, dtype=self.dtype_policy, name="mix")
        self.dropout = Dropout(hparams.layer_prepostprocess_dropout, dtype=self.dtype_policy, name="dropout")
        self.build()

    def build(self, input_shape=None):
        self.build_modality_weights()
        self.mix.build((None, None, self.hparams.hidden_size))
        self.dropout.build()

    def body(self, features, seed=None):
        inputs, targets = features["inputs"], features["targets"]
        mean_BD = mean_of_kept(self.source_embedding(inputs, seed=seed), self.source_embedding.keep(inputs))
        before_BT = ops.pad(targets[:, :-1], ((0, 0), (1, 0)))
        return self.mix(self.dropout(self.target_embedding.before(before_BT) + mean_BD[:, None], seed=seed))


class CopyAfter(keras.callbacks.Callback):
    """Copies the run directory after an update, as a machine that crashes then would leave it."""

    def __init__(self, update, folder, copy):
        super().__init__()
        self.update, self.folder, self.copy = update, folder, copy

    def on_train_batch_end(self, batch, logs=None):
        if batch == self.update:
            shutil.copytree(self.folder, self.copy)


class Otherwise(Backwards):
    """`Backwards` with another vocabulary: some of the digits, in another order, and letters."""

    name = "otherwise"
    vocabulary = tuple("a9b7531c")


class FirstDigits(Text2Class):
    """Classify whether the first digit is even; the vocabulary is that of `Backwards`."""

    name = "first_digits"
    vocabulary, class_labels = Backwards.vocabulary, ("even", "odd")
    sizes = {"train": 120, "dev": 10}

    def generate_samples(self, split, source):
        for _ in range(self.sizes[split]):
            digits = source.rng.choices(self.vocabulary, k=source.rng.randint(1, 9))
            yield {"inputs": " ".join(digits), "targets": self.class_labels[int(digits[0]) % 2]}


class Run(TrainingRun):
    """A training run with additional callbacks after its own.

    It does without the rehearsal of the largest batches, which takes the time of a second compilation, unless
    `rehearses`.
    """

    extra, rehearses = (), False

    def _chief_callbacks(self, *args):
        return [*super()._chief_callbacks(*args), *self.extra]

    def _warm_up(self, *args):
        if self.rehearses:
            super()._warm_up(*args)

    @property
    def folder(self):
        return self.config.output_folder

    def copy_after(self, update, copy):
        self.extra = (*self.extra, CopyAfter(update, self.folder, copy))

    def checkpoint(self):
        """Returns the latest checkpoint of the run."""
        return CheckpointStore(self.folder / "checkpoints").load()


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Returns a function that builds training runs: `make_run(folder, settings, problems, model, **hparams)`.

    `runs` is the class of the run.
    """
    data_dir = tmp_path_factory.mktemp("data")
    classes = {one.name: one for one in (Backwards, Otherwise, Forwards, OneWord, FirstDigits)}
    for problem in classes.values():
        generate(problem(), data_dir, data_dir / "tmp", seed=7, workers=1)
    makers = {**classes, "backwards_masked": lambda: VariantProblem(Backwards(), "_masked")}
    model_fields = {field.name for field in dataclasses.fields(tiny_hparams())}

    def make(folder, settings=None, problems="backwards", model=Transformer, runs=Run, **changes):
        values = {"batch_size": 60, "shuffle_window": 40, "learning_rate_warmup_steps": 4, **changes}
        sizes = {"num_hidden_layers": 1, "layer_prepostprocess_dropout": 0.2, "attention_dropout": 0.1}
        sizes |= {name: values.pop(name) for name in list(values) if name in model_fields}
        hparams = tiny_hparams(**sizes).replace(**values).freeze()
        how = {"random_seed": 3, "worker_cpu": 1, "local_eval_frequency": 2, "eval_steps": 0, "log_step_count_steps": 1}
        config = RunConfig(
            problem=problems, model="transformer", hparams_set="none", data_dir=str(data_dir), output_dir=str(folder),
            **(how | (settings or {})),
        )  # fmt: skip
        begun = RunDir.open(folder) if RunDir.exists(folder) else None
        experiment = Experiment(config, hparams, hparams, run=begun)
        experiment.model_class = model
        experiment.data = [open_data(config, makers[name](), verify=False) for name in split_mixture(problems)]
        return runs(experiment)

    make.tiny, make.run = Averaging, Run

    return make
