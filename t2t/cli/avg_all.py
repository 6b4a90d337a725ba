"""`t2t-avg-all`: averages checkpoints of a run into one."""

import logging
import re

from absl import flags

from t2t.checkpoints.averaging import average_checkpoints, best_steps, count_of_best, last_steps
from t2t.checkpoints.layout import AVERAGED, BEST, LATEST
from t2t.checkpoints.store import CheckpointStore
from t2t.cli.common import command
from t2t.cli.flags import RUN, command_flags, flag_group
from t2t.cli.tensor2tensor import AVERAGE_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.paths import with_addresses
from t2t.runs.run_checks import open_run

log = logging.getLogger("t2t")

DEFAULT_COUNT = 5
_NAME = re.compile(rf"[0-9]{{1,18}}|{LATEST}|{BEST}(\.[\w-]+|:[0-9]{{1,9}})?|{AVERAGED}(-[A-Za-z0-9]+)*")
USAGE = """
Averages the weights of several checkpoints, variable by variable, into a checkpoint that can be used like any other.

    %s --output_dir=run                          (the last 5)
    %s --output_dir=run --n=20
    %s --output_dir=run --checkpoints=8000,9000,10000
    %s --output_dir=run --checkpoints=best,latest
    %s --output_dir=run --checkpoints=best:5        (kept by --keep_best_checkpoints)
    t2t-decoder --output_dir=run --checkpoint=averaged
"""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    with flag_group(values, RUN) as define:
        define.string("output_dir", "", "Folder of the run, the --output_dir of t2t-trainer.")
        define.string("model_dir", "", "The same, in place of --output_dir.")
    with flag_group(values, "Average") as define:
        define.integer(
            "n", None, f"Averages the last N checkpoints, or all if there are fewer; unset: {DEFAULT_COUNT}."
        )
        define.list(
            "checkpoints",
            [],
            "Checkpoints to average: steps, best, best:5 for the best 5, latest or averaged-...; 100,200,best.",
        )
        define.string("name", AVERAGED, "Name of the result, averaged or averaged-...; an existing one is replaced.")
    define_unused_flags(values, AVERAGE_FLAGS)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    count, requested = values.n, values.checkpoints
    if requested and count is not None:
        raise UserError("--n and --checkpoints are given", "keep one of them")
    if values.model_dir and values.output_dir not in ("", values.model_dir):
        log.warning(
            "--output_dir=%s has no effect with --model_dir: the mean stays in the run, where --checkpoint=%s finds it",
            values.output_dir, values.name,
        )  # fmt: skip
    store = CheckpointStore(open_run(values.model_dir or values.output_dir).checkpoints_folder)
    chosen = (
        _parse_checkpoints(store, requested)
        if requested
        else last_steps(store, DEFAULT_COUNT if count is None else count)
    )
    folder = average_checkpoints(store, chosen, values.name)
    kind = "steps" if all(isinstance(one, int) for one in chosen) else "checkpoints"
    print(with_addresses(f"averaged {kind} {', '.join(map(str, chosen))} into {folder}"))
    return 0


def _parse_checkpoints(store: CheckpointStore, requested: list[str]) -> list[int | str]:
    """Returns the checkpoints as `CheckpointStore.find` takes them; raises UserError for paths and empty names."""
    names = [text.strip() for text in requested]
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        raise UserError(
            f"{wrong[0]!r} is not a checkpoint of a run",
            "give steps, best, latest or names of averages, e.g. --checkpoints=100,200,best",
            option="checkpoints",
        )
    chosen: list[int | str] = []
    for name in names:
        count = count_of_best(name)
        chosen += best_steps(store, count) if count is not None else [int(name) if name.isdigit() else name]
    return chosen
