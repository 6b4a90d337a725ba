"""Links between words, from attention weights between tokens; dictionaries, to replace unknown words by.

Legend: T target length, S source length, V words of the output, W words of the input.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from t2t.errors import UserError
from t2t.files.lines import LineSource, split_columns
from t2t.files.pharaoh import Links
from t2t.specs.constants import EOS_ID
from t2t.text.encoder import TextEncoder


def word_numbers(encoder: TextEncoder, ids: Iterable[int], join: Callable[[str], str] = str) -> np.ndarray:
    """Returns the index, from 0, of the word that each token is part of: the last word of the text up to the token.

    A token that is part of a character belongs to the word of the whole character, white space to the word before it.

    Args:
        encoder: of the ids.
        ids: of a text; end of sequence and later ids are ignored.
        join: converts the decoded text to the text whose words are counted.

    Returns:
        (tokens of words,) int; empty for a text without words.
    """
    tokens = list(itertools.takewhile(lambda token: token != EOS_ID, ids))
    texts = ["", *(encoder.certain_text(tokens[:end]) for end in range(1, len(tokens))), encoder.decode(tokens)]
    numbers = np.zeros(len(tokens), int)
    words = len(join(texts[-1]).split())
    for place in reversed(range(len(tokens))):
        if len(texts[place + 1]) > len(texts[place]):
            words = len(join(texts[place + 1]).split())
        numbers[place] = max(words - 1, 0)
    return numbers if join(texts[-1]).split() else numbers[:0]


def word_numbers_in(text: str, encoder: TextEncoder, ids: Iterable[int]) -> np.ndarray:
    """Returns the index of the word of a text that each of its ids is part of, as `word_numbers` of the ids.

    Normalization may make several words of one (of `l´homme`) or none, so words of the decoded ids are counted for each
    word of the text.
    """
    numbers, words = word_numbers(encoder, ids), text.split()
    counts = [len(encoder.decode(encoder.encode(word)).split()) for word in words]
    owners = np.repeat(np.arange(len(words)), counts)
    return owners[np.minimum(numbers, len(owners) - 1)] if len(owners) else numbers[:0]


def word_links(weights_TS: np.ndarray, source_words: np.ndarray, target_words: np.ndarray) -> Links:
    """Links each word of an output to the word of its input with the largest sum of weights; ties: the earlier one.

    Args:
        weights_TS: attention of each token of the output to each token of the input; both may have further tokens.
        source_words: the word of each token of the input, see `word_numbers`.
        target_words: the word of each token of the output.
    """
    if not source_words.size or not target_words.size:
        return ()
    weights_VW = np.zeros((target_words[-1] + 1, source_words[-1] + 1))
    np.add.at(weights_VW, (target_words[:, None], source_words), weights_TS[: len(target_words), : len(source_words)])
    return tuple(sorted((int(source), target) for target, source in enumerate(weights_VW.argmax(axis=1))))


def replace_words(text: str, source: str, links: Links, dictionary: Mapping[str, str]) -> list[str]:
    """Returns the words of an output; linked ones are replaced by the translation of their source word.

    A translation may have several words, or none. A source word that the dictionary lacks is copied.

    Args:
        text: the output.
        source: the input.
        links: those of the words to replace.
        dictionary: word of the input -> its translation.
    """
    words, source_words = text.split(), source.split()
    for source_place, target_place in links:
        word = source_words[source_place]
        words[target_place] = dictionary.get(word, word)
    return words


def renumber_links(links: Links, words: Sequence[str]) -> Links:
    """Converts links to words of an output to links to words of the text that `replace_words` made of it."""
    starts = list(itertools.accumulate((len(word.split()) for word in words), initial=0))
    return tuple(
        sorted((source, place) for source, target in links for place in range(starts[target], starts[target + 1]))
    )


DICTIONARY_COLUMNS = ("word", "translation")


def read_dictionary(path: str) -> dict[str, str]:
    """Reads a file of words and translations, plain or gzip; if a word occurs twice, its first line counts.

    Raises:
        UserError: there is no such file, a line has other columns, or an entry is not for a single word.
    """
    source = LineSource(path)
    found: dict[str, str] = {}
    for number, line in enumerate(source.lines(Counter()), start=1):
        word, translation = split_columns(line, DICTIONARY_COLUMNS, str(source), number)
        if word.split() != [word]:
            raise UserError(
                f"{source}: line {number:,} begins with {word[:40]!r}; its first column is one word, without white "
                f"space; correct the file"
            )
        found.setdefault(word, translation)
    return found
