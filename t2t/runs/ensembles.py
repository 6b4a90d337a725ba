"""Several runs that decode as one, see `t2t.models.ensemble`."""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from t2t.errors import UserError
from t2t.inference.engine import AUTO, AVERAGES, CTRANSLATE2, EngineChoice
from t2t.runs.loading import LoadedRun, load
from t2t.runs.startup import prepare_framework

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel

log = logging.getLogger("t2t")


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
        raise UserError(f"--ensemble_average={average}: there is no such; ask for one of {', '.join(AVERAGES)}")
    if not folders:
        raise UserError("--output_dir: no run is named; name the folder of one or more")
    if engine.engine == CTRANSLATE2:
        raise UserError(
            f"--engine=ctranslate2: it searches with one model, and --output_dir names {len(folders)}; leave it out"
        )
    if engine.engine == AUTO:
        log.info("--engine=auto: TensorFlow decodes: CTranslate2 searches with one model")
    runs = [load(folder) for folder in folders]
    for run in runs:
        if run.model.mask_predicts:
            raise UserError(
                f"--output_dir: {run.run.path.name} is decoded by mask-predict, and an ensemble averages what models "
                f"predict token by token; name one run, or runs of another model"
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
            f"--output_dir: {names[0]} and {names[1]} have different vocabularies of {', '.join(differing)}; an "
            f"ensemble needs runs that were trained with the same ones"
        )
    problems = [run.problem.name for run in (first, other)]
    if problems[0] != problems[1]:
        raise UserError(
            f"--output_dir: {names[0]} is of {problems[0]} and {names[1]} of {problems[1]}; an ensemble needs runs of "
            f"one problem"
        )
    if first.model.autoregressive != other.model.autoregressive:
        raise UserError(
            f"--output_dir: of {names[0]} and {names[1]}, one decodes token by token and the other all at once; name "
            f"runs of one kind"
        )
