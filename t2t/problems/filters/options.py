"""The options of every text problem that filter training examples."""

import dataclasses

from t2t.hparams.field import param
from t2t.problems.options import ProblemOptions

PAIR, SOURCE, TARGET = "pair", "source", "target"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilterOptions(ProblemOptions):
    """Filters of training examples; each is off by default. Dev and test splits are never filtered."""

    filter_duplicates: str = param(
        "", "Drops training examples that repeat an earlier one: in all of their text (pair), or only in the source or "
        "the target. Earlier ones count even if they are longer than max_length, which is checked later; drop long "
        "ones first with --filter_max_words.", choices=("", PAIR, SOURCE, TARGET),
    )  # fmt: skip
    filter_length_ratio: float = param(
        0.0, "Drops training pairs of which one side has more than so many times the characters of the other; 0 for "
        "never.", minimum=0.0,
    )  # fmt: skip
    filter_min_words: int = param(
        0, "Drops training examples with a text of fewer words, separated by white space.", minimum=0
    )
    filter_max_words: int = param(0, "Drops training examples with a text of more words; 0 for never.", minimum=0)
    filter_word_length: int = param(
        0, "Drops training examples with a word of more characters; 0 for never.", minimum=0
    )
    filter_letters: float = param(
        0.0, "Drops training examples with a text that has a smaller share of letters among its characters, not "
        "counting white space; 0 for never.", minimum=0.0, maximum=1.0,
    )  # fmt: skip
    filter_language: bool = param(
        False, "Drops training examples with a text in another language than --source_language and --target_language "
        "(or those of the problem), by py3langid.",
    )  # fmt: skip
