"""What a model must know about a problem: the kinds and sizes of its features, as plain data.

Problems and models never import each other; both use these specs. Specs convert to JSON, which run directories store.
"""

import enum
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, SupportsIndex, TypeVar

from t2t.errors import UserError
from t2t.specs import INPUTS, TARGETS


class FeatureKind(enum.StrEnum):
    """The type of a feature's values."""

    TOKENS = "tokens"
    """A sequence of ids, (length,) int32, ended by EOS_ID and padded with PAD_ID."""
    LABEL = "label"
    """The id of a class, () int32."""
    IMAGE = "image"
    """Intensities, (height, width, channels) uint8."""
    AUDIO = "audio"
    """A waveform, (samples,) float32 in [-1, 1]; padded with zeros: zeros at its end count as padding."""
    REAL = "real"
    """A sequence of vectors, (length, channels) float32."""
    VIDEO = "video"
    """A clip, (frames, height, width, channels) uint8; padded with zeros: black frames at its end count as padding."""


@dataclass(frozen=True, kw_only=True)
class FeatureSpec:
    """One feature of a problem."""

    kind: FeatureKind
    vocab_size: int = 0
    """Number of ids or classes; 0 where the feature has none."""
    shape: tuple[int, ...] = ()
    """Fixed part of the shape: (height, width, channels) of an image or a frame, (channels,) of real vectors."""
    sample_rate: int = 0
    """Samples per second of audio."""
    word_starts: str = ""
    """For tokens, one character per id: `1` if the id begins or is a word, else `0`; empty if that is not known."""

    def __post_init__(self) -> None:
        """Converts lists and numpy numbers to plain Python values, so that JSON restores an equal spec.

        Raises:
            TypeError, ValueError: a field is of another type, or there is no such kind.
        """
        if not isinstance(self.shape, Sequence) or isinstance(self.shape, str):
            raise TypeError(f"shape is of type {type(self.shape).__name__}, not tuple")
        object.__setattr__(self, "kind", FeatureKind(self.kind))
        object.__setattr__(self, "shape", tuple(_as_int(size, "shape") for size in self.shape))
        for name in ("vocab_size", "sample_rate"):
            object.__setattr__(self, name, _as_int(getattr(self, name), name))
        if not isinstance(self.word_starts, str):
            raise TypeError(f"word_starts is of type {type(self.word_starts).__name__}, not str")
        if self.word_starts and (len(self.word_starts) != self.vocab_size or set(self.word_starts) - set("01")):
            raise ValueError(f"word_starts is not a 0 or 1 for each of {self.vocab_size} ids")


@dataclass(frozen=True, kw_only=True)
class ProblemSpec:
    """The features of a problem and how their vocabularies relate."""

    name: str
    features: Mapping[str, FeatureSpec] = field(default_factory=dict)
    """By feature name; `targets` always, `inputs` where the problem has a source side."""
    shared_vocabulary: bool = False
    """Whether inputs and targets use one vocabulary, so that their embeddings may be one table."""
    members: tuple["ProblemSpec", ...] = ()
    """The problems of a mixture, which has no features of its own."""

    def __post_init__(self) -> None:
        """Converts values to plain ones, see `FeatureSpec`.

        Raises:
            TypeError: a field is of another type.
        """
        object.__setattr__(self, "features", dict(self.features))
        object.__setattr__(self, "members", tuple(self.members))
        for name, kind, values in (
            ("name", str, [self.name]),
            ("features", FeatureSpec, self.features.values()),
            ("shared_vocabulary", bool, [self.shared_vocabulary]),
            ("members", ProblemSpec, self.members),
        ):
            if not all(isinstance(value, kind) for value in values):
                raise TypeError(f"{name} of a spec is or holds something else than {kind.__name__}")

    @property
    def inputs(self) -> FeatureSpec | None:
        """The source side, or None (language models); of a mixture, that of its first problem."""
        return self.members[0].inputs if self.members else self.features.get(INPUTS)

    @property
    def targets(self) -> FeatureSpec:
        """What is predicted."""
        return self.features[TARGETS]

    def member(self, problem: str) -> "ProblemSpec":
        """Returns the spec of one problem of a mixture."""
        return next(member for member in self.members if member.name == problem)

    def to_dict(self) -> dict[str, Any]:
        """Returns the spec as plain JSON, which `t2t.files.trust.read_record` reads."""
        return asdict(self, dict_factory=_without_empty)


def _without_empty(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the fields of a spec, without those that older records do not have, if they are empty."""
    return {name: value for name, value in fields if value or name not in ("word_starts", "members")}


def _as_int(value: SupportsIndex, name: str) -> int:
    """Returns an integer as a Python int; raises TypeError for anything else, bool included."""
    if isinstance(value, bool):
        raise TypeError(f"{name} is of type bool, not int")
    return operator.index(value)


# === Mixtures: `a-b` is that of the problems `a` and `b`; names of their entries are prefixed, as `a.inputs` ===

T = TypeVar("T")

MEAN = "mean"
"""First part of the names of figures that are means over the problems."""


def split_mixture(name: str) -> tuple[str, ...]:
    """Returns the names of the problems, in order; of a single problem, its own.

    Raises:
        UserError: a name is missing or given twice.
    """
    names = tuple(name.split("-"))
    for one in names:
        if not one and len(names) > 1:
            raise UserError(
                "a name is missing", "give names of problems with one - between two", option="problems", value=name
            )
        if names.count(one) > 1:
            raise UserError(f"{one} is in it twice", "name each problem once", option="problems", value=name)
    return names


def mixture_of(names: Iterable[str]) -> str:
    """Returns the name of the mixture of some problems."""
    return "-".join(names)


def select_problem_entries(entries: Mapping[str, T], problem: str) -> dict[str, T]:
    """Returns the entries of one problem, by name without the prefix."""
    start = f"{problem}."
    return {name.removeprefix(start): value for name, value in entries.items() if name.startswith(start)}


def merge_problem_entries(by_problem: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Merges the entries of several problems, each name prefixed by its problem; a single problem gets no prefix."""
    if len(by_problem) == 1:
        return dict(next(iter(by_problem.values())))
    return {f"{problem}.{name}": value for problem, entries in by_problem.items() for name, value in entries.items()}
