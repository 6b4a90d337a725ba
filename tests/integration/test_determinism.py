"""The same seed gives the same bytes of data, weights and outputs, whatever else differs between runs."""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TINY = (
    "hidden_size=16,filter_size=32,num_heads=2,num_hidden_layers=1,batch_size=256,learning_rate_schedule=constant,"
    "learning_rate=0.01,learning_rate_warmup_steps=5,extra_length=4,ema_decay=0.9"
)
ALL_IN_ONE_PROCESS = """
import json, os, sys
from t2t.cli import datagen, decoder, trainer
os.chdir(sys.argv[1])
for command, arguments in zip((datagen, trainer, decoder), json.loads(sys.argv[2])):
    assert command.main(["t2t", *arguments]) == 0
"""
WORDS = ("der", "die", "das", "Straße", "zwölf", "naïve", "日本", "ı", "İ", "i", "I")


def write_corpus(folder):
    """Writes random lines with letters that locales sort and lower-case differently; returns the flags of the files."""
    rng = random.Random(7)
    for split, size in (("train", 400), ("dev", 20)):
        lines = [rng.choices(WORDS, k=rng.randint(1, 8)) for _ in range(size)]
        for side, step in (("source", 1), ("target", -1)):
            path = folder / f"{split}.{side}"
            path.write_text("".join(" ".join(line[::step]) + "\n" for line in lines), encoding="utf-8")
    return [f"--{split}_{side}=raw/{split}.{side}" for split in ("train", "dev") for side in ("source", "target")]


def results_of(folder, seed=3, kind="sentencepiece", **environment):
    """Generates data, trains and decodes in a folder with a folder raw/; returns a checksum of each result file."""
    problem = [*write_corpus(folder / "raw"), "--problem=text2text_files", f"--vocab_kind={kind}", "--data_dir=data"]
    problem += ["--vocab_size=300"]
    arguments = [
        [*problem, f"--random_seed={seed}"],
        [
            *problem, "--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={TINY}", "--output_dir=run",
            f"--random_seed={seed}", "--train_steps=4", "--local_eval_frequency=2", "--eval_steps=1", "--worker_cpu=1",
        ],
        [
            "--output_dir=run", "--decode_from_file=raw/dev.source", "--decode_to_file=out", "--n_best=2",
            "--output_format=jsonl", "--decode_method=sample", f"--random_seed={seed}",
        ],
    ]  # fmt: skip
    subprocess.run(
        [sys.executable, "-c", ALL_IN_ONE_PROCESS, str(folder), json.dumps(arguments)], check=True, cwd=folder.parent,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    wanted = [*folder.glob("data/*/*.npy"), *folder.glob("data/*/vocab*"), *folder.glob("run/**/*.safetensors")]
    wanted += [folder / "out"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(wanted)}


@pytest.mark.exhaustive  # that no locale, time zone, hash seed, home or path changes a byte of what all commands make
@pytest.mark.parametrize("kind", ["sentencepiece", "subword"])
def test_one_seed_is_one_result_in_every_environment(tmp_path, kind):
    for name in ("one", "a/deeper/ünlike/other"):
        (tmp_path / name / "raw").mkdir(parents=True)
    one = results_of(tmp_path / "one", kind=kind, PYTHONHASHSEED="1", LC_ALL="C", TZ="UTC")
    other = results_of(
        tmp_path / "a/deeper/ünlike/other", kind=kind, PYTHONHASHSEED="2", LC_ALL="tr_TR.UTF-8",
        TZ="Asia/Tokyo", HOME=str(tmp_path), LANG="de_DE.ISO-8859-1", PYTHONUTF8="0",
    )  # fmt: skip
    assert len(one) > 6
    assert one == other
