"""Multi30k: descriptions of photographs in English, German and French; 29,000 training pairs.

One instance:
    inputs   A man in a yellow jacket is walking two dogs along a snowy path.
    targets  Ein Mann in einer gelben Jacke geht mit zwei Hunden einen verschneiten Weg entlang.

Raw text, neither lower-cased nor tokenised: train 29,000 pairs, val 1,014, test_2016_flickr 1,000.
Source: Elliott, Frank, Sima'an and Specia 2016, "Multi30K: Multilingual English-German Image Descriptions"; French by
Elliott, Frank, Barrault, Bougares and Specia 2017; task 1, raw, of https://github.com/multi30k/dataset.
Licence: for non-commercial research and education, as for the descriptions of Flickr30k.
"""

from t2t.problems.translation import TranslationFiles
from t2t.registry import register_problem
from t2t.specs.constants import DEV, TEST, TRAIN

_FILE_STEMS = {TRAIN: "train", DEV: "val", TEST: "test_2016_flickr"}


def _files(source: str, target: str) -> dict[str, tuple[str, str]]:
    return {split: (f"{stem}.{source}.gz", f"{stem}.{target}.gz") for split, stem in _FILE_STEMS.items()}


class Multi30k(TranslationFiles):
    """Base class of the language pairs of Multi30k."""

    home = "https://github.com/multi30k/dataset (data/task1/raw)"
    vocab_size = 8000
    """Measured on the English and German training text: of 8,000 pieces, one in seven occurs less than ten times; of
    16,000, two in three, and these shorten the text by no more than 6 %."""


@register_problem
class TranslateEndeMulti30k(Multi30k):
    """Descriptions of photographs, English to German (Multi30k, 29,000 pairs)."""

    source_language, target_language = "en", "de"
    split_files = _files("en", "de")


@register_problem
class TranslateEnfrMulti30k(Multi30k):
    """Descriptions of photographs, English to French (Multi30k, 29,000 pairs)."""

    source_language, target_language = "en", "fr"
    split_files = _files("en", "fr")
