"""`t2t-eval`: evaluates a trained run on a split of generated data, or on a file of choices."""

import functools
import logging

from absl import flags

from t2t.cli.common import command
from t2t.cli.config import define_config_flag, refuse_flags
from t2t.cli.decoding_flags import OUTPUT_FLAGS, define_device_flags, define_engine_flags, define_search_flags
from t2t.cli.flags import DATA, DECODING, command_flags, define_field_flag, flag_group
from t2t.cli.run_flags import define_trained_flags, load_run, open_trained_run
from t2t.cli.tensor2tensor import RUN_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.lines import LineSource
from t2t.inference.engine import CTRANSLATE2
from t2t.runs.config import RunConfig
from t2t.runs.evaluation import compare_engines, describe_examples, evaluate, first_examples, open_split
from t2t.runs.run_checks import select_problem
from t2t.specs import DEFAULT_DATA_DIR, DEV, SPLITS, TEST

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
    if values.eval_use_test_set:
        refuse_flags(values, ("split",), "--eval_use_test_set names the split test")
        values.split = TEST
    run = open_trained_run(values)
    if values.choice_file:
        why = "--choice_file needs no data and searches nothing"
        refuse_flags(values, ("data_dir", "split", "eval_steps", "compare_engine", *OUTPUT_FLAGS), why)
        LineSource(values.choice_file)
        select_problem(run, values.problem)
        return _judge_choices(load_run(values, run.path, values.problem), values.choice_file)
    if values.compare_engine and values.engine != CTRANSLATE2:
        raise UserError(
            f"--engine={values.engine} is not compared with TensorFlow",
            "ask for --engine=ctranslate2",
            option="compare_engine",
        )
    load, split = functools.partial(load_run, values, run.path), values.split
    for loaded, data in open_split(run, load, values.problem, values.data_dir, split):
        if values.compare_engine:
            examples = first_examples(data, split, loaded.hparams, values.eval_steps)
            print(describe_examples(loaded, data, split, len(examples)))
            print(compare_engines(loaded.translator(), examples))
        else:
            print(evaluate(loaded, data, split, values.eval_steps))
    return 0


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
