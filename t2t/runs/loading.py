"""Loads a run directory as a model that decodes."""

import contextlib
import dataclasses
import functools
import logging

import keras
import tensorflow as tf

from t2t.checkpoints.architectures import check_same_architecture
from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_dir import RECORD_FILE, RunDir, RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.checkpoints.transfer import require_exact
from t2t.checkpoints.vocabularies import check_same_vocabularies
from t2t.hparams.base import HParams
from t2t.inference.engine_choice import EngineChoice
from t2t.inference.shortlist.shortlist import read_shortlist
from t2t.inference.translator import Translator
from t2t.models.base import SequenceModel
from t2t.problems.base import Problem
from t2t.registry import HPARAMS, MODELS
from t2t.registry.plugins import load_plugins
from t2t.runs.engines import engine_of
from t2t.runs.names import get_hparams, get_problem
from t2t.runs.parts import set_batch_size
from t2t.runs.run_checks import check_plugins, override_decoding, select_problem
from t2t.specs.mixture import select_problem_entries
from t2t.training.precision import FLOAT32, apply_precision
from t2t.training.weights import assign_model

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class LoadedRun:
    """A run with the weights of one checkpoint."""

    run: RunDir
    """Of one problem or several."""
    problem: Problem
    """With its vocabularies."""
    model: SequenceModel
    hparams: HParams
    checkpoint: Checkpoint
    engine: EngineChoice = dataclasses.field(default_factory=EngineChoice)
    """What decodes."""

    @property
    def record(self) -> RunRecord:
        """The run's record for this problem."""
        return self.run.record.for_problem(self.problem.name)

    def translator(self) -> Translator:
        """Returns a translator of the run; raises as `engine_of`."""
        translator = Translator(self.problem, self.model, self.hparams)
        translator.tensorflow.read_shortlist = functools.partial(read_shortlist, self.run, self.problem.name)
        if self.hparams.shortlist:
            translator.tensorflow.shortlist  # noqa: B018 - what is wrong with it is said now
        translator.engine = engine_of(translator, self.run.path, self.checkpoint, self.engine)
        return translator


def load(
    output_dir: str,
    checkpoint: str = "latest",
    usr_dir: str | None = None,
    decode_overrides: str = "",
    problem: str = "",
    strategy: tf.distribute.Strategy | None = None,
    engine: EngineChoice | None = None,
) -> LoadedRun:
    """Loads a run; see `t2t.load` for the arguments.

    `decode_overrides` are hparams of the decode section to change, e.g. `beam_size=8`; `strategy` has the devices that
    get a copy of the weights, one where there is none; `engine` is what decodes, TensorFlow by default.

    Raises:
        UserError: no run, a problem that is not the run's, a missing plug-in, or parts that do not fit together.
    """
    run = RunDir.open(output_dir)
    plugins = load_plugins(usr_dir)
    check_plugins(run, plugins)
    record, name = run.record, select_problem(run, problem)
    options = record.for_problem(name).problem_options
    loaded_problem = get_problem(name, options).with_encoders(stored_encoders(run, name))
    model_class = MODELS.get(record.model)
    hparams = _family(record, model_class).from_dict(record.hparams)
    hparams = set_batch_size(override_decoding(hparams, decode_overrides), record.problems, name).freeze()
    read = CheckpointStore(run.checkpoints_folder).load_model(checkpoint)
    check_same_vocabularies(read, record.vocabularies, run.path, f"--checkpoint={checkpoint}")
    check_same_architecture(read, record.model, hparams, run.path / RECORD_FILE)
    keras.utils.set_random_seed(0)
    with strategy.scope() if strategy and strategy.num_replicas_in_sync > 1 else contextlib.nullcontext():
        model = model_class(hparams, record.spec, dtype=apply_precision(FLOAT32))
    weights = read.weights
    require_exact(weights, {v.path: tuple(v.shape) for v in model.variables}, f"checkpoint {read.folder}")
    assign_model(model, weights)
    log.info("loaded checkpoint %s (%d updates)", read.folder, read.step)
    return LoadedRun(run, loaded_problem, model.for_problem(name), hparams, read, engine or EngineChoice())


def _family(record: RunRecord, model_class: type[SequenceModel]) -> type[HParams]:
    """Returns the class of a run's hparams set, which may be a subclass of its model's."""
    wanted = model_class.hparams_class
    held = type(get_hparams(record.hparams_set)) if record.hparams_set in HPARAMS else wanted
    return held if issubclass(held, wanted) else wanted


def stored_encoders(run: RunDir, problem: str) -> dict:
    """Returns a problem's vocabularies by the names of its stored features."""
    encoders = run.encoders()
    if problem != run.record.problem:
        encoders = select_problem_entries(encoders, problem)
    columns = get_problem(problem, run.record.for_problem(problem).problem_options).columns
    return encoders if columns is None else {columns[name]: encoder for name, encoder in encoders.items()}
