"""`t2t-aer`: scores a file of word alignments against one made by hand."""

from collections import Counter

from absl import flags

from t2t.cli.common import command
from t2t.cli.flags import FILES, command_flags, flag_group
from t2t.cli.pairs import warn_of_repairs
from t2t.errors import UserError
from t2t.files.lines import LineSource
from t2t.files.pharaoh import Links, parse_links
from t2t.metrics.alignment import alignment_error_rate

USAGE = """
Prints the alignment error rate of word alignments (Och and Ney 2003), with precision and recall. The two files
correspond line by line.

    %s --gold=gold.links --test=found.links
    %s gold.links found.links

A line has links such as 0-0 1-2 (source word, target word, counted from 0). In the gold file, possible links that are
not sure are written 0?0. `t2t-decoder --align_file` and `--output_format=pharaoh` write such files.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, FILES) as define:
        define.string("gold", "", "File of alignments made by hand, plain or gzip; the first plain argument.")
        define.string("test", "", "File of alignments to score, - for standard input; the second plain argument.")


@command(build_flags, USAGE, positional=("gold", "test"))
def main(values: flags.FlagValues) -> int:
    missing = [name.upper() for name in ("gold", "test") if not values[name].value]
    if missing:
        raise UserError(f"{' and '.join(missing)} not given", "name the file made by hand, then the one to score")
    gold, found = _links(values.gold), _links(values.test)
    if len(gold) != len(found):
        raise UserError(
            f"{values.gold} has {len(gold):,} lines and {values.test} has {len(found):,}",
            "line n of one must belong to line n of the other",
        )
    print(alignment_error_rate(gold, [sure + possible for sure, possible in found]))
    return 0


def _links(path: str) -> list[tuple[Links, Links]]:
    """Returns the sure and the possible links of each line."""
    source, repaired = LineSource(path), Counter[str]()
    lines = [parse_links(line, str(source), number) for number, line in enumerate(source.lines(repaired), start=1)]
    warn_of_repairs(repaired, f"{source}: ")
    return lines
