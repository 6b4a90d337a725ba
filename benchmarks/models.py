"""Compares the training and decoding speed of the translation models.

Each model has the sizes of its `*_multi30k_tiny` set; text, vocabulary and tokens of a batch are the same for all. They
decode after a few updates, so outputs continue to the length limit; this does not affect the time per token.
"""

import itertools

from benchmarks.harness.flags import Setting, build_parser, settings
from benchmarks.harness.prepared import prepare
from benchmarks.harness.processes import Side
from benchmarks.harness.rows import compared
from t2t.registry import HPARAMS, MODELS
from t2t.specs import TEST

WORK = "models"
SUFFIX = "_multi30k_tiny"
SEED = 1
EXTRA_LENGTH = 10
"""Tokens by which outputs are longer than their sources."""


def main(argv: list[str]) -> int:
    """Measures every model; returns the exit status."""
    parser = build_parser(WORK, __doc__, {})
    parser.set_defaults(turns=1)
    parser.add_argument("--sets", default=",".join(sets()), help="hparams sets; default: all that end with " + SUFFIX)
    parser.add_argument("--warm", type=int, default=4, help="warm-up updates, not measured")
    parser.add_argument("--steps", type=int, default=12, help="measured updates")
    parser.add_argument("--sentences", type=int, default=200, help="sentences to decode")
    arguments = parser.parse_args(argv)
    setting = settings(arguments)
    names = [name for name in arguments.sets.split(",") if name]
    sides = [_side(setting, name) for name in names]
    taken = setting.take_turns(sides, _job(setting))
    return setting.finish([
        *compared(f"{WORK}.parameters", WORK, taken, lambda f: f["parameters"], unit="weights", side=names[0],
                  better="lower"),
        *compared(f"{WORK}.training", WORK, taken, lambda f: f["tokens_per_second"], unit="target tokens/s",
                  side=names[0]),
        *compared(f"{WORK}.training.peak_memory", WORK, taken, lambda f: f["peak_memory_mb"], unit="MB",
                  side=names[0], better="lower"),
        *compared(f"{WORK}.greedy", WORK, taken, lambda f: f["output_tokens_per_second"], unit="output tokens/s",
                  side=names[0]),
    ])  # fmt: skip


def sets() -> list[str]:
    """Returns the names of the compared sets, that of the Transformer first."""
    names = [entry.name for entry in HPARAMS.entries() if entry.name.endswith(SUFFIX)]
    return sorted(names, key=lambda name: (name != "transformer" + SUFFIX, name))


def model_of(hparams_set: str) -> str:
    """Returns the model of a set: among those with its hparams class, the one whose name starts the set's name.

    If there is none, the one with the shortest name.
    """
    kind = type(HPARAMS.get(hparams_set)()).__name__
    models = [entry.name for entry in MODELS.entries() if not entry.alias_of and _own_hparams(entry.name) == kind]
    named = [name for name in models if hparams_set.startswith(name)]
    return max(named, key=len) if named else min(models, key=len)


def _own_hparams(model: str) -> str:
    """Returns the name of the hparams class that a model declares itself; empty if it inherits it."""
    if (loaded := MODELS.loaded(model)) is None:
        return MODELS.declared(model, "hparams_class")
    return getattr(vars(loaded).get("hparams_class"), "__name__", "")


def _side(setting: Setting, hparams_set: str) -> Side:
    return setting.ours(WORK, hparams_set, hparams_set=hparams_set, model=model_of(hparams_set))


def _job(setting: Setting) -> dict:
    arguments = setting.arguments
    corpus = setting.corpus()
    prepared = prepare(corpus, setting.home, arguments.vocab_size)
    pairs = itertools.islice(corpus.pairs(TEST), arguments.sentences)
    return {
        "overrides": "",
        "seed": SEED,
        "warm": arguments.warm,
        "steps": arguments.steps,
        "texts": [source for source, _ in pairs],
        "extra_length": EXTRA_LENGTH,
        "data_dir": str(prepared.data_dir),
        "output_dir": str(setting.scratch / "run"),
    }
