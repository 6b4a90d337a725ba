"""Compares decoding of a whole file: sentences a second at several beams, outputs, memory; with the same weights.

Ours decodes with TensorFlow and with CTranslate2 as its engine (`t2t-decoder --engine=ctranslate2`), each a side of its
own. Every side decodes the file twice: `first_pass` is the first time, the other rows are the second. Rows of `best`
have the best variant of each program.
"""

import hashlib
import math
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness.corpus import Corpus
from benchmarks.harness.flags import Setting, build_parser, settings
from benchmarks.harness.prepared import prepare
from benchmarks.harness.processes import run
from benchmarks.harness.rows import OURS, Row, best_variants, compared, row, unavailable
from benchmarks.harness.sentences import encoded, of_equal_lengths
from benchmarks.harness.turns import Turns
from benchmarks.harness.weights import export
from benchmarks.peers import DECODING
from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.store import CheckpointStore
from t2t.export.formats import relative_difference

WORK = "decoding"
ENGINE = f"{OURS}_ctranslate2"
"""Our side with CTranslate2 as its engine."""

FIXED_REASON = "the engine cannot make outputs go on until they are cut; name a trained run, or --train_steps"

BATCH = 32
"""Sentences of a batch."""

TRAINED = {"tiny": 1500}
"""Updates that a model of a config is trained for; others keep their random weights, and their outputs go on until
they are as long as the source and `FIXED_EXTRA` ids."""

FIXED_EXTRA, FREE_EXTRA = 10, 50
"""Ids that an output may be longer than its source."""

PAIRS = 20
"""Pairs whose log-probabilities must be ours before a peer is timed."""

TOLERANCE = 1e-3
"""Of a log-probability, relative."""

LEAST_IDENTICAL, LEAST_IDENTICAL_ROUNDED = 0.9, 0.5
"""Share of the outputs, in float32 and in int8: two searches differ in a few."""

LENGTH_TOLERANCE = 0.1
"""By how much the outputs of a peer may be longer or shorter than ours, all together."""

_LAYOUT = ",sinusoid_layout=split"
"""Marian can have no other positions; all other programs have the layout that they are given."""

_RATE_OF_WIDTH = 0.003 * 128**2
"""Peak learning rate times the square of the model's width. With batches as small as these, base learns nothing at a
rate that falls with the width alone."""


def main(argv: list[str]) -> int:
    """Runs the comparison; returns its exit status."""
    parser = build_parser(WORK, __doc__, DECODING)
    parser.add_argument("--run", type=Path, help="run directory of a trained model; default: trained here where the "
                        "config is tiny, else random weights")  # fmt: skip
    parser.add_argument("--train_steps", type=int, help="updates to train for; 1 = random weights, outputs of fixed "
                        "lengths")  # fmt: skip
    parser.add_argument("--beams", default="4,1,8", help="beams to search with, the outputs of the first are compared")
    parser.add_argument("--sentences", type=int, help="how many are decoded; default: by config")
    parser.add_argument("--batch", type=int, default=BATCH, help="sentences of a batch")
    arguments = parser.parse_args(argv)
    setting = settings(arguments, sentences=arguments.sentences)
    engine = setting.ours(WORK, ENGINE, engine="ctranslate2")
    sides, missing = setting.sides(WORK, DECODING, engine)
    job = _with_weights(decoding_job(setting), setting)
    if job["fixed"]:
        sides.remove(engine)
        missing.append(unavailable(WORK, setting.config.name, ENGINE, FIXED_REASON))
    taken = setting.take_turns(sides, job)
    _check_scores(taken, {side.name: side.options for side in sides}, job["sentences"])
    failed = [unavailable(WORK, setting.config.name, one.name, one.failure) for one in taken if one.failure]
    rows = [*_speed(setting, job, taken), *_outputs(setting, job, taken)]
    return setting.finish([*rows, *missing, *failed])


