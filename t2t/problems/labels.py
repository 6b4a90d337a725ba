"""Problems whose target is one of a few classes, with any kind of inputs."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from t2t.problems.base import Problem, Sample, Source
from t2t.problems.samples import call_each_shard, check_samples, empty_split, samples_of, shown
from t2t.specs.constants import TARGETS, TRAIN
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder, listed, warn_of_same_looks


class ClassTargets(Problem):
    """The target side of such problems: samples have the name of a class as `targets`."""

    class_labels: tuple[str, ...] = ()
    """Names of the classes; a target's id is its index here. Empty for those that occur in the training samples."""
    metrics: tuple[str, ...] = ("accuracy",)

    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Returns the declared classes, or those of the training samples, sorted."""
        encoder = LabelEncoder(self.class_labels or self._training_labels(source))
        warn_of_same_looks(encoder.names)
        return {TARGETS: encoder}

    def _training_labels(self, source: Source) -> list[str]:
        read, labels = 0, set[str]()
        for of_shard, count in call_each_shard(self, "labels_of_shard", TRAIN, source):
            read, labels = read + count, labels.union(of_shard)
            source.progress("classes", read)
        if not labels:
            raise empty_split(self, TRAIN)
        return sorted(labels)

    def labels_of_shard(self, source: Source) -> tuple[list[str], int]:
        """Returns the classes of the training samples of a shard, sorted, and the number of samples."""
        number, labels = 0, set()
        for number, sample in enumerate(samples_of(self, TRAIN, source), 1):
            check_samples(self, TRAIN, [sample], number)
            labels.add(sample[TARGETS])
        return sorted(labels), number

    def target_fault(self, sample: Any) -> str:
        """Returns what is wrong with the target of a sample (a dict), or an empty string."""
        classes = self._described_classes()
        if TARGETS not in sample:
            return f"has no {TARGETS!r}; it must be one of its {classes}"
        label, known = sample[TARGETS], self._known_classes()
        if not isinstance(label, Hashable) or (label not in known if known else not isinstance(label, str)):
            return f"has {shown(label)} for {TARGETS!r}, which is none of its {classes}"
        return ""

    def _described_classes(self) -> str:
        """Describes the classes for a message."""
        known = self._known_classes()
        return f"class_labels ({listed(known)})" if known else "classes, a str each"

    def _known_classes(self) -> tuple[str, ...]:
        encoder = self.encoders.get(TARGETS)
        return self.class_labels or (encoder.names if isinstance(encoder, LabelEncoder) else ())

    def sample_fault(self, sample: Any) -> str:
        """The target must be one of the classes."""
        return super().sample_fault(sample) or self.target_fault(sample)

    def declared_spec(self) -> ProblemSpec | None:
        """One label."""
        return self._spec_of(len(self.class_labels))

    def spec(self) -> ProblemSpec:
        """One label, with the number of classes."""
        return self._spec_of(self._classes().vocab_size)

    def _classes(self) -> LabelEncoder:
        """Returns the encoder of the classes; declared ones need no vocabulary file."""
        encoder = self.encoders.get(TARGETS)
        return encoder if isinstance(encoder, LabelEncoder) else LabelEncoder(self.class_labels)

    def _spec_of(self, classes: int) -> ProblemSpec:
        label = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=classes)
        return ProblemSpec(name=self.name, features={TARGETS: label})

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Encodes each class name as its id."""
        encoder = self._classes()
        return [{TARGETS: np.asarray(encoder.encode(sample[TARGETS])[0], dtype=np.int32)} for sample in samples]

    def decode_target(self, ids: Any) -> str:
        """Returns the name of a class."""
        return self._classes().decode(ids)
