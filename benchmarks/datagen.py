"""Compares data preparation: generation with SentencePiece's encoder, the input pipeline with a model's consumption."""

from typing import Any

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.flags import Setting, build_parser, settings
from benchmarks.harness.prepared import PROBLEM, file_flags, prepare
from benchmarks.harness.processes import run
from benchmarks.harness.rows import Row, compared, row, unavailable
from benchmarks.harness.turns import Turns
from benchmarks.peers import DATAGEN
from t2t.specs import TRAIN

WORK = "datagen"
SEED = 1
SHAPES = 32
"""Maximum number of batch shapes when padding to fixed shapes, as a compiler needs."""


def main(argv: list[str]) -> int:
    """Runs the comparison; returns its exit status."""
    parser = build_parser(WORK, __doc__, DATAGEN)
    parser.add_argument(
        "--steps", type=int, help="updates that measure the model's consumption; default: set by --config"
    )
    parser.add_argument("--warm", type=int, help="warm-up updates before them; default: set by --config")
    arguments = parser.parse_args(argv)
    setting = settings(arguments, steps=arguments.steps, warm=arguments.warm)
    sides, missing = setting.sides(WORK, DATAGEN)
    prepared = prepare(setting.corpus(), setting.home, arguments.vocab_size)
    folder = prepared.data_dir / PROBLEM
    job = {
        "vocabulary": str(next(folder.glob("vocab.*.spm"))),
        "files": [str(path) for path in prepared.corpus.files[TRAIN]],
        **generation_job(setting, prepared.corpus),
    }
    taken = setting.take_turns(sides, job)
    failed = [unavailable(WORK, "", one.name, one.failure) for one in taken if one.failure]
    rows = [*_generation(taken), *_pipeline(setting, str(prepared.data_dir))]
    return setting.finish([*rows, *missing, *failed])


def generation_job(setting: Setting, corpus: Corpus) -> dict[str, Any]:
    """Returns the job of our side: its data folder and the flags of `t2t-datagen`."""
    flags = [f"--problem={PROBLEM}", f"--vocab_size={setting.arguments.vocab_size}", *file_flags(corpus)]
    return {"data_dir": str(setting.scratch / "data"), "flags": flags}


def _generation(taken: list[Turns]) -> list[Row]:
    pairs = taken[0].figures[0]["pairs"]
    return [
        *compared(WORK, "", taken, lambda f: pairs / f["seconds"], unit="pairs/s", pairs=pairs),
        *compared(f"{WORK}.peak_memory", "", taken[:1], lambda f: f["peak_memory_mb"], unit="MB", better="lower"),
    ]


def _pipeline(setting: Setting, data_dir: str) -> list[Row]:
    """Compares the input pipeline alone with training throughput, both in target tokens/s, and measures padding."""
    config = setting.config
    job: dict[str, Any] = {
        "data_dir": data_dir,
        "output_dir": str(setting.scratch / "run"),
        "overrides": config.overrides(),
        "seed": SEED,
        "warm": config.warm,
        "steps": config.steps,
        "shapes": SHAPES,
    }
    alone, trained = (setting.take_turns([setting.ours(name)], job, name)[0] for name in ("pipeline", "training"))
    trained.name = f"the {config.name} model in training"
    for figures in trained.figures:
        figures["tokens_per_second"] = figures["tokens_per_update"] * config.steps / sum(figures["update_seconds"])
    padding = run(setting.ours("padding"), job, setting.scratch, setting.conditions)
    return [
        *compared(f"{WORK}.pipeline", config.name, [alone, trained], lambda f: f["tokens_per_second"],
                  unit="target tokens/s"),
        *(row(f"{WORK}.padding.{name}", config.name, [share], unit=unit, better="lower", shapes=padding["shapes"][name])
          for name, share, unit in (("free", padding["free"], "of target positions"),
                                    ("fixed", padding["fixed"], f"of both sides, {SHAPES} shapes at most"))),
    ]  # fmt: skip
