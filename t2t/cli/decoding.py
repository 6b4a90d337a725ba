"""What the decoder and the trainer do with a model: decode a file, a split of generated data, or what is typed."""

import contextlib
import dataclasses
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from absl import flags

from t2t.checkpoints.run_dir import RunRecord
from t2t.cli.help import OUTPUT, flag_group
from t2t.errors import UserError
from t2t.files.lines import clean_line
from t2t.files.output import check_output, open_output
from t2t.files.source import STANDARD, WINDOW, LineSource
from t2t.hparams.groups import DecodeHParams
from t2t.inference.files.formats import FORMATS, renderer
from t2t.runs.data import open_run_data
from t2t.runs.startup import import_quietly

PROMPT = "> "

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options of the decoded output."""

    n_best: int = 1
    output_format: str = "text"
    window: int = WINDOW
    seed: int = 0

    @property
    def changes(self) -> Mapping[str, Any]:
        """What a translator is told."""
        return {"seed": self.seed}


AS_USUAL = OutputOptions()


def define_output_flags(values: flags.FlagValues) -> None:
    """How outputs are written."""
    with flag_group(values, OUTPUT):
        flags.DEFINE_integer("n_best", 1, "Outputs for each input, best first; at most the beam.", flag_values=values)
        flags.DEFINE_enum(
            "output_format", "text", list(FORMATS), "text: outputs, with --n_best separated by TAB; tsv: text, score "
            "and log-probability of each output in turn; jsonl: one object a line.", flag_values=values,
        )  # fmt: skip
        flags.DEFINE_integer(
            "decode_window", WINDOW, "Lines of a file decoded together, sorted by length, and lost at most in a crash.",
            flag_values=values,
        )  # fmt: skip
        flags.DEFINE_integer("random_seed", 0, "Seed of --decode_method=sample.", flag_values=values)


def output_options_of(values: flags.FlagValues) -> OutputOptions:
    """Returns what the flags of `define_output_flags` say."""
    return OutputOptions(
        n_best=values["n_best"].value,
        output_format=values["output_format"].value,
        window=values["decode_window"].value,
        seed=values["random_seed"].value,
    )


def refuse_flags(values: flags.FlagValues, names: Iterable[str], why: str) -> None:
    """Raises UserError where one of these flags was given, which would have no effect."""
    given = [f"--{name}" for name in names if values[name].present]
    if given:
        raise UserError(f"{', '.join(given)}: {why}; leave {'it' if len(given) == 1 else 'them'} out")


def check_files(source: str, target: str) -> None:
    """Raises UserError or MachineError where a file to decode or score cannot be read, or its output not written."""
    LineSource(source)
    if target:
        check_output(target)


def default_target(source: str, record: RunRecord, hparams: DecodeHParams, output_format: str = "text") -> str:
    """Returns where a file's output goes where nothing else is said: a name as Tensor2Tensor gives it."""
    search = {
        "beam": f"beam{hparams.beam_size}.alpha{hparams.alpha:g}",
        "greedy": "greedy",
        "sample": f"sample.temperature{hparams.sampling_temperature:g}",
    }[hparams.decode_method]
    ending = "" if output_format == "text" else f".{output_format}"
    return _target_beside(source, record, f"{search}.decodes{ending}")


def _target_beside(source: str, record: RunRecord, ending: str) -> str:
    if source == STANDARD:
        return STANDARD
    return f"{source}.{record.model}.{record.hparams_set}.{record.problem}.{ending}"


def decode_file(loaded, source: str, target: str = "", output_options: OutputOptions = AS_USUAL) -> None:
    """Decodes a file with a `t2t.runs.loading.LoadedRun`, and says how it went.

    Raises:
        UserError: settings that make no sense, no such file.
        MachineError: the output cannot be written.
    """
    job = import_quietly("t2t.inference.files.job")
    target = target or default_target(source, loaded.record, loaded.hparams, output_options.output_format)
    asked = job.Job(
        source=source,
        target=target,
        output_format=output_options.output_format,
        n_best=output_options.n_best,
        window=output_options.window,
        changes=output_options.changes,
    )
    translator = loaded.translator()
    _print_report(job.decode_file(translator, asked), translator, target)


def score_file(loaded, source: str, target: str = "", window: int = WINDOW) -> None:
    """Scores a file of pairs with a `t2t.runs.loading.LoadedRun`, and says how it went.

    Raises:
        UserError: a line without its columns, no such file.
        MachineError: the output cannot be written.
    """
    scoring, windows = import_quietly("t2t.inference.files.scoring"), import_quietly("t2t.inference.files.windows")
    target = target or _target_beside(source, loaded.record, "scores")
    translator = loaded.translator()
    report = scoring.score_file(translator, windows.FileJob(source=source, target=target, window=window))
    _print_report(report, translator, target)


