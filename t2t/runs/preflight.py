"""Checks a training run before TensorFlow loads and anything is written."""

from pathlib import Path

from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.runs.data import find_missing_data, open_data
from t2t.runs.names import Request, get_problem, split_request
from t2t.runs.resuming import recorded_data_fingerprint
from t2t.runs.run_checks import find_source
from t2t.runs.settings import Settings
from t2t.specs.constants import DEV, TRAIN


def check_training(request: Request, settings: Settings, *, needs_data: bool, generates: bool) -> None:
    """Checks the data of a run and its warm start.

    Args:
        request: with names that exist.
        settings: of the run.
        needs_data: whether the data must exist.
        generates: whether missing data will be generated.

    Raises:
        UserError: no data or other data, no file to make them of, or no checkpoint to begin with.
    """
    known = recorded_data_fingerprint(request.output_folder)
    for part in split_request(request) if needs_data else []:
        open_data(part, get_problem(part.problem, part.problem_options), verify=False, known=known, splits=(TRAIN, DEV))
    if generates:
        _check_raw_files(request)
    if settings.warm_start_from and not RunDir.exists(request.output_folder):
        find_source(settings.warm_start_from)


def _check_raw_files(request: Request) -> None:
    """Raises UserError if a file for the generation of data is missing."""
    missing = find_missing_data(request)
    for part in split_request(request):
        options = get_problem(part.problem, part.problem_options).options
        for name in options.file_names() if part.problem in missing else ():
            if (path := getattr(options, name)) and not Path(path).exists():
                raise UserError(f"--{name}={path}: there is no such file; check the path")
