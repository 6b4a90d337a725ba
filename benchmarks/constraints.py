"""Measures the cost of output constraints: search time with and without them, alternating in one process.

Measures only this project, with random weights. The time is that of the first tokens of a full batch: hardly any
sentence ends that early, so both sides search the same number of sentences. The ratio is the median over turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.hparams.groups import DecodeHParams
from t2t.inference.output_constraints import OutputTerms, constraints_of
from t2t.inference.translator import Translator
from t2t.problems.base import Problem
from t2t.problems.parsing import ParsingTrees
from t2t.registry import HPARAMS, MODELS
from t2t.specs import EOS_ID, INPUTS, TARGETS
from t2t.text.words import TokenEncoder

SEARCHES = {
    "beam 4": {"decode_method": "beam", "beam_size": 4},
    "greedy": {"decode_method": "greedy"},
    "sample": {"decode_method": "sample"},
}
_PHRASES = 50
"""Number of phrase labels, and number of tags, in the output vocabulary of trees."""


def main(argv: list[str]) -> int:
    """Measures every constraint with every search; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks constraints", description=__doc__.splitlines()[0])
    parser.add_argument("--hparams_set", default="transformer_parsing_tiny", help="the size of the Transformer")
    parser.add_argument("--words", type=int, default=24, help="words of a sentence, at least 16")
    parser.add_argument("--pieces", type=int, default=8000, help="vocabulary size of outputs with phrases")
    parser.add_argument("--sentences", type=int, default=32, help="sentences of the batch")
    parser.add_argument("--turns", type=int, default=5, help="measurements of each side, after one warm-up")
    arguments = parser.parse_args(argv)
    if arguments.words < 16:
        raise UserError(f"--words={arguments.words}: the tokens that are measured are the words of sentences; give 16")
    labels = [f"{slash}P{n}" for n in range(_PHRASES) for slash in ("", "/")] + [f"T{n}" for n in range(_PHRASES)]
    words = TokenEncoder([f"w{n}" for n in range(arguments.pieces)])
    trees = _translator(arguments.hparams_set, TokenEncoder(labels))
    texts = _translator(arguments.hparams_set, words)
    terms = {
        "one forced phrase": OutputTerms(constraints=("w5 w7",)),
        "three forced phrases": OutputTerms(constraints=("w5 w7", "w8", "w1 w2 w3")),
        "two forbidden phrases": OutputTerms(avoid=("w5 w7", "w8")),
    }
    print("| constraint | search | without, ms a token | with, ms | ratio |\n|---|---|---|---|---|")
    for name, changes in SEARCHES.items():
        _print("trees", name, arguments, trees, changes, None)
        for what, asked in terms.items():
            _print(what, name, arguments, texts, changes, asked)
    return 0


def _print(
    what: str, search: str, arguments: argparse.Namespace, translator: Translator, changes: dict[str, Any], terms: Any
) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(EOS_ID + 2, 1000, (arguments.sentences, arguments.words)).tolist()
    sides = [_side(translator, rows, changes, terms, is_constrained) for is_constrained in (False, True)]
    taken = [[side() for side in sides] for _ in range(arguments.turns + 1)][1:]
    without, with_it = (statistics.median(side) for side in zip(*taken, strict=True))
    ratio = statistics.median(after / before for before, after in taken)
    print(f"| {what} | {search} | {without:.1f} | {with_it:.1f} | {ratio:.2f} |", flush=True)


def _side(
    translator: Translator, rows: list[list[int]], changes: dict[str, Any], terms: Any, is_constrained: bool
) -> Callable[[], float]:
    """Returns a function that searches the first tokens of a batch and returns the milliseconds per token."""
    from t2t.inference.batch_search import SearchRows
    from t2t.inference.growing_search import TOKENS_PER_CALL, GrowingSearch
    from t2t.inference.model_engine import build_search

    settings, hparams = translator.settings(constrain_output=is_constrained and terms is None, **changes)
    asked = [terms if is_constrained else None] * len(rows)
    how = (translator.problem, translator.facts, settings, hparams)
    constraints = constraints_of(*how, rows, terms=asked)
    search = build_search(translator.model, settings, hparams.extra_length)
    assert isinstance(search, GrowingSearch)
    vocab_size = translator.facts.spec.targets.vocab_size
    numbers, ids = np.arange(len(rows)), np.array([[*row, EOS_ID] for row in rows], np.int32)
    asked = SearchRows.build(numbers, None, constraints, vocab_size)

    def seconds() -> float:
        batch, weights = search.start(numbers, ids, asked), search.step_weights()
        began = time.perf_counter()
        search.advance(batch, weights)
        return 1000 * (time.perf_counter() - began) / TOKENS_PER_CALL

    return seconds


def _translator(hparams_set: str, targets: TokenEncoder) -> Translator:
    """Returns a translator with random weights."""
    problem: Problem = ParsingTrees()
    problem.with_encoders({INPUTS: TokenEncoder([f"w{n}" for n in range(1000)]), TARGETS: targets})
    model = MODELS.get("transformer")(HPARAMS.get(hparams_set)(), problem.spec())
    return Translator(problem, model, DecodeHParams(extra_length=100))
