"""Loads a run directory for decoding; TensorFlow is imported only when the model itself is needed."""

import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from t2t.checkpoints.architectures import check_same_architecture
from t2t.checkpoints.averaging import load_for_decoding
from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_dir import RECORD_FILE, RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.checkpoints.vocabularies import check_same_vocabularies
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.override import assigned_names
from t2t.inference.engine import TENSORFLOW, EngineChoice
from t2t.inference.rows import LazyModel
from t2t.inference.shortlist import read_shortlist
from t2t.inference.translator import Translator
from t2t.problems.base import Problem
from t2t.registry import HPARAMS, MODELS
from t2t.runs.engines import conversion_of, engine_of, settled
from t2t.runs.names import get_hparams, get_problem
from t2t.runs.run_checks import check_plugins, override_decoding, select_problem, set_batch_size
from t2t.runs.startup import load_plugins_quietly, prepare_framework
from t2t.specs.mixture import select_problem_entries

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class LoadedRun:
    """A run with the weights of one checkpoint."""

    run: RunDir
    """Of one problem or several."""
    problem: Problem
    """With its vocabularies."""
    build: "Callable[[], SequenceModel]"
    """Returns the model, built at the first call."""
    hparams: HParams
    checkpoint: Checkpoint
    engine: EngineChoice = dataclasses.field(default_factory=EngineChoice)
    """The requested engine."""
    unknown_dictionary: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Translations of words of inputs, for `replace_unknown`."""
    asked: Collection[str] = ()
    """Names of the hparams that the caller set; the others are the run's."""

    @property
    def model(self) -> "SequenceModel":
        """The model with its weights."""
        return self.build()

    @property
    def record(self) -> RunRecord:
        """The run's record for this problem."""
        return self.run.record.for_problem(self.problem.name)

    def with_dictionary(self, dictionary: Mapping[str, str]) -> "LoadedRun":
        """Returns the run with translations for the unknown words that it replaces (hparam `replace_unknown`).

        Raises:
            UserError: the run does not replace unknown words.
        """
        if dictionary and not self.hparams.replace_unknown:
            raise UserError("--unknown_dictionary: nothing reads it without --replace_unknown; add that")
        return dataclasses.replace(self, unknown_dictionary=dictionary)

    def with_languages(self, source: str = "", target: str = "") -> "LoadedRun":
        """Sets the languages of inputs and outputs where given, see `Languages.use`; returns the run."""
        self.problem.languages.use(source, target)
        return self

    def translator(self) -> Translator:
        """Returns a translator of the run; raises as `conversion_of` and `engine_of`."""
        conversion = conversion_of(self.run, self.problem.name, self.checkpoint, self.hparams, self.engine)
        model: SequenceModel | LazyModel
        weights = None
        if conversion is not None and (known := conversion.known) is not None:
            spec, arrays = self.record.spec, self.checkpoint.weights
            model = LazyModel(self.hparams, spec, known.longest_sequence, arrays, self.build)
            if len(self.run.record.problems) == 1:  # others' paths name problems
                weights = {path.partition("/")[2]: array for path, array in arrays.items()}
        else:
            model = self.build()
        translator = Translator(self.problem, model, self.hparams)
        translator.read_shortlist = functools.partial(read_shortlist, self.run, self.problem.name)
        translator.unknown_dictionary = self.unknown_dictionary
        if self.hparams.shortlist:
            translator.model_engine.shortlist  # noqa: B018 - errors in it are raised now
        translator.engine = engine_of(self.run, translator, conversion, self.engine, weights)
        return translator


