"""`--beam_options`: parses and checks the options of Apache Beam, given as one text, before anything starts."""

import contextlib
import io
import shlex

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, WorkerOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo, FnApiRunner
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineRunner, create_runner

from t2t.errors import UserError, one_line

_EXAMPLE = "--runner=DirectRunner --direct_num_workers=2 --direct_running_mode=multi_processing"
_LOCAL = ("directrunner", "switchingdirectrunner", "fnapirunner")


def parse_beam_options(text: str) -> PipelineOptions:
    """Parses options in the form of a command line, e.g. `--runner=DirectRunner --direct_num_workers=2`.

    Raises:
        UserError: the text cannot be parsed, an option is unknown or has a wrong value, or the runner is not installed.
            Unknown options are allowed for runners of clusters, which may define them.
    """
    printed = io.StringIO()
    try:
        words = shlex.split(text)
        if wrong := [word for word in words if not word.startswith("--") or word == "--help"]:
            raise ValueError(f"{wrong[0]!r} is no option")
        with contextlib.redirect_stderr(printed):
            options = PipelineOptions(words)
            known, given = options.get_all_options(), options.get_all_options(retain_unknown_options=True)
        if not runs_here(options):
            create_runner(options.view_as(StandardOptions).runner)
        elif unknown := sorted(given.keys() - known.keys()):
            raise ValueError(f"there is no option {', '.join(f'--{name}' for name in unknown)}")
    except SystemExit:
        raise _mistake(text, printed.getvalue().rpartition("error: ")[2]) from None
    except (ValueError, ImportError) as error:
        raise _mistake(text, error) from None
    return options


def runs_here(options: PipelineOptions) -> bool:
    """Returns whether the pipeline runs on this machine, in processes that this one starts."""
    return (options.view_as(StandardOptions).runner or _LOCAL[0]).lower() in _LOCAL


def runner_of(options: PipelineOptions) -> PipelineRunner:
    """Returns the runner of a pipeline.

    By default, DirectRunner would first try Prism, which it downloads and which does not support
    `--direct_num_workers`.
    """
    if not runs_here(options):
        return create_runner(options.view_as(StandardOptions).runner)
    workers = options.view_as(WorkerOptions)
    workers.default_sdk_harness_log_level = workers.default_sdk_harness_log_level or "ERROR"
    encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
    return FnApiRunner(
        provision_info=ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded))
    )


def _mistake(text: str, reason: object) -> UserError:
    return UserError(
        f"--beam_options={text!r}: {one_line(reason)}; give options of Apache Beam, each as --name=value, e.g. "
        f"{_EXAMPLE}"
    )
