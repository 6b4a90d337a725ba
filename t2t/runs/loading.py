"""Loads run directories for decoding: one run, several as an ensemble, and adapters that share the weights of a base.

TensorFlow is imported only when the model itself is needed.
"""

import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from t2t.checkpoints.adapters import AdapterBase, check_fits
from t2t.checkpoints.arrays import Arrays
from t2t.checkpoints.averaging import load_for_decoding
from t2t.checkpoints.checkpoint import EMA, MODEL, Checkpoint
from t2t.checkpoints.compatibility import check_same_architecture, check_same_vocabularies, require_exact
from t2t.checkpoints.run_dir import RECORD_FILE, RunDir, run_and_checkpoint
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import LATEST, CheckpointStore
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.override import assigned_names
from t2t.inference.engine import AUTO, AVERAGES, CTRANSLATE2, TENSORFLOW, EngineChoice
from t2t.inference.rows import LazyModel
from t2t.inference.shortlist import read_shortlist
from t2t.inference.translator import Translator
from t2t.problems.base import Problem
from t2t.registry import HPARAMS, MODELS
from t2t.runs.engines import conversion_of, engine_of, settled
from t2t.runs.names import get_hparams, get_problem, set_batch_size
from t2t.runs.run_checks import check_plugins, override_decoding, select_problem
from t2t.runs.startup import load_plugins_quietly, prepare_framework
from t2t.specs import ADAPTER_FACTORS
from t2t.specs.features import select_problem_entries

if TYPE_CHECKING:
    from t2t.models.adapted import AdaptedModel
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
    requested: Collection[str] = ()
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
            raise UserError("nothing reads it without --replace_unknown", "add that", option="unknown_dictionary")
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

        if many_rows:
            use_single_core_ops()
        return build_model(record, hparams, read, devices).for_problem(name)

    loaded = LoadedRun(
        run, loaded_problem, once(build), hparams, read, choice, requested=assigned_names(decode_overrides)
    )
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
    hparams = _hparams_class(record).from_dict(record.hparams)
    hparams = set_batch_size(override_decoding(hparams, decode_overrides), record.problems, name).freeze()
    opened = get_problem(name, record.for_problem(name).problem_options)
    encoders = run.encoders() if name == record.problem else select_problem_entries(run.encoders(), name)
    if (columns := opened.columns) is not None:
        encoders = {columns[feature]: encoder for feature, encoder in encoders.items()}
    return run, opened.with_encoders(encoders), hparams


