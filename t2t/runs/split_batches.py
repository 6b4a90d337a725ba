"""The batches of the splits of a run's data, made without its model and without TensorFlow."""

import dataclasses

from t2t.checkpoints.run_dir import RunDir
from t2t.data.eval_batches import EvalBatches
from t2t.data.reader import CutReader, SplitReader, checked_columns
from t2t.data.training_batches import Curriculum, TrainingBatches
from t2t.hparams.base import HParams
from t2t.inference.rows import USUAL_LONGEST
from t2t.runs.data import OpenData
from t2t.runs.run_checks import set_batch_size
from t2t.specs.constants import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind


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
