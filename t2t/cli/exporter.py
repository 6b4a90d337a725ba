"""`t2t-exporter`: makes of a run a model that other programs serve, and proves that it answers as the run does."""

from absl import flags

from t2t.cli.common import command, import_quietly
from t2t.cli.flags import define_search_flags, define_trained_flags, open_asked_run, search_overrides
from t2t.cli.help import flag_group
from t2t.constants import DEFAULT_DATA_DIR
from t2t.errors import UserError
from t2t.paths import local_path

FORMATS = ("saved_model", "ctranslate2", "onnx")
QUANTIZATIONS = ("float32", "int8")

USAGE = """
Makes of a run a model for other programs. It is kept only if it answers a few hundred inputs as the run does, the dev
split of the run's data or a file of yours; how it compared stands beside it, in t2t_export.json.

    %s --output_dir=run --export_dir=served/1  (TensorFlow SavedModel: text in, text out)
    %s --output_dir=run --export_dir=served/1 --parity_file=lines.txt
    %s --output_dir=run --export_dir=fast --format=ctranslate2 --quantization=int8
    %s --output_dir=run --export_dir=graphs --format=onnx

The search of a SavedModel is the run's own, with its settings or those given here, fixed.
"""


def build_flags() -> flags.FlagValues:
    """Returns the flags of the command."""
    values = flags.FlagValues()
    define_trained_flags(values)
    with flag_group(values, "Export"):
        flags.DEFINE_string("export_dir", "", "Folder to make; must not be there yet.", flag_values=values)
        flags.DEFINE_enum("format", FORMATS[0], FORMATS, "What to make.", flag_values=values)
        flags.DEFINE_enum(
            "quantization", QUANTIZATIONS[0], QUANTIZATIONS, "How weights are stored and multiplied; int8 for "
            "ctranslate2 alone.", flag_values=values,
        )  # fmt: skip
        flags.DEFINE_integer(
            "n_best", None, "Outputs for each input, best first; unset: 1, or all classes.", lower_bound=1,
            flag_values=values,
        )  # fmt: skip
    define_search_flags(values)
    with flag_group(values, "Comparison"):
        flags.DEFINE_string("parity_file", "", "Lines to try it on instead of the dev split.", flag_values=values)
        flags.DEFINE_integer("parity_lines", 200, "How many of them.", lower_bound=1, flag_values=values)
        flags.DEFINE_string(
            "data_dir", DEFAULT_DATA_DIR, "Folder of generated data, where the dev split is.", flag_values=values
        )
    return values


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    """Runs the command; returns its exit status."""
    if not values["export_dir"].value:
        raise UserError("--export_dir: not given; name the folder to make")
    names = [values[name].value for name in ("output_dir", "problem", "model", "hparams_set", "t2t_usr_dir")]
    run = open_asked_run(*names)
    folder = local_path(values["export_dir"].value)
    exporting = import_quietly("t2t.runs.exporting")
    exporting.check_folder(folder)
    loaded = import_quietly("t2t.runs.loading").load(
        run.path, values["checkpoint"].value, values["t2t_usr_dir"].value or None, search_overrides(values),
        values["problem"].value,
    )  # fmt: skip
    wanted = exporting.Wanted(
        **{name: values[name].value for name in ("format", "n_best", "quantization", "parity_file", "parity_lines")},
        folder=folder,
        data_dir=values["data_dir"].value,
    )
    for what, parity in exporting.export_run(loaded, wanted).items():
        print(f"{what}: {parity}")
    print(f"exported to {folder}")
    return 0
