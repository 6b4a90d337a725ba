"""`--beam_options`: the options of Apache Beam as one text, checked before anything starts."""

import contextlib
import io
import shlex

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from t2t.errors import UserError, one_line

_LOCAL = ("DirectRunner", "FnApiRunner")


def parse_beam_options(text: str) -> PipelineOptions:
    """Returns options that are written as on a command line, e.g. `--runner=DirectRunner --direct_num_workers=2`.

    Raises:
        UserError: they cannot be read, or one of them does not exist or has a wrong value.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--beam_options={text!r}: {one_line(error)}; close what is quoted") from None
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options = PipelineOptions(words)
            known = options.get_all_options()
            given = options.get_all_options(retain_unknown_options=True)
    except SystemExit:
        reason = said.getvalue().strip().rpartition("error: ")[2]
        raise UserError(f"--beam_options={text!r}: {one_line(reason)}; see the options of Apache Beam") from None
    if runs_here(options) and (unknown := sorted(given.keys() - known.keys())):
        raise UserError(
            f"--beam_options={text!r}: Apache Beam has no option {', '.join(f'--{name}' for name in unknown)}; "
            f"see its options, e.g. --runner=DirectRunner --direct_num_workers=2 --direct_running_mode=multi_processing"
        )
    return options


def runs_here(options: PipelineOptions) -> bool:
    """Returns whether the pipeline runs on this machine, in processes that this one starts."""
    return (options.view_as(StandardOptions).runner or _LOCAL[0]) in _LOCAL
