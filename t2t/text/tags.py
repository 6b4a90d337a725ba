"""Language tags: a piece such as `<2de>` in front of an input names the language of the output.

Johnson et al. 2017 (arXiv:1611.04558), section 3: one model translates between many languages, and writes the one whose
tag it reads, also for pairs of languages that it was never trained on.
"""

import re

from t2t.errors import UserError
from t2t.text.encoder import TextEncoder

_LANGUAGE = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_TAG = re.compile(f"<2({_LANGUAGE})>")


def tag_of(language: str) -> str:
    """Returns the tag of a language: `<2de>` for `de`."""
    return f"<2{language}>"


def parse_languages(text: str) -> list[str]:
    """Returns the languages of a list such as `en,de`; raises UserError for anything else."""
    languages = [language.strip() for language in text.split(",")]
    if not all(re.fullmatch(_LANGUAGE, language) for language in languages) or len(set(languages)) < len(languages):
        raise UserError(
            "it is not a list of codes of languages, each once",
            "write such as en,de,fr",
            option="language_tags",
            value=text,
        )
    return languages


def tagged_languages(encoder: TextEncoder) -> dict[str, int]:
    """Returns language -> id of its tag, for all tags that are pieces of a vocabulary."""
    pieces = ((token_id, _TAG.fullmatch(encoder.piece(token_id))) for token_id in range(encoder.vocab_size))
    return {match[1]: token_id for token_id, match in pieces if match}


def find_tag(encoder: TextEncoder, language: str, asked: str) -> int:
    """Returns the id of the tag of a language.

    Raises:
        UserError: the vocabulary has no such tag; `asked` begins the message and says what the tag is for.
    """
    known = tagged_languages(encoder)
    if language not in known:
        has = f"it has {', '.join(map(tag_of, known))}" if known else "it has none"
        raise UserError(
            f"{asked}: the vocabulary, of kind {encoder.kind}, has no tag {tag_of(language)}; {has}",
            f"name a language with a tag, or learn the vocabulary with --language_tags that include {language}",
        )
    return known[language]
