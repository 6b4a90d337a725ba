"""Tensor2Tensor's vocabularies: thin views of those of `t2t.text`, which have the same ids and files."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t.errors import UserError
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder as OwnEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.subword_build import detokenize, tokenize
from t2t.text.vocabulary_files import read_vocabulary
from t2t.text.words import UNKNOWN, WordListEncoder

PAD, EOS = "<pad>", "<EOS>"
RESERVED_TOKENS = [PAD, EOS]
NUM_RESERVED_TOKENS = len(RESERVED_TOKENS)
PAD_ID, EOS_ID = 0, 1
RESERVED_TOKENS_BYTES = [PAD.encode(), EOS.encode()]


class Tensor2TensorTextEncoder:
    """A vocabulary; this base class reads and writes ids as numbers in a text."""

    own: OwnEncoder | None = None
    """The vocabulary of `t2t.text` with the same ids; None if there is none."""

    def __init__(self, num_reserved_ids: int = NUM_RESERVED_TOKENS):
        self._num_reserved_ids = num_reserved_ids

    @property
    def num_reserved_ids(self) -> int:
        """Number of ids for padding and end of sequence."""
        return self._num_reserved_ids

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        if self.own is None:
            raise NotImplementedError
        return self.own.vocab_size

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text, without an end of sequence."""
        if self.own is None:
            return [int(word) + self._num_reserved_ids for word in s.split()]
        return self.own.encode(s)

    def decode(self, ids: Iterable[int], strip_extraneous: bool = False) -> str:
        """Returns the text of ids, up to the end of sequence."""
        if self.own is None:
            return " ".join(str(number - self._num_reserved_ids) for number in ids)
        return self.own.decode(int(number) for number in ids)

    def decode_list(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id."""
        if self.own is None:
            return [str(number) for number in ids]
        return [self.own.piece(int(number)) for number in ids]


TextEncoder = Tensor2TensorTextEncoder
"""The name that plug-ins know."""


class ByteTextEncoder(Tensor2TensorTextEncoder):
    """Bytes of UTF-8, after the reserved ids."""

    def __init__(self, num_reserved_ids: int = NUM_RESERVED_TOKENS):
        super().__init__(num_reserved_ids)
        self.own = ByteEncoder()


class ByteTextEncoderWithEos(ByteTextEncoder):
    """The same with an end of sequence."""

    def encode(self, s: str) -> list[int]:
        """Returns the ids of a text and of its end."""
        return [*super().encode(s), EOS_ID]


class SubwordTextEncoder(Tensor2TensorTextEncoder):
    """Subwords of a file, or of training text."""

    def __init__(self, filename: str | None = None):
        super().__init__()
        self.filename = filename
        if filename is not None:
            self.own = _read(filename, SubwordEncoder)

    @classmethod
    def build_from_generator(
        cls, generator: Iterable[str], target_size: int, max_subtoken_length: int | None = None,
        reserved_tokens: Sequence[str] | None = None,
    ) -> "SubwordTextEncoder":  # fmt: skip
        """Learns about `target_size` pieces from texts."""
        encoder = cls()
        encoder.own = SubwordEncoder.build(generator, target_size)
        return encoder

    @classmethod
    def build_to_target_size(
        cls, target_size: int, token_counts: Counter[str], min_val: int = 1, max_val: int = 1000,
        **unused: Any,
    ) -> "SubwordTextEncoder":  # fmt: skip
        """Learns about `target_size` pieces from counted tokens."""
        return cls.build_from_generator((token for token, n in token_counts.items() for _ in range(n)), target_size)

    @property
    def all_subtoken_strings(self) -> set[str]:
        """The pieces."""
        return set(self.decode_list(range(self.vocab_size)))

    def encode_without_tokenizing(self, token_text: str) -> list[int]:
        """Returns the ids of a text."""
        return self.encode(token_text)

    def store_to_file(self, filename: str, add_single_quotes: bool = True) -> None:
        """Writes the pieces to a file, one a line."""
        assert self.own is not None, "it has been read or built"
        Path(filename).write_bytes(self.own.to_bytes())


class TokenTextEncoder(Tensor2TensorTextEncoder):
    """Words of a file, one a line, or of a list; ids are the numbers of the lines."""

    def __init__(
        self, vocab_filename: str | None, reverse: bool = False, vocab_list: Iterable[str] | None = None,
        replace_oov: str | None = None, num_reserved_ids: int = NUM_RESERVED_TOKENS,
    ):  # fmt: skip
        super().__init__(num_reserved_ids)
        self._reverse, self._replace_oov = reverse, replace_oov
        if vocab_filename:
            self.own = _read(vocab_filename, WordListEncoder)
        else:
            words = [word for word in vocab_list or () if word not in RESERVED_TOKENS]
            self.own = WordListEncoder([*RESERVED_TOKENS, *words])
        if reverse:
            raise UserError("TokenTextEncoder(reverse=True): no vocabulary here reverses texts", "reverse the samples")
        pieces = self.decode_list(range(self.vocab_size))
        if replace_oov and not {replace_oov, *UNKNOWN} & set(pieces):
            raise UserError(
                f"TokenTextEncoder(replace_oov={replace_oov!r}): it is not in {vocab_filename or 'the list'}", "add it"
            )
        if replace_oov and not set(UNKNOWN) & set(pieces):  # unknown words have another name here, and the same id
            self.own = WordListEncoder([UNKNOWN[0] if piece == replace_oov else piece for piece in pieces])

    def store_to_file(self, filename: str) -> None:
        """Writes the words to a file, one a line."""
        assert self.own is not None, "it has been read"
        Path(filename).write_bytes(self.own.to_bytes())


class ClassLabelEncoder(Tensor2TensorTextEncoder):
    """Names of classes; the id of a class is its place, without reserved ids."""

    def __init__(self, class_labels: Sequence[str] | None = None, class_labels_fname: str | None = None):
        super().__init__(num_reserved_ids=0)
        if class_labels_fname:
            class_labels = [line.strip() for line in Path(class_labels_fname).read_text("utf-8").strip().split("\n")]
        self.class_labels = list(class_labels or ())

    @property
    def vocab_size(self) -> int:
        """Number of classes."""
        return len(self.class_labels)

    def encode(self, s: str) -> Any:
        """Returns the id of a class."""
        return self.class_labels.index(s)

    def decode(self, ids: Any, strip_extraneous: bool = False) -> str:
        """Returns the name of a class, given its id, alone or in a list."""
        return self.class_labels[int(ids[0] if isinstance(ids, list | tuple) else ids)]


def _read(path: str, kind: type[OwnEncoder]) -> OwnEncoder:
    if kind is WordListEncoder and os.path.exists(path):
        content = Path(path).read_bytes()
        has_reserved = content.split()[:NUM_RESERVED_TOKENS] == RESERVED_TOKENS_BYTES
        # The first versions had no reserved words in the file; ids 0 and 1 mean the same in all versions.
        return kind.from_bytes(content if has_reserved else b"\n".join([*RESERVED_TOKENS_BYTES, content]))
    encoder = read_vocabulary(path)
    if not isinstance(encoder, kind):  # files of both kinds are lines of text
        encoder = kind.from_bytes(Path(path).read_bytes())
    return encoder


def strip_ids(ids: Sequence[int], ids_to_strip: Iterable[int]) -> list[int]:
    """Returns ids without those to strip at their end."""
    kept, strip = list(ids), set(ids_to_strip)
    while kept and kept[-1] in strip:
        kept.pop()
    return kept


def to_unicode(s: Any, ignore_errors: bool = False) -> str:
    """Returns text as str."""
    return s.decode("utf-8", "ignore" if ignore_errors else "strict") if isinstance(s, bytes) else str(s)


def to_unicode_ignore_errors(s: Any) -> str:
    """Returns text as str, without bytes that are not UTF-8."""
    return to_unicode(s, ignore_errors=True)


native_to_unicode = unicode_to_native = to_unicode_utf8 = to_unicode


# Of the module `tokenizer`


def encode(text: str) -> list[str]:
    """Returns the tokens of a text: runs of letters and digits, and what lies between them."""
    return tokenize(text)


def decode(tokens: Iterable[str]) -> str:
    """Returns the text of tokens."""
    return detokenize(tokens)


def corpus_token_counts(text_filepattern: str, corpus_max_lines: int, split_on_newlines: bool = True) -> Counter[str]:
    """Returns how often each token occurs in the files of a pattern, up to a number of lines; 0 for all."""
    counts: Counter[str] = Counter()
    read = 0
    for path in sorted(glob.glob(text_filepattern)):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if corpus_max_lines and read >= corpus_max_lines:
                    return counts
                counts.update(tokenize(line.rstrip("\n")))
                read += 1
    return counts
