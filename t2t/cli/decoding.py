"""Decoding of files, splits and typed text, for the decoder and the trainer."""

import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from absl import flags

from t2t.checkpoints.run_record import RunRecord
from t2t.cli.flags import OUTPUT, flag_group
from t2t.cli.pairs import read_all, read_with_references, split_references
from t2t.errors import UserError
from t2t.files.lines import STANDARD, WINDOW, LineSource, clean_line, unequal_lengths
from t2t.files.output import check_output, open_output
from t2t.hparams.groups import DecodeHParams
from t2t.inference.files.formats import FILES, FORMATS, TEXT, renderer
from t2t.inference.files.report import Report
from t2t.inference.files.shards import CommandOf, Shard, merge_parts, part_of
from t2t.metrics import check_references, text_metrics
from t2t.problems.base import Problem, feature_of
from t2t.runs.data import open_run_data
from t2t.runs.startup import prepare_framework
from t2t.specs import TARGETS

PROMPT = "> "

log = logging.getLogger("t2t")


def define_output_flags(values: flags.FlagValues) -> None:
    """Defines the flags of how outputs are written."""
    with flag_group(values, OUTPUT) as define:
        define.integer("n_best", 1, "Outputs for each input, best first; at most the beam size.", 1)
        define.enum("output_format", TEXT, [*FORMATS, FILES], "text: outputs, with --n_best separated by TAB; tsv: "
                    "text, score and log-probability of each output in turn; jsonl: one object a line; pharaoh: word "
                    "alignments, 0-0 1-2; files: names of sound or image files with the outputs, in the folder "
                    "<decode_to_file>.files.")  # fmt: skip
        define.integer("decode_window", WINDOW, "Lines of a file that are sorted by length and decoded together; also "
                       "the most that a crash loses.", 1)  # fmt: skip
        define.integer("random_seed", 0, "Seed of --decode_method=sample.")