def job_of_random_weights(setting: Setting, beams: list[int]) -> dict[str, Any]:
    """Returns a job for our side alone: one batch of sources of one length, whose outputs go on until they are cut."""
    corpus = setting.corpus()
    folder = trained_run(setting, corpus, 1)
    sources, _ = encoded(corpus, RunDir.open(str(folder)))
    sentences = of_equal_lengths(sources, BATCH, BATCH)
    return {"run": str(folder), "sentences": sentences, "pairs": [], "beams": beams, "batch": BATCH, "fixed": True}


def decoding_job(setting: Setting) -> dict[str, Any]:
    """Returns the job of our own sides; trains the model first where none is given."""
    arguments, corpus = setting.arguments, setting.corpus()
    steps = arguments.train_steps or TRAINED.get(setting.config.name, 1)
    fixed = arguments.run is None and steps == 1
    folder = arguments.run or trained_run(setting, corpus, steps)
    sources, targets = encoded(corpus, RunDir.open(str(folder)))
    chosen = sources[: setting.config.sentences]
    if fixed:
        chosen = of_equal_lengths(sources, setting.config.sentences, arguments.batch)
    return {
        "run": str(folder),
        "sentences": chosen,
        "pairs": list(zip(sources[:PAIRS], targets[:PAIRS], strict=True)),
        "beams": [int(beam) for beam in arguments.beams.split(",")],
        "batch": arguments.batch,
        "fixed": fixed,
        "extra_length": FIXED_EXTRA if fixed else FREE_EXTRA,
    }


