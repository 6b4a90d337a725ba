"""The base class of problems: what their samples are and which features they have.

A problem yields plain samples (strings, numbers, arrays) from a seeded generator and declares its features. It does not
depend on models or TensorFlow; other packages store the data, batch it and train on it.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from t2t.errors import UnknownNameError, UserError, did_you_mean
from t2t.features.feature import Feature, Finished
from t2t.features.text import Text
from t2t.problems.filters import DuplicateKey, FilterOptions, language_filters, length_filters, text_duplicate_key
from t2t.problems.languages import Languages
from t2t.problems.options import ProblemOptions
from t2t.problems.preprocessors import Preprocessor, TokenMasking
from t2t.problems.samples import GenerationContext, Sample, SampleFilter, Source
from t2t.problems.vocabularies import TextOptions, build_encoders, free_texts, known_encoders, share_ids
from t2t.registry import FEATURES, PREPROCESSORS
from t2t.registry.overrides import PluginError, check_overrides, described, shown
from t2t.registry.tensor2tensor import PROBLEM_ATTRIBUTES
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN
from t2t.specs.constraints import OutputConstraint
from t2t.specs.features import ProblemSpec
from t2t.text.encoder import TextEncoder


class Problem(ABC):
    """Base class of all problems. Subclasses set class attributes and override `generate_samples` and little else."""

    name: str = ""
    """The registered name; set when the problem is looked up."""
    splits: tuple[str, ...] = (TRAIN, DEV)
    """The splits that `generate_samples` can make."""
    metrics: tuple[str, ...] = ()
    """Names of the metrics of decoded outputs, see `t2t.metrics`; the first chooses the `best` checkpoint."""
    max_length: int = 256
    """Training examples with a sequence of more ids than this, end of sequence included, are dropped; where the target
    is a class they are kept, and training cuts their text instead."""
    chunk_size: int = 0
    """Samples that are encoded together; 0 for what the features say. Lower it for large samples: several chunks are in
    memory at a time."""
    source_language: str = ""
    """Code of the language of `inputs`, e.g. `en`; empty if it is unknown, or they are not text."""
    target_language: str = ""
    """Code of the language of `targets`; metrics choose their tokenizer by it."""
    options_class: ClassVar[type[ProblemOptions]] = ProblemOptions
    encoders: Mapping[str, TextEncoder]
    """By feature name, the vocabularies; set by `with_encoders` once they exist."""

    _not_of_data: ClassVar[tuple[str, ...]] = (
        "name", "options", "encoders", "metrics", "finishes", "continuation_mark", "chunk_size", "output_suffix",
    )  # fmt: skip
    """Public attributes that a class has and that do not affect the data; all others do."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        check_overrides(cls, renamed=PROBLEM_ATTRIBUTES)
        declared, has_text = vars(cls).get("features"), False
        if isinstance(declared, Mapping):
            named = {name: FEATURES.get(one)() if isinstance(one, str) else one for name, one in declared.items()}
            wrong = [f"{name!r} is {shown(one)}" for name, one in named.items() if not isinstance(one, Feature)]
            if wrong or (named and TARGETS not in named):
                raise PluginError(
                    f"{described(cls)}: features: {', '.join(wrong) or 'there are no targets'}",
                    'write features = {"inputs": Text(), "targets": Text()}, or other features, each an object',
                )
            setattr(cls, "features", named)  # noqa: B010 - a property of the base class
            has_text = any(isinstance(one, Text) for one in named.values())
        if has_text and cls.options_class is ProblemOptions:
            cls.options_class = TextOptions

    def __init__(self, **options: Any):
        known = [field.name for field in dataclasses.fields(self.options_class)]
        for key in options:
            if key not in known:
                raise UnknownNameError(
                    f"problem option {key!r}: {type(self).__name__} has no such option",
                    f"{did_you_mean(key, known)}it has {', '.join(known) or 'none'}",
                )
        self.options: Any = self.options_class(**options)
        self.encoders = {}
        declared: Any = type(self).features
        if declared is Problem.features and type(self).encode_samples is Problem.encode_samples:
            raise UserError(
                f"{described(type(self))}: it declares no features",
                "write features = {'inputs': Text(), 'targets': Text()} with features of t2t.features, or derive it "
                "from Text2Text or another base class",
            )
        if isinstance(declared, Mapping):
            self.__dict__["features"] = {name: one.with_options(self.options) for name, one in declared.items()}
            self.finishes = self.finishes or feature_of(self, TARGETS).finishes

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features of a sample by name: `targets`, and `inputs` where the problem has a source side.

        A problem declares them, `features = {"inputs": Text("byte"), "targets": Label()}`, or overrides this property.
        The name of a registered feature stands for one with its default settings: `{"inputs": "text", ...}`.
        """
        return {}

    # === Samples ===
    @abstractmethod
    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Any]:
        """Yields the samples of a split, or of one shard of it, one at a time; all randomness is from `context.rng`.

        A sample is a dict of the features' values, or a `SampleRecord` with one.

        Raises:
            UserError: raw data are missing or damaged, or could not be downloaded.
        """

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of shards of a split; usually 1, so that it is generated in one piece.

        Different processes, even machines, may generate the shards. If a subclass returns more than 1, its
        `generate_samples` yields only shard `context.shard`, or the whole split where `context.shards` is 1. The number
        must depend only on the raw files and the options, never on the machine.

        Args:
            split: one of `splits`.
            context: has the raw files; `context.cached` keeps results that are slow to compute.

        Raises:
            UserError: as `generate_samples`.
        """
        return 1

    def check_split(self, split: str) -> None:
        """Raises UserError where the problem has no such split."""
        if split not in self.splits:
            raise UserError(f"split {split!r}: {self.name} has {', '.join(self.splits)}", "ask for one of these")

    def sample_fault(self, sample: Any) -> str:
        """Returns what is wrong with a sample and what it needs, e.g. `has no 'targets'; it needs ...`.

        Returns an empty string if nothing is wrong. Subclasses with samples of another form override it.
        """
        if not isinstance(sample, dict | Mapping):  # dict first: its check is the faster one
            fault = f"is of type {type(sample).__name__}"
        else:
            for name, feature in self.features.items():
                if name not in sample:
                    fault = f"has no {name!r}"
                    break
                if fault := feature.fault(sample[name], name, self.encoders.get(name)):
                    break
            else:
                return ""
        needed = (f"{one.needed(self.encoders.get(name))} for {name!r}" for name, one in self.features.items())
        return f"{fault}; it must be a dict{' with ' * bool(self.features)}{' and '.join(needed)}"

    def raw_text(self, sample: Sample, feature: str) -> str | None:
        """Returns a feature of a sample as the text that outputs are scored against; None if it is not text.

        Override it if `decode_target` formats text differently from the samples.
        """
        return feature_of(self, feature).text(sample.get(feature), self.encoders.get(feature))

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the user's files that the samples are read from, by their names in messages.

        Their digests are stored with the data, so that a changed file is noticed. Files that do not exist may be
        included.
        """
        return self.options.numbered_paths("vocab_file") if isinstance(self.options, TextOptions) else {}

    def raw_data_of(self, split: str) -> str:
        """Returns what a split is read from, for a message."""
        return "its raw data"

    def requirements(self) -> str:
        """Returns which raw files a user must provide and where; empty where none."""
        return ""

    def sample_filters(self) -> Sequence[SampleFilter]:
        """Returns the filters that every training sample must pass, cheap ones first: those that the options ask for.

        Raises:
            UserError: an option asks for a filter that the problem cannot have, or that needs a missing package.
        """
        if not isinstance(self.options, FilterOptions):
            return ()
        texts, languages = free_texts(self), {INPUTS: self.source_language, TARGETS: self.target_language}
        found = list(length_filters(self.options, texts))
        if self.options.filter_language:
            found += language_filters(self.options, {name: languages[name] for name in texts})
        return tuple(found)

    def duplicate_key(self) -> DuplicateKey | None:
        """Returns the key by which duplicate training samples are found and dropped; None to keep duplicates.

        Raises:
            UserError: the samples do not have the feature to compare.
        """
        if not isinstance(self.options, FilterOptions):
            return None
        return text_duplicate_key(self.options, {name: one.spec() for name, one in self.features.items()})

    # === Encoding ===
    def build_encoders(self, context: GenerationContext) -> dict[str, TextEncoder]:
        """Returns the vocabulary of each text feature, learned from the training samples if need be.

        Features that share a vocabulary share the object.
        """
        return build_encoders(self, context)

    def with_encoders(self, encoders: Mapping[str, TextEncoder]) -> Self:
        """Gives the problem its vocabularies and returns it; texts then spell no tags that it adds itself."""
        self.encoders = self.languages.reserve_tags(encoders)
        return self

    def spec(self) -> ProblemSpec:
        """Returns the features; needs the encoders."""
        features = {name: feature.spec(self.encoders.get(name)) for name, feature in self.features.items()}
        return ProblemSpec(name=self.name, features=features, shared_vocabulary=share_ids(self.features, self.encoders))

    def encode_samples(self, samples: list[Sample]) -> list[dict[str, np.ndarray]]:
        """Turns samples into arrays: token features to (length,) int32 ended by EOS_ID, labels to () int32."""
        columns = {
            name: feature.encode([sample[name] for sample in samples], self.encoders.get(name))
            for name, feature in self.features.items()
        }
        for name, arrays in columns.items():
            if len(arrays) != len(samples):
                raise PluginError(
                    f"{described(type(self.features[name]))}: its encode returned {len(arrays)} arrays for "
                    f"{len(samples)} values",
                    "return one for each",
                )
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def preprocessors(self) -> Sequence[Preprocessor]:
        """Returns the preprocessors that change each training example when it is read, in order; needs the encoders.

        Variants (`_rev`, `_copy`) rename the features afterwards. Evaluation reads examples as they are stored.

        Raises:
            UserError: there is no preprocessor of a name, or it cannot change these texts.
        """
        changes = self.options.random_changes() if isinstance(self.options, TextOptions) else ()
        names = [name for name, feature in self.features.items() if isinstance(feature, Text)]
        encoders = {name: self.encoders[name] for name in names if changes}
        return tuple(PREPROCESSORS.get(name).of_texts(encoders, rate) for name, rate in changes)

    # === Outputs ===
    def decode_input(self, ids: Any) -> str:
        """Returns the text of the ids of an input, without its language's tag or code; empty if inputs are not text."""
        if INPUTS not in self.encoders:
            return ""
        return self.encoders[INPUTS].decode(ids[len(self.languages.marks().input_start) :])

    def decode_target(self, ids: Any) -> str:
        """Returns the readable text of the ids that a model outputs."""
        return feature_of(self, TARGETS).decode(ids, self.encoders.get(TARGETS))

    def read_target(self, text: str, source: str | None = None) -> str:
        """Returns a given output, as `finish` leaves it, as the text that the vocabulary encodes.

        Args:
            text: the output, or what one begins with.
            source: the input as text; None if it is not known.

        Raises:
            UserError: this input cannot have such an output.
        """
        return feature_of(self, TARGETS).read_output(text, source)

    finishes: bool = False
    """Whether `finish` changes outputs or reads the input; one that only marks outputs as repaired leaves it False."""

    def finish(self, source: str, output: str) -> Finished:
        """Postprocesses an output (or a reference, read back), given its input.

        Args:
            source: the input as text; may be empty unless `finishes`.
            output: the output as `decode_target` gives it.
        """
        return feature_of(self, TARGETS).finish(source, output, self.encoders.get(TARGETS))

    def constraint(self, source: str) -> OutputConstraint | None:
        """Returns the constraint on the output for an input, see `docs/constraints.md`; None to allow any output.

        Inputs without a constraint are decoded as without the others. A problem returns a `FiniteConstraint` or None
        for each input, or a `TreeConstraint` with the same labels for all of them.

        Args:
            source: the input as text, without a language's tag; empty if inputs are not text.
        """
        return feature_of(self, TARGETS).constraint(source, self.encoders.get(TARGETS))

    # === Relations to other problems ===
    @property
    def languages(self) -> Languages:
        """The marks of languages in the ids of texts."""
        return Languages(self)

    @property
    def stored(self) -> "Problem":
        """The problem whose data is generated: itself, or the one that a variant (`_rev`, `_copy`) reads."""
        return self

    @property
    def columns(self) -> dict[str, str] | None:
        """Feature name to the name it is stored under; None where they are the same."""
        return None

    def masking(self) -> TokenMasking | None:
        """Returns the masking of tokens in training and evaluation examples; None, the usual case, for no masking.

        It makes inputs and targets from the stored targets, so `columns` must map both to these; needs the encoders.
        """
        return None


