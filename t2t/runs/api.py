"""The commands as Python functions, with the same defaults. Paths are text or `pathlib.Path`.

Heavy modules are imported when a function is called.

Legend: L layers, H heads, Q queries, K keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t.errors import UserError
from t2t.export.formats import check_request
from t2t.files.paths import local_path
from t2t.inference.engine_choice import EngineChoice
from t2t.registry import REGISTRIES
from t2t.registry.plugins import load_plugins
from t2t.runs.arguments import (
    as_integer,
    as_options,
    as_overrides,
    as_path,
    as_text,
    checks_arguments,
    unknown_argument,
)
from t2t.runs.settings import Settings
from t2t.runs.shortlist_options import ShortlistOptions
from t2t.runs.startup import quietly
from t2t.specs.constants import DATA_SEED, DEFAULT_DATA_DIR

if TYPE_CHECKING:
    import keras

    from t2t.export.parity import Parity
    from t2t.inference.translator import Translator
    from t2t.runs.loading import LoadedRun
    from t2t.runs.shortlist import ShortlistReport


StrPath = str | PathLike[str]


@checks_arguments()
def registered(kind: str = "problem", containing: str = "", usr_dir: StrPath | None = None) -> dict[str, str]:
    """Returns registered names, also of plug-ins, with a summary: `{"translate_ende_numbers": "English numbers, ..."}`.

    Args:
        kind: `problem`, `model`, `hparams`, `hparams_range`, `modality` or `metric`.
        containing: only names with this text in them.
        usr_dir: folder of a plug-in whose names to list as well.

    Raises:
        UserError: another kind, or a plug-in that cannot be imported.
    """
    kinds = {registry.kind: registry for registry in REGISTRIES}
    if as_text("kind", kind) not in kinds:
        raise UserError(f"registered {kind!r}: there is no such kind; ask for one of {', '.join(kinds)}")
    _load_plugins(as_path("usr_dir", usr_dir))
    return {entry.name: entry.summary for entry in kinds[kind].entries(as_text("containing", containing))}


@checks_arguments()
def generate_data(
    problem: str,
    data_dir: StrPath = DEFAULT_DATA_DIR,
    *,
    tmp_dir: StrPath = "",
    random_seed: int = DATA_SEED,
    usr_dir: StrPath | None = None,
    **options: Any,
) -> dict[str, int]:
    """Generates the data of a problem, as `t2t-datagen` does; existing data is kept.

    Args:
        problem: its name; of several, the names with - between them.
        data_dir: the folder for data of all problems.
        tmp_dir: where raw files lie; empty for a folder under `data_dir`.
        random_seed: of everything that chance decides.
        usr_dir: folder of the plug-in that has the problem.
        options: of the problem, e.g. `vocab_size=8000`.

    Returns:
        the number of examples of each split: `{"train": 29000, "dev": 1014}`; of several problems, of
        `{"a/train": ...}`.

    Raises:
        ArgumentError: an unknown option, or an argument of another type.
        UserError: an unknown name, raw files that are missing, other data in its place.
        MachineError: the data cannot be written.
    """
    from t2t.runs.data import generate_all
    from t2t.runs.names import Request, option_names, resolve_aliases

    request = Request(
        problem=as_text("problem", problem),
        data_dir=as_path("data_dir", data_dir),
        tmp_dir=as_path("tmp_dir", tmp_dir),
        usr_dir=as_path("usr_dir", usr_dir),
        problem_options=options,
    )
    seed = as_integer("random_seed", random_seed)
    _load_plugins(request.usr_dir)
    request = resolve_aliases(request)
    known = option_names(request.problem)
    for name in options:
        if name.rpartition(".")[2] not in known:
            raise unknown_argument("generate_data", name, ["data_dir", "tmp_dir", "random_seed", "usr_dir", *known])
    made = generate_all(request, seed)
    return {
        split if len(made) == 1 else f"{manifest.problem}/{split}": found.examples
        for manifest in made
        for split, found in manifest.splits.items()
    }


@checks_arguments(settings=Settings)
def train(
    problem: str = "",
    model: str = "",
    hparams_set: str = "",
    output_dir: StrPath = "",
    *,
    data_dir: StrPath = "",
    hparams: str | Mapping[str, Any] = "",
    train_steps: int | None = None,
    usr_dir: StrPath | None = None,
    problem_options: Mapping[str, Any] | None = None,
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] = (),
    **settings: Any,
) -> Path:
    """Trains a model on data that has been generated, as `t2t-trainer` does; resumes the run in `output_dir`.

    Args:
        problem: what to learn; this and the two next may be left out where `output_dir` holds a run.
        model: what learns it.
        hparams_set: with which values.
        output_dir: folder of the run; empty for `~/t2t_train/<problem>/<model>-<hparams_set>`.
        data_dir: where the data is; empty for where that of the run in `output_dir` was, `~/t2t_data` for a new run.
        hparams: changes of the set: `{"hidden_size": 64, "num_heads": 2}`, or as `--hparams` has them:
            `hidden_size=64,num_heads=2`.
        train_steps: number of the last update; None for the set's.
        usr_dir: folder of the plug-in that has what is named.
        problem_options: of the problem, where its data was generated with any.
        callbacks: Keras callbacks; an epoch is the updates from one evaluation to the next.
        settings: fields of `t2t.runs.settings.Settings`, e.g. `seed=1`, `eval_every=500`,
            `warm_start_from="other_run"`.

    Returns:
        the folder of the run, for `load`.

    Raises:
        ArgumentError: an unknown setting, an argument of another type, or a callback that cannot work here.
        UserError: an unknown name or value, no data, another run in the folder, or training diverged.
        MachineError: out of memory, disk full.
        KeyboardInterrupt: Ctrl-C or SIGTERM came; what was trained is saved, and the same call resumes.
    """
    from t2t.runs.names import Request, check_names, resolve_aliases
    from t2t.runs.resuming import check_same_run, fill_from_run, recorded_seed
    from t2t.runs.run_checks import check_training

    asked = Request(
        problem=as_text("problem", problem),
        model=as_text("model", model),
        hparams_set=as_text("hparams_set", hparams_set),
        overrides=as_overrides(hparams),
        train_steps=None if train_steps is None else as_integer("train_steps", train_steps),
        problem_options=as_options("problem_options", problem_options),
        data_dir=as_path("data_dir", data_dir),
        output_dir=as_path("output_dir", output_dir),
        usr_dir=as_path("usr_dir", usr_dir),
    )
    if "warm_start_from" in settings:
        settings["warm_start_from"] = as_path("warm_start_from", settings["warm_start_from"])
    chosen = Settings(**settings)
    _load_plugins(asked.usr_dir)
    request = fill_from_run(resolve_aliases(asked))
    check_names(request)
    if "seed" not in settings:
        chosen = dataclasses.replace(chosen, seed=recorded_seed(request.output_folder))
    check_same_run(request)
    check_training(request, chosen, needs_data=True, generates=False)  # before TensorFlow is loaded
    with quietly():
        from t2t.runs.training import TrainingRun
        from t2t.training.callbacks.checks import checked_callbacks
    own_callbacks = checked_callbacks(callbacks)
    try:
        stopped_by = TrainingRun.from_request(request, chosen, chosen.cluster).fit(own_callbacks)
    finally:
        for registry in REGISTRIES:
            registry.thaw()  # a command ends here; a notebook may go on and register more
    if stopped_by:
        raise KeyboardInterrupt(f"training in {request.output_folder} was stopped; the same call resumes it")
    return request.output_folder


@checks_arguments()
def load(
    output_dir: StrPath | Sequence[StrPath],
    checkpoint: StrPath | int = "latest",
    usr_dir: StrPath | None = None,
    problem: str = "",
    *,
    worker_gpu: int = 0,
    worker_cpu: int = 0,
    engine: str = "tensorflow",
    compute_type: str = "float32",
    ensemble_average: str = "probabilities",
    source_language: str = "",
    target_language: str = "",
    adapters: Mapping[str, StrPath] | None = None,
) -> Translator:
    """Loads a run directory and returns its translator.

    The main methods of the `t2t.inference.translator.Translator`:

    - `translate(texts, n_best=1, **changes)`: lists of hypotheses with `text`, `ids`, `score`, `log_prob`;
    - `score(pairs)`: ln p(target | source), a float for each pair;
    - `align(pairs)`: the word alignment of each pair, as `translate(texts, alignments=True)` gives it of outputs;
    - `attend(source, target=None)`: `maps` of each kind of attention, whose `weights` are (L, H, Q, K) float32;
    - `adapters["law"]`: the translator with the adapters of that name, which shares the weights of this one.

    Args:
        output_dir: folder of the run, or of several with the same vocabularies, which then decode as one.
        checkpoint: `latest`, `best`, `best.<problem>`, `best:5` for the mean of the best 5, `averaged`, a step, or
            the folder of a checkpoint.
        usr_dir: folder of the plug-in that the run was trained with, where it was.
        problem: which one, of a run of several.
        worker_gpu: GPUs to decode on; 0 = all that are visible.
        worker_cpu: copies of the model on the processor instead of GPUs; 0 = use GPUs, or one copy.
        engine: what decodes and scores: `tensorflow`, `ctranslate2`, or `auto`: CTranslate2 where it is installed,
            can hold the model and gives the same outputs for some inputs.
        compute_type: in which numbers CTranslate2 multiplies: `float32`, `int8`, `int16` or `bfloat16`.
        ensemble_average: what is averaged of several runs for each token: `probabilities` or `log_probabilities`.
        source_language: code of the language of inputs, for runs whose vocabulary has codes of languages; empty for
            that of the problem.
        target_language: code of the language to write, for these runs and those with language tags, also in a
            direction that was not trained; empty for that of the problem.
        adapters: runs of adapters whose base is this checkpoint, or their checkpoints, by the names to give them:
            `{"law": "law_run"}`.

    Raises:
        ArgumentError: an argument of another type.
        UserError: no run, no such checkpoint, a plug-in that is missing, more GPUs than there are, an engine that is
            not installed or cannot hold the model, or adapters of another checkpoint.
    """
    devices = as_integer("worker_gpu", worker_gpu, 0), as_integer("worker_cpu", worker_cpu, 0)
    choice = EngineChoice(as_text("engine", engine), as_text("compute_type", compute_type))
    choice.check()

    languages = as_text("source_language", source_language), as_text("target_language", target_language)
    if language := languages[1]:
        _load_plugins(as_path("usr_dir", usr_dir))
    from t2t.checkpoints.run_dir import RunDir
    from t2t.runs.run_checks import check_engine_of_adapters, select_problem

    def load_one(folder: Any, engine: EngineChoice | None = None) -> LoadedRun:
        own = select_problem(RunDir.open(folder), problem, language) if language else problem
        return _load_run(folder, checkpoint, usr_dir, own, devices=devices, engine=engine)

    folders = (
        [output_dir] if isinstance(output_dir, str | bytes) or not isinstance(output_dir, Sequence) else output_dir
    )
    adapter_runs = as_options("adapters", adapters)
    if adapter_runs:
        check_engine_of_adapters(choice)
    if len(folders) == 1:
        base = load_one(folders[0], choice).with_languages(*languages)
        translator = base.translator()
        if adapter_runs:
            from t2t.runs.adapting import load_adapters

            shared = as_path("usr_dir", usr_dir) or None, "", as_text("problem", problem)
            runs = {name: as_path("adapters", run, "a run for each name") for name, run in adapter_runs.items()}
            adapted = {
                name: load_adapters([base], run, *shared).with_languages(*languages) for name, run in runs.items()
            }
            translator.adapters = {name: loaded.translator() for name, loaded in adapted.items()}
        return translator
    if adapter_runs:
        raise UserError("--adapters: they change the weights of one run, and --output_dir names several; name one")
    from t2t.runs.ensembles import load_ensemble

    average = as_text("ensemble_average", ensemble_average)
    return load_ensemble(folders, load_one, average, choice).with_languages(*languages).translator()


@checks_arguments()
def export_model(
    output_dir: StrPath,
    export_dir: StrPath,
    format: str = "saved_model",
    *,
    data_dir: StrPath = "",
    checkpoint: StrPath | int = "latest",
    usr_dir: StrPath | None = None,
    problem: str = "",
    hparams: str | Mapping[str, Any] = "",
    n_best: int | None = None,
    quantization: str = "float32",
    parity_file: StrPath = "",
    parity_lines: int = 200,
    source_language: str = "",
    target_language: str = "",
) -> dict[str, Parity]:
    """Exports a run to another format, as `t2t-exporter` does, and verifies that both give the same outputs.

    Args:
        output_dir: folder of the run.
        export_dir: folder to make; must not be there yet.
        format: `saved_model`, `ctranslate2`, `onnx`, `litert`, `marian` or `huggingface`.
        data_dir: where the dev split is, on which it is tried; empty for the default folder if it has the run's data,
            else random texts made of the run's vocabulary.
        checkpoint: see `load`.
        usr_dir: see `load`.
        problem: see `load`.
        hparams: of decoding, to change: `{"beam_size": 8, "alpha": 1.0}`, or `beam_size=8,alpha=1.0`.
        n_best: outputs for each input; None for 1, or all classes.
        quantization: `float32`; `float16` for litert; `int8` for ctranslate2 and litert.
        parity_file: lines to try it on instead of the dev split.
        parity_lines: how many.
        source_language: see `load`; an export reads no other.
        target_language: see `load`; an export writes no other.

    Returns:
        the comparison of the two, by kind of request.

    Raises:
        ArgumentError: an argument of another type.
        UserError: the format cannot hold the model, or there is nothing to try it on.
        ParityError: the outputs differ; the export is not kept.
        MachineError: it cannot be written.
    """
    folder = local_path(as_path("export_dir", export_dir, "the folder to make"))
    options: dict[str, Any] = {
        "format": as_text("format", format),
        "quantization": as_text("quantization", quantization),
        "n_best": None if n_best is None else as_integer("n_best", n_best, 1),
        "parity_file": as_path("parity_file", parity_file),
        "parity_lines": as_integer("parity_lines", parity_lines, 1),
        "data_dir": as_path("data_dir", data_dir),
    }
    check_request(options["format"], options["quantization"], folder)  # before TensorFlow is loaded
    with quietly():
        from t2t.runs.exporting import export_run

    languages = as_text("source_language", source_language), as_text("target_language", target_language)
    loaded = _load_run(output_dir, checkpoint, usr_dir, problem, as_overrides(hparams)).with_languages(*languages)
    return export_run(loaded, folder, **options)


@checks_arguments(settings=ShortlistOptions)
def learn_shortlist(
    output_dir: StrPath,
    data_dir: StrPath = DEFAULT_DATA_DIR,
    *,
    usr_dir: StrPath | None = None,
    problem: str = "",
    **options: Any,
) -> ShortlistReport:
    """Learns which pieces outputs of a run are made of, as `t2t-shortlist` does; kept in the run.

    Then `translate(texts, shortlist=True)` considers no others.

    Args:
        output_dir: folder of the run.
        data_dir: where the data is that it was trained on.
        usr_dir: see `load`.
        problem: see `load`.
        options: fields of `t2t.runs.shortlist.ShortlistOptions`: `frequent`, `translations`, `max_examples`.

    Returns:
        what was learned: `candidates`, of an input of the dev split on average, and `coverage`, the fraction of the
        pieces of its references that are candidates of their input.

    Raises:
        ArgumentError: an unknown option, or an argument of another type.
        UserError: no run, a problem that is not from text to text, or other data.
        MachineError: it cannot be written.
    """
    from t2t.checkpoints.run_dir import RunDir
    from t2t.runs import shortlist
    from t2t.runs.run_checks import check_plugins, select_problem

    run = RunDir.open(as_path("output_dir", output_dir, "the folder of a run"))
    with quietly():
        check_plugins(run, load_plugins(as_path("usr_dir", usr_dir) or None))
    name = select_problem(run, as_text("problem", problem))
    return shortlist.learn_shortlist(run, as_path("data_dir", data_dir), name, ShortlistOptions(**options))


@checks_arguments()
def distill(
    output_dir: StrPath,
    distilled_data_dir: StrPath,
    *,
    data_dir: StrPath = DEFAULT_DATA_DIR,
    n_best: int = 1,
    checkpoint: StrPath | int = "latest",
    usr_dir: StrPath | None = None,
    problem: str = "",
    hparams: str | Mapping[str, Any] = "",
    worker_gpu: int = 0,
    worker_cpu: int = 0,
    engine: str = "tensorflow",
    compute_type: str = "float32",
) -> dict[str, int]:
    """Makes data to train a smaller model with, as `t2t-distill` does: its training targets are outputs of a run.

    An interrupted call is resumed by the same call.

    Args:
        output_dir: folder of the run, the teacher.
        distilled_data_dir: folder of distilled data to make, the `data_dir` of `train`.
        data_dir: where the data is whose training split is decoded.
        n_best: outputs to choose from: 1 takes the best, more the one nearest to the reference; at most the beam.
        checkpoint: see `load`.
        usr_dir: see `load`.
        problem: see `load`.
        hparams: of decoding, to change, see `export_model`.
        worker_gpu: see `load`.
        worker_cpu: see `load`.
        engine: see `load`.
        compute_type: see `load`.

    Returns:
        the number of examples of each split: `{"train": 29000, "dev": 1014}`.

    Raises:
        ArgumentError: an argument of another type.
        UserError: see `load`; no data, other data in its place, or a problem whose outputs are not written.
        MachineError: the data cannot be written.
    """
    from t2t.checkpoints.run_dir import RunDir
    from t2t.runs.run_checks import check_distillation, select_problem

    target, source = as_path("distilled_data_dir", distilled_data_dir), as_path("data_dir", data_dir)
    count = as_integer("n_best", n_best, 1)
    devices = as_integer("worker_gpu", worker_gpu, 0), as_integer("worker_cpu", worker_cpu, 0)
    choice = EngineChoice(as_text("engine", engine), as_text("compute_type", compute_type))
    choice.check()
    _load_plugins(as_path("usr_dir", usr_dir))
    run = RunDir.open(as_path("output_dir", output_dir, "the folder of a run"))
    name = select_problem(run, as_text("problem", problem))
    check_distillation(run, name, source, target)  # before TensorFlow is loaded
    with quietly():
        from t2t.runs.distilling import distill_run

    loaded = _load_run(output_dir, checkpoint, usr_dir, name, as_overrides(hparams), devices, choice)
    manifest = distill_run(loaded, source, target, count)
    return {split: found.examples for split, found in manifest.splits.items()}


def _load_run(
    output_dir: Any,
    checkpoint: Any,
    usr_dir: Any,
    problem: Any,
    overrides: str = "",
    devices: tuple[int, int] | None = None,
    engine: EngineChoice | None = None,
) -> LoadedRun:
    is_step = isinstance(checkpoint, int) and not isinstance(checkpoint, bool)
    folder = as_path("output_dir", output_dir, "the folder of a run")
    which = str(checkpoint) if is_step else as_path("checkpoint", checkpoint, "a step, latest, best or averaged")
    plugin, name = as_path("usr_dir", usr_dir), as_text("problem", problem)
    from t2t.runs.loading import load as load_run

    return load_run(folder, which, plugin or None, overrides, name, devices, engine)


def _load_plugins(usr_dir: str) -> None:
    """Imports the plug-ins, which may import TensorFlow."""
    with quietly():
        load_plugins(usr_dir or None)
