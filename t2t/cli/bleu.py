"""`t2t-bleu`: scores a file of translations against a file of references, as sacreBLEU does."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from t2t.cli.common import command
from t2t.cli.config import refuse_flags
from t2t.cli.flags import FILES, command_flags, define_usr_dir_flag, flag_group
from t2t.cli.pairs import read_all, read_pairs, read_with_references, split_references, steps_as_they_appear
from t2t.cli.tensor2tensor import BLEU_FLAGS, define_unused_flags
from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.metrics import check_text_metric, compute, reads_inputs
from t2t.metrics.base import Score
from t2t.metrics.paired import paired_bootstrap
from t2t.metrics.text import COMPOUND_LANGUAGES, bleu, bleu_tokenizer, chrf, moses_bleu, ter
from t2t.runs.startup import load_plugins_quietly, quietly

USAGE = """
Prints sacreBLEU's score with its signature. The two files correspond line by line; lines end at \\n only.

    %s --translation=test.decodes --reference=test.de
    %s --translation=test.decodes --reference=test.de --tokenize=intl --lowercase --chrf
    %s --translation=test.decodes --reference=test.de,other.de          (two references)
    %s --translation=test.decodes --reference=test.zh --language=zh     (Chinese tokenizer)
    %s --translations_dir=translations --reference=dev.de --event_dir=events  (a folder)

The BLEU score of a translation varies by points with the tokenization. This prints it for the three common ones, a line
each: sacreBLEU's 13a, its intl, and that of papers before sacreBLEU (Moses; for German with compounds split):

    %s --translation=test.decodes --reference=test.de --all_tokenizations --language=de

--paired compares other translations with --translation by paired bootstrap resampling. For each score it prints the
mean and the 95 % interval over 1,000 samples of the lines, and p, the probability of such a difference by chance; *
marks p below 0.05.

    %s --translation=base.decodes --reference=test.de --paired=big.decodes --chrf --ter
"""

_BLEU_FLAGS = ("tokenize", "smooth_method", "smooth_value", "lowercase", "force")
_CHRF_FLAGS = ("char_order", "word_order", "beta", "whitespace", "lowercase", "eps_smoothing")
_TER_FLAGS = ("normalized", "no_punct", "asian_support", "case_sensitive")
_FOLDER_FLAGS = ("min_steps", "wait_minutes", "event_dir", "tag_suffix")
_SMOOTHED_BY_VALUE = ("floor", "add-k")
_MOST = 100
"""Upper bound of chrF's n-gram orders and beta; published scores use values below ten."""
_LABEL_WIDTH = len("tokenized, compounds split") + 2


@command_flags
def build_flags(values: flags.FlagValues) -> None:
    """Defines the flags; metric options keep sacreBLEU's names."""
    with flag_group(values, FILES) as define:
        define.string("translation", "", "File of translations, plain or gzip; - for standard input.")
        define.string("reference", "", "File of references, plain or gzip; several with commas.")
        define.string("translations_dir", "", "Scores every file <name>-<step> of this folder, see t2t-translate-all.")
        define.integer("min_steps", 0, "Skips files of checkpoints with fewer updates.", lower_bound=0)
        define.float("wait_minutes", 0.0, "Minutes to wait for another file before ending.", lower_bound=0.0)
        define.string("event_dir", "", "TensorBoard log folder for the BLEU of --translations_dir by step.")
        define.string("tag_suffix", "", "Suffix of the TensorBoard tags BLEU_cased and BLEU_uncased.")
        define.list("paired", [], "Files of other translations, separated by commas, to compare with --translation by "
                    "paired bootstrap resampling.")  # fmt: skip
        define.list("metrics", [], "Names of registered metrics to print too, separated by commas; those of a "
                    "plug-in need --t2t_usr_dir.")  # fmt: skip
        define.string("source", "", "File of inputs, for --metrics that read them.")
    define_usr_dir_flag(values)
    with flag_group(values, "BLEU") as define:
        define.string("tokenize", None, "sacreBLEU's tokenizer: 13a, intl, char, zh, none, ...")
        define.string("smooth_method", None, "Smoothing: exp, floor, add-k or none.")
        define.float("smooth_value", None, "Value of floor and add-k smoothing.", lower_bound=0.0)
        define.boolean("lowercase", None, "Ignores case in BLEU.")
        define.enum("bleu_variant", None, list(VARIANTS), "cased, uncased (as --lowercase), or both.")
        define.boolean("force", None, "Suppresses the warning about tokenized input.")
        define.boolean("all_tokenizations", False, "Prints BLEU three times: with 13a, with intl, and tokenized as in "
                       "papers before sacreBLEU (Moses; for German with compounds split).")  # fmt: skip
        define.string("language", None, "Language code of the files. Selects the tokenizer: zh, ja-mecab, ko-mecab, "
                      "char for Thai, Khmer, Lao, Burmese and Tibetan, 13a for all others. With "
                      "--all_tokenizations also the language of Moses, by default de.")  # fmt: skip
    with flag_group(values, "chrF") as define:
        define.boolean("chrf", False, "Prints chrF too.")
        define.integer("chrf_char_order", None, "Longest character n-gram of chrF.", lower_bound=1, upper_bound=_MOST)
        define.integer("chrf_word_order", None, "Longest word n-gram of chrF; 2 = chrF++.", lower_bound=0,
                       upper_bound=_MOST)  # fmt: skip
        define.integer("chrf_beta", None, "Weight of recall in chrF; 1 = the same as precision.", lower_bound=1,
                       upper_bound=_MOST)  # fmt: skip
        define.boolean("chrf_whitespace", None, "Counts white space in chrF.")
        define.boolean("chrf_lowercase", None, "Ignores case in chrF.")
        define.boolean("chrf_eps_smoothing", None, "Epsilon smoothing in chrF.")
    define_unused_flags(values, BLEU_FLAGS)
    with flag_group(values, "TER") as define:
        define.boolean("ter", False, "Prints the translation edit rate too; smaller is better.")
        define.boolean("ter_normalized", None, "Splits punctuation from words in TER.")
        define.boolean("ter_no_punct", None, "Leaves punctuation out of TER.")
        define.boolean("ter_asian_support", None, "Splits Chinese and Japanese into characters in TER.")
        define.boolean("ter_case_sensitive", None, "Makes TER case-sensitive.")


