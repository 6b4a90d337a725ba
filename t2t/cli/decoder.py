"""`t2t-decoder`: decodes a file, a data split or typed text with a trained run; also scores and aligns files."""

import functools
from collections.abc import Mapping, Sequence

from absl import flags

from t2t.checkpoints.run_dir import RunDir
from t2t.cli.common import command
from t2t.cli.config import define_config_flag, refuse_flags
from t2t.cli.decoding import (
    answer_pairs,
    check_files,
    check_reference,
    check_scoring,
    check_split_languages,
    decode_file,
    decode_interactively,
    decode_split,
    define_output_flags,
    draw_attention,
    job_fields,
    merge_file,
    print_scores,
)
from t2t.cli.decoding_flags import (
    FILE_MODES,
    OUTPUT_FLAGS,
    WORD_FLAGS,
    check_shard_flags,
    checked_beam_options,
    command_of_shard,
    define_beam_flag,
    define_device_flags,
    define_engine_flags,
    define_ensemble_flag,
    define_language_flags,
    define_search_flags,
    define_shard_flags,
    define_word_flags,
    engine_choice,
    languages_of,
    trained_overrides,
)
from t2t.cli.flags import ACTION, command_flags, flag_group
from t2t.cli.run_flags import define_trained_flags, load_runs, loading_arguments, open_trained_runs
from t2t.cli.tensor2tensor import RUN_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.output import check_output
from t2t.inference.alignment import read_dictionary
from t2t.inference.engine import AUTO, TENSORFLOW
from t2t.inference.files.formats import FILES, PHARAOH
from t2t.inference.files.shards import parse_shard
from t2t.problems.base import Problem
from t2t.runs.data import check_split, open_run_data
from t2t.runs.run_checks import check_one_problem, select_problem
from t2t.specs import DEFAULT_DATA_DIR, DEV, TEST

USAGE = """
Decodes with a trained run; --output_dir is all it needs. Without a mode it translates typed text.

    %s --output_dir=run                                 (typed text; end with Ctrl-D)
    %s --output_dir=run --decode_from_file=a.en --decode_to_file=a.de
    %s --output_dir=run --decode_from_file=- < a.en > a.de
    %s --output_dir=run --decode_from_file=a.en --decode_to_file=a.de --shard=3/100
    %s --output_dir=run --decode_split=test --data_dir=data  (prints the score)
    %s --output_dir=run --problem=translate_ende_multi30k  (one of the run's problems)
    %s --output_dir=run --target_language=fr --decode_from_file=a.de  (language tag)
    %s --output_dir=run1,run2,run3 --decode_from_file=a.en  (an ensemble)
    %s --output_dir=run --decode_from_file=a.en --output_format=pharaoh  (word alignments)
    %s --output_dir=run --score_file=pairs.tsv --decode_to_file=pairs.scores
    %s --output_dir=run --align_file=pairs.tsv --decode_to_file=pairs.links
    %s --output_dir=run --attention_to_html=look.html < a.en  (a page for a browser)

A file gets one output line for each input line, in order; lines end at \\n only. An empty line gets an
empty output, with --alignments " ||| "; a language model continues it. The unfinished output is
<decode_to_file>.partial; after a crash, the same command resumes it. Where inputs are recordings or images, each line
is the path of one, relative to the folder of the file.

--shard=K/N decodes shard K of N of the file, counted from 0, into a part such as a.de.shard-00003-of-00100. When all
parts exist, the same command with --merge instead of --shard joins them into the file that a single command would
write.

--target_prefix_file gives a prefix for each output, a line each; an empty line means none. The output may continue
the last word of its prefix, as zwei in zweiundzwanzig. The score is that of the continuation.

--constraints_file has one JSON object for each output: phrases that it must and must not contain, {"constraints":
["Haus"], "avoid": ["Heim"]}, the allowed outputs, {"choices": ["ja", "nein"]}, or {"regex": "[0-9]+"}; an empty line
means none.

--alignments adds to each output the input word that each of its words attends to most: after " ||| " in the Pharaoh
format, 0-0 1-2 (input word, output word, counted from 0), in a column or a field; --output_format=pharaoh writes only
these. --replace_unknown replaces an unknown word by that input word, or by its translation in --unknown_dictionary.

--token_scores adds to each output in --output_format=jsonl its pieces with their log-probabilities, given the input and
the previous pieces: "tokens": [["_Haus", -0.2], ...]; both engines compute them.

--score_file takes lines of source TAB target; for a language model only the target. It writes the log-probability of
each target, end of sequence included: natural logarithm, six decimals; nan for a target that is too long; with
--token_scores --output_format=jsonl a line {"log_prob": -2.5, "tokens": [["_Haus", -0.2], ...]}. --align_file
takes the same lines and writes word alignments, 0-0 1-2: for each target word the source word that the model attends to
most while predicting it, counted from 0; nothing for a target that is too long. `t2t-aer` scores such a file.

--attention_to_html draws the attention for each line of standard input or --decode_from_file, source or source TAB
target, in one HTML file that needs no network; also the tree for parsing problems, and the probabilities for classes.
"""

