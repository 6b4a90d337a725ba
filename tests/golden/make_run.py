"""Makes the run of this version that every later version must load, decode with and train on.

    python -m tests.golden.make_run

writes `tests/golden/runs/<version>/`: `data` and `run` as the commands leave them, without events, locks and notes on
which files were verified, and `lines` with `decodes` and `scores`, what the run gave for them. A version with new
formats adds its own; the others stay.
"""

import random
import shutil
from pathlib import Path

import t2t
from t2t.cli import avg_all, datagen, decoder, trainer
from t2t.data.manifest import SIDE_FILE

RUNS = Path(__file__).parent / "runs"
RAW = Path("/tmp/t2t-golden-raw")
"""Its path is remembered with the data; the files themselves are not kept, since training needs them no more."""
HPARAMS = (
    "hidden_size=12,filter_size=12,num_heads=2,num_hidden_layers=1,batch_size=256,max_length=24,extra_length=4,"
    "learning_rate_schedule=constant,learning_rate=0.01,learning_rate_warmup_steps=5,beam_size=2,"
    "layer_prepostprocess_dropout=0.0,ema_decay=0.9"
)
SIZES = {"train": 120, "dev": 6, "test": 4}
STEPS = 500
DECODED = 5
"""How many lines are decoded."""


def main() -> None:
    """Makes it."""
    folder = RUNS / t2t.__version__
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data, run = f"--data_dir={folder}/data", f"--output_dir={folder}/run"
    problem = [*_write_raw(), "--problem=text2text_files", "--vocab_kind=sentencepiece", "--vocab_size=270"]
    _call(datagen, *problem, data)
    _call(
        trainer, *problem, data, run, "--model=transformer", "--hparams_set=transformer_tiny", f"--hparams={HPARAMS}",
        f"--train_steps={STEPS}", f"--local_eval_frequency={STEPS}", "--eval_steps=1", "--worker_cpu=1",
    )  # fmt: skip
    _call(avg_all, run, "--n=1")
    lines = (RAW / "dev.source").read_text().splitlines(keepends=True)[:DECODED]
    (folder / "lines").write_text("".join(lines))
    _call(decoder, run, f"--decode_from_file={folder}/lines", f"--decode_to_file={folder}/decodes")
    decodes = (folder / "decodes").read_text().splitlines()
    pairs = RAW / "pairs"
    pairs.write_text("".join(f"{line.strip()}\t{output}\n" for line, output in zip(lines, decodes, strict=True)))
    _call(decoder, run, f"--score_file={pairs}", f"--decode_to_file={folder}/scores")
    shutil.rmtree(folder / "run" / "events")
    for path in (folder / "data").rglob(SIDE_FILE):
        path.unlink()


def _write_raw() -> list[str]:
    """Writes digits and the same digits; returns the flags that name the files."""
    RAW.mkdir(exist_ok=True)
    rng, flags = random.Random(0), []
    for split, size in SIZES.items():
        rows = [rng.choices("0123456789", k=rng.randint(1, 6)) for _ in range(size)]
        for side, lines in (("source", rows), ("target", rows)):
            path = RAW / f"{split}.{side}"
            path.write_text("".join(" ".join(line) + "\n" for line in lines))
            flags.append(f"--{split}_{side}={path}")
    return flags


def _call(command, *flags: str) -> None:
    if status := command.main([command.__name__, *flags]):
        raise SystemExit(status)


if __name__ == "__main__":
    main()