def subclass(base: type[Problem], name: str, summary: str, module: str, **attributes: Any) -> type[Problem]:
    """Returns a class of problems that differ from `base` in some attributes, for families that are tables."""
    camel_case = "".join(map(str.capitalize, name.split("_")))
    return type(camel_case, (base,), {"__doc__": summary, "__module__": module, **attributes})


def feature_of(problem: Problem, name: str) -> Feature:
    """Returns a feature of a problem; of one that declares none but overrides the methods, a feature without settings.

    Mixtures and problems without that side have such a feature, too.
    """
    return problem.features.get(name) or Feature()


def read_input(problem: Problem, path: Path) -> np.ndarray:
    """Returns the input in a file as a model reads it, where inputs are recordings or images.

    Raises:
        UserError: the inputs are not read from files, or the file is missing or damaged.
    """
    content = feature_of(problem, INPUTS).read_file(path)
    if content is None:
        raise UserError(
            f"{path}: inputs of {problem.name} are not read from files",
            "decode a split of generated data, or give arrays to translate_ids",
        )
    return content


def declared_spec(problem: Problem) -> ProblemSpec | None:
    """Returns the features without the sizes of vocabularies that are not known yet; None if they are not declared."""
    if TARGETS not in problem.features:
        return None
    features = {name: feature.spec() for name, feature in problem.features.items()}
    return ProblemSpec(name=problem.name, features=features)


