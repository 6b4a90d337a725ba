"""Tensor2Tensor's helpers of generators: raw files, vocabularies in the data folder, names of shards.

Nothing is downloaded: a file that is missing is asked for by its name, its address and the folder to put it in.
"""

import contextvars
import glob
import gzip
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from t2t.compat.tensor2tensor import text_encoder
from t2t.errors import UserError
from t2t.problems.archives import unpack_tar

UNSHUFFLED_SUFFIX = "-unshuffled"
VOCAB_BYTES = 1_000_000
"""Of each file of a corpus, most bytes of text that a vocabulary is learnt from."""


def maybe_download(directory: str, filename: str, uri: str, **unused: Any) -> str:
    """Returns the path of a raw file that the user has put into a folder, or that `uri` names on this machine.

    Raises:
        UserError: it is not there; the message says where it comes from.
    """
    path = os.path.join(directory, filename)
    if not os.path.exists(path) and os.path.isfile(uri):
        shutil.copyfile(uri, path)
    if not os.path.exists(path):
        raise UserError(f"{path}: there is no such file, and nothing is downloaded here", f"fetch it from {uri}")
    return path


maybe_download_from_drive = maybe_download


def gunzip_file(gz_path: str, new_path: str) -> None:
    """Unpacks a .gz file, unless it is unpacked already."""
    if not os.path.exists(new_path):
        with gzip.open(gz_path, "rb") as packed, open(f"{new_path}.part", "wb") as plain:
            shutil.copyfileobj(packed, plain)
        os.replace(f"{new_path}.part", new_path)


def unpack_archive(path: str, directory: str) -> None:
    """Unpacks a tar archive into a folder, without files that would lie elsewhere."""
    unpack_tar(Path(path), Path(directory))


def make_tmp_dir(suffix: str = "", prefix: str = "tmp", dir: str | None = None) -> str:
    """Returns a new temporary folder."""
    return tempfile.mkdtemp(suffix, prefix, dir)


def lines_of_file(path: str) -> Iterator[str]:
    """Yields the lines of a text file, plain or gzip, without their ends."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace", newline="\n") as file:  # type: ignore[operator]
        for line in file:
            yield line.rstrip("\r\n")


def get_or_generate_vocab_inner(
    data_dir: str | None, vocab_filename: str, vocab_size: int, generator: Iterable[str],
    max_subtoken_length: int | None = None, reserved_tokens: Sequence[str] | None = None,
) -> text_encoder.SubwordTextEncoder:  # fmt: skip
    """Returns the subword vocabulary of a file in the data folder; if there is none, learns it and writes the file."""
    path = os.path.join(data_dir, vocab_filename) if data_dir and vocab_filename else None
    if path and os.path.exists(path):
        return text_encoder.SubwordTextEncoder(path)
    encoder = text_encoder.SubwordTextEncoder.build_from_generator(generator, vocab_size)
    if path:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        encoder.store_to_file(path)
    return encoder


def get_or_generate_vocab(
    data_dir: str, tmp_dir: str, vocab_filename: str, vocab_size: int, sources: Sequence[Any],
    file_byte_budget: float = VOCAB_BYTES, max_subtoken_length: int | None = None,
) -> text_encoder.SubwordTextEncoder:  # fmt: skip
    """The same for the text of a list of corpora, each (address, names of its files)."""
    lines = generate_lines_for_vocab(tmp_dir, sources, file_byte_budget)
    return get_or_generate_vocab_inner(data_dir, vocab_filename, vocab_size, lines)


def get_or_generate_txt_vocab(
    data_dir: str, vocab_filename: str, vocab_size: int, filepatterns: str | Iterable[str]
) -> text_encoder.SubwordTextEncoder:
    """The same for the text of files, given by one pattern or several."""
    patterns = [filepatterns] if isinstance(filepatterns, str) else filepatterns
    paths = sorted(path for pattern in patterns for path in glob.glob(pattern))
    lines = (line for path in paths for line in lines_of_file(path))
    return get_or_generate_vocab_inner(data_dir, vocab_filename, vocab_size, lines)


def get_or_generate_tabbed_vocab(
    data_dir: str, tmp_dir: str, source_filename: str, index: int, vocab_filename: str, vocab_size: int
) -> text_encoder.SubwordTextEncoder:
    """The same for one column of a file with TABs in `tmp_dir`."""
    rows = (line.split("\t") for line in lines_of_file(os.path.join(tmp_dir, source_filename)) if "\t" in line)
    columns = (row[index].strip() for row in rows)
    return get_or_generate_vocab_inner(data_dir, vocab_filename, vocab_size, columns)


def generate_lines_for_vocab(
    tmp_dir: str, sources: Sequence[Any], file_byte_budget: float = VOCAB_BYTES
) -> Iterator[str]:
    """Yields lines of a list of corpora, each (address, names of its files), spread evenly over each file."""
    for address, names in sources:
        for name in names:
            path = find_corpus_file(tmp_dir, address, name)
            size, taken = os.path.getsize(path), 0
            skip = max(0, int(size / file_byte_budget / 2))  # about every so many lines
            for number, line in enumerate(lines_of_file(path)):
                if number % (skip + 1):
                    continue
                if taken > file_byte_budget:
                    break
                taken += len(line.encode())
                yield line.strip()


def find_corpus_file(tmp_dir: str, address: str, name: str) -> str:
    """Returns the path of a file of a corpus in `tmp_dir`, which is unpacked from its archive if need be.

    Raises:
        UserError: neither the file nor its archive is there.
    """
    path = os.path.join(tmp_dir, name)
    if not os.path.exists(path):
        archive = os.path.join(tmp_dir, os.path.basename(address))
        if os.path.exists(f"{path}.gz") and path != archive:
            gunzip_file(f"{path}.gz", path)
        elif not os.path.exists(archive):
            raise UserError(
                f"{path}: neither this file nor its archive {os.path.basename(address)} exists, and nothing "
                f"is downloaded here; put one of them into {tmp_dir} (--tmp_dir)",
                f"it comes from {address}",
            )
        else:
            unpack_archive(archive, tmp_dir)
    if path.endswith(".gz"):
        gunzip_file(path, path.removesuffix(".gz"))
        path = path.removesuffix(".gz")
    if not os.path.exists(path):
        raise UserError(f"{path}: it is not in {os.path.basename(address)}", f"check the archive, from {address}")
    return path


def find_corpus_files(tmp_dir: str, address: str, pattern: str) -> list[str]:
    """Returns the files of a corpus whose names match a pattern; raises UserError if there is none."""
    found = sorted(glob.glob(os.path.join(tmp_dir, pattern)))
    return found or [find_corpus_file(tmp_dir, address, pattern)]


Taken = tuple[Iterable[Any], list[str]]
"""Samples, and the splits of the shards that they are dealt out to."""
_TAKEN: contextvars.ContextVar[list[Taken] | None] = contextvars.ContextVar("taken", default=None)


def is_taken() -> bool:
    """Returns whether samples are taken instead of being written."""
    return _TAKEN.get() is not None


def samples_written(
    generate_data: Callable[[str, str], None], data_dir: str, tmp_dir: str, split: str
) -> Iterator[Any]:
    """Yields the samples that a problem's own `generate_data` would write to the files of a split."""
    taken: list[Taken] = []
    token = _TAKEN.set(taken)
    try:
        generate_data(data_dir, tmp_dir)
    finally:
        _TAKEN.reset(token)
    for samples, splits in taken:
        if split in splits:
            yield from (one for number, one in enumerate(samples) if splits[number % len(splits)] == split)


