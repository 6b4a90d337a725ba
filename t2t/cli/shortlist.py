"""`t2t-shortlist`: learns the target pieces that a search of a run considers for an input."""

from absl import flags

from t2t.cli.common import command, command_flags, define_alias
from t2t.cli.field_flag import define_field_flag
from t2t.cli.help import DATA, NAMES, RUN, flag_group
from t2t.cli.plugin_flags import define_usr_dir_flag
from t2t.cli.run_flags import open_run
from t2t.files.paths import with_addresses
from t2t.registry.plugins import load_plugins
from t2t.runs.run_checks import check_plugins, select_problem
from t2t.runs.shortlist import learn_shortlist
from t2t.runs.shortlist_options import ShortlistOptions
from t2t.runs.startup import quietly
from t2t.specs.constants import DEFAULT_DATA_DIR

USAGE = """
Learns, from the data that a run was trained on, which pieces outputs are made of: the most frequent ones, and of each
piece of the input its most probable translations. Decoding with --shortlist considers no others, so that the output
layer of a large vocabulary costs less.

    %s --output_dir=run --data_dir=data
    %s --output_dir=run --data_dir=data --frequent=2000 --translations=10
    t2t-decoder --output_dir=run --shortlist --decode_from_file=a.en --decode_to_file=a.de

It is kept in the run, in place of the one before. How much of the references it covers is printed.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, RUN) as define:
        define.string("output_dir", "", "Folder of the run, as t2t-trainer was given it.")
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("problem", "", "Problem of the run; optional, and checked; which one, of a run of several.")
        define_alias("problems", "problem", flag_values=values)
    with flag_group(values, DATA) as define:
        define.string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data.")
    with flag_group(values, "Shortlist"):
        for name in ("frequent", "translations", "max_examples"):
            define_field_flag(values, name, ShortlistOptions)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    run = open_run(values.output_dir, values.problem, usr_dir=values.t2t_usr_dir)
    with quietly():
        check_plugins(run, load_plugins(values.t2t_usr_dir or None))
    options = ShortlistOptions(**{name: values[name].value for name in ("frequent", "translations", "max_examples")})
    report = learn_shortlist(run, values.data_dir, select_problem(run, values.problem), options)
    print(report)
    print(with_addresses(f"written to {report.folder}"))
    return 0
