"""Draws figures 3 to 5 of "Attention Is All You Need" from a trained run, with words and heads chosen by fixed rules.

    python -m benchmarks attention --run=RUN --file=ENGLISH.txt --plot=figures.png

All figures show self-attention of the encoder between words. The rules consider every layer and head:

- figure 3, distant words: the word with the largest weight on words at least five away, averaged over a layer's heads.
- figure 4, pronouns: in sentences where *his*, *her* or *its* follows the only noun that it can mean, the two heads
  with the largest mean weight from pronoun to noun. The sentence is the one where the smaller of both is the largest.
- figure 5, two heads: those that differ most, in mean total variation distance, on the sentence of figure 4.

A table has the mean weights of figure 4, and beside them those from the other words after the noun: a head that looks
for nouns gives both, one that looks for what a pronoun means only the first.

Legend: L layers, H heads of a layer, A heads of all layers, B sentences, P pieces, W words and end of sequence, Q words
that attend, K words attended to.
"""

import argparse
import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.harness.attention_plot import Head, Panel, Sentence, draw
from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.inference.alignment import word_numbers
from t2t.inference.attention import ENCODER
from t2t.inference.translator import Translator
from t2t.runs.trained_api import load
from t2t.specs import INPUTS

NOUNS = {
    "his": {"man", "boy", "guy", "gentleman", "father", "player"},
    "her": {"woman", "girl", "lady", "mother"},
    "its": {"dog", "cat", "bird", "horse"},
}
"""Pronoun -> nouns that it can mean."""
FAR = 5
"""Distance in words from which words are distant."""
END = "</s>"


@dataclasses.dataclass(frozen=True)
class Example:
    """A sentence with a pronoun, and the noun that it means."""

    sentence: Sentence
    pronoun: int
    """Index of the word."""
    noun: int


