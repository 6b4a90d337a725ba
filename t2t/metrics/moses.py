"""BLEU of text that Moses has tokenised: what papers printed before sacreBLEU, among them *Attention Is All You Need*.

Such scores are not comparable with sacreBLEU's, nor with each other where the tokenisation differs; they exist to be
compared with those papers. Moses: Koehn et al. 2007; its tokenizer here is sacremoses.
"""

import dataclasses
import importlib.metadata
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from t2t.errors import UnknownNameError, did_you_mean
from t2t.metrics.base import Score
from t2t.metrics.text import bleu

COMPOUND_LANGUAGES = ("de",)
"""Languages whose published scores split compounds."""

_HYPHEN = re.compile(r"(\S)-(\S)")


def moses_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "de", **options: Any) -> Score:
    """Corpus BLEU from 0 to 100 of text tokenised by Moses, in German with compounds split.

    Both sides are given as detokenised text. The steps are those of the script that scored Tensor2Tensor's
    English-German: Unicode punctuation is replaced, the text is tokenised, a hyphen within a word becomes a separate
    token (`rich-text` -> `rich ##AT##-##AT## text`, so that a compound counts as its parts), and BLEU is that of Moses'
    multi-bleu.perl: cased, without smoothing. That script got tokenised references; here they are tokenised, too.

    `language` is the code of both sides' language; options are sacreBLEU's, e.g. `lowercase=True`.

    Raises:
        UserError: no lines, unequal numbers of lines, or a language that Moses does not know.
    """
    tokenize = line_tokenizer(language)
    hypotheses, references = ([*map(tokenize, lines)] for lines in (hypotheses, references))
    score = bleu(hypotheses, references, tokenize="none", smooth_method="none", force=True, **options)
    version = importlib.metadata.version("sacremoses")
    tokenizer = f"moses-{language}{'+compounds' if language in COMPOUND_LANGUAGES else ''}-sacremoses-{version}"
    return dataclasses.replace(
        score, name="moses_bleu", signature=score.signature.replace("tok:none", f"tok:{tokenizer}")
    )


def line_tokenizer(language: str) -> Callable[[str], str]:
    """Returns a function from a line to its tokens, joined by spaces.

    Raises:
        UnknownNameError: Moses has no rules for the language.
    """
    # Imported here, since it takes a third of a second.
    from sacremoses import MosesPunctNormalizer, MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise UnknownNameError(
            f"language {language!r}: Moses has no rules for it; {did_you_mean(language, known)}"
            f"it has {', '.join(known)}"
        )
    replace = MosesPunctNormalizer(language).replace_unicode_punct
    tokenize = partial(MosesTokenizer(language).tokenize, return_str=True)
    if language in COMPOUND_LANGUAGES:
        return lambda line: split_compounds(tokenize(replace(line)))
    return lambda line: tokenize(replace(line))


def split_compounds(line: str) -> str:
    """Returns a tokenised line in which hyphens within words are separate tokens."""
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)
