"""Filters by the length of texts and of their words, and by the share of letters.

The lengths of two sides are compared in characters: this ratio varies less from pair to pair than that of words (Gale
and Church 1993, "A Program for Aligning Sentences in Bilingual Corpora"), and works for languages without spaces.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from t2t.errors import UserError
from t2t.problems.filters.options import FilterOptions
from t2t.problems.filters.sample_filter import SampleFilter


def length_filters(options: FilterOptions, features: Sequence[str]) -> Iterator[SampleFilter]:
    """Yields the filters that the options ask for.

    Args:
        options: of the problem.
        features: names of the features that are text; a sample is dropped if any of them fails.

    Raises:
        UserError: the ratio filter is set and there are not two texts.
    """
    if fewest := options.filter_min_words:
        yield _filter_texts(f"with fewer than {fewest:,} words", features, lambda text: len(text.split()) >= fewest)
    if most := options.filter_max_words:
        yield _filter_texts(f"with more than {most:,} words", features, lambda text: len(text.split()) <= most)
    if longest := options.filter_word_length:
        reason = f"with a word of more than {longest:,} characters"
        yield _filter_texts(reason, features, lambda text: max(map(len, text.split()), default=0) <= longest)
    if least := options.filter_letters:
        yield _filter_texts(
            f"with less than {least:.3g} letters", features, lambda text: share_of_letters(text) >= least
        )
    if options.filter_length_ratio:
        yield _filter_ratio(options.filter_length_ratio, features)


def _filter_texts(reason: str, features: Sequence[str], keeps_text: Callable[[str], bool]) -> SampleFilter:
    def keeps(sample: Mapping[str, Any]) -> bool:
        return all(keeps_text(text) for name in features if isinstance(text := sample[name], str))

    return SampleFilter(reason, keeps)


def _filter_ratio(most: float, features: Sequence[str]) -> SampleFilter:
    if len(features) != 2:
        raise UserError(
            f"--filter_length_ratio={most:g}: it compares two texts, and an example of this problem has "
            f"{len(features)} ({', '.join(features)}); leave it out"
        )

    def keeps(sample: Mapping[str, Any]) -> bool:
        shorter, longer = sorted(len(sample[name].strip()) for name in features)
        return longer <= most * shorter

    return SampleFilter(f"with a length ratio above {most:g}", keeps)


def share_of_letters(text: str) -> float:
    """Returns the share of letters, combining marks included, among the characters that are not white space."""
    characters = "".join(text.split())
    letters = sum(map(str.isalpha, characters))
    if not text.isascii():  # vowel signs of Indic scripts, for example
        letters += sum(unicodedata.category(character).startswith("M") for character in characters)
    return letters / max(len(characters), 1)