def main(argv: list[str]) -> int:
    """Draws the figures and prints what they show; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks attention", description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="run of a Transformer with English inputs")
    parser.add_argument("--file", type=Path, required=True, help="English sentences, a line each; plain or gzip")
    parser.add_argument("--plot", type=Path, required=True, help="file for the figures, .svg or .png")
    parser.add_argument("--sentences", type=int, default=1000, help="lines that are read")
    arguments = parser.parse_args(argv)
    translator = load(arguments.run)
    lines = itertools.islice(read_lines(arguments.file, Counter()), arguments.sentences)
    sentences = [attention_between_words(translator, line) for line in lines if line.strip()]
    examples = [Example(one, *found) for one in sentences if (found := pronoun_and_noun(one.words))]
    if not examples:
        raise UserError(f"--file={arguments.file}: no sentence has {', '.join(NOUNS)} after a noun that it can mean")
    draw(panels(sentences, examples), arguments.plot)
    print("\n".join(pronoun_table(examples)))
    return 0


def attention_between_words(translator: Translator, line: str) -> Sentence:
    """Returns the attention between the words of a line in all layers of the encoder."""
    weights_LHPP = translator.attend(line, "").maps[ENCODER].weights
    (ids,) = translator.encode([line])
    words = line.split()
    numbers = word_numbers(translator.problem.encoders[INPUTS], ids)
    words_PW = np.zeros((weights_LHPP.shape[-1], len(words) + 1))
    words_PW[np.arange(len(words_PW)), [*numbers, len(words)]] = 1
    weights_LHWW = words_PW.T @ weights_LHPP @ words_PW / words_PW.sum(axis=0)[:, None]
    return Sentence((*words, END), weights_LHWW)


def panels(sentences: Sequence[Sentence], examples: Sequence[Example]) -> list[Panel]:
    """Returns the pictures of the three figures, in order."""
    distant, layer, query = most_distant(sentences)
    first, second = pronoun_heads(examples)
    best = max(examples, key=lambda one: min(_to_noun(one)[first], _to_noun(one)[second]))
    heads = range(distant.weights.shape[1])
    word = best.sentence.words[best.pronoun]
    return [
        Panel(f'Figure 3: layer {layer + 1}, all heads, from "{distant.words[query]}"', distant,
              [(layer, head) for head in heads], query),
        Panel(f"Figure 4: {_name(first)}", best.sentence, [first]),
        Panel(f'Figure 4: {_name(first)} and {_name(second)}, from "{word}"', best.sentence, [first, second],
              best.pronoun),
        *(Panel(f"Figure 5: {_name(head)}", best.sentence, [head]) for head in most_different(sentences)),
    ]  # fmt: skip


def most_distant(sentences: Sequence[Sentence]) -> tuple[Sentence, int, int]:
    """Returns the sentence, layer and word with the largest weight on words at least `FAR` away, a mean over heads."""

    def to_distant_words(one: Sentence) -> np.ndarray:
        places = np.arange(len(one.words) - 1)
        is_far_QK = np.abs(places[:, None] - places) >= FAR
        return (one.weights.mean(axis=1)[:, :-1, :-1] * is_far_QK).sum(axis=-1)

    found = max(sentences, key=lambda one: to_distant_words(one).max(initial=0))
    weights_LQ = to_distant_words(found)
    layer, query = np.unravel_index(weights_LQ.argmax(), weights_LQ.shape)
    return found, int(layer), int(query)


def pronoun_and_noun(words: Sequence[str]) -> tuple[int, int] | None:
    """Returns the indices of the first pronoun and its noun; None if there is no pronoun, or not exactly one noun."""
    plain = [word.lower().strip(".,;:!?") for word in words]
    for place, word in enumerate(plain):
        if word in NOUNS:
            before = [n for n in range(place) if any(plain[n] in nouns for nouns in NOUNS.values())]
            return (place, before[0]) if len(before) == 1 and plain[before[0]] in NOUNS[word] else None
    return None


def pronoun_heads(examples: Sequence[Example]) -> list[Head]:
    """Returns the two heads with the largest mean weight from pronoun to noun, the largest first."""
    weights_LH = np.mean([_to_noun(one) for one in examples], axis=0)
    order = np.argsort(-weights_LH, axis=None, kind="stable")[:2]
    return [(int(layer), int(head)) for layer, head in zip(*np.unravel_index(order, weights_LH.shape), strict=True)]


def most_different(sentences: Sequence[Sentence]) -> tuple[Head, Head]:
    """Returns the two heads with the largest mean total variation distance between their attention distributions."""
    layers, heads, *_ = sentences[0].weights.shape
    distances_AA = np.zeros((layers * heads,) * 2)
    for one in sentences:
        weights_AWW = one.weights.reshape(-1, *one.weights.shape[2:])
        for number, weights_WW in enumerate(weights_AWW):
            distances_AA[number] += np.abs(weights_AWW - weights_WW).sum(axis=-1).mean(axis=-1) / 2
    first, second = np.unravel_index(distances_AA.argmax(), distances_AA.shape)
    return divmod(int(first), heads), divmod(int(second), heads)


def pronoun_table(examples: Sequence[Example], most: int = 6) -> list[str]:
    """Returns the lines of a Markdown table: the mean weights on the nouns, of the heads with the largest."""
    weights_LH = np.mean([_to_noun(one) for one in examples], axis=0)
    others_LH = np.concatenate([_to_noun_from_others(one) for one in examples], axis=-1).mean(axis=-1)
    chance = np.mean([1 / len(one.sentence.words) for one in examples])
    order = np.argsort(-weights_LH, axis=None, kind="stable")[:most]
    rows = [divmod(int(number), weights_LH.shape[1]) for number in order]
    return [
        f"| mean weight on the noun, {len(examples)} sentences | from the pronoun | from other words after the noun |",
        "|---|---|---|",
        *(f"| {_name(head)} | {weights_LH[head]:.3f} | {others_LH[head]:.3f} |" for head in rows),
        f"| 1 / (number of words) | {chance:.3f} | {chance:.3f} |",
    ]


def _to_noun(one: Example) -> np.ndarray:
    """Returns the weights of the heads, (L, H), from the pronoun to the noun."""
    return one.sentence.weights[:, :, one.pronoun, one.noun]


def _to_noun_from_others(one: Example) -> np.ndarray:
    """Returns the weights of the heads, (L, H, words), from each other word after the noun to the noun."""
    others = [place for place in range(one.noun + 1, len(one.sentence.words) - 1) if place != one.pronoun]
    return one.sentence.weights[:, :, others, one.noun]


def _name(head: Head) -> str:
    layer, number = head
    return f"layer {layer + 1}, head {number + 1}"
