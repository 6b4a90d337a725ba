"""Trains the published Transformer of Multi30k with the commands of docs/results.md, and scores the test set.

A command that is finished is not run again, and one that was interrupted continues where it stopped.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.harness.processes import ROOT
from t2t.errors import MachineError, UserError
from t2t.files.atomic import write_atomically

TEXT = "lc.norm.tok"
"""Middle of the names of the tokenised files, e.g. `train.lc.norm.tok.en.gz`."""

AVERAGED = 10
"""Checkpoints of the mean, one an epoch of 52 updates."""


def train(data: Path, folder: Path, train_steps: int, vocab_size: int = 9720) -> list[str]:
    """Trains for some updates in bfloat16, averages, decodes and scores; returns the lines of a Markdown table.

    Args:
        data: contains Multi30k's tokenised files.
        folder: for data, run, outputs, and `commands.json`, the seconds of each command over all attempts.
        train_steps: updates; the published recipe has 8,000.
        vocab_size: of the joint vocabulary.

    Raises:
        MachineError: a command failed; the message has its last line.
        UserError: a file is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    train_files, dev, test = (
        [_file(data, stem, side) for side in ("en", "de")] for stem in ("train", "val", "test_2016_flickr")
    )
    run, outputs = f"--output_dir={folder / 'run'}", folder / "outputs"
    common = [
        f"--data_dir={folder / 'data'}", run, "--problem=text2text_files", "--model=transformer",
        "--hparams_set=transformer_multi30k_tiny", "--random_seed=1",
        f"--hparams=train_steps={train_steps},ema_decay=0,precision=mixed_bfloat16",
    ]  # fmt: skip
    singly = max(1, train_steps - 52 * AVERAGED)  # up to here, the last checkpoints are not needed
    commands = {
        "data": [
            "t2t-datagen", "--problem=text2text_files", f"--data_dir={folder / 'data'}", f"--vocab_size={vocab_size}",
            f"--train_source={train_files[0]}", f"--train_target={train_files[1]}",
            f"--dev_source={dev[0]}", f"--dev_target={dev[1]}",
        ],
        "training": [
            "t2t-trainer", *common, f"--train_steps={singly}", "--local_eval_frequency=1000", "--eval_steps=4",
            "--keep_checkpoint_max=2",
        ],
        "last epochs": [
            "t2t-trainer", *common, "--local_eval_frequency=52", "--eval_steps=1",
            f"--keep_checkpoint_max={AVERAGED + 2}",
        ],
        "average": ["t2t-avg-all", run, f"--n={AVERAGED}"],
        "decoding": [
            "t2t-decoder", run, "--checkpoint=averaged", "--engine=tensorflow", f"--decode_from_file={test[0]}",
            f"--decode_to_file={outputs}", "--decode_beam_size=5", "--decode_alpha=1", "--decode_length_penalty=power",
        ],
        "score": [
            "t2t-bleu", f"--translation={outputs}", f"--reference={test[1]}", "--tokenize=none", "--force",
        ],
    }  # fmt: skip
    printed = [_done(folder / "commands.json", name, command) for name, command in commands.items()]
    seconds = json.loads((folder / "commands.json").read_text())
    return [
        f"| command | seconds, {train_steps:,} updates |", "|---|---|",
        *(f"| {name} | {one['seconds']:,.0f} |" for name, one in seconds.items()), "", printed[-1].strip(),
    ]  # fmt: skip


def _file(data: Path, stem: str, side: str) -> Path:
    names = [f"{stem}.{TEXT}.{side}{ending}" for ending in ("", ".gz")]
    found = next((data / name for name in names if (data / name).is_file()), None)
    if found is None:
        raise UserError(
            f"--data={data}: it has neither {names[0]} nor {names[1]}", "name the folder of Multi30k's files"
        )
    return found.absolute()


def _done(record: Path, name: str, command: list[str]) -> str:
    """Runs a command unless the record says that it is done; returns what it printed on standard output."""
    known = json.loads(record.read_text()) if record.is_file() else {}
    before = known.get(name, {"seconds": 0.0})
    if before.get("command") == command:
        return before["printed"]
    print(f"== {' '.join(command)}", file=sys.stderr, flush=True)
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "bin" / command[0]), *command[1:]],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        printed = process.communicate()[0]
    finally:  # also of one that is interrupted
        done = {"command": command} if process.returncode == 0 else {}
        known[name] = {**done, "seconds": before["seconds"] + time.monotonic() - began}
        if done:
            known[name]["printed"] = printed
        write_atomically(record, (json.dumps(known, indent=1) + "\n").encode())
    if process.returncode:
        raise MachineError(f"{command[0]} ended with status {process.returncode}; its last line is above")
    return printed