def load(
    output_dir: str | Path,
    checkpoint: str = "latest",
    t2t_usr_dir: str | None = None,
    decode_overrides: str = "",
    problem: str = "",
    devices: tuple[int, int, int] | None = None,
    engine: EngineChoice | None = None,
    many_rows: bool = False,
) -> LoadedRun:
    """Loads a run.

    Args:
        output_dir: see `t2t.load`.
        checkpoint: see `t2t.load`.
        t2t_usr_dir: see `t2t.load`.
        decode_overrides: hparams of the decode section to change, e.g. `beam_size=8`.
        problem: see `t2t.load`.
        devices: `worker_gpu`, `worker_cpu` and `weight_shards`; None for one device.
        engine: what decodes, TensorFlow by default; `auto` may be settled for it, see `settled`.
        many_rows: whether many inputs are decoded at a time; TensorFlow then runs each operation on one core.

    Raises:
        UserError: no run, a problem that is not the run's, a missing plug-in, or parts that do not fit together.
    """
    choice = settled(engine or EngineChoice(), devices)
    run, loaded_problem, hparams = open_to_decode(output_dir, t2t_usr_dir, decode_overrides, problem)
    _note_unused_penalties(hparams, decode_overrides)
    record, name = run.record, loaded_problem.name
    read = load_for_decoding(CheckpointStore(run.checkpoints_folder), checkpoint)
    check_same_vocabularies(
        read, record.vocabularies, hparams.shared_modalities, run.path, f"--checkpoint={checkpoint}"
    )
    check_same_architecture(read, record.model, hparams, run.path / RECORD_FILE)

    def build() -> "SequenceModel":
        prepare_framework()
        from t2t.inference.parallel import use_single_core_ops
        from t2t.runs.building import build_model

        if many_rows:
            use_single_core_ops()
        return build_model(record, hparams, read, devices).for_problem(name)

    loaded = LoadedRun(run, loaded_problem, once(build), hparams, read, choice, asked=assigned_names(decode_overrides))
    if choice.engine == TENSORFLOW or (devices and devices != (0, 0, 1)):
        loaded.build()  # reports missing or mismatched parts now
    log.info("loaded checkpoint %s (%d updates)", read.folder, read.step)
    return loaded


def open_to_decode(
    output_dir: str | Path, t2t_usr_dir: str | None = None, decode_overrides: str = "", problem: str = ""
) -> tuple[RunDir, Problem, HParams]:
    """Returns a run, one of its problems with vocabularies, and its hparams; see `load`."""
    run = RunDir.open(output_dir)
    check_plugins(run, load_plugins_quietly(t2t_usr_dir))
    record, name = run.record, select_problem(run, problem)
    options = record.for_problem(name).problem_options
    hparams = _hparams_class(record).from_dict(record.hparams)
    hparams = set_batch_size(override_decoding(hparams, decode_overrides), record.problems, name).freeze()
    return run, get_problem(name, options).with_encoders(stored_encoders(run, name)), hparams


def _note_unused_penalties(hparams: HParams, decode_overrides: str) -> None:
    """Warns of penalties that were asked for, and have no effect: they compare outputs, and greedy search has one."""
    asked = sorted(assigned_names(decode_overrides) & {"alpha", "length_penalty", "coverage_penalty"})
    if asked and hparams.decode_method == "beam" and hparams.beam_size == 1:
        log.warning(
            "%s: no effect with beam_size=1, which compares no outputs; raise it, e.g. --decode_beam_size=4",
            ", ".join(f"{name}={getattr(hparams, name)}" for name in asked),
        )


def once(build: Callable[[], T]) -> Callable[[], T]:
    """Returns a thread-safe function that builds at its first call and returns the same object again later."""
    lock, remembered = threading.Lock(), functools.cache(build)

    def built() -> T:
        with lock:
            return remembered()

    return built


def _hparams_class(record: RunRecord) -> type[HParams]:
    """Returns the class of a run's hparams set, which may be a subclass of its model's."""
    held = type(get_hparams(record.hparams_set)) if record.hparams_set in HPARAMS else HParams
    if record.model in MODELS:  # as its source says, without importing it
        needed = MODELS.declared(record.model, "hparams_class")
        if needed in [one.__name__ for one in held.__mro__]:
            return held
    prepare_framework()
    wanted = MODELS.get(record.model).hparams_class
    return held if issubclass(held, wanted) else wanted


def stored_encoders(run: RunDir, problem: str) -> dict:
    """Returns a problem's vocabularies by the names of its stored features."""
    encoders = run.encoders()
    if problem != run.record.problem:
        encoders = select_problem_entries(encoders, problem)
    columns = get_problem(problem, run.record.for_problem(problem).problem_options).columns
    return encoders if columns is None else {columns[name]: encoder for name, encoder in encoders.items()}
