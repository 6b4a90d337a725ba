"""`t2t-insight`: web pages for inspecting runs, and training curves as a picture."""

import functools
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from absl import flags

from t2t.checkpoints.run_dir import RunDir, run_and_checkpoint
from t2t.checkpoints.store import CheckpointStore
from t2t.cli.common import command
from t2t.cli.decoding_flags import languages_of
from t2t.cli.flags import RUN, command_flags, flag_group
from t2t.cli.run_flags import check_run_loadable, load_run
from t2t.cli.server import SERVICE, define_server_flags, named_runs, needs_serving, problem_of, run_server
from t2t.cli.tensor2tensor import INSIGHT_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.output import check_output
from t2t.files.paths import ZOO_PREFIX, address_of, local_path, zoo_runs
from t2t.formats.exporter import is_export
from t2t.inference.split_examples import SplitExamples
from t2t.registry.plugins import load_plugins
from t2t.runs.data import OpenData, check_split, open_run_data
from t2t.runs.overview import find_runs
from t2t.runs.run_checks import check_plugins, open_run
from t2t.runs.startup import load_plugins_quietly, quietly
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import FeatureKind

log = logging.getLogger("t2t")

USAGE = """
Serves web pages on this machine for inspecting runs, finished or in training: a table of all runs below folders,
training curves, hparams side by side, two systems compared line by line, changes of outputs during training, the
training data, attention, the beam, and alternative outputs. Models are loaded on demand.

    %s runs                                     (then open http://127.0.0.1:8600)
    %s run_a run_b --data_dir=data              (with their training data)
    %s                                          (the runs that come with t2t, as does zoo:)

Runs in --output_dir are loaded at the start, and also served at all addresses of t2t-server:

    %s --output_dir=a=run_a --output_dir=b=run_b
    %s --output_dir=run --output_dir=early=run/checkpoints/step-00001000
    %s --output_dir=run --plot=curves.png       (the training curves as a picture)
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, RUN) as define:
        define.multi_string("runs", [], "Runs, and folders with runs below them, whose models are loaded on demand; "
                            "--runs= may be omitted.")  # fmt: skip
        define.string("data_dir", "", "Folder of generated data that the runs were trained on, for inspecting it and "
                      "for comparing systems on its dev and test splits.")  # fmt: skip
    define_server_flags(values, request_beam=32)
    with flag_group(values, SERVICE) as define:
        define.integer("port", 8600, "Port to listen on; 0 for any free one.", 0, 65535)
        define.boolean("ends_with_input", False, "Ends when standard input ends; t2t-trainer --studio uses it.")
        define.string("plot", "", "Only draws the training curves of the runs into this PNG file.")
    define_unused_flags(values, INSIGHT_FLAGS)


@command(build_flags, USAGE, positional=("runs",))
def main(values: flags.FlagValues) -> int:
    names = values.runs or ([] if values.output_dir else [ZOO_PREFIX])
    folders = [folder for name in names for folder in (zoo_runs().values() if name == ZOO_PREFIX else [_folder(name)])]
    data = local_path(values.data_dir)
    if values.data_dir and not address_of(data) and not data.is_dir():
        raise UserError(
            "there is no such folder", "name that of the generated data", option="data_dir", value=values.data_dir
        )
    if values.plot:
        return _plot(values, folders)
    named = named_runs(values.output_dir) if values.output_dir else {}
    if exports := [folder for folder in named.values() if is_export(folder)]:
        raise UserError(
            "an export has nothing to look into",
            "name the run that it was made of",
            option="output_dir",
            value=exports[0],
        )
    if values.ends_with_input:
        threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    return run_server(values, functools.partial(_addresses, values, folders), needs_runs=False)


def _stop_at_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 1 << 10):  # os.read does not hold a lock of sys.stdin
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _folder(name: str) -> Path:
    """Returns the folder of a run or of runs; raises UserError where there is none, or no run in it."""
    path = local_path(name).resolve()
    if not RunDir.exists(path):
        if not path.is_dir():
            raise UserError(f"{name}: there is no such folder", "name a run, or a folder with runs below it")
        if next(find_runs(path), None) is None:
            raise UserError(
                f"{name}: there is no run below this folder",
                f"train one with t2t-trainer, name another, or {ZOO_PREFIX} for those that come with t2t",
            )
    return path


def _addresses(values: flags.FlagValues, folders: list[Path], service, loaded_folders):
    from t2t.studio import routes, run_folders, split_data, studio

    named = {
        name: run_folders.NamedRun(run.path, service.models[name].step if run_and_checkpoint(folder)[1] else None)
        for name, (run, folder) in loaded_folders.items()
    }
    served = {name: studio.LoadedModel(model.translator, model.step) for name, model in service.models.items()}
    return routes.insight_addresses(
        studio.Studio(
            run_folders.RunFolders(named, folders),
            studio.LoadedModels(functools.partial(_load, values)),
            served,
            values.checkpoint,
            functools.partial(_examples, values) if values.data_dir else None,
            split_data.OpenedData(functools.partial(_open_split, values)) if values.data_dir else None,
            values.request_beam,
        )
    )


def _load(values: flags.FlagValues, run: RunDir, checkpoint: str):
    """Returns the translator of a checkpoint and its step."""
    check_run_loadable(run, values, checkpoint)
    loaded = load_run(values, run.path, problem_of(values, run), checkpoint, many_rows=True)
    loaded = loaded.with_languages(*languages_of(values))
    return loaded.translator(), loaded.checkpoint.step


def _examples(values: flags.FlagValues, run: RunDir, split: str, count: int) -> tuple[list[str], list[str], int]:
    """Returns the first inputs and references of a split, and the number of its examples."""
    load_plugins_quietly(values.t2t_usr_dir or None)  # languages of problems may be theirs
    data = _open_split(values, run, problem_of(values, run), split, verify=True)
    check_split(data, split)
    reader, own = data.readers[split], data.problem.target_language
    if values.target_language not in ("", own):
        raise UserError(
            f"references of {data.problem.name} are in {own or 'another'}",
            "give lines of your own",
            option="target_language",
            value=values.target_language,
        )
    if INPUTS not in data.problem.encoders or reader.features[TARGETS].kind != FeatureKind.TOKENS:
        raise UserError(f"{data.problem.name}: its inputs or targets are not text", "give lines of your own")
    examples = SplitExamples(data.problem, reader, count)
    return examples.texts(), examples.references(), len(reader)


def _open_split(values: flags.FlagValues, run: RunDir, problem: str, split: str, verify: bool = False) -> OpenData:
    """Opens a data split of one of a run's problems; with `verify`, compares it with its checksums."""
    with quietly():
        plugins = load_plugins(values.t2t_usr_dir or None)
    check_plugins(run, plugins)
    return open_run_data(run, values.data_dir, problem, split, verify)


