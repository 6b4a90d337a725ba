"""`t2t-server`: serves trained runs over HTTP."""

import functools
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from absl import flags

from t2t.checkpoints.averaging import decoded_folders
from t2t.checkpoints.run_dir import RunDir, run_and_checkpoint
from t2t.checkpoints.store import LATEST, CheckpointStore
from t2t.cli.common import command
from t2t.cli.config import refuse_flags
from t2t.cli.decoding_flags import (
    define_device_flags,
    define_engine_flags,
    define_ensemble_flag,
    define_language_flags,
    define_search_flags,
    engine_choice,
    languages_of,
    trained_overrides,
)
from t2t.cli.flags import LONGEST_S, RUN, command_flags, define_usr_dir_flag, flag_group
from t2t.cli.run_flags import check_run_loadable, load_run, load_runs, split_folders
from t2t.errors import UserError, needs_extra
from t2t.files.paths import local_path
from t2t.formats.exporter import is_export
from t2t.runs.run_checks import (
    NO_RUN,
    check_engine_of_adapters,
    check_one_problem,
    check_own_checkpoints,
    open_run,
    select_problem,
)
from t2t.runs.startup import prepare_framework, quietly

log = logging.getLogger("t2t")

SERVICE = "Service"
_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*")
_ORIGIN = re.compile(r"https?://([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?")
USAGE = """
Serves trained runs, or SavedModels made by t2t-exporter, on this machine over HTTP, until Ctrl-C or SIGTERM.

    %s --output_dir=run
    %s --output_dir=served/ende/1
    %s --output_dir=ende=run --output_dir=enfr=other --port=8501
    %s --output_dir=base=run --adapters=law=law_run --adapters=news=news_run

    curl -d '{"text": "twenty-one cats"}' http://127.0.0.1:8501/translate
    curl -d '{"instances": ["twenty-one cats"]}' http://127.0.0.1:8501/v1/models/run:predict

It offers the interfaces of TensorFlow Serving and OpenAI, and a plain /translate (JSON with search settings, or
text/plain lines). / lists all addresses, /openapi.json describes them, /healthz and /metrics report the state. With
"stream": true, text is sent as soon as it is final. Concurrent requests are batched. Requests that do not fit into the
queue (--queue_texts) get status 429 at once. Requests from pages of other sites are refused. There is no password:
with a --host that others can reach, anyone there can use it. Exports are checked before loading: they may only compute.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_server_flags(values)
    with flag_group(values, RUN) as define:
        define.multi_string(
            "adapters",
            [],
            "Folder of an adapter run, whose latest checkpoint is served (--checkpoint does not apply), or of one of "
            "its checkpoints; or NAME=FOLDER. It shares the weights of its base run, which --output_dir names.",
        )
    with flag_group(values, SERVICE) as define:
        define.integer("port", 8501, "Port to listen on; 0 for any free one.", 0, 65535)


def define_server_flags(values: flags.FlagValues, request_beam: int = 8) -> None:
    """Defines the flags of the served runs and of the limits of requests; `request_beam` is a default."""
    with flag_group(values, RUN) as define:
        define.multi_string(
            "output_dir",
            [],
            "Folder of a run, of one of its checkpoints or of an export, or "
            "NAME=FOLDER; NAME=a,b,c for an ensemble of runs.",
        )
        define.string("checkpoint", "latest", "latest, best, best:5, averaged or a step; applies to every run.")
        define.string("problem", "", "Problem to use, in runs of several.")
    define_usr_dir_flag(values)
    with flag_group(values, SERVICE) as define:
        define.string("host", "127.0.0.1", "Address to listen on.")
        define.multi_string(
            "allow_origin", [], "Origin of another site whose pages may send requests, e.g. https://page.example."
        )
        define.integer("n_best", 1, "Outputs for each text by default; requests may override it.", 1)
        define.integer(
            "request_beam",
            request_beam,
            "Largest beam, or number of samples per text, that a request may ask for; the run's own is always allowed.",
            1,
        )
        define.integer("batch_texts", 32, "Largest number of texts in a batch.", 1)
        define.float(
            "batch_wait_ms", 3.0, "Milliseconds that a text waits for others to form a batch.", 0.0, 1000 * LONGEST_S
        )
        define.integer(
            "queue_texts",
            256,
            "Largest number of queued texts for each run, of queued figures, and of streamed answers that wait.",
            1,
        )
        define.integer("streams", 4, "Largest number of concurrent streamed answers; others wait.", 1)
        define.integer("request_texts", 128, "Largest number of texts in a request.", 1)
        define.integer("request_bytes", 1 << 20, "Largest body of a request, in bytes.", 1)
        define.boolean(
            "truncate",
            False,
            "Truncates texts that are too long where a request does not say; without, they are refused.",
        )
        define.float("request_seconds", 60.0, "Time limit of a request, in seconds.", 0.001, LONGEST_S)
        define.float(
            "reload_seconds",
            0.0,
            "Looks for newer checkpoints of the runs after this many seconds, and "
            "serves them; 0 = only on request, POST /v1/models/NAME:reload.",
            0.0,
            LONGEST_S,
        )
        define.float("grace_seconds", 30.0, "Seconds to finish open requests at shutdown.", 1.0, LONGEST_S)
    define_language_flags(values)
    define_search_flags(values, decodes_only=True)
    define_engine_flags(values)
    define_ensemble_flag(values)
    define_device_flags(values)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    return run_server(values)


def run_server(values: flags.FlagValues, more_addresses=lambda service, folders: (), needs_runs: bool = True) -> int:
    """Serves the runs named by the flags of `define_server_flags`.

    Args:
        values: the flags.
        more_addresses: `more_addresses(service, folders)` returns additional addresses; `folders` maps the name of each
            run to (run, folder as given).
        needs_runs: whether at least one run is required.

    Raises:
        UserError: no run, a run that cannot be served, or two runs with the same name.
        MachineError: the host and port are not available.
    """
    named = named_runs(values.output_dir) if needs_runs or values.output_dir else {}
    adapters = _named_adapters(values, named)
    runs = {name: folder for name, folder in named.items() if not is_export(folder)}
    checked = {name: _checked_runs(values, folder) for name, folder in runs.items()}
    is_ensemble = any(len(several) > 1 for several in checked.values())
    _refuse_unread(values, is_exports=bool(named and not runs), is_ensemble=is_ensemble)
    if sum(map(len, checked.values())) > 1:
        check_own_checkpoints([run for several in checked.values() for run in several], values.checkpoint)
    folders = {name: (checked[name][0], folder) for name, folder in runs.items()}
    origins = [_origin(text) for text in values.allow_origin]
    with needs_serving():
        from t2t.serving import connections, engine, routes
    listening = connections.open_socket(values.host, values.port)
    with listening:
        models = build_models(values, named, adapters)
        limits = engine.RequestLimits(
            most_bytes=values.request_bytes,
            most_texts=values.request_texts,
            seconds=values.request_seconds,
            waiting_jobs=values.queue_texts,
            streams=values.streams,
            truncate=values.truncate,
        )
        for model in models:
            model.warm_up()
        started = engine.ServingEngine(models, limits)
        hosts = connections.allowed_hosts(values.host, listening)
        if connections.ANY in hosts:
            log.warning(
                "--host=%s: others can reach this address; there is no password, and any host name is accepted",
                values.host,
            )
        served = routes.build_app(started, hosts, more_addresses(started, folders), origins, values.reload_seconds)
        for model in models:
            model.warm_up_others()
        connections.serve(served, listening, values.grace_seconds, engine=started)
    return 0


def _origin(text: str) -> str:
    """Returns a value of --allow_origin in lower case; raises UserError if it is not an origin."""
    if not _ORIGIN.fullmatch(text):
        raise UserError(
            "an origin is a scheme, a host and perhaps a port",
            "give e.g. https://page.example:8443",
            option="allow_origin",
            value=text,
        )
    return text.lower()


def _refuse_unread(values: flags.FlagValues, is_exports: bool, is_ensemble: bool) -> None:
    """Raises UserError for flags that nothing reads: with exports alone, or without an ensemble."""
    if is_exports:
        unread = ("engine", "compute_type", "worker_gpu", "worker_cpu", "weight_shards", "ensemble_average")
        refuse_flags(values, unread, "only exports are served, which answer as they were made")
    if not is_ensemble:
        refuse_flags(values, ("ensemble_average",), "--output_dir names no ensemble, NAME=a,b,c")


def named_runs(arguments: Sequence[str], flag: str = "output_dir") -> dict[str, str]:
    """Parses `RUN` or `NAME=RUN` into name -> folder; raises UserError for no runs, and invalid or repeated names."""
    if not arguments:
        raise UserError(NO_RUN.format(flag))
    found: dict[str, str] = {}
    for name, folder in (_named_run(argument, flag) for argument in arguments):
        if not _NAME.fullmatch(name):
            raise UserError(
                f"model name {name!r}: it is a part of addresses, letters, digits, - _ and . beginning with a letter "
                "or digit",
                f"give another, --{flag}=NAME=RUN",
            )
        if name in found:
            raise UserError(f"two runs have the name {name!r}", f"name them apart, --{flag}=NAME=RUN")
        found[name] = folder
    return found


def _named_adapters(values: flags.FlagValues, named: dict[str, str]) -> dict[str, str]:
    """Returns name -> folder of each adapter run, checked without loading TensorFlow.

    Raises:
        UserError: see `named_runs`; the name of another run, no run in the folder, or the engine CTranslate2.
    """
    if "adapters" not in values or not values.adapters:
        return {}
    adapters = named_runs(values.adapters, "adapters")
    if taken := [name for name in adapters if name in named]:
        raise UserError(f"two runs have the name {taken[0]!r}", "name them apart, --adapters=NAME=RUN")
    check_engine_of_adapters(engine_choice(values))
    for folder in adapters.values():
        path, checkpoint = run_and_checkpoint(folder)
        run = open_run(path)
        check_run_loadable(run, values, checkpoint or LATEST)
        problem_of(values, run)
    return adapters


def _named_run(argument: str, flag: str) -> tuple[str, str]:
    """Returns (name, folder); the name defaults to the folder's, or to `<name>` for an export `<name>/<version>`."""
    name, equals, folder = argument.partition("=")
    if equals and not Path(argument).expanduser().exists():
        return name, folder
    if len(split_folders(argument)) > 1:
        raise UserError("an ensemble needs a name", f"give --output_dir=NAME={argument}", option=flag, value=argument)
    path = local_path(argument).resolve()
    return (path.parent if path.name.isdigit() and is_export(path) else path).name, argument


