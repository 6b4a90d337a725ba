"""Encodes samples as checked arrays, chunk by chunk and in order; worker processes may share the chunks.

A chunk is a pure function of its samples, so the bytes written do not depend on the number of workers.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.data.columns import SEQUENCES, FeatureColumn, cut, first_not_finite, pack, repeat
from t2t.data.generation.plan import open_problem
from t2t.data.generation.tally import JSON, WITH_TABS, SampleCounts
from t2t.errors import UserError
from t2t.features.audio import Audio
from t2t.features.text import Text
from t2t.problems.base import Problem, feature_of
from t2t.problems.filters import EMPTY, drop_reasons
from t2t.problems.samples import SampleRecord, check_samples, chunk_samples
from t2t.problems.vocabularies import text_names
from t2t.specs import INPUTS, TARGETS, TRAIN
from t2t.specs.features import FeatureKind, FeatureSpec

CHUNK = 1000
"""Samples per chunk, unless a problem or its features set `chunk_size`."""


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Consecutive encoded samples, without those that training cannot use."""

    columns: dict[str, FeatureColumn]
    kept: np.ndarray
    """(samples passed in,) bool: False for those left out."""
    filtered: np.ndarray
    """(samples passed in,) bool: True for those that a filter dropped."""
    counts: SampleCounts
    """Of these samples, except for those that were repaired."""
    texts: dict[str, list[str]]
    """The raw text of each text feature; empty for the training split."""
    altered: frozenset[str]
    """Text features for which some ids do not decode to the original text."""


def encode_chunk(
    problem: Problem, features: Mapping[str, FeatureSpec], split: str, samples: list[SampleRecord], first: int = 1
) -> Chunk:
    """Encodes consecutive samples, numbered from `first`; drops training samples that are empty or too long.

    Dev and test splits are kept whole, since scores are over all of their samples. Long texts without inputs are cut
    into several examples, of all splits; see `Text.cut_length`.

    Raises:
        UserError: the problem's code returns values that its spec does not allow, or a value is not finite.
    """
    check_samples(problem, split, samples, first)
    reasons = drop_reasons(problem, samples) if split == TRAIN else [None] * len(samples)
    dropped = Counter(reason for reason in reasons if reason)
    kept = np.array([reason is None for reason in reasons], dtype=bool)
    filtered = np.array([reason not in (None, EMPTY) for reason in reasons], dtype=bool)
    numbers = np.flatnonzero(kept)
    wanted = [samples[number] for number in numbers]
    encoded = problem.encode_samples([sample.features for sample in wanted]) if wanted else []
    columns = {}
    for name, spec in features.items():
        if any(name not in example for example in encoded):
            raise UserError(f"problem {problem.name}: an example lacks feature {name!r}", "correct its encode_samples")
        columns[name] = pack([example[name] for example in encoded], spec, name, problem.name)
    is_aligned = len(encoded) == len(wanted)  # False where a problem's code joins samples
    _check_finite(problem, columns, split, wanted if is_aligned else [], first + numbers)
    texts: dict[str, list[str]] = {}
    repeated = ids = lost = 0
    cut_length = _cut_length(problem, features)
    if split == TRAIN:
        fit = _fit(problem, features, columns, dropped, is_cut=cut_length > 0)
        lengths = [columns[name].lengths for name in features if name in _text_features(problem)]
        ids, lost = (sum(int(one[rows].sum()) for one in lengths) for rows in (slice(None), ~fit))
        copies = np.where(fit, [sample.copies for sample in wanted] if is_aligned else 1, 0)
        columns = {name: repeat(column, copies) for name, column in columns.items()}
        repeated = int(copies.sum() - fit.sum())
        if is_aligned:
            kept[numbers] = fit
    elif is_aligned:
        texts = _raw_texts(problem, features, samples)
    counts = SampleCounts(
        read=len(samples), filtered=int(filtered.sum()), repeated=repeated, dropped=+dropped, ids=ids, lost=lost,
        cut=int((columns[TARGETS].lengths > cut_length).sum()) if cut_length else 0, odd=_count_odd(problem, samples),
        unknown=_count_unknown(problem, columns),
        normalized=_count_normalized(problem, [samples[number] for number in np.flatnonzero(kept)]),
    )  # fmt: skip
    altered = _altered_features(problem, texts, encoded)
    if cut_length:
        columns = {TARGETS: cut(columns[TARGETS], cut_length)}
    return Chunk(columns, kept, filtered, counts, texts, altered)


def _text_features(problem: Problem) -> tuple[str, ...]:
    """Returns the features that are text; codes of sound are none."""
    if feature_of(problem, TARGETS).output_suffix:
        return ()
    return tuple(text_names(problem))


def _cut_length(problem: Problem, features: Mapping[str, FeatureSpec]) -> int:
    """Returns the length in ids above which texts are cut, see `Text.cut_length`; 0 to cut none."""
    text = problem.features.get(TARGETS)
    if set(features) != {TARGETS} or not isinstance(text, Text):
        return 0
    return problem.max_length if text.cut_length is None else text.cut_length


def _count_odd(problem: Problem, samples: list[SampleRecord]) -> Counter:
    """Returns the number of samples with columns or JSON in a text; targets may well be JSON that is to be written."""
    names = _text_features(problem)
    given = INPUTS if INPUTS in names else TARGETS
    counts: Counter = Counter()
    for sample in samples:
        texts = {name: text for name in names if isinstance(text := sample.features[name], str)}
        counts[WITH_TABS] += any("\t" in text for text in texts.values())
        counts[JSON] += (text := texts.get(given, ""))[:1] == "{" and text.rstrip()[-1:] == "}"
    return +counts


