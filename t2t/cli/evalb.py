"""`t2t-evalb`: scores a file of parse trees against a treebank and prints the report of EVALB."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from absl import flags

from t2t.cli.common import command
from t2t.cli.flags import FILES, command_flags, flag_group
from t2t.cli.pairs import warn_of_repairs
from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.metrics.brackets import BUILT_IN, evalb_report, get_parameters

USAGE = """
Prints EVALB's report on bracketed trees: labelled bracketing, crossing brackets and tags, for each sentence and in
total. Each tree is on one line, and the two files correspond line by line; an empty line stands for no tree.

    %s GOLD TEST
    %s --param_file=COLLINS.prm GOLD TEST

Built-in settings: COLLINS (the default, used by published scores), new (new.prm) and none (EVALB without a parameter
file: no label is deleted). Errors in sentences go to standard error, in EVALB's words.
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    """Defines the flags; -p is EVALB's name for --param_file."""
    with flag_group(values, FILES) as define:
        define.string("param_file", "COLLINS", f"EVALB's parameter file, or built-in settings: {', '.join(BUILT_IN)}.",
                      short_name="p")  # fmt: skip
        define.string("gold", "", "File of gold trees, plain or gzip; the first plain argument.")
        define.string("test", "", "File of trees to score; the second plain argument.")


@command(build_flags, USAGE, positional=("gold", "test"))
def main(values: flags.FlagValues) -> int:
    """Runs the command; returns its exit status, 1 where MAX_ERROR stops the report."""
    missing = [name.upper() for name in ("gold", "test") if not values[name].value]
    if missing:
        raise UserError(
            f"{' and '.join(missing)} not given", "name the file of gold trees, then that of trees to score"
        )
    parameters = get_parameters(values.param_file)
    repaired: Counter = Counter()
    try:
        for line in evalb_report(_lines(values.gold, repaired), _lines(values.test, repaired), parameters):
            if line.is_error:
                sys.stdout.flush()  # keeps the order of both streams
            print(line.text, file=sys.stderr if line.is_error else sys.stdout)
    finally:
        sys.stdout.flush()
        warn_of_repairs(repaired)
    return 0


def _lines(path: str, repaired: Counter) -> Iterator[str]:
    """Opens a file when called, not at the first line, so that a missing one is an error before the report begins."""
    if not Path(path).is_file():
        found = "this is not a plain file" if Path(path).exists() else "there is no such file"
        raise UserError(f"{path}: {found}", "check the path")
    return read_lines(path, repaired)