@command(build_flags, USAGE)
def main(values: flags.FlagValues) -> int:
    if values.translations_dir:
        return _score_folder(values)
    refuse_flags(values, _FOLDER_FLAGS, "no effect without --translations_dir")
    missing = [f"--{name}" for name in ("translation", "reference") if not values[name].value]
    if missing:
        raise UserError(f"{' and '.join(missing)} not given", "name the file of translations and that of references")
    chrf_options = _options(values, _CHRF_FLAGS, "chrf_")
    if chrf_options and not values.chrf:
        raise UserError(f"--chrf_{next(iter(chrf_options))} is given without --chrf", "add --chrf")
    _check_metrics(values)
    ter_options = _options(values, _TER_FLAGS, "ter_")
    if ter_options and not values.ter:
        raise UserError(f"--ter_{next(iter(ter_options))} is given without --ter", "add --ter")
    if values.paired or values.all_tokenizations:
        other = "--paired" if values.paired else "--all_tokenizations"
        refuse_flags(values, ("bleu_variant",), f"with {other}, --lowercase chooses the case")
    bleu_options = _bleu_options(values)
    if len(split_references(values.reference)) > 1:
        several = f"--reference={values.reference} names several files"
        refuse_flags(values, ("paired", "all_tokenizations"), f"{several}, which it does not read")
    translations, references, others = read_with_references(values.translation, values.reference)
    more = {"more_references": others} if others else {}
    bleu_options |= more
    if values.paired:
        options = {"bleu": {"tokenize": bleu_tokenizer(values.language or ""), **bleu_options}}
        options |= {"chrf": chrf_options} if values.chrf else {}
        options |= {"ter": ter_options} if values.ter else {}
        if values.all_tokenizations:
            raise UserError("--paired and --all_tokenizations are given", "compare by one tokenization: leave one out")
        systems = [(path, read_pairs(path, values.reference)[0]) for path in values.paired]
        print(*paired_bootstrap([(values.translation, translations), *systems], references, options), sep="\n")
        return 0
    # One of these may fail: nothing is printed yet.
    read_sources = (lambda: read_all(values.source)) if values.source else None
    language = values.language or ""
    registered = compute(values.metrics, translations, references, language, read_sources, others).values()
    if values.all_tokenizations:
        for label, score in _all_tokenizations(translations, references, language or "de", bleu_options):
            print(f"{label:<{_LABEL_WIDTH}}{score}")
    else:
        scores = score_variants((translations, references), language, bleu_options, _variants(values))
        print(*scores.values(), sep="\n")
    if values.chrf:
        print(chrf(translations, references, **chrf_options, **more))
    if values.ter:
        print(ter(translations, references, **ter_options, **more))
    for score in registered:
        print(score)
    return 0


def _check_metrics(values: flags.FlagValues) -> None:
    """Loads the plug-ins and checks --metrics and --source, before anything is printed; raises UserError."""
    if not values.metrics:
        if values.source:
            raise UserError("only --metrics read it", "name one, or leave it out", option="source")
        return
    if values.paired:
        raise UserError("--paired and --metrics are given", "it compares BLEU, --chrf and --ter: leave one out")
    load_plugins_quietly(values.t2t_usr_dir)
    for name in values.metrics:
        check_text_metric(name)
        if reads_inputs(name) and not values.source:
            raise UserError(f"metric {name!r} reads the inputs, too", "name their file with --source")