def _checked_runs(values: flags.FlagValues, folder: str) -> list[RunDir]:
    """Does as `_checked_run` for one run, or for each run of an ensemble `a,b,c`."""
    folders = split_folders(folder)
    if len(folders) > 1 and (found := [one for one in folders if run_and_checkpoint(one)[1]]):
        raise UserError(
            f"{found[0]} is a checkpoint, and an ensemble is of runs",
            "name its run, with --checkpoint for all of them",
            option="output_dir",
            value=folder,
        )
    runs = [_checked_run(values, one) for one in folders]
    check_one_problem(runs, problem_of(values, runs[0]))
    return runs


def _checked_run(values: flags.FlagValues, folder: str) -> RunDir:
    """Opens a run and checks it without loading TensorFlow."""
    path, checkpoint = run_and_checkpoint(folder)
    if checkpoint:
        refuse_flags(
            values, ("checkpoint",), f"--output_dir={folder} is a checkpoint itself, and others can be named like it"
        )
    run = open_run(path)
    check_run_loadable(run, values, checkpoint)
    problem_of(values, run)
    return run


def problem_of(values: flags.FlagValues, run: RunDir) -> str:
    """Returns the problem of a run that --problem or --target_language selects; raises as `select_problem`."""
    return select_problem(run, values.problem, values.target_language)


