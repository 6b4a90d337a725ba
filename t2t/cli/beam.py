"""The flag of commands whose work Apache Beam can do."""

import importlib
from collections.abc import Mapping, Sequence

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.decoding import decoding_fields, output_options_of
from t2t.cli.decoding_flags import engine_choice, languages_of
from t2t.cli.help import MACHINE, flag_group
from t2t.cli.run_flags import loading_arguments
from t2t.cli.sharding import FILE_MODES
from t2t.errors import needs_extra


def define_beam_flag(values: flags.FlagValues) -> None:
    """Options of Apache Beam."""
    with flag_group(values, MACHINE) as define:
        define.string("beam_options", "", "Options of Apache Beam, in quotes, as its pipelines take them: its workers "
                      "then make the shards, in processes of this machine or on a cluster.")  # fmt: skip


def checked_beam_options(values: flags.FlagValues) -> str:
    """Returns the options of Apache Beam that were given, empty for none.

    Raises:
        UserError: it is not installed, or has no such option.
    """
    if values.beam_options:
        with needs_extra("beam", "--beam_options"):
            options = importlib.import_module("t2t.pipelines.options")
        options.parse_beam_options(values.beam_options)
    return values.beam_options


def answer_by_beam(
    values: flags.FlagValues, runs: Sequence[RunDir], problem: str, dictionary: Mapping[str, str]
) -> None:
    """Answers all shards of a file, each into its part, as the flags of the decoder say.

    Raises:
        UserError: there is no such checkpoint, or as an answer of the file without Apache Beam.
        MachineError: the same, or a worker died.
    """
    output_options = output_options_of(values)
    mode = next(name for name in FILE_MODES if values[name].value)
    how = decoding_fields(output_options) if mode == "decode_from_file" else {"window": output_options.window}
    importlib.import_module("t2t.pipelines.decoding").answer_file(
        mode,
        {"source": values[mode].value, "target": values.decode_to_file, **how},
        [(run, values.checkpoint) for run in runs],
        values.beam_options,
        average=values.ensemble_average,
        engine=engine_choice(values),
        loading=loading_arguments(values, problem, many_rows=mode == "decode_from_file"),
        dictionary=dictionary,
        languages=languages_of(values),
    )
