"""`t2t-insight`: shows in a browser what trained runs do, and draws their training curves."""

from absl import flags

from t2t.checkpoints.store import CheckpointStore
from t2t.cli.common import command, command_flags
from t2t.cli.flags import open_run
from t2t.cli.help import flag_group
from t2t.cli.server import SERVICE, define_server_flags, import_serving, named_runs, run_and_checkpoint, run_server
from t2t.errors import UserError
from t2t.export.formats import is_export
from t2t.files.output import check_output

USAGE = """
Shows what trained runs do, on a page of this machine for a browser: attention, beam, what else might have been written,
two runs side by side, training curves. It is served as by t2t-server, with all its addresses.

    %s --output_dir=run                         (then open http://127.0.0.1:8600)
    %s --output_dir=a=run_a --output_dir=b=run_b
    %s --output_dir=run --output_dir=early=run/checkpoints/step-00001000
    %s --output_dir=run --plot=curves.png       (the training curves as a picture)
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_server_flags(values)
    with flag_group(values, SERVICE) as define:
        define.integer("port", 8600, "Where to listen; 0 for any that is free.", 0, 65535)
        define.string("plot", "", "Draws the training curves of the runs into this PNG and ends.")


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if values.plot:
        return _plot(values)
    if exports := [folder for folder in named_runs(values.output_dir).values() if is_export(folder)]:
        raise UserError(
            f"--output_dir={exports[0]}: an export has nothing to look into; name the run that it was made of"
        )
    return run_server(values, _addresses)


def _addresses(service, folders):
    runs = {
        name: (run, service.models[name].step if run_and_checkpoint(folder)[1] else None)
        for name, (run, folder) in folders.items()
    }
    return import_serving("t2t.serving.insight.routes").insight_addresses(runs)


def _plot(values: flags.FlagValues) -> int:
    found = {}
    for name, folder in named_runs(values.output_dir).items():
        run_folder, checkpoint = run_and_checkpoint(folder)
        run, update = open_run(run_folder), None
        if checkpoint:
            update = CheckpointStore(run.checkpoints_folder).load(checkpoint, parts=()).step
        found[name] = run, update
    check_output(values.plot)
    curves = import_serving("t2t.serving.insight.curves")
    drawn = {name: curves.curves_of(run, update) for name, (run, update) in found.items()}
    names = curves.plot_curves(drawn, values.plot)
    print(f"{len(names)} curves drawn: {', '.join(names)}")
    return 0
