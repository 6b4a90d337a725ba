"""What the commands do, for Python: each function is one of them, with its defaults.

The modules behind them are imported when they are called: TensorFlow takes seconds to import.

Legend: L layers, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t.constants import DATA_SEED, DEFAULT_DATA_DIR
from t2t.errors import UserError
from t2t.paths import local_path

if TYPE_CHECKING:
    import keras

    from t2t.export.parity import Parity
    from t2t.inference import Translator


def registered(kind: str = "problem", containing: str = "") -> dict[str, str]:
    """Returns what there is to be named, with a line on each: `{"translate_ende_numbers": "English numbers, ..."}`.

    Args:
        kind: `problem`, `model`, `hparams` or `modality`.
        containing: only names with this text in them.

    Raises:
        UserError: another kind.
    """
    from t2t.registry import HPARAMS, MODALITIES, MODELS, PROBLEMS

    kinds = {registry.kind: registry for registry in (PROBLEMS, MODELS, HPARAMS, MODALITIES)}
    if kind not in kinds:
        raise UserError(f"registered {kind!r}: there is no such kind; ask for one of {', '.join(kinds)}")
    return {entry.name: entry.summary for entry in kinds[kind].entries(containing)}


def generate_data(
    problem: str,
    data_dir: str = DEFAULT_DATA_DIR,
    *,
    tmp_dir: str = "",
    random_seed: int = DATA_SEED,
    usr_dir: str = "",
    **options: Any,
) -> dict[str, int]:
    """Generates the data of a problem, as `t2t-datagen` does; what is there already stays.

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
        UserError: an unknown name or option, raw files that are missing, other data in its place.
        MachineError: the data cannot be written.
    """
    from t2t.plugins import load_plugins
    from t2t.runs.data import generate_all
    from t2t.runs.names import Request, without_aliases

    load_plugins(usr_dir or None)
    request = Request(
        problem=problem,
        data_dir=str(data_dir),
        tmp_dir=str(tmp_dir),
        usr_dir=str(usr_dir or ""),
        problem_options=options,
    )
    made = generate_all(without_aliases(request), random_seed)
    return {
        split if len(made) == 1 else f"{manifest.problem}/{split}": found.examples
        for manifest in made
        for split, found in manifest.splits.items()
    }


def train(
    problem: str = "",
    model: str = "",
    hparams_set: str = "",
    output_dir: str = "",
    *,
    data_dir: str = "",
    hparams: str = "",
    train_steps: int | None = None,
    usr_dir: str = "",
    problem_options: dict[str, Any] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    **settings: Any,
) -> Path:
    """Trains a model on data that has been generated, as `t2t-trainer` does; goes on with the run that is there.

    Args:
        problem: what to learn; this and the two next may be left out where `output_dir` holds a run.
        model: what learns it.
        hparams_set: with which values.
        output_dir: folder of the run; empty for `~/t2t_train/<problem>/<model>-<hparams_set>`.
        data_dir: where the data is; empty for where that of the run in `output_dir` was, `~/t2t_data` for a new run.
        hparams: changes of the set, as `--hparams` has them: `hidden_size=64,num_heads=2`.
        train_steps: number of the last update; None for the set's.
        usr_dir: folder of the plug-in that has what is named.
        problem_options: of the problem, where its data was generated with any.
        callbacks: of one's own; `on_train_batch_end(update, logs)` is given figures at log steps.
        settings: fields of `t2t.runs.settings.Settings`, e.g. `seed=1`, `eval_every=500`,
            `warm_start_from="other_run"`.

    Returns:
        the folder of the run, for `load`.

    Raises:
        UserError: an unknown name or value, no data, another run in the folder, or training diverged.
        MachineError: out of memory, disk full.
        KeyboardInterrupt: Ctrl-C or SIGTERM came; what was trained is saved, and the same call goes on.
    """
    from t2t.registry import REGISTRIES
    from t2t.runs.names import Request, without_aliases
    from t2t.runs.resuming import remembered, remembered_seed
    from t2t.runs.settings import Settings
    from t2t.runs.training import TrainingRun

    asked = Request(
        problem=problem,
        model=model,
        hparams_set=hparams_set,
        overrides=hparams,
        train_steps=train_steps,
        problem_options=problem_options or {},
        data_dir=str(data_dir),
        output_dir=str(output_dir),
        usr_dir=str(usr_dir or ""),
    )
    request = remembered(without_aliases(asked))
    settings.setdefault("seed", remembered_seed(request.output_folder))
    try:
        stopped_by = TrainingRun.of(request, Settings(**settings)).fit(callbacks)
    finally:
        for registry in REGISTRIES:
            registry.thaw()  # a command ends here; a notebook may go on and register more
    if stopped_by:
        raise KeyboardInterrupt(f"training in {request.output_folder} was stopped; the same call goes on with it")
    return request.output_folder


def load(output_dir: str, checkpoint: str = "latest", usr_dir: str | None = None, problem: str = "") -> Translator:
    """Loads a run directory and returns what decodes with it.

    Of the `t2t.inference.Translator`, the methods that are wanted most:

    - `translate(texts, n_best=1, **changes)`: lists of hypotheses with `text`, `ids`, `score`, `log_prob`;
    - `score(pairs)`: ln p(target | source), a float for each pair;
    - `attend(source, target=None)`: `maps` of each kind of attention, whose `weights` are (L, H, Q, K) float32.

    Args:
        output_dir: what `t2t-trainer --output_dir` was given.
        checkpoint: `latest`, `best`, `best.<problem>`, `averaged`, a step, or the folder of a checkpoint.
        usr_dir: folder of the plug-in that the run was trained with, where it was.
        problem: which one, of a run of several.

    Raises:
        UserError: no run, no such checkpoint, or a plug-in that is missing.
    """
    from t2t.runs.loading import load as load_run

    return load_run(output_dir, checkpoint, usr_dir, problem=problem).translator()


def export_model(
    output_dir: str,
    export_dir: str,
    format: str = "saved_model",
    *,
    data_dir: str = "",
    checkpoint: str = "latest",
    usr_dir: str | None = None,
    problem: str = "",
    hparams: str = "",
    n_best: int | None = None,
    quantization: str = "float32",
    parity_file: str = "",
    parity_lines: int = 200,
) -> dict[str, Parity]:
    """Makes of a run a model for other programs, as `t2t-exporter` does, and proves that it answers as the run does.

    Args:
        output_dir: folder of the run.
        export_dir: folder to make; must not be there yet.
        format: `saved_model`, `ctranslate2` or `onnx`.
        data_dir: where the dev split is, on which it is tried; empty for the default folder if it has the run's data,
            else random texts made of the run's vocabulary.
        checkpoint: see `load`.
        usr_dir: see `load`.
        problem: see `load`.
        hparams: of decoding, to change: `beam_size=8,alpha=1.0`.
        n_best: outputs for each input; None for 1, or all classes.
        quantization: `float32`, or `int8` for ctranslate2.
        parity_file: lines to try it on instead of the dev split.
        parity_lines: how many.

    Returns:
        how the two compare, by what was asked.

    Raises:
        UserError: the format cannot hold the model, or there is nothing to try it on.
        ParityError: the export does not answer as the run does, and is not kept.
        MachineError: it cannot be written.
    """
    from t2t.export.formats import check_request

    folder = local_path(export_dir)
    check_request(format, quantization, folder)  # before TensorFlow is loaded

    from t2t.runs.exporting import ExportOptions, export_run
    from t2t.runs.loading import load as load_run

    options = ExportOptions(
        folder=folder,
        format=format,
        quantization=quantization,
        n_best=n_best,
        parity_file=str(parity_file),
        parity_lines=parity_lines,
        data_dir=str(data_dir),
    )
    return export_run(load_run(output_dir, checkpoint, usr_dir, hparams, problem), options)
