"""Imports a run of Tensor2Tensor as a run that the commands decode and go on training."""

import dataclasses
import logging
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from t2t.checkpoints import architectures, vocabularies
from t2t.checkpoints.run_dir import RunDir, RunRecord, lock_run
from t2t.checkpoints.store import CheckpointStore
from t2t.checkpoints.transfer import match
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.override import format_overrides
from t2t.importing.tensor2tensor import files
from t2t.importing.tensor2tensor.hparams import translate
from t2t.importing.tensor2tensor.names import network_name
from t2t.importing.tensor2tensor.weights import Converted, convert
from t2t.models.base import SequenceModel
from t2t.problems.base import Problem
from t2t.problems.text_problems import TextProblem
from t2t.registry import MODELS
from t2t.runs.names import get_hparams, get_text_problem
from t2t.runs.recording import versions
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import describe_encoders, read_vocabulary
from t2t.training.optimizers import build_optimizer

log = logging.getLogger("t2t")

MODEL, HPARAMS_SET = "transformer", "transformer_base"

_TARGET_SPACES = (
    (r"ende.*char", 7), (r"ende.*bpe", 9), (r"ende.*_rev|enfr.*_rev", 3), (r"ende", 8),
    (r"enfr.*char", 5), (r"enfr", 6), (r"parsing.*char", 14), (r"parsing", 15), (r"enzh", 16),
)  # fmt: skip
"""Patterns of Tensor2Tensor's problem names, and their row of its table of target spaces; 0 is the generic one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What to import; problem, step and target space are by default those of `flags.txt`, the latest, the problem's."""

    t2t_dir: Path
    vocab_file: Path
    output_dir: Path
    problem: str = ""
    step: int | None = None
    target_space_id: int | None = None


@dataclasses.dataclass(frozen=True)
class ImportReport:
    """Summary of an import."""

    problem: str
    converted: Converted
    parameters: int
    target_space_id: int
    warnings: tuple[str, ...]

    def lines(self) -> list[str]:
        """Returns the report, a line each."""
        found = self.converted
        moments = "with Adam's moments" if found.moments else "without Adam's moments: training starts with empty ones"
        return [
            f"problem {self.problem}, model {MODEL}, update {found.step}, {moments}",
            f"{found.variables} variables became {len(found.weights)} weights of {self.parameters:,} parameters; "
            f"target space {self.target_space_id}",
            f"not needed: {', '.join(found.unused) or 'none'}",
            *(f"warning: {text}" for text in self.warnings),
        ]


def import_run(request: ImportRequest) -> ImportReport:
    """Makes a run directory of a Tensor2Tensor folder and its vocabulary.

    Raises:
        UserError: a file is missing or damaged, the network is another than the Transformer here, a variable is
            missing, left over or of the wrong shape, or the output directory holds a run.
        MachineError: the output directory cannot be written.
    """
    values = files.read_hparams(request.t2t_dir)
    problem = _problem(request, read_vocabulary(request.vocab_file))
    space = request.target_space_id
    if space is None:
        space = next((number for pattern, number in _TARGET_SPACES if re.search(pattern, problem.name)), 0)
    variables = files.read_variables(files.find_checkpoint(request.t2t_dir, request.step))
    hparams, warnings = translate(values, attention_bias=_has_attention_bias(variables))
    hparams.target_space_embedding = any(name.endswith("target_space_embedding/kernel") for name in variables)
    converted = convert(variables, hparams.key_channels, hparams.value_channels, space)
    model = MODELS.get(MODEL)(hparams, problem.spec())
    _check_shapes(converted.weights, model, request)
    _write(request.output_dir, _record(problem, hparams), problem.encoders, model, hparams, converted)
    return ImportReport(problem.name, converted, model.count_params(), space, warnings)


def _problem(request: ImportRequest, encoder: TextEncoder) -> Problem:
    """Returns the problem with the vocabulary on every text feature."""
    flags = files.read_flags(request.t2t_dir)
    name = request.problem or flags.get("problem") or flags.get("problems")
    if not name:
        raise UserError(
            f"--problem: not given, and {request.t2t_dir} has no flags.txt that names it; name the problem here "
            f"that the run was trained on"
        )
    problem = get_text_problem(name)
    assert isinstance(problem.stored, TextProblem), "others have been refused"
    return problem.with_encoders(dict.fromkeys(problem.stored.text_features, encoder))


def _has_attention_bias(variables: Mapping[str, np.ndarray]) -> bool:
    names = filter(None, map(network_name, variables))
    return any(re.search(r"attention/.*(?:_transform|/[qkv])(?:_single)?/bias$", name) for name in names)


def _inner_path(path: str) -> str:
    """Returns the path of a variable without the model's name."""
    return path.partition("/")[2]


def _check_shapes(weights: Mapping[str, np.ndarray], model: SequenceModel, request: ImportRequest) -> None:
    """Raises UserError unless both sides have the same variables of the same shapes."""
    report = match(weights, {_inner_path(v.path): v.shape for v in model.variables})
    if not report.is_exact:
        raise UserError(
            f"the checkpoint in {request.t2t_dir} does not fit its hparams.json and {request.vocab_file} "
            f"({model.spec.targets.vocab_size} ids): {'; '.join(report.differences())}; give the files of one run"
        )


def _record(problem: Problem, hparams: HParams) -> RunRecord:
    changed = hparams.difference(get_hparams(HPARAMS_SET))
    return RunRecord(
        problem=problem.name,
        model=MODEL,
        hparams_set=HPARAMS_SET,
        overrides=format_overrides({name: value for name, (_, value) in changed.items()}),
        hparams=hparams.to_dict(),
        spec=problem.spec(),
        vocabularies=describe_encoders(problem.encoders),
        versions=versions(),
    )


def _write(folder: Path, record: RunRecord, encoders, model: SequenceModel, hparams: HParams, found: Converted) -> None:
    with lock_run(folder):
        RunDir.abandon_unstarted(folder)
        run = RunDir.create(folder, record, encoders)
        CheckpointStore(run.checkpoints_folder).save(
            found.step,
            model={v.path: found.weights[_inner_path(v.path)] for v in model.variables},
            optimizer=_optimizer_arrays(model, hparams, found) if found.moments else None,
            state={
                "seed": 0,
                "data": {},
                **vocabularies.to_state(record.vocabularies),
                **architectures.to_state(record.model, model.hparams),
            },
        )


def _optimizer_arrays(model: SequenceModel, hparams: HParams, found: Converted) -> dict[str, np.ndarray]:
    """Returns the optimizer's state by slot name."""
    optimizer = build_optimizer(hparams)
    optimizer.build(model.trainable_variables)
    theirs = {
        f"{optimizer.name}/{v.path.replace('/', '_')}_{moment}": arrays[_inner_path(v.path)]
        for moment, arrays in found.moments.items()
        for v in model.trainable_variables
    }
    counted = {optimizer.iterations.path: np.asarray(found.step, optimizer.iterations.dtype)}
    return {v.path: (theirs | counted)[v.path] for v in optimizer.variables if v.path != optimizer.learning_rate.path}
