"""Filters of training samples, which leave samples out of the training split when data is generated.

By a number of each text, registered with `register_filter`; by its language; by a score or weight of each pair or file,
from files next to the corpus; and the key by which two samples count as duplicates. Languages are identified by the
package py3langid (Lui and Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool").
"""

import dataclasses
import functools
import hashlib
import math
import random
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from t2t.errors import UserError, needs_extra
from t2t.hparams.field import param
from t2t.problems.options import ProblemOptions, named_numbers
from t2t.problems.samples import SampleFilter, SampleRecord, Samples
from t2t.registry import FILTERS, register_filter
from t2t.registry.overrides import PluginError, described, shown
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec

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
    filters: str = param(
        "", "Registered filters, those of plug-ins included, with a number each, such as capitals=0.3; see "
        "--registry_help=filter.",
    )  # fmt: skip
    filter_language: bool = param(
        False, "Drops training examples with a text in another language than --source_language and --target_language "
        "(or those of the problem), by py3langid.",
    )  # fmt: skip


# === Which samples are left out ===
EMPTY = "with an empty side"


def drop_reasons(problem: Samples, samples: Sequence[SampleRecord]) -> list[str | None]:
    """Returns why each training sample is left out: an empty text, or the first filter that drops it; else None."""
    filters, features = problem.sample_filters(), tuple(problem.features) or (INPUTS, TARGETS)
    reasons: list[str | None] = []
    for sample in samples:
        if any(_is_empty_text(sample.features.get(name)) for name in features):
            reasons.append(EMPTY)
        elif sample.is_filtered:
            reasons.append(sample.dropped)
        else:
            reasons.append(next((one.reason for one in filters if not one.keeps_record(sample)), None))
    return reasons


def _is_empty_text(value: Any) -> bool:
    return isinstance(value, str) and (not value or value.isspace())


def unfiltered(problem: Samples, samples: Sequence[SampleRecord]) -> Sequence[SampleRecord]:
    """Returns the training samples that no filter drops, including those with an empty text."""
    if not problem.sample_filters():
        return samples
    reasons = drop_reasons(problem, samples)
    return [sample for sample, reason in zip(samples, reasons, strict=True) if reason in (None, EMPTY)]


# === Duplicates ===
DIGEST_BYTES = 16
"""Of 10^10 different samples, two have the same digest with a probability of 1.5 x 10^-19."""


@dataclasses.dataclass(frozen=True)
class DuplicateKey:
    """The features of a sample that are compared."""

    reason: str
    """Why duplicates are dropped, in the form that follows their number in messages."""
    features: tuple[str, ...]
    """Features whose texts, or names of classes, are compared, with each run of white space replaced by a space."""

    def digest(self, sample: Mapping[str, Any]) -> bytes:
        """Returns a digest, `DIGEST_BYTES` long, that is the same only for samples with the same content."""
        texts = (" ".join(str(sample[name]).split()) for name in self.features)
        return hashlib.blake2b("\n".join(texts).encode(), digest_size=DIGEST_BYTES).digest()


_FEATURES = {SOURCE: INPUTS, TARGET: TARGETS}
_REASONS = {PAIR: "duplicates", SOURCE: "with a duplicate source", TARGET: "with a duplicate target"}
_COMPARABLE = (FeatureKind.TOKENS, FeatureKind.LABEL)


def text_duplicate_key(options: FilterOptions, features: Mapping[str, FeatureSpec]) -> DuplicateKey | None:
    """Returns the key by which duplicates among samples are found, None to keep duplicates.

    Raises:
        UserError: a feature to be compared does not exist, or is neither text nor a class.
    """
    if not (compared := options.filter_duplicates):
        return None
    names = tuple(features) if compared == PAIR else (_FEATURES[compared],)
    for name in names:
        kind = features[name].kind if name in features else None
        if kind not in _COMPARABLE:
            raise UserError(
                f"{name} of this problem are {'nothing' if kind is None else f'of kind {kind.value}'}, and only texts "
                "and classes are compared",
                f"{_advise(compared, features)}",
                option="filter_duplicates",
                value=compared,
            )
    return DuplicateKey(_REASONS[compared], names)