def draw_attention(loaded, source: str, page: str) -> None:
    """Draws the attention of a `t2t.runs.loading.LoadedRun` for each line of a file, or of standard input.

    Raises:
        UserError: see `t2t.serving.insight.lines.write_attention_page`.
        MachineError: the page cannot be written.
    """
    lines = import_quietly("t2t.serving.insight.lines")
    title = f"{loaded.run.path.resolve().name}, {loaded.checkpoint.name}"
    count = lines.write_attention_page(loaded.translator(), title, LineSource(source or STANDARD), page)
    log.info("%d picture%s written to %s; open it in a browser", count, "s" * (count != 1), page)


def _print_report(report, translator, target: str) -> None:
    for complaint in report.complaints(translator.most_ids):
        log.warning("%s", complaint)
    log.info("%s; written to %s", report.speed(), "standard output" if target == STANDARD else target)


def decode_split(loaded, data_dir: str, split: str, target: str = "", output_options: OutputOptions = AS_USUAL) -> None:
    """Decodes a split of the run's problem and prints the scores of its metrics; writes the outputs where asked.

    Raises:
        UserError: no such data or split, data of another vocabulary, a problem without inputs.
        MachineError: the output cannot be written.
    """
    evaluation = import_quietly("t2t.runs.evaluation")
    data = open_run_data(loaded.run, data_dir, loaded.record.problem, split)
    decoded = evaluation.decode_and_score(
        loaded.translator(), data, split, output_options.n_best, **output_options.changes
    )
    if target:
        render = renderer(output_options.output_format)
        lines = [render(n, found, output_options.n_best)[0] for n, found in enumerate(decoded.outputs, start=1)]
        with open_output(target, None) as output:
            output.write("".join(line + "\n" for line in lines).encode(), len(lines), {})
            output.finish()
    about = f"{len(decoded.outputs):,} {split} examples of {loaded.record.problem}, {loaded.checkpoint.name}"
    for line in (about, *map(str, decoded.scores)):
        print(line, file=sys.stderr if target == STANDARD else sys.stdout)


def decode_interactively(translator, output_options: OutputOptions = AS_USUAL) -> None:
    """Translates each line that is typed, until the input ends (Ctrl-D).

    On a terminal with a prompt, and with `n_best` above 1 each output has a line with its score; elsewhere each input
    gets one line. Every text can be translated: there is no word that ends it.
    """
    translator.settings(output_options.n_best, **output_options.changes)
    on_terminal = sys.stdin.isatty()
    if on_terminal:
        print("type a text and press Enter; end with Ctrl-D", file=sys.stderr)
    for number, text in enumerate(_read_prompt() if on_terminal else LineSource(STANDARD).lines(Counter())):
        answer = _answer(translator, number, text, output_options)
        _print(_render_interactive(number + 1, answer, output_options, on_terminal))


def _answer(translator, number: int, text: str, output_options: OutputOptions) -> list:
    if translator.is_blank(text):
        return [import_quietly("t2t.inference.files.job").NOTHING]
    ids = translator.encode([text])
    return translator.translate_ids(ids, output_options.n_best, places=[number], **output_options.changes)[0]


def _read_prompt():
    """Yields what is typed at the prompt."""
    _import_line_editing()
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="surrogateescape")  # bytes that are no UTF-8 reach clean_line as they came
    while True:
        try:
            text = input(PROMPT)
        except EOFError:
            print()
            return
        yield clean_line(text.encode("utf-8", "surrogateescape"), Counter())


def _import_line_editing() -> None:
    with contextlib.suppress(ImportError):  # some builds of Python have none
        import readline  # noqa: F401 - gives input() its history and arrow keys


def _render_interactive(number: int, found: list, output_options: OutputOptions, on_terminal: bool) -> str:
    if not on_terminal or output_options.output_format != "text" or output_options.n_best == 1:
        return renderer(output_options.output_format)(number, found, output_options.n_best)[0]
    one_line = renderer("text")
    return "\n".join(f"{one.score:10.4f}  {one_line(number, [one], 1)[0]}" for one in found)


def _print(text: str) -> None:
    """Writes UTF-8, whatever the terminal's encoding is said to be: no output may end the conversation."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()
