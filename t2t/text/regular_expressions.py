"""Regular expressions as deterministic automata over the bytes of UTF-8.

A nondeterministic automaton (Thompson 1968, "Regular expression search algorithm") is built first and made
deterministic by the subset construction (Rabin and Scott 1959).

Over the ids of a vocabulary, the automaton over bytes reads the bytes that each id adds.

Legend: S states, V vocabulary, L longest piece in bytes.
"""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from t2t.errors import UserError
from t2t.specs import EOS_ID
from t2t.specs.constraints import DEAD, FiniteConstraint
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.text.expression_syntax import Characters, Choice, Node, Range, Repeat, Sequence, parse
from t2t.text.sentencepiece import ESCAPE, PIECE_MARKER, SentencePieceEncoder
from t2t.text.words import WordEncoder

MOST_STATES = 2048
"""Maximum states of a deterministic automaton; the nondeterministic one may have eight times as many."""

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


class _Parts:
    """A nondeterministic automaton over bytes."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[int, int, int]]] = []
        """Of each state: (first byte, last byte, next state) of each range of bytes."""
        self.free: list[list[int]] = []
        """Of each state: the states that follow without reading a byte."""

    def new(self) -> int:
        self.edges.append([])
        self.free.append([])
        if len(self.edges) > 8 * MOST_STATES:
            raise too_large()
        return len(self.edges) - 1

    def add(self, node: Node, start: int) -> int:
        """Adds the states that match a node after the state `start`; returns the state after the node."""
        if isinstance(node, Characters):
            return self._add_characters(node, start)
        if isinstance(node, Sequence):
            for part in node.parts:
                start = self.add(part, start)
            return start
        if isinstance(node, Choice):
            end = self.new()
            for part in node.parts:
                begin = self.new()
                self.free[start].append(begin)
                self.free[self.add(part, begin)].append(end)
            return end
        return self._add_repeat(node, start)

    def _add_characters(self, node: Characters, start: int) -> int:
        end = self.new()
        for ranges in (one for pair in node.ranges for one in byte_ranges(pair)):
            state = start
            for first, last in ranges[:-1]:
                after = self.new()
                self.edges[state].append((first, last, after))
                state = after
            self.edges[state].append((*ranges[-1], end))
        return end

    def _add_repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self.add(node.part, start)
        if node.most is None:
            loop, end = self.new(), self.new()
            self.free[start].append(loop)
            self.free[self.add(node.part, loop)].append(loop)
            self.free[loop].append(end)
            return end
        end = self.new()
        for _ in range(node.most - node.least):
            self.free[start].append(end)
            inside = self.new()
            self.free[start].append(inside)
            start = self.add(node.part, inside)
        self.free[start].append(end)
        return end

    def closure(self, states: frozenset[int]) -> frozenset[int]:
        """Returns these states and all that follow without reading a byte."""
        found, queue = set(states), list(states)
        while queue:
            for state in self.free[queue.pop()]:
                if state not in found:
                    found.add(state)
                    queue.append(state)
        return frozenset(found)


def byte_automaton(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Returns the next states, (S + 1, 256) int32, and which states are final, (S + 1,) bool.

    State 0 is the first one. State S is the dead one, which is never left.

    Raises:
        UserError: it is too large.
    """
    parts = _Parts()
    end = parts.add(node, parts.new())
    numbers = {parts.closure(frozenset([0])): 0}
    rows: list[np.ndarray] = []
    queue = list(numbers)
    for states in queue:  # which grows
        row = np.full(256, -1, np.int32)
        edges = [edge for state in states for edge in parts.edges[state]]
        starts = sorted({0, *(first for first, _, _ in edges), *(last + 1 for _, last, _ in edges)} - {256})
        for first, after_last in zip(starts, [*starts[1:], 256], strict=True):
            after = frozenset(state for begin, last, state in edges if begin <= first <= last)
            if after:
                closed = parts.closure(after)
                if closed not in numbers:
                    numbers[closed] = len(numbers)
                    queue.append(closed)
                row[first:after_last] = numbers[closed]
        rows.append(row)
        if len(numbers) > MOST_STATES:
            raise too_large()
    table = np.stack([*rows, np.full(256, -1, np.int32)])
    table[table < 0] = len(rows)
    return table, np.array([*(end in states for states in queue), False])


def too_large() -> UserError:
    """Returns the error for an automaton with too many states."""
    return UserError(
        f"regular expression: its automaton takes more than {MOST_STATES:,} states", "give one with fewer repetitions"
    )


def byte_ranges(characters: Range) -> Iterator[list[Range]]:
    """Yields sequences of byte ranges that together match the UTF-8 of a range of characters, each character once."""
    first, last = characters
    for end in _LAST_OF_LENGTH:
        if first <= min(last, end):
            yield from _of_one_length(chr(first).encode(), chr(min(last, end)).encode())
            first = max(first, end + 1)


