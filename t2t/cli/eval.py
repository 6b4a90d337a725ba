"""`t2t-eval`: evaluates a trained run on a split of generated data, or on a file of choices."""

import logging

from absl import flags

from t2t.checkpoints.store import CheckpointStore
from t2t.cli.common import command, command_flags
from t2t.cli.decoding import refuse_flags
from t2t.cli.flags import (
    OUTPUT_FLAGS,
    define_device_flags,
    define_engine_flags,
    define_field_flag,
    define_search_flags,
    define_trained_flags,
    load_run,
    open_run,
    open_trained_run,
)
from t2t.cli.help import DATA, flag_group
from t2t.files.source import LineSource
from t2t.runs.data import check_split, open_run_data
from t2t.runs.names import Request
from t2t.runs.run_checks import check_checkpoint, select_problem, select_problems
from t2t.runs.settings import Settings
from t2t.runs.startup import import_quietly
from t2t.specs.constants import DEFAULT_DATA_DIR, DEV, SPLITS

USAGE = """
Evaluates a trained run: scores of what it writes by itself, with the signatures that make them comparable, and
teacher-forced figures (the model predicts each token given the reference before it).

    %s --output_dir=run --data_dir=data
    %s --output_dir=run --data_dir=data --split=test --checkpoint=best
    %s --output_dir=run --data_dir=data --problem=translate_ende_numbers  (one of several)
    %s --output_dir=run --choice_file=pronouns.tsv

The last counts how often the model finds the right one of two given outputs more probable. A line of the file is source
TAB output A TAB output B TAB A or B for the right one; a language model does not look at the source.
"""

log = logging.getLogger("t2t")


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trained_flags(values)
    with flag_group(values, DATA) as define:
        define.string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data.")
        define.enum("split", DEV, SPLITS, "Which split to evaluate on.")
        text = "Batches of the split to look at, its first ones; 0 = all."
        define_field_flag(values, "eval_steps", Settings, default=0, text=text)
        define.string("choice_file", "", "Counts how often the right one of two outputs is chosen; plain or gzip, - "
                      "for standard input.")  # fmt: skip
    define_search_flags(values, decodes_only=True)
    define_engine_flags(values)
    define_device_flags(values)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    names = {name: values[name].value for name in ("output_dir", "problem", "model", "hparams_set", "data_dir")}
    request = Request(**names, usr_dir=values.t2t_usr_dir)
    run = open_trained_run(values)
    if values.choice_file:
        why = "--choice_file needs no data and searches nothing"
        refuse_flags(values, ("data_dir", "split", "eval_steps", *OUTPUT_FLAGS), why)
        LineSource(values.choice_file)
        select_problem(run, request.problem)
        return _judge_choices(load_run(values, run.path, request.problem), values.choice_file)
    return evaluate(request, values.checkpoint, values.split, values.eval_steps, values)


def _judge_choices(loaded, file: str) -> int:
    """Prints how often the right one of two outputs is chosen; returns the exit status."""
    translator = loaded.translator()
    judged = import_quietly("t2t.inference.files.choices").judge_choices(translator, file)
    for complaint in judged.report.complaints(translator.most_ids):
        log.warning("%s", complaint)
    if judged.ties:
        log.warning("%d with equally probable outputs, which do not count as right", judged.ties)
    print(f"{judged.of:,} choices of {file}, {loaded.checkpoint.name} ({loaded.checkpoint.step:,} updates)")
    print(judged)
    return 0


def evaluate(request: Request, checkpoint: str, split: str, eval_steps: int, values: flags.FlagValues) -> int:
    """Evaluates a checkpoint and prints the figures, a line each; returns the exit status.

    `request` has the folders, and names to check; without a problem, all of the run are evaluated. `values` are the
    flags of search and devices.

    Raises:
        UserError: no run, no data, another problem, model or vocabulary.
    """
    asked = (request.problem, request.model, request.hparams_set)
    run = open_run(request.output_folder, *asked, request.usr_dir)
    check_checkpoint(CheckpointStore(run.checkpoints_folder), checkpoint)
    names = select_problems(run, request.problem)
    for name in names:
        check_split(open_run_data(run, request.data_dir, name, split, verify=False), split)
    evaluation, decoding = (import_quietly(f"t2t.runs.{name}") for name in ("evaluation", "split_decoding"))
    for name in names:
        loaded = load_run(values, run.path, name, checkpoint)
        data = open_run_data(loaded.run, request.data_dir, name, split)
        engine = loaded.translator().engine if decoding.decodes(loaded.model) else None
        parts = loaded.model, loaded.hparams, data, split, eval_steps, data.problem.metrics
        found = evaluation.evaluate(*parts, engine)
        print(
            f"{found.examples:,} of {found.of:,} {split} examples of {name}, {loaded.checkpoint.name} "
            f"({loaded.checkpoint.step:,} updates)"
        )
        print(*found.scores, *(f"{figure} = {value:.4f}" for figure, value in found.figures.items()), sep="\n")
    return 0
