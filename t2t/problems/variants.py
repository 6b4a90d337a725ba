"""The variants of every problem, made when data is read: they share the generated data of the problem itself.

`<name>_rev` swaps inputs and targets, `<name>_copy` copies the inputs. `<name>_masked` is for masked language models:
some tokens of the targets are hidden and have to be predicted.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Self

import numpy as np

from t2t.errors import UserError
from t2t.features.feature import Feature
from t2t.problems.base import GenerationContext, Problem, Sample, check_texts
from t2t.problems.preprocessors import TokenMasking, mask_id_of
from t2t.problems.samples import samples_of
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import TextEncoder

_MASKED = "_masked"
_COLUMNS = {
    "_rev": {INPUTS: TARGETS, TARGETS: INPUTS},
    "_copy": {INPUTS: INPUTS, TARGETS: INPUTS},
    _MASKED: {INPUTS: TARGETS, TARGETS: TARGETS},
}
SUFFIXES = tuple(_COLUMNS)


class VariantProblem(Problem):
    """A problem with the features of `base`, renamed according to the suffix."""

    def __init__(self, base: Problem, suffix: str):
        super().__init__()
        self.base = base
        self.name, self._suffix = base.name + suffix, suffix
        self.options = base.options
        self.splits = base.splits
        if isinstance(base, VariantProblem) and base._suffix == _MASKED:
            raise UserError(f"problem {self.name}: what {_MASKED} hides must stay so", f"put {_MASKED} last")
        if suffix != "_rev" and (tags := getattr(base.options, "language_tags", "")):
            raise UserError(
                f"problem {self.name}: with --language_tags={tags} inputs begin with the tag of another language, and "
                f"{suffix} has only one side",
                "leave the tags out",
            )
        # Metrics of a base that finishes its outputs expect these; variants do not finish theirs.
        self.metrics = ("bleu", "accuracy", "accuracy_per_sequence") if base.finishes else base.metrics
        if suffix == _MASKED:
            self.metrics = ("neg_log_perplexity", "accuracy")
        self.max_length = base.max_length
        self._own = _COLUMNS[suffix]
        languages = {INPUTS: base.source_language, TARGETS: base.target_language}
        self.source_language, self.target_language = (languages[self._own[side]] for side in (INPUTS, TARGETS))

    @functools.cached_property
    def features(self) -> Mapping[str, Feature]:
        """Those of the base, renamed; without those that it lacks. Outputs are left as they are."""
        known = {name: feature.plain() for name, feature in self.base.features.items()}
        return {name: known[column] for name, column in self._own.items() if column in known}

    @property
    def stored(self) -> Problem:
        """The problem whose data is generated."""
        return self.base.stored

    @property
    def columns(self) -> dict[str, str]:
        """Feature name to the name it is stored under."""
        below = self.base.columns or {name: name for name in self._own}
        return {name: below[column] for name, column in self._own.items()}

    def with_encoders(self, encoders: Mapping[str, TextEncoder]) -> Self:
        """Takes the vocabularies of the stored features.

        Raises:
            UserError: the base lacks a text feature.
        """
        self.base.with_encoders(encoders)
        check_texts(self, self._own.values(), self.base.encoders)
        self.encoders = {name: self.base.encoders[column] for name, column in self._own.items()}
        return self

    def masking(self) -> TokenMasking | None:
        """Returns the masking of `_masked`, None for other variants; needs the encoders.

        Raises:
            UserError: no id of the vocabulary can stand for a hidden word.
        """
        if self._suffix != _MASKED:
            return None
        encoder = self.encoders[TARGETS]
        return TokenMasking(vocab_size=encoder.vocab_size, mask_id=mask_id_of(encoder, self.name))

    def spec(self) -> ProblemSpec:
        """The base's features, renamed."""
        spec = self.base.spec()
        features = {name: spec.features[column] for name, column in self._own.items()}
        shared = spec.shared_vocabulary or len(set(self._own.values())) == 1
        return ProblemSpec(name=self.name, features=features, shared_vocabulary=shared)

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the base's samples with their sides renamed."""
        for sample in samples_of(self.base, split, context):
            yield {name: sample.features[column] for name, column in self._own.items()}

    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """Builds the base's vocabularies."""
        return self.base.build_encoders(context)

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes the base's samples."""
        return self.base.encode_samples(samples)

    def requirements(self) -> str:
        """What the base needs."""
        return self.base.requirements()
