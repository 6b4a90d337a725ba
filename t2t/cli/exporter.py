"""`t2t-exporter`: exports a run to another format and verifies that both give the same outputs."""

from collections import Counter
from pathlib import Path

from absl import flags

from t2t.cli.common import command
from t2t.cli.decoding_flags import define_language_flags, define_search_flags, languages_of
from t2t.cli.flags import command_flags, flag_group
from t2t.cli.run_flags import define_trained_flags, load_run, open_trained_run
from t2t.cli.tensor2tensor import RUN_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.files.paths import is_in_zoo, local_path, with_addresses
from t2t.files.remote.mirror import is_mirrored
from t2t.formats.exporter import OTHER_INPUTS, SAVED_MODEL, check_request, describe_quantizations
from t2t.formats.parity import FLOAT32, PROMISES
from t2t.registry import EXPORTERS
from t2t.runs.data import open_run_data
from t2t.runs.run_checks import select_problem
from t2t.runs.startup import prepare_framework
from t2t.specs import DEFAULT_DATA_DIR, DEV

_PROMISES = "\n\n".join(f"With {name}, {promise}." for name, promise in PROMISES.items())
USAGE = f"""
Exports a run for other programs. The export is kept only if it agrees with the run on 200 inputs
(--parity_lines).

    %s --output_dir=run --export_dir=served/1  (TensorFlow SavedModel: text in, text out)
    %s --output_dir=run --export_dir=served/1 --parity_file=lines.txt
    %s --output_dir=run --export_dir=fast --format=ctranslate2 --quantization=int8
    %s --output_dir=run --export_dir=graphs --format=onnx
    %s --output_dir=run --export_dir=translator --format=huggingface
    %s --output_dir=run --export_dir=phone --format=litert --quantization=int8
    %s --output_dir=run --export_dir=marian --format=marian

{_PROMISES}

The export contains the comparison, t2t_export.json, and a README.md on how to call it. The inputs
are the dev split of the run's data, lines of --parity_file, or, without either, random texts from
the run's vocabulary; the report says which. A SavedModel has the run's own search, fixed to its
settings or those given here.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trained_flags(values)
    with flag_group(values, "Export") as define:
        define.string("export_dir", "", "Folder to create; it must not exist. Empty for <output_dir>/export/1, or "
                      "the next free number.")  # fmt: skip

        define.string("format", SAVED_MODEL, f"What to make: {', '.join(EXPORTERS.names())}, or the name of a "
                      f"plug-in's exporter.")  # fmt: skip
        define.enum("quantization", FLOAT32, tuple(PROMISES), f"Number type of stored weights and matrix products; "
                    f"{describe_quantizations()}.")  # fmt: skip
        define.integer("n_best", None, "Outputs for each input, best first; unset: 1, or all classes.", lower_bound=1)
    define_language_flags(values)
    define_search_flags(values)
    with flag_group(values, "Comparison") as define:
        define.string("parity_file", "", "Lines to compare on instead of the dev split.")
        define.integer("parity_lines", 200, "How many of them.", lower_bound=1)
        define.string("data_dir", "", f"Folder of generated data, where the dev split is; empty for {DEFAULT_DATA_DIR} "
                      f"if it has the run's data, else random texts.")  # fmt: skip
    define_unused_flags(values, RUN_FLAGS)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    folder, problem = _check_early(values)
    prepare_framework()
    from t2t.backends import check_tensorflow

    check_tensorflow("exports are made by TensorFlow")
    from t2t.runs.exporting import export_run

    options = ("format", "n_best", "quantization", "parity_file", "parity_lines", "data_dir")
    loaded = load_run(values, values.output_dir, problem).with_languages(*languages_of(values))
    parities = export_run(loaded, folder, **{name: values[name].value for name in options})
    for what, parity in parities.items():
        print(f"{what}: {parity}")
    print(with_addresses(f"exported to {folder}"))
    return 0


def _check_early(values: flags.FlagValues) -> tuple[Path, str]:
    """Checks the request as far as possible without loading TensorFlow; returns its folder and problem."""
    run = open_trained_run(values)
    if not values.export_dir and (is_mirrored(run.path) or is_in_zoo(run.path)):
        raise UserError("not given", "name the folder to make, here or in an object store", option="export_dir")
    # the next free number: the layout of versions that TensorFlow Serving expects
    versions = [int(path.name) for path in (run.path / "export").glob("*") if path.name.isdecimal()]
    next_version = run.path / "export" / str(max(versions, default=0) + 1)
    folder = local_path(values.export_dir) if values.export_dir else next_version
    check_request(values.format, values.quantization, folder)
    problem, data_dir = select_problem(run, values.problem, values.target_language), values.data_dir
    if file := values.parity_file:
        if next(iter(read_lines(local_path(file), Counter())), None) is None:
            raise UserError(
                "it has no lines", "give lines of text to try the export on", option="parity_file", value=file
            )
    elif data_dir:
        try:
            open_run_data(run, data_dir, problem, DEV, verify=False)
        except UserError as error:
            raise UserError(f"{error}", f"{OTHER_INPUTS}") from None
    return folder, problem