def _note_unused_penalties(hparams: HParams, decode_overrides: str) -> None:
    """Warns of penalties that were asked for, and have no effect: they compare outputs, and greedy search has one."""
    requested = sorted(assigned_names(decode_overrides) & {"alpha", "length_penalty", "coverage_penalty"})
    if requested and hparams.decode_method == "beam" and hparams.beam_size == 1:
        log.warning(
            "%s: no effect with beam_size=1, which compares no outputs; raise it, e.g. --decode_beam_size=4",
            ", ".join(f"{name}={getattr(hparams, name)}" for name in requested),
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


def build_model(
    record: RunRecord, hparams: HParams, checkpoint: Checkpoint, devices: tuple[int, int, int] | None = None
) -> "SequenceModel":
    """Returns the model of a run, for all of its problems.

    Args:
        record: of the run.
        hparams: of the run.
        checkpoint: provides the weights.
        devices: `worker_gpu`, `worker_cpu` and `weight_shards` for `Backend.devices`; None for one device.

    Raises:
        UserError: parts that do not fit together, or more devices than there are.
    """
    import keras

    from t2t.backends import backend
    from t2t.backends.base import FLOAT32
    from t2t.models.creation import create_model
    from t2t.training.weights import assign_model

    engine = backend()
    requested = engine.devices(*devices[:2], weight_shards=devices[2]) if devices else None
    several = requested if requested and len(requested.names) > 1 else None
    keras.utils.set_random_seed(0)
    with several.scope() if several else contextlib.nullcontext():
        model = create_model(MODELS.get(record.model), hparams, record.spec, engine.apply_precision(FLOAT32))
        weights = checkpoint.weights
        require_exact(weights, {v.path: tuple(v.shape) for v in model.variables}, f"checkpoint {checkpoint.folder}")
        assign_model(model, weights)
    if several:
        several.spread(model.variables)
    return model


def adapt_model(model: "SequenceModel", factors: Arrays, scale: float) -> "AdaptedModel":
    """Returns a model with adapters, on the same devices as `model`, whose weights stay unchanged.

    Args:
        model: the base.
        factors: A and B by path, all of one rank, see `t2t.checkpoints.adapters`.
        scale: s of W + s A B.
    """
    from t2t.backends import backend
    from t2t.layers.adapters import Adapters
    from t2t.models.adapted import AdaptedModel

    first = ADAPTER_FACTORS[0]
    adapted = [variable for variable in model.variables if f"{variable.path}/{first}" in factors]
    rank = factors[f"{adapted[0].path}/{first}"].shape[-1]
    with backend().scope_of(model):
        adapters = Adapters(model, adapted, rank, scale * rank)
    for variable in adapters.variables:
        variable.assign(factors[variable.path])
    return AdaptedModel(model, adapters)


def load_adapters(
    bases: Sequence[LoadedRun],
    folder: str,
    t2t_usr_dir: str | None = None,
    decode_overrides: str = "",
    problem: str = "",
) -> LoadedRun:
    """Loads a run of adapters, which shares the weights of its base and decodes with its own hparams.

    Args:
        bases: loaded runs; one must hold the checkpoint that the adapters change.
        folder: of the run, to load its latest checkpoint, or of one of its checkpoints.
        t2t_usr_dir: see `t2t.load`.
        decode_overrides: see `t2t.runs.loading.load`.
        problem: see `t2t.load`.

    Raises:
        UserError: see `t2t.runs.loading.load`; a checkpoint without adapters, or of another base or problem.
    """
    output_dir, which = run_and_checkpoint(folder)
    run, own_problem, hparams = open_to_decode(output_dir, t2t_usr_dir, decode_overrides, problem)
    read = CheckpointStore(run.checkpoints_folder).load(which or LATEST, (MODEL, EMA))
    adapts, base = base_of(read, folder, bases)
    check_same_vocabularies(read, run.record.vocabularies, hparams.shared_modalities, run.path, f"--adapters={folder}")
    check_same_architecture(read, run.record.model, hparams, run.path / RECORD_FILE)
    check_fits(read, base.checkpoint.weights)
    if base.run.record.spec.members and base.problem.name != own_problem.name:
        raise UserError(
            f"it is loaded for {own_problem.name}, and its base in {base.run.path} for {base.problem.name}",
            "name one --problem for both",
            option="adapters",
            value=folder,
        )

    def build():
        prepare_framework()
        return adapt_model(base.build(), read.weights, adapts.scale)

    log.info("loaded adapters %s of %s (%d updates)", read.folder, base.checkpoint.folder, read.step)
    return LoadedRun(run, own_problem, once(build), hparams, read)


def base_of(read: Checkpoint, folder: str, bases: Sequence[LoadedRun]) -> tuple[AdapterBase, LoadedRun]:
    """Returns what a checkpoint of adapters says of its base, and the base itself; raises as `load_adapters`."""
    adapts = AdapterBase.from_state(read.state)
    if adapts is None:
        raise UserError(
            f"checkpoint {read.folder} holds whole weights",
            "name a run that trained adapters (hparam lora_rank), or name it in --output_dir",
            option="adapters",
            value=folder,
        )
    for base in bases:
        if base.checkpoint.fingerprint == adapts.fingerprint:
            return adapts, base
    loaded = ", ".join(str(base.checkpoint.folder) for base in bases) or "none"
    raise UserError(
        f"they change the weights of {adapts.path}, and what is loaded is {loaded}",
        f"load that checkpoint as the base, or name {folder} in --output_dir by itself",
        option="adapters",
        value=folder,
    )


def load_runs(runs: Sequence[tuple[Any, str]], average: str, engine: EngineChoice, **arguments: Any) -> LoadedRun:
    """Loads one run, or several as one.

    Args:
        runs: (folder, checkpoint) of each.
        average: see `load_ensemble`.
        engine: the requested one.
        **arguments: further ones for `t2t.runs.loading.load`.

    Raises:
        UserError: see `t2t.runs.loading.load` and `load_ensemble`.
    """
    if len(runs) == 1:
        return load(*runs[0], engine=engine, **arguments)
    return load_ensemble(runs, lambda run: load(*run, **arguments), average, engine)


def load_ensemble(
    folders: Sequence[Any], load: Callable[[Any], LoadedRun], average: str, engine: EngineChoice
) -> LoadedRun:
    """Loads runs as an ensemble, which decodes with the hparams of the first.

    Args:
        folders: of the runs, at least one.
        load: loads one of them, for TensorFlow.
        average: one of AVERAGES.
        engine: the requested one; only TensorFlow decodes with several models.

    Raises:
        UserError: runs that do not fit together, or an engine that does not support ensembles.
    """
    if average not in AVERAGES:
        raise UserError(
            "there is no such", f"ask for one of {', '.join(AVERAGES)}", option="ensemble_average", value=average
        )
    if not folders:
        raise UserError("no run is named", "name the folder of one or more", option="output_dir")
    if engine.engine == CTRANSLATE2:
        raise UserError(
            f"it searches with one model, and --output_dir names {len(folders)}",
            "leave it out",
            option="engine",
            value="ctranslate2",
        )
    if engine.engine == AUTO:
        log.info("--engine=auto: TensorFlow decodes: CTranslate2 searches with one model")
    runs = [load(folder) for folder in folders]
    for run in runs:
        if run.model.mask_predicts:
            raise UserError(
                f"{run.run.path.name} is decoded by mask-predict, and an ensemble averages what models predict token "
                "by token",
                "name one run, or runs of another model",
                option="output_dir",
            )
    for run in runs[1:]:
        _check_together(runs[0], run)
    prepare_framework()
    from t2t.models.ensemble import Ensemble

    model = cast("SequenceModel", Ensemble([run.model for run in runs], average))  # it has the interface of one
    log.info("an ensemble of %d runs: the mean of their %s", len(runs), average.replace("_", "-"))
    return dataclasses.replace(runs[0], build=lambda: model, engine=EngineChoice())


def _check_together(first: LoadedRun, other: LoadedRun) -> None:
    """Raises UserError unless two runs read and write the same ids in the same way."""
    names = [run.run.path for run in (first, other)]
    encoders = [{name: encoder.fingerprint for name, encoder in run.problem.encoders.items()} for run in (first, other)]
    differing = sorted(name for name in encoders[0] | encoders[1] if encoders[0].get(name) != encoders[1].get(name))
    if differing:
        raise UserError(
            f"{names[0]} and {names[1]} have different vocabularies of {', '.join(differing)}",
            "an ensemble needs runs that were trained with the same ones",
            option="output_dir",
        )
    problems = [run.problem.name for run in (first, other)]
    if problems[0] != problems[1]:
        raise UserError(
            f"{names[0]} is of {problems[0]} and {names[1]} of {problems[1]}",
            "an ensemble needs runs of one problem",
            option="output_dir",
        )
    if first.model.autoregressive != other.model.autoregressive:
        raise UserError(
            f"of {names[0]} and {names[1]}, one decodes token by token and the other all at once",
            "name runs of one kind",
            option="output_dir",
        )