def build_models(values: flags.FlagValues, named: dict[str, str], adapters: dict[str, str]) -> list:
    """Loads the served models: runs, exports, and adapters, which share the weights of the runs."""
    from t2t.serving import models

    limits = models.BatchLimits(
        most_texts=values.batch_texts,
        wait_s=values.batch_wait_ms / 1000,
        room=values.queue_texts,
        beam=values.request_beam,
    )
    served: list[Any] = []
    bases: dict[str, Any] = {}  # by run, what was loaded last; by adapters, the base that they use
    how = values.t2t_usr_dir or None, trained_overrides(values)

    def serve(name: str, folders: dict[str, str], load: Callable[[], Any]) -> None:
        served.append(_served_run(values, name, folders, load, limits))

    def load_base(name: str, run: RunDir, problem: str, checkpoint: str) -> Any:
        bases[name] = load_run(values, run.path, problem, checkpoint, many_rows=True)
        return bases[name]

    def load_adapted(name: str, folder: str, problem: str) -> Any:
        """Loads adapters on the base that they were trained on: what a run has loaded last, or what adapters use."""
        from t2t.runs.loading import base_of, load_adapters

        loaded = load_adapters(list(bases.values()), folder, *how, problem)
        bases[f"--adapters={name}"] = base_of(loaded.checkpoint, folder, list(bases.values()))[1]
        return loaded

    for name, folder in named.items():
        if is_export(folder):
            served.append(_served_export(values, name, folder, limits))
            continue
        runs = _checked_runs(values, folder)
        problem = problem_of(values, runs[0])
        if len(runs) > 1:
            load = functools.partial(load_runs, values, runs, problem, many_rows=True)
            serve(name, {str(run.path): values.checkpoint for run in runs}, load)
        else:
            checkpoint = run_and_checkpoint(folder)[1]
            load = functools.partial(load_base, name, runs[0], problem, checkpoint)
            serve(name, {str(runs[0].path): checkpoint or values.checkpoint}, load)
    for name, folder in adapters.items():
        run, checkpoint = run_and_checkpoint(folder)
        load = functools.partial(load_adapted, name, folder, problem_of(values, open_run(run)))
        serve(name, {str(run): checkpoint or LATEST}, load)
    return served


