"""What a problem is: data about data.

A problem yields plain samples (strings, numbers, arrays) from a seeded generator and says what its features are. It
knows no model and no TensorFlow. Where the data goes, how it is batched and who learns it is decided elsewhere.
"""

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.errors import UnknownNameError, UserError, did_you_mean
from t2t.files.paths import join_names, local_path, named_files, with_addresses
from t2t.hparams.field import complaint
from t2t.problems.filters.duplicates import DuplicateKey
from t2t.problems.filters.sample_filter import SampleFilter
from t2t.problems.masking import TokenMasking
from t2t.problems.preprocessors import Preprocessor
from t2t.problems.source import Source
from t2t.specs.constants import DEV, INPUTS, TEST, TRAIN
from t2t.specs.features import FeatureKind, ProblemSpec
from t2t.text.encoder import TextEncoder
from t2t.text.tags import find_tag

Sample = dict[str, Any]
"""One example as a person would write it: feature name to string, number or array."""


@dataclasses.dataclass(frozen=True)
class Finished:
    """An output as a person reads it."""

    text: str
    mended: bool = False
    """Whether the output was not what it should be and had to be made so, e.g. a tree with an open bracket."""


def file_option(many: bool = False) -> Any:
    """Returns a field of `ProblemOptions` that is the path of a raw file, empty where none is given.

    Relative paths are made absolute, so that they still hold in another folder. Data made from a file are told from
    others by what it holds, not by where it lies, where `Problem.raw_files` has it.

    Args:
        many: whether several files may be named, see `named_files`; the option becomes their list.
    """
    return dataclasses.field(default="", metadata={_FILE: True, _MANY: many})


