"""Damages each file of a run, its data and a half-written output (flips bits, cuts, deletes, swaps), then reads it.

The files are found by listing the folder, so that new kinds of files are included automatically.
"""

import os
import random
import shutil
from collections.abc import Callable, Hashable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from t2t.data.manifest import SIDE_FILE
from t2t.errors import UserError
from tests.faults.damaged import READERS, STEPS, VOCAB_KINDS, Reader, Tree, continued, kind_of, make, verdict
from tests.faults.report import Row

FLIPS = 6
"""Bits flipped in a file, one at a time: in the first and tenth bytes, the last one, and random ones."""

Contents = dict[str, bytes | None]
"""Contents of files by name; None for a missing file."""


def rows(
    folder: Path,
    seed: int = 0,
    kinds: Sequence[str] = VOCAB_KINDS,
    damage: Callable[[Path, Contents], None] | None = None,
) -> list[Row]:
    """Damages all files of trees made in an empty folder, at random offsets; returns a row for each kind of damage.

    A row's name ends with the pattern of the files. There is a tree for each of the `kinds` of vocabularies; `damage`
    replaces the function that writes damaged files.
    """
    found: dict[tuple[str, str], Row] = {}
    for vocab_kind in kinds:
        tree = make(folder / vocab_kind, vocab_kind)
        answers = _answers(tree)
        whole = contents_of(tree.folder)
        part = "*" if vocab_kind == kinds[0] else "*vocab*"  # the trees of other kinds differ only in these files
        for fault, pattern, contents in damages(whole, random.Random(seed), part):
            was = {name: whole.get(name) for name in contents}
            for wrong in _injected(tree, answers, READERS[pattern], contents, was, damage or write):
                row = found.setdefault((fault, pattern), Row(f"damaged files, {fault}: {pattern}", wanted=0))
                row.wanted += 1
                if wrong is not None:
                    row.add(wrong and f"{vocab_kind}: {', '.join(contents)}: {wrong}")
    return [found[name] for name in sorted(found)]


def damages(whole: Contents, rng: random.Random, only: str = "*") -> Iterator[tuple[str, str, Contents]]:
    """Yields the name of each fault, the pattern of its files, and their damaged contents."""
    kinds = {name: kind for name in whole if fnmatch(name, only) and (kind := kind_of(name))}
    for name, kind in kinds.items():
        for fault, content in _of_one(whole[name], rng):
            yield fault, kind, {name: content}
    for one, other in _neighbours(kinds):
        if whole[one] != whole[other]:
            yield "exchanged", kinds[one], {one: whole[other], other: whole[one]}
    for folder in sorted({parent.as_posix() for name in kinds for parent in Path(name).parents} - {"."}):
        inside = {name: None for name in kinds if name.startswith(f"{folder}/")}
        for kind in dict.fromkeys(kinds[name] for name in inside):
            yield "folder deleted", kind, inside


def _neighbours(kinds: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields pairs of files: each with the next one of its kind, and with the next one of the same name and kind."""
    for number, (one, kind) in enumerate(kinds.items()):
        alike = [
            name for name in list(kinds)[number + 1 :] if kinds[name] == kind and Path(name).suffix == Path(one).suffix
        ]
        namesakes = [name for name in alike if Path(name).name == Path(one).name]
        yield from ((one, other) for other in dict.fromkeys(alike[:1] + namesakes[:1]))


def _of_one(content: bytes, rng: random.Random) -> Iterator[tuple[str, bytes | None]]:
    yield "deleted", None
    if not content:
        return
    last = len(content) - 1
    for place in sorted({0, min(9, last), last, *(rng.randrange(len(content)) for _ in range(FLIPS - 3))}):
        flipped = bytearray(content)
        flipped[place] ^= 1 << rng.randrange(8)
        yield "bit flipped", bytes(flipped)
    yield "emptied", b""
    yield "half lost", content[: len(content) // 2]
    yield "last byte lost", content[:-1]


def _answers(tree: Tree) -> dict[Reader, tuple[Hashable, Hashable]]:
    """Returns for each reader what it reads from the undamaged tree, and without the latest checkpoint."""
    readers = {reader for readers in READERS.values() for reader in readers}
    usual = {reader: reader(tree) for reader in readers}
    latest = tree.folder / "run/checkpoints" / f"step-{STEPS[-1]:08d}"
    latest.rename(tree.folder / "aside")
    answers = {reader: (usual[reader], _without_latest(reader, tree, usual[reader])) for reader in readers}
    (tree.folder / "aside").rename(latest)
    return answers


def _without_latest(reader: Reader, tree: Tree, usual: Hashable) -> Hashable:
    """Returns what a reader reads now; `usual` if it raises, as for the mean of two checkpoints if one is missing."""
    try:
        return reader(tree)
    except UserError:
        return usual


def _injected(
    tree: Tree, answers: dict, readers: tuple[Reader, ...], contents: Contents, was: Contents, damage: Callable
) -> Iterator[str | None]:
    """Yields the error text of each reader, "" for none, and restores the tree; None if no damage was done."""
    for reader in readers:
        damage(tree.folder, contents)
        if contents == was or any(_content_of(tree.folder / name) != content for name, content in contents.items()):
            yield None
            continue
        before = _marks(tree.folder)
        wrong = verdict(reader, tree, *answers[reader], [tree.folder / name for name in contents])
        if not wrong and before != _marks(tree.folder) and reader is not continued:
            wrong = "something was written"
        write(tree.folder, was)
        yield wrong


def _marks(folder: Path) -> dict[str, tuple[int, int]]:
    """Returns modification time and size of each file except `SIDE_FILE`, which readers of data may write."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in set(names) - {SIDE_FILE}:
            status = os.stat(os.path.join(place, name))
            found[os.path.join(place, name)] = (status.st_mtime_ns, status.st_size)
    return found


def _content_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def contents_of(folder: Path) -> Contents:
    """Returns all files of a folder, with their contents, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def write(folder: Path, contents: Contents) -> None:
    """Writes files; deletes those whose content is None, and folders that are then empty."""
    for name, content in contents.items():
        path = folder / name
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        elif path.exists():
            path.unlink()
            if not any(path.parent.iterdir()):
                shutil.rmtree(path.parent)
