"""`t2t-server`: serves trained runs over HTTP."""

import re
from collections.abc import Sequence
from pathlib import Path

from absl import flags

from t2t.checkpoints.run_dir import RunDir, run_and_checkpoint
from t2t.checkpoints.store import LATEST
from t2t.cli.common import command, command_flags
from t2t.cli.decoding_flags import (
    define_device_flags,
    define_engine_flags,
    define_ensemble_flag,
    define_language_flags,
    engine_choice,
    languages_of,
)
from t2t.cli.help import RUN, flag_group
from t2t.cli.plugin_flags import define_usr_dir_flag
from t2t.cli.run_flags import check_run_loadable, load_run, load_runs, open_run, split_folders
from t2t.cli.search_flags import define_search_flags, trained_overrides
from t2t.errors import UserError, needs_extra
from t2t.export.formats import is_export
from t2t.files.paths import local_path
from t2t.runs.run_checks import check_engine_of_adapters, select_problem
from t2t.runs.startup import import_quietly

SERVICE = "Service"
_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*")
USAGE = """
Serves trained runs, or SavedModels that t2t-exporter made of them, on this machine over HTTP, until Ctrl-C or SIGTERM.

    %s --output_dir=run
    %s --output_dir=served/ende/1
    %s --output_dir=ende=run --output_dir=enfr=other --port=8501
    %s --output_dir=base=run --adapters=law=law_run --adapters=news=news_run

    curl -d '{"text": "twenty-one cats"}' http://127.0.0.1:8501/translate
    curl -d '{"instances": ["twenty-one cats"]}' http://127.0.0.1:8501/v1/models/run:predict

Paths and bodies are those of TensorFlow Serving and OpenAI, and there is a plain /translate (JSON with the
settings of a search, or lines of text/plain); / lists them, /openapi.json describes them, /healthz and /metrics
report its state. With "stream": true, text is sent as soon as it is final. Texts of requests that come together are
searched together. Requests that do not fit into the queue (--queue_texts) are answered 429 at once. Pages of other
sites are refused. There is no password: a --host that others reach opens it to them. Exports are checked before they
are loaded: they may only compute.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_server_flags(values)
    with flag_group(values, RUN) as define:
        define.multi_string("adapters", [], "Folder of a run of adapters or of one of its checkpoints, or NAME=FOLDER; "
                            "it shares the weights of its base, which --output_dir names.")  # fmt: skip
    with flag_group(values, SERVICE) as define:
        define.integer("port", 8501, "Where to listen; 0 for any that is free.", 0, 65535)


def define_server_flags(values: flags.FlagValues) -> None:
    """Which runs, and how requests are taken."""
    with flag_group(values, RUN) as define:
        define.multi_string("output_dir", [], "Folder of a run, of one of its checkpoints or of an export, or "
                            "NAME=FOLDER; NAME=a,b,c for an ensemble of runs.")  # fmt: skip
        define.string("checkpoint", "latest", "latest, best, best:5, averaged or a step, of every run.")
        define.string("problem", "", "Which problem, of runs of several.")
    define_usr_dir_flag(values)
    with flag_group(values, SERVICE) as define:
        define.string("host", "127.0.0.1", "Address to listen at.")
        define.integer("n_best", 1, "Outputs for each text where a request does not say.", 1)
        define.integer("request_beam", 8, "Largest beam, or most samples of a text, that a request may ask for; at "
                       "least what the run has.", 1)  # fmt: skip
        define.integer("batch_texts", 32, "Most texts searched together.", 1)
        define.float("batch_wait_ms", 3.0, "Milliseconds that a text waits for others to be searched with it.", 0.0)
        define.integer("queue_texts", 256, "Most texts that wait, for each run; most figures that wait.", 1)
        define.integer("streams", 4, "Most answers that are streamed at a time.", 1)
        define.integer("request_texts", 128, "Most texts of a request.", 1)
        define.integer("request_bytes", 1 << 20, "Most bytes of a request's body.", 1)
        define.float("request_seconds", 60.0, "Longest time that a request takes.", 0.001)
        define.float("grace_seconds", 30.0, "Time that requests have to be answered when the service ends.", 1.0)
    define_language_flags(values)
    define_search_flags(values, decodes_only=True)
    define_engine_flags(values)
    define_ensemble_flag(values)
    define_device_flags(values)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    return run_server(values)


def run_server(values: flags.FlagValues, more_addresses=lambda service, folders: (), needs_runs: bool = True) -> int:
    """Serves the runs that the flags of `define_server_flags` name.

    `more_addresses(service, folders)` returns further addresses; folders: name -> run, and folder as given. Without
    `needs_runs` there may be none.

    Raises:
        UserError: no run, one that does not fit, or two of one name.
        MachineError: the address is not available.
    """
    named = named_runs(values.output_dir) if needs_runs or values.output_dir else {}
    adapters = _named_adapters(values, named)
    runs = {name: folder for name, folder in named.items() if not is_export(folder)}
    folders = {name: (_checked_runs(values, folder)[0], folder) for name, folder in runs.items()}
    server, app, service = (import_serving(f"t2t.serving.{name}") for name in ("server", "app", "service"))
    listening = server.open_socket(values.host, values.port)
    with listening:
        models = _build_models(values, named, adapters)
        limits = service.RequestLimits(
            most_bytes=values.request_bytes,
            most_texts=values.request_texts,
            seconds=values.request_seconds,
            waiting_jobs=values.queue_texts,
            streams=values.streams,
        )
        for model in models:
            model.warm_up()
        started = service.Service(models, limits)
        hosts = server.allowed_hosts(values.host, listening)
        served = app.build_app(started, hosts, more_addresses(started, folders))
        server.serve(served, listening, values.grace_seconds)
    return 0


def named_runs(arguments: Sequence[str], flag: str = "output_dir") -> dict[str, str]:
    """Returns name -> folder of each `RUN` or `NAME=RUN`; raises UserError for none, and wrong and repeated names."""
    if not arguments:
        raise UserError(f"--{flag}: not given; name the folder of a run, as t2t-trainer was given it")
    found: dict[str, str] = {}
    for name, folder in (_named_run(argument, flag) for argument in arguments):
        if not _NAME.fullmatch(name):
            raise UserError(
                f"model name {name!r}: it is a part of addresses, letters, digits, - _ and . beginning with a letter "
                f"or digit; give another, --{flag}=NAME=RUN"
            )
        if name in found:
            raise UserError(f"two runs have the name {name!r}; name them apart, --{flag}=NAME=RUN")
        found[name] = folder
    return found


def _named_adapters(values: flags.FlagValues, named: dict[str, str]) -> dict[str, str]:
    """Returns name -> folder of each run of adapters, after checks without loading TensorFlow.

    Raises:
        UserError: see `named_runs`; a name of a run, no run, or CTranslate2.
    """
    if "adapters" not in values or not values.adapters:
        return {}
    adapters = named_runs(values.adapters, "adapters")
    if taken := [name for name in adapters if name in named]:
        raise UserError(f"two runs have the name {taken[0]!r}; name them apart, --adapters=NAME=RUN")
    check_engine_of_adapters(engine_choice(values))
    for folder in adapters.values():
        path, checkpoint = run_and_checkpoint(folder)
        run = open_run(path)
        check_run_loadable(run, values, checkpoint or LATEST)
        select_problem(run, values.problem)
    return adapters


def _named_run(argument: str, flag: str) -> tuple[str, str]:
    """Returns name and folder; by default the folder's name, or its parent's for `<name>/<version>` of an export."""
    name, equals, folder = argument.partition("=")
    if equals and not Path(argument).expanduser().exists():
        return name, folder
    if len(split_folders(argument)) > 1:
        raise UserError(f"--{flag}={argument}: an ensemble needs a name; give --output_dir=NAME={argument}")
    path = local_path(argument).resolve()
    return (path.parent if path.name.isdigit() and is_export(path) else path).name, argument


def _checked_runs(values: flags.FlagValues, folder: str) -> list[RunDir]:
    """Does as `_checked_run` with the one run, or the several of an ensemble, that a folder names."""
    folders = split_folders(folder)
    if len(folders) > 1 and (found := [one for one in folders if run_and_checkpoint(one)[1]]):
        raise UserError(
            f"--output_dir={folder}: {found[0]} is a checkpoint, and an ensemble is of runs; name its run, with "
            f"--checkpoint for all of them"
        )
    return [_checked_run(values, one) for one in folders]


def _checked_run(values: flags.FlagValues, folder: str) -> RunDir:
    """Opens a run and checks it without loading TensorFlow."""
    path, checkpoint = run_and_checkpoint(folder)
    run = open_run(path)
    check_run_loadable(run, values, checkpoint)
    select_problem(run, values.problem)
    return run


def _build_models(values: flags.FlagValues, named: dict[str, str], adapters: dict[str, str]) -> list:
    """Returns the served models of runs and exports, and of adapters, which share the weights of these runs."""
    models = import_serving("t2t.serving.models")
    limits = models.BatchLimits(
        most_texts=values.batch_texts,
        wait_s=values.batch_wait_ms / 1000,
        room=values.queue_texts,
        beam=values.request_beam,
    )
    served, bases = [], []

    def serve(name: str, loaded) -> None:
        loaded = loaded.with_languages(*languages_of(values))
        served.append(models.ServedModel(name, loaded.translator(), loaded.checkpoint.step, values.n_best, limits))

    for name, folder in named.items():
        if is_export(folder):
            _check_fixed(values, folder)
            import_quietly("t2t.inference.parallel").use_single_core_ops()
            exports = import_serving("t2t.serving.exports")
            served.append(exports.ServedExport(name, folder, values.n_best, limits))
        elif len(split_folders(folder)) > 1:
            serve(name, load_runs(values, _checked_runs(values, folder), values.problem, many_rows=True))
        else:
            run, checkpoint = run_and_checkpoint(folder)
            bases.append(load_run(values, run, values.problem, checkpoint, many_rows=True))
            serve(name, bases[-1])
    how = values.t2t_usr_dir or None, trained_overrides(values), values.problem
    for name, folder in adapters.items():
        serve(name, import_quietly("t2t.runs.adapting").load_adapters(bases, folder, *how))
    return served


def _check_fixed(values: flags.FlagValues, folder: str) -> None:
    """Raises UserError for flags that an export cannot follow."""
    names = ("problem", "t2t_usr_dir", "source_language", "target_language")
    fixed = [flag for flag in names if values[flag].value]
    if values.checkpoint != values["checkpoint"].default:
        fixed.append("checkpoint")
    if fixed or trained_overrides(values):
        asked = ", ".join([*(f"--{flag}" for flag in fixed), trained_overrides(values)]).strip(", ")
        raise UserError(f"{asked}: {folder} is an export, which answers as it was made; leave that out or name its run")


def import_serving(module: str):
    """Imports a module that needs the libraries of the service; raises UserError if they are not installed."""
    with needs_extra("serve", "the service"):
        return import_quietly(module)
