"""The commands that use trained runs as Python functions, see `t2t.runs.api`.

Legend: L layers, H heads, Q queries, K keys.
"""

# Arguments arrive as texts, see `checks_arguments`, which their annotations do not say:
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from t2t.errors import UserError
from t2t.files.paths import StrPath, local_path
from t2t.formats.exporter import check_request
from t2t.inference.engine import EngineChoice
from t2t.runs.arguments import as_options, as_path, checks_arguments
from t2t.runs.config import ShortlistOptions
from t2t.runs.startup import load_plugins_quietly, prepare_framework, quietly
from t2t.specs import DEFAULT_DATA_DIR, DEV

if TYPE_CHECKING:
    from t2t.formats.parity import Parity
    from t2t.inference.translator import Translator
    from t2t.runs.evaluation import Evaluation
    from t2t.runs.loading import LoadedRun
    from t2t.runs.shortlist import ShortlistReport


@checks_arguments()
def load(
    output_dir: StrPath | Sequence[StrPath],
    checkpoint: StrPath | int = "latest",
    t2t_usr_dir: StrPath | None = None,
    problem: str = "",
    *,
    worker_gpu: int = 0,
    worker_cpu: int = 0,
    weight_shards: int = 1,
    engine: str = "auto",
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
    - `align(pairs)`: the word alignment of each pair; for outputs, use `translate(texts, alignments=True)`;
    - `attend(source, target=None)`: `maps` of each kind of attention, whose `weights` are (L, H, Q, K) float32;
    - `adapters["law"]`: the translator with the adapters of that name; it shares the weights of this one.

    Args:
        output_dir: folder of a run, or the folders of several with the same vocabularies, which decode as an ensemble.
        checkpoint: `latest`, `best`, `best.<problem>`, `best:5` for the mean of the best 5, `averaged`, a step, or
            the folder of a checkpoint.
        t2t_usr_dir: folder of the plug-in that the run was trained with, if any.
        problem: name of the problem to decode, if the run was trained on several.
        worker_gpu: GPUs to decode on; 0 = all that are visible.
        worker_cpu: copies of the model on the processor instead of GPUs; 0 = use GPUs, or one copy.
        weight_shards: devices that share one copy of the weights, for models too large for one device; more than 1
            requires JAX.
        engine: what decodes and scores: `tensorflow`, the model itself; `ctranslate2`; or `auto`, which uses
            CTranslate2 on processors if it is installed, supports the model and the search, and gives the same outputs
            for some inputs. A changed weight of `model` changes outputs with `tensorflow` only.
        compute_type: number type of CTranslate2's matrix products: `float32`, `int8`, `int16` or `bfloat16`.
        ensemble_average: what an ensemble averages for each token: `probabilities` or `log_probabilities`.
        source_language: language code of the inputs, for runs with language codes in their vocabulary; empty for the
            problem's.
        target_language: language code of the outputs, for these runs and runs with language tags; it may make a
            language pair that was not trained; empty for the problem's.
        adapters: name -> run of adapters trained on this checkpoint, or one of its checkpoints: `{"law": "law_run"}`.

    Raises:
        ArgumentError: an argument of the wrong type.
        UserError: no run, no such checkpoint, a missing plug-in, more GPUs than are visible, an engine that is not
            installed or does not support the model, or adapters of another checkpoint.
    """
    choice, languages = EngineChoice.requested(engine, compute_type), (source_language, target_language)
    from t2t.checkpoints.run_dir import RunDir, run_and_checkpoint
    from t2t.runs import loading
    from t2t.runs.run_checks import check_engine_of_adapters, check_own_checkpoints

    def load_one(folder: str, engine: EngineChoice | None = None) -> LoadedRun:
        own = _problem_of(folder, problem, target_language, t2t_usr_dir)
        devices = worker_gpu, worker_cpu, weight_shards
        return loading.load(folder, checkpoint, t2t_usr_dir, "", own, devices, engine)

    several = (
        output_dir if isinstance(output_dir, Sequence) and not isinstance(output_dir, str | bytes) else [output_dir]
    )
    folders = [as_path("output_dir", one, "the folder of a run") for one in several]
    adapter_runs = as_options("adapters", adapters)
    runs = {name: as_path("adapters", run, "a run for each name") for name, run in adapter_runs.items()}
    if runs:
        check_engine_of_adapters(choice)
    if len(folders) == 1:
        base = load_one(folders[0], choice).with_languages(*languages)
        translator = base.translator()
        for name, run in runs.items():
            own = _problem_of(run_and_checkpoint(run)[0], problem, target_language, t2t_usr_dir)
            adapted = loading.load_adapters([base], run, t2t_usr_dir, "", own)
            translator.adapters = {**translator.adapters, name: adapted.with_languages(*languages).translator()}
        return translator
    if runs:
        raise UserError(
            "they change the weights of one run, and --output_dir names several", "name one", option="adapters"
        )
    check_own_checkpoints([RunDir.open(one) for one in folders], checkpoint)
    return loading.load_ensemble(folders, load_one, ensemble_average, choice).with_languages(*languages).translator()


@checks_arguments()
def evaluate(
    output_dir: StrPath,
    data_dir: StrPath = DEFAULT_DATA_DIR,
    split: str = DEV,
    *,
    checkpoint: StrPath | int = "latest",
    eval_steps: int = 0,
    t2t_usr_dir: StrPath | None = None,
    problem: str = "",
    hparams: str | Mapping[str, Any] = "",
    worker_gpu: int = 0,
    worker_cpu: int = 0,
    weight_shards: int = 1,
    engine: str = "tensorflow",
    compute_type: str = "float32",
) -> dict[str, Evaluation]:
    """Evaluates a run on a split of generated data, as `t2t-eval` does.

    Args:
        output_dir: folder of the run.
        data_dir: folder of generated data.
        split: `train`, `dev` or `test`.
        checkpoint: see `load`.
        eval_steps: number of batches, from the start of the split; 0 for all.
        t2t_usr_dir: see `load`.
        problem: only this one of a run of several; empty for all.
        hparams: decoding hparams to change, see `export_model`.
        worker_gpu: see `load`.
        worker_cpu: see `load`.
        weight_shards: see `load`.
        engine: see `load`.
        compute_type: see `load`.

    Returns:
        problem -> its evaluation. `figures` are teacher-forced: `{"teacher_forced/loss": 1.23, ...}`, in nats per
        token. `scores` are of decoded outputs, by the metrics of the problem; printed, each has its signature.

    Raises:
        ArgumentError: an argument of the wrong type.
        UserError: see `load`; no data, no such split, or data of another vocabulary.
    """
    from t2t.checkpoints.run_dir import RunDir
    from t2t.runs import evaluation
    from t2t.runs.loading import load as load_run
    from t2t.runs.run_checks import check_loadable

    choice, devices = EngineChoice.requested(engine, compute_type), (worker_gpu, worker_cpu, weight_shards)
    run = RunDir.open(output_dir)
    check_loadable(run, load_plugins_quietly(t2t_usr_dir), checkpoint, hparams)  # before TensorFlow is loaded

    def load_one(name: str) -> LoadedRun:
        return load_run(output_dir, checkpoint, t2t_usr_dir, hparams, name, devices, choice)

    found = evaluation.open_split(run, load_one, problem, data_dir, split)
    return {loaded.problem.name: evaluation.evaluate(loaded, data, split, eval_steps) for loaded, data in found}


@checks_arguments()
def export_model(
    output_dir: StrPath,
    export_dir: StrPath,
    format: str = "saved_model",
    *,
    data_dir: StrPath = "",
    checkpoint: StrPath | int = "latest",
    t2t_usr_dir: StrPath | None = None,
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
        export_dir: folder to create; must not exist yet.
        format: `saved_model`, `ctranslate2`, `onnx`, `litert`, `marian` or `huggingface`.
        data_dir: folder of generated data, whose dev split the two are compared on; empty for the default folder if
            it has the run's data, else for random texts from the run's vocabulary.
        checkpoint: see `load`.
        t2t_usr_dir: see `load`.
        problem: see `load`.
        hparams: decoding hparams to change: `{"beam_size": 8, "alpha": 1.0}`, or `beam_size=8,alpha=1.0`.
        n_best: outputs for each input; None for 1, or for all classes of a classifier.
        quantization: `float32`; `float16` for litert; `int8` for ctranslate2 and litert.
        parity_file: text file whose lines are compared instead of the dev split.
        parity_lines: maximum number of inputs to compare.
        source_language: see `load`; fixed in the export.
        target_language: see `load`; fixed in the export.

    Returns:
        the comparison of the two, by kind of request.

    Raises:
        ArgumentError: an argument of the wrong type.
        UserError: the format does not support the model, or there are no inputs to compare.
        ParityError: the outputs differ; the export is not kept.
        MachineError: the export cannot be written.
    """
    folder = local_path(export_dir)
    check_request(format, quantization, folder)  # before TensorFlow is loaded
    prepare_framework()
    with quietly():  # also where Keras runs on JAX, for which exports are refused
        from t2t.runs.exporting import export_run

    from t2t.runs.loading import load as load_run

    own = _problem_of(output_dir, problem, target_language, t2t_usr_dir)
    loaded = load_run(output_dir, checkpoint, t2t_usr_dir, hparams, own)
    loaded = loaded.with_languages(source_language, target_language)
    return export_run(loaded, folder, format, quantization, n_best, parity_file, parity_lines, data_dir)


@checks_arguments([field.name for field in fields(ShortlistOptions)])
def learn_shortlist(
    output_dir: StrPath,
    data_dir: StrPath = DEFAULT_DATA_DIR,
    *,
    t2t_usr_dir: StrPath | None = None,
    problem: str = "",
    **options: Any,
) -> ShortlistReport:
    """Learns the output pieces that are likely for an input, as `t2t-shortlist` does, and stores them in the run.

    `translate(texts, shortlist=True)` then searches only among these.

    Args:
        output_dir: folder of the run.
        data_dir: folder of generated data that the run was trained on.
        t2t_usr_dir: see `load`.
        problem: see `load`.
        options: fields of `t2t.runs.config.ShortlistOptions`: `frequent`, `translations`, `max_examples`.

    Returns:
        the report. On the dev split, `candidates` is the mean number of candidate pieces for an input, and `coverage`
        the fraction of reference pieces that are candidates for their input.

    Raises:
        ArgumentError: an unknown option, or an argument of the wrong type.
        UserError: no run, a problem that is not from text to text, or data of another run.
        MachineError: the shortlist cannot be written.
    """
    from t2t.checkpoints.run_dir import RunDir
    from t2t.runs import shortlist
    from t2t.runs.run_checks import check_plugins, select_problem

    run = RunDir.open(output_dir)
    check_plugins(run, load_plugins_quietly(t2t_usr_dir))
    return shortlist.learn_shortlist(run, data_dir, select_problem(run, problem), ShortlistOptions(**options))


@checks_arguments()
def distill(
    output_dir: StrPath,
    distilled_data_dir: StrPath,
    *,
    data_dir: StrPath = DEFAULT_DATA_DIR,
    n_best: int = 1,
    checkpoint: StrPath | int = "latest",
    t2t_usr_dir: StrPath | None = None,
    problem: str = "",
    hparams: str | Mapping[str, Any] = "",
    worker_gpu: int = 0,
    worker_cpu: int = 0,
    weight_shards: int = 1,
    engine: str = "tensorflow",
    compute_type: str = "float32",
) -> dict[str, int]:
    """Makes data to train a smaller model with, as `t2t-distill` does: its training targets are outputs of a run.

    The same call resumes an interrupted one.

    Args:
        output_dir: folder of the run that is the teacher.
        distilled_data_dir: folder for the distilled data, later the `data_dir` of `train`.
        data_dir: folder of generated data whose training split is decoded.
        n_best: number of outputs to choose from, at most the beam size. With more than 1, the output with the highest
            sentence BLEU against the reference is chosen.
        checkpoint: see `load`.
        t2t_usr_dir: see `load`.
        problem: see `load`.
        hparams: decoding hparams to change, see `export_model`.
        worker_gpu: see `load`.
        worker_cpu: see `load`.
        weight_shards: see `load`.
        engine: see `load`.
        compute_type: see `load`.

    Returns:
        the number of examples of each split: `{"train": 29000, "dev": 1014}`.

    Raises:
        ArgumentError: an argument of the wrong type.
        UserError: see `load`; no data, different data in `distilled_data_dir`, or a problem without inputs, with
            class targets, or that is a variant of another.
        MachineError: the data cannot be written.
    """
    from t2t.checkpoints.run_dir import RunDir
    from t2t.runs.distilling import check_distillation, distill_run
    from t2t.runs.loading import load as load_run
    from t2t.runs.run_checks import select_problem

    choice = EngineChoice.requested(engine, compute_type)
    load_plugins_quietly(t2t_usr_dir)
    run = RunDir.open(output_dir)
    name = select_problem(run, problem)
    check_distillation(run, name, data_dir, distilled_data_dir)  # before TensorFlow is loaded
    devices = worker_gpu, worker_cpu, weight_shards
    loaded = load_run(output_dir, checkpoint, t2t_usr_dir, hparams, name, devices, choice)
    manifest = distill_run(loaded, data_dir, distilled_data_dir, n_best)
    return {split: found.examples for split, found in manifest.splits.items()}


def _problem_of(output_dir: str, problem: str, language: str, t2t_usr_dir: str) -> str:
    """Returns the name of the problem to load, empty for that of a run of one; see `select_problem`."""
    if not language:
        return problem
    from t2t.checkpoints.run_dir import RunDir
    from t2t.runs.run_checks import select_problem

    load_plugins_quietly(t2t_usr_dir)
    return select_problem(RunDir.open(output_dir), problem, language)