def job_fields(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the fields of a `t2t.inference.files.decoding.Job` that flags set, but for its files and its shard."""
    return {
        "n_best": values.n_best, "output_format": values.output_format, "window": values.decode_window,
        "prefixes": values.target_prefix_file, "constraints": values.constraints_file,
        "changes": {"seed": values.random_seed},
    }  # fmt: skip


def check_files(source: str, target: str) -> None:
    """Raises UserError or MachineError if the input cannot be read or the output cannot be written."""
    LineSource(source)
    if target:
        check_output(target)


def default_target(source: str, record: RunRecord, hparams: DecodeHParams, output_format: str = TEXT) -> str:
    """Returns the default name of the output of a file, the same as in Tensor2Tensor."""
    details = {
        "beam": f"{hparams.beam_size}.alpha{hparams.alpha:g}",
        "sample": f".temperature{hparams.sampling_temperature:g}",
    }
    search = hparams.decode_method + details.get(hparams.decode_method, "")
    ending = "" if output_format in (TEXT, FILES) else f".{output_format}"
    return _target_beside(source, record, f"{search}.decodes{ending}")


def _target_beside(source: str, record: RunRecord, ending: str) -> str:
    if source == STANDARD:
        return STANDARD
    return f"{source}.{record.model}.{record.hparams_set}.{record.problem}.{ending}"


def check_reference(values: flags.FlagValues) -> None:
    """Raises UserError for --decode_reference without outputs that can be scored, or a file that is not for them."""
    if not values.decode_from_file or values.decode_to_file == STANDARD or values.decode_from_file == STANDARD:
        raise UserError(
            "it scores the file that --decode_from_file writes", "name two files", option="decode_reference"
        )
    if "merge" in values and values.merge:
        raise UserError(
            "--merge only joins files",
            "leave it out, and score the merged file with t2t-bleu",
            option="decode_reference",
        )
    unscored = [name for name in ("shard", "attention_to_html") if name in values and values[name].value]
    if unscored or ("n_best" in values and (values.n_best > 1 or values.output_format != TEXT)):
        raise UserError(
            "it scores one output for each line",
            "leave out --n_best, --output_format, --shard and --attention_to_html",
            option="decode_reference",
        )
    lines, *counts = map(_count_lines, [values.decode_from_file, *(paths := split_references(values.decode_reference))])
    for path, count in zip(paths, counts, strict=True):
        if lines is not None and count is not None and lines != count:
            raise unequal_lengths(values.decode_from_file, lines, path, count)


def _count_lines(path: str) -> int | None:
    """Returns the number of lines of a file; None for a stream or a packed file."""
    source = LineSource(path)
    return None if source.is_stream else source.scan()[1]


def check_scoring(reference: str, hparams: DecodeHParams, problems: Iterable[Problem]) -> None:
    """Checks that outputs can be scored, for --decode_reference.

    Raises:
        UserError: alignments, which a run's or the user's hparams ask for, would be scored as words; or several
            references are given, and a metric of a problem reads one.
    """
    if len(split_references(reference)) > 1:
        for problem in problems:
            check_references(text_metrics(problem.metrics))
    if hparams.alignments:
        raise UserError(
            "it scores only outputs, and with the hparam alignments=True each line ends in word alignments",
            "leave --alignments out, or give --hparams=alignments=False if the run has it",
            option="decode_reference",
        )


def check_split_languages(values: flags.FlagValues, problem: Problem) -> None:
    """Raises UserError for languages other than the problem's own, which the examples of --decode_split are in."""
    for name in ("source_language", "target_language"):
        requested, own = values[name].value, getattr(problem, name)
        if requested not in ("", own):
            raise UserError(
                f"--decode_split reads examples of {problem.name}, whose language is {own or 'not known'}",
                "leave it out, or decode a file of texts with --decode_from_file",
                option=name,
                value=requested,
            )


def print_scores(problem: Problem, source: str, target: str, reference: str, language: str) -> None:
    """Prints the scores of a file of outputs in a language by the metrics of their problem.

    Pieces of references are joined to words, as those of outputs are.

    Raises:
        UserError: the outputs and the references have unequal numbers of lines.
    """
    from t2t.runs.evaluation import score_texts

    hypotheses, first, others = read_with_references(target, reference)
    first, *more = (list(map(feature_of(problem, TARGETS).join_words, lines)) for lines in (first, *others))
    scores = score_texts(problem, hypotheses, first, language, lambda: read_all(source), more)
    print(*scores, sep="\n")


def decode_file(loaded, source: str, target: str = "", reference: str = "", **fields: Any) -> None:
    """Decodes a file with a `t2t.runs.loading.LoadedRun`, logs a summary, and prints scores if there is a `reference`.

    `fields` are further ones of a `t2t.inference.files.decoding.Job`.

    Raises:
        UserError: wrong settings, no such file.
        MachineError: the output cannot be written.
    """
    from t2t.inference.files import decoding
    from t2t.runs.engines import speed_advice

    target = target or default_target(source, loaded.record, loaded.hparams, fields.get("output_format", TEXT))
    job = decoding.Job(source=source, target=target, **fields)
    translator = loaded.translator()
    report = decoding.decode_file(translator, job)
    _print_report(report, translator, target, job.shard)
    is_plain = job.n_best == 1 and not job.prefixes and not job.constraints
    if is_plain and (advice := speed_advice(loaded.engine, translator, report.seconds)):
        log.info("%s", advice)
    if reference:
        print_scores(loaded.problem, source, target, reference, loaded.problem.languages.output)


def answer_pairs(loaded, source: str, target: str, aligns: bool, window: int, shard: Shard | None) -> None:
    """Scores a file of pairs with a `t2t.runs.loading.LoadedRun`, or `aligns` their words, and logs a summary.

    Raises:
        UserError: a line without its columns, no such file; or alignments of a model without attention.
        MachineError: the output cannot be written.
    """
    from t2t.inference.files.scoring import align_file, score_file
    from t2t.inference.files.windows import FileJob

    target = target or _target_beside(source, loaded.record, "links" if aligns else "scores")
    translator, job = loaded.translator(), FileJob(source=source, target=target, window=window, shard=shard)
    report = (align_file if aligns else score_file)(translator, job)
    _print_report(report, translator, target, shard)


def draw_attention(loaded, source: str, page: str) -> None:
    """Draws attention for each line of a file or standard input; raises as `insight.lines.write_attention_page`."""
    prepare_framework()
    from t2t.studio.figures import write_attention_page

    title = f"{loaded.run.path.resolve().name}, {loaded.checkpoint.name}"
    count = write_attention_page(loaded.translator(), title, LineSource(source or STANDARD), page)
    log.info("%d picture%s written to %s; open it in a browser", count, "s" * (count != 1), page)


def merge_file(source: str, target: str, command_of: CommandOf = "--shard={}".format) -> None:
    """Joins the parts of an output, and logs a summary; arguments and errors are those of `merge_parts`."""
    report = merge_parts(source, target, command_of)
    _warn(report, "the most ids that are taken")
    log.info("%s %s lines, %s tokens; merged into %s", report.verb, f"{report.lines:,}", f"{report.tokens:,}", target)


def _print_report(report: Report, translator, target: str, shard: Shard | None = None) -> None:
    _warn(report, translator.most_ids)
    written = part_of(target, shard).path if shard else "standard output" if target == STANDARD else target
    log.info("%s; written to %s", report.speed(), written)


def _warn(report: Report, most_ids: str) -> None:
    for warning in report.warnings(most_ids):
        log.warning("%s", warning)


def decode_split(loaded, data_dir: str, split: str, target: str, n_best: int, output_format: str, seed: int) -> None:
    """Decodes a split, prints its scores, and writes the outputs to `target` if that is given.

    Raises:
        UserError: no such data or split, data of another vocabulary, a problem without inputs.
        MachineError: the output cannot be written.
    """
    from t2t.inference.files.formats import job_renderer
    from t2t.runs.evaluation import decode_and_score

    data = open_run_data(loaded.run, data_dir, loaded.record.problem, split)
    render = job_renderer(output_format, data.problem, target)
    outputs, scores = decode_and_score(loaded.translator(), data, split, n_best, seed=seed)
    if target:
        lines = [render(n, found, n_best)[0] for n, found in enumerate(outputs, start=1)]
        with open_output(target, None) as output:
            output.write("".join(line + "\n" for line in lines).encode(), len(lines), {})
            output.finish()
    about = f"{len(outputs):,} {split} examples of {loaded.record.problem}, {loaded.checkpoint.name}"
    print(about, *scores, sep="\n", file=sys.stderr if target == STANDARD else sys.stdout)


def decode_interactively(translator, n_best: int = 1, output_format: str = TEXT, seed: int = 0) -> None:
    """Translates each line that is typed, until the input ends (Ctrl-D).

    On a terminal there is a prompt, and with `n_best` above 1 a line with its score for each output.
    """
    translator.settings(n_best, seed=seed)
    one_line, render = renderer(TEXT), renderer(output_format)
    lists_scores = sys.stdin.isatty() and output_format == TEXT and n_best > 1
    for number, text in enumerate(typed_lines()):
        ids = translator.encode([text])
        (found,) = translator.translate_ids(ids, n_best, seeds=[number], sources=[text], seed=seed)
        if lists_scores:
            shown = "\n".join(f"{one.score:10.4f}  {one_line(number + 1, [one], 1)[0]}" for one in found)
        else:
            shown = render(number + 1, found, n_best)[0]
        sys.stdout.flush()
        sys.stdout.buffer.write(shown.encode() + b"\n")  # UTF-8, whatever the encoding of the terminal
        sys.stdout.buffer.flush()
        if any(one.cut for one in found):
            log.warning("an output for line %d ends at its limit, see --decode_extra_length", number + 1)


def typed_lines() -> Iterator[str]:
    """Yields the lines of standard input, with a prompt where it is a terminal."""
    if not sys.stdin.isatty():
        yield from LineSource(STANDARD).lines(Counter())
        return
    print("type a text and press Enter; end with Ctrl-D", file=sys.stderr)
    with contextlib.suppress(ImportError):  # some builds of Python have none
        import readline  # noqa: F401 - gives input() its history and arrow keys
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="surrogateescape")  # clean_line gets invalid UTF-8 unchanged
    while True:
        try:
            text = input(PROMPT)
        except EOFError:
            print()
            return
        yield clean_line(text.encode("utf-8", "surrogateescape"), Counter())
