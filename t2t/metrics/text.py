"""Metrics of decoded text: BLEU, chrF, chrF++ and TER by sacreBLEU, exact match; of single lines; error rates.

sacreBLEU: Post 2018 (arXiv:1804.08771). Texts are given detokenised; metrics tokenise them if needed.
"""

import dataclasses
import functools
import importlib.metadata
import inspect
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rapidfuzz.distance import Levenshtein
from sacrebleu import SACREBLEU_DIR
from sacrebleu.metrics import BLEU, CHRF, TER

from t2t.errors import UnknownNameError, UserError, did_you_mean, one_line
from t2t.files.atomic import os_errors_as_machine_errors
from t2t.metrics.base import Score, check_lines, lower_is_better
from t2t.registry import register_metric

# === How BLEU splits the text of a language into words: sacreBLEU's tokenizers ===
# Languages without spaces between words need their own tokenizer: the usual one (13a) takes a line for a word or two,
# so that a nearly right line scores 0.


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


# === Of a corpus ===


SACREBLEU_METRICS: dict[str, type] = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
"""sacreBLEU's classes by our names."""

_CHOICES = {"tokenize": BLEU.TOKENIZERS, "smooth_method": BLEU.SMOOTH_DEFAULTS}


@register_metric("bleu")
def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "",
    more_references: Sequence[Sequence[str]] = (),
    **options: Any,
) -> Score:
    """Corpus BLEU of detokenised text, from 0 to 100: Papineni et al. 2002, as sacreBLEU computes it.

    `language`, the code of both sides' language, chooses the tokenizer, see `bleu_tokenizer`. Options are sacreBLEU's,
    e.g. `tokenize="intl"`, `lowercase=True`; by default the language's tokenizer, cased. `more_references` holds lists
    of further references.

    Raises:
        UserError: no lines, unequal numbers of lines, or an option or value that sacreBLEU does not know.
        MachineError: the model of a tokenizer such as `flores200`, which sacreBLEU downloads, cannot be had.
    """
    options = {"tokenize": bleu_tokenizer(language), **options}
    scored, signature = _sacrebleu("bleu", BLEU, hypotheses, (references, *more_references), options)
    detail = {
        "precisions": list(scored.precisions),
        "brevity_penalty": scored.bp,
        "hypothesis_tokens": scored.sys_len,
        "reference_tokens": scored.ref_len,
    }
    return Score("bleu", scored.score, signature, detail=detail, text=str(scored))


@register_metric("chrf")
def chrf(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = (), **options: Any
) -> Score:
    """Character n-gram F-score, from 0 to 100: Popovic 2015, as sacreBLEU computes it.

    Arguments and errors are those of `bleu`, except for the language; `word_order=2` gives chrF++.
    """
    scored, signature = _sacrebleu("chrf", CHRF, hypotheses, (references, *more_references), options)
    return Score("chrf", scored.score, signature, text=str(scored))


@register_metric("chrf_plus_plus")
def chrf_plus_plus(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = (), **options: Any
) -> Score:
    """chrF++, from 0 to 100: chrF that counts words and pairs of words, too (Popovic 2017), as sacreBLEU computes it.

    Arguments and errors are those of `chrf`.
    """
    score = chrf(hypotheses, references, more_references, **{"word_order": 2, **options})
    return dataclasses.replace(score, name="chrf_plus_plus")


@register_metric("ter")
@lower_is_better
def ter(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = (), **options: Any
) -> Score:
    """Translation edit rate in percent, 0 or more: Snover et al. 2006, as sacreBLEU computes it.

    Words put in, left out, replaced or moved with their neighbours, as a percentage of the references' words. Options
    are sacreBLEU's, e.g. `normalized=True`, `case_sensitive=True`; errors are those of `bleu`.
    """
    scored, signature = _sacrebleu("ter", TER, hypotheses, (references, *more_references), options)
    detail = {"edits": scored.num_edits, "reference_length": scored.ref_length}
    return Score("ter", scored.score, signature, higher_is_better=False, detail=detail, text=str(scored))


@register_metric("accuracy_per_sequence")
def accuracy_per_sequence(
    hypotheses: Sequence[str], references: Sequence[str], more_references: Sequence[Sequence[str]] = ()
) -> Score:
    """Fraction of lines, from 0 to 1, that equal their reference, or one of them, character for character."""
    for lines in (references, *more_references):
        check_lines("accuracy_per_sequence", hypotheses, lines)
    equal = sum(line in right for line, *right in zip(hypotheses, references, *more_references, strict=True))
    detail = {"equal": equal, "lines": len(references)}
    return Score("accuracy_per_sequence", equal / len(references), detail=detail)


def _check_options(name: str, metric_class: type, options: dict[str, Any]) -> None:
    """Raises UnknownNameError for an option or value that sacreBLEU does not know; its own errors are unclear."""
    known = [option for option in inspect.signature(metric_class).parameters if option != "references"]
    for option, value in options.items():
        if option not in known:
            raise _unknown(f"option {option!r} of {name}", option, known)
        choices = sorted(_CHOICES.get(option, ()))
        if choices and value is not None and value not in choices:
            raise _unknown(f"{option} {value!r} of {name}", str(value), choices)


def _unknown(asked: str, name: str, known: list[str]) -> UnknownNameError:
    return UnknownNameError(
        f"{asked}: sacreBLEU has no metric of that name", f"{did_you_mean(name, known)}it has {', '.join(known)}"
    )


def _sacrebleu(
    name: str,
    metric_class: type,
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    options: dict[str, Any],
) -> tuple[Any, str]:
    """Returns sacreBLEU's score object and signature; `references` are one or several sides."""
    for lines in references:
        check_lines(name, hypotheses, lines)
    metric = sacrebleu_metric(name, metric_class, options)
    scored = metric.corpus_score(list(hypotheses), [list(lines) for lines in references])
    return scored, str(metric.get_signature())