def _served_export(values: flags.FlagValues, name: str, folder: str, limits: Any) -> Any:
    """Loads a served export."""
    _check_fixed(values, folder)
    prepare_framework()
    from t2t.inference.parallel import use_single_core_ops

    use_single_core_ops()
    with quietly(), needs_serving():  # exports need TensorFlow, also where Keras runs on JAX
        from t2t.serving.exports import ServedExport
    return ServedExport(name, folder, values.n_best, limits)


def _served_run(
    values: flags.FlagValues, name: str, folders: dict[str, str], load: Callable[[], Any], limits: Any
) -> Any:
    """Returns the served model of a run.

    `load` returns the run each time with its newest checkpoint; `folders` are run -> checkpoint.
    """
    from t2t.serving import models

    def model_of(loaded):
        loaded = loaded.with_languages(*languages_of(values))
        model = models.ServedModel(name, loaded.translator(), loaded.checkpoint.step, values.n_best, limits)
        model.fingerprint = loaded.checkpoint.fingerprint
        return model

    source = models.CheckpointSource(functools.partial(_stamp, folders), lambda: model_of(load()))
    stamp, model = source.stamp(), source.load()
    model.source, model.stamp = source, stamp
    return model


def _stamp(folders: dict[str, str]) -> tuple:
    """Returns the checkpoints that are read for each run -> checkpoint, and when they were written."""
    stores = [(CheckpointStore(RunDir.open(run).checkpoints_folder), which) for run, which in folders.items()]
    found = [folder for store, which in stores for folder in decoded_folders(store, which)]
    return tuple((str(folder), folder.stat().st_mtime_ns if folder.exists() else 0) for folder in found)


def _check_fixed(values: flags.FlagValues, folder: str) -> None:
    """Raises UserError for flags that an export cannot follow."""
    names = ("problem", "t2t_usr_dir", "source_language", "target_language")
    fixed = [flag for flag in names if values[flag].value]
    if values.checkpoint != values["checkpoint"].default:
        fixed.append("checkpoint")
    if fixed or trained_overrides(values):
        requested = ", ".join([*(f"--{flag}" for flag in fixed), trained_overrides(values)]).strip(", ")
        raise UserError(
            f"{requested}: {folder} is an export, which answers as it was made", "leave that out or name its run"
        )


def needs_serving() -> AbstractContextManager[None]:
    """Context for importing modules of the service; raises UserError if its libraries are not installed."""
    return needs_extra("serve", "the service")