_SIDE_FILES = {"target_prefix_file": "begin with", "constraints_file": "hold, avoid or are"}
"""Flags of files that accompany the input, and the verb that messages use for their effect on outputs."""


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    define_trained_flags(values)
    define_config_flag(values, excluded=("random_seed",))
    with flag_group(values, ACTION) as define:
        define.boolean("decode_interactive", False, "Translates typed text.")
        define.string("decode_from_file", "", "Decodes this file, plain or gzip; - for standard input.")
        define.string("decode_to_file", "", "Output file; - for standard output; empty for "
                      "<decode_from_file>.<model>.<hparams_set>.<problem>.beam4.alpha0.6.decodes, or ....scores; with "
                      "--decode_split, empty writes no file.")  # fmt: skip
        define.string(
            "decode_reference", "", "File of references, several with commas; prints the scores of the decoded outputs."
        )
        define.string("target_prefix_file", "", "Prefixes of the outputs of --decode_from_file, one line for each of "
                      "its lines, whose last word may be continued; an empty line for none.")  # fmt: skip
        define.string("constraints_file", "", "Constraints on the outputs of --decode_from_file, one JSON object for "
                      "each of its lines; an empty line for none.")  # fmt: skip
        define.string("score_file", "", "Scores the lines of this file, source TAB target; plain or gzip, - for "
                      "standard input.")  # fmt: skip
        define.string("align_file", "", "Aligns the words of the lines of this file, source TAB target, in the Pharaoh "
                      "format.")  # fmt: skip
        define.string("attention_to_html", "", "Draws attention into this HTML file, for each line of "
                      "--decode_from_file or standard input: source or source TAB target.")  # fmt: skip
        define.enum("decode_split", None, (DEV, TEST), "Decodes a split of the run's problem and prints its score.")
        define.string("data_dir", DEFAULT_DATA_DIR, "Folder of generated data, for --decode_split.")
    define_language_flags(values)
    define_shard_flags(values)
    define_output_flags(values)
    define_word_flags(values)
    define_search_flags(values, decodes_only=True)
    define_engine_flags(values, AUTO)
    define_ensemble_flag(values)
    define_device_flags(values)
    define_beam_flag(values)
    define_unused_flags(values, RUN_FLAGS)


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    _check(values)
    source = values.decode_from_file or values.score_file or values.align_file
    if values.merge:
        merge_file(source, values.decode_to_file, functools.partial(command_of_shard, values))
        return 0
    dictionary = read_dictionary(values.unknown_dictionary) if values.unknown_dictionary else {}
    runs = open_trained_runs(values)
    run = runs[0]
    if len(runs) == 1:
        refuse_flags(values, ("ensemble_average",), "--output_dir names one run")
    problem = select_problem(run, values.problem, values.target_language)
    check_one_problem(runs, problem)
    split = values.decode_split
    if split:
        data = open_run_data(run, values.data_dir, problem, split, verify=False)
        check_split(data, split)
        check_split_languages(values, data.problem)
    scored = _problem_to_score(values, run, problem) if values.decode_reference else None
    if values.beam_options:
        _answer_by_beam(values, runs, problem, dictionary)
        merge_file(source, values.decode_to_file)
        if scored is not None:
            language = values.target_language or scored.target_language
            print_scores(scored, source, values.decode_to_file, values.decode_reference, language)
        return 0
    # A file or a split has enough lines to search several batches at a time.
    loaded = load_runs(values, runs, problem, many_rows=bool(values.decode_from_file or split))
    loaded = loaded.with_dictionary(dictionary).with_languages(*languages_of(values))
    target, shard = values.decode_to_file, parse_shard(values.shard) if values.shard else None
    if values.attention_to_html:
        draw_attention(loaded, values.decode_from_file, values.attention_to_html)
    elif values.decode_from_file:
        decode_file(loaded, source, target, values.decode_reference, shard=shard, **job_fields(values))
    elif source:
        answer_pairs(loaded, source, target, bool(values.align_file), values.decode_window, shard)
    elif split:
        how = values.n_best, values.output_format, values.random_seed
        decode_split(loaded, values.data_dir, split, target, *how)
    else:
        decode_interactively(loaded.translator(), values.n_best, values.output_format, values.random_seed)
    return 0


