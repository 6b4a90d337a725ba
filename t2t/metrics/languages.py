"""How BLEU splits the text of a language into words: sacreBLEU's tokenizers by language.

Languages without spaces between words need their own tokenizer: the usual one (13a) takes a line for a word or two, so
that a nearly right line scores 0.
"""

import functools
import logging
import re

from sacrebleu.metrics import BLEU

log = logging.getLogger("t2t")

_USUAL = BLEU.TOKENIZER_DEFAULT
_TOKENIZERS = {
    "zh": ("zh", "zho", "cmn", "yue", "chinese"),
    "ja-mecab": ("ja", "jpn", "japanese"),
    "ko-mecab": ("ko", "kor", "korean"),
    "char": ("th", "tha", "thai", "km", "khm", "khmer", "lo", "lao", "my", "mya", "burmese", "bo", "bod", "tibetan"),
}
"""Codes of ISO 639 and English names, by the tokenizer of the language."""
_BY_LANGUAGE = {language: tokenizer for tokenizer, languages in _TOKENIZERS.items() for language in languages}
_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}
"""The package that a tokenizer needs."""


def bleu_tokenizer(language: str) -> str:
    """Returns the name of sacreBLEU's tokenizer for a language: `zh` for `zh`, `char` for `th`, `13a` for most.

    Japanese and Korean are split by MeCab if its package is installed, else by characters; that is logged once and
    shown as `tok:char` in the signature of the score. A region or script may follow the code (`zh-CN`, `zho_Hans`). The
    code is empty if the language is not known.
    """
    tokenizer = _BY_LANGUAGE.get(re.split("[-_]", language.lower())[0], _USUAL)
    return _installed(tokenizer) if tokenizer in _EXTRAS else tokenizer


@functools.cache
def _installed(tokenizer: str) -> str:
    """Returns a tokenizer if its package is installed, else `char`."""
    try:
        BLEU(tokenize=tokenizer)
    except (ImportError, RuntimeError):
        log.warning(
            "BLEU splits by characters (tok:char), since the tokenizer %s is not installed; to compare with published "
            "scores, install %s", tokenizer, _EXTRAS[tokenizer],
        )  # fmt: skip
        return "char"
    return tokenizer
