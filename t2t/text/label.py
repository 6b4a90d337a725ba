"""Names of classes: a label is one id, and no id is reserved, since a label is no sequence."""

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from t2t.errors import UserError
from t2t.registry import register_vocabulary
from t2t.text.encoder import TextEncoder, lines_of_file

logger = logging.getLogger("t2t")


@register_vocabulary
class LabelEncoder(TextEncoder):
    """The classes of a problem; a class's id is its position in the list.

    Args:
        names: of the classes; each once, without line ends.
    """

    kind = "label"
    file_suffix = ".labels"
    is_learned = False

    def __init__(self, names: Iterable[str]):
        self.names = tuple(names)
        """Names of the classes in the order of their ids."""
        for name in self.names:
            if not name or "\n" in name or "\r" in name:
                raise UserError(f"class {name!r}: the name of a class is one line of text", "correct it")
        twice = [name for name, count in Counter(self.names).items() if count > 1]
        if twice:
            raise UserError(f"class {twice[0]!r} is listed more than once", "list every class once")
        self._ids = {name: position for position, name in enumerate(self.names)}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._ids

    @property
    def vocab_size(self) -> int:
        """Number of classes."""
        return len(self.names)

    def encode(self, text: str) -> list[int]:
        """Returns the id of a class, as a list of one.

        Raises:
            UserError: there is no class of that name.
        """
        if text not in self._ids:
            raise UserError(f"class {text!r} is not one of {listed(self.names)}", "use one of them")
        return [self._ids[text]]

    def decode(self, ids: Any) -> str:
        """Returns the name of a class.

        Args:
            ids: its id: an integer, or an array or sequence that holds nothing else.
        """
        (position,) = np.ravel(ids)
        return self.names[int(position)]

    def decode_ids(self, ids: list[int]) -> str:
        """Returns the name of a class."""
        return self.decode(ids)

    def piece(self, token_id: int) -> str:
        """Returns the name of a class."""
        return self.names[token_id]

    def to_bytes(self) -> bytes:
        """Returns the names in UTF-8, one per line; line numbers, from 0, are the ids."""
        return "".join(name + "\n" for name in self.names).encode("utf-8")

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `to_bytes` wrote."""
        return cls(lines_of_file(content, "list of classes", is_ours=True))

    @classmethod
    def build(cls, lines: Iterable[str], size: int = 0) -> Self:
        """Collects the classes that occur, in code-point order; `size` is ignored."""
        return cls(sorted(set(lines)))


def warn_of_same_looks(names: Iterable[str]) -> None:
    """Warns of each class whose name differs from an earlier one's only in white space, such as U+00A0."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(" ".join(name.split()), name)
        if other != name:
            logger.warning("classes %r and %r differ only in white space; if they are one, write it once", other, name)


def listed(names: Iterable[str], most: int = 10) -> str:
    """Returns names for a message, the first few of many."""
    names = tuple(map(str, names))
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