def _score_folder(values: flags.FlagValues) -> int:
    """Prints BLEU of each file `<name>-<step>` of a folder, in order of steps; returns the exit status.

    Raises:
        UserError: no such folder or file, two files of one step, or line counts that differ from the reference.
    """
    if not values.reference:
        raise UserError("not given", "name the file of references of --translations_dir", option="reference")
    options = (*(f"chrf_{name}" for name in _CHRF_FLAGS), *(f"ter_{name}" for name in _TER_FLAGS))
    refuse_flags(
        values,
        ("translation", "all_tokenizations", "chrf", "ter", "paired", "metrics", "source", *options),
        "--translations_dir prints BLEU of many files",
    )
    if not values.event_dir:
        refuse_flags(values, ("tag_suffix",), "no effect without --event_dir")
    language, how, variants = values.language or "", _bleu_options(values), _variants(values)
    place, found = local_path(values.translations_dir), False
    if not place.is_dir():
        raise UserError("there is no such folder", "name that of t2t-translate-all", option="translations_dir",
                        value=values.translations_dir)  # fmt: skip
    if values.event_dir:
        with quietly():
            import tensorflow as tf
        events = tf.summary.create_file_writer(str(local_path(values.event_dir)))
    for step in steps_as_they_appear(lambda: _files(place), values.min_steps, values.wait_minutes):
        found, file = True, _files(place)[step]
        translations, references, more = read_with_references(str(file), values.reference)
        scores = score_variants((translations, references), language, {**how, "more_references": more}, variants)
        print(*(f"{file.name}: {score}" for score in scores.values()), sep="\n", flush=True)
        if values.event_dir:
            with events.as_default(step=step):
                for variant, score in scores.items():
                    tf.summary.scalar(f"BLEU_{variant}{values.tag_suffix}", score.value)
            events.flush()
    if not found:
        raise UserError(
            f"it has no file <name>-<step> of at least {values.min_steps} updates",
            "name the folder that t2t-translate-all has written, or lower --min_steps",
            option="translations_dir",
            value=values.translations_dir,
        )
    return 0


def _variants(values: flags.FlagValues) -> Sequence[str]:
    """Returns the BLEU variants to compute; raises UserError for --bleu_variant with --lowercase."""
    if values.bleu_variant and values.lowercase is not None:
        raise UserError("--bleu_variant and --lowercase are both given", "keep one")
    return VARIANTS[values.bleu_variant or (UNCASED if values.lowercase else CASED)]


def _bleu_options(values: flags.FlagValues) -> dict[str, Any]:
    """Returns the BLEU options that were given; raises UserError for conflicting ones."""
    options = _options(values, _BLEU_FLAGS)
    if "smooth_value" in options and options.get("smooth_method") not in _SMOOTHED_BY_VALUE:
        raise UserError(
            f"--smooth_value is given, which only --smooth_method={' and '.join(_SMOOTHED_BY_VALUE)} read",
            "name one of them, or leave --smooth_value out",
        )
    if not values.all_tokenizations:
        if values.language is not None and "tokenize" in options:
            raise UserError("--language and --tokenize are both given, and each chooses the tokenizer", "leave one out")
        return options
    chosen = [f"--{name}" for name in options if name != "lowercase"]
    if chosen:
        raise UserError(
            f"{' and '.join(chosen)} given with --all_tokenizations, which chooses for itself", "leave one side out"
        )
    return options


def _all_tokenizations(
    translations: list[str], references: list[str], language: str, options: dict[str, Any]
) -> Iterator[tuple[str, Score]]:
    """Yields (label, score) of each tokenization; Moses, the only one that can fail, is computed first."""
    tokenized = moses_bleu(translations, references, language, **options)
    for name in (bleu_tokenizer(language), "intl"):
        yield f"sacreBLEU {name}", bleu(translations, references, tokenize=name, **options)
    yield "tokenized" + ", compounds split" * (language in COMPOUND_LANGUAGES), tokenized


def _options(values: flags.FlagValues, names: tuple[str, ...], prefix: str = "") -> dict[str, Any]:
    """Returns the options that were given, by their names in sacreBLEU's classes."""
    given = {name: values[prefix + name].value for name in names}
    return {name: value for name, value in given.items() if value is not None}


CASED, UNCASED, BOTH = "cased", "uncased", "both"
VARIANTS = {CASED: (CASED,), UNCASED: (UNCASED,), BOTH: (UNCASED, CASED)}
"""Value of --bleu_variant -> variants to compute."""

_STEP = re.compile(r".+-(\d{1,18})")


def score_variants(
    pairs: tuple[list[str], list[str]], language: str, options: Mapping[str, Any], variants: Sequence[str]
) -> dict[str, Score]:
    """Returns BLEU of (translations, references) for each variant; uncased ignores case."""
    changes = {CASED: {}, UNCASED: {"lowercase": True}}
    return {variant: bleu(*pairs, language, **{**options, **changes[variant]}) for variant in variants}


def _files(place: Path) -> dict[int, Path]:
    """Returns the files named `<name>-<step>`, by step; unfinished `.partial` files do not match."""
    found: dict[int, Path] = {}
    for path in sorted(place.iterdir()):
        if (match := _STEP.fullmatch(path.name)) and path.is_file():
            step = int(match[1])
            if step in found:
                raise UserError(f"{found[step]} and {path} are both of step {step}", "keep the files of one problem")
            found[step] = path
    return found