def _advise(compared: str, features: Mapping[str, FeatureSpec]) -> str:
    others = [
        option
        for option, name in _FEATURES.items()
        if option != compared and name in features and features[name].kind in _COMPARABLE
    ]
    return f"give --filter_duplicates={others[0]}" if others else "leave it out"


# === Filters by a number ===
_OF_OPTIONS = {
    "min_words": "with fewer than {:,} words", "max_words": "with more than {:,} words",
    "word_length": "with a word of more than {:,} characters", "letters": "with less than {:.3g} letters",
    "length_ratio": "with a length ratio above {:g}",
}  # fmt: skip
"""Registered filters that have an option of their own, `filter_min_words` and so on -> why they drop samples."""


def length_filters(options: FilterOptions, features: Sequence[str]) -> Iterator[SampleFilter]:
    """Yields the registered filters that the options ask for.

    Args:
        options: of the problem.
        features: names of the features that are text.

    Raises:
        UserError: there is no filter of that name, or the ratio filter is set and there are not two texts.
    """
    for name, reason in _OF_OPTIONS.items():
        if value := getattr(options, f"filter_{name}"):
            yield _registered(name, value, reason.format(value), features)
    for name, value in named_numbers("--filters", options.filters).items():
        yield _registered(name, value, f"by the filter {name}={value:g}", features)


def _registered(name: str, value: float, reason: str, features: Sequence[str]) -> SampleFilter:
    if name == "length_ratio" and len(features) != 2:
        raise UserError(
            f"it compares two texts, and an example of this problem has {len(features)} ({', '.join(features)})",
            "leave it out",
            option="filter_length_ratio",
            value=f"{value:g}",
        )
    keeps_texts = FILTERS.get(name)

    def keeps(sample: Mapping[str, Any]) -> bool:
        kept = keeps_texts([text for one in features if isinstance(text := sample[one], str)], value)
        if not isinstance(kept, bool) and type(kept).__name__ not in ("bool", "bool_"):  # those of numpy
            raise PluginError(
                f"{described(keeps_texts)} returned {shown(kept)}",
                "return True for an example to keep, False for others",
            )
        return bool(kept)

    return SampleFilter(reason, keeps)


@register_filter
def min_words(texts: Sequence[str], fewest: float) -> bool:
    """Keeps examples whose texts have so many words or more."""
    return all(len(text.split()) >= fewest for text in texts)


@register_filter
def max_words(texts: Sequence[str], most: float) -> bool:
    """Keeps examples whose texts have so many words at most."""
    return all(len(text.split()) <= most for text in texts)


@register_filter
def word_length(texts: Sequence[str], longest: float) -> bool:
    """Keeps examples whose words have so many characters at most."""
    return all(max(map(len, text.split()), default=0) <= longest for text in texts)


@register_filter
def letters(texts: Sequence[str], least: float) -> bool:
    """Keeps examples of texts with this share of letters or more."""
    return all(share_of_letters(text) >= least for text in texts)


@register_filter
def length_ratio(texts: Sequence[str], most: float) -> bool:
    """Keeps examples of which no side has more than so many times the characters of the other.

    The ratio of characters varies less from pair to pair than that of words (Gale and Church 1993, "A Program for
    Aligning Sentences in Bilingual Corpora"), and works for languages without spaces.
    """
    shorter, longer = sorted(len(text.strip()) for text in texts)
    return longer <= most * shorter


def share_of_letters(text: str) -> float:
    """Returns the share of letters, combining marks included, among the characters that are not white space."""
    characters = "".join(text.split())
    count = sum(map(str.isalpha, characters))
    if not text.isascii():  # vowel signs of Indic scripts, for example
        count += sum(unicodedata.category(character).startswith("M") for character in characters)
    return count / max(len(characters), 1)


# === Languages ===
_SIDES = {INPUTS: "source", TARGETS: "target"}


