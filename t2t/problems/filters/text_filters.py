"""The filters that the options of a text problem ask for."""

from collections.abc import Iterator, Mapping, Sequence

from t2t.errors import UserError
from t2t.problems.filters.duplicates import DuplicateKey
from t2t.problems.filters.language import language_filters
from t2t.problems.filters.length import length_filters
from t2t.problems.filters.options import PAIR, SOURCE, TARGET, FilterOptions
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.specs.constants import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec

_FEATURES = {SOURCE: INPUTS, TARGET: TARGETS}
_REASONS = {PAIR: "duplicates", SOURCE: "with a duplicate source", TARGET: "with a duplicate target"}
_COMPARABLE = (FeatureKind.TOKENS, FeatureKind.LABEL)


def text_filters(
    options: FilterOptions, features: Sequence[str], languages: Mapping[str, str]
) -> Iterator[SampleFilter]:
    """Yields the filters of texts, cheap ones first.

    Args:
        options: of the problem.
        features: names of the features that are text.
        languages: code of the language of each, empty if it is not known.

    Raises:
        UserError: an option does not fit the problem, or a package is not installed.
    """
    yield from length_filters(options, features)
    if options.filter_language:
        yield from language_filters(options, {name: languages[name] for name in features})


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
                f"--filter_duplicates={compared}: {name} of this problem are "
                f"{'nothing' if kind is None else f'of kind {kind.value}'}, and only texts and classes are compared; "
                f"{_advise(compared, features)}"
            )
    return DuplicateKey(_REASONS[compared], names)


def _advise(compared: str, features: Mapping[str, FeatureSpec]) -> str:
    others = [
        option
        for option, name in _FEATURES.items()
        if option != compared and name in features and features[name].kind in _COMPARABLE
    ]
    return f"give --filter_duplicates={others[0]}" if others else "leave it out"