def generate_files(
    generator: Iterable[Any], output_filenames: Sequence[str], max_cases: int | None = None, cycle_every_n: int = 1
) -> None:
    """Takes samples for files; raises UserError outside of a generation, since nothing here reads such files."""
    taken = _TAKEN.get()
    names = [os.path.basename(path) for path in output_filenames]
    if taken is None:
        raise UserError(
            f"generate_files: {names[0]} would be in Tensor2Tensor's format, which nothing here reads",
            "call t2t-datagen, or t2t.generate_data",
        )
    splits = [next(split for split in ("train", "dev", "test") if f"-{split}-" in name) for name in names]
    taken.append((itertools.islice(generator, max_cases), splits))


def generate_dataset_and_shuffle(
    train_gen: Iterable[Any], train_paths: Sequence[str], dev_gen: Iterable[Any], dev_paths: Sequence[str],
    shuffle: bool = True,
) -> None:  # fmt: skip
    """The same for two splits."""
    generate_files(train_gen, train_paths)
    generate_files(dev_gen, dev_paths)


def shuffle_dataset(filenames: Sequence[str], extra_fn: Any = None) -> None:
    """Leaves the order to training, which reads in random order here."""


def _names(problem: str, split: str, output_dir: str, num_shards: int, shuffled: bool) -> list[str]:
    infix = "" if shuffled else UNSHUFFLED_SUFFIX
    return [
        os.path.join(output_dir, f"{problem}{infix}-{split}-{number:05d}-of-{num_shards:05d}")
        for number in range(num_shards)
    ]


def train_data_filenames(problem: str, output_dir: str, num_shards: int, shuffled: bool = False) -> list[str]:
    """Returns the names of Tensor2Tensor's training files."""
    return _names(problem, "train", output_dir, num_shards, shuffled)


def dev_data_filenames(problem: str, output_dir: str, num_shards: int, shuffled: bool = False) -> list[str]:
    """Returns the names of Tensor2Tensor's files of the dev split."""
    return _names(problem, "dev", output_dir, num_shards, shuffled)


def test_data_filenames(
    problem: str,
    output_dir: str,
    num_shards: int,
    shuffled: bool = False,  # noqa: PT028 - no test
) -> list[str]:
    """Returns the names of Tensor2Tensor's files of the test split."""
    return _names(problem, "test", output_dir, num_shards, shuffled)