def _check_finite(
    problem: Problem, columns: dict[str, FeatureColumn], split: str, samples: list[SampleRecord], numbers: np.ndarray
) -> None:
    """Raises UserError if a feature contains nan or infinity: training would end in `nan` much later.

    `samples` is empty if it is not known which sample became which example.
    """
    for name, column in columns.items():
        row = first_not_finite(column)
        if row is None:
            continue
        which = f"sample {numbers[row]:,}" if samples else f"one of the samples from {numbers[0]:,} on"
        value = samples[row].features.get(name) if samples else None
        file = f" ({value})" if isinstance(value, Path) else ""
        raise UserError(
            f"problem {problem.name}: {which} of split {split!r}{file} has a value in {name!r} that is not finite "
            "(nan or infinite)",
            "correct the recording or file that it comes from, or leave the sample out",
        )


def _count_unknown(problem: Problem, columns: Mapping[str, FeatureColumn]) -> Counter:
    """Returns the number of ids that stand for unknown words, by feature."""
    counts: Counter = Counter()
    for name, column in columns.items():
        unknown_id = problem.encoders[name].unknown_id if name in problem.encoders else None
        if unknown_id is not None:
            counts[name] = int((column.values == unknown_id).sum())
    return +counts


def _count_normalized(problem: Problem, samples: list[SampleRecord]) -> Counter:
    """Returns the number of texts that vocabularies with normalization change, by feature."""
    counts: Counter = Counter()
    for name, encoder in problem.encoders.items():
        if encoder.normalizes:
            texts = (problem.raw_text(sample.features, name) for sample in samples)
            counts[name] = encoder.count_changed([text for text in texts if text is not None])
    return +counts


def _raw_texts(
    problem: Problem, features: Mapping[str, FeatureSpec], samples: list[SampleRecord]
) -> dict[str, list[str]]:
    names = [name for name in features if name in problem.encoders]
    texts = {name: [problem.raw_text(sample.features, name) for sample in samples] for name in names}
    return {name: [text for text in column if text is not None] for name, column in texts.items() if None not in column}


def _altered_features(
    problem: Problem, texts: dict[str, list[str]], encoded: list[dict[str, np.ndarray]]
) -> frozenset[str]:
    """Returns the features with a text that its ids do not decode to, because of unknown words or lost white space."""
    readers = {name: problem.decode_target if name == TARGETS else problem.encoders[name].decode for name in texts}
    return frozenset(
        name
        for name, column in texts.items()
        if any(readers[name](example[name]) != text for example, text in zip(encoded, column, strict=True))
    )


def _fit(
    problem: Problem,
    features: Mapping[str, FeatureSpec],
    columns: dict[str, FeatureColumn],
    dropped: Counter,
    *,
    is_cut: bool = False,
) -> np.ndarray:
    """Returns (examples,) bool: False for those with an empty or too long side, which are counted in `dropped`.

    Text may have any length if it is cut, now or, where the target is a class, in training.
    """
    rows = len(next(iter(columns.values())).lengths)
    empty, long, lasting = np.zeros((3, rows), dtype=bool)
    sounds = [feature for feature in problem.features.values() if isinstance(feature, Audio)]
    seconds = max((sound.max_seconds for sound in sounds), default=0.0)
    is_cut |= features[TARGETS].kind == FeatureKind.LABEL
    for name, spec in features.items():
        lengths = columns[name].lengths
        if spec.kind == FeatureKind.TOKENS:
            empty |= lengths <= 1  # nothing but the end of sequence
            if not is_cut:
                long |= lengths > problem.max_length
        elif spec.kind in SEQUENCES:
            empty |= lengths == 0
        if spec.kind == FeatureKind.AUDIO and seconds:
            lasting |= lengths > seconds * spec.sample_rate
    dropped[EMPTY] += int(empty.sum())
    dropped[f"longer than {problem.max_length} ids"] += int((long & ~empty).sum())
    dropped[f"longer than {seconds:g} s"] += int((lasting & ~long & ~empty).sum())
    return ~(empty | long | lasting)


# === Samples to chunks, in this process or others ===
def encode_samples(
    problem: Problem, folder: Path, plan: str, split: str, samples: list[SampleRecord], first: int
) -> Chunk:
    """Returns an encoded chunk, see `encode_chunk`, by the vocabularies of a plan.

    Args:
        problem: as it was constructed.
        folder: in which data is generated.
        plan: its fingerprint.
        split: of the samples.
        samples: consecutive ones.
        first: number of the first of them in its split.
    """
    return encode_chunk(*_opened(problem, folder, plan), split, samples, first)


@functools.lru_cache(maxsize=1)
def _opened(problem: Problem, folder: Path, plan: str) -> tuple[Problem, Mapping[str, FeatureSpec]]:
    opened = open_problem(problem, folder, plan)
    return opened, opened.spec().features


MapChunks = Callable[..., Iterator[Any]]
"""Called like `map_chunks` without its problem."""


def map_chunks(
    problem: Problem, function: Callable[..., Any], samples: Iterable[SampleRecord], *arguments: Any
) -> Iterator[Any]:
    """Yields `function(problem, *arguments, chunk, first)` for each chunk of samples, in order; see `chunks_of`."""
    return (function(problem, *arguments, chunk, first) for first, chunk in chunks_of(problem, samples))


def chunks_of(problem: Problem, samples: Iterable[SampleRecord]) -> Iterator[tuple[int, list[SampleRecord]]]:
    """Yields chunks of samples to encode together, each with the number of its first sample, counted from 1."""
    sizes = [feature.chunk_size for feature in problem.features.values() if feature.chunk_size]
    return chunk_samples(samples, problem.chunk_size or min(sizes, default=CHUNK))
