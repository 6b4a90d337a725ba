"""Problems made of text: text to text, text alone (language models), text to class.

A new one is a short subclass that says which vocabulary it wants and yields strings:

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from t2t.constants import EOS_ID, INPUTS, TARGETS, TRAIN
from t2t.errors import UserError
from t2t.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.problems.base import Problem, ProblemOptions, Sample, Source
from t2t.text import encoder_class
from t2t.text.encoder import TextEncoder
from t2t.text.files import read_vocabulary
from t2t.text.sample import SampleSize, spread_sample
from t2t.text.token import TokenEncoder

log = logging.getLogger("t2t")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions(ProblemOptions):
    """Options of every text problem; unset ones keep what the problem declares."""

    vocab_kind: str = ""
    """Kind of vocabulary: sentencepiece, subword, byte, token or word_list."""
    vocab_size: int = 0
    """Number of pieces to learn."""
    vocab_file: str = ""
    """A vocabulary to use as it is instead of learning one, e.g. that of the run whose weights are to be used."""

    def __post_init__(self):
        if self.vocab_file:
            object.__setattr__(self, "vocab_file", str(Path(self.vocab_file).expanduser().absolute()))
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
    """All words, where they are known beforehand; implies `vocab_kind = "token"`."""
    shared_vocabulary: bool = True
    """Whether all text features use one vocabulary."""
    vocab_sample_bytes: int = 40_000_000
    """At most this much training text is read to learn a vocabulary, spread evenly over the corpus."""
    text_features: tuple[str, ...] = (INPUTS, TARGETS)
    """Names of the features that are text."""
    options_class = TextOptions

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.vocab_kind = self.options.vocab_kind or ("token" if self.vocabulary else self.vocab_kind)
        self.vocab_size = self.options.vocab_size or self.vocab_size
        encoder_class(self.vocab_kind)

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Learns the vocabulary from a bounded, evenly spread sample of the training text, or reads the one given."""
        if self.options.vocab_file:
            return dict.fromkeys(self.text_features, read_vocabulary(self.options.vocab_file))
        if self.vocabulary and self.vocab_kind == "token":
            encoder = TokenEncoder(self.vocabulary)
            return dict.fromkeys(self.text_features, encoder)
        groups = [self.text_features] if self.shared_vocabulary else [(name,) for name in self.text_features]
        encoders: dict[str, TextEncoder] = {}
        for names in groups:
            fresh = Source(source.tmp_dir, type(source.rng)(source.rng.random()))
            lines = spread_sample(self._training_text(names, fresh), self.vocab_sample_bytes, self._log_sample(names))
            encoders |= dict.fromkeys(names, encoder_class(self.vocab_kind).build(lines, self.vocab_size))
        return encoders

    def _log_sample(self, names: tuple[str, ...]) -> Callable[[SampleSize], None]:
        text = f"{self.name}: the vocabulary of {' and '.join(names)} is learnt from"
        return lambda size: log.info("%s %s of the training text", text, size)

    def _training_text(self, names: tuple[str, ...], source: Source) -> Iterator[str]:
        for sample in self.generate_samples(TRAIN, source):
            for name in names:
                yield sample[name]

    def spec(self) -> ProblemSpec:
        """Token features with the sizes of their vocabularies."""
        return ProblemSpec(
            name=self.name,
            features={
                name: FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=self.encoders[name].vocab_size)
                for name in self.text_features
            },
            shared_vocabulary=len({self.encoders[name].fingerprint for name in self.text_features}) == 1,
        )

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes the text of many samples at once, end of sequence added."""
        columns = {
            name: self.encoders[name].encode_batch([sample[name] for sample in samples]) for name in self.text_features
        }
        return [
            {name: np.asarray([*columns[name][row], EOS_ID], dtype=np.int32) for name in self.text_features}
            for row in range(len(samples))
        ]


class Text2Text(TextProblem):
    """Text to text: samples are `{"inputs": str, "targets": str}`."""

    metrics = ("bleu", "accuracy", "accuracy_per_sequence")


class Text2Self(TextProblem):
    """Text alone, for language models: samples are `{"targets": str}`."""

    text_features = (TARGETS,)
    metrics = ("neg_log_perplexity", "accuracy")


class Text2Class(TextProblem):
    """Text to one of a few classes: samples are `{"inputs": str, "targets": class name}`."""

    text_features = (INPUTS,)
    class_labels: tuple[str, ...] = ()
    """Names of the classes; a target's id is its position here."""
    metrics = ("accuracy",)

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._label_ids = {label: position for position, label in enumerate(self.class_labels)}

    def spec(self) -> ProblemSpec:
        """One token feature and one label."""
        features = dict(super().spec().features)
        features[TARGETS] = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=len(self.class_labels))
        return ProblemSpec(name=self.name, features=features)

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes the text, and each class name as its position in `class_labels`."""
        encoded = super().encode_samples(samples)
        for example, sample in zip(encoded, samples, strict=True):
            example[TARGETS] = np.asarray(self._label_id(sample[TARGETS]), dtype=np.int32)
        return encoded

    def decode_target(self, ids: Any) -> str:
        """Returns the name of a class."""
        return self.class_labels[int(ids)]

    def _label_id(self, label: str) -> int:
        if label not in self._label_ids:
            raise UserError(
                f"class {label!r} in the samples of {self.name}: it declares {', '.join(self.class_labels)}; "
                f"add the class to class_labels or leave the sample out"
            )
        return self._label_ids[label]
