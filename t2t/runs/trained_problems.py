"""The problems of a training run with their data, models and batches. Does not load TensorFlow."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t.checkpoints.run_dir import RunDir
from t2t.data.generation.tally import report_normalized
from t2t.data.reading.batch_arrays import Arrays, extreme_batches
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.reader import CutReader, SplitReader, checked_columns
from t2t.data.reading.training_batches import Curriculum, TrainingBatches
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.inference.rows import USUAL_LONGEST, ModelFacts
from t2t.metrics import higher_is_better, is_text_metric
from t2t.metrics.token import FIGURES, LABEL
from t2t.problems.base import Problem
from t2t.registry import METRICS
from t2t.runs.config import RunConfig
from t2t.runs.data import OpenData
from t2t.runs.names import set_batch_size
from t2t.specs import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class TrainedProblem:
    """One of the problems of a run."""

    name: str
    """Empty if it is the only one."""
    data: OpenData
    model: "SequenceModel"
    """With the problem's modalities."""
    hparams: HParams
    """With the problem's batch size."""
    batches: TrainingBatches
    best_metric: str

    def warm_up_batches(self, every_shape: bool = False) -> list[Arrays]:
        """Returns dummy batches of the extreme shapes of training, the longest and the most rows.

        With `every_shape`, one of every fixed shape, the largest first.
        """
        hparams, batches = self.hparams, self.batches
        return extreme_batches(
            self.data.readers[TRAIN],
            self.data.problem.columns,
            hparams.batch_size,
            hparams.max_length,
            batches.shapes,
            batches.resized,
            every_shape,
        )


def build_parts(
    model: "SequenceModel", data: Sequence[OpenData], hparams: HParams, config: RunConfig, per_update: int, is_new: bool
) -> list[TrainedProblem]:
    """Returns a part for each problem of a run with `per_update` batches per update.

    Raises:
        UserError: hparams, such as `max_length`, that do not fit a problem or its data. A resumed run (not `is_new`)
            may skip any number of long examples.
    """
    parts = []
    if hparams.shared_modalities:
        _check_same_vocabularies(data)
    names = [one.problem.name for one in data]
    for one in data:
        own, view = set_batch_size(hparams, names, one.problem.name), model.for_problem(one.problem.name)
        preprocessors, masking = one.problem.stored.preprocessors(), one.problem.masking()
        if masking is not None and view.reads_targets(view.spec):
            raise UserError(
                f"problem {one.problem.name}: hidden words are predicted only from inputs, and {type(view).__name__} "
                "reads targets, too",
                "train --model=transformer_mlm",
            )
        curriculum = None
        if own.curriculum_length:
            first = min(own.curriculum_length, own.max_length)
            curriculum = Curriculum(first, own.max_length, own.curriculum_steps * per_update)
        batches = build_training_batches(one, own, config.random_seed, curriculum)
        if preprocessors:
            log.info("training examples of %s are changed by %s", one.problem.name, ", ".join(map(repr, preprocessors)))
        _report_examples(batches, one, own.max_length, is_new)
        best_metric = resolve_best_metric(own, one.problem, view, config)
        parts.append(TrainedProblem(one.problem.name if len(data) > 1 else "", one, view, own, batches, best_metric))
    return parts


def _check_same_vocabularies(data: Sequence[OpenData]) -> None:
    """Raises UserError if problems that share their modalities have different vocabularies."""
    first = data[0].problem
    for one in data[1:]:
        for feature, encoder in one.problem.encoders.items():
            if encoder.fingerprint != first.encoders[feature].fingerprint:
                raise UserError(
                    f"{first.name} and {one.problem.name} have different vocabularies of {feature}",
                    "generate the data of all problems with one --shared_vocab_file",
                    hparam="shared_modalities",
                    value="True",
                )


def resolve_best_metric(hparams: HParams, problem: Problem, model: "SequenceModel", config: RunConfig) -> str:
    """Returns the full name of the figure that selects the best checkpoint; `best_metric` may omit its label.

    Raises:
        UserError: no such figure, a text metric for a model that does not decode, or early stopping without evaluation.
    """
    name = hparams.best_metric or next(iter(problem.metrics), "loss")
    if name in FIGURES and name not in METRICS:
        name = LABEL + name
    higher_is_better(name)  # raises for an unknown one
    if is_text_metric(name) and not decodes(model, problem):
        why = "has no inputs to decode" if problem.masking() is None else "predicts hidden words and no whole outputs"
        raise UserError(
            f"{problem.name} {why}",
            f"choose a teacher-forced figure, e.g. {LABEL}loss",
            hparam="best_metric",
            value=name,
        )
    if hparams.early_stopping_steps and not config.evaluates:
        raise UserError(
            "this run does not evaluate",
            "leave it out or train with --schedule=continuous_train_and_eval and --eval_steps above 0",
            hparam="early_stopping_steps",
            value=hparams.early_stopping_steps,
        )
    return name