def _answer_by_beam(
    values: flags.FlagValues, runs: Sequence[RunDir], problem: str, dictionary: Mapping[str, str]
) -> None:
    """Decodes, scores or aligns all shards of a file with Apache Beam, each into its part, by the decoder's flags.

    Raises:
        UserError: no such checkpoint, or any user error of the same command without Apache Beam.
        MachineError: any machine error of the same command without Apache Beam, or a worker died.
    """
    from t2t.pipelines.decoding import answer_file

    mode = next(name for name in FILE_MODES if values[name].value)
    how = job_fields(values) if mode == "decode_from_file" else {"window": values.decode_window}
    answer_file(
        mode,
        {"source": values[mode].value, "target": values.decode_to_file, **how},
        [(run, values.checkpoint) for run in runs],
        values.beam_options,
        average=values.ensemble_average,
        engine=engine_choice(values),
        loading=loading_arguments(values, problem, many_rows=mode == "decode_from_file"),
        dictionary=dictionary,
        languages=languages_of(values),
    )


def _problem_to_score(values: flags.FlagValues, run: RunDir, problem: str) -> Problem:
    """Returns the problem of outputs for --decode_reference; raises UserError if they cannot be scored."""
    from t2t.runs.loading import open_to_decode

    _, opened, hparams = open_to_decode(run.path, values.t2t_usr_dir, trained_overrides(values), problem)
    check_scoring(values.decode_reference, hparams, [opened])
    return opened


def _check(values: flags.FlagValues) -> None:
    """Raises UserError for conflicting flags and unusable files, before a model is loaded."""
    modes = ("decode_from_file", "score_file", "align_file", "decode_split", "decode_interactive")
    given = [f"--{name}" for name in modes if values[name].value]
    exclusive = given
    if values.attention_to_html:
        exclusive = ["--attention_to_html", *(mode for mode in given if mode != "--decode_from_file")]
    if len(exclusive) > 1:
        raise UserError(
            f"{' and '.join(exclusive)} are given", "the command does one thing at a time: keep one of them"
        )
    _refuse_unread(values)
    if values.attention_to_html:
        check_output(values.attention_to_html)
    _check_outputs(values, given)
    if values.decode_reference:
        check_reference(values)
    check_shard_flags(values)
    checked_beam_options(values)
    if values.output_format == PHARAOH:
        values.alignments = True
    if (values.align_file or values.attention_to_html) and not values["engine"].present:
        values.engine = TENSORFLOW  # the model itself is looked into
    if source := values.decode_from_file or values.score_file or values.align_file:
        check_files(source, values.decode_to_file)
    elif values.decode_to_file:
        check_output(values.decode_to_file)


def _check_outputs(values: flags.FlagValues, given: list[str]) -> None:
    """Raises UserError for flags of outputs that do not go together, or not with the mode that is `given`."""
    if values.decode_to_file and given in ([], ["--decode_interactive"]):
        raise UserError(
            "it names where --decode_from_file, --score_file, --align_file or --decode_split writes",
            "give one of them too",
            option="decode_to_file",
        )
    if values.output_format == FILES and not (values.decode_from_file or values.decode_split):
        raise UserError(
            "files go next to the output of --decode_from_file or --decode_split",
            "give one of them",
            option="output_format",
            value=FILES,
        )
    if values.output_format == FILES and values.alignments:
        raise UserError(
            f"--output_format={FILES} writes only names of files", "leave one of them out", option="alignments"
        )
    if values.token_scores and values.output_format != "jsonl":
        raise UserError(
            f"--output_format={values.output_format} has no place for them",
            "add --output_format=jsonl",
            option="token_scores",
        )
    for name, what in _SIDE_FILES.items():
        if values[name].value and given != ["--decode_from_file"]:
            raise UserError(
                f"it says what the outputs of --decode_from_file {what}", "give only that with it", option=name
            )


def _refuse_unread(values: flags.FlagValues) -> None:
    """Raises UserError for flags that the mode ignores."""
    if values.attention_to_html:
        why = "--attention_to_html draws the best output of each line"
        undrawn = ("n_best", "output_format", "decode_to_file", "decode_window", *_SIDE_FILES, "unknown_dictionary")
        refuse_flags(values, (*undrawn, *WORD_FLAGS), why)
    if not any(values[name].value for name in FILE_MODES):
        refuse_flags(values, ["decode_window"], "only files are read by windows")
    unread = ("n_best", "output_format", "random_seed", *OUTPUT_FLAGS, "unknown_dictionary")
    if values.score_file:
        read = ("output_format", "token_scores") if values.token_scores and values.output_format == "jsonl" else ()
        searched = [name for name in (*unread, *WORD_FLAGS) if name not in read]
        why = "--score_file searches nothing, and writes scores of tokens with --token_scores --output_format=jsonl"
        refuse_flags(values, searched, why)
    if values.align_file:
        refuse_flags(
            values, (*unread, "alignments", "replace_unknown", "token_scores"), "--align_file aligns what is given"
        )