def nominal_spec(problem: Problem) -> ProblemSpec | None:
    """Returns the features with the intended sizes of vocabularies that are yet to be learned; None if not known.

    Raises:
        UserError: the problem is a variant that swaps or copies what is not text.
    """
    stored = problem.stored
    known = known_encoders(stored)
    found = {name: feature.nominal_spec(known.get(name)) for name, feature in stored.features.items()}
    specs = {name: spec for name, spec in found.items() if spec is not None}
    if TARGETS not in specs or len(specs) < len(found):
        return None
    if problem.columns is not None:
        check_texts(problem, problem.columns.values(), [name for name, spec in specs.items() if spec.vocab_size])
    columns = problem.columns or {name: name for name in specs}
    used = {column: stored.features[column] for column in columns.values()}
    features = {name: specs[column] for name, column in columns.items()}
    shared = len(used) < len(columns) or share_ids(used, known)
    return ProblemSpec(name=problem.name, features=features, shared_vocabulary=shared)


def check_texts(problem: Problem, needed: Iterable[str], found: Container[str]) -> None:
    """Raises UserError for a variant of a problem without some text features (or classes) to swap or copy."""
    for name in needed:
        if name not in found:
            raise UserError(
                f"problem {problem.name}: {problem.stored.name} has no text feature {name!r} to swap or copy",
                f"use {problem.stored.name} itself",
            )


__all__ = ["DEV", "TEST", "TRAIN", "Finished", "GenerationContext", "Problem", "ProblemOptions", "Sample", "Source"]