def _report_examples(batches: TrainingBatches, data: OpenData, max_length: int, is_new: bool) -> None:
    """Warns of training texts that the vocabulary changes, and of examples above `max_length`.

    Raises:
        UserError: a new run would skip half of all examples.
    """
    train = data.manifest.split(TRAIN)
    report_normalized(TRAIN, train.normalized, train.examples)
    longer, count = batches.skipped + batches.shortened, len(data.readers[TRAIN])
    if not longer:
        return
    found = (
        f"hparam max_length={max_length}: {longer / count:.1%} of the training examples of {data.problem.name} "
        f"({longer:,} of {count:,}) are longer"
    )
    is_cut = hasattr(getattr(data.problem, "options", None), "cut_length")
    shorter = "generate data with a smaller --cut_length" if is_cut else "make the examples shorter"
    cure = f"raise max_length (the longest has {batches.longest:,}) or {shorter}"
    if is_new and 2 * batches.skipped >= count:
        raise UserError(f"{found} and would be skipped", cure)
    log.warning("%s and are %s; to learn from them whole, %s", found, "skipped" if batches.skipped else "cut", cure)


def micro_batches_of(hparams: HParams, replicas: int) -> int:
    """Returns the number of batches of each replica in an update; warns if `effective_batch_size` is no multiple.

    Of problems with different batch sizes, the largest counts.
    """
    batch_size = max(size or hparams.batch_size for size in hparams.problem_batch_sizes)
    step = batch_size * replicas
    count = max(1, round(hparams.effective_batch_size / step))
    if hparams.effective_batch_size and abs(count * step / hparams.effective_batch_size - 1) > 0.1:
        log.warning(
            "effective_batch_size=%d is not a multiple of batch_size=%d%s: an update has %d",
            hparams.effective_batch_size, batch_size, f" on each of {replicas} replicas" * (replicas > 1), count * step,
        )  # fmt: skip
    return count


def cut_reader(data: OpenData, split: str, hparams: HParams) -> SplitReader:
    """Returns the reader of a split, whose texts are cut as `max_input_seq_length` and its sibling say."""
    reader, columns = data.readers[split], checked_columns(data.readers[split], data.problem.columns)
    limits = {INPUTS: hparams.max_input_seq_length, TARGETS: hparams.max_target_seq_length}
    most = {columns[name]: limit for name, limit in limits.items() if limit and name in columns}
    most = {stored: limit for stored, limit in most.items() if reader.features[stored].kind == FeatureKind.TOKENS}
    return CutReader(reader, most) if most else reader


def build_training_batches(
    data: OpenData, hparams: HParams, seed: int, curriculum: Curriculum | None = None
) -> TrainingBatches:
    """Returns the training batches of a problem; `hparams` have its batch size.

    Raises:
        UserError: hparams, such as `max_length`, that do not fit the data.
    """
    return TrainingBatches(
        cut_reader(data, TRAIN, hparams),
        seed=seed,
        batch_size=hparams.batch_size,
        window=hparams.shuffle_window,
        columns=data.problem.columns,
        max_length=hparams.max_length,
        ladder_step=hparams.length_bucket_step,
        fixed_shapes=hparams.fixed_shapes,
        fixed_shapes_multiple=max(1, hparams.fixed_shapes_multiple),
        packed_length=hparams.packed_length,
        curriculum=curriculum,
        preprocessors=data.problem.stored.preprocessors(),
        masking=data.problem.masking(),
    )


def batches_of_run(run: RunDir, data: OpenData, split: str) -> TrainingBatches | EvalBatches:
    """Returns the batches of a split of a run's data: training batches, or those of a full evaluation.

    An evaluation also cuts examples at the model's maximum length, which is not known here.

    Raises:
        UserError: as `build_training_batches`.
    """
    shared = {field.name for field in dataclasses.fields(HParams)}
    recorded = run.record.hparams.items()
    kept = {section: {name: value for name, value in values.items() if name in shared} for section, values in recorded}
    hparams = set_batch_size(HParams.from_dict(kept), run.record.problems, data.problem.name)
    if split == TRAIN:
        return build_training_batches(data, hparams, run.seed)
    longest = hparams.max_input_length or max(USUAL_LONGEST, hparams.max_length)
    return EvalBatches(
        cut_reader(data, split, hparams),
        hparams.batch_size,
        columns=data.problem.columns,
        max_length=longest,
        ladder_step=1.0,
    )


def decodes(model: ModelFacts, problem: Problem) -> bool:
    """Returns whether a model decodes inputs to outputs that can be compared with references.

    A masked language model is trained on hidden words only; its predictions for other words mean nothing.
    """
    answers = model.spec.inputs is not None and model.spec.targets.kind in (FeatureKind.TOKENS, FeatureKind.LABEL)
    return answers and problem.masking() is None
