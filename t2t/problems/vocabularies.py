"""The vocabularies of a problem's features: given, fixed, or learned from a sample of the training text."""

import dataclasses
import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t.errors import UserError
from t2t.features.feature import Feature
from t2t.features.label import Label
from t2t.features.text import Text
from t2t.features.tree import Tree
from t2t.hparams.field import param
from t2t.problems.filters import FilterOptions, unfiltered
from t2t.problems.options import file_option, named_numbers
from t2t.problems.samples import (
    GenerationContext,
    Samples,
    call_here,
    check_samples,
    chunk_samples,
    empty_split,
    samples_of,
)
from t2t.specs import TRAIN
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder, warn_of_same_looks
from t2t.text.sample import SampleSize, SpreadSample, draw_sample, merge_samples
from t2t.text.tags import parse_languages
from t2t.text.vocabulary_files import read_vocabulary

log = logging.getLogger("t2t")

_SAMPLES_BETWEEN_NEWS = 1000

_EQUAL_PARTS = 8
"""A shard may draw up to this many times its equal share of the sample: shards differ in size, and merging thins their
samples to one density."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(FilterOptions):
    """Options of every text problem; unset ones keep the values that the problem declares."""

    vocab_kind: str = ""
    """Kind of vocabulary: sentencepiece, subword, byte, token or word_list."""
    vocab_size: int = param(0, "Number of pieces in the vocabulary; 0 for the problem's own.", minimum=0)
    vocab_file: str = file_option(many=True)
    """Existing vocabulary to use instead of learning one, e.g. that of the run whose weights are to be used; one file
    for all text features, or one for each."""
    language_tags: str = ""
    """Languages to reserve tags for, e.g. en,de,fr; inputs begin with the tag of the target language."""
    subword_sampling: float = param(
        0.0, "Segments training text differently in each epoch: share of the merges that are left out or, for unigram "
        "vocabularies, exponent of the probabilities; 0 for never.", minimum=0.0, maximum=1.0, only_trains=True,
    )  # fmt: skip

    preprocessors: str = param(
        "", "Registered random changes of training texts, those of plug-ins included, with a rate each, such as "
        "random_case=0.1; they differ in each epoch. See --registry_help=preprocessor.", only_trains=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language_tags:
            parse_languages(self.language_tags)
            for name, rate in self.random_changes():
                raise UserError(
                    f"--language_tags={self.language_tags} and --{name}={rate:g}: a tag would be written in other "
                    "pieces",
                    "leave one of them out",
                )
        if self.vocab_file and (self.vocab_kind or self.vocab_size):
            raise UserError(
                "the file tells kind and size",
                "leave out --vocab_kind and --vocab_size",
                option="vocab_file",
                value=self.vocab_file,
            )

    def random_changes(self) -> list[tuple[str, float]]:
        """Returns names and rates of the preprocessors; pieces are sampled from texts as the others leave them."""
        last = {"subword_sampling": self.subword_sampling} if self.subword_sampling else {}
        return [*named_numbers("--preprocessors", self.preprocessors).items(), *last.items()]


def text_names(problem: Samples) -> list[str]:
    """Returns the names of the features whose values are ids of text, or of what is written as text."""
    return [name for name, feature in problem.features.items() if isinstance(feature, Text)]


def free_texts(problem: Samples) -> tuple[str, ...]:
    """Returns the names of the features that are free text, whose vocabularies are learned, given or chosen."""
    return tuple(name for name, one in problem.features.items() if isinstance(one, Text) and one.is_free)


def share_ids(features: Mapping[str, Feature], encoders: Mapping[str, TextEncoder]) -> bool:
    """Returns whether all features are text and an id means the same in all of their vocabularies.

    Vocabularies that are not in `encoders` are yet to be learned.
    """
    texts = [feature for feature in features.values() if isinstance(feature, Text)]
    if len(texts) < len(features) or not texts:
        return False
    known = {encoders[name].ids_fingerprint for name in features if name in encoders}
    if encoders.keys() >= features.keys():
        return len(known) == 1
    return len(texts) == 1 or (not known and all(text.shared for text in texts))


def known_encoders(problem: Samples) -> dict[str, TextEncoder]:
    """Returns the vocabularies that need no samples (given, bytes, known words, declared classes), by feature.

    Raises:
        UserError: the number of files given is neither 1 nor that of the features.
    """
    fixed: dict[tuple[Any, ...], TextEncoder | None] = {}  # so that features with the same vocabulary share it
    found: dict[str, TextEncoder] = {}
    given = _given_encoders(problem)
    for name, feature in problem.features.items():
        key = (name,) if not isinstance(feature, Text) else (feature.vocabulary, feature.words)
        encoder = given.get(name) or fixed.setdefault(key, feature.fixed_encoder())
        if encoder is not None:
            found[name] = encoder
    return found


def _given_encoders(problem: Samples) -> dict[str, TextEncoder]:
    """Returns the vocabularies in the files of the option `vocab_file`."""
    names = free_texts(problem)
    paths = problem.options.paths("vocab_file") if isinstance(problem.options, TextOptions) else []
    if not paths:
        return {}
    if len(paths) not in (1, len(names)):
        raise UserError(
            f"{len(paths)} files are named; {problem.name} has {len(names)} text features",
            f"name one file for all, or one for each in this order: {', '.join(names)}",
            option="vocab_file",
        )
    if len(paths) > 1:
        for feature, path in zip(names, paths, strict=True):
            log.info("vocabulary of %s: %s", feature, path)
    read = {path: read_vocabulary(path) for path in paths}
    return dict(zip(names, [read[path] for path in paths] * (len(names) // len(paths)), strict=True))


def build_encoders(problem: Samples, context: GenerationContext) -> dict[str, TextEncoder]:
    """Returns the vocabularies of a problem's features, learned from the training samples where need be.

    Texts come first, then classes: the samples of each are drawn with generators that `context` seeds in this order.
    """
    found: dict[str, TextEncoder] = {}
    for name, feature in problem.features.items():
        if isinstance(feature, Tree):
            read = functools.partial(_read_trees, problem, name, context)
            found[name] = feature.list_labels(problem.splits, read, problem.name)
    found |= {name: encoder for name, encoder in known_encoders(problem).items() if name not in found}
    texts = free_texts(problem)
    size = problem.options.vocab_size if isinstance(problem.options, TextOptions) else 0
    if size and texts and all(name in found for name in texts):
        encoder = found[texts[0]]
        log.warning(
            "%s: --vocab_size=%d has no effect: its vocabulary, of kind %s, always has %d ids",
            problem.name, size, encoder.kind, encoder.vocab_size,
        )  # fmt: skip
    to_learn = [name for name in texts if name not in found]
    shared = tuple(name for name in to_learn if _text(problem, (name,)).shared)
    for names in [shared] * bool(shared) + [(name,) for name in to_learn if name not in shared]:
        found |= dict.fromkeys(names, _learn(problem, names, context.fork()))
    for name, feature in problem.features.items():
        if isinstance(feature, Label):
            if name not in found:
                found[name] = LabelEncoder(_training_labels(problem, name, context))
            if isinstance(encoder := found[name], LabelEncoder):
                warn_of_same_looks(encoder.names)
    return {name: found[name] for name in problem.features if name in found}


def _read_trees(problem: Samples, name: str, context: GenerationContext, split: str) -> Iterator[str]:
    return (
        sample.features[name] for sample in samples_of(problem, split, GenerationContext(context.tmp_dir, context.rng))
    )


# === Text ===
def _learn(problem: Samples, names: tuple[str, ...], context: GenerationContext) -> TextEncoder:
    """Learns one vocabulary; logs the size of the sample and the time, without that of reading."""
    feature = _text(problem, names)
    what, started = f"vocabulary of {' and '.join(names)}", []

    def report(size: SampleSize) -> None:
        log.info(
            "%s: the %s is learnt from %s of the training text: %s ids of kind %s",
            problem.name, what, size, f"{feature.size:,}", feature.vocabulary,
        )  # fmt: skip
        started.append(time.monotonic())

    encoder = learn_vocabulary(problem, names, sampled_text(problem, names, context, report))
    if started:  # some kinds need no text
        log.info("%s: the %s took %.1f s to learn", problem.name, what, time.monotonic() - started[0])
    return encoder


def learn_vocabulary(problem: Samples, names: Sequence[str], lines: Iterable[str]) -> TextEncoder:
    """Returns a vocabulary of the kind and size of some text features of a problem, with the tags that it reserves.

    Raises:
        UserError: vocabularies of the kind have no tags, or the text is empty.
    """
    return _text(problem, names).learn(lines, problem.name, getattr(problem.options, "language_tags", ""))


def _text(problem: Samples, names: Sequence[str]) -> Text:
    feature = problem.features[names[0]]
    assert isinstance(feature, Text), "only these are learned from text"
    return feature


def sampled_text(
    problem: Samples, names: tuple[str, ...], context: GenerationContext, report: Callable[[SampleSize], None]
) -> Iterator[str]:
    """Yields an even sample of the training text, at most `Text.sample_bytes`; reads nothing until iterated."""
    most_bytes, shards = _text(problem, names).sample_bytes, problem.shards(TRAIN, context)
    context = dataclasses.replace(context, enough_bytes=most_bytes // shards, skipped=0)
    if shards == 1:
        drawn: Iterable[dict[str, Any]] = [draw_text(problem, names, context, most_bytes)]
    else:
        of_shard = min(most_bytes, _EQUAL_PARTS * most_bytes // shards)
        calls = [(names, each, of_shard) for each in context.each_shard(shards)]
        drawn = _counted(context.call_each(problem, draw_text, calls), len(names), context)
    sample = merge_samples((SpreadSample(**fields) for fields in drawn), most_bytes)
    report(sample.size())
    yield from sample.lines


def draw_text(problem: Samples, names: tuple[str, ...], context: GenerationContext, most_bytes: int) -> dict[str, Any]:
    """Draws an even sample of the training text of one shard; returns the fields of a `SpreadSample`.

    Args:
        problem: whose text is sampled.
        names: features whose text is sampled.
        context: of the shard.
        most_bytes: largest size of the sample, in UTF-8.
    """
    sample = draw_sample(_training_text(problem, names, context), most_bytes)
    sample.skipped = context.skipped * len(names)
    return {field.name: getattr(sample, field.name) for field in dataclasses.fields(sample)}  # asdict copies lines


def _training_text(problem: Samples, names: tuple[str, ...], context: GenerationContext) -> Iterator[str]:
    size = problem.chunk_size or _SAMPLES_BETWEEN_NEWS
    for first, samples in chunk_samples(samples_of(problem, TRAIN, context), size):
        check_samples(problem, TRAIN, samples, first)
        context.progress("vocabulary", first - 1 + len(samples))
        kept = unfiltered(problem, samples)
        yield from (sample.features[name] for sample in kept for _ in range(sample.copies) for name in names)


def _counted(samples: Iterable[dict[str, Any]], lines: int, context: GenerationContext) -> Iterator[dict[str, Any]]:
    """Yields the results of `draw_text`, and shows how many examples, of `lines` lines each, they come from."""
    read = 0
    for sample in samples:
        read += sample["of_lines"] // lines
        yield sample
        context.progress("vocabulary", read)


# === Classes ===
def _training_labels(problem: Samples, name: str, context: GenerationContext) -> tuple[str, ...]:
    """Returns the classes of the training samples, sorted."""
    read, labels = 0, set[str]()
    calls = [(name, each) for each in context.each_shard(problem.shards(TRAIN, context))]
    call_each = context.call_each if len(calls) > 1 else call_here
    for of_shard, count in call_each(problem, _labels_of_shard, calls):
        read, labels = read + count, labels.union(of_shard)
        context.progress("classes", read)
    if not labels:
        raise empty_split(problem, TRAIN)
    return tuple(sorted(labels))


def _labels_of_shard(problem: Samples, name: str, context: GenerationContext) -> tuple[list[str], int]:
    """Returns the classes of the training samples of a shard, sorted, and the number of samples."""
    number, labels = 0, set()
    for number, sample in enumerate(samples_of(problem, TRAIN, context), 1):
        check_samples(problem, TRAIN, [sample], number)
        labels.add(sample.features[name])
    return sorted(labels), number
