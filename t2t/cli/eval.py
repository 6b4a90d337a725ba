"""`t2t-eval`: judges a trained run on a split of generated data, or on a file of choices."""

import logging

from absl import flags

from t2t.checkpoints.store import CheckpointStore
from t2t.cli.common import command
from t2t.cli.decoding import refuse_flags
from t2t.cli.field_flags import define_field_flag
from t2t.cli.flags import (
    define_more_search_flags,
    define_trained_flags,
    open_run,
    open_trained_run,
    search_overrides,
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

_NOT_FOR_CHOICES = (
    "data_dir", "split", "eval_steps", "decode_beam_size", "decode_alpha", "decode_extra_length", "decode_method",
    "decode_length_penalty", "sampling_temperature", "sampling_top_k", "sampling_top_p",
)  # fmt: skip
"""Flags that decide what is searched, and on which data."""

log = logging.getLogger("t2t")


def build_flags() -> flags.FlagValues:
    """Returns the flags of the command."""
    values = flags.FlagValues()
    define_trained_flags(values)
    with flag_group(values, DATA):
        flags.DEFINE_string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data.", flag_values=values)
        flags.DEFINE_enum("split", DEV, SPLITS, "Which split to evaluate on.", flag_values=values)
        define_field_flag(
            values, "eval_steps", Settings, "eval_steps", default=0,
            text="Batches of the split to look at, its first ones; 0 = all.",
        )  # fmt: skip
        flags.DEFINE_string(
            "choice_file", "", "Counts how often the right one of two outputs is chosen; plain or gzip, - for standard "
            "input.", flag_values=values,
        )  # fmt: skip
    define_more_search_flags(values)
    return values


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    """Runs the command; returns its exit status."""
    names = {name: values[name].value for name in ("output_dir", "problem", "model", "hparams_set", "data_dir")}
    request = Request(**names, usr_dir=values["t2t_usr_dir"].value)
    run = open_trained_run(values)
    if values["choice_file"].value:
        refuse_flags(values, _NOT_FOR_CHOICES, "--choice_file needs no data and searches nothing")
        LineSource(values["choice_file"].value)
        select_problem(run, request.problem)
        loaded = import_quietly("t2t.runs.loading").load(
            run.path, values["checkpoint"].value, request.usr_dir or None, search_overrides(values),
            request.problem,
        )  # fmt: skip
        return judge_choices(loaded, values["choice_file"].value)
    return evaluate(
        request,
        checkpoint=values["checkpoint"].value,
        split=values["split"].value,
        eval_steps=values["eval_steps"].value,
        decode_overrides=search_overrides(values),
    )


def judge_choices(loaded, file: str) -> int:
    """Prints how often a `t2t.runs.loading.LoadedRun` chooses the right one of two outputs; returns the exit status.

    Raises:
        UserError: no such file, or a line that is no choice.
    """
    translator = loaded.translator()
    judged = import_quietly("t2t.inference.files.choices").judge_choices(translator, file)
    for complaint in judged.report.complaints(translator.most_ids):
        log.warning("%s", complaint)
    if judged.ties:
        log.warning("%d with equally probable outputs, which do not count as right", judged.ties)
    print(f"{judged.of:,} choices of {file}, {loaded.checkpoint.name} ({loaded.checkpoint.step:,} updates)")
    print(judged)
    return 0


def evaluate(request: Request, checkpoint: str, split: str, eval_steps: int, decode_overrides: str = "") -> int:
    """Evaluates a checkpoint and prints what comes out, a line each; returns the exit status.

    Args:
        request: says where run and data are; names of problem, model and set are checked where they are given. Of a run
            of several problems, all are evaluated where none is named.
        checkpoint: see `t2t.runs.loading.load`.
        split: train, dev or test.
        eval_steps: batches to look at, 0 for all.
        decode_overrides: decode hparams to change.

    Raises:
        UserError: no run, no data, another problem, model or vocabulary.
    """
    asked = (request.problem, request.model, request.hparams_set)
    run = open_run(request.output_folder, *asked, request.usr_dir)
    check_checkpoint(CheckpointStore(run.checkpoints_folder), checkpoint)
    names = select_problems(run, request.problem)
    for name in names:
        check_split(open_run_data(run, request.data_dir, name, split, verify=False), split)
    loading = import_quietly("t2t.runs.loading")
    for name in names:
        loaded = loading.load(run.path, checkpoint, request.usr_dir or None, decode_overrides, name)
        _evaluate_loaded(loaded, request.data_dir, split, eval_steps)
    return 0


def _evaluate_loaded(loaded, data_dir: str, split: str, eval_steps: int) -> None:
    """Evaluates a `t2t.runs.loading.LoadedRun` and prints what comes out."""
    evaluation = import_quietly("t2t.runs.evaluation")
    data = open_run_data(loaded.run, data_dir, loaded.record.problem, split)
    found = evaluation.evaluate(loaded.model, loaded.hparams, data, split, eval_steps, data.problem.metrics)
    print(
        f"{found.examples:,} of {found.of:,} {split} examples of {loaded.record.problem}, {loaded.checkpoint.name} "
        f"({loaded.checkpoint.step:,} updates)"
    )
    for score in found.scores:
        print(score)
    for name, value in found.figures.items():
        print(f"{name} = {value:.4f}")