def _of_one_length(first: bytes, last: bytes) -> Iterator[list[Range]]:
    """Yields the same for all UTF-8 sequences between two of one length."""
    if len(first) == 1 or first[0] == last[0]:
        rest = [[]] if len(first) == 1 else _of_one_length(first[1:], last[1:])
        yield from ([(first[0], last[0]), *others] for others in rest)
        return
    lowest, highest = b"\x80" * (len(first) - 1), b"\xbf" * (len(first) - 1)
    begin, end = first[0], last[0]
    if first[1:] != lowest:
        yield from ([(begin, begin), *others] for others in _of_one_length(first[1:], highest))
        begin += 1
    if last[1:] != highest:
        end -= 1
    if begin <= end:
        yield [(begin, end), *[(0x80, 0xBF)] * (len(first) - 1)]
    if last[1:] != highest:
        yield from ([(last[0], last[0]), *others] for others in _of_one_length(lowest, last[1:]))


MOST_CELLS = 2**24
"""Maximum of states times ids."""

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def regex_constraint(pattern: str, encoder: TextEncoder) -> FiniteConstraint:
    """Returns the constraint that the whole text of an output matches a regular expression, see `syntax`.

    Raises:
        UserError: the expression is invalid or too large, or this kind of vocabulary does not just concatenate pieces.
    """
    first, later = spellings(encoder)
    table, is_final = byte_automaton(parse(pattern))
    dead = len(table) - 1
    if len(table) * len(later) > MOST_CELLS:
        raise too_large()
    # State 0 is before the first id; state 1 + s is state s of the automaton over bytes.
    begin_V = _after(table, first, np.array([0]))[0]
    after_SV = _after(table, later, np.arange(dead))
    edges, defaults = [], []
    for row_V in (begin_V, *after_SV):
        row = np.where(row_V == dead, DEAD, row_V + 1)
        default = Counter(row[EOS_ID + 1 :].tolist()).most_common(1)[0][0]
        others = EOS_ID + 1 + np.flatnonzero(row[EOS_ID + 1 :] != default)
        edges.append(dict(zip(others.tolist(), row[others].tolist(), strict=True)))
        defaults.append(default)
    final = {1 + int(state) for state in np.flatnonzero(is_final)} | ({0} if is_final[0] else set())
    return FiniteConstraint(tuple(edges), tuple(defaults), frozenset(final))


def spellings(encoder: TextEncoder) -> tuple[list[bytes | None], list[bytes | None]]:
    """Returns the bytes that each id adds to a text, as its first id and as a later one; None if no text has the id.

    Raises:
        UserError: texts of this kind of vocabulary are not its pieces concatenated.
    """
    if isinstance(encoder, ByteEncoder):
        pieces: list[bytes | None] = [None] * 2
        pieces += [bytes([byte]) for byte in range(256)]
        return pieces, pieces
    numbers = range(encoder.vocab_size)
    if isinstance(encoder, WordEncoder):
        words = [
            None if number in (0, EOS_ID, encoder.unknown_id) else encoder.piece(number).encode() for number in numbers
        ]
        return words, [None if word is None else b" " + word for word in words]
    if isinstance(encoder, SentencePieceEncoder):
        later = [_sentencepiece(encoder.piece(number)) if number > 2 else None for number in numbers]
        marked = [encoder.piece(number).startswith(PIECE_MARKER) for number in numbers]
        return [piece[1:] if piece and mark else piece for piece, mark in zip(later, marked, strict=True)], later
    raise UserError(
        f"regex: texts of a vocabulary of kind {encoder.kind} are not its pieces one after the other",
        "those of byte, token, word_list and sentencepiece are",
    )


def _sentencepiece(piece: str) -> bytes | None:
    """Returns the bytes of a piece; None for a piece with an escape, which decodes to other text."""
    if found := _BYTE.fullmatch(piece):
        return bytes([int(found[1], 16)])
    return None if ESCAPE in piece else piece.replace(PIECE_MARKER, " ").encode()


def _after(table: np.ndarray, pieces: list[bytes | None], states: np.ndarray) -> np.ndarray:
    """Returns the state that each piece leads to from each of `states`, (S, V)."""
    dead = len(table) - 1
    lengths_V = np.array([0 if piece is None else len(piece) for piece in pieces])
    bytes_VL = np.zeros((len(pieces), int(lengths_V.max())), np.uint8)
    for row, piece in zip(bytes_VL, pieces, strict=True):
        row[: len(piece or b"")] = list(piece or b"")
    found_SV = np.repeat(states[:, None], len(pieces), axis=1)
    found_SV[:, [piece is None for piece in pieces]] = dead
    for column in range(bytes_VL.shape[1]):
        longer_V = np.flatnonzero(lengths_V > column)
        found_SV[:, longer_V] = table[found_SV[:, longer_V], bytes_VL[longer_V, column]]
    return found_SV
