"""The record of a training run in its directory."""

import dataclasses
import importlib
import platform
from collections.abc import Sequence
from typing import Any

import keras

import t2t
from t2t.checkpoints.run_record import RunRecord
from t2t.files.paths import to_record
from t2t.hparams.base import HParams
from t2t.runs.data import OpenData
from t2t.runs.experiment import MAY_CHANGE_ON_RESUME, Experiment
from t2t.specs.features import ProblemSpec
from t2t.specs.mixture import merge_problem_entries, mixture_of
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import describe_encoders


def changeable_fields(begun: RunRecord, data: Sequence[OpenData]) -> tuple[str, ...]:
    """Returns the fields of a run's record that may change when it is resumed, paths of raw files included."""
    # The first runs had paths in the fingerprint of their data.
    same_data = ("data_fingerprint",) if begun.data_fingerprint == data[0].former_fingerprint else ()
    files = merge_problem_entries({one.problem.name: dict.fromkeys(one.problem.options.file_names()) for one in data})
    return (*MAY_CHANGE_ON_RESUME, *files, *same_data)


def encoders_of(data: Sequence[OpenData]) -> dict[str, TextEncoder]:
    """Returns the vocabulary of each text feature by its name in a run."""
    return merge_problem_entries({one.problem.name: one.problem.encoders for one in data})


def spec_of(data: Sequence[OpenData]) -> ProblemSpec:
    """Returns the features that a model is built for."""
    return joined_spec([one.problem.spec() for one in data])


def joined_spec(specs: Sequence[ProblemSpec]) -> ProblemSpec:
    """Returns the features of one problem, or of the mixture of several."""
    if len(specs) == 1:
        return specs[0]
    return ProblemSpec(name=mixture_of(spec.name for spec in specs), members=tuple(specs))


def record_of(
    experiment: Experiment, hparams: HParams, data: Sequence[OpenData], warm_start: dict[str, Any]
) -> RunRecord:
    """Returns the record of a run with its final hparams; see `RunRecord.warm_start`."""
    config = experiment.config
    return RunRecord(
        problem=config.problem,
        model=config.model,
        hparams_set=config.hparams_set,
        overrides=config.hparams,
        hparams=hparams.to_dict(),
        problem_options=merge_problem_entries({one.problem.name: one.problem.options.changed() for one in data}),
        spec=spec_of(data),
        data_fingerprint="+".join(one.fingerprint for one in data),
        distilled={
            one.problem.name: dataclasses.asdict(one.manifest.distilled) for one in data if one.manifest.distilled
        },
        data_dir=to_record(config.data_folder),
        vocabularies=describe_encoders(encoders_of(data)),
        plugins=[plugin.to_dict() for plugin in experiment.plugins],
        warm_start=warm_start,
        random_seed=config.random_seed,
        settings=config.remembered(),
        versions=versions(),
    )


def versions() -> dict[str, str]:
    """Returns the versions of the software of a run, Keras's backend among it."""
    backend = keras.backend.backend()
    return {
        "t2t": t2t.__version__,
        "python": platform.python_version(),
        backend: importlib.import_module(backend).__version__,
        "keras": keras.__version__,
    }
