"""`t2t-shortlist`: learns a lexical shortlist, the target pieces to consider for each input."""

from absl import flags

from t2t.cli.common import command
from t2t.cli.flags import (
    DATA,
    NAMES,
    RUN,
    command_flags,
    define_alias,
    define_field_flag,
    define_usr_dir_flag,
    flag_group,
)
from t2t.files.paths import with_addresses
from t2t.runs.config import ShortlistOptions
from t2t.runs.run_checks import check_plugins, open_run, select_problem
from t2t.runs.shortlist import learn_shortlist
from t2t.runs.startup import load_plugins_quietly
from t2t.specs import DEFAULT_DATA_DIR

USAGE = """
Learns a shortlist of target pieces from the data that a run was trained on: the most frequent pieces, and the most
probable translations of each input piece. Decoding with --shortlist considers only these, which makes the output layer
of a large vocabulary cheaper.

    %s --output_dir=run --data_dir=data
    %s --output_dir=run --data_dir=data --frequent=2000 --translations=10
    t2t-decoder --output_dir=run --shortlist --decode_from_file=a.en --decode_to_file=a.de

The shortlist is stored in the run and replaces any earlier one. Its coverage of the references is printed.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, RUN) as define:
        define.string("output_dir", "", "Folder of the run, the --output_dir of t2t-trainer.")
    define_usr_dir_flag(values)
    with flag_group(values, NAMES) as define:
        define.string("problem", "", "Problem of the run, checked if given; selects one in a run of several.")
        define_alias("problems", "problem", flag_values=values)
    with flag_group(values, DATA) as define:
        define.string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data.")
    with flag_group(values, "Shortlist"):
        for name in ("frequent", "translations", "max_examples"):
            define_field_flag(values, name, ShortlistOptions)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    run = open_run(values.output_dir, values.problem, t2t_usr_dir=values.t2t_usr_dir)
    check_plugins(run, load_plugins_quietly(values.t2t_usr_dir))
    options = ShortlistOptions(**{name: values[name].value for name in ("frequent", "translations", "max_examples")})
    report = learn_shortlist(run, values.data_dir, select_problem(run, values.problem), options)
    print(report)
    print(with_addresses(f"written to {report.folder}"))
    return 0
