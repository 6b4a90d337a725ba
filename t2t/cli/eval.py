"""`t2t-eval`: evaluates a trained run on a split of generated data, or on a file of choices."""

import logging

from absl import flags

from t2t.checkpoints.store import CheckpointStore
from t2t.cli.common import command
from t2t.cli.config import define_config_flag, refuse_flags
from t2t.cli.decoding_flags import OUTPUT_FLAGS, define_device_flags, define_engine_flags, define_search_flags
from t2t.cli.flags import DATA, DECODING, command_flags, define_field_flag, flag_group
from t2t.cli.run_flags import define_trained_flags, load_run, open_run, open_trained_run
from t2t.cli.tensor2tensor import RUN_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.lines import LineSource
from t2t.inference.engine import CTRANSLATE2
from t2t.runs.config import RunConfig
from t2t.runs.data import OpenData, check_split, open_run_data
from t2t.runs.run_checks import check_checkpoint, select_problem, select_problems
from t2t.runs.startup import prepare_framework
from t2t.specs.constants import DEFAULT_DATA_DIR, DEV, SPLITS, TEST

USAGE = """
Evaluates a trained run: scores of its decoded outputs, with signatures that make them comparable, and teacher-forced
metrics (the model predicts each token given the reference before it).

    %s --output_dir=run --data_dir=data
    %s --output_dir=run --data_dir=data --split=test --checkpoint=best
    %s --output_dir=run --data_dir=data --problem=translate_ende_numbers  (one of several)
    %s --output_dir=run --engine=ctranslate2 --compute_type=int8 --compare_engine
    %s --output_dir=run --choice_file=pronouns.tsv

--compare_engine decodes with the engine and with TensorFlow. It prints both scores, the number of inputs with the same
output, and how much the log-probabilities of TensorFlow's outputs differ.

--choice_file counts how often the model gives the right one of two outputs the higher probability. A line of the file
is source TAB output A TAB output B TAB A or B for the right one; a language model ignores the source.
"""

log = logging.getLogger("t2t")


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trained_flags(values)
    define_config_flag(values, excluded=("random_seed", "eval_steps"))
    with flag_group(values, DATA) as define:
        define.string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data.")
        define.enum("split", DEV, SPLITS, "Which split to evaluate on.")
        text = "Number of batches to evaluate, from the start of the split; 0 = all."
        define_field_flag(values, "eval_steps", RunConfig, default=0, text=text)
        define.string("choice_file", "", "Counts how often the model prefers the right one of two outputs; plain or "
                      "gzip, - for standard input.")  # fmt: skip
    define_search_flags(values, decodes_only=True)
    define_engine_flags(values)
    with flag_group(values, DECODING) as define:
        define.boolean("compare_engine", False, "Compares --engine=ctranslate2 with TensorFlow: scores, outputs and "
                       "log-probabilities.")  # fmt: skip
    define_device_flags(values)
    with flag_group(values, DATA) as define:
        define.boolean("eval_use_test_set", False, "Means --split=test.")
    define_unused_flags(values, RUN_FLAGS)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    names = ("output_dir", "problem", "model", "hparams_set", "data_dir", "t2t_usr_dir")
    config = RunConfig.given({name: values[name].value for name in names})
    if values.eval_use_test_set:
        refuse_flags(values, ("split",), "--eval_use_test_set names the split test")
        values.split = TEST
    run = open_trained_run(values)
    if values.choice_file:
        why = "--choice_file needs no data and searches nothing"
        refuse_flags(values, ("data_dir", "split", "eval_steps", "compare_engine", *OUTPUT_FLAGS), why)
        LineSource(values.choice_file)
        select_problem(run, config.problem)
        return _judge_choices(load_run(values, run.path, config.problem), values.choice_file)
    if values.compare_engine and values.engine != CTRANSLATE2:
        raise UserError(
            f"--engine={values.engine} is not compared with TensorFlow",
            "ask for --engine=ctranslate2",
            option="compare_engine",
        )
    return evaluate(config, values.checkpoint, values.split, values.eval_steps, values)


def _judge_choices(loaded, file: str) -> int:
    """Prints how often the model prefers the right one of two outputs; returns the exit status."""
    from t2t.inference.files.scoring import judge_choices

    translator = loaded.translator()
    judged = judge_choices(translator, file)
    for warning in judged.report.warnings(translator.most_ids):
        log.warning("%s", warning)
    if judged.ties:
        log.warning("%d with equally probable outputs, which do not count as right", judged.ties)
    print(f"{judged.of:,} choices of {file}, {loaded.checkpoint.name} ({loaded.checkpoint.step:,} updates)")
    print(judged)
    return 0


def evaluate(config: RunConfig, checkpoint: str, split: str, eval_steps: int, values: flags.FlagValues) -> int:
    """Evaluates a checkpoint and prints its metrics, one a line; returns the exit status.

    `config` has the folders, and names to check against the run; without a problem, all problems of the run are
    evaluated. `values` has the flags of search and devices.

    Raises:
        UserError: no run, no data, another problem, model or vocabulary.
    """
    names = (config.problem, config.model, config.hparams_set)
    run = open_run(config.output_folder, *names, config.t2t_usr_dir)
    check_checkpoint(CheckpointStore(run.checkpoints_folder), checkpoint)
    problems = select_problems(run, config.problem)
    for name in problems:
        check_split(open_run_data(run, config.data_dir, name, split, verify=False), split)
    for name in problems:
        loaded = load_run(values, run.path, name, checkpoint)
        data = open_run_data(loaded.run, config.data_dir, name, split)
        compares = "compare_engine" in values and values.compare_engine
        print(*(_compared if compares else _evaluated)(loaded, data, split, eval_steps), sep="\n")
    return 0


def _evaluated(loaded, data: OpenData, split: str, eval_steps: int) -> list:
    prepare_framework()
    from t2t.runs.evaluation import evaluate
    from t2t.runs.trained_problems import decodes

    engine = loaded.translator().engine if decodes(loaded.model, data.problem) else None
    parts = loaded.model, loaded.hparams, data, split, eval_steps, data.problem.metrics
    found = evaluate(*parts, engine)
    figures = [f"{figure} = {value:.4f}" for figure, value in found.figures.items()]
    return [_describe(loaded, split, found.examples, found.of), *found.scores, *figures]


def _compared(loaded, data: OpenData, split: str, eval_steps: int) -> list:
    from t2t.runs.evaluation import compare_engines, first_examples

    examples = first_examples(data, split, loaded.hparams, eval_steps)
    found = compare_engines(loaded.translator(), examples)
    return [_describe(loaded, split, len(examples), len(data.readers[split])), found]


def _describe(loaded, split: str, examples: int, of: int) -> str:
    what = f"{examples:,} of {of:,} {split} examples of {loaded.problem.name}"
    return f"{what}, {loaded.checkpoint.name} ({loaded.checkpoint.step:,} updates)"