def _plot(values: flags.FlagValues, folders: list[Path]) -> int:
    found = {}
    for name, folder in (named_runs(values.output_dir) if values.output_dir else {}).items():
        run_folder, checkpoint = run_and_checkpoint(folder)
        run, update = open_run(run_folder), None
        if checkpoint:
            update = CheckpointStore(run.checkpoints_folder).load(checkpoint, parts=()).step
        found[name] = run, update
    check_output(values.plot)
    with needs_serving():
        from t2t.studio import curves, run_folders
    drawn = _curves_below(run_folders.RunFolders({}, folders), folders, curves.curves_of)
    drawn |= {name: curves.curves_of(run, update) for name, (run, update) in found.items()}
    if not drawn:
        raise UserError(
            "none of the runs has figures to draw", "train them on, or name others", option="plot", value=values.plot
        )
    names = curves.plot_curves(drawn, values.plot)
    print(f"{len(names)} curves drawn: {', '.join(names)}")
    return 0


def _curves_below(runs, folders: list[Path], curves_of) -> dict:
    """Returns the curves of the runs below folders by name; leaves out, with a warning, those that have none."""
    drawn = {}
    for name in runs.names():
        try:
            drawn[name] = curves_of(runs.run(name))
        except UserError as error:
            if runs.place(name).path in folders:  # named itself
                raise
            log.warning("%s is not drawn: %s", name, error)
    return drawn
