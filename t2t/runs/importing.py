"""Writes an imported model of any format as a run that the commands can decode and train."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.checkpoints.compatibility import architecture_state, match, vocabularies_state
from t2t.checkpoints.run_dir import RunDir, lock_run
from t2t.checkpoints.run_record import RunRecord, versions
from t2t.checkpoints.store import CheckpointStore
from t2t.errors import UserError, first_few
from t2t.formats.importer import ForeignRun, ImportRequest
from t2t.hparams.base import HParams
from t2t.hparams.field import complaint
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.override import format_overrides
from t2t.models.base import SequenceModel
from t2t.problems.base import Problem
from t2t.registry import IMPORTERS, MODELS
from t2t.registry.overrides import PluginError, described, plugin_errors, shown
from t2t.runs.names import get_hparams
from t2t.text.vocabulary_files import describe_encoders
from t2t.training.optimizers import build_optimizer


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """Summary of an import."""

    run: ForeignRun
    parameters: int

    def lines(self) -> list[str]:
        """Returns the lines of the report."""
        run = self.run
        moments = "with Adam's moments" if run.moments else "without Adam's moments: training starts with empty ones"
        return [
            f"problem {run.problem.name}, model {run.model}, update {run.step}, {moments}",
            f"{run.tensors} tensors became {len(run.weights)} weights of {self.parameters:,} parameters",
            *run.notes,
            f"not needed: {self._unused() or 'none'}",
            *(f"warning: {text}" for text in run.warnings),
        ]

    def _unused(self) -> str:
        """Returns the names of unused tensors, grouped by reason."""
        reasons = dict.fromkeys(self.run.unused.values())
        names = [", ".join(name for name, why in self.run.unused.items() if why == reason) for reason in reasons]
        return "; ".join(f"{listed} ({reason})" for listed, reason in zip(names, reasons, strict=True))


def import_run(request: ImportRequest) -> ImportReport:
    """Converts a foreign model to a run directory.

    Raises:
        UserError: a file is missing or damaged, the network is not supported, a tensor is missing, unused or of the
            wrong shape, or the output directory already contains a run.
        MachineError: the output directory cannot be written.
    """
    importer = IMPORTERS.get(request.format)
    with plugin_errors(importer, "failed"):
        found = importer(request)
    if not isinstance(found, ForeignRun):
        raise PluginError(f"{described(importer)} returned {shown(found)}", "return a t2t.formats.importer.ForeignRun")
    kinds: dict[str, type] = {"problem": Problem, "hparams": HParams, "weights": Mapping, "moments": Mapping}
    for name, kind in kinds.items():
        if not isinstance(value := getattr(found, name), kind):
            raise PluginError(f"{described(importer)}: {name} is {shown(value)}", f"give a {kind.__name__}")
    return write_run(request.output_dir, found)


def write_run(folder: Path, run: ForeignRun) -> ImportReport:
    """Writes record, vocabularies and checkpoint; raises as `import_run`."""
    run = _without_impossible_search(run)
    run.hparams.replace().freeze()
    model = MODELS.get(run.model)(run.hparams, run.problem.spec())
    _check_shapes(run, model)
    for moment, arrays in run.moments.items():
        if missing := {_inner_path(v.path) for v in model.trainable_variables} - arrays.keys():
            raise UserError(
                f"{run.origin}: moments={moment} lacks {first_few(sorted(missing), ', ')}", "give all moments or none"
            )
    record = _record(run)
    with lock_run(folder):
        written = RunDir.create(folder, record, run.problem.encoders)
        CheckpointStore(written.checkpoints_folder).save(
            run.step,
            model={v.path: np.asarray(run.weights[_inner_path(v.path)]) for v in model.variables},
            optimizer=_optimizer_arrays(run, model) if run.moments else None,
            state={
                "seed": 0,
                "data": {},
                **vocabularies_state(record.vocabularies),
                **architecture_state(record.model, model.hparams),
            },
        )
    return ImportReport(run, model.count_params())


def _without_impossible_search(run: ForeignRun) -> ForeignRun:
    """Returns the run without search settings that the hparams here cannot have, with a warning about each."""
    usual, wrong = get_hparams(run.hparams_set), dict[str, str]()
    for field in dataclasses.fields(DecodeHParams):
        if text := complaint(field, getattr(run.hparams, field.name)):
            wrong[field.name] = f"left out, {field.name} is {getattr(usual, field.name)}: {text}"
    hparams = run.hparams.replace(**{name: getattr(usual, name) for name in wrong})
    return dataclasses.replace(run, hparams=hparams, warnings=(*run.warnings, *wrong.values()))


def _inner_path(path: str) -> str:
    """Returns the path of a variable without the model's name."""
    return path.partition("/")[2]


def _check_shapes(run: ForeignRun, model: SequenceModel) -> None:
    """Raises UserError unless both sides have the same variables of the same shapes."""
    report = match(
        {name: np.asarray(array) for name, array in run.weights.items()},
        {_inner_path(v.path): v.shape for v in model.variables},
    )
    if not report.is_exact:
        raise UserError(
            f"{run.origin} does not fit {run.settings} ({model.spec.targets.vocab_size} ids): "
            f"{'; '.join(report.differences())}",
            "give the files of one run",
        )


def _record(run: ForeignRun) -> RunRecord:
    changed = run.hparams.difference(get_hparams(run.hparams_set))
    return RunRecord(
        problem=run.problem.name,
        model=run.model,
        hparams_set=run.hparams_set,
        overrides=format_overrides({name: value for name, (_, value) in changed.items()}),
        hparams=run.hparams.to_dict(),
        problem_options=run.problem.options.changed(),
        spec=run.problem.spec(),
        vocabularies=describe_encoders(run.problem.encoders),
        versions=versions(),
    )


def _optimizer_arrays(run: ForeignRun, model: SequenceModel) -> dict[str, np.ndarray]:
    """Returns the optimizer's state by slot name."""
    optimizer: Any = build_optimizer(run.hparams)
    optimizer.build(model.trainable_variables)
    slots = {
        f"{optimizer.name}/{v.path.replace('/', '_')}_{moment}": arrays[_inner_path(v.path)]
        for moment, arrays in run.moments.items()
        for v in model.trainable_variables
    }
    counted = {optimizer.iterations.path: np.asarray(run.step, optimizer.iterations.dtype)}
    return {v.path: (slots | counted)[v.path] for v in optimizer.variables if v.path != optimizer.learning_rate.path}
