"""Tensor2Tensor's translation problems from lists of corpora."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from t2t.compat.tensor2tensor import generator_utils, problem, text_encoder, text_problems

EOS = text_encoder.EOS_ID
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*)</seg>")


class TranslateProblem(text_problems.Text2TextProblem):
    """Text in one language to text in another; `source_data_files` lists corpora: [address, (source, target)]."""

    def source_data_files(self, dataset_split: str) -> Sequence[Any]:
        """Returns the corpora of a split; plug-ins write it."""
        raise NotImplementedError(f"{type(self).__name__} has no source_data_files")

    def vocab_data_files(self) -> Sequence[Any]:
        """Returns the corpora that the vocabulary is learnt from."""
        return self.source_data_files(problem.DatasetSplit.TRAIN)

    @property
    def datatypes_to_clean(self) -> list[str]:
        """Kinds of corpora to clean; nothing here reads it."""
        return []

    def generate_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str, custom_iterator: Any = None
    ) -> Iterator[dict[str, Any]]:
        """Yields the pairs of lines of the corpora of a split."""
        path = compile_data(tmp_dir, self.source_data_files(dataset_split), f"{self.name}-compiled-{dataset_split}")
        iterator = custom_iterator or text_problems.text2text_txt_iterator
        return iterator(path + ".lang1", path + ".lang2")  # type: ignore[no-any-return]

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields lines of both sides of the corpora, at most 1 MB of each file."""
        for address, files in self.vocab_data_files():
            sides = _sides(tmp_dir, address, files)
            for side in (0, 1):
                taken = 0
                for pair in sides():
                    taken += len(pair[side].encode())
                    if taken > generator_utils.VOCAB_BYTES:
                        break
                    yield pair[side]


class TranslateDistillProblem(TranslateProblem):
    """The same for distilled data."""


def compile_data(tmp_dir: str, datasets: Sequence[Any], filename: str, datatypes_to_clean: Any = None) -> str:
    """Writes the corpora of a list into two files with one sentence a line; returns their path without `.lang1`.

    Raises:
        UserError: a file of a corpus is not in `tmp_dir`, and neither is its archive.
    """
    path = os.path.join(tmp_dir, filename)
    if os.path.exists(path + ".lang1") and os.path.exists(path + ".lang2"):
        return path
    parts = [f"{path}.{side}.part" for side in ("lang1", "lang2")]
    with open(parts[0], "w", encoding="utf-8") as first, open(parts[1], "w", encoding="utf-8") as second:
        for address, files in datasets:
            for source, target in _sides(tmp_dir, address, files)():
                if source and target:
                    first.write(source + "\n")
                    second.write(target + "\n")
    for part in parts:
        os.replace(part, part.removesuffix(".part"))
    return path


def bi_vocabs_token_generator(
    source_path: str, target_path: str, source_token_vocab: Any, target_token_vocab: Any, eos: int | None = None
) -> Iterator[dict[str, list[int]]]:
    """Yields the ids of the pairs of lines of two files, each with `eos` at its end if it is given."""
    end = [] if eos is None else [eos]
    lines = map(text_problems.txt_line_iterator, (source_path, target_path))
    for source, target in zip(*lines, strict=False):
        inputs, targets = source_token_vocab.encode(source), target_token_vocab.encode(target)
        yield {"inputs": [*inputs, *end], "targets": [*targets, *end]}


def token_generator(source_path: str, target_path: str, token_vocab: Any, eos: int | None = None) -> Iterator[Any]:
    """The same with one vocabulary."""
    return bi_vocabs_token_generator(source_path, target_path, token_vocab, token_vocab, eos)


character_generator = token_generator


def tabbed_generator(
    source_path: str, source_vocab: Any, target_vocab: Any, eos: int | None = None
) -> Iterator[dict[str, list[int]]]:
    """Yields the ids of the lines of a file with a TAB between source and target."""
    end = [] if eos is None else [eos]
    for pair in text_problems.text2text_txt_tab_iterator(source_path):
        inputs, targets = source_vocab.encode(pair["inputs"]), target_vocab.encode(pair["targets"])
        yield {"inputs": [*inputs, *end], "targets": [*targets, *end]}


def _sides(tmp_dir: str, address: str, files: Sequence[Any]) -> Any:
    """Returns a function that yields the pairs of sentences of a corpus."""
    if files[0] == "tsv":  # ("tsv", column of the source, column of the target, pattern of the file's name)
        source_column, target_column, pattern = files[1:4]
        names = generator_utils.find_corpus_files(tmp_dir, address, pattern)
        return lambda: _columns(names, source_column, target_column)
    source, target = (generator_utils.find_corpus_file(tmp_dir, address, name) for name in files[:2])
    return lambda: zip(_sentences(source), _sentences(target), strict=False)


def _columns(paths: Iterable[str], source_column: int, target_column: int) -> Iterator[tuple[str, str]]:
    for path in paths:
        for line in generator_utils.lines_of_file(path):
            parts = line.split("\t")
            if len(parts) > max(source_column, target_column):
                source, target = parts[source_column].strip(), parts[target_column].strip()
                if source and target:
                    yield source, target


def _sentences(path: str) -> Iterator[str]:
    """Yields the sentences of a file of lines, or of segments in SGML."""
    is_sgml = path.removesuffix(".gz").endswith(".sgm")
    for line in generator_utils.lines_of_file(path):
        if is_sgml and (segment := _SEGMENT.search(line)):
            yield segment[1].strip()
        elif not is_sgml:
            yield line.strip()
