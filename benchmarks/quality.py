"""Trains hparams sets with several seeds and compares their BLEU with that of the first set, with significance tests.

    python -m benchmarks quality --data=DIR --folder=RUNS --group=table3 --seeds=1,2,3

Each training is a run of `t2t-trainer` in a separate folder below RUNS. The same command resumes after an interruption,
and with more seeds or updates it extends existing results.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.corpus import SIDES, open_corpus
from benchmarks.harness.flags import chosen
from benchmarks.harness.machine import describe_machine, machine
from benchmarks.harness.processes import SideError
from benchmarks.harness.quality_runs import Runs, Trained
from benchmarks.harness.variants import Variant, groups
from t2t.files.atomic import write_atomically
from t2t.metrics.paired import paired_bootstrap


def main(argv: list[str], runs_class: type[Runs] = Runs) -> int:
    """Trains the unfinished runs and prints the table; returns 1 if a run failed, else 0."""
    arguments = _parser().parse_args(argv)
    group = groups()[arguments.group]
    if arguments.only:
        names = chosen(arguments.only, [one.name for one in group], "--only")
        group = tuple(one for one in group if one.name in names)
    folder = arguments.folder.expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True)
    corpus = open_corpus(arguments.data, folder, arguments.pairs, arguments.languages)
    runs = runs_class(
        corpus, folder, vocab_size=arguments.vocab_size, train_steps=arguments.train_steps, changes=arguments.hparams,
        parallel=arguments.parallel,
    )  # fmt: skip
    seeds = arguments.seeds
    jobs = [(variant, seed) for seed in seeds for variant in group]
    found = dict(zip(jobs, runs.train(jobs), strict=True))
    first = found[group[0], seeds[0]]
    rows = [_row(one, [found[one, seed] for seed in seeds], first, runs.references) for one in group]
    print("\n".join([*table(rows), "", describe_machine()]))
    if arguments.json:
        write_atomically(arguments.json, (json.dumps({"rows": rows, "machine": machine()}, indent=1) + "\n").encode())
    if arguments.plot and rows[0]["bleu"] is None:
        print(f"no plot: {rows[0]['name']}, the baseline of its differences, failed", file=sys.stderr)
    elif arguments.plot:
        plot(rows, arguments.plot)
    return int(any(isinstance(one, SideError) for one in found.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks quality", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--folder", type=Path, required=True, help="folder for runs, data and outputs")
    add("--group", choices=groups(), default="models", help="group of variants; its first is the baseline")
    add("--only", default="", help="comma-separated names from the group; default: all")
    add("--seeds", type=whole_numbers, default="1", help="comma-separated random seeds: one run for each")
    add("--train_steps", type=int, default=1500, help="updates of each run")
    add("--hparams", default="", help="hparams changed in all sets, e.g. batch_size=1024")
    add("--data", type=Path, help="folder of Multi30k's files; default: synthetic text")
    add(
        "--languages", type=two_endings, default="-".join(SIDES), help="endings of the files: source-target, e.g. de-en"
    )
    add("--pairs", type=int, help="training pairs, repeated or truncated; default: all")
    add("--vocab_size", type=int, default=8000, help="pieces of the joint vocabulary")
    add("--parallel", type=int, default=1, help="runs at a time; they divide the cores among them")
    add("--json", type=Path, help="file to write the table to")
    add("--plot", type=Path, help="file for a plot of BLEU differences, .svg or .png")
    return parser


def whole_numbers(text: str) -> list[int]:
    """Returns the integers of a comma-separated list."""
    return [int(number) for number in text.split(",")]


def two_endings(text: str) -> tuple[str, str]:
    """Returns the file extensions of source and target from a text such as `de-en`."""
    source, target = text.split("-")
    return source, target


def _row(
    variant: Variant, runs: Sequence[Trained | SideError], first: Trained | SideError, references: Sequence[str]
) -> dict[str, Any]:
    """Returns the figures of a variant; the paired test compares its outputs with the baseline's at the first seed."""
    done = [run for run in runs if isinstance(run, Trained)]
    scores = [run.bleu for run in done]
    return {
        "name": variant.name,
        "set": variant.hparams_set,
        "changes": variant.changes,
        "parameters": done[0].parameters if done else None,
        "perplexity": statistics.fmean(run.perplexity for run in done) if done else None,
        "bleu": statistics.fmean(scores) if done else None,
        "deviation": statistics.stdev(scores) if len(scores) > 1 else None,
        "of_seeds": scores,
        "p": _p_value(first, runs[0], references),
        "paper": variant.paper,
    }


def _p_value(first: Trained | SideError, run: Trained | SideError, references: Sequence[str]) -> float | None:
    if first is run or isinstance(first, SideError) or isinstance(run, SideError):
        return None
    systems = [("first", first.outputs), ("run", run.outputs)]
    return paired_bootstrap(systems, references, {"bleu": {}})[1].p_value


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the lines of a Markdown table; a variant without a finished run has no figures."""
    beside = any(row["paper"] for row in rows)
    lines = [
        "| | parameters | perplexity of dev | BLEU, mean | deviation | of each seed | p, first seed |"
        + " paper: perplexity | BLEU |" * beside,
        "|---" * (7 + 2 * beside) + "|",
    ]
    for row in rows:
        cells = [
            row["name"] + (f", `{row['changes']}`" if row["changes"] else ""),
            _number(row["parameters"], ","), _number(row["perplexity"], ".2f"), _number(row["bleu"], ".2f"),
            _number(row["deviation"], ".2f"), ", ".join(f"{score:.2f}" for score in row["of_seeds"]) or "failed",
            _number(row["p"], ".4f"),
        ]  # fmt: skip
        cells += [f"{number:g}" for number in row["paper"] or ()] if beside else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Plots the BLEU difference of each row to the first, and that of the paper if all rows have one."""
    from matplotlib.figure import Figure  # takes a second to import

    others = [row for row in rows[1:] if row["bleu"] is not None]
    places = range(len(others))
    figure = Figure(figsize=(7, 1 + 0.35 * len(others)), layout="constrained")
    axes = figure.subplots()
    errors = [row["deviation"] or 0.0 for row in others]
    axes.barh([place - 0.2 for place in places], [row["bleu"] - rows[0]["bleu"] for row in others], 0.4, xerr=errors,
              label="here, with the deviation over seeds")  # fmt: skip
    if all(row["paper"] for row in rows):
        axes.barh([place + 0.2 for place in places], [row["paper"][1] - rows[0]["paper"][1] for row in others], 0.4,
                  label="the paper, WMT 2014")  # fmt: skip
    axes.set_yticks(list(places), [row["name"] for row in others])
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel(f"BLEU, difference to {rows[0]['name']}")
    axes.legend()
    figure.savefig(path)


def _number(value: float | None, how: str) -> str:
    return "" if value is None else f"{value:{how}}"
