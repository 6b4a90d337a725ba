"""Measures how costs grow: training with length and replicas, decoding with output length and beam, generation."""

import statistics

from benchmarks import datagen, decoding
from benchmarks.harness.corpus import open_corpus
from benchmarks.harness.flags import Setting, build_parser, settings
from benchmarks.harness.rows import Row, compared
from benchmarks.harness.turns import Figures

WORK = "growth"
LENGTHS = "256,1024,4096,16384"
REPLICAS = "1,2"
WORKERS = "2"
OUTPUTS = "16,64,256"
BEAMS = "1,4,8"
CORPORA = "29000,290000"
USUAL = 32
"""Tokens of a sequence when the number of replicas or workers varies."""


def main(argv: list[str]) -> int:
    """Runs all measurements; returns the exit status."""
    parser = build_parser(WORK, __doc__, {})
    parser.set_defaults(config="small", turns=1)
    parser.add_argument("--lengths", default=LENGTHS, help="tokens of a sequence; the tokens of a batch stay the same, "
                        "with at least one pair of sequences")  # fmt: skip
    parser.add_argument("--replicas", default=REPLICAS, help="numbers of replicas, each with a separate batch")
    parser.add_argument("--workers", default=WORKERS, help="numbers of processes that train together, a replica each")
    parser.add_argument("--outputs", default=OUTPUTS, help="tokens by which outputs are longer than their sources")
    parser.add_argument("--beams", default=BEAMS, help="beam sizes of their search")
    parser.add_argument("--corpora", default=CORPORA, help="numbers of training pairs to generate data from")
    parser.add_argument("--steps", type=int, default=2, help="measured updates, after one that is not measured")
    arguments = parser.parse_args(argv)
    setting = settings(arguments)
    lengths, replicas = _numbers(arguments.lengths), _numbers(arguments.replicas)
    rows = [one for length in lengths for one in _measured(setting, f"length{length}", length, 1)]
    rows += [one for count in replicas for one in _measured(setting, f"replicas{count}", USUAL, count)]
    for count in _numbers(arguments.workers):
        rows += _measured(setting, f"workers{count}", USUAL, 1, count)
    rows += _decoding(setting, _numbers(arguments.outputs), _numbers(arguments.beams))
    rows += [one for pairs in _numbers(arguments.corpora) for one in _generation(setting, pairs)]
    return setting.finish(rows)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


def _measured(setting: Setting, what: str, length: int, replicas: int, workers: int = 1) -> list[Row]:
    """Returns rows for tokens per second, seconds of updates and of the first one, and memory of the first worker."""
    config = setting.config
    asked = {name: getattr(setting.arguments, name) for name in ("vocab_size", "steps")}
    job = {"config": config.to_dict(), "length": length, "replicas": replicas, "workers": workers, "worker": 0, **asked}
    taken = setting.take_turns([setting.ours(WORK)], job, what)
    tokens = workers * replicas * length * max(1, config.batch_size // length)
    name = f"{WORK}.{what}"
    facts = {"length": length, "replicas": replicas, "workers": workers, "tokens": tokens}

    def update_seconds(figures: Figures) -> float:
        return statistics.mean(figures["update_seconds"])

    return [
        *compared(name, config.name, taken, lambda f: tokens / update_seconds(f), unit="target tokens/s", **facts),
        *compared(f"{name}.first_update", config.name, taken, lambda f: f["first_update_seconds"], unit="s",
                  better="lower", **facts),
        *compared(f"{name}.seconds", config.name, taken, update_seconds, unit="s an update", better="lower", **facts),
        *compared(f"{name}.peak_memory", config.name, taken, lambda f: f["peak_memory_mb"], unit="MB", better="lower",
                  **facts),
    ]  # fmt: skip


def _decoding(setting: Setting, outputs: list[int], beams: list[int]) -> list[Row]:
    """Returns output tokens per second by output length and beam, and memory: random weights, one full batch."""
    if not outputs or not beams:
        return []
    job = decoding.job_of_random_weights(setting, beams)
    found = []
    for extra in outputs:
        name, config = f"{WORK}.decoding.outputs{extra}", setting.config.name
        taken = setting.take_turns([setting.ours("decoding")], {**job, "extra_length": extra}, f"outputs{extra}")
        facts = {"extra_length": extra, "sentences": len(job["sentences"])}
        for beam in beams:
            found += compared(f"{name}.beam{beam}", config, taken, lambda f, b=beam: decoding.tokens_per_second(f, b),
                              unit="output tokens/s", beam=beam, **facts)  # fmt: skip
        found += compared(f"{name}.peak_memory", config, taken, lambda f: f["peak_memory_mb"], unit="MB",
                          better="lower", **facts)  # fmt: skip
    return found


def _generation(setting: Setting, pairs: int) -> list[Row]:
    """Returns rows for pairs per second and the memory of the largest process, for a corpus of `pairs` pairs."""
    corpus = open_corpus(setting.arguments.data, setting.home, pairs)
    job = datagen.generation_job(setting, corpus)
    taken = setting.take_turns([setting.ours("datagen")], job, f"pairs{pairs}")
    name = f"{WORK}.generation.pairs{pairs}"
    return [
        *compared(name, "", taken, lambda f: pairs / f["seconds"], unit="pairs/s", pairs=pairs),
        *compared(f"{name}.peak_memory", "", taken, lambda f: f["peak_memory_mb"], unit="MB", better="lower",
                  pairs=pairs),
    ]  # fmt: skip