_FILE, _MANY = "file", "many"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProblemOptions:
    """What a user may set of a problem from the command line; remembered with the data and with the run."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            kinds = {str: (str,), int: (int,), float: (float, int), bool: (bool,)}.get(kind, (type(value),))
            if type(value) not in kinds and not isinstance(value, Path):
                raise UserError(f"problem option {field.name}={value!r}: it is of type {kind.__name__}; correct it")
            if "minimum" in field.metadata and (wrong := complaint(field, value, "problem option")):
                raise UserError(wrong)
        for field in dataclasses.fields(self):
            if field.metadata.get(_FILE) and (value := getattr(self, field.name)):
                found = join_names(named_files(value)) if field.metadata[_MANY] else str(local_path(value).absolute())
                object.__setattr__(self, field.name, found)

    @classmethod
    def file_names(cls) -> tuple[str, ...]:
        """Returns the names of the options that are paths of files, see `file_option`."""
        return tuple(field.name for field in dataclasses.fields(cls) if field.metadata.get(_FILE))

    def paths(self, name: str) -> list[Path]:
        """Returns the files that an option names, none where it is not given."""
        value = getattr(self, name)
        return named_files(value) if value else []

    def numbered_paths(self, name: str) -> dict[str, Path]:
        """Returns the files that an option names, by its own name, and by that and a number where they are several."""
        paths = self.paths(name)
        return {name if len(paths) == 1 else f"{name} {number}": path for number, path in enumerate(paths, 1)}

    def changed(self) -> dict[str, Any]:
        """Returns the options that differ from their defaults; files of object stores by their addresses."""
        defaults, files = type(self)(), self.file_names()
        changed = {k: v for k, v in dataclasses.asdict(self).items() if v != getattr(defaults, k)}
        return {k: with_addresses(v) if k in files else v for k, v in changed.items()}

    def of_data(self) -> dict[str, Any]:
        """Returns those of the changed options that generated data depends on: not those that only training reads."""
        training = [field.name for field in dataclasses.fields(self) if field.metadata.get("only_trains")]
        return {name: value for name, value in self.changed().items() if name not in training}


class Problem(ABC):
    """One problem. Subclasses declare; they override `generate_samples` and little else."""

    name: str = ""
    """The registered name; set when the problem is looked up."""
    splits: tuple[str, ...] = (TRAIN, DEV)
    """The splits that `generate_samples` can make."""
    metrics: tuple[str, ...] = ()
    """Names of the metrics of its decodes, the first of them choosing `best`; see `t2t.metrics`."""
    source_language: str = ""
    """Code of the language of `inputs`, e.g. `en`; empty where it is not known, or they are no text."""
    target_language: str = ""
    """Code of the language of `targets`; metrics that split words go by it."""
    continuation_mark: str = ""
    """What ends a word that goes on in the next one, e.g. `@@`; outputs and references are read as joined words."""
    max_length: int = 256
    """Training examples with a sequence of more ids than this, end of sequence included, are dropped; where the target
    is a class they are kept, and training cuts their text instead."""
    chunk_size: int = 0
    """Samples that are encoded together, few where they are large, since some chunks are in memory at a time; 0 for as
    many as is usual."""
    options_class: ClassVar[type[ProblemOptions]] = ProblemOptions
    encoders: Mapping[str, TextEncoder]
    """By feature name; set by `with_encoders` once the vocabularies exist."""

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
        """Yields the samples of a split, or of one shard of it, one at a time; all chance comes from `source.rng`.

        Raises:
            UserError: raw data are missing or damaged, or could not be downloaded.
        """

    def shards(self, split: str, source: Source) -> int:
        """Returns how many shards a split has; 1, which is usual, where it is generated in one piece.

        Shards are generated by different processes, perhaps of different machines. A subclass that returns more yields
        of them the one that `source.shard` asks for, or all where `source.shards` is 1. Their number depends
        on the raw files and the options alone, never on the machine.

        Args:
            split: one of `splits`.
            source: has the raw files; `source.cached` remembers what takes long to find out.

        Raises:
            UserError: as `generate_samples`.
        """
        return 1

    @abstractmethod
    def build_encoders(self, source: Source) -> dict[str, TextEncoder]:
        """Returns the vocabulary of each text feature, learnt from the training samples where it has to be.

        Features that share a vocabulary share the object.
        """

    @abstractmethod
    def spec(self) -> ProblemSpec:
        """Returns the features; needs the encoders."""

    @abstractmethod
    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Turns samples into arrays: token features to (length,) int32 ended by EOS_ID, labels to () int32."""

    def preprocessors(self) -> Sequence[Preprocessor]:
        """Returns what changes each training example when it is read, in this order; has the encoders.

        Variants (`_rev`, `_copy`) rename the features afterwards. Evaluation reads examples as they are stored.
        """
        return ()

    def sample_filters(self) -> Sequence[SampleFilter]:
        """Returns the filters of training samples, of which each sample must pass all; cheap ones first.

        Raises:
            UserError: an option asks for a filter that the problem cannot have, or that needs a missing package.
        """
        return ()

    def duplicate_key(self) -> DuplicateKey | None:
        """Returns what training samples are compared by where duplicates are dropped; None to keep them.

        Raises:
            UserError: the samples do not have what is to be compared.
        """
        return None

    def masking(self) -> TokenMasking | None:
        """Returns what hides tokens of each example of training and evaluation; None, which is usual, for nothing.

        It makes inputs and targets of the targets that are read, whose columns both must be; has the encoders.
        """
        return None

    def sample_fault(self, sample: Any) -> str:
        """Returns what is wrong with a sample and what it needs, said of it, e.g. `has no 'targets'; it needs ...`.

        Empty where nothing is wrong. A subclass whose samples have a form of their own overrides it.
        """
        return "" if isinstance(sample, Mapping) else f"is of type {type(sample).__name__}; it must be a dict"

    def raw_text(self, sample: Sample, feature: str) -> str | None:
        """Returns a feature of a sample as text, which outputs are scored against; None for one that is no text.

        A problem whose `decode_target` writes text otherwise than its samples have it overrides it.
        """
        value = sample.get(feature)
        return value if isinstance(value, str) else None

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files of the user's that the samples are read from, by what they are called in messages.

        Their contents are remembered with the data, so that data of other contents is noticed; files that do not
        exist may be among them.
        """
        return {}

    def declared_spec(self) -> ProblemSpec | None:
        """Returns the features without the sizes of their vocabularies, which needs no encoders; None if not known."""
        return None

    def nominal_vocab_size(self, feature: str) -> int:
        """Returns how many ids the vocabulary of a text feature is meant to have, before it is learnt; 0 if unknown."""
        return 0

    def nominal_spec(self) -> ProblemSpec | None:
        """Returns the features with the nominal sizes of vocabularies, which needs no encoders; None if not known."""
        declared = self.declared_spec()
        features = dict(declared.features) if declared else {}
        for name, feature in features.items():
            if feature.kind in (FeatureKind.TOKENS, FeatureKind.LABEL) and not feature.vocab_size:
                features[name] = dataclasses.replace(feature, vocab_size=self.nominal_vocab_size(name))
                if not features[name].vocab_size:
                    return None
        return dataclasses.replace(declared, features=features) if declared else None

    def with_encoders(self, encoders: Mapping[str, TextEncoder]) -> "Problem":
        """Gives the problem its vocabularies and returns it."""
        self.encoders = dict(encoders)
        return self

    _output_language: str = ""
    """Replaces `target_language` in `input_tag`."""

    def write_language(self, language: str) -> None:
        """Makes inputs ask for outputs in another language than `target_language`, by its tag.

        Raises:
            UserError: inputs have no tags, or the vocabulary has none of that language.
        """
        if not getattr(self.options, "language_tags", ""):
            raise UserError(
                f"--target_language={language}: inputs of {self.name} have no language tags; leave it out, or train a "
                f"run with --language_tags"
            )
        find_tag(self.encoders[INPUTS], language, f"--target_language={language}")
        self._output_language = language

    def input_tag(self) -> int | None:
        """Returns the id that each input begins with, the tag of the language of outputs; None for no tags.

        Raises:
            UserError: the problem has no inputs of text or no target language, or the vocabulary no tag of that.
        """
        tags = getattr(self.options, "language_tags", "")
        return self.find_input_tag(tags, self.encoders) if tags else None

    def find_input_tag(self, tags: str, encoders: Mapping[str, TextEncoder]) -> int:
        """Returns the id of the tag of the outputs' language; `tags` is the option. Raises as `input_tag`."""
        language = self._output_language or self.target_language
        if not language or INPUTS not in encoders:
            what = "has no inputs of text" if language else "does not say its target language"
            raise UserError(
                f"--language_tags={tags}: problem {self.name} {what}; leave the tags out, or name the language with "
                f"--target_language where the problem has that option"
            )
        return find_tag(encoders[INPUTS], language, f"--language_tags={tags}: problem {self.name}")

    def decode_target(self, ids: Any) -> str:
        """Returns what a person reads for a model's output."""
        return self.join_words(self.encoders["targets"].decode(ids))

    def join_words(self, text: str) -> str:
        """Returns a text with the words that `continuation_mark` ends joined with the next ones."""
        return re.sub(re.escape(self.continuation_mark) + "( |$)", "", text) if self.continuation_mark else text

    finishes: ClassVar[bool] = False
    """Whether `finish` does anything."""

    def finish(self, source: str, output: str) -> Finished:
        """Returns what becomes of an output (or of a reference, read back) in the light of its input.

        Args:
            source: the input as text.
            output: the output as `decode_target` gives it.
        """
        return Finished(output)

    output_suffix: ClassVar[str] = ""
    """Ending of the file that an output can be written as, with its dot, e.g. `.wav`; empty where it is text alone."""

    def output_file(self, output: str) -> bytes:
        """Returns the content of the file of an output, where there is an `output_suffix`.

        Args:
            output: as `decode_target` gives it.
        """
        raise NotImplementedError

    @property
    def stored(self) -> "Problem":
        """The problem whose data is generated: itself, or the one that a variant (`_rev`, `_copy`) reads."""
        return self

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
