"""Text as its UTF-8 bytes: no vocabulary to learn, no unknown text, long sequences."""

from collections.abc import Iterable
from typing import Self

from t2t.errors import UserError
from t2t.registry import register_vocabulary
from t2t.text.encoder import TextEncoder

_RESERVED = ("<pad>", "</s>")
_CONTENT = b"bytes: id = byte + 2; 0 is padding, 1 is end of sequence\n"


@register_vocabulary
class ByteEncoder(TextEncoder):
    """Bytes shifted past padding and end of sequence: id = byte + 2, as Tensor2Tensor has it."""

    kind = "byte"
    file_suffix = ".bytes"

    @property
    def vocab_size(self) -> int:
        """258: the reserved two and every byte."""
        return len(_RESERVED) + 256

    def encode(self, text: str) -> list[int]:
        """Returns one id per byte of the text in UTF-8."""
        return [byte + len(_RESERVED) for byte in text.encode("utf-8")]

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the text; bytes that are not UTF-8 become U+FFFD, since a model may write anything."""
        return bytes(token_id - len(_RESERVED) for token_id in ids).decode("utf-8", errors="replace")

    def piece(self, token_id: int) -> str:
        """Returns the character of a printable ASCII byte, `<0xC3>` for any other byte."""
        if token_id < len(_RESERVED):
            return _RESERVED[token_id]
        byte = token_id - len(_RESERVED)
        return chr(byte) if 0x20 < byte < 0x7F else f"<0x{byte:02X}>"

    def to_bytes(self) -> bytes:
        """Returns a line that describes the ids; there is nothing else to store."""
        return _CONTENT

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Checks that the content is a byte vocabulary's."""
        if content != _CONTENT:
            raise UserError(
                f"byte vocabulary: the file holds {len(content)} bytes of something else; it must hold the line "
                f"{_CONTENT.decode().strip()!r}",
                "generate the data again",
            )
        return cls()

    @classmethod
    def build(cls, lines: Iterable[str], size: int) -> Self:
        """Returns the one byte vocabulary; reads no line and needs no size."""
        return cls()
