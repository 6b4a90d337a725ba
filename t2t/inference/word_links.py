"""Links between words, from attention weights between tokens.

Legend: T target length, S source length, V words of the output, W words of the input.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from t2t.files.pharaoh import Links
from t2t.specs.constants import EOS_ID


def word_numbers(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> np.ndarray:
    """Returns the number of the word that each token is part of, from 0: the word in which the text up to it ends.

    Args:
        decode: ids to text.
        ids: of a text; end of sequence and what follows it are part of no word.

    Returns:
        (tokens of words,) int; empty for a text without words.
    """
    tokens = list(itertools.takewhile(lambda token: token != EOS_ID, ids))
    counts = np.array([len(decode(tokens[:end]).split()) for end in range(1, len(tokens) + 1)], int)
    if not counts.size or not counts[-1]:
        return np.zeros(0, int)
    # The first bytes of a space may look like a word, until the last of them.
    counts = np.minimum.accumulate(counts[::-1])[::-1]
    return np.maximum(counts, 1) - 1  # a token before the first word belongs to it


def word_links(weights_TS: np.ndarray, source_words: np.ndarray, target_words: np.ndarray) -> Links:
    """Links each word of an output to the word of its input with the largest sum of weights; ties: the earlier one.

    Args:
        weights_TS: how much each token of the output looks at each token of the input; both may have further tokens.
        source_words: the word of each token of the input, see `word_numbers`.
        target_words: the word of each token of the output.
    """
    if not source_words.size or not target_words.size:
        return ()
    weights_VW = np.zeros((target_words[-1] + 1, source_words[-1] + 1))
    np.add.at(weights_VW, (target_words[:, None], source_words), weights_TS[: len(target_words), : len(source_words)])
    return tuple(sorted((int(source), target) for target, source in enumerate(weights_VW.argmax(axis=1))))


def replace_words(text: str, source: str, links: Links, dictionary: Mapping[str, str]) -> str:
    """Replaces the linked words of an output by the translations of their source words, or else by these words.

    Args:
        text: the output.
        source: the input.
        links: those of the words to replace.
        dictionary: word of the input to its translation.
    """
    words, source_words = text.split(), source.split()
    for source_place, target_place in links:
        word = source_words[source_place]
        words[target_place] = dictionary.get(word, word)
    return " ".join(words)
