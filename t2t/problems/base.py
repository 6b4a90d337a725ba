"""The base class of problems: what their samples are and which features they have.

A problem yields plain samples (strings, numbers, arrays) from a seeded generator and declares its features. It does not
depend on models or TensorFlow; other packages store the data, batch it and train on it.
"""

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.errors import UnknownNameError, UserError, did_you_mean
from t2t.problems.filters.duplicates import DuplicateKey
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.problems.languages import Languages
from t2t.problems.masking import TokenMasking
from t2t.problems.options import ProblemOptions
from t2t.problems.preprocessors import Preprocessor
from t2t.problems.source import Source
from t2t.registry.overrides import check_overrides
from t2t.registry.tensor2tensor.problems import PROBLEM_ATTRIBUTES
from t2t.specs.constants import DEV, INPUTS, TEST, TRAIN
from t2t.specs.constraints.constraint import OutputConstraint
from t2t.specs.features import FeatureKind, ProblemSpec
from t2t.text.encoder import TextEncoder

Sample = dict[str, Any]
"""One example before encoding: feature name to string, number or array."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """A postprocessed output, see `Problem.finish`."""

    text: str
    repaired: bool = False
    """Whether the output was malformed and had to be repaired, e.g. a tree with an open bracket."""


class Problem(Languages, ABC):
    """Base class of all problems. Subclasses set class attributes and override `generate_samples` and little else."""

    name: str = ""
    """The registered name; set when the problem is looked up."""
    splits: tuple[str, ...] = (TRAIN, DEV)
    """The splits that `generate_samples` can make."""
    metrics: tuple[str, ...] = ()
    """Names of the metrics of decoded outputs, see `t2t.metrics`; the first chooses the `best` checkpoint."""
    continuation_mark: str = ""
    """Suffix of a piece whose word continues in the next one, e.g. `@@`; outputs and references are read joined."""
    single_spaces: bool = False
    """Whether inputs are words with one space between two of them. Samples must be so; in given texts, any ASCII white
    space between words is read as one space."""
    max_length: int = 256
    """Training examples with a sequence of more ids than this, end of sequence included, are dropped; where the target
    is a class they are kept, and training cuts their text instead."""
    chunk_size: int = 0
    """Samples that are encoded together; 0 for the default. Lower it for large samples: several chunks are in memory at
    a time."""
    options_class: ClassVar[type[ProblemOptions]] = ProblemOptions

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        check_overrides(cls, renamed=PROBLEM_ATTRIBUTES)

    def __init__(self, **options: Any):
        known = [field.name for field in dataclasses.fields(self.options_class)]
        for key in options:
            if key not in known:
                raise UnknownNameError(
                    f"problem option {key!r}: {type(self).__name__} has no such option; {did_you_mean(key, known)}"
                    f"it has {', '.join(known) or 'none'}"
                )
        self.options: Any = self.options_class(**options)
        self.encoders = {}

    @abstractmethod
    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the samples of a split, or of one shard of it, one at a time; all randomness is from `source.rng`.

        Raises:
            UserError: raw data are missing or damaged, or could not be downloaded.
        """

    def shards(self, split: str, source: Source) -> int:
        """Returns the number of shards of a split; usually 1, so that it is generated in one piece.

        Different processes, even machines, may generate the shards. If a subclass returns more than 1, its
        `generate_samples` yields only shard `source.shard`, or the whole split where `source.shards` is 1. The number
        must depend only on the raw files and the options, never on the machine.

        Args:
            split: one of `splits`.
            source: has the raw files; `source.cached` keeps results that are slow to compute.

        Raises:
            UserError: as `generate_samples`.
        """
        return 1

    @abstractmethod
    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Returns the vocabulary of each text feature, learnt from the training samples if need be.

        Features that share a vocabulary share the object.
        """

    @abstractmethod
    def spec(self) -> ProblemSpec:
        """Returns the features; needs the encoders."""

    @abstractmethod
    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Turns samples into arrays: token features to (length,) int32 ended by EOS_ID, labels to () int32."""

    def preprocessors(self) -> Sequence[Preprocessor]:
        """Returns the preprocessors that change each training example when it is read, in order; needs the encoders.

        Variants (`_rev`, `_copy`) rename the features afterwards. Evaluation reads examples as they are stored.
        """
        return ()

    def sample_filters(self) -> Sequence[SampleFilter]:
        """Returns the filters that every training sample must pass, cheap ones first.

        Raises:
            UserError: an option asks for a filter that the problem cannot have, or that needs a missing package.
        """
        return ()

    def duplicate_key(self) -> DuplicateKey | None:
        """Returns the key by which duplicate training samples are found and dropped; None to keep duplicates.

        Raises:
            UserError: the samples do not have the feature to compare.
        """
        return None

    def masking(self) -> TokenMasking | None:
        """Returns the masking of tokens in training and evaluation examples; None, the usual case, for no masking.

        It makes inputs and targets from the stored targets, so `columns` must map both to these; needs the encoders.
        """
        return None

    def sample_fault(self, sample: Any) -> str:
        """Returns what is wrong with a sample and what it needs, e.g. `has no 'targets'; it needs ...`.

        Returns an empty string if nothing is wrong. Subclasses with samples of another form override it.
        """
        return "" if isinstance(sample, Mapping) else f"is of type {type(sample).__name__}; it must be a dict"

    def raw_text(self, sample: Sample, feature: str) -> str | None:
        """Returns a feature of a sample as the text that outputs are scored against; None if it is not text.

        Override it if `decode_target` formats text differently from the samples.
        """
        value = sample.get(feature)
        return value if isinstance(value, str) else None

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the user's files that the samples are read from, by their names in messages.

        Their digests are stored with the data, so that a changed file is noticed. Files that do not exist may be
        included.
        """
        return {}

    def raw_data_of(self, split: str) -> str:
        """Returns what a split is read from, for a message."""
        return "its raw data"

    def declared_spec(self) -> ProblemSpec | None:
        """Returns the features without vocabulary sizes; needs no encoders; None if not known."""
        return None

    def nominal_vocab_size(self, feature: str) -> int:
        """Returns the intended vocabulary size of a text feature, before it is learnt; 0 if unknown."""
        return 0

    def nominal_spec(self) -> ProblemSpec | None:
        """Returns the features with nominal vocabulary sizes; needs no encoders; None if not known."""
        declared = self.declared_spec()
        features = dict(declared.features) if declared else {}
        for name, feature in features.items():
            if feature.kind in (FeatureKind.TOKENS, FeatureKind.LABEL) and not feature.vocab_size:
                features[name] = dataclasses.replace(feature, vocab_size=self.nominal_vocab_size(name))
                if not features[name].vocab_size:
                    return None
        return dataclasses.replace(declared, features=features) if declared else None

    def with_encoders(self, encoders: Mapping[str, TextEncoder]) -> "Problem":
        """Gives the problem its vocabularies and returns it; texts then spell no tags that it adds itself."""
        self.encoders = self.reserve_tags(encoders)
        return self

    def decode_input(self, ids: Any) -> str:
        """Returns the text of the ids of an input, without its language's tag or code; empty if inputs are not text."""
        if INPUTS not in self.encoders:
            return ""
        return self.encoders[INPUTS].decode(ids[len(self.language_marks().input_start) :])

    def decode_target(self, ids: Any) -> str:
        """Returns the readable text of the ids that a model outputs."""
        return self.join_words(self.encoders["targets"].decode(ids))

    def join_words(self, text: str) -> str:
        """Joins each piece that ends in `continuation_mark` with the next one."""
        return re.sub(re.escape(self.continuation_mark) + "( |$)", "", text) if self.continuation_mark else text

    def read_target(self, text: str, source: str | None = None) -> str:
        """Returns a given output, as `finish` leaves it, as the text that the vocabulary encodes.

        Args:
            text: the output, or what one begins with.
            source: the input as text; None if it is not known.

        Raises:
            UserError: it is no output for this input.
        """
        return text

    def read_input(self, path: Path) -> np.ndarray:
        """Returns the input in a file as a model reads it, where inputs are recordings or images.

        Raises:
            UserError: the inputs are not read from files, or the file is missing or damaged.
        """
        raise UserError(
            f"{path}: inputs of {self.name} are not read from files; decode a split of generated data, or give arrays "
            f"to translate_ids"
        )

    finishes: ClassVar[bool] = False
    """Whether `finish` changes outputs or reads the input; one that only marks outputs as repaired leaves it False."""

    def finish(self, source: str, output: str) -> Finished:
        """Postprocesses an output (or a reference, read back), given its input.

        Args:
            source: the input as text; may be empty unless `finishes`.
            output: the output as `decode_target` gives it.
        """
        return Finished(output)

    def constraint(self, source: str) -> OutputConstraint | None:
        """Returns the constraint on the output for an input, see `docs/constraints.md`; None to allow any output.

        Inputs without a constraint are decoded as without the others. A problem returns a `FiniteConstraint` or None
        for each input, or a `TreeConstraint` with the same labels for all of them.

        Args:
            source: the input as text, without a language's tag; empty if inputs are not text.
        """
        return None

    output_suffix: ClassVar[str] = ""
    """Suffix of the file that an output can be written to, e.g. `.wav`; empty if outputs are only text."""

    def target_shape(self) -> tuple[int, int, int] | None:
        """Returns (height, width, channels) of the images that the problem generates; None if it generates none."""
        return None

    def output_file(self, output: str) -> bytes:
        """Returns the content of the file of an output; only for problems with an `output_suffix`.

        Args:
            output: as `decode_target` gives it.
        """
        raise NotImplementedError

    @property
    def stored(self) -> "Problem":
        """The problem whose data is generated: itself, or the one that a variant (`_rev`, `_copy`) reads."""
        return self

    @property
    def cut_length(self) -> int:
        """Length in ids above which texts without inputs are cut into equal parts; 0 to cut none.

        Each part is an example; the last one has the end of sequence.
        """
        return 0

    @property
    def columns(self) -> dict[str, str] | None:
        """Feature name to the name it is stored under; None where they are the same."""
        return None

    @property
    def data_name(self) -> str:
        """Name of the generated data."""
        return self.stored.name

    def requirements(self) -> str:
        """Returns which raw files a user must provide and where; empty where none."""
        return ""

    def check_split(self, split: str) -> None:
        """Raises UserError where the problem has no such split."""
        if split not in self.splits:
            raise UserError(f"split {split!r}: {self.name} has {', '.join(self.splits)}; ask for one of these")


__all__ = ["DEV", "TEST", "TRAIN", "Problem", "ProblemOptions", "Sample", "Source"]
