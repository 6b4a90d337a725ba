"""Compares decoding of a whole file with the same weights: sentences per second at several beams, outputs, memory.

Our two engines, TensorFlow and CTranslate2 (`t2t-decoder --engine=ctranslate2`), are separate sides. Every side decodes
the file twice: `first_pass` rows time the first pass, other rows the second. `best` rows compare the best variant of
each program.
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
from t2t.formats.parity import relative_difference

WORK = "decoding"
ENGINE = f"{OURS}_ctranslate2"
"""Name of our side that uses the CTranslate2 engine."""

FIXED_REASON = "the engine cannot make outputs go on until they are cut; name a trained run, or --train_steps"

BATCH = 32
"""Sentences of a batch."""

TRAINED = {"tiny": 1500}
"""Config name -> training updates. Models of other configs keep random weights; each of their outputs has the length of
its source plus `FIXED_EXTRA` ids."""

FIXED_EXTRA, FREE_EXTRA = 10, 50
"""Maximum length of an output minus that of its source, in ids: with random and with trained weights."""

PAIRS = 20
"""Number of pairs whose log-probabilities a peer must reproduce."""

TOLERANCE = 1e-3
"""Maximum relative deviation of these log-probabilities in float32."""

LEAST_IDENTICAL, LEAST_IDENTICAL_ROUNDED = 0.9, 0.5
"""Minimum share of identical outputs of a peer without scores, in float32 and in int8: two searches differ in a few."""

LENGTH_TOLERANCE = 0.1
"""Maximum relative difference of the total output length of a peer from ours."""

_LAYOUT = ",sinusoid_layout=split"
"""The only position encoding of Marian; the other programs are given the table of positions."""

_RATE_OF_WIDTH = 0.003 * 128**2
"""Peak learning rate times the squared width of the model. With batches this small, the base model does not learn if
the rate falls only linearly with the width."""


def main(argv: list[str]) -> int:
    """Runs the comparison; returns its exit status."""
    parser = build_parser(WORK, __doc__, DECODING)
    parser.add_argument("--run", type=Path, help="run directory of a trained model; default: train one for "
                        "--config=tiny, else use random weights")  # fmt: skip
    parser.add_argument("--train_steps", type=int, help="updates to train for; 1 = random weights, outputs of fixed "
                        "lengths")  # fmt: skip
    parser.add_argument("--beams", default="4,1,8", help="beam sizes; outputs of the first are compared")
    parser.add_argument("--sentences", type=int, help="sentences to decode; default: set by --config")
    parser.add_argument("--batch", type=int, default=BATCH, help="sentences per batch")
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
    """Returns a job for our side alone: one batch of sources of equal length, with outputs of the maximum length."""
    corpus = setting.corpus()
    folder = trained_run(setting, corpus, 1)
    sources, _ = encoded(corpus, RunDir.open(str(folder)))
    sentences = of_equal_lengths(sources, BATCH, BATCH)
    return {"run": str(folder), "sentences": sentences, "pairs": [], "beams": beams, "batch": BATCH, "fixed": True}


def decoding_job(setting: Setting) -> dict[str, Any]:
    """Returns the job of our sides; first trains the model if `--run` is not given."""
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
    """Exports the weights; returns the job with the fields that peers need too: weights, sizes, vocabulary."""
    folder, weights = Path(job["run"]), setting.scratch / "weights.npz"
    sizes = export(folder, weights)
    return {**job, "weights": str(weights), "sizes": sizes, "vocabulary": _vocabulary(folder)}


def _vocabulary(folder: Path) -> str:
    """Returns the path of a run's vocabulary if it has a single SentencePiece one, else an empty string."""
    files = list(folder.absolute().glob("vocab/*"))
    return str(files[0]) if [file.suffix for file in files] == [".spm"] else ""


def trained_run(setting: Setting, corpus: Corpus, steps: int) -> Path:
    """Returns the run directory of a model of the config; trains it if it does not exist or is incomplete."""
    prepared = prepare(corpus, setting.home, setting.arguments.vocab_size)
    overrides = setting.config.overrides() + _LAYOUT
    if steps > 1:
        rate = _RATE_OF_WIDTH / setting.config.width**2
        overrides += f",learning_rate_schedule=linear,learning_rate={rate:g},learning_rate_warmup_steps=300"
        overrides += ",precision=auto"  # runs are decoded in float32, whatever they were trained in
    digest = hashlib.sha256(overrides.encode()).hexdigest()[:8]
    folder = setting.home / "runs" / f"{prepared.data_dir.name}-{setting.config.name}-{steps}-{digest}"
    if RunDir.exists(folder) and CheckpointStore(RunDir.open(str(folder)).checkpoints_folder).latest() == steps:
        return folder
    job = {"data_dir": str(prepared.data_dir), "output_dir": str(folder), "overrides": overrides, "seed": 1}
    run(setting.ours("run"), {**job, "train_steps": steps}, setting.scratch, setting.conditions)
    return folder


def _check_scores(taken: list[Turns], options: dict[str, Any], sentences: list[list[int]]) -> None:
    """Disqualifies each peer that did not do the same work: sets its failure and drops its figures.

    Its model differs from ours if it assigns other log-probabilities to the same targets. A peer without scores must
    instead match our outputs at the first beam, on sentences where our output ended before the length limit, since
    limits differ between programs. The total output length must match as well, because time depends on it.
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
    """Returns an error message if the total length of a peer's outputs differs too much from ours, else ''."""
    written, expected = (sum(map(len, outputs)) for outputs in (theirs, ours))
    if abs(written - expected) <= LENGTH_TOLERANCE * expected:
        return ""
    return f"its outputs have {written:,} tokens where ours have {expected:,}"


def _outputs_of(figures: dict[str, Any]) -> list[list[int]]:
    """Returns the outputs of the first beam."""
    return next(iter(figures["searches"].values()))["outputs"]


def _identical_share(ours: list[list[int]], theirs: list[list[int]], which: list[bool]) -> float:
    """Returns the share of identical outputs among those selected by `which`; NaN if it selects none."""
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
    """Returns the groups to compare: TensorFlow with all peers, and our CTranslate2 engine with TensorFlow."""
    ours, *others = taken
    peers = [one for one in others if one.name != ENGINE]
    return [[ours, *peers], *([one, ours] for one in others if one.name == ENGINE and one.figures)]


def tokens_per_second(figures: dict[str, Any], beam: int) -> float:
    """Returns the output tokens per second of a side at one beam size."""
    search = figures["searches"][str(beam)]
    return sum(map(len, search["outputs"])) / search["seconds"]


def _outputs(setting: Setting, job: dict[str, Any], taken: list[Turns]) -> list[Row]:
    """Returns the share of each peer's outputs identical to ours, and both mean log-probabilities under our model."""
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
