"""The commands as Python functions, with the same defaults. Those that use trained runs are in `t2t.runs.trained_api`.

Paths are text or `pathlib.Path`. Heavy modules are imported when a function is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t.errors import UserError
from t2t.files.paths import StrPath
from t2t.registry import REGISTRIES
from t2t.runs.arguments import checks_arguments, unknown_argument
from t2t.runs.config import TRAIN_OPTIONS, RunConfig
from t2t.runs.startup import load_plugins_quietly, prepare_framework
from t2t.specs import DATA_SEED, DEFAULT_DATA_DIR

if TYPE_CHECKING:
    import keras


@checks_arguments()
def registered(kind: str = "problem", containing: str = "", t2t_usr_dir: StrPath | None = None) -> dict[str, str]:
    """Returns registered names, also of plug-ins, with a summary: `{"translate_ende_numbers": "English numbers, ..."}`.

    Args:
        kind: `problem`, `model`, `hparams`, `metric`, `optimizer` or another of `t2t.registry`.
        containing: only names that contain this text.
        t2t_usr_dir: folder of a plug-in whose names are listed as well.

    Raises:
        UserError: an unknown kind, or a plug-in that cannot be imported.
    """
    kinds = {registry.kind: registry for registry in REGISTRIES}
    if kind not in kinds:
        raise UserError(f"registered {kind!r}: there is no such kind", f"ask for one of {', '.join(kinds)}")
    load_plugins_quietly(t2t_usr_dir)
    return {entry.name: entry.summary for entry in kinds[kind].entries(containing)}


@checks_arguments()
def generate_data(
    problem: str,
    data_dir: StrPath = DEFAULT_DATA_DIR,
    *,
    tmp_dir: StrPath = "",
    random_seed: int = DATA_SEED,
    t2t_usr_dir: StrPath | None = None,
    **options: Any,
) -> dict[str, int]:
    """Generates the data of a problem, as `t2t-datagen` does; existing data is kept.

    Args:
        problem: its name, or the names of several joined by `-`.
        data_dir: folder with the data of all problems.
        tmp_dir: folder of raw files and downloads; empty for `tmp` in `data_dir`.
        random_seed: seed of all random choices.
        t2t_usr_dir: folder of the plug-in that defines the problem.
        options: of the problem, e.g. `vocab_size=8000`.

    Returns:
        the number of examples of each split: `{"train": 29000, "dev": 1014}`; with several problems, the keys are
        `<problem>/<split>`.

    Raises:
        ArgumentError: an unknown option, or an argument of the wrong type.
        UserError: an unknown name, an option that only training reads, missing raw files, or different data already in
            the folder.
        MachineError: the data cannot be written.
    """
    from t2t.runs.data import check_data_options, generate_all
    from t2t.runs.names import option_names

    names = {"problem": problem, "data_dir": data_dir, "tmp_dir": tmp_dir, "t2t_usr_dir": t2t_usr_dir}
    config = RunConfig.given({**names, "problem_options": options})
    load_plugins_quietly(config.t2t_usr_dir)
    known = option_names(config.problem)
    for name in options:
        if name.rpartition(".")[2] not in known:
            raise unknown_argument("generate_data", name, ["data_dir", "tmp_dir", "random_seed", "t2t_usr_dir", *known])
    check_data_options(config)
    made = generate_all(config, random_seed)
    return {
        split if len(made) == 1 else f"{manifest.problem}/{split}": found.examples
        for manifest in made
        for split, found in manifest.splits.items()
    }


@checks_arguments(TRAIN_OPTIONS)
def train(
    problem: str = "",
    model: str = "",
    hparams_set: str = "",
    output_dir: StrPath = "",
    *,
    data_dir: StrPath = "",
    hparams: str | Mapping[str, Any] = "",
    train_steps: int | None = None,
    t2t_usr_dir: StrPath | None = None,
    problem_options: Mapping[str, Any] | None = None,
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] = (),
    **options: Any,
) -> Path:
    """Trains a model on data that has been generated, as `t2t-trainer` does; resumes the run in `output_dir`.

    Args:
        problem: its name, or the names of several joined by `-`. `problem`, `model` and `hparams_set` may be omitted
            if `output_dir` holds a run, or `warm_start_from` names one: its hparams of the network come with its set.
        model: name of the model.
        hparams_set: name of the hparams set.
        output_dir: folder of the run; empty for `~/t2t_train/<problem>/<model>-<hparams_set>`.
        data_dir: folder of generated data; empty for the folder that the run in `output_dir` used, or for
            `~/t2t_data` in a new run.
        hparams: overrides of the set, `{"hidden_size": 64, "num_heads": 2}`, or in the syntax of `--hparams`,
            `hidden_size=64,num_heads=2`.
        train_steps: number of the last update; None for the value in the set.
        t2t_usr_dir: folder of the plug-in that defines the named problem, model or set.
        problem_options: options of the problem, if its data was generated with any.
        callbacks: Keras callbacks; an epoch consists of the updates from one evaluation to the next.
        options: others of `t2t.runs.config.RunConfig`, e.g. `random_seed=1`, `local_eval_frequency=500`,
            `warm_start_from="other_run"`; a resumed run keeps those of `t2t.runs.config.REMEMBERED` that are omitted.

    Returns:
        the folder of the run, for `load`.

    Raises:
        ArgumentError: an unknown option, an argument of the wrong type, or an unsupported callback.
        UserError: an unknown name or value, no data, another run in the folder, or training diverged.
        MachineError: out of memory, disk full.
        KeyboardInterrupt: on Ctrl-C or SIGTERM, after a checkpoint is saved; the same call resumes training.
    """
    from t2t.runs.experiment import Experiment

    given = {
        "problem": problem, "model": model, "hparams_set": hparams_set, "hparams": hparams, "train_steps": train_steps,
        "problem_options": problem_options, "data_dir": data_dir, "output_dir": output_dir, "t2t_usr_dir": t2t_usr_dir,
    }  # fmt: skip
    experiment = Experiment.resolve(RunConfig.given({**given, **options}))
    experiment.check(needs_data=True, generates=False)  # before TensorFlow is loaded
    prepare_framework()
    from t2t.training.callbacks.checks import checked_callbacks

    config = experiment.config
    try:
        stopped_by = experiment.train(checked_callbacks(callbacks))
    finally:
        for registry in REGISTRIES:
            registry.thaw()  # unlike a command, a notebook may continue and register more
    if stopped_by:
        raise KeyboardInterrupt(f"training in {config.output_folder} was stopped; the same call resumes it")
    return config.output_folder
