#!/usr/bin/env python3
"""Makes the trained runs that come with the package, `t2t/zoo/`, from nothing: `.ci/make_zoo.py`.

Trains with the README's first line, stores the weights in 16 bits, compares the outputs of both, and writes the card
and what TensorFlow answers to a few inputs.
`.ci/make_zoo.py FOLDER` takes a run and its data from FOLDER/run and FOLDER/data, where that line has made them.
"""

import dataclasses
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from t2t import load  # noqa: E402
from t2t.checkpoints.checkpoint import ARCHITECTURE, VOCABULARIES  # noqa: E402
from t2t.checkpoints.run_dir import RECORD_FILE, RunDir  # noqa: E402
from t2t.checkpoints.store import CheckpointStore  # noqa: E402
from t2t.cli import decoder  # noqa: E402
from t2t.files.paths import ZOO_IN_PACKAGE  # noqa: E402
from t2t.inference.ctranslate2.cache import FOLDER, REFERENCE  # noqa: E402
from tests.in_process import call  # noqa: E402
from tests.readme import PHRASES, block, translate_quickstart  # noqa: E402

NAME = "ende_numbers"
CARD = """# {name}

Translates English phrases about numbers, dates, times and prices to German. It is there for first tries and for the
examples and tests of t2t; it knows the words of its training data and no others.

    t2t-decoder --output_dir=zoo:{name} --decode_interactive

| split | translated exactly | BLEU |
|---|---|---|
{scores}

Trained with `{model}` and `{hparams_set}`, {updates} updates with seed {seed} (t2t {t2t}, TensorFlow {tensorflow}), by
the README's line:

    {line}

- Data: `{problem}`, {sizes} phrases for training, dev and test; no phrase is in two of them.
- Weights: {parameters}, stored as 16-bit floats. The outputs for {same} of the {phrases} phrases of dev and test are
  those of the 32-bit weights.
- Made by `.ci/make_zoo.py`, which makes it again.
- Licence: the phrases were drawn from grammars and are a part of t2t; they and the weights are under its licence,
  Apache 2.0.
"""


def pack(source: RunDir, folder: Path) -> RunDir:
    """Writes a run with the weights of the latest checkpoint of `source` in 16 bits, and nothing to resume it from."""
    shutil.copytree(source.vocab_folder, folder / source.vocab_folder.name)
    for file in (source.metrics_file, source.dev_outputs_file):
        shutil.copy(file, folder)
    dataclasses.replace(source.record, data_dir="").write(folder / RECORD_FILE)
    run, read = RunDir.open(folder), CheckpointStore(source.checkpoints_folder).load_model()
    store = CheckpointStore(run.checkpoints_folder)
    weights = {name: array.astype(np.float16) for name, array in read.weights.items()}
    state = {key: read.state[key] for key in (VOCABULARIES, ARCHITECTURE)}
    store.save(read.step, model=weights, state=state)
    best = CheckpointStore(source.checkpoints_folder).best()
    name = f"dev/{best.metric}"
    (value,) = [line[name] for line in source.metrics() if line["step"] == read.step and name in line]
    store.mark_best(read.step, best.metric, value)
    return run


def decode(run: RunDir, data: Path, split: str, target: Path) -> tuple[list[str], str, str]:
    """Translates a split; returns its outputs, the share of exact ones and BLEU."""
    flags = {"output_dir": run.path, "data_dir": data, "decode_split": split, "decode_to_file": target}
    printed = call(decoder, **flags, engine="tensorflow").out
    figures = [re.search(rf"{name} = ([\d.]+)", printed)[1] for name in ("accuracy_per_sequence", "BLEU")]
    return target.read_text(encoding="utf-8").splitlines(), *figures


def keep_answers(run: RunDir) -> None:
    """Keeps what TensorFlow answers beside the run, so that CTranslate2 is compared with it where the run is used.

    The conversion itself depends on the version of CTranslate2; it is made at first use, in a moment.
    """
    for beam_size in (1, 4):
        load(run.path, engine="auto").translate(["one"], beam_size=beam_size)
    for path in (run.path / FOLDER / run.record.problem).iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not path.name.endswith(REFERENCE):
            path.unlink()


def card(full: RunDir, packed: RunDir, data: Path, scratch: Path) -> str:
    """Returns the text that says how the run was made and how good it is."""
    record, same, phrases, rows = full.record, 0, 0, []
    for split in ("dev", "test"):
        ours, exact, bleu = decode(packed, data, split, scratch / f"{split}.16")
        theirs, *_ = decode(full, data, split, scratch / f"{split}.32")
        same += sum(a == b for a, b in zip(ours, theirs, strict=True))
        phrases += len(ours)
        rows.append(f"| {split} | {float(exact):.1%} of {len(ours):,} | {float(bleu):.2f} |")
    splits = json.loads((data / record.problem / "manifest.json").read_text())["splits"]
    weights = CheckpointStore(packed.checkpoints_folder).load_model()
    line = block("quickstart").rpartition("| ")[2].replace(".venv/bin/", "").strip()
    return CARD.format(
        name=NAME, problem=record.problem, model=record.model, hparams_set=record.hparams_set, seed=record.random_seed,
        sizes=", ".join(f"{splits[split]['examples']:,}" for split in ("train", "dev", "test")), line=line,
        parameters=f"{sum(array.size for array in weights.model.values()):,}", updates=f"{weights.step:,}",
        t2t=record.versions["t2t"], tensorflow=record.versions["tensorflow"], scores="\n".join(rows),
        same=f"{same:,}", phrases=f"{phrases:,}",
    )  # fmt: skip


def main(argv: list[str]) -> int:
    """Makes the run; returns the exit status."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        os.environ["T2T_CACHE"] = str(scratch / "cache")  # it may hold answers of the same weights
        made = Path(argv[0]) if argv else scratch
        if not argv and (written := translate_quickstart(made)) != PHRASES:
            print(f"the README's line wrote {written}, not {PHRASES}")
            return 1
        (scratch / "packed").mkdir()
        full, packed = RunDir.open(made / "run"), pack(RunDir.open(made / "run"), scratch / "packed")
        text = card(full, packed, made / "data", scratch)
        (packed.path / "README.md").write_text(text, encoding="utf-8")
        keep_answers(packed)
        print(text)
        shutil.rmtree(ZOO_IN_PACKAGE / NAME, ignore_errors=True)
        shutil.copytree(packed.path, ZOO_IN_PACKAGE / NAME, ignore=shutil.ignore_patterns(".*"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
