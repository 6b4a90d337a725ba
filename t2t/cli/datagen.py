"""`t2t-datagen`: generates the data of a problem."""

from absl import flags

from t2t.cli.common import command
from t2t.cli.flags import define_problem_flags, lists_registry, request_of
from t2t.cli.help import DATA, flag_group
from t2t.runs.data import generate_all
from t2t.specs.constants import DATA_SEED

USAGE = """
Generates the data of a problem: learns its vocabulary, encodes its splits, writes them with checksums.

    %s --problem=translate_ende_numbers
    %s --problem=translate_ende_multi30k --data_dir=data --tmp_dir=raw
    %s --problem=text2text_files --train_source=a.en --train_target=a.de \\
      --dev_source=b.en --dev_target=b.de
"""


def build_flags() -> flags.FlagValues:
    """Returns the flags of the command."""
    values = flags.FlagValues()
    define_problem_flags(values)
    with flag_group(values, DATA) as define:
        define.integer("random_seed", DATA_SEED, "Seed of everything that chance decides.")
    return values


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    """Runs the command; returns its exit status."""
    if lists_registry(values):
        return 0
    generate_all(request_of(values), values.random_seed)
    return 0
