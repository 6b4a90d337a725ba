"""`t2t-avg-all`: averages checkpoints of a run into one."""

import re

from absl import flags

from t2t.checkpoints.averaging import average_checkpoints, last_steps
from t2t.checkpoints.store import AVERAGED, CheckpointStore
from t2t.cli.common import command, define_alias
from t2t.cli.flags import open_asked_run
from t2t.cli.help import RUN, flag_group
from t2t.errors import UserError

DEFAULT_COUNT = 5
USAGE = """
Averages the weights of some checkpoints, variable by variable, into a checkpoint that decodes as any other.

    %s --output_dir=run                          (the last 5)
    %s --output_dir=run --n=20
    %s --output_dir=run --checkpoints=8000,9000,10000
    t2t-decoder --output_dir=run --checkpoint=averaged
"""


def build_flags() -> flags.FlagValues:
    """Returns the flags of the command."""
    values = flags.FlagValues()
    with flag_group(values, RUN):
        flags.DEFINE_string("output_dir", "", "Folder of the run, as t2t-trainer was given it.", flag_values=values)
        define_alias("model_dir", "output_dir", flag_values=values)
    with flag_group(values, "Average"):
        flags.DEFINE_integer("n", None, f"Averages the last so many; {DEFAULT_COUNT} where unset.", flag_values=values)
        flags.DEFINE_list("checkpoints", [], "Averages these steps: 100,200,300.", flag_values=values)
        flags.DEFINE_string(
            "name", AVERAGED, "Name of the result, averaged or averaged-...; one that is there is replaced.",
            flag_values=values,
        )  # fmt: skip
    return values


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    """Runs the command; returns its exit status."""
    count, asked = values["n"].value, values["checkpoints"].value
    if asked and count is not None:
        raise UserError("--n and --checkpoints are given; keep one of them")
    store = CheckpointStore(open_asked_run(values["output_dir"].value).checkpoints_folder)
    steps = _steps(asked) if asked else last_steps(store, DEFAULT_COUNT if count is None else count)
    folder = average_checkpoints(store, steps, values["name"].value)
    print(f"averaged steps {', '.join(map(str, steps))} into {folder}")
    return 0


def _steps(asked: list[str]) -> list[int]:
    for text in asked:
        if not re.fullmatch("[0-9]{1,18}", text.strip()):
            raise UserError(f"--checkpoints: {text!r} is no step; give numbers of updates, e.g. --checkpoints=100,200")
    steps = [int(text) for text in asked]
    if len(set(steps)) < len(steps):
        raise UserError(f"--checkpoints={','.join(asked)}: a step stands in it twice; name each once")
    return steps
