"""The corpus: a folder of files named like Multi30k's, or seeded synthetic text with similar lengths."""

import dataclasses
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from t2t.errors import UserError
from t2t.files.atomic import write_atomically
from t2t.files.line_blocks import LineBlock, read_pairs
from t2t.specs import DEV, TEST, TRAIN

FILES = {TRAIN: "train", DEV: "val", TEST: "test_2016_flickr"}
"""Split -> stem of its file names; the extension is one of SIDES, optionally followed by `.gz`."""

SIDES = ("en", "de")
"""File extensions of source and target."""

PAIRS = 29_000
"""Number of training pairs of synthetic text: that of Multi30k."""

_HELD_OUT = 1000
_BLOCK = 100_000
"""Pairs of synthetic text that are sampled at once; bounds memory."""
_WORDS = 20_000
_SYLLABLES = [a + b for a, b in itertools.product("bdfghjklmnprstvwz", "aeiou")]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Pairs of text files."""

    name: str
    """Origin of the text, and a digest of the training files."""
    files: dict[str, tuple[Path, Path]]
    """Split -> files of source and target, one text per line, plain or .gz."""

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the pairs of a split: one line of source and one of target."""
        return read_pairs([LineBlock(path) for path in self.files[split]], Counter())


def open_corpus(folder: Path | None, home: Path, pairs: int | None = None, sides: tuple[str, ...] = SIDES) -> Corpus:
    """Returns the corpus of a folder, or a synthetic one if `folder` is None.

    Args:
        folder: contains `train.en`, `train.de`, `val.en`, ..., plain or .gz.
        home: folder for generated text, which is written to its subfolder `text`.
        pairs: number of training pairs; those of a folder are repeated or truncated. None: all pairs of the folder, or
            PAIRS of synthetic text.
        sides: file extensions of source and target in the folder.

    Raises:
        UserError: the folder lacks some of the files; the message lists them.
    """
    if folder is None:
        return _synthetic(home / "text", pairs or PAIRS)
    names = {split: [f"{stem}.{side}" for side in sides] for split, stem in FILES.items()}
    files = {split: tuple(_find(folder, name) for name in pair) for split, pair in names.items()}
    missing = [name for pair in names.values() for name in pair if _find(folder, name) is None]
    if missing:
        raise UserError(f"--data={folder}: {', '.join(missing)} not found there, nor with .gz; name Multi30k's folder")
    corpus = _named(folder.name, files)
    return corpus if pairs is None else _of_size(corpus, home / "text", pairs)


def _of_size(corpus: Corpus, folder: Path, pairs: int) -> Corpus:
    """Returns the corpus with exactly `pairs` training pairs, repeated or truncated and written to the folder."""
    paths = tuple(folder / f"{corpus.name}-{pairs}.{side}" for side in SIDES)
    if not all(path.is_file() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        lines = itertools.islice(itertools.cycle(list(corpus.pairs(TRAIN))), pairs)
        for path, side in zip(paths, zip(*lines, strict=True), strict=True):
            write_atomically(path, "".join(f"{line}\n" for line in side).encode())
    return _named(corpus.name, {**corpus.files, TRAIN: paths})


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _named(name: str, files: dict[str, tuple[Path, Path]]) -> Corpus:
    digest = hashlib.sha256()
    for path in files[TRAIN]:
        with path.open("rb") as file:
            while content := file.read(1 << 20):
                digest.update(content)
    return Corpus(f"{name}-{digest.hexdigest()[:8]}", files)


def _synthetic(folder: Path, pairs: int) -> Corpus:
    """Returns a corpus whose targets are word-for-word translations of the sources; word frequencies follow Zipf."""
    return _named("synthetic", write_synthetic(folder, pairs))


def write_synthetic(
    folder: Path, pairs: int, own_words: bool = False, block: int = _BLOCK
) -> dict[str, tuple[Path, Path]]:
    """Writes synthetic text block by block, unless the files exist; returns them by split.

    Args:
        folder: output folder.
        pairs: number of training pairs.
        own_words: whether each pair ends with a unique word, as rare as names and numbers in real text.
        block: number of pairs that are sampled at once.
    """
    files = {}
    for split, stem in FILES.items():
        count = pairs if split == TRAIN else min(pairs, _HELD_OUT)
        files[split] = tuple(folder / f"{stem}-{pairs}.{side}" for side in SIDES)
        if not all(path.is_file() for path in files[split]):
            folder.mkdir(parents=True, exist_ok=True)
            _write(files[split], _pairs(count, len(files), f" {stem}" if own_words else "", block))
    return files


def _write(paths: tuple[Path, Path], pairs: Iterator[tuple[str, str]]) -> None:
    parts = [path.with_name(f"{path.name}.part") for path in paths]
    with parts[0].open("w") as source, parts[1].open("w") as target:
        for one, other in pairs:
            source.write(one + "\n")
            target.write(other + "\n")
    for part, path in zip(parts, paths, strict=True):
        os.replace(part, path)


def _pairs(count: int, seed: int, own_word: str, block: int) -> Iterator[tuple[str, str]]:
    """Yields pairs of lines; unless `own_word` is empty, each ends with a unique word, `own_word` and a number."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, _WORDS + 1)
    words = np.random.default_rng(0)  # fixed seed: all splits share the words of both sides
    source, target = (_vocabulary(words) for _ in range(2))
    for start in range(0, count, block):
        lengths = np.clip(rng.normal(12, 4, min(block, count - start)).round().astype(int), 3, 40)
        drawn = rng.choice(_WORDS, size=int(lengths.sum()), p=weights / weights.sum())
        for number, row in enumerate(np.split(drawn, np.cumsum(lengths)[:-1]), start):
            own = f"{own_word}{number}" if own_word else ""
            yield tuple(" ".join(language[word] for word in row.tolist()) + own for language in (source, target))


def _vocabulary(rng: np.random.Generator) -> list[str]:
    """Returns distinct words, most frequent first; frequent words are short."""
    found: dict[str, None] = {}
    while len(found) < _WORDS:
        syllables = 1 + (len(found) > 60) + (len(found) > 4000) + int(rng.integers(0, 2))
        found["".join(rng.choice(_SYLLABLES, syllables))] = None
    return list(found)
