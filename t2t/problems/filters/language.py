"""Filter that drops texts in a wrong language, identified by the package py3langid.

Lui and Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool": naive Bayes over n-grams of bytes. The
package (BSD-3-Clause) needs only numpy and includes a model of 139 languages.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from t2t.errors import UserError, needs_extra
from t2t.problems.filters.options import FilterOptions
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.specs.constants import INPUTS, TARGETS

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
        cure = (
            f"; name it with --{' and --'.join(flags)}" if flags else ", and no option names it; leave the filter out"
        )
        raise UserError(f"--filter_language: the language of the texts is not known{cure}")
    for name, code in wanted.items():
        if code not in identifier.labels:
            raise UserError(
                f"--filter_language: {languages[name]!r}, the language of {name}, cannot be identified; py3langid "
                f"knows {', '.join(sorted(identifier.labels))}"
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
