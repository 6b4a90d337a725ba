"""Filter of texts in another language than they should be in, as the package py3langid identifies it.

Lui and Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool": naive Bayes over byte n-grams, 97
languages. The package has its model with it.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from t2t.errors import UserError, did_you_mean, needs_extra
from t2t.problems.filters.sample_filter import SampleFilter

_FLAGS = {"inputs": "source_language", "targets": "target_language"}


def language_filters(languages: Mapping[str, str]) -> Iterator[SampleFilter]:
    """Yields a filter of each feature whose language is known.

    Args:
        languages: code of the language that each feature should be in, empty where it is not known.

    Raises:
        UserError: the package is not installed, no language is known, or it is one that cannot be identified.
    """