def sacrebleu_metric(name: str, metric_class: type, options: dict[str, Any]) -> Any:
    """Returns an object of one of sacreBLEU's classes.

    Raises:
        UserError: an option or value that it refuses.
        MachineError: the model of a tokenizer cannot be downloaded or read.
    """
    _check_options(name, metric_class, options)
    asked = ", ".join([name, *(f"{option}={value}" for option, value in options.items())])
    try:
        with os_errors_as_machine_errors(
            f"{asked}: the tokenizer needs a model, which sacreBLEU downloads once to {SACREBLEU_DIR}/models"
        ):
            return metric_class(**options)
    except (AssertionError, ImportError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{asked}: sacreBLEU cannot compute it: {one_line(error)}", "give other options") from error


# === GLEU, which is a fair score of single sentences: Wu et al. 2016 (arXiv:1609.08144), section 5.2 ===


LONGEST = 4
"""Words of the longest n-grams."""


@register_metric("gleu")
def gleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> Score:
    """GLEU of sentences: the smaller of recall and precision of their n-grams, mean over lines, from 0 to 1.

    `language` chooses how lines are split into words, see `bleu_tokenizer`.
    """
    check_lines("gleu", hypotheses, references)
    split = _tokenizer(language)
    pairs = zip(hypotheses, references, strict=True)
    total = sum(sentence_gleu(*(split(line.rstrip()).split() for line in pair)) for pair in pairs)
    return Score("gleu", total / len(references), f"tok:{bleu_tokenizer(language)}")


def sentence_gleu(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """Returns the GLEU of a sentence of words: equal n-grams of 1 to 4 words / those of the side that has more.

    An empty hypothesis for an empty reference has 1.
    """
    ours, theirs = (
        Counter(tuple(words[first : first + n]) for n in range(1, LONGEST + 1) for first in range(len(words) - n + 1))
        for words in (hypothesis, reference)
    )
    most = max(ours.total(), theirs.total())
    return (ours & theirs).total() / most if most else 1.0


@functools.cache
def _tokenizer(language: str) -> Callable[[str], str]:
    return BLEU(tokenize=bleu_tokenizer(language)).tokenizer


# === BLEU of single sentences: how near each of several outputs is to a reference ===


@register_metric("sentence_bleu")
def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str = "") -> Score:
    """Smoothed BLEU of sentences, mean over lines, from 0 to 100; see `SentenceBleu`."""
    check_lines("sentence_bleu", hypotheses, references)
    bleu = SentenceBleu(language)
    total = sum(bleu.score(*pair) for pair in zip(hypotheses, references, strict=True))
    return Score("sentence_bleu", total / len(references), bleu.signature)


class SentenceBleu:
    """Smoothed BLEU of one sentence, from 0 to 100, as sacreBLEU computes it (Post 2018, arXiv:1804.08771).

    It has exponential smoothing; for a sentence of fewer than four words, n-grams are at most as long as the sentence
    (`effective_order`).

    Args:
        language: of the texts, chooses the tokenizer, see `bleu_tokenizer`.
    """

    def __init__(self, language: str = ""):
        self._bleu = BLEU(tokenize=bleu_tokenizer(language), effective_order=True)

    def score(self, hypothesis: str, reference: str) -> float:
        """Returns the BLEU of a sentence."""
        return self._bleu.sentence_score(hypothesis, [reference]).score

    @property
    def signature(self) -> str:
        """How scores are computed, in sacreBLEU's notation."""
        return str(self._bleu.get_signature())

    def nearest(self, hypotheses: Sequence[str], reference: str) -> int:
        """Returns the index of the hypothesis with the highest BLEU; ties: the first."""
        return max(range(len(hypotheses)), key=lambda k: (self.score(hypotheses[k], reference), -k))


# === Error rates of speech recognition: words or characters to be changed, by the distance of Levenshtein 1966 ===


@register_metric("wer")
@lower_is_better
def word_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Words put in, left out or replaced, over all lines, as a fraction of the references' words; may be above 1."""
    return _error_rate("wer", [line.split() for line in hypotheses], [line.split() for line in references])


@register_metric("cer")
@lower_is_better
def character_error_rate(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Characters put in, left out or replaced, over all lines, as a fraction of the references' characters."""
    return _error_rate("cer", hypotheses, references)


def _error_rate(name: str, hypotheses: Sequence[Sequence], references: Sequence[Sequence]) -> Score:
    check_lines(name, hypotheses, references)
    edits = sum(map(Levenshtein.distance, hypotheses, references))
    length = sum(map(len, references))
    detail = {"edits": edits, "reference_length": length}
    return Score(name, edits / max(1, length), higher_is_better=False, detail=detail)


# === BLEU of text that Moses has tokenised: what papers printed before sacreBLEU ===
# Such scores are not comparable with sacreBLEU's, nor with each other where the tokenisation differs; they exist to be
# compared with those papers, among them *Attention Is All You Need*. Moses: Koehn et al. 2007; its tokenizer here is
# sacremoses.


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
            f"language {language!r}: Moses has no rules for it",
            f"{did_you_mean(language, known)}it has {', '.join(known)}",
        )
    replace = MosesPunctNormalizer(language).replace_unicode_punct
    tokenize = functools.partial(MosesTokenizer(language).tokenize, return_str=True)
    if language in COMPOUND_LANGUAGES:
        return lambda line: split_compounds(tokenize(replace(line)))
    return lambda line: tokenize(replace(line))


def split_compounds(line: str) -> str:
    """Returns a tokenised line in which hyphens within words are separate tokens."""
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", line)
