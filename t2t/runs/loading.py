"""From a run directory back to a model that decodes; nothing else is needed but, for a split's score, its data."""

import dataclasses
import logging

import keras

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.store import CheckpointStore
from t2t.checkpoints.transfer import require_exact
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.hparams.sections import ModelHParams
from t2t.inference import Translator
from t2t.models.base import SequenceModel
from t2t.plugins import Plugin, load_plugins
from t2t.problems.base import Problem
from t2t.registry import HPARAMS, MODELS
from t2t.run_dir import RunDir, RunRecord
from t2t.runs.names import hparams_named, problem_named, split_variants
from t2t.runs.vocabularies import check_same_vocabularies
from t2t.training.weights import assign_model

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True)
class LoadedRun:
    """A run with the weights of one checkpoint."""

    run: RunDir
    problem: Problem
    """With its vocabularies."""
    model: SequenceModel
    hparams: HParams
    checkpoint: Checkpoint

    def translator(self) -> Translator:
        """Returns what decodes with it."""
        return Translator(self.problem, self.model, self.hparams.decode)


def load(
    output_dir: str, checkpoint: str = "latest", usr_dir: str | None = None, decode_overrides: str = ""
) -> LoadedRun:
    """Loads a run.

    Args:
        output_dir: the run directory.
        checkpoint: `latest`, `best`, `averaged`, a step, or the folder of a checkpoint.
        usr_dir: folder of the plug-in that the run was trained with, where it was.
        decode_overrides: hparams of the decode section to change, e.g. `beam_size=8`.

    Raises:
        UserError: no run, a plug-in that is missing, or parts that do not fit each other.
    """
    run = RunDir.open(output_dir)
    plugins = load_plugins(usr_dir)
    check_plugins(run, plugins)
    record = run.record
    problem = problem_named(record.problem, record.problem_options).with_encoders(stored_encoders(run))
    model_class = MODELS.get(record.model)
    hparams = HParams.from_dict(record.hparams, _section(record, model_class))
    hparams = decode_differently(hparams, decode_overrides)
    read = CheckpointStore(run.checkpoints_folder).load_model(checkpoint)
    check_same_vocabularies(read, record.vocabularies, run.path, f"--checkpoint={checkpoint}")
    keras.utils.set_random_seed(0)
    model = model_class(hparams.model, record.spec)
    weights = read.weights
    require_exact(weights, {v.path: tuple(v.shape) for v in model.variables}, f"checkpoint {read.folder}")
    assign_model(model, weights)
    log.info("loaded checkpoint %s (%d updates)", read.folder, read.step)
    return LoadedRun(run, problem, model, hparams, read)


def _section(record: RunRecord, model_class: type[SequenceModel]) -> type[ModelHParams]:
    """Returns the model section that a run's set holds, which may have more than its model asks for."""
    wanted = model_class.hparams_class
    held = type(hparams_named(record.hparams_set).model) if record.hparams_set in HPARAMS else wanted
    return held if issubclass(held, wanted) else wanted


def decode_differently(hparams: HParams, overrides: str) -> HParams:
    """Returns hparams with overrides of the decode section.

    Raises:
        UserError: an override that is wrong, or of another section.
    """
    changed = hparams.override(overrides)
    for section, values in hparams.to_dict().items():
        others = [name for name in values if section != "decode" and getattr(changed, name) != getattr(hparams, name)]
        if others:
            raise UserError(f"hparam {others[0]} is no part of decoding; a trained run's can no longer be changed")
    return changed.freeze()


def stored_encoders(run: RunDir) -> dict:
    """Returns the vocabularies by the names under which the problem's data stores its features."""
    encoders = run.encoders()
    columns = problem_named(run.record.problem, run.record.problem_options).columns
    return encoders if columns is None else {columns[name]: encoder for name, encoder in encoders.items()}


def check_plugins(run: RunDir, plugins: list[Plugin]) -> None:
    """Demands the plug-ins that a run's problem or model came from; warns where their code has changed.

    Raises:
        UserError: one has not been loaded; a run directory never loads a stranger's code by itself.
    """
    loaded = {(plugin.kind, plugin.name): plugin for plugin in plugins}
    needed = {f"problem:{split_variants(run.record.problem)[0]}", f"model:{run.record.model}"}
    for recorded in run.record.plugins:
        found = loaded.get((recorded["kind"], recorded["name"]))
        if found is not None:
            if found.fingerprint != recorded["fingerprint"]:
                log.warning("plug-in %s has changed since %s was trained with it", recorded["name"], run.path)
        elif needed & set(recorded["registered"]):
            how = "pass its folder as --t2t_usr_dir" if recorded["kind"] == "usr_dir" else "install it"
            raise UserError(
                f"{run.path} was trained with the plug-in {recorded['name']!r}, which has not been loaded; {how}"
            )
