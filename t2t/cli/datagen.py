"""`t2t-datagen`: generates the data of a problem."""

import sys

from absl import flags

from t2t.cli.common import ALL, command, parse, quietly
from t2t.cli.flags import define_problem_flags, request_of
from t2t.constants import DATA_SEED
from t2t.plugins import load_plugins
from t2t.runs.data import generate_data
from t2t.runs.names import problem_named, registry_listing

USAGE = """
Generates the data of a problem: learns its vocabulary, encodes its splits, writes them with checksums.

    %s --problem=translate_ende_numbers
    %s --problem=translate_ende_multi30k --data_dir=data --tmp_dir=raw
    %s --problem=text2text_files --train_source=a.en --train_target=a.de --dev_source=b.en --dev_target=b.de
"""


def build_flags() -> flags.FlagValues:
    """Returns the flags of the command."""
    values = flags.FlagValues()
    define_problem_flags(values)
    flags.DEFINE_integer("random_seed", DATA_SEED, "Seed of everything that chance decides.", flag_values=values)
    return values


@command
def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    values = parse(build_flags(), argv, USAGE)
    if values is None:
        return 0
    with quietly():
        load_plugins(values["t2t_usr_dir"].value or None)
    if values["registry_help"].value is not None:
        print(registry_listing(values["registry_help"].value.replace(ALL, "")))
        return 0
    request = request_of(values)
    generate_data(request, problem_named(request.problem, request.problem_options), values["random_seed"].value)
    return 0


def entry_point() -> None:
    """Is the console script."""
    sys.exit(main(sys.argv))
