"""The --beam_options flag, of commands that can run on Apache Beam."""

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
    """Defines --beam_options."""
    with flag_group(values, MACHINE) as define:
        define.string("beam_options", "", "Pipeline options of Apache Beam, in quotes. Its workers then process the "
                      "shards, in local processes or on a cluster.")  # fmt: skip


def checked_beam_options(values: flags.FlagValues) -> str:
    """Returns the value of --beam_options after checking it; empty if unset.

    Raises:
        UserError: Apache Beam is not installed or does not know an option.
    """
    if values.beam_options:
        with needs_extra("beam", "--beam_options"):
            from t2t.pipelines.pipeline import parse_beam_options
        parse_beam_options(values.beam_options)
    return values.beam_options


def answer_by_beam(
    values: flags.FlagValues, runs: Sequence[RunDir], problem: str, dictionary: Mapping[str, str]
) -> None:
    """Decodes, scores or aligns all shards of a file with Apache Beam, each into its part, by the decoder's flags.

    Raises:
        UserError: no such checkpoint, or any user error of the same command without Apache Beam.
        MachineError: any machine error of the same command without Apache Beam, or a worker died.
    """
    from t2t.pipelines.decoding import answer_file

    output_options = output_options_of(values)
    mode = next(name for name in FILE_MODES if values[name].value)
    how = decoding_fields(output_options) if mode == "decode_from_file" else {"window": output_options.window}
    answer_file(
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