def language_filters(options: FilterOptions, languages: Mapping[str, str]) -> Iterator[SampleFilter]:
    """Yields a filter for each text with a known language.

    Args:
        options: of the problem.
        languages: by feature, the code of the language that its texts should be in, empty if it is not known; only the
            part before a hyphen counts, e.g. `zh` of `zh-TW`.

    Raises:
        UserError: the package is not installed, no language is known, or one cannot be identified.
    """
    identifier = _load_identifier()
    wanted = {name: code.lower().replace("_", "-").partition("-")[0] for name, code in languages.items() if code}
    if not wanted:
        flags = [f"{_SIDES[name]}_language" for name in languages if hasattr(options, f"{_SIDES[name]}_language")]
        cure = f"name it with --{' and --'.join(flags)}" if flags else "leave it out: no option of the problem names it"
        raise UserError("the language of the texts is not known", cure, option="filter_language")
    for name, code in wanted.items():
        if code not in identifier.labels:
            raise UserError(
                f"{languages[name]!r}, the language of {name}, cannot be identified",
                f"py3langid knows {', '.join(sorted(identifier.labels))}",
                option="filter_language",
            )
        yield _filter_language(identifier, name, code)


def _filter_language(identifier: Any, name: str, code: str) -> SampleFilter:
    def keeps(sample: Mapping[str, Any]) -> bool:
        return not isinstance(text := sample[name], str) or identifier.classify(text)[0] == code

    return SampleFilter(f"with a {_SIDES[name]} in another language than {code}", keeps)


@functools.cache
def _load_identifier() -> Any:
    with needs_extra("language", "--filter_language"):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    return LanguageIdentifier.from_model_file(MODEL_FILE)


# === Scores and weights ===
_SHOWN = 40
"""Characters of a wrong value that a message shows."""


def parse_score(line: str, column: int, where: str) -> float:
    """Returns the score on a line.

    Args:
        line: of a file, with columns separated by TABs.
        column: number of the column of the score, from 1.
        where: file and line, for the beginning of error messages.

    Raises:
        UserError: there is no such column, or it is not a finite number.
    """
    cells = line.split("\t", column)
    if len(cells) < column:
        raise UserError(
            f"{where}, has {len(cells)} column{'s' * (len(cells) != 1)} and the score is expected in column {column}",
            "correct the file or --train_score_column",
        )
    try:
        score = float(cells[column - 1])
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UserError(
            f"{where}, has {cells[column - 1][:_SHOWN]!r} where a score is expected, a finite number",
            "correct the file or --train_score_column",
        )
    return score


def score_filter(least: float) -> SampleFilter:
    """Returns the filter of samples whose score is below a threshold."""
    return SampleFilter(f"with a score below {least:g}", lambda sample: sample.score >= least, by_record=True)


BY_WEIGHT = SampleFilter("not taken by weight", lambda sample: sample.copies > 0, by_record=True)
"""Drops samples with 0 copies."""


def parse_weights(text: str, files: Sequence[str]) -> list[float]:
    """Parses comma-separated weights, one for each file.

    Raises:
        UserError: a weight is not a positive number, or the number of weights is not that of the files.
    """
    asked = f"--train_weights={text}: "
    weights = []
    for part in text.split(","):
        try:
            weights.append(float(part))
        except ValueError:
            weights.append(math.nan)
        if not (math.isfinite(weights[-1]) and weights[-1] > 0):
            raise UserError(f"{asked}{part.strip()!r} is not a number above 0", "correct it")
    if len(weights) != len(files):
        raise UserError(
            f"{asked}{len(weights)} weight{'s' * (len(weights) != 1)} for {len(files)} training "
            f"file{'s' * (len(files) != 1)} ({', '.join(files)})",
            "give one for each",
        )
    return weights


def draw_copies(weight: float, rng: random.Random) -> int:
    """Draws the number of copies of a sample: `weight` on average, rounded down or up at random."""
    return math.floor(weight + rng.random())
