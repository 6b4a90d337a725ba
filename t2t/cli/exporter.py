"""`t2t-exporter`: makes of a run a model that other programs serve, and proves that it answers as the run does."""

from collections import Counter
from pathlib import Path

from absl import flags

from t2t.cli.common import command
from t2t.cli.flags import define_search_flags, define_trained_flags, open_trained_run, search_overrides
from t2t.cli.help import flag_group
from t2t.errors import UserError
from t2t.export.formats import FLOAT32, FORMATS, INT8, OTHER_INPUTS, PROMISES, check_request
from t2t.files.lines import read_lines
from t2t.files.paths import local_path
from t2t.runs.data import open_run_data
from t2t.runs.run_checks import select_problem
from t2t.runs.startup import import_quietly
from t2t.specs.constants import DEFAULT_DATA_DIR, DEV

QUANTIZATIONS = tuple(PROMISES)

USAGE = f"""
Makes of a run a model for other programs. It is kept only if it answers a few hundred inputs as the run does.

    %s --output_dir=run --export_dir=served/1  (TensorFlow SavedModel: text in, text out)
    %s --output_dir=run --export_dir=served/1 --parity_file=lines.txt
    %s --output_dir=run --export_dir=fast --format=ctranslate2 --quantization=int8
    %s --output_dir=run --export_dir=graphs --format=onnx

With {FLOAT32}, {PROMISES[FLOAT32].describe()}.

With {INT8}, {PROMISES[INT8].describe()}.

How it compared stands beside it, in t2t_export.json, with a README.md of how to call it. The inputs
are the dev split of the run's data, lines of --parity_file, or, where neither is at hand, random
texts made of the run's vocabulary; the report says which. The search of a SavedModel is the run's
own, with its settings or those given here, fixed.
"""


def build_flags() -> flags.FlagValues:
    """Returns the flags of the command."""
    values = flags.FlagValues()
    define_trained_flags(values)
    with flag_group(values, "Export"):
        flags.DEFINE_string("export_dir", "", "Folder to make; must not be there yet.", flag_values=values)
        flags.DEFINE_enum("format", "saved_model", list(FORMATS), "What to make.", flag_values=values)
        flags.DEFINE_enum(
            "quantization", FLOAT32, QUANTIZATIONS, "How weights are stored and multiplied; int8 for "
            "ctranslate2 alone.", flag_values=values,
        )  # fmt: skip
        flags.DEFINE_integer(
            "n_best", None, "Outputs for each input, best first; unset: 1, or all classes.", lower_bound=1,
            flag_values=values,
        )  # fmt: skip
    define_search_flags(values)
    with flag_group(values, "Comparison"):
        flags.DEFINE_string("parity_file", "", "Lines to compare on instead of the dev split.", flag_values=values)
        flags.DEFINE_integer("parity_lines", 200, "How many of them.", lower_bound=1, flag_values=values)
        flags.DEFINE_string(
            "data_dir", "", f"Folder of generated data, where the dev split is; empty for {DEFAULT_DATA_DIR} if it has "
            "the run's data, else random texts.", flag_values=values,
        )  # fmt: skip
    return values


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    """Runs the command; returns its exit status."""
    folder = _check_early(values)
    exporting = import_quietly("t2t.runs.exporting")
    loaded = import_quietly("t2t.runs.loading").load(
        values["output_dir"].value, values["checkpoint"].value, values["t2t_usr_dir"].value or None,
        search_overrides(values), values["problem"].value,
    )  # fmt: skip
    options = exporting.ExportOptions(
        **{name: values[name].value for name in ("format", "n_best", "quantization", "parity_file", "parity_lines")},
        folder=folder,
        data_dir=values["data_dir"].value,
    )
    for what, parity in exporting.export_run(loaded, options).items():
        print(f"{what}: {parity}")
    print(f"exported to {folder}")
    return 0


def _check_early(values: flags.FlagValues) -> Path:
    """Returns the folder to make. Refuses everything that can be known before TensorFlow is loaded."""
    if not values["export_dir"].value:
        raise UserError("--export_dir: not given; name the folder to make")
    folder = local_path(values["export_dir"].value)
    check_request(values["format"].value, values["quantization"].value, folder)
    run = open_trained_run(values)
    problem, data_dir = select_problem(run, values["problem"].value), values["data_dir"].value
    if file := values["parity_file"].value:
        for _ in read_lines(local_path(file), Counter()):
            break
        else:
            raise UserError(f"--parity_file={file}: it holds no line; give lines of text to try the export on")
    elif data_dir:
        try:
            open_run_data(run, data_dir, problem, DEV, verify=False)
        except UserError as error:
            raise UserError(f"{error}; {OTHER_INPUTS}") from None
    return folder
