"""Text problems: text to text, text alone (language models), text to class.

To add one, write a short subclass that chooses a vocabulary and yields strings::

    @register_problem
    class ReverseDigits(Text2Text):
        vocab_kind = "token"
        vocabulary = tuple("0123456789")

        def generate_samples(self, split, source):
            for _ in range(10_000 if split == "train" else 500):
                digits = source.rng.choices(self.vocabulary, k=source.rng.randint(1, 20))
                yield {"inputs": " ".join(digits), "targets": " ".join(reversed(digits))}
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.errors import UserError
from t2t.hparams.field import param
from t2t.problems.base import Problem, Sample, Source
from t2t.problems.filters.duplicates import DuplicateKey
from t2t.problems.filters.options import FilterOptions
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.problems.filters.selection import unfiltered
from t2t.problems.filters.text_filters import text_duplicate_key, text_filters
from t2t.problems.filters.weights import COPIES
from t2t.problems.labels import ClassTargets
from t2t.problems.options import ProblemOptions, file_option
from t2t.problems.preprocessors import Preprocessor, SubwordSampling
from t2t.problems.samples import check_samples, chunk_samples, samples_of, text_fault
from t2t.specs.constants import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text import encoder_class
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.sample import SampleSize, SpreadSample, draw_sample, merge_samples
from t2t.text.sampling import SubwordSampler
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.tags import parse_languages, tag_of
from t2t.text.token import TokenEncoder
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.language_tags:
            parse_languages(self.language_tags)
            if self.subword_sampling:
                raise UserError(
                    f"--language_tags={self.language_tags} and --subword_sampling={self.subword_sampling:g}: a tag "
                    f"would be written in other pieces; leave one of them out"
                )
        if self.vocab_file and (self.vocab_kind or self.vocab_size):
            raise UserError(
                f"--vocab_file={self.vocab_file}: the file tells kind and size; leave out --vocab_kind and --vocab_size"
            )


class TextProblem(Problem):
    """A problem whose features are text, in one shared vocabulary or one each."""

    vocab_kind: str = "sentencepiece"
    """Kind of vocabulary, see `t2t.text`."""
    vocab_size: int = 8192
    """Number of pieces to learn, reserved ids included; ignored by kinds that have a fixed size."""
    vocabulary: tuple[str, ...] = ()
    """All words, if known beforehand; then `vocab_kind` is `token`, unless the user sets the option."""
    shared_vocabulary: bool = True
    """Whether all text features use one vocabulary."""
    vocab_sample_bytes: int = 40_000_000
    """Most bytes of training text that a vocabulary is learnt from, sampled evenly over the corpus."""
    text_features: tuple[str, ...] = (INPUTS, TARGETS)
    """Names of the features that are text."""
    options_class: ClassVar[type[ProblemOptions]] = TextOptions

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.vocab_kind = self.options.vocab_kind or ("token" if self.vocabulary else self.vocab_kind)
        self.vocab_size = self.options.vocab_size or self.vocab_size
        encoder_class(self.vocab_kind)

    @property
    def vocab_features(self) -> tuple[str, ...]:
        """Text features whose vocabularies are learned, or read from `vocab_file`; the other ones are fixed."""
        return self.text_features

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Learns the vocabulary from a bounded, evenly spread sample of the training text, or reads the one given."""
        encoders = self._fixed_encoders(self.text_features)
        if not encoders:
            groups = [self.text_features] if self.shared_vocabulary else [(name,) for name in self.text_features]
            for names in groups:
                encoders |= dict.fromkeys(names, self._learn(names, source.fork()))
        return encoders

    def _fixed_encoders(self, features: Sequence[str]) -> dict[str, TextEncoder]:
        """Returns `_known_encoders`, with a warning if the user has chosen a size, which they do not have."""
        encoders = self._known_encoders(features)
        if encoders and self.options.vocab_size:
            log.warning(
                "%s: --vocab_size=%d has no effect: its vocabulary, of kind %s, has %d ids whatever is asked for",
                self.name, self.options.vocab_size, self.vocab_kind, encoders[features[0]].vocab_size,
            )  # fmt: skip
        return encoders

    def _known_encoders(self, features: Sequence[str]) -> dict[str, TextEncoder]:
        """Returns the vocabularies that need no training text (given, bytes, known words), by feature, or {}.

        Raises:
            UserError: the number of files given is neither 1 nor that of the features.
        """
        if self.options.vocab_file:
            return self._given_encoders(features)
        if self.vocab_kind == ByteEncoder.kind:
            return dict.fromkeys(features, ByteEncoder())
        if self.vocabulary and self.vocab_kind == "token":
            return dict.fromkeys(features, TokenEncoder(self.vocabulary))
        return {}

    def _given_encoders(self, features: Sequence[str]) -> dict[str, TextEncoder]:
        paths = self.options.paths("vocab_file")
        if len(paths) not in (1, len(features)):
            raise UserError(
                f"--vocab_file: {len(paths)} files are named; {self.name} has {len(features)} text features; name one "
                f"file for all, or one for each in this order: {', '.join(features)}"
            )
        if len(paths) > 1:
            for feature, path in zip(features, paths, strict=True):
                log.info("vocabulary of %s: %s", feature, path)
        read = {path: read_vocabulary(path) for path in paths}
        return dict(zip(features, [read[path] for path in paths] * (len(features) // len(paths)), strict=True))

    def nominal_vocab_size(self, feature: str) -> int:
        """The size of a known vocabulary, or of the one to be learnt."""
        if feature not in self.text_features:
            return 0
        known = self._known_encoders(self.text_features)
        return known[feature].vocab_size if known else self.vocab_size

    def nominal_spec(self) -> ProblemSpec | None:
        """Token features with nominal vocabulary sizes, shared if they would be in `spec`."""
        spec = super().nominal_spec()
        if spec is None or set(spec.features) != set(self.text_features):
            return spec
        known = self._known_encoders(self.text_features)
        shared = _share_ids(known.values()) if known else self.shared_vocabulary or len(self.text_features) == 1
        return dataclasses.replace(spec, shared_vocabulary=shared)

    def _learn(self, names: tuple[str, ...], source: Source) -> TextEncoder:
        """Learns one vocabulary; logs the size of the sample and the time, without that of reading."""
        what, began = f"vocabulary of {' and '.join(names)}", []

        def say(size: SampleSize) -> None:
            log.info(
                "%s: the %s is learnt from %s of the training text: %s ids of kind %s",
                self.name, what, size, f"{self.vocab_size:,}", self.vocab_kind,
            )  # fmt: skip
            began.append(time.monotonic())

        encoder = self.learn_vocabulary(self.sampled_text(names, source, say))
        if began:  # some kinds need no text
            log.info("%s: the %s took %.1f s to learn", self.name, what, time.monotonic() - began[0])
        return encoder

    def learn_vocabulary(self, lines: Iterable[str]) -> TextEncoder:
        """Returns a vocabulary of the problem's kind and size, with the tags that it reserves.

        Raises:
            UserError: vocabularies of the kind have no tags, or the text is empty.
        """
        tags = getattr(self.options, "language_tags", "")
        if not tags:
            return encoder_class(self.vocab_kind).build(lines, self.vocab_size)
        if self.vocab_kind != SentencePieceEncoder.kind:
            raise UserError(
                f"--language_tags={tags}: the vocabulary of {self.name} is of kind "
                f"{self.vocab_kind}, which reserves no tags; choose --vocab_kind={SentencePieceEncoder.kind}"
            )
        reserved = [tag_of(language) for language in parse_languages(tags)]
        return SentencePieceEncoder.build(lines, self.vocab_size, reserved)

    def sampled_text(
        self, names: tuple[str, ...], source: Source, report: Callable[[SampleSize], None]
    ) -> Iterator[str]:
        """Yields an even sample of the training text, at most `vocab_sample_bytes`; reads nothing until iterated."""
        most_bytes, shards = self.vocab_sample_bytes, self.shards(TRAIN, source)
        source = dataclasses.replace(source, enough_bytes=most_bytes // shards, skipped=0)
        if shards == 1:
            drawn: Iterable[dict[str, Any]] = [self.draw_text(names, source, most_bytes)]
        else:
            of_shard = min(most_bytes, _EQUAL_PARTS * most_bytes // shards)
            calls = [(names, each, of_shard) for each in source.each_shard(shards)]
            drawn = _counted(source.call_each(self, "draw_text", calls), len(names), source)
        sample = merge_samples((SpreadSample(**fields) for fields in drawn), most_bytes)
        report(sample.size())
        yield from sample.lines

    def draw_text(self, names: tuple[str, ...], source: Source, most_bytes: int) -> dict[str, Any]:
        """Draws an even sample of the training text of one shard; returns the fields of a `SpreadSample`.

        Args:
            names: features whose text is sampled.
            source: of the shard.
            most_bytes: largest size of the sample, in UTF-8.
        """
        sample = draw_sample(self._training_text(names, source), most_bytes)
        sample.skipped = source.skipped * len(names)
        return {field.name: getattr(sample, field.name) for field in dataclasses.fields(sample)}  # asdict copies lines

    def _training_text(self, names: tuple[str, ...], source: Source) -> Iterator[str]:
        for first, samples in chunk_samples(samples_of(self, TRAIN, source), self.chunk_size or _SAMPLES_BETWEEN_NEWS):
            check_samples(self, TRAIN, samples, first)
            source.progress("vocabulary", first - 1 + len(samples))
            kept = unfiltered(self, samples)
            yield from (sample[name] for sample in kept for _ in range(sample.get(COPIES, 1)) for name in names)

    def preprocessors(self) -> Sequence[Preprocessor]:
        """Subword sampling, if the option `subword_sampling` is set.

        Raises:
            UserError: no vocabulary has pieces that can be sampled.
        """
        alpha = getattr(self.options, "subword_sampling", 0.0)
        if not alpha:
            return ()
        pieces = [name for name in self.text_features if self.encoders[name].kind == "sentencepiece"]
        samplers = {name: SubwordSampler(self.encoders[name]) for name in pieces or self.text_features}
        return (SubwordSampling(features=tuple(samplers), samplers=samplers, alpha=alpha),)

    def sample_filters(self) -> Sequence[SampleFilter]:
        """The filters that the options ask for."""
        if not isinstance(self.options, FilterOptions):
            return ()
        languages = {INPUTS: self.source_language, TARGETS: self.target_language}
        return tuple(text_filters(self.options, self.text_features, languages))

    def duplicate_key(self) -> DuplicateKey | None:
        """The key that the option `filter_duplicates` asks for."""
        if not isinstance(self.options, FilterOptions):
            return None
        declared = self.declared_spec()
        assert declared is not None, "a text problem knows its features"
        return text_duplicate_key(self.options, declared.features)

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files of the option `vocab_file`."""
        named: dict[str, Path] = self.options.numbered_paths("vocab_file")
        return named

    def sample_fault(self, sample: Any) -> str:
        """Every text feature must be there and be text."""
        return text_fault(sample, self.text_features)

    def declared_spec(self) -> ProblemSpec | None:
        """Token features."""
        return ProblemSpec(
            name=self.name, features={name: FeatureSpec(kind=FeatureKind.TOKENS) for name in self.text_features}
        )

    def word_starts(self, feature: str) -> str:
        """Returns a 1 for each id of a text feature that begins a word and 0 for others, for `positions=words`, or ''.

        Only for problems whose targets refer to the words of their inputs in order.
        """
        return ""

    def spec(self) -> ProblemSpec:
        """Token features with the sizes of their vocabularies."""
        return ProblemSpec(
            name=self.name,
            features={
                name: FeatureSpec(
                    kind=FeatureKind.TOKENS,
                    vocab_size=self.encoders[name].vocab_size,
                    word_starts=self.word_starts(name),
                )
                for name in self.text_features
            },
            shared_vocabulary=_share_ids(self.encoders[name] for name in self.text_features),
        )

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes the text of many samples at once, end of sequence added."""
        names = self.text_features
        columns = [self.encoders[name].encode_ended([sample[name] for sample in samples]) for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


class Text2Text(TextProblem):
    """Text to text: samples are `{"inputs": str, "targets": str}`."""

    metrics: tuple[str, ...] = ("bleu", "accuracy", "accuracy_per_sequence")


class Text2Self(TextProblem):
    """Text alone, for language models: samples are `{"targets": str}`."""

    text_features = (TARGETS,)
    metrics = ("neg_log_perplexity", "accuracy")

    @property
    def cut_length(self) -> int:
        """Longer texts are cut, not dropped."""
        return self.max_length


class Text2Class(ClassTargets, TextProblem):
    """Text to one of a few classes: samples are `{"inputs": str, "targets": class name}`."""

    text_features = (INPUTS,)

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Learns the vocabulary of the text, and collects the classes where they are not declared."""
        return TextProblem.build_encoders(self, source) | ClassTargets.build_encoders(self, source)

    def sample_fault(self, sample: Any) -> str:
        """The inputs must be a str, and the target one of the classes."""
        also = f" and one of its {self._described_classes()} for {TARGETS!r}"
        return text_fault(sample, self.text_features, also) or self.target_fault(sample)

    def declared_spec(self) -> ProblemSpec | None:
        """One token feature and one label."""
        texts, label = TextProblem.declared_spec(self), ClassTargets.declared_spec(self)
        return None if texts is None or label is None else _joined(texts, label)

    def spec(self) -> ProblemSpec:
        """One token feature and one label."""
        return _joined(TextProblem.spec(self), ClassTargets.spec(self))

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes the text, and each class name as its id."""
        texts, labels = TextProblem.encode_samples(self, samples), ClassTargets.encode_samples(self, samples)
        return [text | label for text, label in zip(texts, labels, strict=True)]


def _share_ids(encoders: Iterable[TextEncoder]) -> bool:
    """Returns whether an id means the same in all vocabularies."""
    return len({encoder.ids_fingerprint for encoder in encoders}) == 1


def _joined(one: ProblemSpec, other: ProblemSpec) -> ProblemSpec:
    return ProblemSpec(name=one.name, features={**one.features, **other.features})


def _counted(samples: Iterable[dict[str, Any]], lines: int, source: Source) -> Iterator[dict[str, Any]]:
    """Yields the results of `draw_text`, and shows how many examples, of `lines` lines each, they come from."""
    read = 0
    for sample in samples:
        read += sample["of_lines"] // lines
        yield sample
        source.progress("vocabulary", read)
