"""`t2t-translate-all`: decodes one file with every checkpoint of a run."""

import logging

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.cli.common import command
from t2t.cli.decoding import decode_file
from t2t.cli.decoding_flags import define_device_flags, define_engine_flags, define_search_flags
from t2t.cli.flags import FILES, command_flags, define_alias, flag_group
from t2t.cli.pairs import steps_as_they_appear
from t2t.cli.run_flags import check_run_loadable, define_trained_flags, load_run
from t2t.cli.tensor2tensor import RUN_FLAGS, TRANSLATE_ALL_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.files.lines import STANDARD, LineSource
from t2t.files.paths import local_path
from t2t.runs.run_checks import open_run, select_problem

USAGE = """
Decodes a file with every checkpoint of a run into <translations_dir>/<problem>-<step>. Existing files are kept, so that
the same command resumes after an interruption.

    %s --output_dir=run --source=dev.en --translations_dir=translations
    %s --model_dir=run --source=dev.en --wait_minutes=60  (while it trains)
    t2t-bleu --translations_dir=translations --reference=dev.de
"""

log = logging.getLogger("t2t")


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trained_flags(values, one_checkpoint=False)
    define_alias("model_dir", "output_dir", flag_values=values)
    with flag_group(values, FILES) as define:
        define.string("source", "", "File to decode, plain or gzip.")
        define.string("translations_dir", "translations", "Folder of the outputs; created if it does not exist.")
    with flag_group(values, "Checkpoints") as define:
        define.integer("min_steps", 0, "Skips checkpoints with fewer updates.", lower_bound=0)
        define.float("wait_minutes", 0.0, "Minutes to wait for another checkpoint before ending.", lower_bound=0.0)
    define_search_flags(values, decodes_only=True)
    define_alias("beam_size", "decode_beam_size", flag_values=values)
    define_alias("alpha", "decode_alpha", flag_values=values)
    define_engine_flags(values)
    define_device_flags(values)
    define_unused_flags(values, {**TRANSLATE_ALL_FLAGS, **RUN_FLAGS})


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if not values.source or values.source == STANDARD:
        raise UserError("not given", "name a file to decode with every checkpoint", option="source")
    LineSource(values.source)
    run = open_run(values.output_dir, values.problem, values.model, values.hparams_set, values.t2t_usr_dir)
    check_run_loadable(run, values, "latest")
    folder = local_path(values.translations_dir)
    with os_errors_as_machine_errors(f"cannot make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    store, problem = CheckpointStore(run.checkpoints_folder), select_problem(run, values.problem)
    count = 0
    for step in steps_as_they_appear(store.steps, values.min_steps, values.wait_minutes):
        target = folder / f"{problem}-{step}"
        if target.exists():
            log.info("%s exists and is kept", target)
        elif store.has(step):  # an old checkpoint may have been deleted meanwhile
            _decode(values, run, problem, step, str(target))
        count += 1
    if not count:
        raise UserError(
            f"{run.path} has no checkpoint of so many updates", "give less", option="min_steps", value=values.min_steps
        )
    return 0


def _decode(values: flags.FlagValues, run: RunDir, problem: str, step: int, target: str) -> None:
    loaded = load_run(values, run.path, problem, str(step), many_rows=True)
    decode_file(loaded, values.source, target)
