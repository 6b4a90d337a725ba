"""Text: a sequence of ids of a vocabulary."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np

from t2t.errors import UserError
from t2t.features.feature import Feature, text_fault
from t2t.registry import register_feature
from t2t.specs.features import FeatureSpec
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder, encoder_class, learn
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.tags import parse_languages, tag_of
from t2t.text.words import TokenEncoder


@register_feature
@dataclasses.dataclass(frozen=True)
class Text(Feature):
    """Text: samples have a str.

    Args:
        vocabulary: its kind, see `t2t.text`; if it is empty, `token` with `words`, else `sentencepiece`.
    """

    vocabulary: str = ""
    size: int = 8192
    """Number of pieces to learn, reserved ids included; ignored by kinds of a fixed size."""
    words: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)
    """All words, if they are known beforehand."""
    shared: bool = dataclasses.field(default=True, kw_only=True)
    """Whether it uses one vocabulary with the other text features of which this holds."""
    sample_bytes: int = dataclasses.field(default=40_000_000, kw_only=True)
    """Most bytes of training text that the vocabulary is learned from, sampled evenly over the corpus."""
    cut_length: int | None = dataclasses.field(default=None, kw_only=True)
    """Length in ids above which texts of problems without inputs are cut into equal parts, each an example; the last
    one has the end of sequence. 0 to cut none; None for the problem's `max_length`."""
    tells_words: bool = dataclasses.field(default=False, kw_only=True)
    """Whether the spec says which ids begin words, for `positions=words`."""
    write: Callable[[str], bytes] | None = dataclasses.field(default=None, kw_only=True)
    """Returns the content of the file of an output; None without an `output_suffix`."""

    is_free: ClassVar[bool] = True
    """Whether it is free text: its vocabulary can be learned or given, and filters of text apply to it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vocabulary", self.vocabulary or ("token" if self.words else "sentencepiece"))
        encoder_class(self.vocabulary)

    def with_options(self, options: Any) -> Self:
        """The options `vocab_kind` and `vocab_size`."""
        if not self.is_free:
            return self
        return dataclasses.replace(
            self,
            vocabulary=getattr(options, "vocab_kind", "") or self.vocabulary,
            size=getattr(options, "vocab_size", 0) or self.size,
        )

    def spec(self, encoder: TextEncoder | None = None) -> FeatureSpec:
        """Tokens."""
        starts = encoder.word_starts() if encoder and self.tells_words else ""
        return dataclasses.replace(super().spec(encoder), word_starts=starts)

    def nominal_spec(self, encoder: TextEncoder | None = None) -> FeatureSpec | None:
        """Tokens, with the size to be learned; word starts as if each id began a word."""
        size = encoder.vocab_size if encoder else self.size
        return dataclasses.replace(self.spec(), vocab_size=size, word_starts="1" * size * self.tells_words)

    def plain(self) -> Feature:
        """The ids alone, where they stand for something else than text."""
        if self.is_free:
            return self
        return Text(self.vocabulary, self.size, words=self.words, shared=self.shared, single_spaces=self.single_spaces)

    def fixed_encoder(self) -> TextEncoder | None:
        """Bytes, or the known words."""
        if self.vocabulary == ByteEncoder.kind:
            return ByteEncoder()
        return TokenEncoder(self.words) if self.words and self.vocabulary == TokenEncoder.kind else None

    def learn(self, lines: Iterable[str], problem: str, language_tags: str = "") -> TextEncoder:
        """Returns a vocabulary of this kind and size.

        Args:
            lines: training text.
            problem: its name, for messages.
            language_tags: languages to reserve tags for, as the option has them.

        Raises:
            UserError: vocabularies of the kind have no tags, or the text is empty.
        """
        if not language_tags:
            return learn(self.vocabulary, lines, self.size)
        if self.vocabulary != SentencePieceEncoder.kind:
            raise UserError(
                f"the vocabulary of {problem} is of kind {self.vocabulary}, which reserves no tags",
                f"choose --vocab_kind={SentencePieceEncoder.kind}",
                option="language_tags",
                value=language_tags,
            )
        reserved = [tag_of(language) for language in parse_languages(language_tags)]
        return SentencePieceEncoder.build(lines, self.size, reserved)

    def needed(self, encoder: TextEncoder | None = None) -> str:
        """A str."""
        return "a str"

    def fault(self, value: Any, name: str, encoder: TextEncoder | None = None) -> str:
        """A text is a str of valid Unicode."""
        return text_fault(value, name)

    def encode(self, values: list[Any], encoder: TextEncoder | None = None) -> list[np.ndarray]:
        """Encodes many texts at once, end of sequence added."""
        return self.require(encoder).encode_ended(values)

    def output_file(self, output: str) -> bytes:
        """What `write` makes."""
        if self.write is None:
            raise NotImplementedError
        return self.write(output)
