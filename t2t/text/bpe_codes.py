"""Byte-pair encoding of words by a list of merges, as in the files of subword-nmt and fastBPE.

Sennrich et al. 2016, *Neural Machine Translation of Rare Words with Subword Units* (arXiv:1508.07909), section 3.2: a
word begins as its characters, the last of which is marked as the end of a word. The pair of neighbours that comes first
on the list is joined everywhere in the word, until no pair is on the list.
"""

from itertools import pairwise

from t2t.errors import UserError
from t2t.text.encoder import lines_of_file

END = "</w>"
"""Marks the end of a word in a list of merges."""

_HEADER = "#version:"
_CURE = "get the codes again"


class BpeCodes:
    """Cuts words by a list of merges.

    Args:
        content: of a file of codes: one pair per line, in the order of merging. If a file of subword-nmt does not begin
            with `#version: 0.2`, the mark of a word's end is a separate piece. Lines of fastBPE end with a count.

    Raises:
        UserError: the file is not UTF-8, or a line is no pair.
    """

    def __init__(self, content: bytes):
        lines = lines_of_file(content.replace(b"\r\n", b"\n").rstrip(b"\n"), "BPE codes", _CURE)
        version = lines.pop(0).removeprefix(_HEADER).strip() if lines[0].startswith(_HEADER) else "0.1"
        pairs = [tuple(line.strip(" ").split(" ")) for line in lines if line]
        if version == "0.1" and pairs and all(len(pair) == 3 and pair[2].isdecimal() for pair in pairs):
            version, pairs = "0.2", [pair[:2] for pair in pairs]
        if version not in ("0.1", "0.2") or not pairs:
            raise UserError(
                f"BPE codes: version {version}, {len(pairs)} lines; files of versions 0.1 and 0.2 can be read; {_CURE}"
            )
        if wrong := [pair for pair in pairs if len(pair) != 2]:
            raise UserError(f"BPE codes: {' '.join(wrong[0])[:60]!r} is no pair of pieces; {_CURE}")
        self._marks_apart = version == "0.1"
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(pairs)))}

    def cut(self, word: str) -> list[str]:
        """Returns the pieces of a word of one character or more; joined, they are the word."""
        pieces = [*word, END] if self._marks_apart else [*word[:-1], word[-1] + END]
        while len(pieces) > 1:
            best = min(pairwise(pieces), key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            pieces = _join(pieces, best)
        if pieces[-1] == END:
            return pieces[:-1]
        return [*pieces[:-1], pieces[-1].removesuffix(END)]


def _join(pieces: list[str], pair: tuple[str, ...]) -> list[str]:
    """Returns the pieces with all of one pair joined, from the left."""
    joined: list[str] = []
    place = 0
    while place < len(pieces):
        is_pair = tuple(pieces[place : place + 2]) == pair
        joined.append("".join(pair) if is_pair else pieces[place])
        place += 2 if is_pair else 1
    return joined
