"""Measures the memory of learning a vocabulary, generating data and training as the corpus grows."""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness.child import Others
from benchmarks.harness.corpus import Corpus, write_synthetic
from benchmarks.harness.machine import machine
from benchmarks.harness.prepared import PROBLEM, file_flags
from benchmarks.harness.processes import ROOT
from benchmarks.harness.turns import MOST_OTHERS
from benchmarks.harness.usage import measured
from t2t.files.atomic import write_atomically

PAIRS = "200000,1000000"
MODEL = (
    "hidden_size=32,filter_size=64,num_heads=2,num_hidden_layers=1,batch_size=2048,max_length=64,"
    "learning_rate_warmup_steps=10"
)

Row = dict[str, Any]


def main(argv: list[str]) -> int:
    """Measures all corpora; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks memory", description=__doc__)
    add = parser.add_argument
    add("--pairs", default=PAIRS, help="training pairs of each corpus, each with a unique word")
    add("--vocab_size", type=int, default=8192, help="vocabulary size")
    add("--updates", type=int, default=20, help="updates of a tiny model")
    add("--beam_options", default="", help="generate with Apache Beam and these options of it")
    add("--folder", type=Path, help="folder for text and data, about 300 bytes a pair; default: a temporary folder")
    add("--json", type=Path, help="file to write the rows to")
    arguments = parser.parse_args(argv)
    rows: list[Row] = []
    print(
        "| pairs | work | seconds | MB of the largest process | MB its own | MB of mapped files | bytes a pair more |"
    )
    print("|---|---|---|---|---|---|---|")
    for pairs in (int(part) for part in arguments.pairs.split(",") if part):
        folder = Path(tempfile.mkdtemp(prefix="t2t-memory-", dir=arguments.folder))
        try:
            for row in _rows(folder, pairs, arguments):
                rows.append(row)
                print(_line(row, rows), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        write_atomically(arguments.json, (json.dumps(rows, indent=1) + "\n").encode())
    return 0


def _rows(folder: Path, pairs: int, arguments: argparse.Namespace) -> Iterator[Row]:
    corpus = Corpus(str(pairs), write_synthetic(folder / "text", pairs, own_words=True))
    for name, command in _commands(folder, corpus, arguments).items():
        others = Others()
        usage = measured([sys.executable, *command], folder / f"{name}.log")
        busy = others.cores()
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        yield {
            "pairs": pairs,
            "work": name,
            **usage._asdict(),
            "others": busy,
            "disk_bytes": size,
            "machine": machine(),
        }


def _commands(folder: Path, corpus: Corpus, arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Returns the commands in the order in which they run; later ones use files of earlier ones."""
    vocabulary = folder / "vocabulary.spm"
    problem = [f"--problem={PROBLEM}", f"--vocab_file={vocabulary}", *file_flags(corpus)]
    data = [f"--data_dir={folder / 'data'}", *problem]
    return {
        "vocabulary": ["-m", "benchmarks.ours.vocabulary", str(vocabulary), str(arguments.vocab_size),
                       *file_flags(corpus)],
        "generation": [str(ROOT / "bin" / "t2t-datagen"), *data, f"--beam_options={arguments.beam_options}"],
        "generation without duplicates": [
            str(ROOT / "bin" / "t2t-datagen"), *problem, f"--data_dir={folder / 'filtered'}",
            "--filter_duplicates=pair", f"--beam_options={arguments.beam_options}",
        ],
        "training": [str(ROOT / "bin" / "t2t-trainer"), *data, "--model=transformer", "--hparams_set=transformer_tiny",
                     f"--hparams={MODEL}", f"--output_dir={folder / 'run'}", f"--train_steps={arguments.updates}",
                     "--eval_steps=0", "--worker_cpu=1"],
    }  # fmt: skip


def _line(row: Row, rows: list[Row]) -> str:
    """Returns a line of the table; the last cell is the growth of own memory per pair since a smaller corpus."""
    before = next((one for one in rows if one["work"] == row["work"] and one["pairs"] < row["pairs"]), None)
    grown = "" if before is None else (
        f"{(row['own_mb'] - before['own_mb']) * 1e6 / (row['pairs'] - before['pairs']):.1f}"
    )  # fmt: skip
    seconds = f"{row['seconds']:,.0f}" if row["others"] <= MOST_OTHERS else "disturbed"
    sizes = " | ".join(f"{row[name]:,.0f}" for name in ("resident_mb", "own_mb", "mapped_mb"))
    return f"| {row['pairs']:,} | {row['work']} | {seconds} | {sizes} | {grown} |"
