"""Scores or aligns a file of pairs: the probability of each target given its source, or which words belong together.

    A dog runs. TAB Ein Hund rennt.        gives        -4.213077, or 0-0 1-1 2-2

A line of a language model is the target alone; it has no alignments.
"""

import dataclasses
import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from t2t.files.lines import LineSource, split_columns
from t2t.files.pharaoh import format_links
from t2t.hparams.groups import DecodeHParams
from t2t.inference.files.report import Report
from t2t.inference.files.windows import FileJob, answer_lines, check_job, lines_of
from t2t.inference.pair_scorer import Tokens
from t2t.inference.translator import Translator

COLUMNS = ("source", "target")

_Ids = Sequence[Sequence[int]]
_Pairs = Sequence[tuple[str, str]]
_AnswerPairs = Callable[[_Ids, _Ids, _Pairs, Callable[[int], Any]], list[str]]
"""(sources, targets, both as text, progress) -> a line of output for each pair."""


def score_file(translator: Translator, job: FileJob) -> Report:
    """Writes ln p(target | source), end of sequence included, for each line of a file or shard, with six decimals.

    With the hparam `token_scores` a line is JSON, with the probability of each token as well.
    An interrupted job is resumed. Sources that are too long are cut and counted. A target that is too long gets `nan`
    and is counted.

    Raises:
        UserError: a file does not exist, a line does not have its two columns, or a target is no output for its source,
            see `Problem.read_target`. Files are checked before anything is written; for a stream, the earlier windows
            have been written by then.
        MachineError: the output cannot be written; what was written before can be resumed.
    """

    def score(sources: _Ids, targets: _Ids, texts: _Pairs, on_done: Callable[[int], Any]) -> list[str]:
        return [f"{found:.6f}" for found in translator.score_ids(sources, targets, on_done=on_done)]

    def score_tokens(sources: _Ids, targets: _Ids, texts: _Pairs, on_done: Callable[[int], Any]) -> list[str]:
        return [_token_line(tokens) for tokens in translator.score_tokens(sources, targets, on_done=on_done)]

    if translator.hparams.token_scores:
        translator.settings(token_scores=True)
        return _answer_pairs(translator, job, score_tokens, _token_line(None), Report(verb="scored"))
    return _answer_pairs(translator, job, score, f"{math.nan:.6f}", Report(verb="scored"))


def _token_line(tokens: Tokens | None) -> str:
    """Returns a line of JSON; of a target that is too long for None."""
    if tokens is None:
        return json.dumps({"log_prob": None, "tokens": None})
    rounded = [(piece, round(value, 6)) for piece, value in tokens]
    found = {"log_prob": round(math.fsum(value for _, value in tokens), 6), "tokens": rounded}
    return json.dumps(found, ensure_ascii=False)


def align_file(translator: Translator, job: FileJob) -> Report:
    """Writes the word alignment of each line of a file in the Pharaoh format, see `t2t.files.pharaoh`.

    As `score_file`, but a target that is too long gets an empty line.

    Raises:
        UserError: see `score_file`; or a model without attention to its inputs.
        MachineError: see `score_file`.
    """
    translator.settings(alignments=True)

    def align(sources: _Ids, targets: _Ids, texts: _Pairs, on_done: Callable[[int], Any]) -> list[str]:
        found = translator.align_ids(sources, targets, texts=texts, on_done=on_done)
        return [format_links(links) for links in found]

    return _answer_pairs(translator, job, align, "", Report(verb="aligned"))


def _answer_pairs(translator: Translator, job: FileJob, answer: _AnswerPairs, too_long: str, report: Report) -> Report:
    check_job(job)
    if translator.has_inputs and not LineSource(job.source).is_stream:
        before, lines = lines_of(job, Counter())
        for number, line in enumerate(lines, start=before + 1):
            source, target = split_columns(line, COLUMNS, job.source, number)
            translator.read_targets([target], [source], functools.partial(_name_of_line, job.source, number))
    answer_window = functools.partial(_answer, translator, str(LineSource(job.source)), answer, too_long)
    return answer_lines(job, answer_window, functools.partial(_identity, translator, report.verb), report)


def _answer(
    translator: Translator, name: str, answer: _AnswerPairs, too_long: str, texts: list[str], report: Report, progress
) -> list[str]:
    numbers = range(report.lines + 1, report.lines + len(texts) + 1)
    longest, longest_target = translator.longest_input, translator.longest_target
    sources: _Ids = [()] * len(texts)
    pairs: _Pairs = [("", line) for line in texts]
    if translator.has_inputs:
        columns = (split_columns(line, COLUMNS, name, number) for number, line in zip(numbers, texts, strict=True))
        pairs = [(source, target) for source, target in columns]
        sources = translator.encode([source for source, _ in pairs])
    targets = translator.encode_targets(
        [target for _, target in pairs],
        [source for source, _ in pairs] if translator.has_inputs else None,
        functools.partial(_name_of_line, name, report.lines + 1),
    )
    for number, source, target in zip(numbers, sources, targets, strict=True):
        if len(target) > longest_target:
            report.unscored.note(number)
        if len(source) > longest:
            report.cut.note(number)
    rows = [row for row, target in enumerate(targets) if len(target) <= longest_target]
    progress.add(len(texts) - len(rows))
    read = [sources[row][:longest] for row in rows], [targets[row] for row in rows], [pairs[row] for row in rows]
    answers = answer(*read, progress.add)
    report.tokens += sum(len(targets[row]) + 1 for row in rows)
    found = dict(zip(rows, answers, strict=True))
    return [found.get(row, too_long) for row in range(len(texts))]


def _name_of_line(file: str, first: int, index: int = 0) -> str:
    return f"{file}: line {first + index:,}"


def _identity(translator: Translator, verb: str) -> list[Any]:
    decoding = {field.name: getattr(translator.hparams, field.name) for field in dataclasses.fields(DecodeHParams)}
    return ["scoring" if verb == "scored" else verb, translator.fingerprint(), decoding]