def _with_weights(job: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Returns the job with what the peers need besides: weights, sizes, vocabulary."""
    folder, weights = Path(job["run"]), setting.scratch / "weights.npz"
    sizes = export(folder, weights)
    return {**job, "weights": str(weights), "sizes": sizes, "vocabulary": _vocabulary(folder)}


def _vocabulary(folder: Path) -> str:
    """Returns the file of a run's only vocabulary where it is one of SentencePiece, else nothing."""
    files = list(folder.absolute().glob("vocab/*"))
    return str(files[0]) if [file.suffix for file in files] == [".spm"] else ""


def trained_run(setting: Setting, corpus: Corpus, steps: int) -> Path:
    """Returns the run directory of a model of the config, trained the first time it is asked for."""
    prepared = prepare(corpus, setting.home, setting.arguments.vocab_size)
    overrides = setting.config.overrides() + _LAYOUT
    if steps > 1:
        rate = _RATE_OF_WIDTH / setting.config.width**2
        overrides += f",learning_rate_schedule=linear,learning_rate={rate:g},learning_rate_warmup_steps=300"
    digest = hashlib.sha256(overrides.encode()).hexdigest()[:8]
    folder = setting.home / "runs" / f"{prepared.data_dir.name}-{setting.config.name}-{steps}-{digest}"
    if RunDir.exists(folder) and CheckpointStore(RunDir.open(str(folder)).checkpoints_folder).latest() == steps:
        return folder
    job = {"data_dir": str(prepared.data_dir), "output_dir": str(folder), "overrides": overrides, "seed": 1}
    run(setting.ours("run"), {**job, "train_steps": steps}, setting.scratch, setting.conditions)
    return folder


def _check_scores(taken: list[Turns], options: dict[str, Any], sentences: list[list[int]]) -> None:
    """Strikes out a peer that did not do the same work.

    It is no copy of our model where it gives other probabilities to the same outputs. One that offers no probabilities
    is judged by its outputs at the first beam, of those sentences where ours ended by itself: programs have other
    limits. Outputs of other lengths take another time: a search that stops otherwise may write empty ones.
    """
    ours = taken[0].figures[0]
    outputs = _outputs_of(ours)
    ended = [len(output) < 2 * len(source) for source, output in zip(sentences, outputs, strict=True)]
    for peer in taken[1:]:
        is_rounded = options[peer.name].get("compute_type") == "int8"
        for figures in peer.figures:
            if figures["scores"] is None:
                share = _identical_share(outputs, _outputs_of(figures), ended)
                if not share >= (LEAST_IDENTICAL_ROUNDED if is_rounded else LEAST_IDENTICAL):
                    peer.failure = f"only {share:.1%} of its outputs are ours"
                continue
            pairs = zip(ours["scores"], figures["scores"], strict=True)
            figures["deviation"] = worst = max(relative_difference(a, b) for a, b in pairs)
            if not worst <= (sys.float_info.max if is_rounded else TOLERANCE):
                peer.failure = f"its log-probabilities of {PAIRS} pairs differ from ours by up to {worst:.2g} of them"
            elif fault := _length_fault(outputs, _outputs_of(figures)):
                peer.failure = fault
        if peer.failure:
            peer.figures = []


def _length_fault(ours: list[list[int]], theirs: list[list[int]]) -> str:
    """Returns what is wrong with the lengths of a peer's outputs, empty where nothing is."""
    written, expected = (sum(map(len, outputs)) for outputs in (theirs, ours))
    if abs(written - expected) <= LENGTH_TOLERANCE * expected:
        return ""
    return f"its outputs have {written:,} tokens where ours have {expected:,}"


def _outputs_of(figures: dict[str, Any]) -> list[list[int]]:
    """Returns the outputs of the first beam."""
    return next(iter(figures["searches"].values()))["outputs"]


def _identical_share(ours: list[list[int]], theirs: list[list[int]], which: list[bool]) -> float:
    """Returns how many of the outputs that count are the same, of all of them; NaN where none counts."""
    same = [a == b for a, b, counts in zip(ours, theirs, which, strict=True) if counts]
    return sum(same) / len(same) if same else math.nan


def _speed(setting: Setting, job: dict[str, Any], taken: list[Turns]) -> list[Row]:
    name, count = setting.config.name, len(job["sentences"])
    programs = {OURS: OURS, ENGINE: OURS, **{peer: what.program for peer, what in DECODING.items()}}
    how = {
        "unit": "sentences/s",
        "sentences": count,
        "weights": "random weights, fixed lengths" if job["fixed"] else "trained weights",
    }
    reads = [
        (f"beam{beam}{name_of_pass}", lambda f, b=str(beam), p=key: count / f["searches"][b][p])
        for beam in job["beams"]
        for key, name_of_pass in (("seconds", ""), ("first", ".first_pass"))
    ]
    found = []
    for what, read in reads:
        found += compared(f"{WORK}.best.{what}", name, best_variants(taken, programs, read), read, **how)
    for group in _groups(taken):
        for what, read in reads:
            found += compared(f"{WORK}.{what}", name, group, read, **how)
        found += compared(f"{WORK}.peak_memory", name, group, lambda f: f["peak_memory_mb"], unit="MB", better="lower")
    return found


def _groups(taken: list[Turns]) -> list[list[Turns]]:
    """Returns who is compared: TensorFlow with every peer, and the engine with TensorFlow."""
    ours, *others = taken
    peers = [one for one in others if one.name != ENGINE]
    return [[ours, *peers], *([one, ours] for one in others if one.name == ENGINE and one.figures)]


def tokens_per_second(figures: dict[str, Any], beam: int) -> float:
    """Returns how many output tokens a side has written a second."""
    search = figures["searches"][str(beam)]
    return sum(map(len, search["outputs"])) / search["seconds"]


def _outputs(setting: Setting, job: dict[str, Any], taken: list[Turns]) -> list[Row]:
    """Returns how many hypotheses of the first beam are ours to the letter, and how probable both sides' are."""
    name, measured = setting.config.name, [side for side in taken if side.figures]
    outputs = {side.name: _outputs_of(side.figures[0]) for side in measured}
    job = {"run": job["run"], "sentences": job["sentences"], "outputs": outputs}
    scores = run(setting.ours("scoring"), job, setting.scratch, setting.conditions)["scores"]
    mean = {name: sum(found) / len(found) for name, found in scores.items()}
    ours, *peers = measured
    found = []
    for peer in peers:
        same = _identical_share(outputs[ours.name], outputs[peer.name], [True] * len(job["sentences"]))
        found.append(row(f"{WORK}.identical", name, [same], peer=peer.name, unit="of the hypotheses"))
        found.append(row(f"{WORK}.log_probability", name, [mean[ours.name]], peer=peer.name, theirs=[mean[peer.name]],
                         unit="nats, mean"))  # fmt: skip
    return found
