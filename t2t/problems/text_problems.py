"""Text problems: text to text, text alone (language models), text to class.

To add one, write a short subclass that chooses a vocabulary and yields strings::

    @register_problem
    class ReverseDigits(Text2Text):
        vocab_kind = "token"
        vocabulary = tuple("0123456789")

        def generate_samples(self, split, context):
            for _ in range(10_000 if split == "train" else 500):
                digits = context.rng.choices(self.vocabulary, k=context.rng.randint(1, 20))
                yield {"inputs": " ".join(digits), "targets": " ".join(reversed(digits))}
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

from t2t.features.feature import Feature
from t2t.features.label import Label
from t2t.features.text import Text
from t2t.problems.base import Problem
from t2t.problems.options import ProblemOptions
from t2t.problems.vocabularies import TextOptions as TextOptions
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import encoder_class


class Text2Text(Problem):
    """Text to text: samples are `{"inputs": str, "targets": str}`. Its attributes are the settings of the features."""

    vocab_kind: str = "sentencepiece"
    """Kind of vocabulary, see `t2t.text`."""
    vocab_size: int = 8192
    """Number of pieces to learn, reserved ids included; ignored by kinds that have a fixed size."""
    vocabulary: tuple[str, ...] = ()
    """All words, if known beforehand; then `vocab_kind` is `token`, unless the user sets the option."""
    shared_vocabulary: bool = True
    """Whether all text features use one vocabulary."""
    vocab_sample_bytes: int = 40_000_000
    """Most bytes of training text that a vocabulary is learned from, sampled evenly over the corpus."""
    text_features: tuple[str, ...] = (INPUTS, TARGETS)
    """Names of the features that are text."""
    continuation_mark: str = ""
    """Suffix of a piece whose word continues in the next one, e.g. `@@`; outputs and references are read joined."""
    single_spaces: bool = False
    """Whether inputs are words with one space between two of them. Samples must be so; in given texts, any ASCII white
    space between words is read as one space."""
    translates: ClassVar[bool] = False
    """Whether targets are in another language than inputs, so that equal ones are a mistake."""
    output_suffix: ClassVar[str] = ""
    """Suffix of the file that an output can be written to, e.g. `.wav`; empty if outputs are only text."""
    metrics: tuple[str, ...] = ("bleu", "accuracy", "accuracy_per_sequence")
    options_class: ClassVar[type[ProblemOptions]] = TextOptions
    _not_of_data: ClassVar[tuple[str, ...]] = ("continuation_mark", "output_suffix", "translates")
    _text_class: ClassVar[type[Text]] = Text

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.vocab_kind = getattr(self.options, "vocab_kind", "") or ("token" if self.vocabulary else self.vocab_kind)
        self.vocab_size = getattr(self.options, "vocab_size", 0) or self.vocab_size
        encoder_class(self.vocab_kind)

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A text for each of `text_features`."""
        text = self._text_class(
            self.vocab_kind, self.vocab_size, words=self.vocabulary, shared=self.shared_vocabulary,
            sample_bytes=self.vocab_sample_bytes, cut_length=self.cut_length, single_spaces=self.single_spaces,
            continuation_mark=self.continuation_mark,
        )  # fmt: skip
        features = dict.fromkeys(self.text_features, text)
        if self.output_suffix:
            features[TARGETS] = dataclasses.replace(text, output_suffix=self.output_suffix, write=self.output_file)
        return features

    @property
    def cut_length(self) -> int:
        """Length in ids above which texts without inputs are cut into equal parts; 0 to cut none."""
        return 0

    def word_starts(self, feature: str) -> str:
        """Returns a 1 for each id of a text feature that begins a word and 0 for others, for `positions=words`, or ''.

        Only for problems whose targets refer to the words of their inputs in order.
        """
        return ""

    def output_file(self, output: str) -> bytes:
        """Returns the content of the file of an output as `decode_target` gives it; if there is an `output_suffix`."""
        raise NotImplementedError

    def spec(self) -> ProblemSpec:
        """The features, with `word_starts`."""
        spec = super().spec()
        starts = {name: starts for name in self.text_features if (starts := self.word_starts(name))}
        features = {name: dataclasses.replace(spec.features[name], word_starts=starts[name]) for name in starts}
        return dataclasses.replace(spec, features={**spec.features, **features})


TextProblem = Text2Text
"""Another name of the base class of problems with text; they set `text_features`."""


class Text2Self(Text2Text):
    """Text alone, for language models: samples are `{"targets": str}`."""

    text_features = (TARGETS,)
    metrics = ("neg_log_perplexity", "accuracy")

    @property
    def cut_length(self) -> int:
        """Longer texts are cut, not dropped."""
        return self.max_length


class Text2Class(Text2Text):
    """Text to one of a few classes: samples are `{"inputs": str, "targets": class name}`."""

    text_features = (INPUTS,)
    class_labels: tuple[str, ...] = ()
    """Names of the classes; a target's id is its index here. Empty for those that occur in the training samples."""
    metrics: tuple[str, ...] = ("accuracy",)

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """A text and a label."""
        return {**super().features, TARGETS: Label(self.class_labels)}
